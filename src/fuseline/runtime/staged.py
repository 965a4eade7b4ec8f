"""A program with reductions, run in stages: compiled elementwise loops, and between them reductions by the tree.

Stages run over whole arrays one after the other, or, where they all are of rows, over one row after the other
(`rowwise`). Every stage computes what the interpreter computes, so the bits are the oracle's whatever the layout or
the threads. 16-bit floats are widened first and cross from stage to stage as float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuseline.floating_point import in_default_environment
from fuseline.ir.dtype import F32, F64
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import evaluate_node
from fuseline.ir.node import Node, const, const_array, make
from fuseline.ir.types import TensorType
from fuseline.mathlib.expand import expand
from fuseline.ops import OPERATIONS
from fuseline.passes.rewrite import rewrite
from fuseline.runtime import recycle, reduction, rowwise
from fuseline.runtime.compile import elementwise_loop
from fuseline.runtime.loop import Loop
from fuseline.runtime.repeat import repeating

Array = NDArray[Any]


@dataclass(frozen=True)
class LoopStage:
    """One elementwise loop over results of one shape."""

    loop: Loop
    call: Callable[..., Any]
    """From arrays of what is read to the array of what is written, or a tuple of them."""
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]

    def run(self, values: dict[Node, Array]) -> None:
        """Compute ``writes`` from ``reads``."""
        results = self.call(*[values[n] for n in self.reads])
        values.update(zip(self.writes, (results,) if len(self.writes) == 1 else results, strict=True))


@dataclass(frozen=True)
class ReductionStage:
    """One reduction, by compiled loops where these do it, else as the interpreter does."""

    node: Node

    @property
    def reads(self) -> tuple[Node, ...]:
        """The operand."""
        return self.node.args

    @property
    def writes(self) -> tuple[Node, ...]:
        """The result."""
        return (self.node,)

    def run(self, values: dict[Node, Array]) -> None:
        """Reduce the operand's array."""
        operand = _array(self.node.args[0], values)
        reduced = reduction.reduced(self.node, operand)
        if reduced is None:
            reduced = recycle.with_idle_memory(lambda: self._interpreted(operand))
        values[self.node] = reduced

    @in_default_environment
    def _interpreted(self, operand: Array) -> Array:
        with np.errstate(all="ignore"):
            reduced = np.asarray(evaluate_node(self.node, [operand]))
        if reduced is operand or reduced.base is not None:  # a view, where each element is its own greatest
            reduced = reduced.copy()
        # Native code trusts the dtype of what it is handed.
        return reduced.astype(self.node.dtype.numpy, copy=False)


