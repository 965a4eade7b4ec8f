"""The one entry: the order of least memory by the best of all methods, with a bound and whether it is proven least."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from fuseline.plan.schedule.beam import beam_order
from fuseline.plan.schedule.downsets import least_memory_order
from fuseline.plan.schedule.greedy import ORDERS
from fuseline.plan.schedule.problem import ScheduleProblem, peak_of_schedule

DEFAULT_TIME_LIMIT_S = 10.0
_EXACT_OPERATIONS, _EXACT_STATES = 2_000, 30_000
"""The largest problem that is searched exactly, and the sets of operations done that the search may keep."""
_BEAM_OPERATIONS, _BEAM_WIDTHS = 3_000, (8, 64)
"""The largest problem for beam search, and the orders that it keeps, the quick beam first."""
_BOUNDED_STATES, _BOUNDED_BEAM = 4_000, 1_000
"""The same, states and operations of a beam, where the work is bounded instead of the time."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of operations, the bytes alive at its fullest step, and a number that no order can go below."""

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound_bytes: int
    method: str
    peaks: tuple[tuple[str, int], ...]

    @property
    def optimal(self) -> bool:
        return self.peak_bytes == self.lower_bound_bytes


def order_for_least_memory(
    problem: ScheduleProblem,
    *,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    bounded: bool = False,
) -> Schedule:
    """The best order found: greedy orders, then exact search where the graph is narrow enough, else beam search.

    Program order wins ties, so that nothing moves without a gain, and is all that there is where the time ends first.
    Deterministic unless the time limit stops a method; with ``bounded`` the work is limited instead of the time.
    """
    deadline = math.inf if bounded else time.perf_counter() + time_limit_s
    exact_states = _BOUNDED_STATES if bounded else _EXACT_STATES
    beam_operations, beam_widths = (_BOUNDED_BEAM, _BEAM_WIDTHS[:1]) if bounded else (_BEAM_OPERATIONS, _BEAM_WIDTHS)
    bound = problem.footprint_bytes
    best: list[int] = []
    best_peak, method = 1 << 62, ""
    peaks: list[tuple[str, int]] = []

    def late() -> bool:
        return time.perf_counter() > deadline

    def take(name: str, order: list[int]) -> None:
        nonlocal best, best_peak, method
        peak = peak_of_schedule(problem, order)
        peaks.append((name, peak))
        if peak < best_peak:
            best, best_peak, method = order, peak, name

    for name, rule in ORDERS.items():
        order = rule(problem, late)
        if order is None:
            break
        take(name, order)
        if best_peak == bound:
            break
    if best_peak > bound and not late() and problem.operation_count <= _EXACT_OPERATIONS:
        order, complete = least_memory_order(problem, exact_states, best_peak, late)
        if order is not None:
            take("exact over downsets", order)
        if complete:
            bound = best_peak
    if best_peak > bound and problem.operation_count <= beam_operations:
        for width in beam_widths:
            order = beam_order(problem, width, late)
            if order is None:
                break
            take(f"beam of {width}", order)
    return Schedule(tuple(best), best_peak, bound, method, tuple(peaks))
