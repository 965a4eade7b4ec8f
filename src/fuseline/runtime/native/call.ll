; The shortest way from Python to a specialisation: a builtin function that looks at its operands in C terms and, when
; they are ordinary small arrays of the dtypes last seen, goes straight to that specialisation's ufunc. NumPy calls a loop
; once for contiguous operands of one shape; for anything else once a row, so there may be few rows. Contiguous operands
; of one shape that are smaller still do not need NumPy: the results are made here and the body is run on the spot. Nor do
; calls that are like an earlier one (prepared.ll). Everything else goes to a Python function with the same operands.

declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()

; 0 ufunc; 1 what turns its tuple into the result (or null); 2 inputs; 3 elements that are too many for it; 4 most rows; types
; of Python numbers that may stand for an operand (or null): 5 int, 6 float; 7 elements that are too many for a call without
; NumPy; 8 the %kernel of such a call; 9 what such numbers become (1 a float, 2 a signed integer, 3 an unsigned one, 0 something
; else); 10 the entry to try next (or null); 11 a dtype for each operand, inputs first, then the type of each dtype's scalars
; (or null).
%entry = type { ptr, ptr, i64, i64, i64, ptr, ptr, i64, ptr, i64, ptr, [0 x ptr] }
; 0 first entry; 1 Python function; 2 type of arrays; 3 bytes of PyObject_HEAD; 4 the interned string "out", 5 type of what it
; is given: an array for one output, a tuple for several; 6 the errors that are refusals; 7 NumPy's PyArray_NewFromDescr;
; 8 %table of prepared calls; 9 the context variable with the limit of threads; 10 the place of the current pool's address;
; 11 calls so far that were like no prepared one; 12 the %store of new outputs.
%caller = type { ptr, ptr, ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr }
; PyArrayObject after PyObject_HEAD: 0 data, 1 nd, 2 dimensions, 3 strides, 4 base, 5 descr, 6 flags (numpy/ndarraytypes.h).
%array = type { ptr, i32, ptr, ptr, ptr, ptr, i32 }

; Whether %type is that of NumPy's scalars of operand %i's dtype: an array of no axes whose element follows PyObject_HEAD.
define internal i1 @is_scalar(ptr %e, i64 %i, ptr %type) nounwind {
  %kernel_at = getelementptr %entry, ptr %e, i64 0, i32 8
  %kernel = load ptr, ptr %kernel_at, align 8
  %nops_at = getelementptr %kernel, ptr %kernel, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %index = add i64 %nops, %i
  %scalar_at = getelementptr %entry, ptr %e, i64 0, i32 11, i64 %index
  %scalar = load ptr, ptr %scalar_at, align 8
  %same = icmp eq ptr %scalar, %type
  ret i1 %same
}

; PyArray_Descr after PyObject_HEAD: 0 typeobj, 1 kind, 2 type, 3 byteorder, 4 flags, 5 type_num (numpy/ndarraytypes.h).
%descr = type { ptr, i8, i8, i8, i8, i32 }

; Whether %given is the dtype %wanted, or one that came another way, as through pickle: one of NumPy's own number types (they
; have numbers below 24) in the machine's order of bytes ('=', or '|' where there is none).
define internal i1 @same_dtype(ptr %given, ptr %wanted, i64 %head) nounwind {
  %same = icmp eq ptr %given, %wanted
  br i1 %same, label %yes, label %look
yes:
  ret i1 true
look:
  %g = getelementptr i8, ptr %given, i64 %head
  %w = getelementptr i8, ptr %wanted, i64 %head
  %order_at = getelementptr %descr, ptr %g, i64 0, i32 3
  %order = load i8, ptr %order_at, align 1
  %number_at = getelementptr %descr, ptr %g, i64 0, i32 5
  %number = load i32, ptr %number_at, align 4
  %wanted_number_at = getelementptr %descr, ptr %w, i64 0, i32 5
  %wanted_number = load i32, ptr %wanted_number_at, align 4
  %same_number = icmp eq i32 %number, %wanted_number
  %is_own = icmp ult i32 %number, 24
  %is_native = icmp eq i8 %order, 61
  %has_none = icmp eq i8 %order, 124
  %in_order = or i1 %is_native, %has_none
  %known = and i1 %same_number, %is_own
  %alike = and i1 %known, %in_order
  ret i1 %alike
}

