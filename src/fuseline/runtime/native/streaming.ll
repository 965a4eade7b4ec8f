; Stores past the caches: which part of a contiguous run is stored so, and what happens at its ends. Results that no cache
; would hold until they are read need not be fetched before they are overwritten.

; How many items until every output stands on a 64-byte border; -1 where they never do together.
define internal i64 @items_to_border(ptr %k, ptr %at) nounwind {
entry:
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  br label %loop
loop:
  %o = phi i64 [ %nin, %entry ], [ %o_next, %next ]
  %known = phi i64 [ -1, %entry ], [ %items, %next ]
  %p_at = getelementptr ptr, ptr %at, i64 %o
  %p = load ptr, ptr %p_at, align 8
  %address = ptrtoint ptr %p to i64
  %back = sub i64 0, %address
  %bytes = and i64 %back, 63
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %item = load i64, ptr %item_at, align 8
  %items = udiv i64 %bytes, %item
  %rest = urem i64 %bytes, %item
  %whole = icmp eq i64 %rest, 0
  %first = icmp eq i64 %known, -1
  %agrees = icmp eq i64 %known, %items
  %first_or_agrees = or i1 %first, %agrees
  %good = and i1 %whole, %first_or_agrees
  br i1 %good, label %next, label %never
next:
  %o_next = add i64 %o, 1
  %more = icmp slt i64 %o_next, %nops
  br i1 %more, label %loop, label %done
never:
  ret i64 -1
done:
  ret i64 %items
}

; A part of a cache line that waits for its rest, which most often is the beginning of the next row: 0 the line's bytes, 1
; its address (null: no part), the part's 2 first byte and 3 the one behind its last; 4 fills up to whole lines.
%carry = type { [64 x i8], ptr, i64, i64, [40 x i8] }

; Writes %n bytes past the caches as far as they fill lines, together with what the carry has; what does not fill one is
; left in the carry.
define internal void @put(ptr %carry, ptr %to0, ptr %from0, i64 %n) nounwind {
entry:
  %address_at = getelementptr %carry, ptr %carry, i64 0, i32 1
  %first_at = getelementptr %carry, ptr %carry, i64 0, i32 2
  %end_at = getelementptr %carry, ptr %carry, i64 0, i32 3
  br label %next
next:
  %to = phi ptr [ %to0, %entry ], [ %to_next, %moved ]
  %from = phi ptr [ %from0, %entry ], [ %from_next, %moved ]
  %left = phi i64 [ %n, %entry ], [ %left_next, %moved ]
  %line = call ptr @llvm.ptrmask.p0.i64(ptr %to, i64 -64)
  %address = ptrtoint ptr %to to i64
  %offset = and i64 %address, 63
  %room = sub i64 64, %offset
  %m = call i64 @llvm.umin.i64(i64 %room, i64 %left)
  %whole = icmp eq i64 %m, 64
  br i1 %whole, label %direct, label %part
direct:
  %bytes = load <16 x i32>, ptr %from, align 1
  store <16 x i32> %bytes, ptr %to, align 64, !nontemporal !0
  br label %moved
part:
  %held = load ptr, ptr %address_at, align 8
  %held_end = load i64, ptr %end_at, align 8
  %same_line = icmp eq ptr %held, %line
  %joins = icmp eq i64 %held_end, %offset
  %continues = and i1 %same_line, %joins
  br i1 %continues, label %add, label %begin
begin:
  call void @flush(ptr %carry)
  store ptr %line, ptr %address_at, align 8
  store i64 %offset, ptr %first_at, align 8
  br label %add
add:
  %place = getelementptr i8, ptr %carry, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %from, i64 %m, i1 false)
  %end = add i64 %offset, %m
  store i64 %end, ptr %end_at, align 8
  %over = icmp eq i64 %end, 64
  br i1 %over, label %complete, label %moved
complete:
  %first = load i64, ptr %first_at, align 8
  %from_start = icmp eq i64 %first, 0
  br i1 %from_start, label %store, label %give_up
store:
  %all = load <16 x i32>, ptr %carry, align 64
  store <16 x i32> %all, ptr %line, align 64, !nontemporal !0
  store ptr null, ptr %address_at, align 8
  br label %moved
give_up:
  call void @flush(ptr %carry)
  br label %moved
moved:
  %to_next = getelementptr i8, ptr %to, i64 %m
  %from_next = getelementptr i8, ptr %from, i64 %m
  %left_next = sub i64 %left, %m
  %more = icmp ne i64 %left_next, 0
  br i1 %more, label %next, label %done
