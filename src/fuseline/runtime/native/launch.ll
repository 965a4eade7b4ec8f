; A prepared call (prepared.ll) from its operands to its result.

; The call's result, null with an exception set, or 1 where no record fits it. %given is what out= was given, or null.
define internal ptr @prepared_call(ptr %caller, ptr %e, ptr %args, i64 %count, ptr %given) nounwind {
entry:
  %r = call ptr @find_prepared(ptr %caller, ptr %e, ptr %args, i64 %count)
  %unknown = icmp eq ptr %r, null
  br i1 %unknown, label %other, label %sharing
sharing:
  %helpers_at = getelementptr %prepared, ptr %r, i64 0, i32 6
  %helpers = load i64, ptr %helpers_at, align 8
  %alone = icmp eq i64 %helpers, 0
  br i1 %alone, label %begin, label %pool_of_caller
pool_of_caller:
  ; The pool must be this process's and have as many threads as are asked for.
  %pool_place_at = getelementptr %caller, ptr %caller, i64 0, i32 10
  %pool_place = load ptr, ptr %pool_place_at, align 8
  %found_pool = load atomic ptr, ptr %pool_place acquire, align 8
  %no_pool = icmp eq ptr %found_pool, null
  br i1 %no_pool, label %other, label %pool_threads
pool_threads:
  %threads_at = getelementptr %pool, ptr %found_pool, i64 0, i32 6
  %threads = load atomic i64, ptr %threads_at acquire, align 8
  %too_few = icmp slt i64 %threads, %helpers
  br i1 %too_few, label %other, label %pool_process
pool_process:
  ; For brief calls fl_run looks, and only where threads would help.
  %job_at = getelementptr %prepared, ptr %r, i64 0, i32 5
  %like = load ptr, ptr %job_at, align 8
  %wakes_at = getelementptr %job, ptr %like, i64 0, i32 22
  %wakes = load i64, ptr %wakes_at, align 8
  %is_brief = icmp eq i64 %wakes, 0
  br i1 %is_brief, label %begin, label %pool_here
pool_here:
  %own = call i1 @is_of_this_process(ptr %found_pool)
  br i1 %own, label %begin, label %other
begin:
  %pool = phi ptr [ null, %sharing ], [ %found_pool, %pool_process ], [ %found_pool, %pool_here ]
  ; Python code that runs meanwhile, and other threads, may replace the record.
  %owner_at = getelementptr %prepared, ptr %r, i64 0, i32 1
  %owner = load ptr, ptr %owner_at, align 8
  call void @Py_IncRef(ptr %owner)
  %head_at = getelementptr %caller, ptr %caller, i64 0, i32 3
  %head = load i64, ptr %head_at, align 8
  %type_offset = sub i64 %head, 8
  %type_at = getelementptr %caller, ptr %caller, i64 0, i32 2
  %type = load ptr, ptr %type_at, align 8
  %template_at = getelementptr %prepared, ptr %r, i64 0, i32 5
  %template = load ptr, ptr %template_at, align 8
  %kernel_at = getelementptr %job, ptr %template, i64 0, i32 5
  %kernel = load ptr, ptr %kernel_at, align 8
  %nops_at = getelementptr %kernel, ptr %kernel, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %layouts_at = getelementptr %prepared, ptr %r, i64 0, i32 3
  %layouts = load ptr, ptr %layouts_at, align 8
  %bytes_at = getelementptr %prepared, ptr %r, i64 0, i32 4
  %bytes = load i64, ptr %bytes_at, align 8
  %pointers = alloca i64, i64 %nops, align 8
  %objects = alloca ptr, i64 %nops, align 8
  %numbers = alloca i64, i64 %nops, align 8
  %job = alloca %job, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %job, ptr %template, i64 ptrtoint (ptr getelementptr (%job, ptr null, i64 1) to i64), i1 false)
  br label %input
input:
  %i = phi i64 [ 0, %begin ], [ %i_next, %input_end ]
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at, align 8
  %layout_offset = mul i64 %i, %bytes
  %layout = getelementptr i8, ptr %layouts, i64 %layout_offset
  %rank = load i64, ptr %layout, align 8
  %pointer_at = getelementptr i64, ptr %pointers, i64 %i
  %is_number = icmp eq i64 %rank, -1
  br i1 %is_number, label %number, label %array
