"""The placement as a constraint program for OR-tools' CP-SAT: another way to an answer and to a bound.

Every buffer is a rectangle of fixed width in time; rectangles may not overlap and the arena's height is minimised.
Part of ``benchmarks/planner.py``; docs/decisions/0015 says why the planner itself does not use it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuseline.plan.arena.bounds import live_bound
from fuseline.plan.arena.sections import cut
from fuseline.plan.arena.types import Instance, Placement


@dataclass(frozen=True)
class ConstraintAnswer:
    """What CP-SAT found: a placement (``None`` where it found none in time) and a lower bound in bytes."""

    placement: Placement | None
    lower_bound_bytes: int


def covers(instance: Instance) -> bool:
    """Whether the constraint program says what the instance asks: gaps in lifetimes it does not know."""
    return not cut(instance).windows


def solve(instance: Instance, time_limit_s: float) -> ConstraintAnswer:
    """The least arena by CP-SAT within ``time_limit_s`` on one thread, for an instance that it `covers`."""
    from ortools.sat.python import cp_model

    sections = cut(instance)
    unit = sections.unit_bytes
    bound = live_bound(instance, sections).size_bytes // unit
    most = bound + sum(sections.size) + max(sections.alignment, default=1) * len(sections.size)  # one on the other
    model = cp_model.CpModel()
    height = model.new_int_var(bound, most, "height")
    starts, across, up = [], [], []
    for i, size in enumerate(sections.size):
        step = sections.alignment[i]
        start = model.new_int_var(0, max(0, most - size) // step, f"factor{i}") * step
        starts.append(start)
        if sections.fixed[i] >= 0:
            model.add(start == sections.fixed[i])
        model.add(start + size <= height)
        if size:
            lower = sections.lower[i]
            across.append(model.new_fixed_size_interval_var(lower, sections.upper[i] - lower, f"time{i}"))
            up.append(model.new_interval_var(start, size, start + size, f"bytes{i}"))
    model.add_no_overlap_2d(across, up)
    for s in range(sections.section_count):
        alive = [k for k in range(len(starts)) if sections.lower[k] <= s < sections.upper[k]]
        model.add(height >= sum(sections.size[k] for k in alive))
    model.minimize(height)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit_s
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ConstraintAnswer(None, bound * unit)
    proven = max(bound, int(solver.best_objective_bound)) * unit
    return ConstraintAnswer(sections.placement([solver.value(start) for start in starts]), proven)