; METH_FASTCALL | METH_KEYWORDS; %self is a tuple that begins with a capsule of the %caller.
define ptr @fl_call(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %capsule = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %caller = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %first_entry = load atomic ptr, ptr %caller acquire, align 8
  %known = icmp ne ptr %first_entry, null
  br i1 %known, label %how, label %slow
how:
  %positional = icmp eq ptr %names, null
  br i1 %positional, label %number, label %named
named:
  %named_count = call i64 @PyTuple_Size(ptr %names)
  %one_name = icmp eq i64 %named_count, 1
  br i1 %one_name, label %which, label %slow
which:
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 0)
  %out_at = getelementptr %caller, ptr %caller, i64 0, i32 4
  %out = load ptr, ptr %out_at, align 8
  %is_out = icmp eq ptr %name, %out
  br i1 %is_out, label %place, label %slow
place:
  %place_at = getelementptr ptr, ptr %args, i64 %count
  %given = load ptr, ptr %place_at, align 8
  %given_head_at = getelementptr %caller, ptr %caller, i64 0, i32 3
  %given_head = load i64, ptr %given_head_at, align 8
  %given_offset = sub i64 %given_head, 8
  %given_type_at = getelementptr i8, ptr %given, i64 %given_offset
  %given_type = load ptr, ptr %given_type_at, align 8
  %place_type_at = getelementptr %caller, ptr %caller, i64 0, i32 5
  %place_type = load ptr, ptr %place_type_at, align 8
  %is_place = icmp eq ptr %given_type, %place_type
  br i1 %is_place, label %number, label %slow
number:
  %e = phi ptr [ %first_entry, %how ], [ %first_entry, %place ], [ %next_entry, %mismatch ]
  %wanted_at = getelementptr %entry, ptr %e, i64 0, i32 2
  %wanted = load i64, ptr %wanted_at, align 8
  %right = icmp eq i64 %wanted, %count
  br i1 %right, label %begin, label %slow
begin:
  %type_at = getelementptr %caller, ptr %caller, i64 0, i32 2
  %type = load ptr, ptr %type_at, align 8
  %head_at = getelementptr %caller, ptr %caller, i64 0, i32 3
  %head = load i64, ptr %head_at, align 8
  %type_offset = sub i64 %head, 8
  br label %seek
seek:
  ; The first array; what stands before it are numbers.
  %position = phi i64 [ 0, %begin ], [ %position_next, %not_array ]
  %first_at = getelementptr ptr, ptr %args, i64 %position
  %first = load ptr, ptr %first_at, align 8
  %first_type_at = getelementptr i8, ptr %first, i64 %type_offset
  %first_type = load ptr, ptr %first_type_at, align 8
  %first_is_array = icmp eq ptr %first_type, %type
  br i1 %first_is_array, label %measure, label %not_array
not_array:
  %position_next = add i64 %position, 1
  %more_operands = icmp slt i64 %position_next, %count
  br i1 %more_operands, label %seek, label %slow
measure:
  %a0 = getelementptr i8, ptr %first, i64 %head
  %nd0_at = getelementptr %array, ptr %a0, i64 0, i32 1
  %nd0 = load i32, ptr %nd0_at, align 4
  %dims0_at = getelementptr %array, ptr %a0, i64 0, i32 2
  %dims0 = load ptr, ptr %dims0_at, align 8
  br label %operand