done:
  ret void
}

!0 = !{i32 1}

; Writes what a carry has where it belongs, through the caches.
define internal void @flush(ptr %carry) nounwind {
entry:
  %address_at = getelementptr %carry, ptr %carry, i64 0, i32 1
  %line = load ptr, ptr %address_at, align 8
  %nothing = icmp eq ptr %line, null
  br i1 %nothing, label %done, label %write
write:
  %first_at = getelementptr %carry, ptr %carry, i64 0, i32 2
  %first = load i64, ptr %first_at, align 8
  %end_at = getelementptr %carry, ptr %carry, i64 0, i32 3
  %end = load i64, ptr %end_at, align 8
  %n = sub i64 %end, %first
  %to = getelementptr i8, ptr %line, i64 %first
  %from = getelementptr i8, ptr %carry, i64 %first
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  store ptr null, ptr %address_at, align 8
  br label %done
done:
  ret void
}

; The carries of all operands, of which inputs use none: empty, or written where they belong.
define internal void @each_carry(ptr %carries, i64 %nops, i1 %begins) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %carry = getelementptr %carry, ptr %carries, i64 %i
  br i1 %begins, label %empty, label %write
empty:
  %address_at = getelementptr %carry, ptr %carry, i64 0, i32 1
  store ptr null, ptr %address_at, align 8
  br label %next
write:
  call void @flush(ptr %carry)
  br label %next
next:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Items %from up to %from + %n of %count, at least a vector, where outputs share no memory with inputs: vectors that lie
; inside the %count items are computed into slots of %slot_items, at least a vector, and what was asked for goes on to the
; outputs' carries. Leaves %at as it was.
define internal void @by_slots(ptr %k, ptr %at, ptr %incs, i64 %from, i64 %n, i64 %count, ptr %slots, i64 %slot_items, ptr %carries) nounwind {
entry:
  %body = load ptr, ptr %k, align 8
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %list_bytes = shl i64 %nops, 3
  %list_heap = call ptr @heap_scratch(i64 %list_bytes, i64 4096)
  %list_stack_bytes = call i64 @stack_scratch(ptr %list_heap, i64 %list_bytes)
  %list_stack = alloca i8, i64 %list_stack_bytes, align 64
  %there = call ptr @scratch(ptr %list_heap, ptr %list_stack)
  %slot_bytes = shl i64 %slot_items, 3
  br label %slot_full
slot_full:
  %done_items = phi i64 [ 0, %entry ], [ %done_more, %given ]
  %left = sub i64 %n, %done_items
  %fits = call i64 @llvm.umin.i64(i64 %left, i64 %slot_items)
  %whole_vectors = udiv i64 %fits, %lanes
  %vectors = call i64 @llvm.umax.i64(i64 %whole_vectors, i64 1)
  %items = mul i64 %vectors, %lanes
  %m = call i64 @llvm.umin.i64(i64 %left, i64 %items)
  %last = sub i64 %count, %items
  %wanted = add i64 %from, %done_items
  %first = call i64 @llvm.umin.i64(i64 %wanted, i64 %last)
  %skipped = sub i64 %wanted, %first
  call void @copy_items(ptr %there, i64 8, ptr %at, i64 8, i64 %nops, i64 8)
  call void @advance_items(ptr %there, ptr %incs, i64 %first, i64 %lanes, i64 %nops)
  br label %aside
aside:
  %a = phi i64 [ %nin, %slot_full ], [ %a_next, %aside ]
  %slot_offset = mul i64 %a, %slot_bytes
  %slot = getelementptr i8, ptr %slots, i64 %slot_offset
  %there_at = getelementptr ptr, ptr %there, i64 %a
  store ptr %slot, ptr %there_at, align 8
  %a_next = add i64 %a, 1
  %a_more = icmp slt i64 %a_next, %nops
  br i1 %a_more, label %aside, label %compute
compute:
  call void %body(ptr %there, ptr %incs, i64 %vectors, i64 4)
  br label %give
give:
  %o = phi i64 [ %nin, %compute ], [ %o_next, %give ]
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %item = load i64, ptr %item_at, align 8
  %out_at = getelementptr ptr, ptr %at, i64 %o
  %out = load ptr, ptr %out_at, align 8
  %out_offset = mul i64 %item, %wanted
  %to = getelementptr i8, ptr %out, i64 %out_offset
  %result_at = getelementptr ptr, ptr %there, i64 %o
  %result = load ptr, ptr %result_at, align 8
  %result_offset = mul i64 %item, %skipped
  %source = getelementptr i8, ptr %result, i64 %result_offset
  %bytes = mul i64 %m, %item
  %carry = getelementptr %carry, ptr %carries, i64 %o
  call void @put(ptr %carry, ptr %to, ptr %source, i64 %bytes)
  %o_next = add i64 %o, 1
  %o_more = icmp slt i64 %o_next, %nops
  br i1 %o_more, label %give, label %given
given:
  %done_more = add i64 %done_items, %m
  %more = icmp slt i64 %done_more, %n
  br i1 %more, label %slot_full, label %done
done:
  call void @free_scratch(ptr %list_heap)
  ret void
}

