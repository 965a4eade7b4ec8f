"""Where the results of a NumPy program lie: one arena for what is used up, an array of its own for each output.

The steps are planned like any graph: an order of least memory, results in place of operands that nobody reads again,
offsets in the arena. Inputs are never written, outputs never lie in the arena.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fuseline.codegen.numpy.steps import NumpyProgram, Place, Step, Writes
from fuseline.ir.index_map import lie_alike
from fuseline.plan.inplace import Operation, Origin, StorageGraph, StoredValue, Use
from fuseline.plan.joint import JointPlan, plan_graph

ALIGNMENT_BYTES = 64


def plan_memory(program: NumpyProgram) -> NumpyProgram:
    """The same program with memory for its steps, in the order that needs least.

    Sizes are in bytes where all shapes are numbers. Otherwise every value that inputs are only broadcast to counts as
    many bytes as its element has, times one stride: the elements of the largest shape at run time.
    """
    planning = _Planning(program)
    return planning.placed(plan_graph(planning.graph, bounded=True, outputs_in_arena=False))


class _Planning:
    def __init__(self, program: NumpyProgram) -> None:
        self.program = program
        self.known = all(step.shape is not None for step in program.steps)
        self.origins = self._origins()
        self.steps = {step.target: step for step in program.steps}
        self.shapes = {step.target: step.shape for step in program.steps}
        self.number = {name: i for i, name in enumerate((*program.inputs, *(s.target for s in program.steps)))}
        self.graph = StorageGraph(self._values(), tuple(self._operation(step) for step in program.steps))

    def _origins(self) -> dict[str, frozenset[str] | None]:
        """For each value the inputs that its shape is broadcast from; None where that is not all there is to it."""
        found: dict[str, frozenset[str] | None] = {name: frozenset((name,)) for name in self.program.inputs}
        for step in self.program.steps:
            operands = [found[name] for name in step.operands]
            simple = step.writes in (Writes.ELEMENTWISE, Writes.CONVERTING) and None not in operands
            found[step.target] = frozenset().union(*(o for o in operands if o is not None)) if simple else None
        return found

    def _can_be_placed(self, step: Step) -> bool:
        return step.writes is not Writes.NEVER and (self.known or self.origins[step.target] is not None)

    def _values(self) -> tuple[StoredValue, ...]:
        returned = {target for _, target in self.program.returned}
        inputs = tuple(StoredValue(name, 0, 0, Origin.INPUT) for name in self.program.inputs)
        steps = tuple(
            StoredValue(
                name=step.target,
                size_bytes=math.prod(step.shape) * step.dtype.itemsize
                if step.shape is not None and self.known
                else step.dtype.itemsize,
                element_bytes=step.dtype.itemsize,
                output=step.target in returned,
                alignment=ALIGNMENT_BYTES if self.known else 1,
                outside=not self._can_be_placed(step),
            )
            for step in self.program.steps
        )
        return inputs + steps

    def _operation(self, step: Step) -> Operation:
        in_place = step.writes is Writes.ELEMENTWISE and self._can_be_placed(step)
        operands = dict.fromkeys(step.operands)
        uses = tuple([Use(self.number[name], in_place, in_place and self._same(name, step)) for name in operands])
        return Operation(step.target, (self.number[step.target],), uses)

    def _same(self, operand: str, step: Step) -> bool:
        """Whether ``step`` reads of ``operand`` what lies where it writes.

        Where shapes are not known, an operand may turn out smaller than the result: NumPy then reads a copy of it, as
        it does whenever operands and ``out`` overlap.
        """
        if not self.known:
            return True
        return operand in self.shapes and lie_alike(self.shapes[operand], step.shape)

    def placed(self, plan: JointPlan) -> NumpyProgram:
        """The program with the memory of ``plan``."""
        outside, ends = len(self.program.inputs), self._outputs_by_buffer(plan)
        places: dict[tuple[object, ...], Place] = {}
        steps = []
        arrays: list[Place] = []
        for stored in plan.stored:
            step = self.program.steps[stored.value - outside]
            if not self._can_be_placed(step):
                steps.append(step)
                continue
            shape = self._shape(step)
            end = ends.get(stored.buffer)
            if end == step.target:
                arrays.append(Place(end, "", 0, shape, step.dtype))
                steps.append(_into(step, end))
                continue
            memory = end or "arena"
            start = 0 if end else stored.offset or 0
            last = self.steps[end] if end else None
            if last is not None and (self._shape(last), last.dtype) == (shape, step.dtype):
                steps.append(_into(step, memory))
                continue
            key = (memory, start, shape, step.dtype)
            if key not in places:
                places[key] = Place(f"buffer{len(places)}", memory, start, shape, step.dtype)
            steps.append(_into(step, places[key].name))
        return replace(
            self.program,
            steps=tuple(steps),
            places=(*arrays, *places.values()),
            arena_size=plan.arena.peak_bytes,
        )

    def _outputs_by_buffer(self, plan: JointPlan) -> dict[int, str]:
        """For each storage that an output ends in, that output's name."""
        returned = {target for _, target in self.program.returned}
        steps, first = self.program.steps, len(self.program.inputs)
        return {s.buffer: t for s in plan.stored if (t := steps[s.value - first].target) in returned}

    def _shape(self, step: Step) -> tuple[int | str, ...]:
        if self.known:
            return step.shape or ()
        origin = self.origins[step.target] or frozenset()
        return tuple(name for name in self.program.inputs if name in origin)


def _into(step: Step, place: str) -> Step:
    if step.writes is Writes.CONVERTING:
        return step._replace(function="cast", options=(), out=place)
    return step._replace(out=place)