operand:
  %i = phi i64 [ 0, %measure ], [ %i_next, %next_operand ]
  %regular = phi i1 [ true, %measure ], [ %regular_next, %next_operand ]
  %orders = phi i32 [ 3, %measure ], [ %orders_next, %next_operand ]
  %pure = phi i1 [ true, %measure ], [ %pure_next, %next_operand ]
  %all_flags = phi i32 [ -1, %measure ], [ %all_flags_next, %next_operand ]
  %most_rows = phi i64 [ 0, %measure ], [ %most_rows_next, %next_operand ]
  %longest = phi i64 [ 0, %measure ], [ %longest_next, %next_operand ]
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at, align 8
  %object_type_at = getelementptr i8, ptr %object, i64 %type_offset
  %object_type = load ptr, ptr %object_type_at, align 8
  %is_array = icmp eq ptr %object_type, %type
  br i1 %is_array, label %dtype, label %number_operand
number_operand:
  %int_at = getelementptr %entry, ptr %e, i64 0, i32 5
  %int = load ptr, ptr %int_at, align 8
  %float_at = getelementptr %entry, ptr %e, i64 0, i32 6
  %float = load ptr, ptr %float_at, align 8
  %is_int = icmp eq ptr %object_type, %int
  %is_float = icmp eq ptr %object_type, %float
  %is_python = or i1 %is_int, %is_float
  %is_scalar = call i1 @is_scalar(ptr %e, i64 %i, ptr %object_type)
  %is_number = or i1 %is_python, %is_scalar
  br i1 %is_number, label %next_operand, label %mismatch
dtype:
  %a = getelementptr i8, ptr %object, i64 %head
  %descr_at = getelementptr %array, ptr %a, i64 0, i32 5
  %descr = load ptr, ptr %descr_at, align 8
  %expected_at = getelementptr %entry, ptr %e, i64 0, i32 11, i64 %i
  %expected = load ptr, ptr %expected_at, align 8
  %same_dtype = call i1 @same_dtype(ptr %descr, ptr %expected, i64 %head)
  br i1 %same_dtype, label %shape, label %mismatch
mismatch:
  %next_entry_at = getelementptr %entry, ptr %e, i64 0, i32 10
  %next_entry = load ptr, ptr %next_entry_at, align 8
  %no_more = icmp eq ptr %next_entry, null
  br i1 %no_more, label %slow, label %number
shape:
  %nd_at = getelementptr %array, ptr %a, i64 0, i32 1
  %nd = load i32, ptr %nd_at, align 4
  %same_rank = icmp eq i32 %nd, %nd0
  %flags_at = getelementptr %array, ptr %a, i64 0, i32 6
  %flags = load i32, ptr %flags_at, align 4
  ; Bit 0 is C order, bit 1 Fortran's; one axis is one loop in either.
  %one_axis = icmp sle i32 %nd, 1
  %own_orders = select i1 %one_axis, i32 3, i32 %flags
  %dims_at = getelementptr %array, ptr %a, i64 0, i32 2
  %dims = load ptr, ptr %dims_at, align 8
  br label %axis
axis:
  %x = phi i32 [ 0, %shape ], [ %x_next, %axis_end ]
  %rows = phi i64 [ 1, %shape ], [ %row_items, %axis_end ]
  %row_items = phi i64 [ 1, %shape ], [ %row_items_next, %axis_end ]
  %last = phi i64 [ 1, %shape ], [ %length, %axis_end ]
  %same_shape = phi i1 [ %same_rank, %shape ], [ %same_shape_next, %axis_end ]
  %measured = icmp eq i32 %x, %nd
  br i1 %measured, label %array_operand, label %axis_step
axis_step:
  %length_at = getelementptr i64, ptr %dims, i32 %x
  %length = load i64, ptr %length_at, align 8
  %row_items_next = mul i64 %row_items, %length
  %x_next = add i32 %x, 1
  br i1 %same_shape, label %compare, label %axis_end
compare:
  %first_length_at = getelementptr i64, ptr %dims0, i32 %x
  %first_length = load i64, ptr %first_length_at, align 8
  %same_length = icmp eq i64 %length, %first_length
  br label %axis_end
