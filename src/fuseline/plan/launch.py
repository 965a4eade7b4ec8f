"""Plans: what launches, in which order, reading and writing which arrays.

*Unfused* (a launch an instruction) and *fused* are both ordinary plans, so one ledger costs both and one emitter runs
both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fuseline.errors import ShapeError, VerifyError
from fuseline.ir.graph import Graph
from fuseline.ir.node import Node
from fuseline.ir.size import Shape, broadcast
from fuseline.ops import OPERATIONS
from fuseline.plan.loopnest import LoopNest, build_nest, iteration_space, reduced_axes


class _Parts(NamedTuple):
    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]


class Launch(_Parts):
    """Instructions that run together. ``reads`` and ``writes`` are the arrays that cross its border, each once; an
    output of several names is as many arrays.

    A launch without instructions copies its one read to an output that is an input or a number.
    """

    @cached_property
    def nest(self) -> LoopNest:
        """The loops."""
        return build_nest(self.nodes)

    @property
    def instruction_count(self) -> int:
        """Instructions in the launch."""
        return len(self.nodes)


@dataclass(frozen=True)
class Plan:
    """Launches in execution order."""

    graph: Graph
    launches: tuple[Launch, ...]


def single_launches(graph: Graph) -> Iterator[Launch]:
    """The launches of the unfused plan one by one: to cost a large graph nobody needs all of them at once."""
    yield from map(_Border(graph).single, graph.nodes)
    yield from _copies(graph)


def fused(graph: Graph) -> Plan:
    """Instructions run together as long as they share loops, wherever statements between them stand.

    An instruction joins the last group, or that of its latest operand, or the last one with its shape, whichever fits
    first and does not precede an operand: groups never wait for each other in a circle.
    """
    groups: list[_Group] = []
    group_of: dict[Node, int] = {}
    last_of_shape: dict[Shape | None, int] = {}
    for node in graph.nodes:
        latest = max([group_of[a] for a in node.args if a in group_of], default=0)
        shape = node.tensor.shape
        for candidate in dict.fromkeys((len(groups) - 1, latest, last_of_shape.get(shape, -1))):
            space = groups[candidate].space_with(node) if latest <= candidate < len(groups) else None
            if space is not None:
                groups[candidate].add(node, space)
                break
        else:
            candidate = len(groups)
            groups.append(_Group(node))
        group_of[node] = last_of_shape[shape] = candidate
    return make_plan(graph, [g.nodes for g in groups])


@dataclass(frozen=True, slots=True)
class _Space:
    """What a group iterates over; ``shape`` is None where shapes are the caller's."""

    shape: Shape | None
    axes: tuple[int, ...]


class _Group:
    """Instructions that share loops: shapes broadcast together and every reduction is over the same axes."""

    def __init__(self, node: Node) -> None:
        self.nodes = [node]
        self.space = _Space(iteration_space([node]), reduced_axes(node))
        self.complete_later = {node} if _is_complete_later(node) else set()
        self.reduces = _reduces(node)

    def space_with(self, node: Node) -> _Space | None:
        """The iteration space with ``node`` added, or None where it does not fit."""
        if not self.reduces and node.tensor.shape == self.space.shape and not _reduces(node):
            return self.space
        axes, shape = reduced_axes(node), iteration_space([node])
        if shape is None or self.space.shape is None:
            return self._unknown_space_with(node, shape)
        if axes and self.space.axes not in ((), axes):
            return None
        if any(a in self.complete_later for a in node.args):
            return None
        try:
            merged = broadcast([self.space.shape, shape])
        except ShapeError:
            return None
        same_rank = len(merged) == len(self.space.shape)
        if (axes or self.space.axes) and not (same_rank and len(shape) == len(merged)):
            return None
        return _Space(merged, axes or self.space.axes)

    def _unknown_space_with(self, node: Node, shape: Shape | None) -> _Space | None:
        """Where shapes are the caller's, what is elementwise fits together, and a single number fits everywhere."""
        numbers = () in (shape, self.space.shape)
        if self.reduces or _reduces(node) or (shape != self.space.shape and not numbers):
            return None
        return _Space(None, ())

    def add(self, node: Node, space: _Space) -> None:
        self.nodes.append(node)
        self.space = space
        self.reduces = self.reduces or _reduces(node)
        if _is_complete_later(node):
            self.complete_later.add(node)


def _reduces(node: Node) -> bool:
    return OPERATIONS[node.op].index_rule == "reduction"


def _is_complete_later(node: Node) -> bool:
    """Whether nothing that runs together with ``node`` may read it.

    A reduction that drops its axes no longer lines up with the loops; one over all axes leaves no loop whose turns are
    independent, so whatever shares the work has to wait for all of it.
    """
    if not _reduces(node):
        return False
    shape = node.args[0].tensor.shape
    return not node.attr("keepdims", False) or shape is None or len(reduced_axes(node)) == len(shape)


def make_plan(graph: Graph, groups: Sequence[Sequence[Node]]) -> Plan:
    """The plan that runs these groups in this order; outputs that nothing computes are copied at the end."""
    border = _Border(graph)
    return Plan(graph, (*[border.launch(g) for g in groups], *_copies(graph)))


def _copies(graph: Graph) -> Iterator[Launch]:
    """The outputs that are inputs or numbers."""
    copies = Counter(n for n in graph.output_nodes if n.is_source)
    for node, count in copies.items():
        yield Launch((), () if node.op == "const" else (node,), (node,) * count)


class _Border:
    """Which values cross the border of a group of instructions."""

    def __init__(self, graph: Graph) -> None:
        self.users = graph.users
        self.outputs = Counter(graph.output_nodes)

    def launch(self, group: Sequence[Node]) -> Launch:
        inside = set(group)
        reads = dict.fromkeys([a for n in group for a in n.args if a.op != "const" and a not in inside])
        writes: list[Node] = []
        for node in group:
            if node in self.outputs:
                writes += [node] * self.outputs[node]
            elif not inside.issuperset(self.users[node]):
                writes.append(node)
        return Launch(tuple(group), tuple(reads), tuple(writes))

    def single(self, node: Node) -> Launch:
        """The launch of one instruction; as `launch`, for the plans that have one for each."""
        reads = [a for a in node.args if a.op != "const"]
        if len(reads) > 1:
            reads = list(dict.fromkeys(reads))
        count = self.outputs[node] if node in self.outputs else bool(self.users[node])
        return Launch((node,), tuple(reads), (node,) * count)


def check_plan(plan: Plan) -> Plan:
    """The plan itself, or `VerifyError`: every instruction once, operands before their readers, borders complete."""
    done: set[Node] = set(plan.graph.inputs)
    for number, launch in enumerate(plan.launches):
        inside: set[Node] = set()
        for node in launch.nodes:
            for arg in node.args:
                if arg.op != "const" and arg not in inside and arg not in launch.reads:
                    raise VerifyError(f"launch {number} reads {arg!r}, which is not among its reads")
            inside.add(node)
        if any(r not in done for r in launch.reads if r.op != "const"):
            raise VerifyError(f"launch {number} reads a value that is not computed before it")
        if inside & done:
            raise VerifyError(f"launch {number} computes a value a second time")
        done |= inside.intersection(launch.writes)
    missing = [name for name, n in plan.graph.outputs if n not in done and n.op != "const"]
    if missing:
        raise VerifyError(f"no launch writes {', '.join(missing)}")
    return plan
