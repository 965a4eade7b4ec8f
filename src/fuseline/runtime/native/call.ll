; The shortest way from Python to a specialisation: a builtin function that looks at its operands in C terms and, when
; they are ordinary small arrays of the dtypes last seen, goes straight to that specialisation's ufunc. NumPy calls a loop
; once for contiguous operands of one shape; for anything else once a row, so there may be few rows.
; Everything else goes to a Python function with the same operands.

declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @Py_DecRef(ptr)
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()

; ufunc, what turns its tuple into the result (or null), operands, most elements, most rows, types of Python numbers that
; may stand for an operand other than the first (or null), then a dtype for each operand.
%entry = type { ptr, ptr, i64, i64, i64, ptr, ptr, [0 x ptr] }
; current entry, Python function, type of arrays, bytes of PyObject_HEAD, the interned string "out", type of what it is given:
; an array for one output, a tuple for several; ValueError.
%caller = type { ptr, ptr, ptr, i64, ptr, ptr, ptr }
; PyArrayObject after PyObject_HEAD: data, nd, dimensions, strides, base, descr, flags (numpy/ndarraytypes.h).
%array = type { ptr, i32, ptr, ptr, ptr, ptr, i32 }

; METH_FASTCALL | METH_KEYWORDS; %self is a tuple that begins with a capsule of the %caller.
define ptr @fl_call(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %capsule = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %caller = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %e = load atomic ptr, ptr %caller acquire, align 8
  %known = icmp ne ptr %e, null
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
  %first = load ptr, ptr %args, align 8
  %first_type_at = getelementptr i8, ptr %first, i64 %type_offset
  %first_type = load ptr, ptr %first_type_at, align 8
  %first_is_array = icmp eq ptr %first_type, %type
  br i1 %first_is_array, label %measure, label %slow
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
  %is_number = or i1 %is_int, %is_float
  br i1 %is_number, label %next_operand, label %slow
dtype:
  %a = getelementptr i8, ptr %object, i64 %head
  %descr_at = getelementptr %array, ptr %a, i64 0, i32 5
  %descr = load ptr, ptr %descr_at, align 8
  %expected_at = getelementptr %entry, ptr %e, i64 0, i32 7, i64 %i
  %expected = load ptr, ptr %expected_at, align 8
  %same_dtype = icmp eq ptr %descr, %expected
  br i1 %same_dtype, label %shape, label %slow
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
  %rows_larger = icmp ugt i64 %rows, %most_rows
  %rows_so_far = select i1 %rows_larger, i64 %rows, i64 %most_rows
  %last_larger = icmp ugt i64 %last, %longest
  %longest_so_far = select i1 %last_larger, i64 %last, i64 %longest
  br label %next_operand
next_operand:
  %regular_next = phi i1 [ %regular, %number_operand ], [ %regular_too, %array_operand ]
  %orders_next = phi i32 [ %orders, %number_operand ], [ %orders_too, %array_operand ]
  %most_rows_next = phi i64 [ %most_rows, %number_operand ], [ %rows_so_far, %array_operand ]
  %longest_next = phi i64 [ %longest, %number_operand ], [ %longest_so_far, %array_operand ]
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %operand, label %judge
judge:
  %items = mul i64 %most_rows_next, %longest_next
  %limit_at = getelementptr %entry, ptr %e, i64 0, i32 3
  %limit = load i64, ptr %limit_at, align 8
  %small = icmp ule i64 %items, %limit
  %row_limit_at = getelementptr %entry, ptr %e, i64 0, i32 4
  %row_limit = load i64, ptr %row_limit_at, align 8
  %few_rows = icmp ule i64 %most_rows_next, %row_limit
  %one_order = icmp ne i32 %orders_next, 0
  %one_loop = and i1 %regular_next, %one_order
  %one_or_few = or i1 %one_loop, %few_rows
  %suitable = and i1 %small, %one_or_few
  br i1 %suitable, label %fast, label %slow
fast:
  %ufunc = load ptr, ptr %e, align 8
  %result = call ptr @PyObject_Vectorcall(ptr %ufunc, ptr %args, i64 %count, ptr %names)
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
  %packed = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %wrap, ptr %result, ptr null)
  call void @Py_DecRef(ptr %result)
  ret ptr %packed
slow:
  %python_at = getelementptr %caller, ptr %caller, i64 0, i32 1
  %python = load ptr, ptr %python_at, align 8
  %answer = call ptr @PyObject_Vectorcall(ptr %python, ptr %args, i64 %count, ptr %names)
  ret ptr %answer
}