axis_end:
  %same_shape_next = phi i1 [ false, %axis_step ], [ %same_length, %compare ]
  br label %axis
array_operand:
  %regular_too = and i1 %regular, %same_shape
  %orders_too = and i32 %orders, %own_orders
  %all_flags_too = and i32 %all_flags, %flags
  %rows_larger = icmp ugt i64 %rows, %most_rows
  %rows_so_far = select i1 %rows_larger, i64 %rows, i64 %most_rows
  %last_larger = icmp ugt i64 %last, %longest
  %longest_so_far = select i1 %last_larger, i64 %last, i64 %longest
  br label %next_operand
next_operand:
  %regular_next = phi i1 [ %regular, %number_operand ], [ %regular_too, %array_operand ]
  %all_flags_next = phi i32 [ %all_flags, %number_operand ], [ %all_flags_too, %array_operand ]
  %pure_next = phi i1 [ false, %number_operand ], [ %pure, %array_operand ]
  %orders_next = phi i32 [ %orders, %number_operand ], [ %orders_too, %array_operand ]
  %most_rows_next = phi i64 [ %most_rows, %number_operand ], [ %rows_so_far, %array_operand ]
  %longest_next = phi i64 [ %longest, %number_operand ], [ %longest_so_far, %array_operand ]
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %operand, label %judge
judge:
  %direct_limit_at = getelementptr %entry, ptr %e, i64 0, i32 7
  %direct_limit = load i64, ptr %direct_limit_at, align 8
  %direct_items = mul i64 %most_rows_next, %longest_next
  %tiny = icmp ult i64 %direct_items, %direct_limit
  %c_bit = and i32 %all_flags_next, 1
  %all_c = icmp ne i32 %c_bit, 0
  %has_axes = icmp sgt i32 %nd0, 0
  %direct1 = and i1 %regular_next, %pure_next
  %direct2 = and i1 %direct1, %tiny
  %direct3 = and i1 %direct2, %all_c
  %direct4 = and i1 %direct3, %has_axes
  br i1 %direct4, label %compiled, label %weigh
compiled:
  %kernel_at = getelementptr %entry, ptr %e, i64 0, i32 8
  %kernel = load ptr, ptr %kernel_at, align 8
  %body = load atomic ptr, ptr %kernel acquire, align 8
  %is_compiled = icmp ne ptr %body, null
  br i1 %is_compiled, label %inputs, label %weigh
inputs:
  %nops_at = getelementptr %kernel, ptr %kernel, i64 0, i32 3
  %nops = load i64, ptr %nops_at, align 8
  %pointers = alloca ptr, i64 %nops, align 8
  %results = alloca ptr, i64 %nops, align 8
  br label %input
input:
  %in = phi i64 [ 0, %inputs ], [ %in_next, %input ]
  %in_object_at = getelementptr ptr, ptr %args, i64 %in
  %in_object = load ptr, ptr %in_object_at, align 8
  %in_array = getelementptr i8, ptr %in_object, i64 %head
  %in_data = load ptr, ptr %in_array, align 8
  %in_at = getelementptr ptr, ptr %pointers, i64 %in
  store ptr %in_data, ptr %in_at, align 8
  %in_next = add i64 %in, 1
  %in_more = icmp slt i64 %in_next, %count
  br i1 %in_more, label %input, label %targets
targets:
  %item_sizes = getelementptr %kernel, ptr %kernel, i64 0, i32 6
  br i1 %positional, label %output, label %given_output
given_output:
  ; One output that is given: like a new one, and apart from the inputs or the very items of one.
  %given_wrap_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %given_wrap = load ptr, ptr %given_wrap_at, align 8
  %one_output = icmp eq ptr %given_wrap, null
  br i1 %one_output, label %given_look, label %weigh
