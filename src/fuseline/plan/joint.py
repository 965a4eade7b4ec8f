"""Order, in-place results and arena together: what runs when, what overwrites what, and where everything lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fuseline.plan.arena.planner import Progress, plan_instance
from fuseline.plan.arena.types import PlanResult
from fuseline.plan.inplace import Overwrite, StorageGraph
from fuseline.plan.schedule.planner import Schedule, order_for_least_memory
from fuseline.plan.schedule.problem import ScheduleProblem, peak_of


@dataclass(frozen=True)
class JointPlan:
    """``order`` of operations, the ``overwrites`` it makes use of, and the arena of the storages.

    ``peak_without_reuse_bytes`` is what the same order keeps alive when every result gets bytes of its own,
    ``program_order_peak_bytes`` what program order keeps alive with the same rules. Valid for sequential execution in
    this order only.
    """

    graph: StorageGraph
    order: tuple[int, ...]
    schedule: Schedule | None
    overwrites: tuple[Overwrite, ...]
    arena: PlanResult
    peak_without_reuse_bytes: int
    program_order_peak_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The arena's stable JSON form, and beside it the order, the overwrites and the peaks compared."""
        values = self.graph.values
        return {
            **self.arena.to_dict(),
            "order": [self.graph.operations[u].name for u in self.order],
            "overwrites": [
                {"result": values[o.result].name, "operand": values[o.operand].name} for o in self.overwrites
            ],
            "program_order_peak_bytes": self.program_order_peak_bytes,
            "peak_without_reuse_bytes": self.peak_without_reuse_bytes,
        }


def plan_graph(
    graph: StorageGraph,
    *,
    order: Sequence[int] | None = None,
    in_place: bool = True,
    capacity_bytes: int | None = None,
    time_limit_s: float = 10.0,
    seed: int = 0,
    name: str = "graph",
    on_progress: Progress | None = None,
) -> JointPlan:
    """Choose an order (unless ``order`` is given), overwrite where that is legal, and place what remains in an arena.

    Raises:
        PlanError: ``order`` is not a schedule of the graph, or the graph is none.
    """
    problem = graph.schedule_problem()
    plain = ScheduleProblem(
        problem.operation_count, problem.values, problem.after, (), problem.workspace_bytes, problem.names
    )
    schedule = None
    if order is None:
        schedule = order_for_least_memory(problem if in_place else plain, time_limit_s=time_limit_s)
        order = schedule.order
    program_order = peak_of(problem if in_place else plain, problem.ready_order())
    without = peak_of(plain, order)
    overwrites = graph.chosen_overwrites(order) if in_place else ()
    instance = graph.instance(order, overwrites, name)
    arena = plan_instance(
        instance, capacity_bytes=capacity_bytes, time_limit_s=time_limit_s, seed=seed, on_progress=on_progress
    )
    return JointPlan(graph, tuple(order), schedule, overwrites, arena, without, program_order)
