"""Programs that reduce along the last axis, row by row: one loop carries a row through all stages (native/stages.ll).

What passes between stages then stays in the caches, and a call starts one run instead of one for each stage. The
stages are the bodies that `staged` would run one after the other over whole arrays, so the bits are the same.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuseline.floating_point import in_default_environment
from fuseline.ir.infer import normal_axes
from fuseline.ir.node import Node
from fuseline.runtime import host, iterate, native, nest, recycle, reserve, threads
from fuseline.runtime.arrays import data_address
from fuseline.runtime.job import LEAST_RUN, JobPlan, plan_of_steps
from fuseline.runtime.loop import APART, ASKS, STREAMING, Loop, NativeBody
from fuseline.runtime.overlap import ALONE, places
from fuseline.runtime.reduction import MOST_ITEMS_A_PASS, STEP_NS, loop_of

Array = NDArray[Any]
Shape = tuple[int, ...]

_FEWEST_ITEMS, _FEWEST_ROWS = 96, 16
"""Many rows of fewer items are dearer one by one than stage by stage."""
_LONG_ROW_ITEMS = 1 << 14
"""Longer rows are worth sharing between threads, where there are fewer rows than threads."""
_MOST_MEMORY_BYTES = 512 << 10
"""What a row may keep between its stages: a part of a processor's own cache."""
_MOST_PLANS = 64
_LINE_BYTES = 64
_CARRY_BYTES = 128
"""Of a `%carry` (native/streaming.ll)."""
_IN_MEMORY, _IN_PROGRAM = -1, -2


@dataclass(frozen=True, slots=True)
class Stage:
    """One loop over part of a row: elementwise, or a reduction of the whole row."""

    loop: Loop
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    reduces: bool


@dataclass(frozen=True, slots=True)
class _Operand:
    """A value outside the rows' memory, as stages of one ``shape`` see it."""

    value: Node
    shape: Shape


@dataclass(frozen=True, slots=True)
class _Planned:
    plan: JobPlan
    program: ctypes.Array[ctypes.c_int64]
    """The list that native code follows."""


