; One inner dimension of any kernel: `fl_block` brings operands into the form that a generated body wants.
;
; A body is void(ptr operands, ptr increments, i64 vectors, i64 flags). It runs `vectors` times over whole vectors of the
; kernel's lanes; operand i is contiguous there and moves by increments[i] bytes a vector (0: the same vector each time).
; flags bit 0: outputs are 64-byte aligned and are stored past the caches. Bit 2: the call's operands come from memory, so a
; body may ask for their lines ahead. A body reads a vector of every input before it writes any output, so an output may be
; the very memory of an input. Bit 1, which bodies do not see, says that no output is, as in all calls with bit 0: then a
; vector may be computed again, so that what is left of one needs no padding.
;
; A body of 0 lanes steps through its operands by their strides, an item a pass; it is called with them as they are.
;
; %kernel: 0 body, 1 lanes, 2 inputs, 3 operands (inputs and outputs), 4 compiler and 5 its argument (two Python objects), 6 an
; item size in bytes for each operand. The body is null until the compiler has been called.

%kernel = type { ptr, i64, i64, i64, ptr, ptr, [0 x i64] }

; Fewer items than a vector, by the same body: %n items at each of %at go through padded vectors in %scratch. Inputs whose
; increment is 0 are whole vectors already. The padding repeats the first item, so it can trap or trip nothing new.
define internal void @partial(ptr %k, ptr %at, ptr %incs, i64 %n, ptr %scratch) nounwind {
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
  %padded = call ptr @scratch(ptr %list_heap, ptr %list_stack)
  %slot_bytes = shl i64 %lanes, 3
  %missing = sub i64 %lanes, %n
  br label %fill
fill:
  %i = phi i64 [ 0, %entry ], [ %i_next, %fill_next ]
  %slot_offset = mul i64 %i, %slot_bytes
  %slot = getelementptr i8, ptr %scratch, i64 %slot_offset
  %p_at = getelementptr ptr, ptr %at, i64 %i
  %p = load ptr, ptr %p_at, align 8
  %inc_at = getelementptr i64, ptr %incs, i64 %i
  %inc = load i64, ptr %inc_at, align 8
  %whole = icmp eq i64 %inc, 0
  %place = select i1 %whole, ptr %p, ptr %slot
  %place_at = getelementptr ptr, ptr %padded, i64 %i
  store ptr %place, ptr %place_at, align 8
  %is_input = icmp slt i64 %i, %nin
  %wanted = xor i1 %whole, true
  %copies = and i1 %is_input, %wanted
  br i1 %copies, label %copy, label %fill_next
copy:
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %i
  %item = load i64, ptr %item_at, align 8
  %one = icmp eq i64 %n, 1
  br i1 %one, label %repeat, label %several
repeat:
  ; A register's load that finds several stores under it waits for all of them.
  call void @copy_items(ptr %slot, i64 %item, ptr %p, i64 0, i64 %lanes, i64 %item)
  br label %fill_next
several:
  call void @copy_items(ptr %slot, i64 %item, ptr %p, i64 %item, i64 %n, i64 %item)
  %used = mul i64 %n, %item
  %pad = getelementptr i8, ptr %slot, i64 %used
  call void @copy_items(ptr %pad, i64 %item, ptr %p, i64 0, i64 %missing, i64 %item)
  br label %fill_next
fill_next:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %fill, label %compute
compute:
  call void %body(ptr %padded, ptr %incs, i64 1, i64 0)
  br label %give
give:
  %o = phi i64 [ %nin, %compute ], [ %o_next, %give ]
  %out_at = getelementptr ptr, ptr %at, i64 %o
  %out = load ptr, ptr %out_at, align 8
  %result_at = getelementptr ptr, ptr %padded, i64 %o
  %result = load ptr, ptr %result_at, align 8
  %out_item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %out_item = load i64, ptr %out_item_at, align 8
  call void @copy_items(ptr %out, i64 %out_item, ptr %result, i64 %out_item, i64 %n, i64 %out_item)
  %o_next = add i64 %o, 1
  %o_more = icmp slt i64 %o_next, %nops
  br i1 %o_more, label %give, label %done
done:
  call void @free_scratch(ptr %list_heap)
  ret void
}

