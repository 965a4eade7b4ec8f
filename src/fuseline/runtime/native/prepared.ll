; Calls that are like an earlier one in everything but their addresses: same dtypes, shapes, strides and number of threads.
; All that has to be known about such a call is in a %prepared, so the loop nest is run without a line of Python. What is
; like no earlier call, or writes where it reads, is left to others.

declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)

; 0 the %entry of its dtypes; 1 a Python object that keeps all of this; 2 the value of the thread limit it is for (null:
; any); 3 layouts of the operands; 4 bytes of one; 5 %job without addresses; 6 threads of the pool that may help; 7 flags of
; the body where outputs and inputs are apart; 8 bytes from which on new outputs take memory of the store; 9
; whether other Python threads run meanwhile; 10 where the first output began last time.
%prepared = type { ptr, ptr, ptr, ptr, i64, ptr, i64, i64, i64, i64, i64 }
%table = type { i64, [0 x ptr] }
; 0 rank, -1 for a Python number; bytes from the first element 1 to the lowest, 2 to behind the highest, 3 to where the loop
; starts; 4 a number that operands of one shape, one set of strides and one item size share; 5 lengths, then strides.
%layout = type { i64, i64, i64, i64, i64, [0 x i64] }

define internal i1 @fits(ptr %layout, ptr %array) nounwind {
entry:
  %rank = load i64, ptr %layout, align 8
  %nd_at = getelementptr %array, ptr %array, i64 0, i32 1
  %nd = load i32, ptr %nd_at, align 4
  %own_rank = sext i32 %nd to i64
  %same_rank = icmp eq i64 %own_rank, %rank
  br i1 %same_rank, label %begin, label %no
begin:
  %dims_at = getelementptr %array, ptr %array, i64 0, i32 2
  %dims = load ptr, ptr %dims_at, align 8
  %strides_at = getelementptr %array, ptr %array, i64 0, i32 3
  %strides = load ptr, ptr %strides_at, align 8
  br label %axis
axis:
  %x = phi i64 [ 0, %begin ], [ %x_next, %same ]
  %over = icmp sge i64 %x, %rank
  br i1 %over, label %yes, label %compare
compare:
  %length_at = getelementptr i64, ptr %dims, i64 %x
  %length = load i64, ptr %length_at, align 8
  %wanted_length_at = getelementptr %layout, ptr %layout, i64 0, i32 5, i64 %x
  %wanted_length = load i64, ptr %wanted_length_at, align 8
  %stride_at = getelementptr i64, ptr %strides, i64 %x
  %stride = load i64, ptr %stride_at, align 8
  %y = add i64 %x, %rank
  %wanted_stride_at = getelementptr %layout, ptr %layout, i64 0, i32 5, i64 %y
  %wanted_stride = load i64, ptr %wanted_stride_at, align 8
  %same_length = icmp eq i64 %length, %wanted_length
  %same_stride = icmp eq i64 %stride, %wanted_stride
  %both = and i1 %same_length, %same_stride
  br i1 %both, label %same, label %no
same:
  %x_next = add i64 %x, 1
  br label %axis
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether %count operands, whose dtypes are right, have the layouts of %r.
define internal i1 @all_fit(ptr %caller, ptr %e, ptr %r, ptr %args, i64 %count) nounwind {
entry:
  %type_at = getelementptr %caller, ptr %caller, i64 0, i32 2
  %type = load ptr, ptr %type_at, align 8
  %head_at = getelementptr %caller, ptr %caller, i64 0, i32 3
  %head = load i64, ptr %head_at, align 8
  %type_offset = sub i64 %head, 8
  %layouts_at = getelementptr %prepared, ptr %r, i64 0, i32 3
  %layouts = load ptr, ptr %layouts_at, align 8
  %bytes_at = getelementptr %prepared, ptr %r, i64 0, i32 4
  %bytes = load i64, ptr %bytes_at, align 8
  br label %operand
operand:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %yes, label %look
look:
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at, align 8
  %object_type_at = getelementptr i8, ptr %object, i64 %type_offset
  %object_type = load ptr, ptr %object_type_at, align 8
  %layout_offset = mul i64 %i, %bytes
  %layout = getelementptr i8, ptr %layouts, i64 %layout_offset
  %is_array = icmp eq ptr %object_type, %type
  br i1 %is_array, label %array, label %number
number:
  %rank = load i64, ptr %layout, align 8
  %is_scalar = call i1 @is_scalar(ptr %e, i64 %i, ptr %object_type)
  %wanted_rank = select i1 %is_scalar, i64 0, i64 -1
  %expected = icmp eq i64 %rank, %wanted_rank
  br i1 %expected, label %next, label %no
array:
  %a = getelementptr i8, ptr %object, i64 %head
  %good = call i1 @fits(ptr %layout, ptr %a)
  br i1 %good, label %next, label %no
next:
  %i_next = add i64 %i, 1
  br label %operand
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether the context's limit of threads is the very object %wanted; any will do for null.
define internal i1 @has_limit(ptr %caller, ptr %wanted) nounwind {
entry:
  %slot = alloca ptr, align 8
  %any = icmp eq ptr %wanted, null
  br i1 %any, label %yes, label %ask
ask:
  store ptr null, ptr %slot, align 8
  %variable_at = getelementptr %caller, ptr %caller, i64 0, i32 9
  %variable = load ptr, ptr %variable_at, align 8
  %status = call i32 @PyContextVar_Get(ptr %variable, ptr null, ptr %slot)
  %value = load ptr, ptr %slot, align 8
  %nothing = icmp eq ptr %value, null
  br i1 %nothing, label %forget, label %compare
forget:
  call void @PyErr_Clear()
  ret i1 false
compare:
  call void @Py_DecRef(ptr %value)
  %same = icmp eq ptr %value, %wanted
  ret i1 %same
yes:
  ret i1 true
}

; The record of %caller that a call fits, or null.
define internal ptr @find_prepared(ptr %caller, ptr %e, ptr %args, i64 %count) nounwind {
entry:
  %table_at = getelementptr %caller, ptr %caller, i64 0, i32 8
  %table = load ptr, ptr %table_at, align 8
  %number = load atomic i64, ptr %table acquire, align 8
  br label %record
record:
  %n = phi i64 [ 0, %entry ], [ %n_next, %next ]
  %over = icmp sge i64 %n, %number
  br i1 %over, label %none, label %look
look:
  %r_at = getelementptr %table, ptr %table, i64 0, i32 1, i64 %n
  %r = load atomic ptr, ptr %r_at acquire, align 8
  %own_entry = load ptr, ptr %r, align 8
  %same_entry = icmp eq ptr %own_entry, %e
  br i1 %same_entry, label %layouts, label %next
layouts:
  %good = call i1 @all_fit(ptr %caller, ptr %e, ptr %r, ptr %args, i64 %count)
  br i1 %good, label %limit, label %next
limit:
  %wanted_at = getelementptr %prepared, ptr %r, i64 0, i32 2
  %wanted = load ptr, ptr %wanted_at, align 8
  %right = call i1 @has_limit(ptr %caller, ptr %wanted)
  br i1 %right, label %found, label %next
found:
  ret ptr %r
next:
  %n_next = add i64 %n, 1
  br label %record
none:
  ret ptr null
}

; Writes the Python number %object to %place in the operands' dtype; false where that takes more care than is taken here:
; integers that a float may not hold exactly or that do not fit, floats beyond float32.
define internal i1 @put_number(ptr %caller, ptr %e, ptr %object, i64 %item, ptr %place) nounwind {
entry:
  %overflow = alloca i32, align 4
  %head_at = getelementptr %caller, ptr %caller, i64 0, i32 3
  %head = load i64, ptr %head_at, align 8
  %type_offset = sub i64 %head, 8
  %type_at = getelementptr i8, ptr %object, i64 %type_offset
  %type = load ptr, ptr %type_at, align 8
  %float_at = getelementptr %entry, ptr %e, i64 0, i32 6
  %float = load ptr, ptr %float_at, align 8
  %is_float = icmp eq ptr %type, %float
  %kind_at = getelementptr %entry, ptr %e, i64 0, i32 9
  %kind = load i64, ptr %kind_at, align 8
  br i1 %is_float, label %float_value, label %int_value
float_value:
  %given = call double @PyFloat_AsDouble(ptr %object)
  br label %value
int_value:
  %whole = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %beyond = load i32, ptr %overflow, align 4
  %in_range = icmp eq i32 %beyond, 0
  br i1 %in_range, label %int_kind, label %no
int_kind:
  switch i64 %kind, label %no [ i64 1, label %exact
                                i64 2, label %signed
                                i64 3, label %unsigned ]
exact:
  %size = call i64 @llvm.abs.i64(i64 %whole, i1 false)
  %is_exact = icmp ule i64 %size, 16777216
  %converted = sitofp i64 %whole to double
  br i1 %is_exact, label %value, label %no
signed:
  %bits = shl i64 %item, 3
  %unused = sub i64 64, %bits
  %up = shl i64 %whole, %unused
  %down = ashr i64 %up, %unused
  %fits = icmp eq i64 %down, %whole
  br i1 %fits, label %put_int, label %no
unsigned:
  %unsigned_bits = shl i64 %item, 3
  %unsigned_unused = sub i64 64, %unsigned_bits
  %unsigned_up = shl i64 %whole, %unsigned_unused
  %unsigned_down = lshr i64 %unsigned_up, %unsigned_unused
  %unsigned_same = icmp eq i64 %unsigned_down, %whole
  %positive = icmp sge i64 %whole, 0
  %unsigned_fits = and i1 %unsigned_same, %positive
  br i1 %unsigned_fits, label %put_int, label %no
put_int:
  store i64 %whole, ptr %place, align 8
  ret i1 true
value:
  %v = phi double [ %given, %float_value ], [ %converted, %exact ]
  %is_float_kind = icmp eq i64 %kind, 1
  br i1 %is_float_kind, label %width, label %no
width:
  %is_double = icmp eq i64 %item, 8
  br i1 %is_double, label %put_double, label %narrow
put_double:
  store double %v, ptr %place, align 8
  ret i1 true
narrow:
  %fp = call i64 @fp_enter()
  %single = fptrunc double %v to float
  store float %single, ptr %place, align 4
  call void @fp_leave(i64 %fp)
  ; Halfway between the largest float32 and the next that there would be: from here on it would be an infinity.
  %absolute = call double @llvm.fabs.f64(double %v)
  %is_huge = fcmp oge double %absolute, 0x47EFFFFFF0000000
  %is_infinite = fcmp oeq double %absolute, 0x7FF0000000000000
  %is_number = xor i1 %is_infinite, true
  %becomes_infinite = and i1 %is_huge, %is_number
  br i1 %becomes_infinite, label %no, label %put
put:
  ret i1 true
no:
  ret i1 false
}

declare double @llvm.fabs.f64(double)

; Whether outputs that are given can be written: like new ones, and apart from everything else or the very items of an
; input. 2 says that some are those, 1 that none is, 0 that they cannot. %pointers holds the data of the inputs.
define internal i64 @given_outputs(ptr %caller, ptr %e, ptr %r, i64 %count, i64 %nops, ptr %pointers, ptr %objects) nounwind {
entry:
  %type_at = getelementptr %caller, ptr %caller, i64 0, i32 2
  %type = load ptr, ptr %type_at, align 8
  %head_at = getelementptr %caller, ptr %caller, i64 0, i32 3
  %head = load i64, ptr %head_at, align 8
  %type_offset = sub i64 %head, 8
  %layouts_at = getelementptr %prepared, ptr %r, i64 0, i32 3
  %layouts = load ptr, ptr %layouts_at, align 8
  %bytes_at = getelementptr %prepared, ptr %r, i64 0, i32 4
  %bytes = load i64, ptr %bytes_at, align 8
  br label %output
output:
  %o = phi i64 [ %count, %entry ], [ %o_next, %apart_from_all ]
  %verdict = phi i64 [ 1, %entry ], [ %verdict_now, %apart_from_all ]
  %over = icmp eq i64 %o, %nops
  br i1 %over, label %done, label %look
look:
  %object_at = getelementptr ptr, ptr %objects, i64 %o
  %object = load ptr, ptr %object_at, align 8
  %object_type_at = getelementptr i8, ptr %object, i64 %type_offset
  %object_type = load ptr, ptr %object_type_at, align 8
  %is_array = icmp eq ptr %object_type, %type
  br i1 %is_array, label %dtype, label %no
dtype:
  %a = getelementptr i8, ptr %object, i64 %head
  %descr_at = getelementptr %array, ptr %a, i64 0, i32 5
  %descr = load ptr, ptr %descr_at, align 8
  %wanted_at = getelementptr %entry, ptr %e, i64 0, i32 11, i64 %o
  %wanted = load ptr, ptr %wanted_at, align 8
  %same_dtype = call i1 @same_dtype(ptr %descr, ptr %wanted, i64 %head)
  %flags_at = getelementptr %array, ptr %a, i64 0, i32 6
  %flags = load i32, ptr %flags_at, align 4
  %writable_bit = and i32 %flags, 1024
  %writable = icmp ne i32 %writable_bit, 0
  %usual = and i1 %same_dtype, %writable
  br i1 %usual, label %layout, label %no
layout:
  %layout_offset = mul i64 %o, %bytes
  %own = getelementptr i8, ptr %layouts, i64 %layout_offset
  %good = call i1 @fits(ptr %own, ptr %a)
  br i1 %good, label %memory, label %no
memory:
  %data = load i64, ptr %a, align 8
  %data_place = getelementptr i64, ptr %pointers, i64 %o
  store i64 %data, ptr %data_place, align 8
  %low_at = getelementptr %layout, ptr %own, i64 0, i32 1
  %low_offset = load i64, ptr %low_at, align 8
  %low = add i64 %data, %low_offset
  %high_at = getelementptr %layout, ptr %own, i64 0, i32 2
  %high_offset = load i64, ptr %high_at, align 8
  %high = add i64 %data, %high_offset
  %likeness_at = getelementptr %layout, ptr %own, i64 0, i32 4
  %likeness = load i64, ptr %likeness_at, align 8
  br label %other
other:
  %i = phi i64 [ 0, %memory ], [ %i_next, %other_end ]
  %verdict_now = phi i64 [ %verdict, %memory ], [ %verdict_next, %other_end ]
  %compared = icmp eq i64 %i, %o
  br i1 %compared, label %apart_from_all, label %other_look
other_look:
  %other_offset = mul i64 %i, %bytes
  %other_layout = getelementptr i8, ptr %layouts, i64 %other_offset
  %other_data_at = getelementptr i64, ptr %pointers, i64 %i
  %other_data = load i64, ptr %other_data_at, align 8
  %other_low_at = getelementptr %layout, ptr %other_layout, i64 0, i32 1
  %other_low_offset = load i64, ptr %other_low_at, align 8
  %other_low = add i64 %other_data, %other_low_offset
  %other_high_at = getelementptr %layout, ptr %other_layout, i64 0, i32 2
  %other_high_offset = load i64, ptr %other_high_at, align 8
  %other_high = add i64 %other_data, %other_high_offset
  %before = icmp ule i64 %high, %other_low
  %after = icmp ule i64 %other_high, %low
  %apart = or i1 %before, %after
  br i1 %apart, label %other_end, label %shared
shared:
  %other_likeness_at = getelementptr %layout, ptr %other_layout, i64 0, i32 4
  %other_likeness = load i64, ptr %other_likeness_at, align 8
  %alike = icmp eq i64 %other_likeness, %likeness
  %same_data = icmp eq i64 %other_data, %data
  %is_input = icmp slt i64 %i, %count
  %same_items = and i1 %alike, %same_data
  %harmless = and i1 %same_items, %is_input
  br i1 %harmless, label %other_end, label %no
other_end:
  %verdict_next = phi i64 [ %verdict_now, %other_look ], [ 2, %shared ]
  %i_next = add i64 %i, 1
  br label %other
apart_from_all:
  %o_next = add i64 %o, 1
  br label %output
done:
  ret i64 %verdict
no:
  ret i64 0
}

; Puts new outputs into %objects, owned; false with an exception set where there is no memory.
define internal i1 @new_outputs(ptr %caller, ptr %e, ptr %r, i64 %count, i64 %nops, ptr %objects) nounwind {
entry:
  %least_at = getelementptr %prepared, ptr %r, i64 0, i32 8
  %least = load i64, ptr %least_at, align 8
  %store_at = getelementptr %caller, ptr %caller, i64 0, i32 12
  %store = load ptr, ptr %store_at, align 8
  %most_at = getelementptr %store, ptr %store, i64 0, i32 3
  %most = load i64, ptr %most_at, align 8
  %type_at = getelementptr %caller, ptr %caller, i64 0, i32 2
  %type = load ptr, ptr %type_at, align 8
  %new_at = getelementptr %caller, ptr %caller, i64 0, i32 7
  %new = load ptr, ptr %new_at, align 8
  %layouts_at = getelementptr %prepared, ptr %r, i64 0, i32 3
  %layouts = load ptr, ptr %layouts_at, align 8
  %bytes_at = getelementptr %prepared, ptr %r, i64 0, i32 4
  %bytes = load i64, ptr %bytes_at, align 8
  br label %output
output:
  %o = phi i64 [ %count, %entry ], [ %o_next, %made ]
  %layout_offset = mul i64 %o, %bytes
  %layout = getelementptr i8, ptr %layouts, i64 %layout_offset
  %rank = load i64, ptr %layout, align 8
  %nd = trunc i64 %rank to i32
  %dims = getelementptr %layout, ptr %layout, i64 0, i32 5
  %descr_at = getelementptr %entry, ptr %e, i64 0, i32 11, i64 %o
  %descr = load ptr, ptr %descr_at, align 8
  %strides = getelementptr i64, ptr %dims, i64 %rank
  %low_at = getelementptr %layout, ptr %layout, i64 0, i32 1
  %low = load i64, ptr %low_at, align 8
  %high_at = getelementptr %layout, ptr %layout, i64 0, i32 2
  %high = load i64, ptr %high_at, align 8
  %size = sub i64 %high, %low
  %large = icmp sge i64 %size, %least
  %not_huge = icmp sle i64 %size, %most
  %stored = and i1 %large, %not_huge
  br i1 %stored, label %from_store, label %from_numpy
from_store:
  %lent = call ptr @fl_store_array(ptr %store, ptr %descr, i64 %rank, ptr %dims, ptr %strides, i64 %size)
  br label %look
from_numpy:
  call void @Py_IncRef(ptr %descr)
  %own = call ptr %new(ptr %type, ptr %descr, i32 %nd, ptr %dims, ptr %strides, ptr null, i32 0, ptr null)
  br label %look
look:
  %array = phi ptr [ %lent, %from_store ], [ %own, %from_numpy ]
  %not_made = icmp eq ptr %array, null
  br i1 %not_made, label %drop, label %made
made:
  %array_at = getelementptr ptr, ptr %objects, i64 %o
  store ptr %array, ptr %array_at, align 8
  %o_next = add i64 %o, 1
  %o_more = icmp slt i64 %o_next, %nops
  br i1 %o_more, label %output, label %yes
drop:
  call void @drop_objects(ptr %objects, i64 %count, i64 %o)
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Gives back the references %from up to %to.
define internal void @drop_objects(ptr %objects, i64 %from, i64 %to) nounwind {
entry:
  br label %one
one:
  %i = phi i64 [ %from, %entry ], [ %i_next, %drop ]
  %over = icmp sge i64 %i, %to
  br i1 %over, label %done, label %drop
drop:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at, align 8
  call void @Py_DecRef(ptr %object)
  %i_next = add i64 %i, 1
  br label %one
done:
  ret void
}

; What the caller gets for the outputs in %objects, whose references it takes over: the array, or %wrap of a tuple.
define internal ptr @packed_result(ptr %wrap, ptr %objects, i64 %count, i64 %nops) nounwind {
entry:
  %single = icmp eq ptr %wrap, null
  br i1 %single, label %one, label %several
one:
  %only_at = getelementptr ptr, ptr %objects, i64 %count
  %only = load ptr, ptr %only_at, align 8
  ret ptr %only
several:
  %outputs = sub i64 %nops, %count
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %drop, label %put
drop:
  call void @drop_objects(ptr %objects, i64 %count, i64 %nops)
  ret ptr null
put:
  %position = phi i64 [ 0, %several ], [ %position_next, %put ]
  %index = add i64 %count, %position
  %at = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %at, align 8
  %stored = call i32 @PyTuple_SetItem(ptr %tuple, i64 %position, ptr %object)
  %position_next = add i64 %position, 1
  %more = icmp slt i64 %position_next, %outputs
  br i1 %more, label %put, label %wrapped
wrapped:
  %answer = call ptr @PyObject_CallOneArg(ptr %wrap, ptr %tuple)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %answer
}
