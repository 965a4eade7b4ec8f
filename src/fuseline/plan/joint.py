"""Order, in-place results and arena together: what runs when, what overwrites what, and where everything lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuseline.plan.arena.planner import Progress, plan_instance
from fuseline.plan.arena.types import PlanResult
from fuseline.plan.inplace import Overwrite, StorageGraph
from fuseline.plan.schedule.planner import Schedule, order_for_least_memory
from fuseline.plan.schedule.problem import ScheduleProblem, peak_of


@dataclass(frozen=True)
class JointPlan:
    """``order`` of operations, the ``overwrites`` it makes use of, and the arena of the storages.

    ``peak_without_reuse_bytes`` is what the same order keeps alive when every result gets bytes of its own. Valid for
    sequential execution in this order only.
    """

    order: tuple[int, ...]
    schedule: Schedule | None
    overwrites: tuple[Overwrite, ...]
    arena: PlanResult
    peak_without_reuse_bytes: int


def plan_graph(
    graph: StorageGraph,
    *,
    order: Sequence[int] | None = None,
    in_place: bool = True,
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
    without = peak_of(plain, order)
    overwrites = graph.chosen_overwrites(order) if in_place else ()
    instance = graph.instance(order, overwrites, name)
    arena = plan_instance(instance, time_limit_s=time_limit_s, seed=seed, on_progress=on_progress)
    return JointPlan(tuple(order), schedule, overwrites, arena, without)
