; What calls blocks: NumPy's ufunc machinery (fl_ufunc_loop) and fuseline's own iteration over a loop nest (fl_run), whose
; tiles are shared out between the caller and the waiting threads of a pool (fl_worker).

declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)

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
  call void @fl_block(ptr %k, ptr %args, ptr %steps, i64 %count, i64 0)
  br label %done
one_by_one:
  %nops_at = getelementptr %kernel, ptr %k, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %at = alloca ptr, i64 %nops, align 8
  call void @copy_items(ptr %at, i64 8, ptr %args, i64 8, i64 %nops, i64 8)
  br label %chain_loop
chain_loop:
  %n = phi i64 [ 0, %one_by_one ], [ %n_next, %chain_loop ]
  call void @fl_block(ptr %k, ptr %at, ptr %steps, i64 1, i64 0)
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
; a tile is one segment inside all outer dimensions, counted in order. Tiles are handed out `grain` at a time, `chunks`
; times. Where rows are short, `row` is their length, the last dimension counts rows, and a tile is several of them.
; Strides are in bytes, outer ones as [outer dimension][operand].
%job = type {
  ptr,  ; 0 next job of the pool's list
  i64,  ; 1 next chunk to hand out (atomic)
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
  ptr   ; 19 strides inside a row
}

; Tiles %from up to %to.
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
  %row = alloca ptr, i64 %nops, align 8
  %here = alloca ptr, i64 %nops, align 8
  %room = add i64 %ndim, 1
  %coordinates = alloca i64, i64 %room, align 8
  call void @copy_items(ptr %row, i64 8, ptr %ops, i64 8, i64 %nops, i64 8)
  %first_row = udiv i64 %from, %segments
  %first_segment = urem i64 %from, %segments
  br label %locate
locate:
  %d = phi i64 [ %ndim, %entry ], [ %e, %locate_one ]
  %r = phi i64 [ %first_row, %entry ], [ %r_next, %locate_one ]
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
  %is_short = icmp slt i64 %left, %segment
  %count = select i1 %is_short, i64 %left, i64 %segment
  call void @copy_items(ptr %here, i64 8, ptr %row, i64 8, i64 %nops, i64 8)
  call void @advance(ptr %here, ptr %steps, i64 %start, i64 %nops)
  br i1 %long, label %items, label %short
items:
  call void @fl_block(ptr %k, ptr %here, ptr %steps, i64 %count, i64 %flags)
  br label %computed
short:
  call void @rows(ptr %k, ptr %here, ptr %row_strides, ptr %steps, i64 %row_items, i64 %count, i64 %flags)
  br label %computed
computed:
  %t_next = add i64 %t, 1
  %s_up = add i64 %s, 1
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
  ret void
}

; Takes chunks of the job until there are none.
define internal void @share(ptr %j) nounwind {
entry:
  %next_at = getelementptr %job, ptr %j, i64 0, i32 1
  %chunks_at = getelementptr %job, ptr %j, i64 0, i32 2
  %chunks = load i64, ptr %chunks_at, align 8
  %first_at = getelementptr %job, ptr %j, i64 0, i32 10
  %first = load i64, ptr %first_at, align 8
  %end_at = getelementptr %job, ptr %j, i64 0, i32 11
  %end = load i64, ptr %end_at, align 8
  %grain_at = getelementptr %job, ptr %j, i64 0, i32 12
  %grain = load i64, ptr %grain_at, align 8
  br label %take
take:
  %chunk = atomicrmw add ptr %next_at, i64 1 monotonic
  %some = icmp slt i64 %chunk, %chunks
  br i1 %some, label %work, label %done
work:
  %offset = mul i64 %chunk, %grain
  %from = add i64 %first, %offset
  %full = add i64 %from, %grain
  %over = icmp sgt i64 %full, %end
  %to = select i1 %over, i64 %end, i64 %full
  call void @tiles(ptr %j, i64 %from, i64 %to)
  br label %take
done:
  call void @order_stores()
  ret void
}

; ------------------------------------------------------------------------------------------------------------ the pool

