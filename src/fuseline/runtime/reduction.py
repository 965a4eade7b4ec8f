"""Reductions of floats by compiled loops, to the bits of the documented tree (SEMANTICS, P5; docs/decisions/0012).

An array is seen as axes outside those that are reduced, and axes inside. Where there are none inside, each pass of a
loop takes a row to a number; else it takes some columns down (codegen/llvm/reduction.py). What is long is cut into
blocks of 2**k elements, which are trees of their own, and threads share rows, columns and blocks.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fuseline.codegen.llvm.reduction import MOST_ROWS, TILE_BYTES, VECTOR_BYTES, Reduction
from fuseline.floating_point import in_default_environment
from fuseline.ir.dtype import F32, F64, DType
from fuseline.ir.infer import normal_axes, signature
from fuseline.ir.node import Node
from fuseline.runtime import iterate, recycle, threads
from fuseline.runtime.arrays import data_address
from fuseline.runtime.compile import reducing_loop
from fuseline.runtime.job import JobPlan, plan_of_steps
from fuseline.runtime.loop import Loop

Array = NDArray[Any]

MOST_ITEMS_A_PASS = 1 << 16
"""Elements of a row that one pass takes, as of columns `MOST_ROWS`: a power of two, and enough to be handed to a
thread."""
STEP_NS, _BYTE_NS = 30.0, 0.025
"""What a pass takes, and each byte that it reads, about."""


def reduced(node: Node, x: Array) -> Array | None:
    """The result of a reduction, as the interpreter's to the bit; None where this module does not do it.

    ``x`` is the operand in the dtype that it is computed in.
    """
    form = _form(node, x.shape)
    if form is None or x.dtype != form.dtype.numpy:
        return None
    if x.flags.c_contiguous and form.together:
        value = _value(x, form.outside, form.count, form.inside, form)
    elif x.flags.f_contiguous and form.one_axis:  # rows are columns, and columns rows
        value = _value(x.T, form.inside, form.count, form.outside, form)
        value = value.reshape(form.kept[::-1]).T
    elif form.together:
        value = _value(_contiguous(x), form.outside, form.count, form.inside, form)
    else:
        rows = _contiguous(x.transpose(form.rows_order))
        value = _value(rows, form.outside * form.inside, form.count, 1, form)
    return value.reshape(form.result)


def loop_of(node: Node) -> Loop | None:
    """The loop that reduces rows of the operand, which stand together; None where this module does not do it."""
    shape = node.args[0].tensor.shape
    assert shape is not None
    form = _form(node, tuple(int(n) for n in shape))  # type: ignore[arg-type]  # stages have numbers for sizes
    if form is None or node.args[0].dtype is not form.dtype:
        return None
    return reducing_loop(Reduction(form.op, form.dtype, down=False))


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """What a reduction makes of the axes of one shape; one for each, so that it is a key by itself."""

    op: Literal["sum", "max", "min"]
    dtype: DType
    kept: tuple[int, ...]
    """Lengths of the axes that stay."""
    outside: int
    """Elements of the axes outside the first that is reduced, where those that are reduced stand together."""
    count: int
    """Elements that become one."""
    inside: int
    together: bool
    one_axis: bool
    rows_order: tuple[int, ...]
    """The axes, those that are reduced last."""
    result: tuple[int, ...]
    """The shape of the result."""


_OPS: dict[str, Literal["sum", "max", "min"]] = {"sum": "sum", "max": "max", "min": "min"}


@functools.lru_cache(maxsize=1024)
def _form(node: Node, shape: tuple[int, ...]) -> _Form | None:
    """None for what is reduced elsewhere: no elements, and anything but float32 and float64 that stay what they are."""
    operand, result = node.args[0].dtype.computed, signature(node.op, (node.args[0].dtype,)).result.computed
    if node.op not in _OPS or not (result is operand and node.dtype is result in (F32, F64)) or 0 in shape:
        return None
    axes = normal_axes(node.op, node.attr("axes"), len(shape))
    kept_axes = [axis for axis in range(len(shape)) if axis not in axes]
    kept = tuple(shape[axis] for axis in kept_axes)
    first, last = (axes[0], axes[-1]) if axes else (len(shape), len(shape) - 1)
    alone = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return _Form(
        op=_OPS[node.op],
        dtype=result,
        kept=kept,
        outside=math.prod(n for axis, n in zip(kept_axes, kept, strict=True) if axis < first),
        count=math.prod(shape[axis] for axis in axes),
        inside=math.prod(n for axis, n in zip(kept_axes, kept, strict=True) if axis >= first),
        together=last - first + 1 == len(axes),
        one_axis=len(axes) == 1,
        rows_order=(*kept_axes, *axes),
        result=alone if node.attr("keepdims", False) else kept,
    )


def _value(x: Array, outside: int, count: int, inside: int, form: _Form) -> Array:
    """``x``, which is contiguous, as ``outside`` by ``count`` by ``inside`` elements without the middle axis, flat."""
    if 1 < inside < VECTOR_BYTES // x.itemsize:
        x = _contiguous(x.reshape(outside, count, inside).transpose(0, 2, 1))
        outside, inside = outside * inside, 1
    loop, works = _runs(form, outside, count, inside, threads.thread_count())
    for work in works:
        value = recycle.empty((work.results,), x.dtype)
        iterate.run_steps(loop, work.plan, [data_address(x), data_address(work.extents), data_address(value)])
        x = value
    return x


def _contiguous(x: Array) -> Array:
    return recycle.with_idle_memory(lambda: np.ascontiguousarray(x))


@dataclass(frozen=True, slots=True)
class _Work:
    """One run of a reducing loop, which leaves ``blocks`` elements of each that are to become one."""

    plan: JobPlan
    extents: Array
    """The loop's second operand."""
    blocks: int
    results: int
    """Elements that it writes."""


