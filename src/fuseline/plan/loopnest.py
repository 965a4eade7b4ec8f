"""How a launch iterates: loops, and which element of each operand a statement touches.

A nest is elementwise loops today and rows with reductions (softmax, normalisation); matrix-product epilogues are the
same shape. The emitters walk it from the outside in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fuseline.ir.graph import Graph
from fuseline.ir.index_map import Axis, IndexMap, broadcast_map
from fuseline.ir.infer import normal_axes
from fuseline.ir.node import Node
from fuseline.ir.size import Dim, Shape, broadcast
from fuseline.ops import OPERATIONS

LoopKind = Literal["parallel", "reduction"]


@dataclass(frozen=True, slots=True)
class Access:
    """A value read or written at the element that ``map`` gives; numbers have no map."""

    value: Node
    map: IndexMap | None


@dataclass(frozen=True, slots=True)
class Statement:
    """One instruction inside the loops. A reduction's write is its accumulator.

    A copy writes ``node``, which is there already, to the outputs that it is.
    """

    node: Node
    reads: tuple[Access, ...]
    write: Access
    is_copy: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over ``extent`` iterations (None: as many as the caller's arrays have elements)."""

    index: int
    extent: Dim | None
    kind: LoopKind
    body: tuple[Loop | Statement, ...]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """The loops of one launch over the iteration space ``shape`` (None where shapes are the caller's)."""

    shape: Shape | None
    body: tuple[Loop | Statement, ...]

    def statements(self) -> Iterator[Statement]:
        """Every statement, in order."""
        stack: list[Loop | Statement] = list(reversed(self.body))
        while stack:
            item = stack.pop()
            if isinstance(item, Statement):
                yield item
            else:
                stack.extend(reversed(item.body))


