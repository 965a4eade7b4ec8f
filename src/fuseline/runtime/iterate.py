"""One call of a compiled loop over whole arrays: results, overlap, streaming stores and threads.

Any number of operands; every element is computed by the same body whatever the layout, the length or the number of
threads. Operands come in the loop's own dtypes; `call` in runtime/kernel.py converts what users pass.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ReadOnlyError, ShapeError, TypeRuleError
from . import host, native, nest, recycle, threads
from .loop import APART, STREAMING, Loop

Array = NDArray[Any]
Bounds = tuple[int, int]

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
_TILES_A_CHUNK = 8
"""Rows of which fewer make a chunk are cut, so that chunks have nearly the same length."""
_DISPATCH_MS = 50
_LEAST_DISPATCH_ITEMS, _MOST_DISPATCH_ITEMS = 1 << 20, 1 << 26
"""Python looks for signals between dispatches, so Ctrl-C waits for about as long as one thread needs for one."""
_SEGMENT_MULTIPLE = 1 << 10
_SHORT_ROW = 512
_MOST_OPERANDS_OF_ROWS = 24

_JOB_FIELDS = 23
(_NEXT_JOB, _HANDED_OUT, _CHUNKS, _ACTIVE, _MAY_JOIN, _KERNEL, _FLAGS, _LENGTH, _SEGMENT, _SEGMENTS) = range(10)
(_FIRST_TILE, _END_TILE, _GRAIN, _OUTER_AXES, _SHAPE, _OPERANDS, _STRIDES, _OUTER_STRIDES) = range(10, 18)
_ROW, _ROW_STRIDES, _WAKES = 18, 19, 22
_Job = ctypes.c_int64 * _JOB_FIELDS


def run(loop: Loop, inputs: Sequence[Array], outputs: Sequence[Array | None], names: Sequence[str] = ()) -> list[Array]:
    """Run ``loop`` over ``inputs``, broadcast against each other, into ``outputs`` (None: a new array).

    Inputs have the loop's dtypes. A given output has the broadcast shape and may overlap anything: the result is as if
    every input had been read before. ``names`` are the operands' names for error messages.
    """
    shapes = [a.shape for a in inputs]
    given = [o for o in outputs if o is not None]
    shapes += [o.shape for o in given]
    shape = shapes[0] if shapes else ()
    if any(s != shape for s in shapes):
        shape = nest.broadcast_shape(shapes, names)
    direct: list[Array]
    if given:
        _check_outputs(loop, shape, outputs, names[len(inputs) :])
        bounds = [byte_bounds(a) for a in inputs]
        others = [byte_bounds(o) for o in given]
        direct = [
            o
            if o is not None and _is_direct(o, dtype, inputs, bounds, others)
            else recycle.empty(shape, dtype, result_axes(shape, inputs))
            for o, dtype in zip(outputs, loop.outputs, strict=True)
        ]
    else:
        axes = result_axes(shape, inputs)
        direct = [recycle.empty(shape, dtype, axes) for dtype in loop.outputs]
    if 0 not in shape:
        _execute(loop, shape, inputs, direct)
    if not given:
        return direct
    for output, computed in zip(outputs, direct, strict=True):
        if output is not None and output is not computed:
            np.copyto(output, computed, casting="same_kind")
    return [c if o is None else o for o, c in zip(outputs, direct, strict=True)]


def _check_outputs(loop: Loop, shape: nest.Shape, outputs: Sequence[Array | None], names: Sequence[str]) -> None:
    for index, (output, dtype) in enumerate(zip(outputs, loop.outputs, strict=True)):
        if output is not None:
            check_output(output, shape, dtype, names[index] if index < len(names) else "")


def check_output(output: Array, shape: nest.Shape, dtype: np.dtype[Any], name: str = "") -> None:
    """Raise for an array that cannot take a result of this shape and dtype."""
    called = f"output {name!r}" if name else "out"
    if output.shape != shape:
        raise ShapeError(f"{called} has shape {output.shape}, the result has shape {shape}")
    if not output.flags.writeable:
        raise ReadOnlyError(f"{called} is read-only")
    if output.dtype is not dtype and not np.can_cast(dtype, output.dtype, "same_kind"):
        raise TypeRuleError(f"{called} has dtype {output.dtype}, which cannot hold the result's {dtype} (same kind)")


def result_axes(shape: nest.Shape, inputs: Sequence[Array]) -> tuple[int, ...] | None:
    """A new result is laid out like the first input that has its shape; None means C order."""
    for a in inputs:
        if a.shape == shape:
            if a.flags.c_contiguous:
                return None
            strides = a.strides
            return tuple(sorted(range(len(shape)), key=lambda axis: -abs(strides[axis])))
    return None


def _is_direct(
    output: Array, dtype: np.dtype[Any], inputs: Sequence[Array], bounds: Sequence[Bounds], outputs: Sequence[Bounds]
) -> bool:
    """Whether the loop may write straight into ``output``: right dtype, and apart from everything else.

    ``bounds`` are those of ``inputs``; ``outputs`` has those of every given output, this one among them.
    """
    if output.dtype is not dtype and (output.dtype != dtype or not output.dtype.isnative):
        return False
    if not output.flags.c_contiguous and _repeats_itself(output):
        return False
    low, high = byte_bounds(output)
    if len(outputs) > 1 and sum(a < high and low < b for a, b in outputs) > 1:
        return False
    return all(high <= b[0] or b[1] <= low or _is_same_memory(output, a) for a, b in zip(inputs, bounds, strict=True))


def _repeats_itself(a: Array) -> bool:
    """Whether two elements may lie on the same bytes."""
    reach = a.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


def _is_same_memory(output: Array, a: Array) -> bool:
    """Element for element the same bytes: a body reads a vector of them before it writes it."""
    return (
        a.shape == output.shape
        and a.strides == output.strides
        and a.itemsize == output.itemsize
        and data_address(a) == data_address(output)
    )


def _execute(loop: Loop, shape: nest.Shape, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    loop.body()
    launch = _launch_of(loop, shape, inputs, outputs)
    in_place = any(_is_same_memory(o, a) for o in outputs for a in inputs)
    operands = [*inputs, *outputs]
    _start(loop, launch, [data_address(a) for a in operands], _flags(in_place, _stores_past_caches(operands)))


def _launch_of(loop: Loop, shape: nest.Shape, inputs: Sequence[Array], outputs: Sequence[Array]) -> _Launch:
    operands = [*inputs, *outputs]
    shapes, strides = tuple([a.shape for a in operands]), tuple([a.strides for a in operands])
    return _launch(shape, shapes, strides, len(inputs), threads.thread_count(), _pace(loop))


def _pace(loop: Loop) -> int:
    """Elements that one thread computes in a millisecond, about: a number of three bits, so that programs of similar
    cost share their launches."""
    pace = max(int(1e6 / loop.item_ns), 1)
    dropped = max(pace.bit_length() - 3, 0)
    return pace >> dropped << dropped


def _stores_past_caches(operands: Sequence[Array]) -> bool:
    """Whether outputs go past the caches: where a call's arrays do not fit into the last of them together, it pushes
    out what it writes, and a line that is overwritten need not be fetched first."""
    return sum(map(_touched_bytes, operands)) > host.last_level_cache_bytes()


def _touched_bytes(a: Array) -> int:
    count: int = math.prod(length for length, stride in zip(a.shape, a.strides, strict=True) if stride)
    return a.itemsize * count


def repeated(loop: Loop, inputs: Sequence[Array], outputs: Sequence[Array], *, past_caches: bool) -> Callable[[], None]:
    """`run` once, and a function that does it again on the same arrays, which share no memory, with as many threads and
    with stores of the kind asked for."""
    run(loop, inputs, outputs)
    if not outputs[0].size:
        return lambda: None
    operands = [*inputs, *outputs]
    launch = _launch_of(loop, outputs[0].shape, inputs, outputs)
    starts = [data_address(a) + offset for a, offset in zip(operands, launch.nest.offsets, strict=True)]
    addresses = (ctypes.c_int64 * len(starts))(*starts)
    job = _Job.from_buffer_copy(launch.job)
    job[_KERNEL], job[_OPERANDS] = loop.record_address, ctypes.addressof(addresses)
    job[_FLAGS] = _flags(False, past_caches)

    def again(_kept: object = (loop, operands, addresses)) -> None:
        job[_HANDED_OUT] = 0
        _dispatch(launch, job)

    return again


def _flags(in_place: bool, stores_past_caches: bool) -> int:
    if in_place:
        return 0
    return APART | STREAMING if stores_past_caches else APART


def _start(loop: Loop, launch: _Launch, starts: list[int], flags: int) -> None:
    """Run over operands that begin at ``starts``."""
    if launch.reversed:
        starts = [start + offset for start, offset in zip(starts, launch.nest.offsets, strict=True)]
    addresses = (ctypes.c_int64 * len(starts))(*starts)
    job = _Job.from_buffer_copy(launch.job)
    job[_KERNEL] = loop.record_address
    job[_OPERANDS] = ctypes.addressof(addresses)
    job[_FLAGS] = flags
    _dispatch(launch, job)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call with new outputs of which all is known but the addresses, for inputs of one set of shapes and strides."""

    loop: Loop
    shape: nest.Shape
    axes: tuple[int, ...] | None
    output_strides: tuple[nest.Strides, ...]
    launch: _Launch
    stores_past_caches: bool
    shapes: tuple[nest.Shape, ...]
    """Of all operands, inputs first; so are ``strides``."""
    strides: tuple[nest.Strides, ...]

    @property
    def job(self) -> bytes:
        """The native job, which lacks nothing but addresses of operands."""
        job = _Job.from_buffer_copy(self.launch.job)
        job[_KERNEL] = self.loop.record_address
        return bytes(job)

    @property
    def flags(self) -> int:
        """Of the run where outputs and inputs are apart."""
        return _flags(False, self.stores_past_caches)

    @property
    def is_one_dispatch(self) -> bool:
        """Whether the whole call is over before Python need look for signals."""
        return self.launch.tiles <= self.launch.tiles_a_dispatch

    @property
    def depends_on_limit(self) -> bool:
        """Whether another number of threads would make it another launch."""
        return self.launch.may_be_shared


