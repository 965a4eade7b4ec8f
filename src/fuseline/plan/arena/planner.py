"""The one entry: an instance goes in, a checked placement with its proof comes out, at any time.

Bound first, then the portfolio until it meets the bound, then exact search until the proof, the time limit or Ctrl-C.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fuseline.errors import PlanError, VerifyError
from fuseline.plan.arena import engine, portfolio
from fuseline.plan.arena.bounds import live_bound, require_capacity
from fuseline.plan.arena.checker import check
from fuseline.plan.arena.exact import ExactSearch, Standing
from fuseline.plan.arena.large import LARGE_BUFFERS, large_answers
from fuseline.plan.arena.portfolio import Answer
from fuseline.plan.arena.sections import cut
from fuseline.plan.arena.types import Bound, Incumbent, Instance, PlanResult

DEFAULT_TIME_LIMIT_S = 60.0
_COMPILE_S = 20.0
_LOAD_S = 2.0
_FIRST_ORDERS = 1
_TELL_EVERY_S = 0.5
_PURE_NODES = 1_000
_EARLY_NODES = 25_000
_PURE_WORK = 2_000_000
_MAX_EXACT_ENTRIES = 2_000_000

Progress = Callable[[Incumbent], None]


def plan_instance(
    instance: Instance,
    *,
    capacity_bytes: int | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    seed: int = 0,
    exact: bool = True,
    on_progress: Progress | None = None,
) -> PlanResult:
    """Place the buffers of ``instance`` in one arena.

    ``capacity_bytes`` stops the search as soon as an answer fits; without it the search goes on to the least arena.
    ``exact=False`` ends after the portfolio. The answer depends only on the arguments unless the time limit or Ctrl-C
    (which gives the best answer so far) ends the search. ``on_progress`` is called when the best peak or the bound
    moves.

    Raises:
        InfeasibleError: the capacity is below the bound, or fixed offsets collide.
        PlanError: the time limit is not positive.
    """
    return _Planning(instance, capacity_bytes, time_limit_s, seed, on_progress).run(exact)


class _Planning:
    """One planning: its clock, its standing and who is told."""

    def __init__(
        self, instance: Instance, capacity: int | None, time_limit_s: float, seed: int, on_progress: Progress | None
    ) -> None:
        if not time_limit_s > 0:
            raise PlanError(f"the time limit must be positive, not {time_limit_s}")
        self._began = self._told = time.perf_counter()
        self._deadline = self._began + time_limit_s
        self._instance = instance
        self._seed = seed
        self._on_progress = on_progress
        self._stage = "bound"
        self._log: list[Incumbent] = []
        self._sections = cut(instance)
        self._bound = live_bound(instance, self._sections)
        if capacity is not None:
            require_capacity(self._bound, capacity)
        unit = self._sections.unit_bytes
        lower = self._bound.size_bytes // unit
        self._goal = lower if capacity is None else max(lower, capacity // unit)
        self._capacity = capacity
        self._standing = Standing(lower, Answer([], 1 << 62, ""))

    def run(self, exact: bool) -> PlanResult:
        stopped = "effort spent"
        try:
            stopped = self._search(exact)
        except KeyboardInterrupt:
            if not self._standing.best.method:
                raise
            stopped = "interrupted"
        if self._standing.closed:
            stopped = "optimal"
        return self._result(stopped)

    def _search(self, exact: bool) -> str:
        sections = self._sections
        large = sections.buffer_count > LARGE_BUFFERS and not sections.windows and max(sections.fixed) < 0
        if large:
            answers = large_answers(sections, self._seed, self._goal, self._late)
        else:
            conflicts = portfolio.conflicts_of(sections)
            portfolio.require_fixed_offsets(self._instance, sections, conflicts)
            answers = portfolio.answers(sections, conflicts, [b.hint for b in self._instance.buffers])
        self._stage = "portfolio"
        for k, answer in enumerate(answers):
            self._take(answer)
            if self._done():
                return "capacity reached"
            if self._late():
                return "time limit"
            if exact and not large and k + 1 == 2 * _FIRST_ORDERS and self._exact(self._early_nodes()):
                return "capacity reached"
        if not exact or large or self._entries() > _MAX_EXACT_ENTRIES:
            return "effort spent"
        return "capacity reached" if self._exact(None) else "time limit"

    def _exact(self, max_nodes: int | None) -> bool:
        """Search exactly; whether the goal was reached."""
        self._stage = "exact search"
        if not hasattr(self, "_searcher"):
            self._searcher = ExactSearch(
                self._sections,
                self._standing,
                self._goal,
                self._seed,
                self._late,
                self._report,
                self._pure_nodes(),
                self._may_compile,
            )
        self._searcher.run(max_nodes)
        return self._done()

    def _pure_nodes(self) -> int:
        """Nodes worth walking as plain Python: what takes about as long as loading compiled code does."""
        if not engine.numba_available():
            return 1 << 60
        if engine.kernel_loaded():
            return 0
        return min(_PURE_NODES, _PURE_WORK // max(1, self._entries()))

    def _entries(self) -> int:
        """Pairs of a buffer and a section in which it lives."""
        return sum(self._sections.upper) - sum(self._sections.lower)

    @staticmethod
    def _early_nodes() -> int:
        """Nodes of exact search before the rest of the portfolio: it is the quicker of the two on most instances."""
        return _EARLY_NODES if engine.numba_available() else _PURE_NODES

    def _may_compile(self) -> bool:
        left = self._deadline - time.perf_counter()
        return left > _COMPILE_S or (left > _LOAD_S and engine.compiled_before(engine.compiled_kernel()))

    def _late(self) -> bool:
        now = time.perf_counter()
        if self._on_progress is not None and now - self._told >= _TELL_EVERY_S and self._standing.best.method:
            self._tell()
        return now >= self._deadline

    def _done(self) -> bool:
        return self._standing.closed or self._standing.best.peak <= self._goal

    def _take(self, answer: Answer) -> None:
        if answer.peak < self._standing.best.peak:
            self._standing.best = answer
            self._report()

    def _report(self) -> None:
        self._log.append(self._tell())

    def _tell(self) -> Incumbent:
        unit = self._sections.unit_bytes
        self._told = time.perf_counter()
        seconds = self._told - self._began
        now = Incumbent(seconds, self._standing.best.peak * unit, self._standing.lower * unit, self._stage)
        if self._on_progress is not None:
            self._on_progress(now)
        return now

    def _result(self, stopped: str) -> PlanResult:
        standing, unit = self._standing, self._sections.unit_bytes
        placement = self._sections.placement(standing.best.offsets)
        bound = self._bound
        if standing.refuted:
            derivation = f"{bound.derivation}; above that, {standing.refuted}"
            bound = Bound(standing.lower * unit, "exhaustive search", derivation)
        faults = check(self._instance, placement.offsets, placement.peak_bytes)
        if faults:
            raise VerifyError(f"the planner produced a placement that its checker refuses (a defect): {faults[0]}")
        return PlanResult(
            instance=self._instance,
            placement=placement,
            bound=bound,
            seconds=time.perf_counter() - self._began,
            stopped_because=stopped,
            method=standing.best.method,
            progress=tuple(self._log),
        )
