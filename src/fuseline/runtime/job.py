"""How a call's work is divided: tiles of the loop nest, chunks that threads take, and dispatches between which Python
looks for signals. The result is the `%job` of native/run.ll, which lacks nothing but addresses.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fuseline.runtime import native, nest, threads
from fuseline.runtime.loop import Loop, Still

Array = NDArray[Any]

_SHARES_A_MS = 512
_LEAST_SHARE_ITEMS, _MOST_SHARE_ITEMS = 1 << 10, 1 << 14
"""A thread is asked to help with work for at least some 2 microseconds."""
_CHUNKS_A_MS = 32
"""A thread's share is handed out in chunks of at least some 30 microseconds, so that in short calls each thread
computes what it computed in the last one: its operands are in its own caches, and another core would wait for them."""
_SHARED_CALLS_A_MS = 256
"""Calls of less work than one thread does in 4 microseconds are over before another helps, even one that is awake."""
_WAKING_CALLS_A_MS = 1_000_000 // threads.WAKING_PAYS_NS
_LARGEST_CHUNK_ITEMS = 1 << 20
_CHUNKS_A_THREAD = 8
_TILES_A_CHUNK = 16
"""Rows of which fewer make a chunk are cut, so that chunks have nearly the same length; so are single ones, so that
brief calls can be divided unevenly. Neighbouring tiles of a row are computed together."""
_DISPATCH_MS = 50
_LEAST_DISPATCH_ITEMS, _MOST_DISPATCH_ITEMS = 1 << 20, 1 << 26
"""Python looks for signals between dispatches, so Ctrl-C waits for about as long as one thread needs for one."""
_SEGMENT_MULTIPLE = 1 << 10
LEAST_RUN, _LEAST_STILL_RUN = 512, 256
"""Rows of fewer elements are computed several at once, of the second number where a body can compute before its loop
what is dear and stands still in a row."""
_MOST_OPERANDS_OF_ROWS = 24

_JOB_FIELDS = 25
(
    _NEXT_JOB, HANDED_OUT, _CHUNKS, _ACTIVE, _MAY_JOIN, KERNEL, FLAGS, _LENGTH, _SEGMENT, _SEGMENTS, _FIRST_TILE,
    _END_TILE, _GRAIN, _OUTER_AXES, _SHAPE, OPERANDS, _STRIDES, _OUTER_STRIDES, _ROW, _ROW_STRIDES, _RANGES,
    _RANGE_COUNT, _WAKES, _WHOLE_NS, _CALLERS_END,
) = range(_JOB_FIELDS)  # fmt: skip
"""The fields of `%job`, by position; native code alone uses those of ranges and ``_CALLERS_END``."""
Job = ctypes.c_int64 * _JOB_FIELDS


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Everything about a call but its addresses."""

    nest: nest.Nest
    """Keeps the arrays that ``job`` points to."""
    job: bytes
    items: int
    tiles: int
    tiles_a_dispatch: int
    grain: int
    helpers: int
    """Threads of the pool that may help."""
    may_be_shared: bool
    """Whether there is work for more than one thread, however many there are."""
    reversed: bool
    still: Still
    """Inputs that are one element in each run of the body."""
    still_in_rows: Still
    """Where rows are computed several at once that need not be: inputs that are one element in each."""


def plan_of_steps(
    shape: nest.Shape, strides: tuple[nest.Strides, ...], inputs: int, step_ns: float, thread_limit: int
) -> JobPlan:
    """The plan of ``shape`` steps, each of which is work enough to be worth handing out, as a row that is reduced.
    Every operand has ``strides`` for all axes."""
    pace = max(int(1e6 / step_ns), 1)
    return _plan(shape, (shape,) * len(strides), strides, inputs, thread_limit, pace, 0, long_steps=True)


def plan_of(
    loop: Loop, shape: nest.Shape, inputs: Sequence[Array], outputs: Sequence[Array], *, is_large: bool
) -> JobPlan:
    """The plan of a call of ``loop``, for as many threads as it may use now. It is large where its arrays do not fit
    together into the caches."""
    operands = [*inputs, *outputs]
    shapes, strides = tuple([a.shape for a in operands]), tuple([a.strides for a in operands])
    about = shape, shapes, strides, len(inputs), threads.thread_count(), _pace(loop)
    plan = _plan(*about, LEAST_RUN)
    if plan.still_in_rows and loop.for_call(plan.still_in_rows, is_large) is not loop.for_call((), is_large):
        return _plan(*about, _LEAST_STILL_RUN)
    return plan


def _pace(loop: Loop) -> int:
    """Elements that one thread computes in a millisecond, about: a number of three bits, so that programs of similar
    cost share their plans."""
    pace = max(int(1e6 / loop.item_ns), 1)
    dropped = max(pace.bit_length() - 3, 0)
    return pace >> dropped << dropped