class StagedProgram:
    """The stages of one graph with known shapes (optimised, not expanded)."""

    def __init__(self, graph: Graph) -> None:
        self.graph = rewrite(expand(graph), {"mean": [_as_sum]})
        self.input_names = self.graph.input_names
        self.stages = _stages(self.graph)
        self.rows = _rows(self.stages, self.graph)
        own_results = self.rows is not None and self.rows.results == tuple(self.graph.output_nodes)
        self._rows_alone = self.rows if own_results else None  # nothing has to be copied after it
        self._results = tuple(_results(self.graph))

    @property
    def moved_bytes(self) -> int:
        """What the stages read and write outside the caches, each array once a stage or once for all stages of a row,
        and what is copied into results of their own."""
        if self.rows is not None and self.rows.is_better():
            moved = self.rows.moved
        else:
            moved = [n for stage in self.stages for n in (*stage.reads, *stage.writes) if n.op != "const"]
        copied = [n for n, own in self._results if not own]
        moved += [*copied, *(n for n in copied if n.op != "const")]
        return sum(n.dtype.size_bytes(n.tensor.element_count()) for n in moved)

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for the inputs ``arrays``: those of ``outputs`` where they could be written as results were
        computed, else arrays of their own."""
        rows = self._rows_alone
        found = rows.run(arrays, outputs) if rows is not None and rows.is_better() else None
        return self._run(arrays) if found is None else found

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        values: dict[Node, Array] = dict(zip(self.graph.inputs, arrays, strict=True))
        rows = self.rows
        found = rows.run(arrays) if rows is not None and rows.is_better() else None
        if rows is not None and found is not None:
            values.update(zip(rows.results, found, strict=True))
        else:
            for stage in self.stages:
                stage.run(values)
        return [values[n] if own else _copied(n, values) for n, own in self._results]


def _results(graph: Graph) -> Iterator[tuple[Node, bool]]:
    """The value of each output, and whether a stage makes an array that this output can have."""
    given: set[Node] = set()
    for node in graph.output_nodes:
        yield node, not node.is_source and node not in given
        given.add(node)


@in_default_environment
def _copied(node: Node, values: Mapping[Node, Array]) -> Array:
    return recycle.with_idle_memory(lambda: np.array(_array(node, values)))


def _array(node: Node, values: Mapping[Node, Array]) -> Array:
    return const_array(node).astype(node.dtype.numpy) if node.op == "const" else values[node]


def _as_sum(node: Node) -> Node | None:
    """A mean of floats as the sum over the count, which is how it is defined (SEMANTICS, P5)."""
    operand = node.args[0]
    if node.dtype not in (F32, F64) or operand.dtype is not node.dtype or not operand.tensor.element_count():
        return None
    count = operand.tensor.element_count() // node.tensor.element_count()
    total = make("sum", node.args, node.attrs, node.type)
    return make("div", (total, const(float(count), node.dtype)), (), node.type)


def _rows(stages: Sequence[LoopStage | ReductionStage], graph: Graph) -> rowwise.RowProgram | None:
    of_rows: list[rowwise.Stage] = []
    for stage in stages:
        if isinstance(stage, LoopStage):
            of_rows.append(rowwise.Stage(stage.loop, stage.reads, stage.writes, reduces=False))
        elif (reducing := rowwise.reducing_stage(stage.node)) is not None:
            of_rows.append(reducing)
        else:
            return None
    return rowwise.row_program(of_rows, graph.inputs, tuple(dict.fromkeys(graph.output_nodes)))


def _stages(graph: Graph) -> list[LoopStage | ReductionStage]:
    """Neighbouring elementwise instructions with results of one shape share a loop; a reduction stands alone."""
    stages: list[LoopStage | ReductionStage] = []
    group: list[Node] = []
    outputs = set(graph.output_nodes)
    for node in graph.nodes:
        reduces = OPERATIONS[node.op].index_rule == "reduction"
        if group and (reduces or node.tensor.shape != group[0].tensor.shape):
            stages.append(_loop_stage(graph, group, outputs))
            group = []
        if reduces:
            stages.append(ReductionStage(node))
        else:
            group.append(node)
    if group:
        stages.append(_loop_stage(graph, group, outputs))
    return stages


def _loop_stage(graph: Graph, group: Sequence[Node], outputs: Set[Node]) -> LoopStage:
    inside = set(group)
    reads = tuple(dict.fromkeys(a for n in group for a in n.args if a.op != "const" and a not in inside))
    writes = tuple(n for n in group if n in outputs or any(u not in inside for u in graph.users[n]))
    # A loop knows no shapes: what it reads becomes inputs of its own, what it computes keeps its dtypes.
    replaced: dict[Node, Node] = {
        node: make("input", (), (("name", f"a{i}"),), TensorType(node.dtype, None)) for i, node in enumerate(reads)
    }
    inputs = [replaced[n] for n in reads]
    for node in group:
        args = tuple(replaced.get(a, a) for a in node.args)
        replaced[node] = make(node.op, args, node.attrs, TensorType(node.dtype, None))
    body = Graph(inputs, [(f"r{i}", replaced[n]) for i, n in enumerate(writes)])
    loop = elementwise_loop(body)
    return LoopStage(loop, repeating(loop), reads, writes)
