"""The order of a graph's instructions that needs the least memory: the graph as storages, scheduled."""

from __future__ import annotations

from fuseline.ir.graph import Graph
from fuseline.plan.buffers import BufferPlan, SizeOf, assign_buffers
from fuseline.plan.inplace import StorageGraph
from fuseline.plan.schedule.least_memory import Schedule, order_for_least_memory


def may_have_better_order(graph: Graph, size_of: SizeOf, first: BufferPlan) -> bool:
    """Whether another order could need fewer bytes than ``first``, the buffers in program order."""
    return first.total_bytes > _least_bytes(graph, size_of)


def schedule_storages(storages: StorageGraph) -> Schedule:
    """The order of least memory, by a search whose work is bounded."""
    return order_for_least_memory(storages.schedule_problem, bounded=True)


def better_buffers(graph: Graph, size_of: SizeOf, first: BufferPlan, schedule: Schedule) -> BufferPlan:
    """``first``, or the greedy buffers of the schedule where they take fewer bytes, then fewer buffers."""

    def cost(plan: BufferPlan) -> tuple[int, int, int]:
        return plan.total_bytes, plan.buffer_count, plan.most_alive

    other = assign_buffers(graph, size_of, tuple(graph.nodes[i] for i in schedule.order))
    return min((first, other), key=cost)


def _least_bytes(graph: Graph, size_of: SizeOf) -> int:
    """What every order needs: the operands of one instruction are alive together, and so is each result alone."""
    most = 0
    for node in graph.nodes:
        most = max(most, size_of(node))
        if len(node.args) > 1:  # one operand alone is a result, too
            most = max(most, sum([size_of(a) for a in dict.fromkeys(node.args) if not a.is_source]))
    return most
