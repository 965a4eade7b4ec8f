"""Order, in-place results and arena together: what runs when, what overwrites what, and where everything lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fuseline.plan.arena.arguments import require_time_limit_s
from fuseline.plan.arena.planner import Progress, plan_instance
from fuseline.plan.arena.types import PlanResult
from fuseline.plan.inplace import Overwrite, StorageGraph
from fuseline.plan.schedule.planner import Schedule, order_for_least_memory
from fuseline.plan.schedule.problem import peak_of

BOUNDED_NODES = 500
"""Nodes of exact search where the work is bounded by itself and not by a clock."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where one value lies: at ``offset`` (``None``: outside the arena) during steps ``[lower, upper)``.

    ``over`` is the value whose storage it takes, ``buffer`` the first value of that storage: indices of values.
    """

    value: int
    step: int
    offset: int | None
    lower: int
    upper: int
    size_bytes: int
    buffer: int
    over: int | None


@dataclass(frozen=True)
class JointPlan:
    """``order`` of operations, the ``overwrites`` it makes use of, and the arena of the storages.

    ``peak_without_reuse_bytes`` is what the same order keeps alive when every result gets bytes of its own,
    ``program_order_peak_bytes`` what program order keeps alive with the same rules, ``peak_bytes`` what the order does.
    Valid for sequential execution in this order only.
    """

    graph: StorageGraph
    order: tuple[int, ...]
    schedule: Schedule | None
    overwrites: tuple[Overwrite, ...]
    arena: PlanResult
    peak_bytes: int
    peak_without_reuse_bytes: int
    program_order_peak_bytes: int

    @cached_property
    def stored(self) -> tuple[Stored, ...]:
        """The place of every computed value, in the order of their operations."""
        names = {value.name: v for v, value in enumerate(self.graph.values)}
        pairs = zip(self.arena.instance.buffers, self.arena.placement.offsets, strict=True)
        offsets = {names[buffer.id]: offset for buffer, offset in pairs}
        owners = self.graph.owners(self.order, self.overwrites)
        lifetimes = self.graph.lifetimes(self.order)
        over = {o.result: o.operand for o in self.overwrites}
        return tuple(
            Stored(v, t, offsets.get(owners[v]), *lifetimes[v], self.graph.values[v].size_bytes, owners[v], over.get(v))
            for t, u in enumerate(self.order)
            for v in self.graph.operations[u].results
        )

    def to_dict(self) -> dict[str, Any]:
        """The arena's stable JSON form, and beside it the order, the overwrites and the peaks compared."""
        values = self.graph.values
        return {
            **self.arena.to_dict(),
            "order": [self.graph.operations[u].name for u in self.order],
            "overwrites": [
                {"result": values[o.result].name, "operand": values[o.operand].name} for o in self.overwrites
            ],
            "values": [
                {
                    "id": values[s.value].name,
                    "step": s.step,
                    "offset": s.offset,
                    "lower": s.lower,
                    "upper": s.upper,
                    "size_bytes": s.size_bytes,
                    "buffer": values[s.buffer].name,
                    "in_place_of": None if s.over is None else values[s.over].name,
                }
                for s in self.stored
            ],
            "program_order_peak_bytes": self.program_order_peak_bytes,
            "peak_without_reuse_bytes": self.peak_without_reuse_bytes,
        }


def plan_graph(
    graph: StorageGraph,
    *,
    order: Sequence[int] | None = None,
    schedule: Schedule | None = None,
    in_place: bool = True,
    outputs_in_arena: bool = True,
    bounded: bool = False,
    capacity_bytes: int | None = None,
    time_limit_s: float = 10.0,
    seed: int = 0,
    exact: bool = True,
    name: str = "graph",
    on_progress: Progress | None = None,
) -> JointPlan:
    """Choose an order (unless ``order`` or ``schedule`` is given), overwrite where that is legal, and place the rest.

    ``bounded`` limits the work itself instead of its time: the answer comes soon and is always the same. Without
    ``exact`` buffers are placed by the quick heuristics only.

    Raises:
        PlanError: ``order`` is not a schedule of the graph, the graph is none, or an argument is of a wrong type.
    """
    time_limit_s = require_time_limit_s(time_limit_s)
    problem = graph.schedule_problem
    plain = problem.without_reuse()
    model = problem if in_place else plain
    if order is None:
        if schedule is None:
            schedule = order_for_least_memory(model, time_limit_s=time_limit_s, bounded=bounded)
        order = schedule.order
    overwrites = graph.chosen_overwrites(order) if in_place else ()
    arena = plan_instance(
        graph.instance(order, overwrites, name, outputs_in_arena),
        capacity_bytes=capacity_bytes,
        time_limit_s=time_limit_s,
        seed=seed,
        exact=exact,
        node_limit=BOUNDED_NODES if bounded else None,
        on_progress=on_progress,
    )
    program_order = dict(schedule.peaks)["program order"] if schedule is not None else None
    return JointPlan(
        graph=graph,
        order=tuple(order),
        schedule=schedule,
        overwrites=overwrites,
        arena=arena,
        peak_bytes=schedule.peak_bytes if schedule is not None else peak_of(model, order),
        peak_without_reuse_bytes=peak_of(plain, order),
        program_order_peak_bytes=program_order or peak_of(model, problem.ready_order()),
    )