; Runs the body over contiguous (or repeated) operands at %at: whole vectors, then what is left. Moves %at.
define internal void @contiguous(ptr %k, ptr %at, ptr %incs, i64 %count, i64 %flags, ptr %scratch) nounwind {
entry:
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %body = load ptr, ptr %k, align 8
  %vectors = udiv i64 %count, %lanes
  %some = icmp ne i64 %vectors, 0
  br i1 %some, label %whole, label %tail
whole:
  %asks = and i64 %flags, 4
  call void %body(ptr %at, ptr %incs, i64 %vectors, i64 %asks)
  br label %tail
tail:
  %covered = mul i64 %vectors, %lanes
  %rest = sub i64 %count, %covered
  %left = icmp ne i64 %rest, 0
  br i1 %left, label %how, label %done
how:
  %apart_bit = and i64 %flags, 2
  %apart = icmp ne i64 %apart_bit, 0
  %again = and i1 %apart, %some
  br i1 %again, label %last_vector, label %last
last_vector:
  %last_start = sub i64 %count, %lanes
  call void @advance_items(ptr %at, ptr %incs, i64 %last_start, i64 %lanes, i64 %nops)
  call void %body(ptr %at, ptr %incs, i64 1, i64 0)
  br label %done
last:
  call void @advance(ptr %at, ptr %incs, i64 %vectors, i64 %nops)
  call void @partial(ptr %k, ptr %at, ptr %incs, i64 %rest, ptr %scratch)
  br label %done
done:
  ret void
}

; Moves each pointer of %at by %n items, of which %lanes make its increment.
define internal void @advance_items(ptr %at, ptr %incs, i64 %n, i64 %lanes, i64 %nops) nounwind {
entry:
  %shift = call i64 @llvm.cttz.i64(i64 %lanes, i1 true)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %loop ]
  %p_at = getelementptr ptr, ptr %at, i64 %i
  %p = load ptr, ptr %p_at, align 8
  %inc_at = getelementptr i64, ptr %incs, i64 %i
  %inc = load i64, ptr %inc_at, align 8
  %item = lshr i64 %inc, %shift
  %distance = mul i64 %item, %n
  %q = getelementptr i8, ptr %p, i64 %distance
  store ptr %q, ptr %p_at, align 8
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %loop, label %done
done:
  ret void
}

declare i64 @llvm.cttz.i64(i64, i1)

