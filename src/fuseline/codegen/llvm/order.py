"""The order of a body's instructions: operands just before their use, and the one that needs more registers first
(Sethi and Ullman 1970), so that few values wait for each other.

A `where` with the attribute `rare` promises that its first choice is seldom taken, as the reduction of huge arguments
of a sine. What only that choice needs is gathered, to be computed behind a branch; marked choices under one condition
share one. The mark changes no bits, so other back ends ignore it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuseline.ir.graph import Graph
from fuseline.ir.node import Node


@dataclass(frozen=True, slots=True, eq=False)
class RareWork:
    """Marked ``choices`` under one condition, and the instructions that nothing but their rare operands reads."""

    choices: tuple[Node, ...]
    instructions: tuple[Node, ...]


def schedule(graph: Graph) -> list[Node | RareWork]:
    """The instructions, operands first, with marked choices gathered where that leaves an order."""
    marked: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "where" and node.attr("rare", False):
            marked.setdefault(node.args[0], []).append(node)
    alone: dict[Node, Node | RareWork] = {node: node for node in graph.nodes}
    unit = dict(alone)
    for choices in marked.values():
        work = RareWork(tuple(choices), _exclusive(graph, choices))
        unit.update(dict.fromkeys((*work.choices, *work.instructions), work))
    return _order(graph, unit) or _order(graph, alone) or []


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
    members = (*item.instructions, *item.choices) if isinstance(item, RareWork) else (item,)
    operands = dict.fromkeys(a for m in members for a in reversed(m.args) if a in unit)
    needed = dict.fromkeys(unit[a] for a in sorted(operands, key=registers.__getitem__))
    needed.pop(item, None)
    return list(needed)
