"""One call of a compiled loop over whole arrays: results, overlap, streaming stores and threads.

Any number of operands; every element is computed by the same body whatever the layout, the length or the number of
threads. Operands come in the loop's own dtypes; runtime/operands.py converts what users pass.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuseline.errors import ReadOnlyError, ShapeError, TypeRuleError
from fuseline.runtime import host, nest, recycle
from fuseline.runtime.arrays import data_address
from fuseline.runtime.job import FLAGS, HANDED_OUT, KERNEL, LEAST_RUN, OPERANDS, Job, JobPlan, dispatch, plan_of
from fuseline.runtime.loop import APART, ASKS, STREAMING, UNLESS_AGAIN, Loop
from fuseline.runtime.overlap import SAME_ITEMS, SHARED, holds_result, places

Array = NDArray[Any]


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
        named = names[len(inputs) :]
        of_given = [n for n, o in zip(named, outputs, strict=True) if o is not None] if named else []
        shape = nest.broadcast_shape(shapes, [*names[: len(inputs)], *of_given])
    if given:
        _check_outputs(loop, shape, outputs, names[len(inputs) :])
    axes, where = result_axes(shape, inputs), iter(places(inputs, given))
    direct: list[Array] = []
    in_place = False
    for o, dtype in zip(outputs, loop.outputs, strict=True):
        place = SHARED if o is None else next(where)
        if o is None or place == SHARED or not holds_result(o, dtype):
            direct.append(recycle.empty(shape, dtype, axes))
        else:
            direct.append(o)
            in_place = in_place or place == SAME_ITEMS
    if 0 not in shape:
        _execute(loop, shape, inputs, direct, in_place)
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
    """A new result is laid out like the first input that has its shape and repeats no axis; None means C order."""
    for a in inputs:
        if a.shape == shape and touched_bytes(a) == a.itemsize * math.prod(shape):
            if a.flags.c_contiguous:
                return None
            strides = a.strides
            return tuple(sorted(range(len(shape)), key=lambda axis: -abs(strides[axis])))
    return None


def has_body_for(loop: Loop, shape: nest.Shape, inputs: Sequence[Array]) -> bool:
    """Whether `run` over inputs that repeat along the last axis is likely to take a body that knows of them."""
    if not shape or shape[-1] < LEAST_RUN:
        return False
    still = tuple([i for i, a in enumerate(inputs) if not a.ndim or a.shape[-1] == 1])
    return loop.for_call(still, is_large=False) is not loop


def _execute(loop: Loop, shape: nest.Shape, inputs: Sequence[Array], outputs: Sequence[Array], in_place: bool) -> None:
    operands = [*inputs, *outputs]
    is_large = _is_large(operands)
    plan = plan_of(loop, shape, inputs, outputs, is_large=is_large)
    loop = loop.for_call(plan.still, is_large)
    loop.body()
    _start(loop, plan, [data_address(a) for a in operands], _flags(in_place, is_large))


def _is_large(operands: Sequence[Array]) -> bool:
    """Whether outputs go past the caches and lines of inputs are asked for: where a call's arrays do not fit together
    into the cache that results are kept in, it pushes out what it writes, and a line that is overwritten need not be
    fetched first."""
    return _all_touched_bytes(operands) > host.cache_for_results_bytes()


def _all_touched_bytes(operands: Sequence[Array]) -> int:
    return sum(map(touched_bytes, operands))


def touched_bytes(a: Array) -> int:
    count: int = math.prod(length for length, stride in zip(a.shape, a.strides, strict=True) if stride)
    return a.itemsize * count


def run_steps(loop: Loop, plan: JobPlan, addresses: list[int]) -> None:
    """Run a loop whose body steps by itself over operands that begin at ``addresses``; the caller keeps them alive."""
    loop.body()
    _start(loop, plan, addresses, APART)


def repeated(loop: Loop, inputs: Sequence[Array], outputs: Sequence[Array], *, past_caches: bool) -> Callable[[], None]:
    """`run` once, and a function that does it again on the same arrays, which share no memory, with as many threads and
    with stores of the kind asked for."""
    run(loop, inputs, outputs)
    if not outputs[0].size:
        return lambda: None
    operands = [*inputs, *outputs]
    plan = plan_of(loop, outputs[0].shape, inputs, outputs, is_large=past_caches)
    loop = loop.for_call(plan.still, past_caches)
    starts = [data_address(a) + offset for a, offset in zip(operands, plan.nest.offsets, strict=True)]
    addresses = (ctypes.c_int64 * len(starts))(*starts)
    job = Job.from_buffer_copy(plan.job)
    job[KERNEL], job[OPERANDS] = loop.record_address, ctypes.addressof(addresses)
    job[FLAGS] = _flags(False, past_caches)

    def again(_kept: object = (loop, operands, addresses)) -> None:
        job[HANDED_OUT] = 0
        dispatch(plan, job)

    return again


def _flags(in_place: bool, is_large: bool) -> int:
    asks = ASKS if is_large else 0
    past_caches = STREAMING if is_large else 0
    return asks if in_place else APART | past_caches | asks


def _start(loop: Loop, plan: JobPlan, starts: list[int], flags: int) -> None:
    """Run over operands that begin at ``starts``."""
    if plan.reversed:
        starts = [start + offset for start, offset in zip(starts, plan.nest.offsets, strict=True)]
    addresses = (ctypes.c_int64 * len(starts))(*starts)
    job = Job.from_buffer_copy(plan.job)
    job[KERNEL] = loop.record_address
    job[OPERANDS] = ctypes.addressof(addresses)
    job[FLAGS] = flags
    dispatch(plan, job)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call with new outputs of which all is known but the addresses, for inputs of one set of shapes and strides."""

    loop: Loop
    shape: nest.Shape
    axes: tuple[int, ...] | None
    output_strides: tuple[nest.Strides, ...]
    plan: JobPlan
    is_large: bool
    """Too large for the cache that results are kept in."""
    fits_threads: bool
    """Each thread's part fits the cache of its own core, where the call before may have left it."""
    shapes: tuple[nest.Shape, ...]
    """Of all operands, inputs first; so are ``strides``."""
    strides: tuple[nest.Strides, ...]

    @property
    def job(self) -> bytes:
        """The native job, which lacks nothing but addresses of operands."""
        job = Job.from_buffer_copy(self.plan.job)
        job[KERNEL] = self.loop.record_address
        return bytes(job)

    @property
    def flags(self) -> int:
        """Of the run where outputs and inputs are apart."""
        unless_again = UNLESS_AGAIN if self.is_large and self.fits_threads else 0
        return _flags(False, self.is_large) | unless_again

    @property
    def is_one_dispatch(self) -> bool:
        """Whether the whole call is over before Python need look for signals."""
        return self.plan.tiles <= self.plan.tiles_a_dispatch

    @property
    def depends_on_limit(self) -> bool:
        """Whether another number of threads would make it another plan."""
        return self.plan.may_be_shared


def prepare(loop: Loop, inputs: Sequence[Array], results: Sequence[Array]) -> Prepared | None:
    """What `run` just did for ``inputs`` with new outputs, to be done again; None for empty results."""
    shape = results[0].shape
    if 0 in shape:
        return None
    operands = [*inputs, *results]
    is_large = _is_large(operands)
    plan = plan_of(loop, shape, inputs, results, is_large=is_large)
    loop = loop.for_call(plan.still, is_large)
    loop.body()  # what repeats the call compiles nothing
    return Prepared(
        loop,
        shape,
        result_axes(shape, inputs),
        tuple([r.strides for r in results]),
        plan,
        is_large,
        _all_touched_bytes(operands) <= host.caches_of_threads_bytes(plan.helpers + 1),
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
        where = places(inputs, outputs)
        if SHARED in where:
            return None
        in_place = SAME_ITEMS in where
        results = list(outputs)
    starts = [data_address(a) for a in inputs]
    starts += [data_address(o) for o in results]
    _start(p.loop, p.plan, starts, _flags(in_place, p.is_large))
    return results
