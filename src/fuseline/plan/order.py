"""The order of a graph's instructions that needs the least memory: the graph as a `ScheduleProblem`, solved."""

from __future__ import annotations

import math

from ..ir.graph import Graph
from ..ir.node import Node
from .buffers import BufferPlan, SizeOf, assign_buffers, may_overwrite
from .schedule import planner
from .schedule.problem import ScheduleProblem, Value

_EXACT_STATES = 4_000
_BEAM_WIDTHS = (8,)
_BEAM_INSTRUCTIONS = 1_000
"""An explanation answers at once and always alike: its searches are bounded by work, not by a clock."""


def order_for_least_memory(graph: Graph, size_of: SizeOf) -> tuple[Node, ...]:
    """The order whose greedy buffers take the fewest bytes, then the fewest buffers."""
    return plan_for_least_memory(graph, size_of).order


def plan_for_least_memory(graph: Graph, size_of: SizeOf, in_program_order: BufferPlan | None = None) -> BufferPlan:
    """The buffers of that order; program order, whose plan may be given, is preferred where nothing needs less."""
    first = in_program_order if in_program_order is not None else assign_buffers(graph, size_of)
    if first.total_bytes <= _least_bytes(graph, size_of):
        return first
    schedule = planner.order_for_least_memory(
        schedule_problem(graph, size_of),
        time_limit_s=math.inf,
        exact_states=_EXACT_STATES,
        beam_widths=_BEAM_WIDTHS if len(graph.nodes) <= _BEAM_INSTRUCTIONS else (),
    )
    other = assign_buffers(graph, size_of, tuple(graph.nodes[i] for i in schedule.order))

    def cost(plan: BufferPlan) -> tuple[int, int, int]:
        return plan.total_bytes, plan.buffer_count, plan.most_alive

    return min((first, other), key=cost)


def schedule_problem(graph: Graph, size_of: SizeOf) -> ScheduleProblem:
    """One operation and one value an instruction; inputs belong to the caller and take no part."""
    kept = set(graph.output_nodes)
    number = graph.number
    values = tuple(
        Value(size_of(node), i, tuple(number[u] for u in graph.users[node]), node in kept)
        for i, node in enumerate(graph.nodes)
    )
    in_place = tuple(
        (i, i, number[operand])
        for i, node in enumerate(graph.nodes)
        for operand in dict.fromkeys(node.args)
        if operand in number and may_overwrite(node, operand)
    )
    labels = tuple(graph.label(node) for node in graph.nodes)
    return ScheduleProblem(len(graph.nodes), values, in_place=in_place, names=labels)


def _least_bytes(graph: Graph, size_of: SizeOf) -> int:
    """What every order needs: the operands of one instruction are alive together, and so is each result alone."""
    computed = set(graph.nodes)
    most = 0
    for node in graph.nodes:
        operands = sum(size_of(a) for a in dict.fromkeys(node.args) if a in computed)
        most = max(most, operands, size_of(node))
    return most