number:
  %item_at = getelementptr %kernel, ptr %kernel, i64 0, i32 6, i64 %i
  %item = load i64, ptr %item_at, align 8
  %place = getelementptr i64, ptr %numbers, i64 %i
  %converted = call i1 @put_number(ptr %caller, ptr %e, ptr %object, i64 %item, ptr %place)
  %place_address = ptrtoint ptr %place to i64
  store i64 %place_address, ptr %pointer_at, align 8
  br i1 %converted, label %input_end, label %let_go
array:
  ; The element of a scalar is where an array has the address of its own.
  %a = getelementptr i8, ptr %object, i64 %head
  %element = ptrtoint ptr %a to i64
  %object_type_at = getelementptr i8, ptr %object, i64 %type_offset
  %object_type = load ptr, ptr %object_type_at, align 8
  %is_array = icmp eq ptr %object_type, %type
  br i1 %is_array, label %array_data, label %data_known
array_data:
  %own_data = load i64, ptr %a, align 8
  br label %data_known
data_known:
  %data = phi i64 [ %element, %array ], [ %own_data, %array_data ]
  store i64 %data, ptr %pointer_at, align 8
  br label %input_end
input_end:
  %i_next = add i64 %i, 1
  %i_more = icmp slt i64 %i_next, %count
  br i1 %i_more, label %input, label %outputs
outputs:
  %wrap_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %wrap = load ptr, ptr %wrap_at, align 8
  %flags_at = getelementptr %prepared, ptr %r, i64 0, i32 7
  %flags = load i64, ptr %flags_at, align 8
  %fresh = icmp eq ptr %given, null
  br i1 %fresh, label %make, label %look
look:
  %single = icmp eq ptr %wrap, null
  br i1 %single, label %one, label %several
one:
  %one_at = getelementptr ptr, ptr %objects, i64 %count
  store ptr %given, ptr %one_at, align 8
  br label %check
several:
  %given_count = call i64 @PyTuple_Size(ptr %given)
  %wanted_count = sub i64 %nops, %count
  %counts_agree = icmp eq i64 %given_count, %wanted_count
  br i1 %counts_agree, label %unpack, label %let_go
unpack:
  %position = phi i64 [ 0, %several ], [ %position_next, %unpack ]
  %member = call ptr @PyTuple_GetItem(ptr %given, i64 %position)
  %member_index = add i64 %position, %count
  %member_at = getelementptr ptr, ptr %objects, i64 %member_index
  store ptr %member, ptr %member_at, align 8
  %position_next = add i64 %position, 1
  %unpack_more = icmp slt i64 %position_next, %wanted_count
  br i1 %unpack_more, label %unpack, label %check
check:
  %verdict = call i64 @given_outputs(ptr %caller, ptr %e, ptr %r, i64 %count, i64 %nops, ptr %pointers, ptr %objects)
  switch i64 %verdict, label %hold [ i64 0, label %let_go ]
hold:
  %h = phi i64 [ %count, %check ], [ %h_next, %hold ]
  %held_at = getelementptr ptr, ptr %objects, i64 %h
  %held = load ptr, ptr %held_at, align 8
  call void @Py_IncRef(ptr %held)
  %h_next = add i64 %h, 1
  %h_more = icmp slt i64 %h_next, %nops
  br i1 %h_more, label %hold, label %held_all
held_all:
  ; The flags are for outputs that nothing is read from; others may still ask for their lines.
  %apart = icmp eq i64 %verdict, 1
  %asks = and i64 %flags, 4
  %given_flags = select i1 %apart, i64 %flags, i64 %asks
  br label %start
make:
  %have = call i1 @new_outputs(ptr %caller, ptr %e, ptr %r, i64 %count, i64 %nops, ptr %objects)
  br i1 %have, label %made, label %failed
