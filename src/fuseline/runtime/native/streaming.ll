; Stores past the caches: which part of a contiguous run is stored so, and what happens at its ends. Results that no cache
; would hold until they are read need not be fetched before they are overwritten.

declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

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

; Items %from up to %from + %n of %count, at least a vector, where outputs share no memory with inputs. No byte of outputs
; outside these items is written. Leaves %at as it was.
define internal void @edge(ptr %k, ptr %at, ptr %incs, i64 %from, i64 %n, i64 %count, ptr %scratch) nounwind {
entry:
  %body = load ptr, ptr %k, align 8
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %there = alloca ptr, i64 %nops, align 8
  call void @copy_items(ptr %there, i64 8, ptr %at, i64 8, i64 %nops, i64 8)
  %few = icmp slt i64 %n, %lanes
  br i1 %few, label %vector, label %several
several:
  call void @advance_items(ptr %there, ptr %incs, i64 %from, i64 %lanes, i64 %nops)
  call void @contiguous(ptr %k, ptr %there, ptr %incs, i64 %n, i64 2, ptr %scratch)
  ret void
vector:
  ; A vector that lies inside the %count items and holds them all, computed into the scratch.
  %last = sub i64 %count, %lanes
  %first = call i64 @llvm.umin.i64(i64 %from, i64 %last)
  %skipped = sub i64 %from, %first
  call void @advance_items(ptr %there, ptr %incs, i64 %first, i64 %lanes, i64 %nops)
  %slot_bytes = shl i64 %lanes, 3
  br label %aside
aside:
  %a = phi i64 [ %nin, %vector ], [ %a_next, %aside ]
  %slot_offset = mul i64 %a, %slot_bytes
  %slot = getelementptr i8, ptr %scratch, i64 %slot_offset
  %there_at = getelementptr ptr, ptr %there, i64 %a
  store ptr %slot, ptr %there_at, align 8
  %a_next = add i64 %a, 1
  %a_more = icmp slt i64 %a_next, %nops
  br i1 %a_more, label %aside, label %compute
compute:
  call void %body(ptr %there, ptr %incs, i64 1, i64 0)
  br label %give
give:
  %o = phi i64 [ %nin, %compute ], [ %o_next, %give ]
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %item = load i64, ptr %item_at, align 8
  %out_at = getelementptr ptr, ptr %at, i64 %o
  %out = load ptr, ptr %out_at, align 8
  %out_offset = mul i64 %item, %from
  %to = getelementptr i8, ptr %out, i64 %out_offset
  %result_at = getelementptr ptr, ptr %there, i64 %o
  %result = load ptr, ptr %result_at, align 8
  %result_offset = mul i64 %item, %skipped
  %wanted = getelementptr i8, ptr %result, i64 %result_offset
  call void @copy_items(ptr %to, i64 %item, ptr %wanted, i64 %item, i64 %n, i64 %item)
  %o_next = add i64 %o, 1
  %o_more = icmp slt i64 %o_next, %nops
  br i1 %o_more, label %give, label %done
done:
  ret void
}

; Runs the body over contiguous (or repeated) operands at %at past the caches; outputs share no memory with inputs. Only
; whole cache lines of every output are stored so. What is left at either end goes through the caches and touches none of
; those lines: a line that is written both ways goes to memory and is read back in between. Leaves %at as it was.
define internal void @past_caches(ptr %k, ptr %at, ptr %incs, i64 %count, ptr %scratch) nounwind {
entry:
  %body = load ptr, ptr %k, align 8
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %head = call i64 @items_to_border(ptr %k, ptr %at)
  %reachable = icmp ult i64 %head, %count
  %line = call i64 @line_items(ptr %k)
  %unit = call i64 @llvm.umax.i64(i64 %lanes, i64 %line)
  %behind = sub i64 %count, %head
  %units = udiv i64 %behind, %unit
  %lines = mul i64 %units, %unit
  %any = icmp ne i64 %units, 0
  %pays = and i1 %reachable, %any
  br i1 %pays, label %ends, label %all
all:
  call void @contiguous(ptr %k, ptr %at, ptr %incs, i64 %count, i64 2, ptr %scratch)
  ret void
ends:
  %rest = sub i64 %behind, %lines
  %rest_start = sub i64 %count, %rest
  %has_rest = icmp ne i64 %rest, 0
  br i1 %has_rest, label %fetch, label %look
fetch:
  ; Ordinary stores that wait for their line hold up those behind them.
  call void @fetch_outputs(ptr %k, ptr %at, i64 %rest_start)
  br label %look
look:
  %has_head = icmp ne i64 %head, 0
  br i1 %has_head, label %first, label %middle
first:
  call void @edge(ptr %k, ptr %at, ptr %incs, i64 0, i64 %head, i64 %count, ptr %scratch)
  br label %middle
middle:
  %there = alloca ptr, i64 %nops, align 8
  call void @copy_items(ptr %there, i64 8, ptr %at, i64 8, i64 %nops, i64 8)
  call void @advance_items(ptr %there, ptr %incs, i64 %head, i64 %lanes, i64 %nops)
  %vectors = udiv i64 %lines, %lanes
  call void %body(ptr %there, ptr %incs, i64 %vectors, i64 1)
  br i1 %has_rest, label %last, label %done
last:
  call void @edge(ptr %k, ptr %at, ptr %incs, i64 %rest_start, i64 %rest, i64 %count, ptr %scratch)
  br label %done
done:
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

; Asks for the cache line of item %i of every output, to be written.
define internal void @fetch_outputs(ptr %k, ptr %at, i64 %i) nounwind {
entry:
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  br label %loop
loop:
  %o = phi i64 [ %nin, %entry ], [ %o_next, %loop ]
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %item = load i64, ptr %item_at, align 8
  %out_at = getelementptr ptr, ptr %at, i64 %o
  %out = load ptr, ptr %out_at, align 8
  %distance = mul i64 %item, %i
  %p = getelementptr i8, ptr %out, i64 %distance
  call void @llvm.prefetch.p0(ptr %p, i32 1, i32 3, i32 1)
  %o_next = add i64 %o, 1
  %more = icmp slt i64 %o_next, %nops
  br i1 %more, label %loop, label %done
done:
  ret void
}
