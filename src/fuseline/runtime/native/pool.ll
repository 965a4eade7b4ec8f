; The pool: threads that wait for jobs (fl_worker), and calls that are shared out among them (fl_run) or not (fl_run_alone).

declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @getpid()

; The lane for brief calls (lane.ll). 0 its word: bits 0 to 23 parts that are taken, 24 to 47 those that are finished, 48 to 53 how
; many parts there are beside the caller's, 63 whether it is open. In its line also 1 the job, 2 whether the caller sleeps until
; all are finished. In a line that callers alone look at, 4 whether a call has the lane, 5 the lead of a caller in nanoseconds,
; which is how much sooner than the others it is at work, and 6 of calls with this lead, how many more it was too short for than
; too long.
%lane = type { i64, ptr, i64, [13 x i64], i64, i64, i64, [13 x i64] }

; 0 mutex, 1 condition "there is work", 2 condition "a job is done", 3 list of jobs, 4 sleeping threads, 5 patience in pauses,
; 6 threads, 7 process, 8 processor of the latest caller; C's 9 sched_getcpu, 10 sched_getaffinity and 11 sched_setaffinity,
; null where the system has none; 12 threads that have taken a number; 13 the clock to measure time by; of brief calls that
; met no thread awake, 14 when the last one began, in nanoseconds, and 15 how many have followed closely upon each other; 16
; jobs ever put into the list; 17 up to the next line; 18 the lane for brief calls (lane.ll).
%pool = type {
  [128 x i8], [128 x i8], [128 x i8], ptr, i64, i64, i64, i64, i64, ptr, ptr, ptr, i64, i64, i64, i64, i64, [2 x i64], %lane
}

declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)

; What a thread of the pool set itself: the processors that it may use, and the one that it may not use because of an earlier
; caller, or -1.
%kept = type { [16 x i64], i64 }

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
  %known = load atomic i64, ptr %caller_at monotonic, align 8
  %same = icmp eq i64 %known, %wide
  br i1 %same, label %done, label %note
note:
  store atomic i64 %wide, ptr %caller_at monotonic, align 8
  br label %done
done:
  ret void
}

; Moves this thread of the pool off the caller's processor, for now and for later wakes. Systems whose processors seem to
; share no cache, as in many virtual machines, wake a thread where its waker runs, and take milliseconds to part them.
; %kept is what this thread has been told.
define internal void @keep_off(ptr %p, ptr %kept) nounwind {
entry:
  %mask = alloca <16 x i64>, align 8
  %first_mask = alloca <16 x i64>, align 8
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
  %set_mask_at = getelementptr %kept, ptr %kept, i64 0, i32 0
  %avoided_at = getelementptr %kept, ptr %kept, i64 0, i32 1
  %avoided = load i64, ptr %avoided_at, align 8
  %some = icmp sge i64 %avoided, 0
  br i1 %some, label %recall, label %forbid
recall:
  ; Another mask than was set here is somebody else's word, which the avoided processor is not to be added to.
  %now = load <16 x i64>, ptr %mask, align 8
  %set_then = load <16 x i64>, ptr %set_mask_at, align 8
  %differences = xor <16 x i64> %now, %set_then
  %difference = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %differences)
  %own_mask = icmp eq i64 %difference, 0
  br i1 %own_mask, label %compare, label %forbid
compare:
  ; The same mask may be somebody's word as well: then the process's first thread has been told the same.
  %process = call i32 @getpid()
  %status_first = call i32 %get(i32 %process, i64 128, ptr %first_mask)
  %known_first = icmp eq i32 %status_first, 0
  %first_word_number = lshr i64 %avoided, 6
  %first_word_at = getelementptr i64, ptr %first_mask, i64 %first_word_number
  %first_word = load i64, ptr %first_word_at, align 8
  %first_bit = and i64 %avoided, 63
  %first_shifted = lshr i64 %first_word, %first_bit
  %first_has = trunc i64 %first_shifted to i1
  %first_may = and i1 %known_first, %first_has
  br i1 %first_may, label %allow, label %forbid
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
  store <16 x i64> %words, ptr %set_mask_at, align 8
  store i64 %caller, ptr %avoided_at, align 8
  br label %done