given_look:
  %target_at = getelementptr ptr, ptr %args, i64 %count
  %target = load ptr, ptr %target_at, align 8
  %target_array = getelementptr i8, ptr %target, i64 %head
  %target_descr_at = getelementptr %array, ptr %target_array, i64 0, i32 5
  %target_descr = load ptr, ptr %target_descr_at, align 8
  %wanted_descr_at = getelementptr %entry, ptr %e, i64 0, i32 11, i64 %count
  %wanted_descr = load ptr, ptr %wanted_descr_at, align 8
  %target_dtype = call i1 @same_dtype(ptr %target_descr, ptr %wanted_descr, i64 %head)
  %target_nd_at = getelementptr %array, ptr %target_array, i64 0, i32 1
  %target_nd = load i32, ptr %target_nd_at, align 4
  %target_rank = icmp eq i32 %target_nd, %nd0
  %target_flags_at = getelementptr %array, ptr %target_array, i64 0, i32 6
  %target_flags = load i32, ptr %target_flags_at, align 4
  ; C order and writable
  %target_bits = and i32 %target_flags, 1025
  %target_order = icmp eq i32 %target_bits, 1025
  %target0 = and i1 %target_dtype, %target_rank
  %target1 = and i1 %target0, %target_order
  br i1 %target1, label %given_shape, label %weigh
given_shape:
  %target_dims_at = getelementptr %array, ptr %target_array, i64 0, i32 2
  %target_dims = load ptr, ptr %target_dims_at, align 8
  br label %given_axis
given_axis:
  %gx = phi i32 [ 0, %given_shape ], [ %gx_next, %given_axis_step ]
  %given_compared = icmp eq i32 %gx, %nd0
  br i1 %given_compared, label %given_memory, label %given_axis_step
given_axis_step:
  %target_length_at = getelementptr i64, ptr %target_dims, i32 %gx
  %target_length = load i64, ptr %target_length_at, align 8
  %wanted_length_at = getelementptr i64, ptr %dims0, i32 %gx
  %wanted_length = load i64, ptr %wanted_length_at, align 8
  %gx_next = add i32 %gx, 1
  %target_fits = icmp eq i64 %target_length, %wanted_length
  br i1 %target_fits, label %given_axis, label %weigh
given_memory:
  %target_data = load i64, ptr %target_array, align 8
  %target_item_at = getelementptr i64, ptr %item_sizes, i64 %count
  %target_item = load i64, ptr %target_item_at, align 8
  %target_bytes = mul i64 %target_item, %direct_items
  %target_end = add i64 %target_data, %target_bytes
  br label %given_input
given_input:
  %gi = phi i64 [ 0, %given_memory ], [ %gi_next, %given_input_apart ]
  %all_apart = phi i1 [ true, %given_memory ], [ %all_apart_next, %given_input_apart ]
  %gi_at = getelementptr ptr, ptr %pointers, i64 %gi
  %gi_data = load i64, ptr %gi_at, align 8
  %gi_item_at = getelementptr i64, ptr %item_sizes, i64 %gi
  %gi_item = load i64, ptr %gi_item_at, align 8
  %gi_bytes = mul i64 %gi_item, %direct_items
  %gi_end = add i64 %gi_data, %gi_bytes
  %gi_before = icmp ule i64 %gi_end, %target_data
  %gi_after = icmp ule i64 %target_end, %gi_data
  %gi_apart = or i1 %gi_before, %gi_after
  %gi_same_start = icmp eq i64 %gi_data, %target_data
  %gi_same_item = icmp eq i64 %gi_item, %target_item
  %gi_same = and i1 %gi_same_start, %gi_same_item
  %gi_harmless = or i1 %gi_apart, %gi_same
  br i1 %gi_harmless, label %given_input_apart, label %weigh
given_input_apart:
  %all_apart_next = and i1 %all_apart, %gi_apart
  %gi_next = add i64 %gi, 1
  %gi_more = icmp slt i64 %gi_next, %count
  br i1 %gi_more, label %given_input, label %given_run
