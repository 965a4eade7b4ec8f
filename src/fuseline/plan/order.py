"""The order of a graph's instructions that needs the least memory: the graph as storages, scheduled."""

from __future__ import annotations

from fuseline.ir.graph import Graph
from fuseline.ir.node import Node
from fuseline.plan.buffers import BufferPlan, SizeOf, assign_buffers
from fuseline.plan.inplace import StorageGraph
from fuseline.plan.schedule import planner
from fuseline.plan.schedule.planner import Schedule
from fuseline.plan.storage_graph import storage_graph


def order_for_least_memory(graph: Graph, size_of: SizeOf) -> tuple[Node, ...]:
    """The order whose greedy buffers take the fewest bytes, then the fewest buffers."""
    return plan_for_least_memory(graph, size_of).order


def plan_for_least_memory(graph: Graph, size_of: SizeOf, in_program_order: BufferPlan | None = None) -> BufferPlan:
    """The buffers of that order; program order, whose plan may be given, is preferred where nothing needs less."""
    first = in_program_order if in_program_order is not None else assign_buffers(graph, size_of)
    schedule = schedule_where_it_can_help(graph, size_of, first)
    return first if schedule is None else better_buffers(graph, size_of, first, schedule)


def schedule_where_it_can_help(
    graph: Graph, size_of: SizeOf, first: BufferPlan, storages: StorageGraph | None = None
) -> Schedule | None:
    """The order of least memory, by a bounded search; ``None`` where ``first``, in program order, is the least possible
    anyway. ``storages`` may be given where the graph's are known.
    """
    if first.total_bytes <= _least_bytes(graph, size_of):
        return None
    if storages is None:
        computed = set(graph.nodes)
        storages = storage_graph(graph, lambda node: size_of(node) if node in computed else 0)
    return planner.order_for_least_memory(storages.schedule_problem, bounded=True)


def better_buffers(graph: Graph, size_of: SizeOf, first: BufferPlan, schedule: Schedule) -> BufferPlan:
    """``first``, or the greedy buffers of the schedule where they take fewer bytes, then fewer buffers."""

    def cost(plan: BufferPlan) -> tuple[int, int, int]:
        return plan.total_bytes, plan.buffer_count, plan.most_alive

    other = assign_buffers(graph, size_of, tuple(graph.nodes[i] for i in schedule.order))
    return min((first, other), key=cost)


def _least_bytes(graph: Graph, size_of: SizeOf) -> int:
    """What every order needs: the operands of one instruction are alive together, and so is each result alone."""
    computed = set(graph.nodes)
    most = 0
    for node in graph.nodes:
        operands = sum(size_of(a) for a in dict.fromkeys(node.args) if a in computed)
        most = max(most, operands, size_of(node))
    return most