; %count items of every operand; operand i starts at %args[i] and moves by %steps[i] bytes, any step and any alignment. Runs
; past the caches leave parts of lines in %carries (streaming.ll); others need none.
define void @fl_block(ptr %k, ptr %args, ptr %steps, i64 %count, i64 %flags, ptr %carries) nounwind {
entry:
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  ; Strided operands pass through packed blocks: at most 256 items, and at most 128 KiB for all of them together.
  %fit = udiv i64 16384, %nops
  %large = icmp ugt i64 %fit, 256
  %wish = select i1 %large, i64 256, i64 %fit
  %wish_vectors = udiv i64 %wish, %lanes
  %wish_items = mul i64 %wish_vectors, %lanes
  %any = icmp ne i64 %wish_items, 0
  %block = select i1 %any, i64 %wish_items, i64 %lanes
  %packed_bytes = shl i64 %block, 3
  %padded_bytes = shl i64 %lanes, 3
  %padded_total = mul i64 %padded_bytes, %nops
  %packed_total = mul i64 %packed_bytes, %nops
  %block_bytes = add i64 %padded_total, %packed_total
  %pointers_bytes = shl i64 %nops, 3
  %lists_bytes = mul i64 %nops, 17
  %scratch_bytes = add i64 %block_bytes, %lists_bytes
  %heap = call ptr @block_scratch(i64 %scratch_bytes)
  %stack_bytes = call i64 @stack_scratch(ptr %heap, i64 %scratch_bytes)
  %stack = alloca i8, i64 %stack_bytes, align 64
  %padded = call ptr @scratch(ptr %heap, ptr %stack)
  %packed = getelementptr i8, ptr %padded, i64 %padded_total
  %at = getelementptr i8, ptr %packed, i64 %packed_total
  %incs = getelementptr i8, ptr %at, i64 %pointers_bytes
  %is_packed = getelementptr i8, ptr %incs, i64 %pointers_bytes
  %one = icmp eq i64 %count, 1
  %positive = icmp sgt i64 %count, 0
  br i1 %positive, label %look, label %done
look:
  %i = phi i64 [ 0, %entry ], [ %i_next, %look_next ]
  %strided = phi i8 [ 0, %entry ], [ %strided_next, %look_next ]
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at, align 8
  %step_at = getelementptr i64, ptr %steps, i64 %i
  %step = load i64, ptr %step_at, align 8
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %i
  %item = load i64, ptr %item_at, align 8
  %vector_bytes = mul i64 %item, %lanes
  %slot_offset = mul i64 %i, %packed_bytes
  %slot = getelementptr i8, ptr %packed, i64 %slot_offset
  %dense = icmp eq i64 %step, %item
  %single = or i1 %dense, %one
  br i1 %single, label %look_next, label %not_dense
not_dense:
  %still = icmp eq i64 %step, 0
  %is_input = icmp slt i64 %i, %nin
  %repeats = and i1 %still, %is_input
  br i1 %repeats, label %repeat, label %look_next
repeat:
  call void @copy_items(ptr %slot, i64 %item, ptr %arg, i64 0, i64 %lanes, i64 %item)
  br label %look_next
look_next:
  %inc = phi i64 [ %vector_bytes, %look ], [ %vector_bytes, %not_dense ], [ 0, %repeat ]
  %pack = phi i8 [ 0, %look ], [ 1, %not_dense ], [ 0, %repeat ]
  %start = phi ptr [ %arg, %look ], [ %slot, %not_dense ], [ %slot, %repeat ]
  %at_at = getelementptr ptr, ptr %at, i64 %i
  store ptr %start, ptr %at_at, align 8
  %inc_at = getelementptr i64, ptr %incs, i64 %i
  store i64 %inc, ptr %inc_at, align 8
  %pack_at = getelementptr i8, ptr %is_packed, i64 %i
  store i8 %pack, ptr %pack_at, align 1
  %strided_next = or i8 %strided, %pack
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %look, label %looked
looked:
  %none_strided = icmp eq i8 %strided_next, 0
  br i1 %none_strided, label %straight, label %blocks
straight:
  %streams = and i64 %flags, 1
  %streaming = icmp ne i64 %streams, 0
  br i1 %streaming, label %stream, label %run
stream:
  call void @past_caches(ptr %k, ptr %at, ptr %incs, i64 %count, ptr %padded, ptr %packed, i64 %block, ptr %carries)
  br label %done
run:
  %run_flags = and i64 %flags, 6
  call void @contiguous(ptr %k, ptr %at, ptr %incs, i64 %count, i64 %run_flags, ptr %padded)
  br label %done
blocks:
  %first = phi i64 [ 0, %looked ], [ %first_next, %block_end ]
  %remaining = sub i64 %count, %first
  %full = icmp sgt i64 %remaining, %block
  %m = select i1 %full, i64 %block, i64 %remaining
  call void @restart(ptr %k, ptr %args, ptr %at, ptr %incs, ptr %is_packed, i64 %first)
  call void @move_packed(ptr %k, ptr %args, ptr %steps, ptr %is_packed, ptr %packed, i64 %packed_bytes, i64 %first, i64 %m, i64 0, i64 %nin)
  call void @place_packed(ptr %at, ptr %is_packed, ptr %packed, i64 %packed_bytes, i64 %nops)
  %block_flags = and i64 %flags, 2
  call void @contiguous(ptr %k, ptr %at, ptr %incs, i64 %m, i64 %block_flags, ptr %padded)
  call void @move_packed(ptr %k, ptr %args, ptr %steps, ptr %is_packed, ptr %packed, i64 %packed_bytes, i64 %first, i64 %m, i64 %nin, i64 %nops)
  br label %block_end
block_end:
  %first_next = add i64 %first, %m
  %blocks_more = icmp slt i64 %first_next, %count
  br i1 %blocks_more, label %blocks, label %done
done:
  call void @free_scratch(ptr %heap)
  ret void
}

; Memory for vectors and blocks.
define internal ptr @block_scratch(i64 %bytes) nounwind alwaysinline {
  %memory = call ptr @heap_scratch(i64 %bytes, i64 24576)
  ret ptr %memory
}

; Memory on the stack (null) up to %most bytes, else from elsewhere (reserve.ll), because a thread may have no more than
; 64 KiB of stack.
define internal ptr @heap_scratch(i64 %bytes, i64 %most) nounwind alwaysinline {
entry:
  %small = icmp ule i64 %bytes, %most
  br i1 %small, label %none, label %get
get:
  %with_margin = add i64 %bytes, 64
  %memory = call ptr @fl_take(i64 %with_margin)
  br label %none
none:
  %found = phi ptr [ null, %entry ], [ %memory, %get ]
  ret ptr %found
}

