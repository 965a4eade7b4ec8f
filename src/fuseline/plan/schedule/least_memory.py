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
    """An order of operations, the bytes alive at its fullest step, and a number that no order can go below.

    ``stopped_because`` is one of ``optimal``, ``time limit``, ``interrupted``, ``effort spent``.
    """

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound_bytes: int
    method: str
    peaks: tuple[tuple[str, int], ...]
    stopped_because: str

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
    Deterministic unless the time limit or Ctrl-C (which gives the best order so far) stops a method; with ``bounded``
    the work is limited instead of the time, and Ctrl-C is left to the caller.
    """
    search = _Search(problem, math.inf if bounded else time.perf_counter() + time_limit_s)
    try:
        search.run(bounded)
    except KeyboardInterrupt:
        if bounded or search.best is None:
            raise
        search.stopped = "interrupted"
    return search.result()


class _Search:
    """One search: its clock, and the best order so far."""

    def __init__(self, problem: ScheduleProblem, deadline: float) -> None:
        self.best: tuple[int, list[int], str] | None = None
        """Its peak, the order and what found it."""
        self.stopped = "effort spent"
        self._problem = problem
        self._deadline = deadline
        self._bound = problem.footprint_bytes
        self._peaks: list[tuple[str, int]] = []

    def run(self, bounded: bool) -> None:
        """Try one method after the other until an order meets the bound."""
        problem = self._problem
        exact_states = _BOUNDED_STATES if bounded else _EXACT_STATES
        beam_operations, beam_widths = (
            (_BOUNDED_BEAM, _BEAM_WIDTHS[:1]) if bounded else (_BEAM_OPERATIONS, _BEAM_WIDTHS)
        )
        for name, rule in ORDERS.items():
            if not self._take(name, rule(problem, self._late)):
                break
            if self._peak() == self._bound:
                return
        if not self._late() and problem.operation_count <= _EXACT_OPERATIONS:
            order, complete = least_memory_order(problem, exact_states, self._peak(), self._late)
            self._take("exact over downsets", order)
            if complete:
                self._bound = self._peak()
                return
        if problem.operation_count <= beam_operations:
            for width in beam_widths:
                if not self._take(f"beam of {width}", beam_order(problem, width, self._late)):
                    return

    def result(self) -> Schedule:
        """What is known by now."""
        assert self.best is not None
        peak, order, method = self.best
        stopped = "optimal" if peak == self._bound else self.stopped
        return Schedule(tuple(order), peak, self._bound, method, tuple(self._peaks), stopped)

    def _peak(self) -> int:
        return self.best[0] if self.best is not None else 1 << 62

    def _take(self, name: str, order: list[int] | None) -> bool:
        """Keep ``order`` where it is the best so far; whether there is one."""
        if order is None:
            return False
        peak = peak_of_schedule(self._problem, order)
        self._peaks.append((name, peak))
        if peak < self._peak():
            self.best = peak, order, name
        return True

    def _late(self) -> bool:
        late = time.perf_counter() > self._deadline
        if late:
            self.stopped = "time limit"
        return late