given_run:
  %target_place = getelementptr ptr, ptr %pointers, i64 %count
  store i64 %target_data, ptr %target_place, align 8
  %given_fp = call i64 @fp_enter()
  %given_flags = select i1 %all_apart_next, i64 2, i64 0
  call void @fl_block(ptr %kernel, ptr %pointers, ptr %item_sizes, i64 %direct_items, i64 %given_flags, ptr null)
  call void @fp_leave(i64 %given_fp)
  call void @Py_IncRef(ptr %target)
  ret ptr %target
output:
  %out_index = phi i64 [ %count, %targets ], [ %out_next, %output_made ]
  %out_descr_at = getelementptr %entry, ptr %e, i64 0, i32 11, i64 %out_index
  %out_descr = load ptr, ptr %out_descr_at, align 8
  call void @Py_IncRef(ptr %out_descr)
  %new_at = getelementptr %caller, ptr %caller, i64 0, i32 7
  %new = load ptr, ptr %new_at, align 8
  %made = call ptr %new(ptr %type, ptr %out_descr, i32 %nd0, ptr %dims0, ptr null, ptr null, i32 0, ptr null)
  %not_made = icmp eq ptr %made, null
  br i1 %not_made, label %drop, label %output_made
output_made:
  %made_at = getelementptr ptr, ptr %results, i64 %out_index
  store ptr %made, ptr %made_at, align 8
  %made_array = getelementptr i8, ptr %made, i64 %head
  %made_data = load ptr, ptr %made_array, align 8
  %out_at_pointer = getelementptr ptr, ptr %pointers, i64 %out_index
  store ptr %made_data, ptr %out_at_pointer, align 8
  %out_next = add i64 %out_index, 1
  %out_more = icmp slt i64 %out_next, %nops
  br i1 %out_more, label %output, label %run
drop:
  %drop_index = phi i64 [ %out_index, %output ], [ %drop_next, %drop_one ]
  %dropped = icmp eq i64 %drop_index, %count
  br i1 %dropped, label %no_memory, label %drop_one
drop_one:
  %drop_next = sub i64 %drop_index, 1
  %drop_at = getelementptr ptr, ptr %results, i64 %drop_next
  %drop_array = load ptr, ptr %drop_at, align 8
  call void @Py_DecRef(ptr %drop_array)
  br label %drop
no_memory:
  ret ptr null
run:
  %fp = call i64 @fp_enter()
  call void @fl_block(ptr %kernel, ptr %pointers, ptr %item_sizes, i64 %direct_items, i64 2, ptr null)
  call void @fp_leave(i64 %fp)
  %direct_wrap_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %direct_wrap = load ptr, ptr %direct_wrap_at, align 8
  %is_single = icmp eq ptr %direct_wrap, null
  br i1 %is_single, label %single, label %several
single:
  %only_at = getelementptr ptr, ptr %results, i64 %count
  %only = load ptr, ptr %only_at, align 8
  ret ptr %only
several:
  %out_count = sub i64 %nops, %count
  %tuple = call ptr @PyTuple_New(i64 %out_count)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %drop_all, label %put
drop_all:
  br label %drop_rest
drop_rest:
  %rest = phi i64 [ %nops, %drop_all ], [ %rest_next, %drop_rest_one ]
  %rest_done = icmp eq i64 %rest, %count
  br i1 %rest_done, label %no_memory, label %drop_rest_one
drop_rest_one:
  %rest_next = sub i64 %rest, 1
  %rest_at = getelementptr ptr, ptr %results, i64 %rest_next
  %rest_array = load ptr, ptr %rest_at, align 8
  call void @Py_DecRef(ptr %rest_array)
  br label %drop_rest
put:
  %place_index = phi i64 [ 0, %several ], [ %place_next, %put ]
  %result_index = add i64 %count, %place_index
  %result_at = getelementptr ptr, ptr %results, i64 %result_index
  %result_array = load ptr, ptr %result_at, align 8
  %stored = call i32 @PyTuple_SetItem(ptr %tuple, i64 %place_index, ptr %result_array)
  %place_next = add i64 %place_index, 1
  %put_more = icmp slt i64 %place_next, %out_count
  br i1 %put_more, label %put, label %named_tuple
