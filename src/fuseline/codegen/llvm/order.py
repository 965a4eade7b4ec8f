"""The order of a body's instructions: operands just before their use, and the one that needs more registers first
(Sethi and Ullman 1970), so that few values wait for each other.

A `where` with the attribute `rare` promises that its first choice is seldom taken, as the reduction of huge arguments
of a sine. What only that choice needs is gathered, to be computed behind a branch; marked choices under one condition
share one, and a branch may lie in another. The mark changes no bits, so other back ends ignore it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fuseline.ir.graph import Graph
from fuseline.ir.node import Node


@dataclass(frozen=True, slots=True, eq=False)
class RareWork:
    """Marked ``choices`` under one condition, and the ``instructions`` that nothing but their rare operands reads,
    rare work among them."""

    choices: tuple[Node, ...]
    instructions: tuple[Node | RareWork, ...]

    def nodes(self) -> Iterator[Node]:
        """All of it."""
        for item in self.instructions:
            yield from _nodes_of(item)
        yield from self.choices


def schedule(graph: Graph) -> list[Node | RareWork]:
    """The instructions, operands first, with marked choices gathered where that leaves an order."""
    alone: dict[Node, Node | RareWork] = {node: node for node in graph.nodes}
    unit = dict(alone)
    for work in _gathered(graph):
        unit.update(dict.fromkeys(work.nodes(), work))
    return _order(graph, unit) or _order(graph, alone) or []


def _gathered(graph: Graph) -> list[RareWork]:
    """The rare work of ``graph`` that lies in no other."""
    marked: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "where" and node.attr("rare", False):
            marked.setdefault(node.args[0], []).append(node)
    works = [RareWork(tuple(choices), _exclusive(graph, choices)) for choices in marked.values()]
    works.sort(key=lambda work: len(work.instructions))
    outermost: list[RareWork] = []
    while works:
        inner = works.pop(0)
        for i, outer in enumerate(works):
            if set(inner.choices) <= set(outer.instructions):
                works[i] = RareWork(outer.choices, _with_branch(outer.instructions, inner))
                break
        else:
            outermost.append(inner)
    return outermost


def _with_branch(instructions: tuple[Node | RareWork, ...], inner: RareWork) -> tuple[Node | RareWork, ...]:
    """``instructions`` with ``inner`` where its last choice stood; as they are, where one before reads a choice."""
    members, last = set(inner.nodes()), max(map(instructions.index, inner.choices))
    before = [item for item in instructions[:last] if item not in members]
    read = {a for item in before for node in _nodes_of(item) for a in node.args}
    if not read.isdisjoint(inner.choices):
        return instructions
    return (*before, inner, *instructions[last + 1 :])


def _nodes_of(item: Node | RareWork) -> Iterator[Node]:
    if isinstance(item, RareWork):
        yield from item.nodes()
    else:
        yield item


def _exclusive(graph: Graph, choices: list[Node]) -> tuple[Node, ...]:
    """The instructions that only the rare operands of ``choices`` need, in program order."""
    kept = {*choices, *graph.output_nodes}
    waiting: dict[Node, int] = {}
    found: list[Node] = []
    released = [c.args[1] for c in choices if c.args[1] not in (c.args[0], c.args[2])]
    while released:
        node = released.pop()
        if node.is_source or node in kept:
            continue
        waiting[node] = waiting.get(node, len(graph.users[node])) - 1
        if waiting[node] == 0:
            found.append(node)
            released += dict.fromkeys(node.args)
    return tuple(sorted(found, key=graph.number.__getitem__))


def _order(graph: Graph, unit: dict[Node, Node | RareWork]) -> list[Node | RareWork] | None:
    """Units with their operands first; None where gathering made one depend on itself."""
    registers = _registers(graph)
    order: list[Node | RareWork] = []
    state: dict[int, bool] = {}  # of a unit, by identity: False while its operands are visited, True when it is placed
    stack = [(unit[node], False) for node in reversed(graph.output_nodes) if node in unit]
    while stack:
        item, ready = stack.pop()
        if ready:
            state[id(item)] = True
            order.append(item)
        elif id(item) not in state:
            state[id(item)] = False
            stack.append((item, True))
            for needed in _needed(item, unit, registers):
                if state.get(id(needed)) is False:
                    return None
                stack.append((needed, False))
    return order


def _registers(graph: Graph) -> dict[Node, int]:
    """How many registers each value's computation would need if it shared nothing."""
    registers: dict[Node, int] = {}
    for node in graph.nodes:
        operands = sorted((registers[a] for a in set(node.args) if a in registers), reverse=True)
        registers[node] = max((count + waiting for waiting, count in enumerate(operands)), default=1)
    return registers


def _needed(
    item: Node | RareWork, unit: dict[Node, Node | RareWork], registers: dict[Node, int]
) -> list[Node | RareWork]:
    """The units of the operands, the most demanding one last, which is where the stack takes it first."""
    operands = dict.fromkeys(a for m in _nodes_of(item) for a in reversed(m.args) if a in unit)
    needed = dict.fromkeys(unit[a] for a in sorted(operands, key=registers.__getitem__))
    needed.pop(item, None)
    return list(needed)