; Runs the body over contiguous (or repeated) operands at %at past the caches; outputs share no memory with inputs. Whole
; cache lines are stored by the body; what is left at either end goes to the carries. Ordinary stores there would have to
; fetch their line from memory, and hold up those behind them. Outputs that never begin a line together, or too late, are
; computed into slots of %slot_items at %slots, where those of outputs are free, and go on line by line. Leaves %at as it was.
define internal void @past_caches(ptr %k, ptr %at, ptr %incs, i64 %count, ptr %scratch, ptr %slots, i64 %slot_items, ptr %carries) nounwind {
entry:
  %body = load ptr, ptr %k, align 8
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %list_bytes = shl i64 %nops, 3
  %list_heap = call ptr @heap_scratch(i64 %list_bytes, i64 4096)
  %list_stack_bytes = call i64 @stack_scratch(ptr %list_heap, i64 %list_bytes)
  %list_stack = alloca i8, i64 %list_stack_bytes, align 64
  %there = call ptr @scratch(ptr %list_heap, ptr %list_stack)
  call void @copy_items(ptr %there, i64 8, ptr %at, i64 8, i64 %nops, i64 8)
  %head = call i64 @items_to_border(ptr %k, ptr %at)
  %reachable = icmp ult i64 %head, %count
  %line = call i64 @line_items(ptr %k)
  %unit = call i64 @llvm.umax.i64(i64 %lanes, i64 %line)
  %behind = sub i64 %count, %head
  %units = udiv i64 %behind, %unit
  %lines = mul i64 %units, %unit
  %any = icmp ne i64 %units, 0
  %pays = and i1 %reachable, %any
  br i1 %pays, label %ends, label %not_together
not_together:
  %enough = icmp uge i64 %count, %lanes
  br i1 %enough, label %staged, label %all
staged:
  call void @by_slots(ptr %k, ptr %at, ptr %incs, i64 0, i64 %count, i64 %count, ptr %slots, i64 %slot_items, ptr %carries)
  br label %done
all:
  call void @contiguous(ptr %k, ptr %there, ptr %incs, i64 %count, i64 2, ptr %scratch)
  br label %done
ends:
  %has_head = icmp ne i64 %head, 0
  br i1 %has_head, label %first, label %middle
first:
  call void @by_slots(ptr %k, ptr %at, ptr %incs, i64 0, i64 %head, i64 %count, ptr %scratch, i64 %lanes, ptr %carries)
  br label %middle
middle:
  call void @advance_items(ptr %there, ptr %incs, i64 %head, i64 %lanes, i64 %nops)
  %vectors = udiv i64 %lines, %lanes
  call void %body(ptr %there, ptr %incs, i64 %vectors, i64 5)
  %rest = sub i64 %behind, %lines
  %has_rest = icmp ne i64 %rest, 0
  br i1 %has_rest, label %last, label %done
last:
  %rest_start = sub i64 %count, %rest
  call void @by_slots(ptr %k, ptr %at, ptr %incs, i64 %rest_start, i64 %rest, i64 %count, ptr %scratch, i64 %lanes, ptr %carries)
  br label %done
done:
  call void @free_scratch(ptr %list_heap)
  ret void
}

; How many items of the smallest output fill a cache line; of a larger one they fill several.
define internal i64 @line_items(ptr %k) nounwind {
entry:
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  br label %loop
loop:
  %o = phi i64 [ %nin, %entry ], [ %o_next, %loop ]
  %least = phi i64 [ 8, %entry ], [ %smaller, %loop ]
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %item = load i64, ptr %item_at, align 8
  %smaller = call i64 @llvm.umin.i64(i64 %least, i64 %item)
  %o_next = add i64 %o, 1
  %more = icmp slt i64 %o_next, %nops
  br i1 %more, label %loop, label %done
done:
  %items = udiv i64 64, %smaller
  ret i64 %items
}
