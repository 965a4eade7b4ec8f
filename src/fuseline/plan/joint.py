"""Order, in-place results and arena together: what runs when, what overwrites what, and where everything lies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fuseline.plan.arena.arguments import require_time_limit_s
from fuseline.plan.arena.bounds import live_bound, require_capacity
from fuseline.plan.arena.findings import Bound, Ground, Reason, outcome
from fuseline.plan.arena.planner import Progress, plan_instance
from fuseline.plan.arena.sections import cut
from fuseline.plan.arena.types import Instance, PlanResult
from fuseline.plan.inplace import Origin, Overwrite, StorageGraph
from fuseline.plan.schedule.least_memory import Schedule, order_for_least_memory
from fuseline.plan.schedule.problem import ScheduleProblem, peak_of, peak_of_schedule

THIS_ORDER = "this order"
VALID_FOR = "sequential execution in this order"
_ORDER_SHARE, _ARENA_SHARE = 0.5, 0.1
"""Of a time limit: the most for the search of an order, and the least for that of an arena."""
_UNLIMITED_S = 1e8
_NO_TIME_S = 1e-9
"""For an arena once somebody has asked for what there is: the first quick answer alone."""
_REASONS_TO_STOP = ("capacity reached", "interrupted", "time limit")
"""Of what ended the two searches, what is told first; where none of these did, all methods were tried."""
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


class PlacedValue(NamedTuple):
    """One value in the JSON form of a program's arena. ``buffer`` is the id of the buffer that it lies in,
    ``in_place_of`` that of the value whose bytes it takes.
    """

    id: str
    step: int
    offset: int | None
    lower: int
    upper: int
    size_bytes: int
    buffer: str
    in_place_of: str | None


def program_arena_to_dict(arena: PlanResult, values: Iterable[PlacedValue]) -> dict[str, Any]:
    """The stable JSON form of a program's arena in one order, wherever it is shown: values in that order, all by id."""
    rows = list(values)
    return {
        **arena.to_dict(),
        "proof_covers": THIS_ORDER,
        "valid_for": VALID_FOR,
        "order": [row.id for row in rows],
        "values": [row._asdict() for row in rows],
    }


