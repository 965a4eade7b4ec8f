; Memory that code needs while it runs: the system's, and where that has none left, a part of memory that was set aside when
; the code was compiled. One thread at a time has that; it gives its parts back in reverse order.

declare i64 @pthread_self()
declare i32 @sched_yield()

; 0 the thread that has it, or 0; 1 the memory, 2 its bytes, 3 how many of them are taken
%reserve = type { i64, ptr, i64, i64 }
@fl_reserve = external global %reserve

; %bytes of memory, aligned as malloc's. Null only where the memory set aside is smaller.
define ptr @fl_take(i64 %bytes) nounwind {
entry:
  %memory = call ptr @malloc(i64 %bytes)
  %made = icmp ne ptr %memory, null
  br i1 %made, label %first, label %starved
first:
  ret ptr %memory
starved:
  %self = call i64 @pthread_self()
  br label %try
try:
  %holder = load atomic i64, ptr @fl_reserve monotonic, align 8
  %is_own = icmp eq i64 %holder, %self
  br i1 %is_own, label %part, label %ask
ask:
  %swap = cmpxchg ptr @fl_reserve, i64 0, i64 %self acquire monotonic
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %part, label %wait
wait:
  ; Who has it computes, waits for nobody and gives it back.
  %yielded = call i32 @sched_yield()
  %again = call ptr @malloc(i64 %bytes)
  %has_some = icmp ne ptr %again, null
  br i1 %has_some, label %later, label %try
later:
  ret ptr %again
part:
  %base_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 1
  %base = load ptr, ptr %base_at, align 8
  %size_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 2
  %size = load i64, ptr %size_at, align 8
  %taken_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 3
  %taken = load i64, ptr %taken_at, align 8
  %beyond = add i64 %bytes, 63
  %lines = and i64 %beyond, -64
  %end = add i64 %taken, %lines
  %fits = icmp ule i64 %end, %size
  br i1 %fits, label %take, label %too_large
take:
  store i64 %end, ptr %taken_at, align 8
  %place = getelementptr i8, ptr %base, i64 %taken
  ret ptr %place
too_large:
  %is_first = icmp eq i64 %taken, 0
  br i1 %is_first, label %release, label %nothing
release:
  store atomic i64 0, ptr @fl_reserve release, align 8
  br label %nothing
nothing:
  ret ptr null
}

; Gives back what fl_take gave this thread.
define void @fl_give(ptr %memory) nounwind {
entry:
  %self = call i64 @pthread_self()
  %holder = load atomic i64, ptr @fl_reserve monotonic, align 8
  %is_own = icmp eq i64 %holder, %self
  br i1 %is_own, label %whose, label %systems
whose:
  %base_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 1
  %base = load i64, ptr %base_at, align 8
  %size_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 2
  %size = load i64, ptr %size_at, align 8
  %address = ptrtoint ptr %memory to i64
  %offset = sub i64 %address, %base
  %inside = icmp ult i64 %offset, %size
  br i1 %inside, label %part, label %systems
part:
  %taken_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 3
  store i64 %offset, ptr %taken_at, align 8
  %is_last = icmp eq i64 %offset, 0
  br i1 %is_last, label %release, label %done
release:
  store atomic i64 0, ptr @fl_reserve release, align 8
  br label %done
systems:
  call void @free(ptr %memory)
  br label %done
done:
  ret void
}

; Sets other memory aside, when no thread has a part of the former.
define void @fl_set_aside(ptr %memory, i64 %bytes) nounwind {
entry:
  %self = call i64 @pthread_self()
  br label %try
try:
  %swap = cmpxchg ptr @fl_reserve, i64 0, i64 %self acquire monotonic
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %set, label %wait
wait:
  %yielded = call i32 @sched_yield()
  br label %try
set:
  %base_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 1
  store ptr %memory, ptr %base_at, align 8
  %size_at = getelementptr %reserve, ptr @fl_reserve, i64 0, i32 2
  store i64 %bytes, ptr %size_at, align 8
  store atomic i64 0, ptr @fl_reserve release, align 8
  ret void
}
