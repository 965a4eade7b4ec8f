"""Reductions of large arrays by compiled elementwise loops, a level of the documented tree at a time.

A sum adds neighbours, then their sums, and so on (SEMANTICS, P5; docs/decisions/0012), so a level is one loop, whatever
the threads. Neighbours in a row are read as one integer of twice their width. Maximum and minimum have the same bits in
any order: they take the two halves of what is left.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuseline import numerics
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.dtype import F32, U32, U64, DType
from fuseline.ir.dtype import dtype as dtype_of
from fuseline.ir.graph import Graph
from fuseline.ir.infer import normal_axes, signature
from fuseline.ir.node import Node
from fuseline.ops import OPERATIONS
from fuseline.runtime import iterate
from fuseline.runtime.compile import elementwise_loop
from fuseline.runtime.loop import Loop

Array = NDArray[Any]

SMALLEST_ITEMS = 1 << 15
"""Smaller arrays, and what is left of larger ones, are reduced by NumPy's calls before a loop would have started."""
_EXTREMA = {"max": "maximum", "min": "minimum"}


def reduced(node: Node, x: Array) -> Array | None:
    """The result of a reduction, as the interpreter's to the bit; None where this module does not do it.

    ``x`` is the operand in the dtype that it is computed in.
    """
    operand, result = node.args[0].dtype, signature(node.op, (node.args[0].dtype,)).result.computed
    if x.size < SMALLEST_ITEMS or x.dtype != operand.computed.numpy or not result.is_float:
        return None
    if result.numpy != x.dtype or result.bits < 32 or node.op not in ("sum", "mean", *_EXTREMA):
        return None
    axes = normal_axes(node.op, node.attr("axes"), x.ndim)
    kept_axes = [axis for axis in range(x.ndim) if axis not in axes]
    kept = [x.shape[axis] for axis in kept_axes]
    count = math.prod(x.shape[axis] for axis in axes)
    in_rows = bool(axes) and kept_axes == list(range(len(kept_axes)))
    if in_rows:
        level = np.ascontiguousarray(x).reshape(*kept, count)
    else:
        level = x.transpose([*axes, *kept_axes]).reshape(count, *kept)
    value = _extremum(level, in_rows, _EXTREMA[node.op]) if node.op in _EXTREMA else _sum(level, in_rows)
    if node.op == "mean":
        value = value / np.asarray(count, np.int64).astype(value.dtype)
    shape = [1 if axis in axes else n for axis, n in enumerate(x.shape)] if node.attr("keepdims", False) else kept
    return value.reshape(shape)


def _sum(level: Array, in_rows: bool) -> Array:
    """The tree's root over the last axis (``in_rows``) or the first."""
    axis = level.ndim - 1 if in_rows else 0
    while level.shape[axis] > 1 and level.size >= SMALLEST_ITEMS:
        half, rest = divmod(level.shape[axis], 2)
        added = np.empty(_with_length(level.shape, axis, half + rest), level.dtype)
        low, last = _part(level, axis, 0, 2 * half), _part(level, axis, 2 * half, None)
        target = _part(added, axis, 0, half)
        if in_rows and level.dtype == np.float32:
            iterate.run(_pair_sums(), [low.view(np.uint64)], [target])
        else:
            iterate.run(
                _binary_loop("add", dtype_of(level.dtype)), [_every_second(low, axis, i) for i in (0, 1)], [target]
            )
        _part(added, axis, half, None)[...] = last
        level = added
    return numerics.tree_sum(level, (axis,), level.dtype)


def _extremum(level: Array, in_rows: bool, op: str) -> Array:
    axis = level.ndim - 1 if in_rows else 0
    while level.shape[axis] > 1 and level.size >= SMALLEST_ITEMS:
        count = level.shape[axis]
        half = count // 2
        next_level = np.empty(_with_length(level.shape, axis, count - half), level.dtype)
        halves = [_part(level, axis, 0, half), _part(level, axis, half, 2 * half)]
        iterate.run(_binary_loop(op, dtype_of(level.dtype)), halves, [_part(next_level, axis, 0, half)])
        _part(next_level, axis, half, None)[...] = _part(level, axis, 2 * half, None)
        level = next_level
    meaning = OPERATIONS[op].meaning
    assert meaning is not None
    return numerics.fold_axes(meaning, level, (axis,))


def _part(a: Array, axis: int, start: int, end: int | None) -> Array:
    part: Array = a[(slice(None),) * axis + (slice(start, end),)]
    return part


def _every_second(a: Array, axis: int, first: int) -> Array:
    part: Array = a[(slice(None),) * axis + (slice(first, None, 2),)]
    return part


def _with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])


@functools.cache
def _binary_loop(op: str, d: DType) -> Loop:
    a, b = Expr(input_node("a", d)), Expr(input_node("b", d))
    return elementwise_loop(Graph([a.node, b.node], [("r", call(op, a, b).node)]))


@functools.cache
def _pair_sums() -> Loop:
    """Two neighbouring float32, read as one integer, the first in its low half, to their sum."""
    pair = Expr(input_node("pair", U64))
    first, second = (half.cast(U32).bitcast(F32) for half in (pair, pair >> 32))
    return elementwise_loop(Graph([pair.node], [("r", (first + second).node)]))
