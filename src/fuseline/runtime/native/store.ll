; Memory for the outputs of large calls, kept when an array dies and given to the next one. A block is an array of NumPy's
; that nobody but the store sees, a page longer than what it counts for; an output is another array over the same
; memory, whose base gives the block back.

declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyErr_NoMemory()
declare ptr @malloc(i64)
declare void @free(ptr)
declare ptr @llvm.ptrmask.p0.i64(ptr, i64)

; 0 array, 1 bytes
%block = type { ptr, i64 }
; 0 lock, 1 blocks, 2 bytes of them all, 3 most bytes that may lie idle, 4 NumPy's PyArray_NewFromDescr, 5 its
; PyArray_SetBaseObject, 6 type of arrays, 7 bytes of PyObject_HEAD, 8 dtype of a byte, 9 the blocks, the one idle longest
; first
%store = type { i64, i64, i64, i64, ptr, ptr, ptr, i64, ptr, [64 x %block] }
; what the base of an output points to
%lease = type { ptr, ptr, i64 }

; Takes the lock; false where it stays taken, as after a fork in the wrong moment: then the store is left out.
define internal i1 @store_lock(ptr %s) nounwind {
entry:
  br label %try
try:
  %tries = phi i64 [ 0, %entry ], [ %tries_more, %taken ]
  %swap = cmpxchg ptr %s, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %yes, label %taken
taken:
  call void @pause()
  %tries_more = add i64 %tries, 1
  %patient = icmp slt i64 %tries_more, 10000
  br i1 %patient, label %try, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @store_unlock(ptr %s) nounwind {
  store atomic i64 0, ptr %s release, align 8
  ret void
}

; Takes block %i out of the locked store.
define internal void @store_remove(ptr %s, i64 %i) nounwind {
entry:
  %count_at = getelementptr %store, ptr %s, i64 0, i32 1
  %count = load i64, ptr %count_at, align 8
  %less = sub i64 %count, 1
  store i64 %less, ptr %count_at, align 8
  %bytes_at = getelementptr %store, ptr %s, i64 0, i32 9, i64 %i, i32 1
  %bytes = load i64, ptr %bytes_at, align 8
  %idle_at = getelementptr %store, ptr %s, i64 0, i32 2
  %idle = load i64, ptr %idle_at, align 8
  %idle_less = sub i64 %idle, %bytes
  store i64 %idle_less, ptr %idle_at, align 8
  br label %shift
shift:
  %j = phi i64 [ %i, %entry ], [ %next, %move ]
  %more = icmp slt i64 %j, %less
  br i1 %more, label %move, label %done
move:
  %next = add i64 %j, 1
  %to = getelementptr %store, ptr %s, i64 0, i32 9, i64 %j
  %from = getelementptr %store, ptr %s, i64 0, i32 9, i64 %next
  %block = load %block, ptr %from, align 8
  store %block %block, ptr %to, align 8
  br label %shift
done:
  ret void
}

; A block of at least %bytes and at most a quarter more, the one used last; null where there is none.
define internal ptr @store_take(ptr %s, i64 %bytes, ptr %bytes_found) nounwind {
entry:
  %locked = call i1 @store_lock(ptr %s)
  br i1 %locked, label %begin, label %none
begin:
  %count_at = getelementptr %store, ptr %s, i64 0, i32 1
  %count = load i64, ptr %count_at, align 8
  %quarter = lshr i64 %bytes, 2
  %most = add i64 %bytes, %quarter
  br label %search
search:
  %i = phi i64 [ %count, %begin ], [ %before, %look ]
  %over = icmp eq i64 %i, 0
  br i1 %over, label %nothing, label %look
look:
  %before = sub i64 %i, 1
  %own_at = getelementptr %store, ptr %s, i64 0, i32 9, i64 %before, i32 1
  %own = load i64, ptr %own_at, align 8
  %enough = icmp uge i64 %own, %bytes
  %close = icmp ule i64 %own, %most
  %good = and i1 %enough, %close
  br i1 %good, label %found, label %search
found:
  %array_at = getelementptr %store, ptr %s, i64 0, i32 9, i64 %before
  %array = load ptr, ptr %array_at, align 8
  store i64 %own, ptr %bytes_found, align 8
  call void @store_remove(ptr %s, i64 %before)
  call void @store_unlock(ptr %s)
  ret ptr %array
nothing:
  call void @store_unlock(ptr %s)
  br label %none
none:
  ret ptr null
}

; Drops the blocks idle longest until at most %limit bytes are idle and there is room for one more; the bytes dropped.
define i64 @fl_store_shrink(ptr %s, i64 %limit) nounwind {
entry:
  %dropped = alloca [64 x ptr], align 8
  %locked = call i1 @store_lock(ptr %s)
  br i1 %locked, label %begin, label %none
begin:
  %count_at = getelementptr %store, ptr %s, i64 0, i32 1
  %idle_at = getelementptr %store, ptr %s, i64 0, i32 2
  %idle_before = load i64, ptr %idle_at, align 8
  br label %look
look:
  %n = phi i64 [ 0, %begin ], [ %n_more, %drop ]
  %idle = load i64, ptr %idle_at, align 8
  %count = load i64, ptr %count_at, align 8
  %too_much = icmp sgt i64 %idle, %limit
  %full = icmp eq i64 %count, 64
  %any = icmp sgt i64 %count, 0
  %wanted = or i1 %too_much, %full
  %go = and i1 %wanted, %any
  br i1 %go, label %drop, label %unlock
drop:
  %array_at = getelementptr %store, ptr %s, i64 0, i32 9, i64 0
  %array = load ptr, ptr %array_at, align 8
  %dropped_at = getelementptr ptr, ptr %dropped, i64 %n
  store ptr %array, ptr %dropped_at, align 8
  call void @store_remove(ptr %s, i64 0)
  %n_more = add i64 %n, 1
  br label %look
unlock:
  call void @store_unlock(ptr %s)
  call void @drop_objects(ptr %dropped, i64 0, i64 %n)
  %bytes = sub i64 %idle_before, %idle
  ret i64 %bytes
none:
  ret i64 0
}

; Puts a block into the store, which takes over the reference.
define internal void @store_give(ptr %s, ptr %array, i64 %bytes) nounwind {
entry:
  %bound_at = getelementptr %store, ptr %s, i64 0, i32 3
  %bound = load i64, ptr %bound_at, align 8
  %room = sub i64 %bound, %bytes
  %fits = icmp sge i64 %room, 0
  br i1 %fits, label %shrink, label %drop
shrink:
  %dropped = call i64 @fl_store_shrink(ptr %s, i64 %room)
  %locked = call i1 @store_lock(ptr %s)
  br i1 %locked, label %check, label %drop
check:
  %count_at = getelementptr %store, ptr %s, i64 0, i32 1
  %count = load i64, ptr %count_at, align 8
  %has_room = icmp slt i64 %count, 64
  br i1 %has_room, label %put, label %leave
put:
  %place = getelementptr %store, ptr %s, i64 0, i32 9, i64 %count
  store ptr %array, ptr %place, align 8
  %bytes_at = getelementptr %store, ptr %s, i64 0, i32 9, i64 %count, i32 1
  store i64 %bytes, ptr %bytes_at, align 8
  %count_more = add i64 %count, 1
  store i64 %count_more, ptr %count_at, align 8
  %idle_at = getelementptr %store, ptr %s, i64 0, i32 2
  %idle = load i64, ptr %idle_at, align 8
  %idle_more = add i64 %idle, %bytes
  store i64 %idle_more, ptr %idle_at, align 8
  call void @store_unlock(ptr %s)
  ret void
leave:
  call void @store_unlock(ptr %s)
  br label %drop
drop:
  call void @Py_DecRef(ptr %array)
  ret void
}

; The last view of an output has died: its base, a capsule, gives the block back.
define internal void @store_return(ptr %capsule) nounwind {
  %lease = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @end_lease(ptr %lease)
  ret void
}

define internal void @end_lease(ptr %lease) nounwind {
  %s = load ptr, ptr %lease, align 8
  %array_at = getelementptr %lease, ptr %lease, i64 0, i32 1
  %array = load ptr, ptr %array_at, align 8
  %bytes_at = getelementptr %lease, ptr %lease, i64 0, i32 2
  %bytes = load i64, ptr %bytes_at, align 8
  call void @free(ptr %lease)
  call void @store_give(ptr %s, ptr %array, i64 %bytes)
  ret void
}

; A new array, uninitialised, of %nd axes over a block of %bytes; null with an exception set where there is no memory.
define ptr @fl_store_array(ptr %s, ptr %descr, i64 %nd, ptr %dims, ptr %strides, i64 %bytes) nounwind {
entry:
  %bytes_found = alloca i64, align 8
  %length = alloca i64, align 8
  store i64 %bytes, ptr %bytes_found, align 8
  %new_at = getelementptr %store, ptr %s, i64 0, i32 4
  %new = load ptr, ptr %new_at, align 8
  %set_base_at = getelementptr %store, ptr %s, i64 0, i32 5
  %set_base = load ptr, ptr %set_base_at, align 8
  %type_at = getelementptr %store, ptr %s, i64 0, i32 6
  %type = load ptr, ptr %type_at, align 8
  %head_at = getelementptr %store, ptr %s, i64 0, i32 7
  %head = load i64, ptr %head_at, align 8
  %axes = trunc i64 %nd to i32
  %idle = call ptr @store_take(ptr %s, i64 %bytes, ptr %bytes_found)
  %have = icmp ne ptr %idle, null
  br i1 %have, label %lend, label %make
make:
  %byte_at = getelementptr %store, ptr %s, i64 0, i32 8
  %byte = load ptr, ptr %byte_at, align 8
  %with_margin = add i64 %bytes, 4096
  store i64 %with_margin, ptr %length, align 8
  call void @Py_IncRef(ptr %byte)
  %fresh = call ptr %new(ptr %type, ptr %byte, i32 1, ptr %length, ptr null, ptr null, i32 0, ptr null)
  %no_fresh = icmp eq ptr %fresh, null
  br i1 %no_fresh, label %give_up_idle, label %lend
give_up_idle:
  ; What is missing may lie idle here, in blocks of other sizes.
  call void @PyErr_Clear()
  %given_up = call i64 @fl_store_shrink(ptr %s, i64 0)
  call void @Py_IncRef(ptr %byte)
  %second = call ptr %new(ptr %type, ptr %byte, i32 1, ptr %length, ptr null, ptr null, i32 0, ptr null)
  %no_second = icmp eq ptr %second, null
  br i1 %no_second, label %fail, label %lend
lend:
  %block = phi ptr [ %idle, %entry ], [ %fresh, %make ], [ %second, %give_up_idle ]
  %block_bytes = load i64, ptr %bytes_found, align 8
  %lease = call ptr @malloc(i64 24)
  %no_lease = icmp eq ptr %lease, null
  br i1 %no_lease, label %no_memory, label %write
no_memory:
  call void @Py_DecRef(ptr %block)
  %error = call ptr @PyErr_NoMemory()
  br label %fail
write:
  store ptr %s, ptr %lease, align 8
  %block_at = getelementptr %lease, ptr %lease, i64 0, i32 1
  store ptr %block, ptr %block_at, align 8
  %block_bytes_at = getelementptr %lease, ptr %lease, i64 0, i32 2
  store i64 %block_bytes, ptr %block_bytes_at, align 8
  %capsule = call ptr @PyCapsule_New(ptr %lease, ptr null, ptr @store_return)
  %no_capsule = icmp eq ptr %capsule, null
  br i1 %no_capsule, label %give_back, label %cover
give_back:
  call void @end_lease(ptr %lease)
  br label %fail
cover:
  %data_at = getelementptr i8, ptr %block, i64 %head
  %own_data = load ptr, ptr %data_at, align 8
  ; Outputs begin with a page. NumPy's large arrays begin 16 bytes behind one, and a load whose address agrees in its last
  ; 12 bits with that of a store just before it, as 48 bytes further on, waits for the store.
  %beyond = getelementptr i8, ptr %own_data, i64 4095
  %data = call ptr @llvm.ptrmask.p0.i64(ptr %beyond, i64 -4096)
  call void @Py_IncRef(ptr %descr)
  ; writable and aligned
  %array = call ptr %new(ptr %type, ptr %descr, i32 %axes, ptr %dims, ptr %strides, ptr %data, i32 1280, ptr null)
  %no_array = icmp eq ptr %array, null
  br i1 %no_array, label %drop_capsule, label %own
drop_capsule:
  call void @Py_DecRef(ptr %capsule)
  br label %fail
own:
  %status = call i32 %set_base(ptr %array, ptr %capsule)
  %refused = icmp slt i32 %status, 0
  br i1 %refused, label %drop_array, label %done
drop_array:
  call void @Py_DecRef(ptr %array)
  br label %fail
done:
  ret ptr %array
fail:
  ret ptr null
}