def prepare(loop: Loop, inputs: Sequence[Array], results: Sequence[Array]) -> Prepared | None:
    """What `run` just did for ``inputs`` with new outputs, to be done again; None for empty results."""
    shape = results[0].shape
    if 0 in shape:
        return None
    launch = _launch_of(loop, shape, inputs, results)
    operands = [*inputs, *results]
    return Prepared(
        loop,
        shape,
        result_axes(shape, inputs),
        tuple([r.strides for r in results]),
        launch,
        _stores_past_caches(operands),
        tuple([a.shape for a in operands]),
        tuple([a.strides for a in operands]),
    )


def run_prepared(prepared: Prepared, inputs: Sequence[Array], outputs: Sequence[Any] | None) -> list[Array] | None:
    """`run` for inputs of the prepared shapes, strides and dtypes, and the same number of threads.

    None, and nothing done, where given ``outputs`` are not like new ones or overlap more than item by item.
    """
    p = prepared
    in_place = False
    if outputs is None:
        results = [recycle.empty(p.shape, dtype, p.axes) for dtype in p.loop.outputs]
    else:
        if len(outputs) != len(p.output_strides):
            return None
        for o, dtype, strides in zip(outputs, p.loop.outputs, p.output_strides, strict=True):
            usual = type(o) is np.ndarray and o.dtype is dtype and o.shape == p.shape and o.strides == strides
            if not usual or not o.flags.writeable:
                return None
        bounds = [byte_bounds(o) for o in outputs]
        for a in inputs:
            low, high = byte_bounds(a)
            for o, (first, end) in zip(outputs, bounds, strict=True):
                if first < high and low < end:
                    if not _is_same_memory(o, a):
                        return None
                    in_place = True
        if len(bounds) > 1 and any(
            first < high and low < end for i, (low, high) in enumerate(bounds) for first, end in bounds[:i]
        ):
            return None
        results = list(outputs)
    starts = [data_address(a) for a in inputs]
    starts += [data_address(o) for o in results]
    _start(p.loop, p.launch, starts, _flags(in_place, p.stores_past_caches))
    return results


