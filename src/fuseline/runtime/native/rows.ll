; Short rows: several of them are one block for the body, so that a row costs no call of its own.

; %rows rows of %inner items. Operand i moves by %steps[i] bytes an item and by %row_steps[i] bytes a row. Operands that
; run on from row to row are used where they are; inputs that are the same in every row are laid out once; the others
; pass through packed blocks. Outputs that are used where they are may go past the caches. If rows are whole vectors and
; some operand runs across them, as a transpose does, the body is called for each row instead, and operands that are dense
; inside a row are used where they are.
define internal void @rows(ptr %k, ptr %args, ptr %steps, ptr %row_steps, i64 %inner, i64 %rows, i64 %flags, ptr %carries) nounwind {
entry:
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  ; A block has about 1,024 items, and where it can a whole number of vectors, so that blocks leave no tails.
  %wish = udiv i64 1024, %inner
  %groups = udiv i64 %wish, %lanes
  %grouped = mul i64 %groups, %lanes
  %can_group = icmp ne i64 %groups, 0
  %wish_rows = select i1 %can_group, i64 %grouped, i64 %wish
  %none = icmp eq i64 %wish_rows, 0
  %some_rows = select i1 %none, i64 1, i64 %wish_rows
  %few = icmp slt i64 %rows, %some_rows
  %block_rows = select i1 %few, i64 %rows, i64 %some_rows
  %block = mul i64 %block_rows, %inner
  %room = add i64 %block, %lanes
  %packed_bytes = shl i64 %room, 3
  %padded_bytes = shl i64 %lanes, 3
  %padded_total = mul i64 %padded_bytes, %nops
  %packed_total = mul i64 %packed_bytes, %nops
  %scratch_bytes = add i64 %padded_total, %packed_total
  %heap = call ptr @block_scratch(i64 %scratch_bytes)
  %stack_bytes = call i64 @stack_scratch(ptr %heap, i64 %scratch_bytes)
  %stack = alloca i8, i64 %stack_bytes, align 64
  %padded = call ptr @scratch(ptr %heap, ptr %stack)
  %packed = getelementptr i8, ptr %padded, i64 %padded_total
  %at = alloca ptr, i64 %nops, align 8
  %incs = alloca i64, i64 %nops, align 8
  ; 0 used in place, 1 the same in every row, 2 packed, 3 used in place a row at a time
  %kinds = alloca i8, i64 %nops, align 1
  %advances = alloca i64, i64 %nops, align 8
  %through_caches = and i64 %flags, 6
  %streams = and i64 %flags, 1
  %streaming = icmp ne i64 %streams, 0
  %row_rest = urem i64 %inner, %lanes
  %row_vectors = udiv i64 %inner, %lanes
  %whole_rows = icmp eq i64 %row_rest, 0
  %crossing = call i1 @is_crossing(ptr %steps, ptr %row_steps, i64 %nops)
  %by_row = and i1 %whole_rows, %crossing
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i_next, %look_next ]
  %past_caches = phi i1 [ %streaming, %entry ], [ %past_caches_next, %look_next ]
  %step_at = getelementptr i64, ptr %steps, i64 %i
  %step = load i64, ptr %step_at, align 8
  %row_step_at = getelementptr i64, ptr %row_steps, i64 %i
  %row_step = load i64, ptr %row_step_at, align 8
  %item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %i
  %item = load i64, ptr %item_at, align 8
  %vector_bytes = mul i64 %item, %lanes
  %inc_at = getelementptr i64, ptr %incs, i64 %i
  store i64 %vector_bytes, ptr %inc_at, align 8
  %kind_at = getelementptr i8, ptr %kinds, i64 %i
  %row_bytes = mul i64 %inner, %item
  %runs_on = icmp eq i64 %row_step, %row_bytes
  %dense = icmp eq i64 %step, %item
  %in_place = and i1 %runs_on, %dense
  %same_row = icmp eq i64 %row_step, 0
  %is_input = icmp slt i64 %i, %nin
  %repeats = and i1 %same_row, %is_input
  %row_in_place = and i1 %by_row, %dense
  %loose = select i1 %row_in_place, i8 3, i8 2
  %other = select i1 %repeats, i8 1, i8 %loose
  %kind = select i1 %in_place, i8 0, i8 %other
  store i8 %kind, ptr %kind_at, align 1
  %written_elsewhere = icmp uge i8 %kind, 1
  %is_output = xor i1 %is_input, true
  %not_past = and i1 %written_elsewhere, %is_output
  %may_be_past = xor i1 %not_past, true
  %past_caches_next = and i1 %past_caches, %may_be_past
  %by_row_step = icmp eq i8 %kind, 3
  %advance = select i1 %by_row_step, i64 %row_step, i64 %row_bytes
  %advance_at = getelementptr i64, ptr %advances, i64 %i
  store i64 %advance, ptr %advance_at, align 8
  %slot_offset = mul i64 %i, %packed_bytes
  %slot = getelementptr i8, ptr %packed, i64 %slot_offset
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at, align 8
  %lay_out = icmp eq i8 %kind, 1
  br i1 %lay_out, label %lay, label %look_next