class RowProgram:
    """The stages of a program with its inputs, all with known shapes; made by `row_program`."""

    def __init__(self, stages: Sequence[Stage], full: Shape, inputs: Sequence[Node], results: Sequence[Node]) -> None:
        self._stages = tuple(stages)
        self._full = full
        self.results = tuple(results)
        """The values that a run returns."""
        written = {n for s in stages for n in s.writes}
        read = {_Operand(n, _shape_of(s, full)): None for s in stages for n in s.reads if n not in written}
        self._inputs, self._outputs = tuple(read), tuple(_Operand(n, _shape(n)) for n in results)
        self._positions = tuple(inputs.index(o.value) for o in self._inputs)
        self._made = tuple((o.shape, o.value.dtype.numpy) for o in self._outputs)
        self._places = {operand: place for place, operand in enumerate((*self._inputs, *self._outputs), start=1)}
        most_operands = max(len(s.reads) + len(s.writes) + s.reduces for s in stages)
        self._list_bytes = _lines(8 * most_operands)
        self._offsets: dict[Node, int] = {}
        memory_bytes = 0
        for node in (n for s in stages for n in s.writes if n not in results):
            self._offsets[node] = memory_bytes
            memory_bytes += _lines(node.dtype.numpy.itemsize * (full[-1] if _shape(node) == full else 1))
        # Where each stage that may store past the caches has its carries: nothing reads what it writes, but the caller.
        self._carries: dict[Stage, int] = {}
        read_later = {n for s in stages for n in s.reads}
        for stage in stages:
            if not stage.reduces and all(n in results and n not in read_later for n in stage.writes):
                self._carries[stage] = memory_bytes
                memory_bytes += _CARRY_BYTES * (len(stage.reads) + len(stage.writes))
        self.memory_bytes = memory_bytes
        dtypes = [tuple(o.value.dtype.numpy for o in operands) for operands in (self._inputs, self._outputs)]
        self._loop = Loop((np.dtype(np.int64), *dtypes[0]), dtypes[1], self._body)
        self._plans: dict[Any, _Planned | None] = {}

    def _body(self) -> NativeBody:
        return NativeBody(native.support().exports["fl_stages"], 0, self._list_bytes + self.memory_bytes + _LINE_BYTES)

    @property
    def moved(self) -> list[Node]:
        """What a run reads and writes, each value once."""
        return [*dict.fromkeys(o.value for o in self._inputs), *self.results]

    def is_better(self) -> bool:
        """Whether rows one by one are likely to be faster than stages one by one, with as many threads as now."""
        rows, items = math.prod(self._full[:-1]), self._full[-1]
        worthwhile = items >= _FEWEST_ITEMS or rows <= _FEWEST_ROWS
        return worthwhile and (rows >= threads.thread_count() or items <= _LONG_ROW_ITEMS)

    def run(self, arrays: Sequence[Array], outputs: Sequence[Any] | None = None) -> list[Array] | None:
        """The `results` of the program's inputs, which have its dtypes and shapes: in new arrays, or in ``outputs``.

        None, and nothing done, where rows of an input that is reduced do not stand together, or where ``outputs`` are
        not like new arrays or lie on memory of other operands.
        """
        inputs = [arrays[i] for i in self._positions]
        if outputs is not None and not self._fit(outputs, inputs):
            return None
        key = threads.thread_count(), *[a.strides for a in inputs]
        try:
            planned = self._plans[key]
        except KeyError:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            planned = self._plans[key] = self._planned(inputs)
        if planned is None:
            return None
        results = [recycle.empty(*made) for made in self._made] if outputs is None else list(outputs)
        addresses = [ctypes.addressof(planned.program)]
        addresses += [data_address(a) for a in (*inputs, *results)]
        iterate.run_steps(self._loop, planned.plan, addresses)
        return results

    def _fit(self, outputs: Sequence[Any], inputs: Sequence[Array]) -> bool:
        for o, (shape, dtype) in zip(outputs, self._made, strict=True):
            is_like_new = type(o) is np.ndarray and o.shape == shape and o.dtype is dtype and o.flags.c_contiguous
            if not is_like_new or not o.flags.writeable:
                return False
        return all(place == ALONE for place in places(inputs, outputs))

    @in_default_environment
    def _planned(self, inputs: Sequence[Array]) -> _Planned | None:
        strides: dict[_Operand, nest.Strides] = {
            o: nest.spread(o.shape, a.shape, a.strides) for o, a in zip(self._inputs, inputs, strict=True)
        }
        for o in self._outputs:
            strides[o] = _c_strides(o.shape, o.value.dtype.numpy.itemsize)
        outer, is_large = len(self._full) - 1, self._is_large(inputs)
        words = [len(self._stages), self._list_bytes + self.memory_bytes, self._list_bytes]
        row_ns, most_bytes = 0.0, 0
        for stage in self._stages:
            placed = [self._placed(n, _shape_of(stage, self._full), strides) for n in (*stage.reads, *stage.writes)]
            items = self._full[-1] if _shape_of(stage, self._full) == self._full else 1
            loop = stage.loop
            if stage.reduces:
                if placed[0][2] != stage.reads[0].dtype.numpy.itemsize:
                    return None
                placed.insert(1, (_IN_PROGRAM, 8 * (len(words) + 2), 0))  # how many items: this stage's third word
            else:
                still = [i for i in range(len(stage.reads)) if not placed[i][2]]
                loop = loop.for_call(tuple(still) if items >= LEAST_RUN else (), is_large=False)
            body = loop.body()
            most_bytes = max(most_bytes, reserve.needed_bytes(len(placed), body.lanes, body.stack_bytes))
            carries = self._carries.get(stage, -1) if is_large else -1
            flags = APART | (ASKS if is_large else 0) | (STREAMING if carries >= 0 else 0)
            words += [loop.record_address, len(placed), items, flags, carries]
            words += [part for parts in zip(*placed, strict=True) for part in parts]
            row_ns += STEP_NS + items * loop.item_ns
        body = self._loop.body()
        reserve.ensure(most_bytes + reserve.needed_bytes(self._loop.operand_count, body.lanes, body.stack_bytes))
        own: nest.Strides = (0,) * max(outer, 1)
        by_operand = [own, *(strides[o][:outer] or (0,) for o in (*self._inputs, *self._outputs))]
        shape = self._full[:-1] or (1,)
        plan = plan_of_steps(shape, tuple(by_operand), 1 + len(self._inputs), row_ns, threads.thread_count())
        return _Planned(plan, (ctypes.c_int64 * len(words))(*words))

    def _is_large(self, inputs: Sequence[Array]) -> bool:
        """Whether a run's operands do not fit together into the caches of its threads."""
        touched = sum(map(iterate.touched_bytes, inputs))
        touched += sum(math.prod(shape) * dtype.itemsize for shape, dtype in self._made)
        return touched > host.caches_of_threads_bytes(threads.thread_count())

    def _placed(self, node: Node, shape: Shape, strides: Mapping[_Operand, nest.Strides]) -> tuple[int, int, int]:
        """Where a stage of this ``shape`` finds ``node``: place, offset, and the step from item to item."""
        outer = len(self._full) - 1
        if node in self._offsets:
            step = node.dtype.numpy.itemsize if _shape(node) == self._full else 0
            return _IN_MEMORY, self._offsets[node], step
        operand = _Operand(node, _shape(node) if node in self.results else shape)
        own = strides[operand]
        return self._places[operand], 0, own[outer] if len(own) > outer and operand.shape[outer] > 1 else 0


