"""Bodies that reduce: each pass of their loops takes one row to one number, or some columns to one number each.

A sum adds neighbours, then their sums, and so on (docs/decisions/0012). Along a row, two vectors become one by adding
the elements at even places to those at odd places, which keeps the order, so whole vectors climb the tree together;
down columns, a vector of one row is added to that of the next. What is missing of a power of two is filled with a
number that changes nothing. Sixteen vectors climb in registers, and their results wait in a list with a place for each
level, as the digits of a binary counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fuseline.codegen.llvm.symbols import LANES_SYMBOL, SYMBOL
from fuseline.codegen.llvm.writer import element_type, splat
from fuseline.ir.dtype import DType

WALKS_BY_ITSELF = 0
"""The lanes of a body that takes its operands by their strides, one step a pass, and needs no whole vectors."""
VECTOR_BYTES = 64
"""On every target: a narrower one takes each vector in parts, and the tree is the same."""
_GROUP_VECTORS = 16
_ROW_LEVELS, _COLUMN_LEVELS = 15, 9
"""Places of a list; there is one for a row, and one for each vector of columns."""
TILE_BYTES = 2048
"""Of a row that are taken down together: half a page, so that not every few loads need another page's address."""
MOST_VECTORS = _GROUP_VECTORS << (_ROW_LEVELS - 1)
"""In a row."""
MOST_ROWS = _GROUP_VECTORS << (_COLUMN_LEVELS - 1)
"""In columns."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What becomes of rows of float32 or float64, or of columns."""

    op: Literal["sum", "max", "min"]
    dtype: DType
    down: bool
    """Of columns."""