lay:
  call void @pack_rows(ptr %slot, i64 %item, ptr %arg, i64 %step, i64 %row_step, i64 %inner, i64 %block_rows, i1 true)
  br label %look_next
look_next:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %look, label %blocks
blocks:
  %first = phi i64 [ 0, %look_next ], [ %first_next, %block_end ]
  %remaining = sub i64 %rows, %first
  %full = icmp sgt i64 %remaining, %block_rows
  %m = select i1 %full, i64 %block_rows, i64 %remaining
  br label %in
in:
  %j = phi i64 [ 0, %blocks ], [ %j_next, %in_next ]
  %j_kind_at = getelementptr i8, ptr %kinds, i64 %j
  %j_kind = load i8, ptr %j_kind_at, align 1
  %j_item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %j
  %j_item = load i64, ptr %j_item_at, align 8
  %j_step_at = getelementptr i64, ptr %steps, i64 %j
  %j_step = load i64, ptr %j_step_at, align 8
  %j_row_at = getelementptr i64, ptr %row_steps, i64 %j
  %j_row = load i64, ptr %j_row_at, align 8
  %j_arg_at = getelementptr ptr, ptr %args, i64 %j
  %j_arg = load ptr, ptr %j_arg_at, align 8
  %j_distance = mul i64 %j_row, %first
  %j_here = getelementptr i8, ptr %j_arg, i64 %j_distance
  %j_slot_offset = mul i64 %j, %packed_bytes
  %j_slot = getelementptr i8, ptr %packed, i64 %j_slot_offset
  %j_packed = icmp eq i8 %j_kind, 2
  %j_is_input = icmp slt i64 %j, %nin
  %j_reads = and i1 %j_packed, %j_is_input
  br i1 %j_reads, label %in_pack, label %in_next
in_pack:
  call void @pack_rows(ptr %j_slot, i64 %j_item, ptr %j_here, i64 %j_step, i64 %j_row, i64 %inner, i64 %m, i1 true)
  br label %in_next
in_next:
  %j_is_whole = icmp eq i8 %j_kind, 0
  %j_is_row = icmp eq i8 %j_kind, 3
  %j_in_place = or i1 %j_is_whole, %j_is_row
  %j_start = select i1 %j_in_place, ptr %j_here, ptr %j_slot
  %j_at = getelementptr ptr, ptr %at, i64 %j
  store ptr %j_start, ptr %j_at, align 8
  %j_next = add i64 %j, 1
  %j_more = icmp slt i64 %j_next, %nops
  br i1 %j_more, label %in, label %compute
compute:
  br i1 %by_row, label %each_row, label %together
each_row:
  %r = phi i64 [ 0, %compute ], [ %r_next, %each_row ]
  %body = load ptr, ptr %k, align 8
  call void %body(ptr %at, ptr %incs, i64 %row_vectors, i64 0)
  call void @advance(ptr %at, ptr %advances, i64 1, i64 %nops)
  %r_next = add i64 %r, 1
  %r_more = icmp slt i64 %r_next, %m
  br i1 %r_more, label %each_row, label %out
together:
  %count = mul i64 %m, %inner
  br i1 %past_caches_next, label %past, label %through
past:
  call void @past_caches(ptr %k, ptr %at, ptr %incs, i64 %count, ptr %padded, ptr %packed, i64 %room, ptr %carries)
  br label %out
through:
  call void @contiguous(ptr %k, ptr %at, ptr %incs, i64 %count, i64 %through_caches, ptr %padded)
  br label %out
out:
  %o = phi i64 [ %nin, %past ], [ %nin, %through ], [ %nin, %each_row ], [ %o_next, %out_next ]
  %o_kind_at = getelementptr i8, ptr %kinds, i64 %o
  %o_kind = load i8, ptr %o_kind_at, align 1
  %o_packed = icmp eq i8 %o_kind, 2
  br i1 %o_packed, label %out_unpack, label %out_next
out_unpack:
  %o_item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %o_item = load i64, ptr %o_item_at, align 8
  %o_step_at = getelementptr i64, ptr %steps, i64 %o
  %o_step = load i64, ptr %o_step_at, align 8
  %o_row_at = getelementptr i64, ptr %row_steps, i64 %o
  %o_row = load i64, ptr %o_row_at, align 8
  %o_arg_at = getelementptr ptr, ptr %args, i64 %o
  %o_arg = load ptr, ptr %o_arg_at, align 8
  %o_distance = mul i64 %o_row, %first
  %o_here = getelementptr i8, ptr %o_arg, i64 %o_distance
  %o_slot_offset = mul i64 %o, %packed_bytes
  %o_slot = getelementptr i8, ptr %packed, i64 %o_slot_offset
  call void @pack_rows(ptr %o_slot, i64 %o_item, ptr %o_here, i64 %o_step, i64 %o_row, i64 %inner, i64 %m, i1 false)
  br label %out_next
out_next:
  %o_next = add i64 %o, 1
  %o_more = icmp slt i64 %o_next, %nops
  br i1 %o_more, label %out, label %block_end