@functools.lru_cache(maxsize=1024)
def _plan(
    shape: nest.Shape,
    shapes: tuple[nest.Shape, ...],
    strides: tuple[nest.Strides, ...],
    inputs: int,
    thread_limit: int,
    items_a_ms: int,
    least_run: int,
    *,
    long_steps: bool = False,
) -> JobPlan:
    n = nest.plan(shape, shapes, strides, inputs)
    items = n.items
    least_dispatch, least_share = (1, 1) if long_steps else (_LEAST_DISPATCH_ITEMS, _LEAST_SHARE_ITEMS)
    dispatch_items = max(least_dispatch, min(_MOST_DISPATCH_ITEMS, _DISPATCH_MS * items_a_ms))
    share_items = max(least_share, min(_MOST_SHARE_ITEMS, items_a_ms // _SHARES_A_MS))
    may_be_shared = items * _SHARED_CALLS_A_MS >= items_a_ms and items >= 2 * share_items
    thread_count = min(thread_limit, items // share_items) if may_be_shared else 1
    row = n.inner if _has_short_rows(n, len(shapes), least_run) else 0
    outer, length = (n.outer_shape[:-1], n.outer_shape[-1]) if row else (n.outer_shape, n.inner)
    outer_count, unit = math.prod(outer), max(row, 1)
    chunk_items = max(items_a_ms // _CHUNKS_A_MS, 1)
    multiple = 1 if row or long_steps else _SEGMENT_MULTIPLE
    segment, grain = _division(outer_count, length, unit, multiple, thread_count, dispatch_items, chunk_items)
    segments = -(-length // segment)
    job = Job()
    job[_LENGTH] = length
    job[_SEGMENT] = segment
    job[_SEGMENTS] = segments
    job[_GRAIN] = grain
    job[_OUTER_AXES] = len(outer)
    job[_SHAPE] = ctypes.addressof(n.native_shape)
    job[_OUTER_STRIDES] = ctypes.addressof(n.native_outer_strides)
    job[_ROW] = row
    job[_ROW_STRIDES] = job[_STRIDES] = ctypes.addressof(n.native_inner_strides)
    if row:  # the last outer axis: its strides follow those of the axes around it
        job[_STRIDES] = ctypes.addressof(n.native_outer_strides) + 8 * len(outer) * len(shapes)
    tiles = outer_count * segments
    job[_END_TILE] = tiles
    job[_CHUNKS] = -(-tiles // grain)
    job[_WAKES] = items * _WAKING_CALLS_A_MS >= items_a_ms
    job[_WHOLE_NS] = max(items * 1_000_000 // items_a_ms, 1)
    still = tuple(i for i in range(inputs) if not n.inner_strides[i]) if n.inner >= _LEAST_STILL_RUN else ()
    return JobPlan(
        nest=n,
        job=bytes(job),
        items=items,
        tiles=tiles,
        tiles_a_dispatch=max(dispatch_items // (segment * unit * grain), 1) * grain,
        grain=grain,
        helpers=min(thread_count, job[_CHUNKS]) - 1,
        may_be_shared=may_be_shared,
        reversed=any(n.offsets),
        still=() if row else still,
        still_in_rows=still if row else (),
    )


def _has_short_rows(n: nest.Nest, operand_count: int, least_run: int) -> bool:
    """Whether native/rows.ll should run several rows at once: they are short and fit its packed blocks."""
    return bool(n.outer_shape) and n.inner < least_run and operand_count <= _MOST_OPERANDS_OF_ROWS


def _division(
    outer_count: int, length: int, unit: int, multiple: int, thread_count: int, dispatch_items: int, chunk_items: int
) -> tuple[int, int]:
    """(length of a segment, tiles of a chunk), for ``outer_count`` times ``length`` steps of ``unit`` items each.
    Segments are multiples of ``multiple`` steps."""
    if thread_count == 1:
        segment = min(length, max(dispatch_items // unit, 1))
        return segment, max(1, dispatch_items // (segment * unit))
    share = -(-outer_count * length * unit // thread_count)
    pieces = max(min(share // chunk_items, _CHUNKS_A_THREAD), -(-share // _LARGEST_CHUNK_ITEMS), 1)
    chunk = -(-share // pieces)
    most = chunk // _TILES_A_CHUNK
    segment = min(-(-max(most // unit, 1) // multiple) * multiple, length)
    tiles = outer_count * -(-length // segment)
    return segment, -(-tiles // (thread_count * pieces))


def dispatch(plan: JobPlan, job: ctypes.Array[ctypes.c_int64]) -> None:
    """Run all tiles, some at a time so that a pending KeyboardInterrupt is raised in between."""
    if plan.tiles <= plan.tiles_a_dispatch:
        _run_tiles(plan.helpers, job)
        return
    for first in range(0, plan.tiles, plan.tiles_a_dispatch):
        end = min(first + plan.tiles_a_dispatch, plan.tiles)
        job[HANDED_OUT] = 0
        job[_FIRST_TILE], job[_END_TILE], job[_CHUNKS] = first, end, -(-(end - first) // plan.grain)
        _run_tiles(plan.helpers, job)


def _run_tiles(helpers: int, job: ctypes.Array[ctypes.c_int64]) -> None:
    run_alone, run_shared = _native()
    if helpers:
        pool = threads.pool()
        job[_MAY_JOIN] = min(pool.ensure(helpers), helpers)
        run_shared(pool.address, ctypes.addressof(job))
    else:
        run_alone(ctypes.addressof(job))


@functools.cache
def _native() -> tuple[Callable[[int], None], Callable[[int, int], None]]:
    exports = native.support().exports
    alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(exports["fl_run_alone"])
    shared = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(exports["fl_run"])
    return alone, shared