def reduction_text(r: Reduction) -> str:
    """LLVM text of @body(ptr operands, ptr increments, i64 steps, i64 flags), see native/block.ll.

    Operands of a step are the first element, int64 numbers that say how far it goes, and the first result; increments
    are the bytes from step to step. A row's elements follow each other, and one number says how many they are. For
    columns there are three: rows, bytes from row to row, and columns, of which at most `TILE_BYTES` are taken; fewer
    than a vector are taken with those before them, which have to be there. All counts are at least 1, vectors in a row
    at most `MOST_VECTORS` and rows in columns at most `MOST_ROWS`.
    """
    lanes, element = VECTOR_BYTES * 8 // r.dtype.bits, element_type(r.dtype)
    kind = f"<{lanes} x {element}>"
    steps = [f"  %x{i + 1} = call {kind} @joined({kind} %x{i}, {kind} %n)" for i in range(lanes.bit_length() - 1)]
    levels, lists = (_COLUMN_LEVELS, TILE_BYTES // VECTOR_BYTES) if r.down else (_ROW_LEVELS, 1)
    parts = [
        _function(f"{kind} @joined({kind} %a, {kind} %b)", [*_joined(r, kind, lanes), f"  ret {kind} %r"]),
        _function(f"{kind} @neutral(ptr %first)", [*_neutral(r, kind, element, lanes), f"  ret {kind} %r"]),
        _function(
            f"{kind} @group(ptr %p, i64 %stride)",
            [*_tree(kind, 0, _GROUP_VECTORS), f"  ret {kind} %t0_{_GROUP_VECTORS}"],
        ),
        _LIST, _COLUMNS if r.down else _ROW, _BODY, _extremum_declaration(r, kind, lanes),
    ]  # fmt: skip
    names = {
        "KIND": kind, "ELEMENT": element, "SIZE": str(r.dtype.bits // 8), "LANES": str(lanes),
        "STEPS": "\n".join(steps), "WHOLE": str(-lanes), "GROUP_ITEMS": str(_GROUP_VECTORS * lanes),
        "GROUP": str(_GROUP_VECTORS), "LEVELS": str(levels), "LISTS": str(levels * lists),
        "VECTOR_BYTES": str(VECTOR_BYTES), "LAST": f"%x{len(steps)}", "PADS": _pads(kind), "BODY": SYMBOL,
        "LANES_NAME": LANES_SYMBOL, "WALKS": str(WALKS_BY_ITSELF),
    }  # fmt: skip
    text = "\n".join(parts)
    for name, value in names.items():
        text = text.replace(f"${name}$", value)
    return text


def _joined(r: Reduction, kind: str, lanes: int) -> list[str]:
    """%r of %a and %b: element by element down columns, and neighbour by neighbour in a row."""
    if r.down:
        pair, lines = ("%a", "%b"), []
    else:
        places = range(0, 2 * lanes, 2), range(1, 2 * lanes, 2)
        pair, lines = ("%even", "%odd"), [_shuffle(n, kind, o) for n, o in zip(("even", "odd"), places, strict=True)]
    if r.op == "sum":
        return [*lines, f"  %r = fadd {kind} {pair[0]}, {pair[1]}"]
    return [*lines, f"  %r = call {kind} {_extremum(r, lanes)}({kind} {pair[0]}, {kind} {pair[1]})"]


def _neutral(r: Reduction, kind: str, element: str, lanes: int) -> list[str]:
    """%r, a vector that changes nothing: of an extremum what stands at %first; x + -0.0 is x, whatever x is."""
    if r.op == "sum":
        return [f"  %r = select i1 true, {kind} {splat(1 << (r.dtype.bits - 1), r.dtype)}, {kind} poison"]
    if r.down:
        return [f"  %r = load {kind}, ptr %first, align 1"]
    return [
        f"  %item = load {element}, ptr %first, align 1",
        f"  %a = insertelement {kind} poison, {element} %item, i64 0",
        f"  %b = insertelement {kind} poison, {element} %item, i64 0",
        _shuffle("r", kind, [0] * lanes),
    ]


def _extremum(r: Reduction, lanes: int) -> str:
    return f"@llvm.{r.op}imum.v{lanes}f{r.dtype.bits}"


def _extremum_declaration(r: Reduction, kind: str, lanes: int) -> str:
    return "" if r.op == "sum" else f"declare {kind} {_extremum(r, lanes)}({kind}, {kind})\n"


def _function(head: str, lines: Iterable[str]) -> str:
    return "\n".join([f"define internal {head} alwaysinline nounwind {{", "entry:", *lines, "}"])


def _shuffle(name: str, kind: str, places: Iterable[int]) -> str:
    order = [f"i32 {i}" for i in places]
    return f"  %{name} = shufflevector {kind} %a, {kind} %b, <{len(order)} x i32> <{', '.join(order)}>"


def _tree(kind: str, start: int, end: int) -> Iterator[str]:
    """The vectors from ``start`` to ``end``, %stride bytes apart, as ``%t<start>_<end>``: few wait in registers."""
    name = f"%t{start}_{end}"
    if end - start == 1:
        yield f"  %o{start} = mul i64 %stride, {start}"
        yield f"  %p{start} = getelementptr i8, ptr %p, i64 %o{start}"
        yield f"  {name} = load {kind}, ptr %p{start}, align 1"
        return
    middle = (start + end) // 2
    yield from _tree(kind, start, middle)
    yield from _tree(kind, middle, end)
    yield f"  {name} = call {kind} @joined({kind} %t{start}_{middle}, {kind} %t{middle}_{end})"


def _pads(kind: str) -> str:
    lines = []
    for i in range(_GROUP_VECTORS):
        lines.append(f"  %pad{i} = getelementptr {kind}, ptr %padded, i64 {i}")
        lines.append(f"  store {kind} %n, ptr %pad{i}, align {VECTOR_BYTES}")
    return "\n".join(lines)


# @climb adds group number %number to a list: as many levels are complete as the number ends in ones. @finished goes up
# all levels from an empty one and takes in what waits; where nothing does, what is missing changes nothing.
_LIST = """
define internal void @climb(ptr %list, i64 %number, $KIND$ %value) alwaysinline nounwind {
entry:
  br label %level
level:
  %v = phi $KIND$ [ %value, %entry ], [ %up, %complete ]
  %digits = phi i64 [ %number, %entry ], [ %higher, %complete ]
  %l = phi i64 [ 0, %entry ], [ %above, %complete ]
  %place = getelementptr $KIND$, ptr %list, i64 %l
  %digit = and i64 %digits, 1
  %waits = icmp ne i64 %digit, 0
  br i1 %waits, label %complete, label %keep
complete:
  %before = load $KIND$, ptr %place, align $VECTOR_BYTES$
  %up = call $KIND$ @joined($KIND$ %before, $KIND$ %v)
  %higher = lshr i64 %digits, 1
  %above = add i64 %l, 1
  br label %level
keep:
  store $KIND$ %v, ptr %place, align $VECTOR_BYTES$
  ret void
}

define internal $KIND$ @finished(ptr %list, i64 %entries, $KIND$ %n) alwaysinline nounwind {
entry:
  br label %level
level:
  %v = phi $KIND$ [ %n, %entry ], [ %v_next, %up ]
  %digits = phi i64 [ %entries, %entry ], [ %digits_next, %up ]
  %l = phi i64 [ 0, %entry ], [ %l_next, %up ]
  %place = getelementptr $KIND$, ptr %list, i64 %l
  %digit = and i64 %digits, 1
  %waits = icmp ne i64 %digit, 0
  br i1 %waits, label %join, label %pass
join:
  %before = load $KIND$, ptr %place, align $VECTOR_BYTES$
  %joined = call $KIND$ @joined($KIND$ %before, $KIND$ %v)
  br label %up
pass:
  %passed = call $KIND$ @joined($KIND$ %v, $KIND$ %n)
  br label %up
up:
  %v_next = phi $KIND$ [ %joined, %join ], [ %passed, %pass ]
  %digits_next = lshr i64 %digits, 1
  %l_next = add i64 %l, 1
  %higher = icmp ne i64 %digits_next, 0
  br i1 %higher, label %level, label %done
done:
  ret $KIND$ %v_next
}
"""

_ROW = """
define internal void @copy(ptr %to, ptr %from, i64 %items) alwaysinline nounwind {
entry:
  %vectors_end = and i64 %items, $WHOLE$
  %some = icmp ne i64 %vectors_end, 0
  br i1 %some, label %vector, label %check
vector:
  %i = phi i64 [ 0, %entry ], [ %i_next, %vector ]
  %from_vector = getelementptr $ELEMENT$, ptr %from, i64 %i
  %to_vector = getelementptr $ELEMENT$, ptr %to, i64 %i
  %vector_there = load $KIND$, ptr %from_vector, align 1
  store $KIND$ %vector_there, ptr %to_vector, align $VECTOR_BYTES$
  %i_next = add i64 %i, $LANES$
  %more_vectors = icmp ult i64 %i_next, %vectors_end
  br i1 %more_vectors, label %vector, label %check
check:
  %any = icmp ult i64 %vectors_end, %items
  br i1 %any, label %item, label %done
item:
  %j = phi i64 [ %vectors_end, %check ], [ %j_next, %item ]
  %from_item = getelementptr $ELEMENT$, ptr %from, i64 %j
  %to_item = getelementptr $ELEMENT$, ptr %to, i64 %j
  %item_there = load $ELEMENT$, ptr %from_item, align 1
  store $ELEMENT$ %item_there, ptr %to_item, align $SIZE$
  %j_next = add i64 %j, 1
  %more_items = icmp ult i64 %j_next, %items
  br i1 %more_items, label %item, label %done
done:
  ret void
}

define internal void @step(ptr %row, ptr %extent, ptr %result, ptr %list, ptr %padded) alwaysinline nounwind {
entry:
  %items = load i64, ptr %extent, align 8
  %n = call $KIND$ @neutral(ptr %row)
  %groups = udiv i64 %items, $GROUP_ITEMS$
  %has_groups = icmp ne i64 %groups, 0
  br i1 %has_groups, label %whole, label %rest
whole:
  %g = phi i64 [ 0, %entry ], [ %g_next, %whole_end ]
  %offset = mul i64 %g, $GROUP_ITEMS$
  %at = getelementptr $ELEMENT$, ptr %row, i64 %offset
  %of_group = call $KIND$ @group(ptr %at, i64 $VECTOR_BYTES$)
  call void @climb(ptr %list, i64 %g, $KIND$ %of_group)
  br label %whole_end
whole_end:
  %g_next = add i64 %g, 1
  %more = icmp ult i64 %g_next, %groups
  br i1 %more, label %whole, label %rest
rest:
  %taken = mul i64 %groups, $GROUP_ITEMS$
  %left = sub i64 %items, %taken
  %has_left = icmp ne i64 %left, 0
  br i1 %has_left, label %pad, label %ends
pad:
$PADS$
  %left_at = getelementptr $ELEMENT$, ptr %row, i64 %taken
  call void @copy(ptr %padded, ptr %left_at, i64 %left)
  %of_left = call $KIND$ @group(ptr %padded, i64 $VECTOR_BYTES$)
  call void @climb(ptr %list, i64 %groups, $KIND$ %of_left)
  br label %pad_end
pad_end:
  %one_more = add i64 %groups, 1
  br label %ends
ends:
  %entries = phi i64 [ %groups, %rest ], [ %one_more, %pad_end ]
  %x0 = call $KIND$ @finished(ptr %list, i64 %entries, $KIND$ %n)
$STEPS$
  %root = extractelement $KIND$ $LAST$, i64 0
  store $ELEMENT$ %root, ptr %result, align 1
  ret void
}
"""

_COLUMNS = """
define internal void @step(ptr %top, ptr %extent, ptr %result, ptr %lists, ptr %padded) alwaysinline nounwind {
entry:
  %rows = load i64, ptr %extent, align 8
  %stride_at = getelementptr i64, ptr %extent, i64 1
  %stride = load i64, ptr %stride_at, align 8
  %columns_at = getelementptr i64, ptr %extent, i64 2
  %columns = load i64, ptr %columns_at, align 8
  %last_start = sub i64 %columns, $LANES$
  %groups = udiv i64 %rows, $GROUP$
  %taken = mul i64 %groups, $GROUP$
  %left = sub i64 %rows, %taken
  %rounded = add i64 %rows, $GROUP$
  %less = sub i64 %rounded, 1
  %entries = udiv i64 %less, $GROUP$
  br label %each_group
each_group:
  %g = phi i64 [ 0, %entry ], [ %g_next, %group_end ]
  %first_row = mul i64 %g, $GROUP$
  %rows_offset = mul i64 %first_row, %stride
  %from = getelementptr i8, ptr %top, i64 %rows_offset
  %is_whole = icmp ult i64 %g, %groups
  br label %each_vector
each_vector:
  %c = phi i64 [ 0, %each_group ], [ %c_next, %vector_end ]
  %start = call i64 @llvm.smin.i64(i64 %c, i64 %last_start)
  %at = getelementptr $ELEMENT$, ptr %from, i64 %start
  %number = udiv i64 %c, $LANES$
  %list_index = mul i64 %number, $LEVELS$
  %list = getelementptr $KIND$, ptr %lists, i64 %list_index
  br i1 %is_whole, label %whole, label %pad
whole:
  %of_group = call $KIND$ @group(ptr %at, i64 %stride)
  br label %climbs
pad:
  %column = getelementptr $ELEMENT$, ptr %top, i64 %start
  %n = call $KIND$ @neutral(ptr %column)
$PADS$
  br label %copy
copy:
  %i = phi i64 [ 0, %pad ], [ %i_next, %copy ]
  %row_offset = mul i64 %i, %stride
  %row = getelementptr i8, ptr %at, i64 %row_offset
  %there = load $KIND$, ptr %row, align 1
  %padded_row = getelementptr $KIND$, ptr %padded, i64 %i
  store $KIND$ %there, ptr %padded_row, align $VECTOR_BYTES$
  %i_next = add i64 %i, 1
  %more_rows = icmp ult i64 %i_next, %left
  br i1 %more_rows, label %copy, label %copied
copied:
  %of_left = call $KIND$ @group(ptr %padded, i64 $VECTOR_BYTES$)
  br label %climbs
climbs:
  %value = phi $KIND$ [ %of_group, %whole ], [ %of_left, %copied ]
  call void @climb(ptr %list, i64 %g, $KIND$ %value)
  br label %vector_end
vector_end:
  %c_next = add i64 %c, $LANES$
  %more_columns = icmp slt i64 %c_next, %columns
  br i1 %more_columns, label %each_vector, label %group_end
group_end:
  %g_next = add i64 %g, 1
  %more_groups = icmp ult i64 %g_next, %entries
  br i1 %more_groups, label %each_group, label %write
write:
  %w = phi i64 [ 0, %group_end ], [ %w_next, %write_end ]
  %w_start = call i64 @llvm.smin.i64(i64 %w, i64 %last_start)
  %w_column = getelementptr $ELEMENT$, ptr %top, i64 %w_start
  %w_neutral = call $KIND$ @neutral(ptr %w_column)
  %w_number = udiv i64 %w, $LANES$
  %w_index = mul i64 %w_number, $LEVELS$
  %w_list = getelementptr $KIND$, ptr %lists, i64 %w_index
  %roots = call $KIND$ @finished(ptr %w_list, i64 %entries, $KIND$ %w_neutral)
  %place = getelementptr $ELEMENT$, ptr %result, i64 %w_start
  store $KIND$ %roots, ptr %place, align 1
  br label %write_end
write_end:
  %w_next = add i64 %w, $LANES$
  %more_writes = icmp slt i64 %w_next, %columns
  br i1 %more_writes, label %write, label %done
done:
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
"""

_BODY = """
define void @$BODY$(ptr %operands, ptr %increments, i64 %steps, i64 %flags) nounwind {
entry:
  %list = alloca [$LISTS$ x $KIND$], align $VECTOR_BYTES$
  %padded = alloca [$GROUP$ x $KIND$], align $VECTOR_BYTES$
  %from0 = load ptr, ptr %operands, align 8
  %extent_at = getelementptr ptr, ptr %operands, i64 1
  %extent0 = load ptr, ptr %extent_at, align 8
  %result_at = getelementptr ptr, ptr %operands, i64 2
  %result0 = load ptr, ptr %result_at, align 8
  %from_step = load i64, ptr %increments, align 8
  %extent_step_at = getelementptr i64, ptr %increments, i64 1
  %extent_step = load i64, ptr %extent_step_at, align 8
  %result_step_at = getelementptr i64, ptr %increments, i64 2
  %result_step = load i64, ptr %result_step_at, align 8
  br label %each
each:
  %s = phi i64 [ 0, %entry ], [ %s_next, %each_end ]
  %from = phi ptr [ %from0, %entry ], [ %from_next, %each_end ]
  %extent = phi ptr [ %extent0, %entry ], [ %extent_next, %each_end ]
  %result = phi ptr [ %result0, %entry ], [ %result_next, %each_end ]
  call void @step(ptr %from, ptr %extent, ptr %result, ptr %list, ptr %padded)
  br label %each_end
each_end:
  %from_next = getelementptr i8, ptr %from, i64 %from_step
  %extent_next = getelementptr i8, ptr %extent, i64 %extent_step
  %result_next = getelementptr i8, ptr %result, i64 %result_step
  %s_next = add i64 %s, 1
  %again = icmp slt i64 %s_next, %steps
  br i1 %again, label %each, label %done
done:
  ret void
}

@$LANES_NAME$ = constant i64 $WALKS$
"""
