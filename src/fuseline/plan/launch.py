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
from fuseline.plan.loopnest import LoopNest, build_nest, is_reduction, iteration_space, reduced_axes


class _Parts(NamedTuple):
    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]


class Launch(_Parts):
    """Instructions that run together. ``reads`` and ``writes`` are the arrays that cross its border, each once; an
    output of several names is as many arrays.

    What is written and not computed here is copied: an output that is an input or a number, or a further name of one.
    """

    @property
    def copies(self) -> tuple[Node, ...]:
        """The values that are written without being computed here, each once."""
        inside = set(self.nodes)
        return tuple(dict.fromkeys([n for n in self.writes if n not in inside]))

    @cached_property
    def nest(self) -> LoopNest:
        """The loops."""
        return build_nest(self.nodes, self.copies)

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
    """The launches of the unfused plan one by one: to cost a large graph nobody needs all of them at once.

    An instruction writes one array. Every other output is a copy, as in the NumPy text: one that is an input or a
    number, and the second and further names of a computed value.
    """
    yield from map(_Border(graph).single, graph.nodes)
    written: set[Node] = set()
    for node in graph.output_nodes:
        if node.is_source or node in written:
            yield Launch((), () if node.op == "const" else (node,), (node,))
        written.add(node)


def fused(graph: Graph) -> Plan:
    """Instructions run together as long as they share loops, wherever statements between them stand.

    An instruction joins the last group, or that of its latest operand, or the last one with its shape, whichever fits
    first and does not precede an operand: groups never wait for each other in a circle. An output that nothing
    computes is written by a group that reads it anyway, or where an instruction of its shape would stand.
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
    for source in dict.fromkeys([n for n in graph.output_nodes if n.is_source]):
        shape = source.tensor.shape
        readers = [groups[group_of[user]] for user in graph.users.get(source, ())]
        candidates = dict.fromkeys((len(groups) - 1, 0, last_of_shape.get(shape, 0))) if groups else ()
        if not _copy_in(source, readers, [groups[i] for i in candidates]):
            last_of_shape[shape] = len(groups)
            groups.append(_Group(source))
    border = _Border(graph)
    return Plan(graph, tuple([border.launch(g.nodes, g.copies) for g in groups]))


def _copy_in(source: Node, readers: Sequence[_Group], others: Sequence[_Group]) -> bool:
    """Let a group write an output that is an input or a number; False where that needs a launch of its own.

    Whoever reads an input can write it, best where the loops have its shape. A number needs no loops at all.
    """
    shape = source.tensor.shape
    if readers:
        group = next((g for g in readers if g.space.shape == shape), readers[0])
        group.copies.append(source)
        return True
    for group in others:
        space = group.space if shape == () else group.space_with(source)
        if space is not None:
            group.add(source, space)
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Space:
    """What a group iterates over; ``shape`` is None where shapes are the caller's."""

    shape: Shape | None
    axes: tuple[int, ...]


class _Group:
    """Instructions that share loops: shapes broadcast together and every reduction is over the same axes."""

    def __init__(self, node: Node) -> None:
        self.nodes: list[Node] = []
        self.copies: list[Node] = []
        """Outputs that are inputs or numbers, written along the way."""
        self.complete_later: set[Node] = set()
        self.reduces = False
        self.add(node, _Space(iteration_space([node]), reduced_axes(node)))

    def space_with(self, node: Node) -> _Space | None:
        """The iteration space with ``node`` added, or None where it does not fit."""
        if not self.reduces and node.tensor.shape == self.space.shape and not is_reduction(node):
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
        if self.reduces or is_reduction(node) or (shape != self.space.shape and not numbers):
            return None
        return _Space(None, ())

    def add(self, node: Node, space: _Space) -> None:
        (self.copies if node.is_source else self.nodes).append(node)
        self.space = space
        self.reduces = self.reduces or is_reduction(node)
        if _is_complete_later(node):
            self.complete_later.add(node)


def _is_complete_later(node: Node) -> bool:
    """Whether nothing that runs together with ``node`` may read it.

    A reduction that drops its axes no longer lines up with the loops; one over all axes leaves no loop whose turns are
    independent, so whatever shares the work has to wait for all of it.
    """
    if not is_reduction(node):
        return False
    shape = node.args[0].tensor.shape
    return not node.attr("keepdims", False) or shape is None or len(reduced_axes(node)) == len(shape)


class _Border:
    """Which values cross the border of a group of instructions."""

    def __init__(self, graph: Graph) -> None:
        self.users = graph.users
        self.outputs = Counter(graph.output_nodes)

    def launch(self, group: Sequence[Node], copies: Sequence[Node]) -> Launch:
        inside = set(group)
        reads = dict.fromkeys([a for n in group for a in n.args if a.op != "const" and a not in inside])
        reads |= dict.fromkeys([n for n in copies if n.op != "const"])
        writes: list[Node] = []
        for node in group:
            if node in self.outputs:
                writes += [node] * self.outputs[node]
            elif not inside.issuperset(self.users[node]):
                writes.append(node)
        for node in copies:
            writes += [node] * self.outputs[node]
        return Launch(tuple(group), tuple(reads), tuple(writes))

    def single(self, node: Node) -> Launch:
        """The launch of one instruction; as `launch`, for the plans that have one for each."""
        reads = [a for a in node.args if a.op != "const"]
        if len(reads) > 1:
            reads = list(dict.fromkeys(reads))
        is_kept = node in self.outputs or bool(self.users[node])
        return Launch((node,), tuple(reads), (node,) if is_kept else ())


def check_plan(plan: Plan) -> Plan:
    """The plan itself, or `VerifyError`: every instruction once, operands before their readers, borders complete, an
    array written for every output."""
    done: set[Node] = set(plan.graph.inputs)
    written: Counter[Node] = Counter()
    for number, launch in enumerate(plan.launches):
        inside: set[Node] = set()
        for node in launch.nodes:
            for arg in node.args:
                if arg.op != "const" and arg not in inside and arg not in launch.reads:
                    raise VerifyError(f"launch {number} reads {arg!r}, which is not among its reads")
            inside.add(node)
        for node in launch.copies:
            if node.op != "const" and node not in launch.reads:
                raise VerifyError(f"launch {number} copies {node!r}, which is not among its reads")
        if any(r not in done for r in launch.reads if r.op != "const"):
            raise VerifyError(f"launch {number} reads a value that is not computed before it")
        if inside & done:
            raise VerifyError(f"launch {number} computes a value a second time")
        done |= inside.intersection(launch.writes)
        written.update(launch.writes)
    wanted = Counter(plan.graph.output_nodes)
    missing = [name for name, n in plan.graph.outputs if written[n] < wanted[n]]
    if missing:
        raise VerifyError(f"no launch writes {', '.join(missing)}")
    return plan
