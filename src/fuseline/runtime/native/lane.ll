; The lane: brief calls are shared with threads of the pool that are awake, through one word and without a lock. How long a
; cache line takes from one processor to another (some 50 to 400 nanoseconds) decides what sharing a brief call costs, so few
; lines go back and forth, and each of them once or twice.
;
; A call takes the lane, puts its job there and opens the word. A thread of the pool that sees it open takes a part by setting
; its bit, the one it had last if that is free, because its operands are then in its own caches; a second bit says that the
; part is computed. The caller computes its own part, closes the word, computes the parts that nobody has taken, and waits for
; those that somebody has.

; Where part %part of %parts begins among the job's tiles from %from to %end.
define internal i64 @part_start(i64 %from, i64 %end, i64 %part, i64 %parts) alwaysinline nounwind {
  %tiles = sub i64 %end, %from
  %scaled = mul i64 %tiles, %part
  %offset = udiv i64 %scaled, %parts
  %start = add i64 %from, %offset
  ret i64 %start
}

; The end of the caller's own part: with H others who come to work later by the lead L, and work for one thread that takes T,
; all finish together where the caller computes for (T + H*L)/(H + 1). It leaves each of them something, to see how they do.
define internal i64 @own_end(ptr %j, i64 %lead, i64 %others) nounwind {
  %first_at = getelementptr %job, ptr %j, i64 0, i32 10
  %first = load i64, ptr %first_at, align 8
  %end_at = getelementptr %job, ptr %j, i64 0, i32 11
  %end = load i64, ptr %end_at, align 8
  %whole_ns_at = getelementptr %job, ptr %j, i64 0, i32 23
  %whole_ns = load i64, ptr %whole_ns_at, align 8
  %tiles = sub i64 %end, %first
  %all = add i64 %others, 1
  %leads = mul i64 %others, %lead
  %time = add i64 %whole_ns, %leads
  %scaled = mul i64 %tiles, %time
  %shares = mul i64 %all, %whole_ns
  %wish = udiv i64 %scaled, %shares
  %most = sub i64 %tiles, %others
  %own = call i64 @llvm.smin.i64(i64 %wish, i64 %most)
  %own_or_one = call i64 @llvm.smax.i64(i64 %own, i64 1)
  %stop = add i64 %first, %own_or_one
  %capped = call i64 @llvm.smin.i64(i64 %stop, i64 %end)
  ret i64 %capped
}

; A thread of the pool looks whether the lane is open and has a part for it, and computes that. Whether it did. %last_at has
; the number of the part that it took last.
define internal i1 @serve_lane(ptr %p, ptr %lane, ptr %last_at) nounwind {
entry:
  %word = load atomic i64, ptr %lane acquire, align 8
  %open = icmp slt i64 %word, 0
  br i1 %open, label %look, label %no
look:
  %shifted = lshr i64 %word, 48
  %seats = and i64 %shifted, 63
  %beyond = shl i64 1, %seats
  %parts = sub i64 %beyond, 1
  %untaken = xor i64 %word, -1
  %free = and i64 %parts, %untaken
  %some = icmp ne i64 %free, 0
  br i1 %some, label %join, label %no
join:
  %last = load i64, ptr %last_at, align 8
  %last_bit = shl i64 1, %last
  %last_free = and i64 %free, %last_bit
  %again = icmp ne i64 %last_free, 0
  %lowest = call i64 @llvm.cttz.i64(i64 %free, i1 true)
  %number = select i1 %again, i64 %last, i64 %lowest
  %bit = shl i64 1, %number
  %with = or i64 %word, %bit
  %swapped = cmpxchg ptr %lane, i64 %word, i64 %with acq_rel monotonic
  %joined = extractvalue { i64, i1 } %swapped, 1
  br i1 %joined, label %work, label %no
work:
  store i64 %number, ptr %last_at, align 8
  %job_at = getelementptr %lane, ptr %lane, i64 0, i32 1
  %j = load ptr, ptr %job_at, align 8
  %caller_end_at = getelementptr %job, ptr %j, i64 0, i32 24
  %caller_end = load i64, ptr %caller_end_at, align 8
  %end_at = getelementptr %job, ptr %j, i64 0, i32 11
  %end = load i64, ptr %end_at, align 8
  %from = call i64 @part_start(i64 %caller_end, i64 %end, i64 %number, i64 %seats)
  %next = add i64 %number, 1
  %to = call i64 @part_start(i64 %caller_end, i64 %end, i64 %next, i64 %seats)
  call void @tiles(ptr %j, i64 %from, i64 %to)
  call void @order_stores()
  %done_bit = shl i64 16777216, %number
  %before = atomicrmw or ptr %lane, i64 %done_bit seq_cst
  ; The job may be gone from here on.
  %sleeps_at = getelementptr %lane, ptr %lane, i64 0, i32 2
  %sleeps = load atomic i64, ptr %sleeps_at seq_cst, align 8
  %nobody = icmp eq i64 %sleeps, 0
  br i1 %nobody, label %yes, label %wake
wake:
  %done_cond = getelementptr %pool, ptr %p, i64 0, i32 2
  %locked = call i32 @pthread_mutex_lock(ptr %p)
  %reported = call i32 @pthread_cond_broadcast(ptr %done_cond)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %p)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether all that have joined, as %word says, have finished.
