; What calls blocks: NumPy's ufunc machinery (fl_ufunc_loop) and fuseline's own iteration over a loop nest, whose tiles are
; shared out between the caller and the waiting threads of a pool (pool.ll).

declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare ptr @PyErr_Occurred()

; ---------------------------------------------------------------------------------------------------- the ufunc's loop

; True where an output shares memory with an input other than as the same items: NumPy does that only for reduce and
; accumulate, whose items depend on each other in order.
define internal i1 @is_chain(ptr %k, ptr %args, ptr %steps, i64 %count) nounwind {
entry:
  %nin_at = getelementptr %kernel, ptr %k, i64 0, i32 2
  %nin = load i64, ptr %nin_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %no_inputs = icmp eq i64 %nin, 0
  %last_index = sub i64 %count, 1
  br i1 %no_inputs, label %no, label %outputs
outputs:
  %o = phi i64 [ %nin, %entry ], [ %o_next, %output_end ]
  %out_at = getelementptr ptr, ptr %args, i64 %o
  %out = load i64, ptr %out_at, align 8
  %out_step_at = getelementptr i64, ptr %steps, i64 %o
  %out_step = load i64, ptr %out_step_at, align 8
  %out_item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %o
  %out_item = load i64, ptr %out_item_at, align 8
  %out_span = mul i64 %out_step, %last_index
  %out_other = add i64 %out, %out_span
  %out_low = call i64 @llvm.umin.i64(i64 %out, i64 %out_other)
  %out_top = call i64 @llvm.umax.i64(i64 %out, i64 %out_other)
  %out_high = add i64 %out_top, %out_item
  br label %inputs
inputs:
  %i = phi i64 [ 0, %outputs ], [ %i_next, %input_end ]
  %in_at = getelementptr ptr, ptr %args, i64 %i
  %in = load i64, ptr %in_at, align 8
  %in_step_at = getelementptr i64, ptr %steps, i64 %i
  %in_step = load i64, ptr %in_step_at, align 8
  %in_item_at = getelementptr %kernel, ptr %k, i64 0, i32 6, i64 %i
  %in_item = load i64, ptr %in_item_at, align 8
  %in_span = mul i64 %in_step, %last_index
  %in_other = add i64 %in, %in_span
  %in_low = call i64 @llvm.umin.i64(i64 %in, i64 %in_other)
  %in_top = call i64 @llvm.umax.i64(i64 %in, i64 %in_other)
  %in_high = add i64 %in_top, %in_item
  %before = icmp ule i64 %out_high, %in_low
  %after = icmp ule i64 %in_high, %out_low
  %apart = or i1 %before, %after
  %same_start = icmp eq i64 %in, %out
  %same_step = icmp eq i64 %in_step, %out_step
  %same_item = icmp eq i64 %in_item, %out_item
  %moves = icmp ne i64 %out_step, 0
  %same0 = and i1 %same_start, %same_step
  %same1 = and i1 %same0, %same_item
  %same = and i1 %same1, %moves
  %harmless = or i1 %apart, %same
  br i1 %harmless, label %input_end, label %yes
input_end:
  %i_next = add i64 %i, 1
  %more_inputs = icmp slt i64 %i_next, %nin
  br i1 %more_inputs, label %inputs, label %output_end
output_end:
  %o_next = add i64 %o, 1
  %more_outputs = icmp slt i64 %o_next, %nops
  br i1 %more_outputs, label %outputs, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

; NumPy's PyUFuncGenericFunction; the loop's data is the kernel record.
define void @fl_ufunc_loop(ptr %args, ptr %dimensions, ptr %steps, ptr %k) nounwind {
entry:
  %fp = call i64 @fp_enter()
  %body = load atomic ptr, ptr %k acquire, align 8
  %count = load i64, ptr %dimensions, align 8
  %compiled = icmp ne ptr %body, null
  br i1 %compiled, label %ready, label %compile
compile:
  call void @fp_leave(i64 %fp)
  %compiler_at = getelementptr %kernel, ptr %k, i64 0, i32 4
  %compiler = load ptr, ptr %compiler_at, align 8
  %argument_at = getelementptr %kernel, ptr %k, i64 0, i32 5
  %argument = load ptr, ptr %argument_at, align 8
  %gil = call i32 @PyGILState_Ensure()
  ; reduce and accumulate call the loop for the next row although it has failed in this one: no Python runs meanwhile.
  %pending = call ptr @PyErr_Occurred()
  %failed_before = icmp ne ptr %pending, null
  br i1 %failed_before, label %fail, label %ask
ask:
  %result = call ptr @PyObject_CallOneArg(ptr %compiler, ptr %argument)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %fail, label %returned
fail:
  ; What was raised stays with this thread, and NumPy looks for it after the loop.
  call void @PyGILState_Release(i32 %gil)
  call void @fp_leave(i64 %fp)
  ret void
returned:
  call void @Py_DecRef(ptr %result)
  call void @PyGILState_Release(i32 %gil)
  %new_body = load atomic ptr, ptr %k acquire, align 8
  br label %compiled_now
compiled_now:
  ; What compiling left in the flags is not kept: NumPy would take it for the loop's doing.
  %fp_of_compiling = call i64 @fp_enter()
  br label %ready
ready:
  %several = icmp sgt i64 %count, 1
  br i1 %several, label %look, label %plain
look:
  %chain = call i1 @is_chain(ptr %k, ptr %args, ptr %steps, i64 %count)
  br i1 %chain, label %one_by_one, label %plain
plain:
  call void @fl_block(ptr %k, ptr %args, ptr %steps, i64 %count, i64 0, ptr null)
  br label %done
one_by_one:
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %at = alloca ptr, i64 %nops, align 8
  call void @copy_items(ptr %at, i64 8, ptr %args, i64 8, i64 %nops, i64 8)
  br label %chain_loop
chain_loop:
  %n = phi i64 [ 0, %one_by_one ], [ %n_next, %chain_loop ]
  call void @fl_block(ptr %k, ptr %at, ptr %steps, i64 1, i64 0, ptr null)
  call void @advance(ptr %at, ptr %steps, i64 1, i64 %nops)
  %n_next = add i64 %n, 1
  %more = icmp slt i64 %n_next, %count
  br i1 %more, label %chain_loop, label %done
done:
  call void @fp_leave(i64 %fp)
  ret void
}

; ------------------------------------------------------------------------------------------------------- the loop nest

; A call of a kernel over a loop nest. Its last dimension has `length` items and is cut into `segments` of `segment` items;
; a tile is one segment inside all outer dimensions, counted in order. Tiles are handed out in `chunks` chunks of `grain`
; tiles. Where rows are short, `row` is their length, the last dimension counts rows, and a tile is several of them.
; Strides are in bytes, outer ones as [outer dimension][operand].
%job = type {
  ptr,  ; 0 next job of the pool's list
  i64,  ; 1 whether all chunks are handed out (atomic)
  i64,  ; 2 chunks
  i64,  ; 3 threads of the pool at work on it
  i64,  ; 4 threads of the pool that may still join
  ptr,  ; 5 kernel
  i64,  ; 6 flags of the body
  i64,  ; 7 length
  i64,  ; 8 segment
  i64,  ; 9 segments
  i64,  ; 10 first tile
  i64,  ; 11 end tile
  i64,  ; 12 grain
  i64,  ; 13 outer dimensions
  ptr,  ; 14 their lengths
  ptr,  ; 15 operands
  ptr,  ; 16 strides of the last dimension
  ptr,  ; 17 outer strides
  i64,  ; 18 row (0: the last dimension counts items)
  ptr,  ; 19 strides inside a row
  ptr,  ; 20 ranges of chunks, for fl_run alone
  i64,  ; 21 how many
  i64,  ; 22 whether sleeping threads are woken for it
  i64,  ; 23 about what one thread would need for it, in nanoseconds
  i64   ; 24 where the caller's own tiles end, in the lane alone
}

; Tiles %from up to %to; neighbours in a row are computed together.
define internal void @tiles(ptr %j, i64 %from, i64 %to) nounwind {
entry:
  %k_at = getelementptr %job, ptr %j, i64 0, i32 5
  %k = load ptr, ptr %k_at, align 8
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %flags_at = getelementptr %job, ptr %j, i64 0, i32 6
  %flags = load i64, ptr %flags_at, align 8
  %inner_at = getelementptr %job, ptr %j, i64 0, i32 7
  %inner = load i64, ptr %inner_at, align 8
  %row_items_at = getelementptr %job, ptr %j, i64 0, i32 18
  %row_items = load i64, ptr %row_items_at, align 8
  %row_strides_at = getelementptr %job, ptr %j, i64 0, i32 19
  %row_strides = load ptr, ptr %row_strides_at, align 8
  %long = icmp eq i64 %row_items, 0
  %segment_at = getelementptr %job, ptr %j, i64 0, i32 8
  %segment = load i64, ptr %segment_at, align 8
  %segments_at = getelementptr %job, ptr %j, i64 0, i32 9
  %segments = load i64, ptr %segments_at, align 8
  %ndim_at = getelementptr %job, ptr %j, i64 0, i32 13
  %ndim = load i64, ptr %ndim_at, align 8
  %shape_at = getelementptr %job, ptr %j, i64 0, i32 14
  %shape = load ptr, ptr %shape_at, align 8
  %ops_at = getelementptr %job, ptr %j, i64 0, i32 15
  %ops = load ptr, ptr %ops_at, align 8
  %steps_at = getelementptr %job, ptr %j, i64 0, i32 16
  %steps = load ptr, ptr %steps_at, align 8
  %outer_at = getelementptr %job, ptr %j, i64 0, i32 17
  %outer = load ptr, ptr %outer_at, align 8
  %room = add i64 %ndim, 1
  %coordinates = alloca i64, i64 %room, align 8
  %lanes_at = getelementptr %kernel, ptr %k, i64 0, i32 1
  %lanes = load i64, ptr %lanes_at, align 8
  %walks_by_itself = icmp eq i64 %lanes, 0
  %streams = and i64 %flags, 1
  %streaming = icmp ne i64 %streams, 0
  %carry_count = select i1 %streaming, i64 %nops, i64 0
  %carry_bytes = shl i64 %carry_count, 7
  %list_bytes = shl i64 %nops, 3
  %lists_bytes = shl i64 %nops, 4
  %scratch_bytes = add i64 %carry_bytes, %lists_bytes
  %heap = call ptr @heap_scratch(i64 %scratch_bytes, i64 4608)
  %stack_bytes = call i64 @stack_scratch(ptr %heap, i64 %scratch_bytes)
  %stack = alloca i8, i64 %stack_bytes, align 64
  %carries = call ptr @scratch(ptr %heap, ptr %stack)
  %row = getelementptr i8, ptr %carries, i64 %carry_bytes
  %here = getelementptr i8, ptr %row, i64 %list_bytes
  br i1 %streaming, label %carry_nothing, label %find
carry_nothing:
  call void @each_carry(ptr %carries, i64 %nops, i1 true)
  br label %find
find:
  call void @copy_items(ptr %row, i64 8, ptr %ops, i64 8, i64 %nops, i64 8)
  %first_row = udiv i64 %from, %segments
  %first_segment = urem i64 %from, %segments
  br label %locate
locate:
  %d = phi i64 [ %ndim, %find ], [ %e, %locate_one ]
  %r = phi i64 [ %first_row, %find ], [ %r_next, %locate_one ]
  %located = icmp eq i64 %d, 0
  br i1 %located, label %begin, label %locate_one
locate_one:
  %e = sub i64 %d, 1
  %length_at = getelementptr i64, ptr %shape, i64 %e
  %length = load i64, ptr %length_at, align 8
  %c = urem i64 %r, %length
  %r_next = udiv i64 %r, %length
  %c_at = getelementptr i64, ptr %coordinates, i64 %e
  store i64 %c, ptr %c_at, align 8
  %strides_index = mul i64 %e, %nops
  %strides = getelementptr i64, ptr %outer, i64 %strides_index
  call void @advance(ptr %row, ptr %strides, i64 %c, i64 %nops)
  br label %locate
begin:
  %empty = icmp sge i64 %from, %to
  br i1 %empty, label %done, label %tile
tile:
  %t = phi i64 [ %from, %begin ], [ %t_next, %tile_end ]
  %s = phi i64 [ %first_segment, %begin ], [ %s_next, %tile_end ]
  %start = mul i64 %s, %segment
  %left = sub i64 %inner, %start
  %tiles_left = sub i64 %to, %t
  %row_left = sub i64 %segments, %s
  %together = call i64 @llvm.smin.i64(i64 %tiles_left, i64 %row_left)
  %wish = mul i64 %together, %segment
  %count = call i64 @llvm.smin.i64(i64 %wish, i64 %left)
  call void @copy_items(ptr %here, i64 8, ptr %row, i64 8, i64 %nops, i64 8)
  call void @advance(ptr %here, ptr %steps, i64 %start, i64 %nops)
  br i1 %long, label %items, label %short
items:
  br i1 %walks_by_itself, label %steps_alone, label %blocks
steps_alone:
  %body = load ptr, ptr %k, align 8
  call void %body(ptr %here, ptr %steps, i64 %count, i64 %flags)
  br label %computed
blocks:
  call void @fl_block(ptr %k, ptr %here, ptr %steps, i64 %count, i64 %flags, ptr %carries)
  br label %computed
short:
  call void @rows(ptr %k, ptr %here, ptr %row_strides, ptr %steps, i64 %row_items, i64 %count, i64 %flags, ptr %carries)
  br label %computed
computed:
  %t_next = add i64 %t, %together
  %s_up = add i64 %s, %together
  %finished = icmp sge i64 %t_next, %to
  br i1 %finished, label %done, label %more
more:
  %row_over = icmp eq i64 %s_up, %segments
  br i1 %row_over, label %carry, label %tile_end
carry:
  %cd = phi i64 [ %ndim, %more ], [ %ce, %wrap ]
  %ce = sub i64 %cd, 1
  %cc_at = getelementptr i64, ptr %coordinates, i64 %ce
  %cc = load i64, ptr %cc_at, align 8
  %cc_up = add i64 %cc, 1
  %clength_at = getelementptr i64, ptr %shape, i64 %ce
  %clength = load i64, ptr %clength_at, align 8
  %cstrides_index = mul i64 %ce, %nops
  %cstrides = getelementptr i64, ptr %outer, i64 %cstrides_index
  %wraps = icmp eq i64 %cc_up, %clength
  br i1 %wraps, label %wrap, label %step
wrap:
  %back = sub i64 0, %cc
  store i64 0, ptr %cc_at, align 8
  call void @advance(ptr %row, ptr %cstrides, i64 %back, i64 %nops)
  br label %carry
step:
  store i64 %cc_up, ptr %cc_at, align 8
  call void @advance(ptr %row, ptr %cstrides, i64 1, i64 %nops)
  br label %tile_end
tile_end:
  %s_next = phi i64 [ %s_up, %more ], [ 0, %step ]
  br label %tile
done:
  br i1 %streaming, label %carried, label %over
carried:
  call void @each_carry(ptr %carries, i64 %nops, i1 false)
  br label %over
over:
  call void @free_scratch(ptr %heap)
  ret void
}

; Computes chunk %chunk of the job.
define internal void @chunk(ptr %j, i64 %chunk) nounwind {
entry:
  %first_at = getelementptr %job, ptr %j, i64 0, i32 10
  %first = load i64, ptr %first_at, align 8
  %end_at = getelementptr %job, ptr %j, i64 0, i32 11
  %end = load i64, ptr %end_at, align 8
  %grain_at = getelementptr %job, ptr %j, i64 0, i32 12
  %grain = load i64, ptr %grain_at, align 8
  %offset = mul i64 %chunk, %grain
  %from = add i64 %first, %offset
  %full = add i64 %from, %grain
  %over = icmp sgt i64 %full, %end
  %to = select i1 %over, i64 %end, i64 %full
  call void @tiles(ptr %j, i64 %from, i64 %to)
  ret void
}

; The job's chunks in %count ranges of nearly the same length. The word of a range has its first chunk in the lower half and
; the one behind its last in the upper half; it has a cache line of its own.
define internal void @divide(ptr %ranges, i64 %count, i64 %chunks) nounwind {
entry:
  br label %range
range:
  %r = phi i64 [ 0, %entry ], [ %r_next, %range ]
  %from = phi i64 [ 0, %entry ], [ %to, %range ]
  %r_next = add i64 %r, 1
  %scaled = mul i64 %chunks, %r_next
  %to = udiv i64 %scaled, %count
  %upper = shl i64 %to, 32
  %word = or i64 %upper, %from
  %word_offset = shl i64 %r, 6
  %word_at = getelementptr i8, ptr %ranges, i64 %word_offset
  store i64 %word, ptr %word_at, align 8
  %more = icmp slt i64 %r_next, %count
  br i1 %more, label %range, label %done
done:
  ret void
}

; Takes chunks of the job until there are none: those of range %home from its beginning, then those of the others from their
; ends. So a thread finds in its own caches what it computed there in the last call over the same arrays, and only what a
; thread does not get to moves to another one. A word that is taken from once too often stays empty.
define internal void @share(ptr %j, i64 %home) nounwind {
entry:
  %ranges_at = getelementptr %job, ptr %j, i64 0, i32 20
  %ranges = load ptr, ptr %ranges_at, align 8
  %count_at = getelementptr %job, ptr %j, i64 0, i32 21
  %count = load i64, ptr %count_at, align 8
  %home_offset = shl i64 %home, 6
  %home_at = getelementptr i8, ptr %ranges, i64 %home_offset
  br label %own
own:
  %word = atomicrmw add ptr %home_at, i64 1 monotonic
  %next = and i64 %word, 4294967295
  %end = ashr i64 %word, 32
  %some = icmp slt i64 %next, %end
  br i1 %some, label %own_work, label %others
own_work:
  call void @chunk(ptr %j, i64 %next)
  br label %own
others:
  %visited = phi i64 [ 1, %own ], [ %visited_more, %empty ]
  %over = icmp sge i64 %visited, %count
  br i1 %over, label %done, label %other
other:
  %far = add i64 %home, %visited
  %beyond = icmp sge i64 %far, %count
  %back = sub i64 %far, %count
  %victim = select i1 %beyond, i64 %back, i64 %far
  %victim_offset = shl i64 %victim, 6
  %victim_at = getelementptr i8, ptr %ranges, i64 %victim_offset
  br label %take
take:
  %other_word = atomicrmw sub ptr %victim_at, i64 4294967296 monotonic
  %other_next = and i64 %other_word, 4294967295
  %other_end = ashr i64 %other_word, 32
  %left = icmp slt i64 %other_next, %other_end
  br i1 %left, label %take_work, label %empty
take_work:
  %last = sub i64 %other_end, 1
  call void @chunk(ptr %j, i64 %last)
  br label %take
empty:
  %visited_more = add i64 %visited, 1
  br label %others
done:
  %handed_out_at = getelementptr %job, ptr %j, i64 0, i32 1
  store atomic i64 1, ptr %handed_out_at monotonic, align 8
  call void @order_stores()
  ret void
}
