; The shortest way from Python to a specialisation: a builtin function that looks at its operands in C terms and, when
; they are ordinary small arrays of one shape and of the dtypes last seen, goes straight to that specialisation's ufunc.
; Several dimensions must be contiguous, since NumPy calls a loop for each row of anything else.
; Everything else goes to a Python function with the same operands.

declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @Py_DecRef(ptr)

; ufunc, what turns its tuple into the result (or null), operands, most elements, types of Python numbers that may stand
; for an operand other than the first (or null), then a dtype for each operand.
%entry = type { ptr, ptr, i64, i64, ptr, ptr, [0 x ptr] }
; current entry, Python function, type of arrays, bytes of PyObject_HEAD, the interned string "out", type of what it is given:
; an array for one output, a tuple for several.
%caller = type { ptr, ptr, ptr, i64, ptr, ptr }
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
  %limit_at = getelementptr %entry, ptr %e, i64 0, i32 3
  %limit = load i64, ptr %limit_at, align 8
  br label %size
size:
  %d = phi i32 [ 0, %measure ], [ %d_next, %size_step ]
  %items = phi i64 [ 1, %measure ], [ %items_next, %size_step ]
  %sized = icmp eq i32 %d, %nd0
  br i1 %sized, label %operand, label %size_step
size_step:
  %length_at = getelementptr i64, ptr %dims0, i32 %d
  %length = load i64, ptr %length_at, align 8
  %items_next = mul i64 %items, %length
  %d_next = add i32 %d, 1
  %small = icmp ule i64 %items_next, %limit
  br i1 %small, label %size, label %slow
operand:
  %i = phi i64 [ 0, %size ], [ %i_next, %same_shape ]
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at, align 8
  %object_type_at = getelementptr i8, ptr %object, i64 %type_offset
  %object_type = load ptr, ptr %object_type_at, align 8
  %is_array = icmp eq ptr %object_type, %type
  br i1 %is_array, label %dtype, label %number_operand
number_operand:
  %int_at = getelementptr %entry, ptr %e, i64 0, i32 4
  %int = load ptr, ptr %int_at, align 8
  %float_at = getelementptr %entry, ptr %e, i64 0, i32 5
  %float = load ptr, ptr %float_at, align 8
  %is_int = icmp eq ptr %object_type, %int
  %is_float = icmp eq ptr %object_type, %float
  %is_number = or i1 %is_int, %is_float
  br i1 %is_number, label %same_shape, label %slow
dtype:
  %a = getelementptr i8, ptr %object, i64 %head
  %descr_at = getelementptr %array, ptr %a, i64 0, i32 5
  %descr = load ptr, ptr %descr_at, align 8
  %expected_at = getelementptr %entry, ptr %e, i64 0, i32 6, i64 %i
  %expected = load ptr, ptr %expected_at, align 8
  %same_dtype = icmp eq ptr %descr, %expected
  %nd_at = getelementptr %array, ptr %a, i64 0, i32 1
  %nd = load i32, ptr %nd_at, align 4
  %same_rank = icmp eq i32 %nd, %nd0
  %flags_at = getelementptr %array, ptr %a, i64 0, i32 6
  %flags = load i32, ptr %flags_at, align 4
  %c_contiguous_bit = and i32 %flags, 1
  %c_contiguous = icmp ne i32 %c_contiguous_bit, 0
  %one_axis = icmp sle i32 %nd, 1
  %single_loop = or i1 %c_contiguous, %one_axis
  %same = and i1 %same_dtype, %same_rank
  %alike = and i1 %same, %single_loop
  br i1 %alike, label %shape, label %slow
shape:
  %dims_at = getelementptr %array, ptr %a, i64 0, i32 2
  %dims = load ptr, ptr %dims_at, align 8
  br label %axis
axis:
  %x = phi i32 [ 0, %shape ], [ %x_next, %axis_step ]
  %compared = icmp eq i32 %x, %nd0
  br i1 %compared, label %same_shape, label %axis_step
axis_step:
  %length_here_at = getelementptr i64, ptr %dims, i32 %x
  %length_here = load i64, ptr %length_here_at, align 8
  %length_first_at = getelementptr i64, ptr %dims0, i32 %x
  %length_first = load i64, ptr %length_first_at, align 8
  %x_next = add i32 %x, 1
  %same_length = icmp eq i64 %length_here, %length_first
  br i1 %same_length, label %axis, label %slow
same_shape:
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %operand, label %fast
fast:
  %ufunc = load ptr, ptr %e, align 8
  %result = call ptr @PyObject_Vectorcall(ptr %ufunc, ptr %args, i64 %count, ptr %names)
  %wrap_at = getelementptr %entry, ptr %e, i64 0, i32 1
  %wrap = load ptr, ptr %wrap_at, align 8
  %plain = icmp eq ptr %wrap, null
  %failed = icmp eq ptr %result, null
  %finished = or i1 %plain, %failed
  br i1 %finished, label %give, label %pack
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