define internal i64 @stack_scratch(ptr %heap, i64 %bytes) nounwind alwaysinline {
  %none = icmp eq ptr %heap, null
  %needed = select i1 %none, i64 %bytes, i64 0
  ret i64 %needed
}

define internal ptr @scratch(ptr %heap, ptr %stack) nounwind alwaysinline {
  %on_stack = icmp eq ptr %heap, null
  %beyond = getelementptr i8, ptr %heap, i64 63
  %aligned = call ptr @llvm.ptrmask.p0.i64(ptr %beyond, i64 -64)
  %memory = select i1 %on_stack, ptr %stack, ptr %aligned
  ret ptr %memory
}

define internal void @free_scratch(ptr %heap) nounwind alwaysinline {
entry:
  %none = icmp eq ptr %heap, null
  br i1 %none, label %done, label %free
free:
  call void @fl_give(ptr %heap)
  br label %done
done:
  ret void
}

; Points contiguous operands at item %first; repeated and packed ones stay where they are.
define internal void @restart(ptr %k, ptr %args, ptr %at, ptr %incs, ptr %is_packed, i64 %first) nounwind {
entry:
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %inc_at = getelementptr i64, ptr %incs, i64 %i
  %inc = load i64, ptr %inc_at, align 8
  %pack_at = getelementptr i8, ptr %is_packed, i64 %i
  %pack = load i8, ptr %pack_at, align 1
  %moves = icmp ne i64 %inc, 0
  %loose = icmp eq i8 %pack, 0
  %contiguous = and i1 %moves, %loose
  br i1 %contiguous, label %point, label %next
point:
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at, align 8
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %i
  %item = load i64, ptr %item_at, align 8
  %distance = mul i64 %item, %first
  %p = getelementptr i8, ptr %arg, i64 %distance
  %at_at = getelementptr ptr, ptr %at, i64 %i
  store ptr %p, ptr %at_at, align 8
  br label %next
next:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Points packed operands at their slots.
define internal void @place_packed(ptr %at, ptr %is_packed, ptr %packed, i64 %packed_bytes, i64 %nops) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %pack_at = getelementptr i8, ptr %is_packed, i64 %i
  %pack = load i8, ptr %pack_at, align 1
  %loose = icmp eq i8 %pack, 0
  br i1 %loose, label %next, label %point
point:
  %slot_offset = mul i64 %i, %packed_bytes
  %slot = getelementptr i8, ptr %packed, i64 %slot_offset
  %at_at = getelementptr ptr, ptr %at, i64 %i
  store ptr %slot, ptr %at_at, align 8
  br label %next
next:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Operands %from_op up to %to_op that are packed: %m items from item %first, into the slots (inputs) or out of them.
define internal void @move_packed(ptr %k, ptr %args, ptr %steps, ptr %is_packed, ptr %packed, i64 %packed_bytes, i64 %first, i64 %m, i64 %from_op, i64 %to_op) nounwind {
entry:
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %any = icmp slt i64 %from_op, %to_op
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %from_op, %entry ], [ %i_next, %next ]
  %pack_at = getelementptr i8, ptr %is_packed, i64 %i
  %pack = load i8, ptr %pack_at, align 1
  %loose = icmp eq i8 %pack, 0
  br i1 %loose, label %next, label %move
move:
  %slot_offset = mul i64 %i, %packed_bytes
  %slot = getelementptr i8, ptr %packed, i64 %slot_offset
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at, align 8
  %step_at = getelementptr i64, ptr %steps, i64 %i
  %step = load i64, ptr %step_at, align 8
  %distance = mul i64 %step, %first
  %p = getelementptr i8, ptr %arg, i64 %distance
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %i
  %item = load i64, ptr %item_at, align 8
  %is_input = icmp slt i64 %i, %nin
  br i1 %is_input, label %in, label %out
in:
  call void @copy_items(ptr %slot, i64 %item, ptr %p, i64 %step, i64 %m, i64 %item)
  br label %next
out:
  call void @copy_items(ptr %p, i64 %step, ptr %slot, i64 %item, i64 %m, i64 %item)
  br label %next
next:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %to_op
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Makes a compiled body visible to other threads together with the rest of the record.
define void @fl_publish(ptr %k, ptr %body) nounwind {
  store atomic ptr %body, ptr %k release, align 8
  ret void
}