; 0 mutex, 1 condition "there is work", 2 condition "a job is done", 3 list of jobs, 4 sleeping threads, 5 patience in pauses,
; 6 threads, 7 process, 8 processor of the latest caller; C's 9 sched_getcpu, 10 sched_getaffinity and 11 sched_setaffinity,
; null where the system has none.
%pool = type { [128 x i8], [128 x i8], [128 x i8], ptr, i64, i64, i64, i64, i64, ptr, ptr, ptr }

declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)

; Notes the processor that a call comes from.
define internal void @note_processor(ptr %p) nounwind {
entry:
  %current_at = getelementptr %pool, ptr %p, i64 0, i32 9
  %current = load ptr, ptr %current_at, align 8
  %unknown = icmp eq ptr %current, null
  br i1 %unknown, label %done, label %ask
ask:
  %number = call i32 %current()
  %wide = sext i32 %number to i64
  %caller_at = getelementptr %pool, ptr %p, i64 0, i32 8
  store atomic i64 %wide, ptr %caller_at monotonic, align 8
  br label %done
done:
  ret void
}

; Moves this thread of the pool off the caller's processor, for now and for later wakes. Systems whose processors seem to
; share no cache, as in many virtual machines, wake a thread where its waker runs, and take milliseconds to part them.
; %avoided_at holds the processor that this thread may not use because of an earlier caller, or -1.
define internal void @keep_off(ptr %p, ptr %avoided_at) nounwind {
entry:
  %mask = alloca <16 x i64>, align 8
  %current_at = getelementptr %pool, ptr %p, i64 0, i32 9
  %current = load ptr, ptr %current_at, align 8
  %unknown = icmp eq ptr %current, null
  br i1 %unknown, label %done, label %ask
ask:
  %number = call i32 %current()
  %own = sext i32 %number to i64
  %caller_at = getelementptr %pool, ptr %p, i64 0, i32 8
  %caller = load atomic i64, ptr %caller_at monotonic, align 8
  %together = icmp eq i64 %own, %caller
  %in_mask = icmp ult i64 %caller, 1024
  %move = and i1 %together, %in_mask
  br i1 %move, label %read, label %done
read:
  %get_at = getelementptr %pool, ptr %p, i64 0, i32 10
  %get = load ptr, ptr %get_at, align 8
  %status = call i32 %get(i32 0, i64 128, ptr %mask)
  %known = icmp eq i32 %status, 0
  br i1 %known, label %again, label %done
again:
  %avoided = load i64, ptr %avoided_at, align 8
  %some = icmp sge i64 %avoided, 0
  br i1 %some, label %allow, label %forbid
allow:
  %avoided_word = lshr i64 %avoided, 6
  %avoided_word_at = getelementptr i64, ptr %mask, i64 %avoided_word
  %avoided_bit = and i64 %avoided, 63
  %avoided_one = shl i64 1, %avoided_bit
  %before = load i64, ptr %avoided_word_at, align 8
  %allowed = or i64 %before, %avoided_one
  store i64 %allowed, ptr %avoided_word_at, align 8
  br label %forbid
forbid:
  %word = lshr i64 %caller, 6
  %word_at = getelementptr i64, ptr %mask, i64 %word
  %bit = and i64 %caller, 63
  %one = shl i64 1, %bit
  %others = xor i64 %one, -1
  %all = load i64, ptr %word_at, align 8
  %left = and i64 %all, %others
  store i64 %left, ptr %word_at, align 8
  %words = load <16 x i64>, ptr %mask, align 8
  %any = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %words)
  %nowhere = icmp eq i64 %any, 0
  br i1 %nowhere, label %done, label %go
go:
  %set_at = getelementptr %pool, ptr %p, i64 0, i32 11
  %set = load ptr, ptr %set_at, align 8
  %refused = call i32 %set(i32 0, i64 128, ptr %mask)
  %moved = icmp eq i32 %refused, 0
  br i1 %moved, label %remember, label %done
remember:
  store i64 %caller, ptr %avoided_at, align 8
  br label %done
done:
  ret void
}