@dataclass(frozen=True, slots=True)
class _Launch:
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


@functools.lru_cache(maxsize=1024)
def _launch(
    shape: nest.Shape,
    shapes: tuple[nest.Shape, ...],
    strides: tuple[nest.Strides, ...],
    inputs: int,
    thread_limit: int,
    items_a_ms: int,
) -> _Launch:
    n = nest.plan(shape, shapes, strides, inputs)
    items = n.items
    dispatch_items = max(_LEAST_DISPATCH_ITEMS, min(_MOST_DISPATCH_ITEMS, _DISPATCH_MS * items_a_ms))
    share_items = max(_LEAST_SHARE_ITEMS, min(_MOST_SHARE_ITEMS, items_a_ms // _SHARES_A_MS))
    may_be_shared = items * _SHARED_CALLS_A_MS >= items_a_ms and items >= 2 * share_items
    thread_count = min(thread_limit, items // share_items) if may_be_shared else 1
    row = n.inner if _has_short_rows(n, len(shapes)) else 0
    outer, length = (n.outer_shape[:-1], n.outer_shape[-1]) if row else (n.outer_shape, n.inner)
    outer_count, unit = math.prod(outer), max(row, 1)
    segment, grain = _division(
        outer_count, length, unit, thread_count, dispatch_items, max(items_a_ms // _CHUNKS_A_MS, 1)
    )
    segments = -(-length // segment)
    job = _Job()
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
    return _Launch(
        nest=n,
        job=bytes(job),
        items=items,
        tiles=tiles,
        tiles_a_dispatch=max(dispatch_items // (segment * unit * grain), 1) * grain,
        grain=grain,
        helpers=min(thread_count, job[_CHUNKS]) - 1,
        may_be_shared=may_be_shared,
        reversed=any(n.offsets),
    )


def _has_short_rows(n: nest.Nest, operand_count: int) -> bool:
    """Whether native/rows.ll should run several rows at once: they are short and fit its packed blocks."""
    return bool(n.outer_shape) and n.inner <= _SHORT_ROW and operand_count <= _MOST_OPERANDS_OF_ROWS


def _division(
    outer_count: int, length: int, unit: int, thread_count: int, dispatch_items: int, chunk_items: int
) -> tuple[int, int]:
    """(length of a segment, tiles of a chunk), for ``outer_count`` times ``length`` steps of ``unit`` items each."""
    if thread_count == 1:
        segment = min(length, max(dispatch_items // unit, 1))
        return segment, max(1, dispatch_items // (segment * unit))
    share = -(-outer_count * length * unit // thread_count)
    pieces = max(min(share // chunk_items, _CHUNKS_A_THREAD), -(-share // _LARGEST_CHUNK_ITEMS), 1)
    chunk = -(-share // pieces)
    most = chunk if outer_count == 1 else chunk // _TILES_A_CHUNK
    multiple = _SEGMENT_MULTIPLE if unit == 1 else 1
    segment = min(-(-max(most // unit, 1) // multiple) * multiple, length)
    tiles = outer_count * -(-length // segment)
    return segment, -(-tiles // (thread_count * pieces))


def _dispatch(launch: _Launch, job: ctypes.Array[ctypes.c_int64]) -> None:
    """Run all tiles, some at a time so that a pending KeyboardInterrupt is raised in between."""
    if launch.tiles <= launch.tiles_a_dispatch:
        _run_tiles(launch.helpers, job)
        return
    for first in range(0, launch.tiles, launch.tiles_a_dispatch):
        end = min(first + launch.tiles_a_dispatch, launch.tiles)
        job[_HANDED_OUT] = 0
        job[_FIRST_TILE], job[_END_TILE], job[_CHUNKS] = first, end, -(-(end - first) // launch.grain)
        _run_tiles(launch.helpers, job)


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


def _slow_data_address(a: Array) -> int:
    return a.ctypes.data


def _field_data_address(
    a: Array, _at: Callable[[int], Any] = ctypes.c_int64.from_address, _head_bytes: int = object.__basicsize__
) -> int:
    """The field ``data``, the first of PyArrayObject after PyObject_HEAD (numpy/ndarraytypes.h)."""
    address: int = _at(id(a) + _head_bytes).value
    return address


def _choose_data_address() -> Callable[[Array], int]:
    samples: list[Array] = [np.zeros(3), np.zeros((4, 4))[1:, ::2]]
    fits = all(_field_data_address(a) == _slow_data_address(a) for a in samples)
    return _field_data_address if fits else _slow_data_address


data_address = _choose_data_address()
"""Address of an array's first element."""


def byte_bounds(a: Array) -> Bounds:
    """Addresses of an array's first byte and of the one after its last."""
    start = data_address(a)
    if a.flags.c_contiguous:
        return start, start + a.nbytes
    low = high = start
    for length, stride in zip(a.shape, a.strides, strict=True):
        low += min(stride * (length - 1), 0)
        high += max(stride * (length - 1), 0)
    return low, high + a.itemsize