done:
  ret void
}

; A thread of the pool: serves jobs for as long as the process lives.
define ptr @fl_worker(ptr %p) nounwind {
entry:
  %kept = alloca %kept, align 8
  %part = alloca i64, align 8
  store i64 0, ptr %part, align 8
  %avoided_at = getelementptr %kept, ptr %kept, i64 0, i32 1
  store i64 -1, ptr %avoided_at, align 8
  %fp = call i64 @fp_enter()
  %work_cond = getelementptr %pool, ptr %p, i64 0, i32 1
  %done_cond = getelementptr %pool, ptr %p, i64 0, i32 2
  %head_at = getelementptr %pool, ptr %p, i64 0, i32 3
  %sleeping_at = getelementptr %pool, ptr %p, i64 0, i32 4
  %patience_at = getelementptr %pool, ptr %p, i64 0, i32 5
  %published_at = getelementptr %pool, ptr %p, i64 0, i32 16
  %numbers_at = getelementptr %pool, ptr %p, i64 0, i32 12
  %number = atomicrmw add ptr %numbers_at, i64 1 monotonic
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
  %handed_out_at = getelementptr %job, ptr %j, i64 0, i32 1
  %handed_out = load atomic i64, ptr %handed_out_at monotonic, align 8
  %open = icmp eq i64 %handed_out, 0
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
  call void @keep_off(ptr %p, ptr %kept)
  ; Range 0 is the caller's.
  %ranges_at = getelementptr %job, ptr %j, i64 0, i32 21
  %ranges = load i64, ptr %ranges_at, align 8
  %of_helpers = sub i64 %ranges, 1
  %turn = urem i64 %number, %of_helpers
  %home = add i64 %turn, 1
  call void @share(ptr %j, i64 %home)
  ; The job lives on its caller's stack; after the lock is released with no thread at work it may be gone.
  %locked1 = call i32 @pthread_mutex_lock(ptr %p)
  %were = atomicrmw sub ptr %active_at, i64 1 acq_rel
  %last = icmp eq i64 %were, 1
  br i1 %last, label %report, label %look
report:
  %reported = call i32 @pthread_cond_broadcast(ptr %done_cond)
  br label %look
wait:
  ; Calls often follow each other closely: look for a new job for a moment before going to sleep. On the caller's processor
  ; that would only keep the caller from its next call.
  %published = load i64, ptr %published_at, align 8
  %unlocked2 = call i32 @pthread_mutex_unlock(ptr %p)
  call void @keep_off(ptr %p, ptr %kept)
  %patience = load i64, ptr %patience_at, align 8
  %lane = getelementptr %pool, ptr %p, i64 0, i32 18
  br label %spin
spin:
  %tries = phi i64 [ %patience, %wait ], [ %patience, %stay_off ], [ %tries_less, %spin_on ], [ %tries, %leave ]
  %known = phi i64 [ %published, %wait ], [ %known, %stay_off ], [ %known, %spin_on ], [ %published_now, %leave ]
  %seen = load atomic i64, ptr %published_at monotonic, align 8
  %something = icmp ne i64 %seen, %known
  %weary = icmp sle i64 %tries, 0
  %stop = or i1 %something, %weary
  br i1 %stop, label %settle, label %look_at_lane
look_at_lane:
  %served = call i1 @serve_lane(ptr %p, ptr %lane, ptr %part)
  br i1 %served, label %stay_off, label %spin_on
stay_off:
  call void @keep_off(ptr %p, ptr %kept)
  br label %spin
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
  br i1 %q_none, label %none_open, label %q_look
q_look:
  %q_handed_out_at = getelementptr %job, ptr %q, i64 0, i32 1
  %q_handed_out = load atomic i64, ptr %q_handed_out_at monotonic, align 8
  %q_open = icmp eq i64 %q_handed_out, 0
  %q_may_at = getelementptr %job, ptr %q, i64 0, i32 4
  %q_may = load i64, ptr %q_may_at, align 8
  %q_welcome = icmp sgt i64 %q_may, 0
  %q_join = and i1 %q_open, %q_welcome
  br i1 %q_join, label %look, label %any_next
any_next:
  %q_next = load ptr, ptr %q, align 8
  br label %any_open
none_open:
  br i1 %weary, label %sleep, label %leave
leave:
  ; Others have done the new job.
  %published_now = load i64, ptr %published_at, align 8
  %unlocked3 = call i32 @pthread_mutex_unlock(ptr %p)
  br label %spin
sleep:
  %sleepers = load i64, ptr %sleeping_at, align 8
  %sleepers_more = add i64 %sleepers, 1
  store atomic i64 %sleepers_more, ptr %sleeping_at monotonic, align 8
  %woken = call i32 @pthread_cond_wait(ptr %work_cond, ptr %p)
  %sleepers_then = load i64, ptr %sleeping_at, align 8
  %sleepers_less = sub i64 %sleepers_then, 1
  store atomic i64 %sleepers_less, ptr %sleeping_at monotonic, align 8
  br label %look
}