; A thread of the pool: serves jobs for as long as the process lives.
define ptr @fl_worker(ptr %p) nounwind {
entry:
  %avoided_at = alloca i64, align 8
  store i64 -1, ptr %avoided_at, align 8
  %fp = call i64 @fp_enter()
  %work_cond = getelementptr %pool, ptr %p, i64 0, i32 1
  %done_cond = getelementptr %pool, ptr %p, i64 0, i32 2
  %head_at = getelementptr %pool, ptr %p, i64 0, i32 3
  %sleeping_at = getelementptr %pool, ptr %p, i64 0, i32 4
  %patience_at = getelementptr %pool, ptr %p, i64 0, i32 5
  %locked0 = call i32 @pthread_mutex_lock(ptr %p)
  br label %look
look:
  %head = load ptr, ptr %head_at, align 8
  br label %search
search:
  %j = phi ptr [ %head, %look ], [ %next, %skip ]
  %none = icmp eq ptr %j, null
  br i1 %none, label %wait, label %consider
consider:
  %next_at = getelementptr %job, ptr %j, i64 0, i32 1
  %taken = load atomic i64, ptr %next_at monotonic, align 8
  %chunks_at = getelementptr %job, ptr %j, i64 0, i32 2
  %chunks = load i64, ptr %chunks_at, align 8
  %open = icmp slt i64 %taken, %chunks
  %may_at = getelementptr %job, ptr %j, i64 0, i32 4
  %may = load i64, ptr %may_at, align 8
  %welcome = icmp sgt i64 %may, 0
  %join = and i1 %open, %welcome
  br i1 %join, label %work, label %skip
skip:
  %next = load ptr, ptr %j, align 8
  br label %search
work:
  %may_less = sub i64 %may, 1
  store i64 %may_less, ptr %may_at, align 8
  %active_at = getelementptr %job, ptr %j, i64 0, i32 3
  %joined = atomicrmw add ptr %active_at, i64 1 acq_rel
  %unlocked = call i32 @pthread_mutex_unlock(ptr %p)
  call void @keep_off(ptr %p, ptr %avoided_at)
  call void @share(ptr %j)
  ; The job lives on its caller's stack; after the lock is released with no thread at work it may be gone.
  %locked1 = call i32 @pthread_mutex_lock(ptr %p)
  %were = atomicrmw sub ptr %active_at, i64 1 acq_rel
  %last = icmp eq i64 %were, 1
  br i1 %last, label %report, label %look
report:
  %reported = call i32 @pthread_cond_broadcast(ptr %done_cond)
  br label %look
wait:
  ; Calls often follow each other closely: look at the list for a moment before going to sleep.
  %unlocked2 = call i32 @pthread_mutex_unlock(ptr %p)
  %patience = load i64, ptr %patience_at, align 8
  br label %spin
spin:
  %tries = phi i64 [ %patience, %wait ], [ %tries_less, %spin_on ]
  %seen = load atomic ptr, ptr %head_at acquire, align 8
  %something = icmp ne ptr %seen, null
  %weary = icmp sle i64 %tries, 0
  %stop = or i1 %something, %weary
  br i1 %stop, label %settle, label %spin_on
spin_on:
  call void @pause()
  %tries_less = sub i64 %tries, 1
  br label %spin
settle:
  %locked2 = call i32 @pthread_mutex_lock(ptr %p)
  br label %look_or_sleep
look_or_sleep:
  %head_now = load ptr, ptr %head_at, align 8
  br label %any_open
any_open:
  %q = phi ptr [ %head_now, %look_or_sleep ], [ %q_next, %any_next ]
  %q_none = icmp eq ptr %q, null
  br i1 %q_none, label %sleep, label %q_look
q_look:
  %q_next_at = getelementptr %job, ptr %q, i64 0, i32 1
  %q_taken = load atomic i64, ptr %q_next_at monotonic, align 8
  %q_chunks_at = getelementptr %job, ptr %q, i64 0, i32 2
  %q_chunks = load i64, ptr %q_chunks_at, align 8
  %q_open = icmp slt i64 %q_taken, %q_chunks
  %q_may_at = getelementptr %job, ptr %q, i64 0, i32 4
  %q_may = load i64, ptr %q_may_at, align 8
  %q_welcome = icmp sgt i64 %q_may, 0
  %q_join = and i1 %q_open, %q_welcome
  br i1 %q_join, label %look, label %any_next
any_next:
  %q_next = load ptr, ptr %q, align 8
  br label %any_open
sleep:
  %sleepers = load i64, ptr %sleeping_at, align 8
  %sleepers_more = add i64 %sleepers, 1
  store i64 %sleepers_more, ptr %sleeping_at, align 8
  %woken = call i32 @pthread_cond_wait(ptr %work_cond, ptr %p)
  %sleepers_then = load i64, ptr %sleeping_at, align 8
  %sleepers_less = sub i64 %sleepers_then, 1
  store i64 %sleepers_less, ptr %sleeping_at, align 8
  br label %look
}