def row_program(stages: Sequence[Stage], inputs: Sequence[Node], results: Sequence[Node]) -> RowProgram | None:
    """The row program of ``stages`` that takes ``inputs`` and leaves those of ``results`` that a stage writes; None
    where some stage is not one of rows."""
    first = next((s for s in stages if s.reduces), None)
    if first is None:
        return None
    full = _shape(first.reads[0])
    if not full or not 2 <= full[-1] <= MOST_ITEMS_A_PASS or 0 in full:
        return None
    kept, dropped = (*full[:-1], 1), full[:-1]
    written: set[Node] = set()
    for stage in stages:
        if stage.reduces:
            node = stage.writes[0]
            if _shape(node.args[0]) != full or normal_axes(node.op, node.attr("axes"), len(full)) != (len(full) - 1,):
                return None
        shape = _shape_of(stage, full)
        if shape not in (full, kept, dropped):
            return None
        for node in stage.reads:
            is_of_rows = _shape(node) == shape or (_shape(node) == kept and shape == full)
            if node in written and not is_of_rows:
                return None
        written.update(stage.writes)
    program = RowProgram(stages, full, inputs, [n for n in results if n in written])
    return program if program.memory_bytes <= _MOST_MEMORY_BYTES and program.results else None


def reducing_stage(node: Node) -> Stage | None:
    """The stage of one reduction, where a compiled loop does it."""
    loop = loop_of(node)
    return None if loop is None else Stage(loop, node.args, (node,), reduces=True)


def _shape_of(stage: Stage, full: Shape) -> Shape:
    """Of what the stage visits."""
    return full if stage.reduces else _shape(stage.writes[0])


def _shape(node: Node) -> Shape:
    shape = node.tensor.shape
    assert shape is not None
    return tuple(int(n) for n in shape)  # type: ignore[arg-type]  # stages have numbers for sizes


def _c_strides(shape: Shape, item_bytes: int) -> nest.Strides:
    return tuple(item_bytes * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _lines(size_bytes: int) -> int:
    return -(-size_bytes // _LINE_BYTES) * _LINE_BYTES
