"""The order of a graph's instructions that needs the least memory, among several good ones.

An operand whose own computation needs more memory goes first (Sethi and Ullman's rule for trees, 1970); on graphs with
sharing it is a heuristic, so program order is always a candidate and the smallest result wins.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.graph import Graph
from ..ir.node import Node
from .buffers import BufferPlan, SizeOf, assign_buffers


def order_for_least_memory(graph: Graph, size_of: SizeOf) -> tuple[Node, ...]:
    """The candidate order whose greedy buffers take the fewest bytes, then the fewest buffers."""
    return plan_for_least_memory(graph, size_of).order


def plan_for_least_memory(graph: Graph, size_of: SizeOf, in_program_order: BufferPlan | None = None) -> BufferPlan:
    """The buffers of that order; program order, whose plan may be given, is preferred where nothing needs less."""
    first = in_program_order if in_program_order is not None else assign_buffers(graph, size_of)
    if first.total_bytes <= _least_bytes(graph, size_of):
        return first
    need = _memory_needs(graph, size_of)
    orders = dict.fromkeys(_depth_first(graph, need, heavy_first) for heavy_first in (True, False))
    others = [assign_buffers(graph, size_of, order) for order in orders if order != first.order]

    def cost(plan: BufferPlan) -> tuple[int, int, int]:
        return plan.total_bytes, plan.buffer_count, plan.most_alive

    return min((first, *others), key=cost)


def _least_bytes(graph: Graph, size_of: SizeOf) -> int:
    """What every order needs: the operands of one instruction are alive together, and so is each result alone."""
    computed = set(graph.nodes)
    most = 0
    for node in graph.nodes:
        operands = sum(size_of(a) for a in dict.fromkeys(node.args) if a in computed)
        most = max(most, operands, size_of(node))
    return most


def _memory_needs(graph: Graph, size_of: SizeOf) -> Mapping[Node, int]:
    """Bytes that computing each value alone needs at once, as if the graph were a tree."""
    need: dict[Node, int] = {}
    for node in graph.nodes:
        operands = sorted(((need[a], size_of(a)) for a in dict.fromkeys(node.args) if a in need), reverse=True)
        held = most = 0
        for peak, size in operands:
            most = max(most, held + peak)
            held += size
        need[node] = max(most, held, size_of(node))
    return need


def _depth_first(graph: Graph, need: Mapping[Node, int], heavy_first: bool) -> tuple[Node, ...]:
    """Instructions in depth-first order from the outputs, each operand list sorted by need."""
    order: list[Node] = []
    done: set[Node] = set()
    roots = [n for n in (*graph.output_nodes, *graph.nodes) if n in need]
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready:
            done.add(node)
            order.append(node)
            continue
        stack.append((node, True))
        waiting = [a for a in dict.fromkeys(node.args) if a in need and a not in done]
        waiting.sort(key=lambda a: need[a], reverse=not heavy_first)
        stack.extend((a, False) for a in waiting)
    return tuple(order)