define internal i1 @all_finished(i64 %word) alwaysinline nounwind {
  %joined = and i64 %word, 16777215
  %shifted = lshr i64 %word, 24
  %finished = and i64 %shifted, 16777215
  %same = icmp eq i64 %joined, %finished
  ret i1 %same
}

; Runs the job on this thread and those that are awake; false, and nothing done, where another call has the lane.
define internal i1 @run_in_lane(ptr %p, ptr %lane, ptr %j) nounwind {
entry:
  %taken_at = getelementptr %lane, ptr %lane, i64 0, i32 4
  %swapped = cmpxchg ptr %taken_at, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %swapped, 1
  br i1 %free, label %begin, label %no
begin:
  %fp = call i64 @fp_enter()
  call void @note_processor(ptr %p)
  %may_at = getelementptr %job, ptr %j, i64 0, i32 4
  %may = load i64, ptr %may_at, align 8
  %awake = call i64 @awake_threads(ptr %p)
  %some_awake = call i64 @llvm.smax.i64(i64 %awake, i64 1)
  %helpers = call i64 @llvm.smin.i64(i64 %may, i64 %some_awake)
  %seats = call i64 @llvm.smin.i64(i64 %helpers, i64 24)
  %lead_at = getelementptr %lane, ptr %lane, i64 0, i32 5
  %lead_known = load i64, ptr %lead_at, align 8
  %nothing_learnt = icmp eq i64 %lead_known, 0
  %lead = select i1 %nothing_learnt, i64 1000, i64 %lead_known
  %own_end = call i64 @own_end(ptr %j, i64 %lead, i64 %seats)
  %caller_end_at = getelementptr %job, ptr %j, i64 0, i32 24
  store i64 %own_end, ptr %caller_end_at, align 8
  %job_at = getelementptr %lane, ptr %lane, i64 0, i32 1
  store atomic ptr %j, ptr %job_at monotonic, align 8
  %seats_shifted = shl i64 %seats, 48
  %opened = or i64 %seats_shifted, -9223372036854775808
  store atomic i64 %opened, ptr %lane release, align 8
  %first_at = getelementptr %job, ptr %j, i64 0, i32 10
  %first = load i64, ptr %first_at, align 8
  %end_at = getelementptr %job, ptr %j, i64 0, i32 11
  %end = load i64, ptr %end_at, align 8
  call void @tiles(ptr %j, i64 %first, i64 %own_end)
  %at_close = atomicrmw and ptr %lane, i64 9223372036854775807 acq_rel
  br label %part
part:
  %k = phi i64 [ 0, %begin ], [ %k_next, %part_end ]
  %over = icmp sge i64 %k, %seats
  br i1 %over, label %computed, label %ask
ask:
  %k_next = add i64 %k, 1
  %bit = shl i64 1, %k
  %bit_set = and i64 %at_close, %bit
  %left = icmp eq i64 %bit_set, 0
  br i1 %left, label %compute, label %part_end
compute:
  %from = call i64 @part_start(i64 %own_end, i64 %end, i64 %k, i64 %seats)
  %to = call i64 @part_start(i64 %own_end, i64 %end, i64 %k_next, i64 %seats)
  call void @tiles(ptr %j, i64 %from, i64 %to)
  br label %part_end
part_end:
  br label %part
computed:
  call void @order_stores()
  %patience_at = getelementptr %pool, ptr %p, i64 0, i32 5
  %patience = load i64, ptr %patience_at, align 8
  br label %spin
spin:
  %tries = phi i64 [ %patience, %computed ], [ %tries_less, %spin_on ]
  %word = load atomic i64, ptr %lane acquire, align 8
  %all = call i1 @all_finished(i64 %word)
  %weary = icmp sle i64 %tries, 0
  %stop = or i1 %all, %weary
  br i1 %stop, label %settle, label %spin_on
spin_on:
  call void @pause()
  %tries_less = sub i64 %tries, 1
  br label %spin
settle:
  %waited = sub i64 %patience, %tries
  call void @learn_lead(ptr %lead_at, i64 %lead, i64 %at_close, i64 %waited)
  br i1 %all, label %done, label %sleep
sleep:
  %done_cond = getelementptr %pool, ptr %p, i64 0, i32 2
  %sleeps_at = getelementptr %lane, ptr %lane, i64 0, i32 2
  %locked = call i32 @pthread_mutex_lock(ptr %p)
  ; A plain store would do, but emulators of AArch64 let the load below pass it.
  %slept = atomicrmw xchg ptr %sleeps_at, i64 1 seq_cst, align 8
  br label %check
check:
  %word_now = load atomic i64, ptr %lane seq_cst, align 8
  %all_now = call i1 @all_finished(i64 %word_now)
  br i1 %all_now, label %woken, label %wait
wait:
  %waking = call i32 @pthread_cond_wait(ptr %done_cond, ptr %p)
  br label %check
woken:
  store atomic i64 0, ptr %sleeps_at monotonic, align 8
  %unlocked = call i32 @pthread_mutex_unlock(ptr %p)
  br label %done
done:
  store atomic i64 0, ptr %taken_at release, align 8
  call void @fp_leave(i64 %fp)
  ret i1 true
no:
  ret i1 false
}