@dataclass(frozen=True)
class JointPlan:
    """``order`` of operations, the ``overwrites`` it makes use of, and the arena of the storages.

    ``peak_without_reuse_bytes`` is what the same order keeps alive when every result gets bytes of its own,
    ``program_order_peak_bytes`` what program order keeps alive with the same rules, ``peak_bytes`` what the order does.
    ``order_bound`` is what every order keeps alive, ``None`` where the order was given or where the arena leaves
    out what the order counts. ``arena`` has bound, proof, seconds and reason for stopping of this order alone;
    ``seconds`` is the time of both searches. Sizes that are alive are filled up to their alignments, as in the arena.
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
    seconds: float
    order_bound: Bound | None = None

    def __repr__(self) -> str:
        count = len(self.order)
        return f"<JointPlan: {count} step{'s' * (count != 1)}, {outcome(self.arena.peak_bytes, self.gap)}>"

    @property
    def lower_bound_bytes(self) -> int:
        """Bytes below which no arena can be: over all orders where the order was chosen, else in the one given."""
        return (self.order_bound or self.arena.bound).size_bytes

    @property
    def optimal(self) -> bool:
        """Whether the arena equals the bound, so that no order needs less."""
        return self.arena.peak_bytes == self.lower_bound_bytes

    @property
    def gap(self) -> float:
        """``peak / bound - 1``."""
        return self.arena.peak_bytes / self.lower_bound_bytes - 1.0 if self.lower_bound_bytes else 0.0

    @property
    def stopped_because(self) -> str:
        """Why nothing better was looked for, of what `optimal` speaks of: one of `PlanResult`'s reasons."""
        if self.optimal:
            return "optimal"
        if self.order_bound is None:
            return self.arena.stopped_because
        ended = (self.arena.stopped_because, self.schedule.stopped_because if self.schedule is not None else "")
        return next((reason for reason in _REASONS_TO_STOP if reason in ended), "effort spent")

    @property
    def bound_derivation(self) -> str:
        """How the bound is known."""
        if self.order_bound is None:
            return f"in the given order {self.arena.bound.derivation}"
        return self.order_bound.derivation

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
        """The arena's stable JSON form, and beside it the order, the overwrites and the peaks compared.

        Bound, gap, optimality, reason and seconds are those of both searches and speak of all orders; ``in_this_order``
        holds the arena's for the chosen one.
        """
        values = self.graph.values
        in_order = program_arena_to_dict(self.arena, map(self._placed, self.stored))
        own = ("lower_bound_bytes", "optimal", "gap", "seconds", "stopped_because", "bound_derivation")
        bound = self.order_bound or self.arena.bound
        return {
            **in_order,
            **{name: getattr(self, name) for name in own},
            "bound_reasons": [reason.to_dict() for reason in bound.reasons],
            "in_this_order": {name: in_order[name] for name in (*own, "bound_reasons")},
            "proof_covers": THIS_ORDER if self.order_bound is None else "all orders",
            "order": [self.graph.operations[u].name for u in self.order],
            "overwrites": [
                {"result": values[o.result].name, "operand": values[o.operand].name} for o in self.overwrites
            ],
            "program_order_peak_bytes": self.program_order_peak_bytes,
            "peak_without_reuse_bytes": self.peak_without_reuse_bytes,
        }

    def _placed(self, s: Stored) -> PlacedValue:
        name = self.graph.values
        over = None if s.over is None else name[s.over].name
        return PlacedValue(
            name[s.value].name, s.step, s.offset, s.lower, s.upper, s.size_bytes, name[s.buffer].name, over
        )


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

    ``time_limit_s`` is for both searches together. A capacity ends the search as soon as the arena fits; where the
    order found cannot fit but another one might, the least arena for the order found is given.
    ``bounded`` limits the work itself instead of its time: the answer comes soon and is always the same. Without
    ``exact`` buffers are placed by the quick heuristics only. Ctrl-C gives the best answer so far.

    Raises:
        PlanError: ``order`` is not a schedule of the graph, the graph is none, or an argument is of a wrong type.
        InfeasibleError: no order fits into the capacity.
    """
    time_limit_s = require_time_limit_s(time_limit_s)
    began = time.perf_counter()
    problem = graph.schedule_problem
    plain = problem.without_reuse()
    model = problem if in_place else plain
    if order is None:
        if schedule is None:
            schedule = order_for_least_memory(model, time_limit_s=time_limit_s * _ORDER_SHARE, bounded=bounded)
        order = schedule.order
    overwrites = graph.chosen_overwrites(order) if in_place else ()
    order_bound = _order_bound(graph, model, schedule) if outputs_in_arena else None
    instance = graph.instance(order, overwrites, name, outputs_in_arena)
    if capacity_bytes is not None and order_bound is not None:
        capacity_bytes = _capacity_for_order(instance, capacity_bytes, order_bound)
    arena = plan_instance(
        instance,
        capacity_bytes=capacity_bytes,
        time_limit_s=_time_for_arena(began, time_limit_s, bounded, schedule),
        seed=seed,
        exact=exact,
        node_limit=BOUNDED_NODES if bounded else None,
        on_progress=on_progress,
    )
    return JointPlan(
        graph=graph,
        order=tuple(order),
        schedule=schedule,
        overwrites=overwrites,
        arena=arena,
        **_peaks(model, plain, order, schedule),
        seconds=time.perf_counter() - began,
        order_bound=order_bound,
    )


def _peaks(
    model: ScheduleProblem, plain: ScheduleProblem, order: Sequence[int], schedule: Schedule | None
) -> dict[str, int]:
    """What `JointPlan` compares: bytes alive in this order, in it without reuse, and in program order."""
    program_order = dict(schedule.peaks)["program order"] if schedule is not None else None
    return {
        "peak_bytes": schedule.peak_bytes if schedule is not None else peak_of(model, order),
        "peak_without_reuse_bytes": peak_of_schedule(plain, order),
        "program_order_peak_bytes": program_order or peak_of_schedule(model, model.program_order),
    }


def _time_for_arena(began: float, time_limit_s: float, bounded: bool, schedule: Schedule | None) -> float:
    """Seconds that are left for the second search."""
    if bounded:
        return _UNLIMITED_S
    if schedule is not None and schedule.stopped_because == "interrupted":
        return _NO_TIME_S
    return max(began + time_limit_s - time.perf_counter(), time_limit_s * _ARENA_SHARE)


def _order_bound(graph: StorageGraph, model: ScheduleProblem, schedule: Schedule | None) -> Bound | None:
    """What every order keeps alive in the arena, where the schedule counts just what lies there."""
    counted_elsewhere = any(v.origin is Origin.DONATED or v.outside for v in graph.values)
    if schedule is None or counted_elsewhere or any(operation.workspace_bytes for operation in graph.operations):
        return None
    size_bytes = schedule.lower_bound_bytes
    searched = size_bytes > model.footprint_bytes
    ground = Ground.ORDERS_SEARCHED if searched else Ground.LARGEST_OPERATION
    return Bound(size_bytes, (Reason(ground, (("size_bytes", size_bytes),)),))


def _capacity_for_order(instance: Instance, capacity_bytes: int, order_bound: Bound) -> int | None:
    """The capacity, or ``None`` where this order cannot meet it, so that the least arena for it is looked for.

    Raises:
        InfeasibleError: no order meets it.
    """
    require_capacity(order_bound, capacity_bytes)
    bound = live_bound(instance, cut(instance))
    return capacity_bytes if bound.size_bytes <= capacity_bytes else None