block_end:
  %first_next = add i64 %first, %m
  %blocks_more = icmp slt i64 %first_next, %rows
  br i1 %blocks_more, label %blocks, label %done
done:
  call void @free_scratch(ptr %heap)
  ret void
}

; %rows rows of %inner items between packed memory and rows %row_step apart; into packed memory when %inward. Where the
; spread side moves less from row to row than inside a row, it is followed down the columns, so that a cache line is
; visited once.
define internal void @pack_rows(ptr %slot, i64 %item, ptr %place, i64 %step, i64 %row_step, i64 %inner, i64 %rows, i1 %inward) nounwind {
entry:
  %row_bytes = mul i64 %inner, %item
  %still = icmp eq i64 %step, 0
  %repeats = and i1 %still, %inward
  br i1 %repeats, label %repeat, label %direction
repeat:
  call void @repeat_rows(ptr %slot, i64 %item, ptr %place, i64 %row_step, i64 %row_bytes, i64 %rows)
  br label %done
direction:
  %step_size = call i64 @llvm.abs.i64(i64 %step, i1 false)
  %row_step_size = call i64 @llvm.abs.i64(i64 %row_step, i1 false)
  %nearer = icmp ult i64 %row_step_size, %step_size
  %moves = icmp ne i64 %row_step, 0
  %down = and i1 %nearer, %moves
  ; Lines are rows or columns: how many, their length, and the steps on both sides along them and between them.
  %lines = select i1 %down, i64 %inner, i64 %rows
  %length = select i1 %down, i64 %rows, i64 %inner
  %packed_along = select i1 %down, i64 %row_bytes, i64 %item
  %packed_between = select i1 %down, i64 %item, i64 %row_bytes
  %spread_along = select i1 %down, i64 %row_step, i64 %step
  %spread_between = select i1 %down, i64 %step, i64 %row_step
  br label %line
line:
  %l = phi i64 [ 0, %direction ], [ %l_next, %line_end ]
  %packed = phi ptr [ %slot, %direction ], [ %packed_next, %line_end ]
  %spread = phi ptr [ %place, %direction ], [ %spread_next, %line_end ]
  br i1 %inward, label %in, label %out
in:
  call void @copy_items(ptr %packed, i64 %packed_along, ptr %spread, i64 %spread_along, i64 %length, i64 %item)
  br label %line_end
out:
  call void @copy_items(ptr %spread, i64 %spread_along, ptr %packed, i64 %packed_along, i64 %length, i64 %item)
  br label %line_end
line_end:
  %packed_next = getelementptr i8, ptr %packed, i64 %packed_between
  %spread_next = getelementptr i8, ptr %spread, i64 %spread_between
  %l_next = add i64 %l, 1
  %more = icmp slt i64 %l_next, %lines
  br i1 %more, label %line, label %done
done:
  ret void
}

declare i64 @llvm.abs.i64(i64, i1)

; %rows rows, each one item of %place repeated over %row_bytes. Rows are written 32 bytes at a time and end up to 31 bytes
; too far, into the next row, which is written later, or into the room behind the last.
define internal void @repeat_rows(ptr %slot, i64 %item, ptr %place, i64 %row_step, i64 %row_bytes, i64 %rows) nounwind {
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  %to = phi ptr [ %slot, %entry ], [ %to_next, %row_end ]
  %from = phi ptr [ %place, %entry ], [ %from_next, %row_end ]
  %wider = call <8 x i64> @repeated(ptr %from, i64 %item)
  %wide = shufflevector <8 x i64> %wider, <8 x i64> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  br label %write
write:
  %at = phi i64 [ 0, %row ], [ %at_next, %write ]
  %here = getelementptr i8, ptr %to, i64 %at
  store <4 x i64> %wide, ptr %here, align 1
  %at_next = add i64 %at, 32
  %more_bytes = icmp slt i64 %at_next, %row_bytes
  br i1 %more_bytes, label %write, label %row_end
row_end:
  %to_next = getelementptr i8, ptr %to, i64 %row_bytes
  %from_next = getelementptr i8, ptr %from, i64 %row_step
  %r_next = add i64 %r, 1
  %more = icmp slt i64 %r_next, %rows
  br i1 %more, label %row, label %done
done:
  ret void
}

; Whether some operand moves less from row to row than inside a row, so that it has to be packed whatever the others are.
define internal i1 @is_crossing(ptr %steps, ptr %row_steps, i64 %nops) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %step_at = getelementptr i64, ptr %steps, i64 %i
  %step = load i64, ptr %step_at, align 8
  %row_step_at = getelementptr i64, ptr %row_steps, i64 %i
  %row_step = load i64, ptr %row_step_at, align 8
  %step_size = call i64 @llvm.abs.i64(i64 %step, i1 false)
  %row_step_size = call i64 @llvm.abs.i64(i64 %row_step, i1 false)
  %moves = icmp ne i64 %row_step, 0
  %down = icmp ult i64 %row_step_size, %step_size
  %crosses = and i1 %moves, %down
  br i1 %crosses, label %yes, label %next
next:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %nops
  br i1 %more, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
