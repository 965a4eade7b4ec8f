"""The placement as a constraint program for CP-SAT (an optional extra): another way to an answer and to a bound.

Every buffer is a rectangle of fixed width in time; rectangles may not overlap and the arena's height is minimised. Its
bound is a proof of its own kind, so it may raise the live bound where exhaustive search cannot.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from fuseline.errors import UnsupportedError
from fuseline.plan.arena.bounds import live_bound
from fuseline.plan.arena.sections import cut
from fuseline.plan.arena.types import Instance, Placement


@dataclass(frozen=True, slots=True)
class ConstraintAnswer:
    """What CP-SAT found: a placement (``None`` where it found none in time) and a lower bound in bytes."""

    placement: Placement | None
    lower_bound_bytes: int


def cpsat_available() -> bool:
    """Whether the optional dependency ortools can be imported."""
    return importlib.util.find_spec("ortools") is not None


def solve_with_cpsat(
    instance: Instance,
    *,
    time_limit_s: float,
    hint: Placement | None = None,
    workers: int = 1,
    seed: int = 0,
) -> ConstraintAnswer:
    """The least arena by CP-SAT within ``time_limit_s``, starting from ``hint`` where there is one.

    Raises:
        UnsupportedError: ortools is not installed, or the instance has gaps.
    """
    if not cpsat_available():
        raise UnsupportedError('CP-SAT needs more packages: pip install "fuseline[planner]"')
    from ortools.sat.python import cp_model

    sections = cut(instance)
    if sections.windows:
        raise UnsupportedError("the constraint program does not cover gaps in lifetimes")
    unit = sections.unit_bytes
    bound = live_bound(instance, sections).size_bytes // unit
    # Without a hint, one buffer on the other always fits.
    widest = max(sections.alignment, default=1)
    most = hint.peak_bytes // unit if hint is not None else bound + sum(sections.size) + widest * len(sections.size)
    model = cp_model.CpModel()
    height = model.new_int_var(bound, most, "height")
    starts, across, up = [], [], []
    for i, size in enumerate(sections.size):
        step = sections.alignment[i]
        factor = model.new_int_var(0, max(0, most - size) // step, f"factor{i}")
        start = factor * step
        starts.append(start)
        if sections.fixed[i] >= 0:
            model.add(start == sections.fixed[i])
        model.add(start + size <= height)
        if hint is not None:
            model.add_hint(factor, hint.offsets[i] // unit // step)
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
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    proven = max(bound, int(solver.best_objective_bound)) * unit
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ConstraintAnswer(None, bound * unit)
    return ConstraintAnswer(sections.placement([solver.value(start) for start in starts]), proven)