; A caller that had to wait had too small a part, one whose helpers had finished too large a one; where that was so 32 times more
; often than the opposite, the lead changes by an eighth. A part that changes takes its operands out of another processor's
; caches, so it should not change often; a wait that is no longer than a few lines take is as it should be.
define internal void @learn_lead(ptr %lead_at, i64 %lead, i64 %at_close, i64 %waited) nounwind {
entry:
  %joined = and i64 %at_close, 16777215
  %alone = icmp eq i64 %joined, 0
  br i1 %alone, label %done, label %learn
learn:
  %balance_at = getelementptr i64, ptr %lead_at, i64 1
  %balance = load i64, ptr %balance_at, align 8
  %finished = call i1 @all_finished(i64 %at_close)
  %longer = icmp sgt i64 %waited, 32
  %late = zext i1 %longer to i64
  %change = select i1 %finished, i64 -1, i64 %late
  %next = add i64 %balance, %change
  %short = icmp sge i64 %next, 32
  %long = icmp sle i64 %next, -32
  %moves = or i1 %short, %long
  %kept_balance = select i1 %moves, i64 0, i64 %next
  store i64 %kept_balance, ptr %balance_at, align 8
  br i1 %moves, label %move, label %done
move:
  %step = ashr i64 %lead, 3
  %more = add i64 %lead, %step
  %less = sub i64 %lead, %step
  %learnt = select i1 %short, i64 %more, i64 %less
  %low = call i64 @llvm.smax.i64(i64 %learnt, i64 64)
  %kept = call i64 @llvm.smin.i64(i64 %low, i64 8192)
  store i64 %kept, ptr %lead_at, align 8
  br label %done
done:
  ret void
}