def is_reduction(node: Node) -> bool:
    """Whether the operation reduces over axes."""
    return OPERATIONS[node.op].index_rule == "reduction"


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes a reduction reduces, counted from 0; empty for anything else or an unknown shape."""
    if not is_reduction(node) or node.args[0].tensor.shape is None:
        return ()
    return normal_axes(node.op, node.attr("axes"), len(node.args[0].tensor.shape))


def iteration_space(nodes: Sequence[Node]) -> Shape | None:
    """What the launch iterates over: the broadcast of every result, and of what its reductions read."""
    shapes = []
    for node in nodes:
        read = node.args[0] if reduced_axes(node) else node
        if read.tensor.shape is None:
            return None
        shapes.append(read.tensor.shape)
    return broadcast(shapes)


def build_nest(nodes: Sequence[Node], copies: Sequence[Node] = ()) -> LoopNest:
    """The nest of a launch that computes ``nodes``, given in an order in which operands come first, and writes
    ``copies`` along the way.

    Values that need the whole of a reduction run in a later inner loop than it (a phase); loops that no statement of a
    phase depends on are left out of it. Copies of another shape than the whole have loops of their own before it: there
    each element is written once, and also where the whole is empty.
    """
    shape = iteration_space(nodes) if nodes else copies[0].tensor.shape
    apart = [n for n in copies if n.tensor.shape != shape]
    along = [n for n in copies if n.tensor.shape == shape]
    before: list[Loop | Statement] = []
    for other in dict.fromkeys([n.tensor.shape for n in apart]):
        before += build_nest([], [n for n in apart if n.tensor.shape == other]).body
    if shape is None:
        single = [_statement(n, None) for n in nodes if n.tensor.shape == ()]  # computed once, before the loop
        each = [_statement(n, None) for n in nodes if n.tensor.shape != ()] + [_copy(n, None) for n in along]
        return LoopNest(None, (*before, *single, Loop(0, None, "parallel", tuple(each))))
    reduced = sorted({axis for n in nodes for axis in reduced_axes(n)})
    phases = _phases(nodes)
    inner: list[Loop | Statement] = []
    for phase in range(max(phases.values(), default=0) + 1):
        members = [n for n in nodes if phases[n] == phase]
        inner += _phase_loops(members, shape, reduced, () if phase else along)
    body = tuple(inner)
    for axis in reversed([j for j in range(len(shape)) if j not in reduced]):
        body = (Loop(axis, shape[axis], "parallel", body),)
    return LoopNest(shape, (*before, *body))


def _phases(nodes: Sequence[Node]) -> Mapping[Node, int]:
    phase: dict[Node, int] = {}
    for node in nodes:
        phase[node] = max((phase[a] + bool(reduced_axes(a)) for a in node.args if a in phase), default=0)
    return phase


def _phase_loops(
    members: Sequence[Node], shape: Shape, reduced: Sequence[int], copies: Sequence[Node]
) -> list[Loop | Statement]:
    """The statements of one phase: those that vary along reduced axes in an inner loop, the others before it."""
    once: list[Loop | Statement] = []
    varying: list[Loop | Statement] = []
    for node in members:
        statement = _statement(node, shape)
        maps = [a.map for a in (*statement.reads, statement.write) if a.map is not None]
        target = varying if any(m.depends_on(axis) for m in maps for axis in reduced) else once
        target.append(statement)
    (varying if reduced else once).extend([_copy(n, shape) for n in copies])
    if not varying:
        return once
    inner = tuple(varying)
    kind: LoopKind = "reduction" if any(reduced_axes(n) for n in members) else "parallel"
    for axis in reversed(reduced):
        inner = (Loop(axis, shape[axis], kind, inner),)
    return once + list(inner)


def _statement(node: Node, shape: Shape | None) -> Statement:
    return Statement(node, tuple(_access(a, shape) for a in node.args), _access(node, shape))


def _copy(node: Node, shape: Shape | None) -> Statement:
    """Writes ``node`` in loops over its own shape."""
    access = Access(node, None if node.op == "const" or shape is None else broadcast_map(shape, shape))
    return Statement(node, (access,), access, is_copy=True)


def _access(value: Node, shape: Shape | None) -> Access:
    if value.op == "const" or shape is None or value.tensor.shape is None:
        return Access(value, None)
    axes = reduced_axes(value)
    if axes and not value.attr("keepdims", False):
        kept = [j for j in range(len(shape)) if j not in axes]
        return Access(value, IndexMap(len(shape), tuple(Axis(j) for j in kept)))
    return Access(value, broadcast_map(value.tensor.shape, shape))


def nest_text(graph: Graph, nest: LoopNest) -> str:
    """The nest as indented text: ``for i0 in T (parallel):`` and one statement a line."""
    lines: list[str] = []
    stack: list[tuple[Loop | Statement, int]] = [(item, 0) for item in reversed(nest.body)]
    while stack:
        item, depth = stack.pop()
        pad = "  " * depth
        if isinstance(item, Statement):
            lines += [pad + line for line in _statement_lines(graph, item)]
            continue
        extent = "elements" if item.extent is None else str(item.extent)
        lines.append(f"{pad}for i{item.index} in {extent} ({item.kind}):")
        stack.extend((inner, depth + 1) for inner in reversed(item.body))
    return "\n".join(lines) + "\n"


def _statement_lines(graph: Graph, statement: Statement) -> list[str]:
    """What a statement computes, or each output that a copy writes."""
    from fuseline.ir.text import const_text

    def shown(access: Access) -> str:
        if access.value.op == "const":
            return const_text(access.value)
        return f"%{graph.label(access.value)}{access.map if access.map is not None else ''}"

    if statement.is_copy:
        index = statement.write.map if statement.write.map is not None else ""
        (source,) = [shown(a) for a in statement.reads]
        return [f"{name}{index} = {source}" for name, node in graph.outputs if node is statement.node]
    arrow = "<-" if reduced_axes(statement.node) else "="
    reads = ", ".join(shown(a) for a in statement.reads)
    return [f"{shown(statement.write)} {arrow} {statement.node.op} {reads}"]