@functools.lru_cache(maxsize=1024)
@in_default_environment
def _runs(form: _Form, outside: int, count: int, inside: int, thread_limit: int) -> tuple[Loop, tuple[_Work, ...]]:
    """The loop, and its runs one after the other until one element of each is left."""
    item_bytes = form.dtype.numpy.itemsize
    works: list[_Work] = []
    blocks = count
    while not works or blocks > 1:
        if inside > 1:
            works.append(_of_columns(outside, blocks, inside, item_bytes, thread_limit))
        else:
            works.append(_of_rows(outside, blocks, item_bytes, thread_limit))
        blocks = works[-1].blocks
    return reducing_loop(Reduction(form.op, form.dtype, down=inside > 1)), tuple(works)


def _of_rows(rows: int, count: int, item_bytes: int, thread_limit: int) -> _Work:
    blocks = -(-count // MOST_ITEMS_A_PASS)
    extents = np.full(blocks, MOST_ITEMS_A_PASS, np.int64)
    extents[-1] = count - (blocks - 1) * MOST_ITEMS_A_PASS
    strides = (
        (count * item_bytes, MOST_ITEMS_A_PASS * item_bytes),
        (0, extents.itemsize),
        (blocks * item_bytes, item_bytes),
    )
    step_ns = STEP_NS + _BYTE_NS * item_bytes * min(count, MOST_ITEMS_A_PASS)
    return _Work(plan_of_steps((rows, blocks), strides, 2, step_ns, thread_limit), extents, blocks, rows * blocks)


def _of_columns(outside: int, count: int, inside: int, item_bytes: int, thread_limit: int) -> _Work:
    tile = TILE_BYTES // item_bytes
    blocks, tiles = -(-count // MOST_ROWS), -(-inside // tile)
    row_bytes = inside * item_bytes
    extents = np.empty((blocks, tiles, 3), np.int64)
    extents[...] = MOST_ROWS, row_bytes, tile
    extents[-1, :, 0] = count - (blocks - 1) * MOST_ROWS
    extents[:, -1, 2] = inside - (tiles - 1) * tile
    strides = (
        (count * row_bytes, MOST_ROWS * row_bytes, TILE_BYTES),
        (0, *extents.strides[:2]),
        (blocks * row_bytes, row_bytes, TILE_BYTES),
    )
    step_ns = STEP_NS + _BYTE_NS * min(row_bytes, TILE_BYTES) * min(count, MOST_ROWS)
    plan = plan_of_steps((outside, blocks, tiles), strides, 2, step_ns, thread_limit)
    return _Work(plan, extents, blocks, outside * blocks * inside)