; Runs the job on this thread alone.
define void @fl_run_alone(ptr %j) nounwind {
entry:
  %fp = call i64 @fp_enter()
  call void @share(ptr %j)
  call void @fp_leave(i64 %fp)
  ret void
}

; Runs the job on this thread and on the pool's that are free; returns when all of it is done.
define void @fl_run(ptr %p, ptr %j) nounwind {
entry:
  %fp = call i64 @fp_enter()
  call void @note_processor(ptr %p)
  %work_cond = getelementptr %pool, ptr %p, i64 0, i32 1
  %done_cond = getelementptr %pool, ptr %p, i64 0, i32 2
  %head_at = getelementptr %pool, ptr %p, i64 0, i32 3
  %sleeping_at = getelementptr %pool, ptr %p, i64 0, i32 4
  %patience_at = getelementptr %pool, ptr %p, i64 0, i32 5
  %locked = call i32 @pthread_mutex_lock(ptr %p)
  %old = load ptr, ptr %head_at, align 8
  store ptr %old, ptr %j, align 8
  store atomic ptr %j, ptr %head_at release, align 8
  %sleeping = load i64, ptr %sleeping_at, align 8
  %unlocked = call i32 @pthread_mutex_unlock(ptr %p)
  br label %remember
remember:
  ; As many threads as the job has room for, and no others, are woken.
  %may_at = getelementptr %job, ptr %j, i64 0, i32 4
  %may = load atomic i64, ptr %may_at monotonic, align 8
  %fewer = icmp slt i64 %may, %sleeping
  %calls = select i1 %fewer, i64 %may, i64 %sleeping
  br label %wake
wake:
  %to_wake = phi i64 [ %calls, %remember ], [ %to_wake_less, %wake_one ]
  %nobody = icmp sle i64 %to_wake, 0
  br i1 %nobody, label %own, label %wake_one
wake_one:
  %woken = call i32 @pthread_cond_signal(ptr %work_cond)
  %to_wake_less = sub i64 %to_wake, 1
  br label %wake
own:
  call void @share(ptr %j)
  %active_at = getelementptr %job, ptr %j, i64 0, i32 3
  %locked2 = call i32 @pthread_mutex_lock(ptr %p)
  br label %unlink
unlink:
  %link = phi ptr [ %head_at, %own ], [ %linked, %follow ]
  %linked = load ptr, ptr %link, align 8
  %found = icmp eq ptr %linked, %j
  br i1 %found, label %remove, label %follow
follow:
  br label %unlink
remove:
  %after = load ptr, ptr %j, align 8
  store atomic ptr %after, ptr %link release, align 8
  %unlocked2 = call i32 @pthread_mutex_unlock(ptr %p)
  %patience = load i64, ptr %patience_at, align 8
  br label %spin
spin:
  %tries = phi i64 [ %patience, %remove ], [ %tries_less, %spin_on ]
  %busy = load atomic i64, ptr %active_at acquire, align 8
  %idle = icmp eq i64 %busy, 0
  %weary = icmp sle i64 %tries, 0
  %stop = or i1 %idle, %weary
  br i1 %stop, label %settle, label %spin_on
spin_on:
  call void @pause()
  %tries_less = sub i64 %tries, 1
  br label %spin
settle:
  %locked3 = call i32 @pthread_mutex_lock(ptr %p)
  br label %check
check:
  %still = load atomic i64, ptr %active_at acquire, align 8
  %over = icmp eq i64 %still, 0
  br i1 %over, label %done, label %sleep
sleep:
  %waited = call i32 @pthread_cond_wait(ptr %done_cond, ptr %p)
  br label %check
done:
  %unlocked3 = call i32 @pthread_mutex_unlock(ptr %p)
  call void @fp_leave(i64 %fp)
  ret void
}