made:
  %m = phi i64 [ %count, %make ], [ %m_next, %made ]
  %made_object_at = getelementptr ptr, ptr %objects, i64 %m
  %made_object = load ptr, ptr %made_object_at, align 8
  %made_array = getelementptr i8, ptr %made_object, i64 %head
  %made_data = load i64, ptr %made_array, align 8
  %made_at = getelementptr i64, ptr %pointers, i64 %m
  store i64 %made_data, ptr %made_at, align 8
  %m_next = add i64 %m, 1
  %m_more = icmp slt i64 %m_next, %nops
  br i1 %m_more, label %made, label %start
start:
  %run_flags = phi i64 [ %given_flags, %held_all ], [ %flags, %made ]
  br label %shift
shift:
  ; To where the loop starts: the other end of an axis that runs backwards.
  %s = phi i64 [ 0, %start ], [ %s_next, %shift ]
  %s_offset = mul i64 %s, %bytes
  %s_layout = getelementptr i8, ptr %layouts, i64 %s_offset
  %start_at = getelementptr %layout, ptr %s_layout, i64 0, i32 3
  %start_offset = load i64, ptr %start_at, align 8
  %s_at = getelementptr i64, ptr %pointers, i64 %s
  %first = load i64, ptr %s_at, align 8
  %shifted = add i64 %first, %start_offset
  store i64 %shifted, ptr %s_at, align 8
  %s_next = add i64 %s, 1
  %s_more = icmp slt i64 %s_next, %nops
  br i1 %s_more, label %shift, label %run
run:
  %job_flags_at = getelementptr %job, ptr %job, i64 0, i32 6
  store i64 %run_flags, ptr %job_flags_at, align 8
  ; Flag 8: what is written where it was written last time is still in the caches, and is stored through them.
  %may_be_again_bit = and i64 %run_flags, 8
  %may_be_again = icmp ne i64 %may_be_again_bit, 0
  br i1 %may_be_again, label %look_back, label %ready
look_back:
  %first_output_at = getelementptr i64, ptr %pointers, i64 %count
  %first_output = load i64, ptr %first_output_at, align 8
  %last_output_at = getelementptr %prepared, ptr %r, i64 0, i32 10
  %last_output = load atomic i64, ptr %last_output_at monotonic, align 8
  store atomic i64 %first_output, ptr %last_output_at monotonic, align 8
  %is_again = icmp eq i64 %first_output, %last_output
  %through = and i64 %run_flags, -2
  %flags_now = select i1 %is_again, i64 %through, i64 %run_flags
  store i64 %flags_now, ptr %job_flags_at, align 8
  br label %ready
ready:
  %job_operands_at = getelementptr %job, ptr %job, i64 0, i32 15
  store ptr %pointers, ptr %job_operands_at, align 8
  %may_join_at = getelementptr %job, ptr %job, i64 0, i32 4
  store i64 %helpers, ptr %may_join_at, align 8
  %lets_others_at = getelementptr %prepared, ptr %r, i64 0, i32 9
  %lets_others = load i64, ptr %lets_others_at, align 8
  %keeps = icmp eq i64 %lets_others, 0
  br i1 %keeps, label %brief, label %release
brief:
  ; Threads of the pool need no lock of the interpreter's.
  br i1 %alone, label %brief_alone, label %brief_shared
brief_alone:
  call void @fl_run_alone(ptr %job)
  br label %finished
brief_shared:
  call void @fl_run(ptr %pool, ptr %job)
  br label %finished
release:
  %state = call ptr @PyEval_SaveThread()
  br i1 %alone, label %run_alone, label %run_shared
run_alone:
  call void @fl_run_alone(ptr %job)
  br label %return
run_shared:
  call void @fl_run(ptr %pool, ptr %job)
  br label %return
return:
  call void @PyEval_RestoreThread(ptr %state)
  br label %finished
finished:
  call void @Py_DecRef(ptr %owner)
  %answer = call ptr @packed_result(ptr %wrap, ptr %objects, i64 %count, i64 %nops)
  ret ptr %answer
failed:
  call void @Py_DecRef(ptr %owner)
  ret ptr null
let_go:
  call void @Py_DecRef(ptr %owner)
  br label %other
other:
  ret ptr inttoptr (i64 1 to ptr)
}