named_tuple:
  %answer_tuple = call ptr @PyObject_CallOneArg(ptr %direct_wrap, ptr %tuple)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %answer_tuple
weigh:
  br i1 %positional, label %like_before, label %with_place
with_place:
  %like_place_at = getelementptr ptr, ptr %args, i64 %count
  %like_place = load ptr, ptr %like_place_at, align 8
  br label %like_before
like_before:
  %target_or_none = phi ptr [ null, %weigh ], [ %like_place, %with_place ]
  %prepared = call ptr @prepared_call(ptr %caller, ptr %e, ptr %args, i64 %count, ptr %target_or_none)
  %not_prepared = icmp eq ptr %prepared, inttoptr (i64 1 to ptr)
  br i1 %not_prepared, label %unlike, label %finished
finished:
  ret ptr %prepared
unlike:
  ; The Python function prepares what it is given, so it is given the first such calls and from then on a few.
  %misses_at = getelementptr %caller, ptr %caller, i64 0, i32 11
  %misses = atomicrmw add ptr %misses_at, i64 1 monotonic
  %among_first = icmp slt i64 %misses, 16
  %turn = and i64 %misses, 31
  %is_turn = icmp eq i64 %turn, 0
  %prepares = or i1 %among_first, %is_turn
  br i1 %prepares, label %slow, label %consider
consider:
  %items = mul i64 %most_rows_next, %longest_next
  %limit_at = getelementptr %entry, ptr %e, i64 0, i32 3
  %limit = load i64, ptr %limit_at, align 8
  %small = icmp ult i64 %items, %limit
  %row_limit_at = getelementptr %entry, ptr %e, i64 0, i32 4
  %row_limit = load i64, ptr %row_limit_at, align 8
  %few_rows = icmp ule i64 %most_rows_next, %row_limit
  %one_order = icmp ne i32 %orders_next, 0
  ; Without a limit of rows outputs have shapes of their own: a number beside arrays would have another one.
  %shapes_matter = icmp eq i64 %row_limit, 0
  %regular_numbers = xor i1 %shapes_matter, true
  %no_numbers = or i1 %pure_next, %regular_numbers
  %one_shape = and i1 %regular_next, %no_numbers
  %one_loop = and i1 %one_shape, %one_order
  %one_or_few = or i1 %one_loop, %few_rows
  %suitable = and i1 %small, %one_or_few
  br i1 %suitable, label %fast, label %slow
fast:
  %ufunc = load ptr, ptr %e, align 8
  ; NumPy converts numbers and results on the way.
  %fast_fp = call i64 @fp_enter()
  %result = call ptr @PyObject_Vectorcall(ptr %ufunc, ptr %args, i64 %count, ptr %names)
  call void @fp_leave(i64 %fast_fp)
  %wrap_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %wrap = load ptr, ptr %wrap_at, align 8
  %plain = icmp eq ptr %wrap, null
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %why, label %result_form
why:
  ; What NumPy refuses is refused again the long way, by the operands' names.
  %value_error_at = getelementptr %caller, ptr %caller, i64 0, i32 6
  %value_error = load ptr, ptr %value_error_at, align 8
  %matches = call i32 @PyErr_ExceptionMatches(ptr %value_error)
  %refused = icmp ne i32 %matches, 0
  br i1 %refused, label %again, label %give
again:
  call void @PyErr_Clear()
  br label %slow
result_form:
  br i1 %plain, label %give, label %pack
give:
  ret ptr %result
pack:
  %packed = call ptr @PyObject_CallOneArg(ptr %wrap, ptr %result)
  call void @Py_DecRef(ptr %result)
  ret ptr %packed
slow:
  %python_at = getelementptr %caller, ptr %caller, i64 0, i32 1
  %python = load ptr, ptr %python_at, align 8
  %answer = call ptr @PyObject_Vectorcall(ptr %python, ptr %args, i64 %count, ptr %names)
  ret ptr %answer
}