; Runs the job on this thread alone.
define void @fl_run_alone(ptr %j) nounwind {
entry:
  %fp = call i64 @fp_enter()
  %first_at = getelementptr %job, ptr %j, i64 0, i32 10
  %first = load i64, ptr %first_at, align 8
  %end_at = getelementptr %job, ptr %j, i64 0, i32 11
  %end = load i64, ptr %end_at, align 8
  call void @tiles(ptr %j, i64 %first, i64 %end)
  call void @order_stores()
  call void @fp_leave(i64 %fp)
  ret void
}

define internal i64 @now_ns(ptr %p) nounwind {
  %time = alloca { i64, i64 }, align 8
  %clock_at = getelementptr %pool, ptr %p, i64 0, i32 13
  %clock = load i64, ptr %clock_at, align 8
  %number = trunc i64 %clock to i32
  %status = call i32 @clock_gettime(i32 %number, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest_at = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest_at, align 8
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %rest
  ret i64 %ns
}

define internal i64 @awake_threads(ptr %p) alwaysinline nounwind {
  %threads_at = getelementptr %pool, ptr %p, i64 0, i32 6
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %sleeping_at = getelementptr %pool, ptr %p, i64 0, i32 4
  %sleeping = load atomic i64, ptr %sleeping_at monotonic, align 8
  %awake = sub i64 %threads, %sleeping
  ret i64 %awake
}

; Whether the job is offered to the pool: 0 no, 1 to threads that are awake, 2 to all. Waking a thread takes longer than a
; brief call, but a thread that is awake and looks for work helps at once. So a brief call is offered where one is; and where
; many brief calls have followed closely upon each other, one of them wakes threads for those to come.
define internal i64 @offer(ptr %p, ptr %j) nounwind {
entry:
  %wakes_at = getelementptr %job, ptr %j, i64 0, i32 22
  %wakes = load i64, ptr %wakes_at, align 8
  %long = icmp ne i64 %wakes, 0
  br i1 %long, label %to_all, label %brief
brief:
  %awake = call i64 @awake_threads(ptr %p)
  %some = icmp sgt i64 %awake, 0
  br i1 %some, label %ours, label %nobody
nobody:
  %now = call i64 @now_ns(ptr %p)
  %before_at = getelementptr %pool, ptr %p, i64 0, i32 14
  %before = load atomic i64, ptr %before_at monotonic, align 8
  store atomic i64 %now, ptr %before_at monotonic, align 8
  %gap = sub i64 %now, %before
  %close = icmp ult i64 %gap, 200000
  %series_at = getelementptr %pool, ptr %p, i64 0, i32 15
  %series = load atomic i64, ptr %series_at monotonic, align 8
  %series_more = add i64 %series, 1
  %series_now = select i1 %close, i64 %series_more, i64 0
  %many = icmp sge i64 %series_now, 32
  %series_kept = select i1 %many, i64 0, i64 %series_now
  store atomic i64 %series_kept, ptr %series_at monotonic, align 8
  br i1 %many, label %ours, label %no
ours:
  %kind = phi i64 [ 1, %brief ], [ 2, %nobody ]
  %own = call i1 @is_of_this_process(ptr %p)
  %offered = select i1 %own, i64 %kind, i64 0
  ret i64 %offered
to_all:
  ret i64 2
no:
  ret i64 0
}

; Not so in a process that was forked from the one whose threads these are.
define internal i1 @is_of_this_process(ptr %p) nounwind {
  %process_at = getelementptr %pool, ptr %p, i64 0, i32 7
  %process = load i64, ptr %process_at, align 8
  %here = call i32 @getpid()
  %here_wide = sext i32 %here to i64
  %same = icmp eq i64 %process, %here_wide
  ret i1 %same
}

; Runs the job on this thread and on the pool's that are free; returns when all of it is done.
define void @fl_run(ptr %p, ptr %j) nounwind {
entry:
  %offer = call i64 @offer(ptr %p, ptr %j)
  switch i64 %offer, label %together [ i64 0, label %alone
                                       i64 1, label %brief ]
brief:
  %lane = getelementptr %pool, ptr %p, i64 0, i32 18
  %ran = call i1 @run_in_lane(ptr %p, ptr %lane, ptr %j)
  br i1 %ran, label %over_already, label %alone
over_already:
  ret void
alone:
  call void @fl_run_alone(ptr %j)
  ret void
together:
  %fp = call i64 @fp_enter()
  call void @note_processor(ptr %p)
  %work_cond = getelementptr %pool, ptr %p, i64 0, i32 1
  %done_cond = getelementptr %pool, ptr %p, i64 0, i32 2
  %head_at = getelementptr %pool, ptr %p, i64 0, i32 3
  %sleeping_at = getelementptr %pool, ptr %p, i64 0, i32 4
  %patience_at = getelementptr %pool, ptr %p, i64 0, i32 5
  %may_at = getelementptr %job, ptr %j, i64 0, i32 4
  %helpers = load i64, ptr %may_at, align 8
  %wanted = add i64 %helpers, 1
  %count = call i64 @llvm.umin.i64(i64 %wanted, i64 64)
  %room = shl i64 %count, 6
  %ranges = alloca i8, i64 %room, align 64
  %chunks_at = getelementptr %job, ptr %j, i64 0, i32 2
  %chunks = load i64, ptr %chunks_at, align 8
  call void @divide(ptr %ranges, i64 %count, i64 %chunks)
  %ranges_at = getelementptr %job, ptr %j, i64 0, i32 20
  store ptr %ranges, ptr %ranges_at, align 8
  %count_at = getelementptr %job, ptr %j, i64 0, i32 21
  store i64 %count, ptr %count_at, align 8
  %locked = call i32 @pthread_mutex_lock(ptr %p)
  %old = load ptr, ptr %head_at, align 8
  store ptr %old, ptr %j, align 8
  store ptr %j, ptr %head_at, align 8
  %published_at = getelementptr %pool, ptr %p, i64 0, i32 16
  %published = load i64, ptr %published_at, align 8
  %published_more = add i64 %published, 1
  store atomic i64 %published_more, ptr %published_at monotonic, align 8
  %sleeping = load i64, ptr %sleeping_at, align 8
  %unlocked = call i32 @pthread_mutex_unlock(ptr %p)
  br label %remember
remember:
  ; As many threads as the job has room for, and no others, are woken.
  %may = load atomic i64, ptr %may_at monotonic, align 8
  %fewer = icmp slt i64 %may, %sleeping
  %sleepers = select i1 %fewer, i64 %may, i64 %sleeping
  br label %wake
wake:
  %to_wake = phi i64 [ %sleepers, %remember ], [ %to_wake_less, %wake_one ]
  %nobody = icmp sle i64 %to_wake, 0
  br i1 %nobody, label %own, label %wake_one
wake_one:
  %woken = call i32 @pthread_cond_signal(ptr %work_cond)
  %to_wake_less = sub i64 %to_wake, 1
  br label %wake
own:
  call void @share(ptr %j, i64 0)
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
  store ptr %after, ptr %link, align 8
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
