"""The one entry: an instance goes in, a checked placement with its proof comes out, at any time.

Bound first, then the portfolio until it meets the bound, then exact search until the proof, the time limit or Ctrl-C.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from fuseline.errors import InfeasibleError, PlanError, VerifyError
from fuseline.excerpts import printable
from fuseline.plan.arena import portfolio, stacking, windows
from fuseline.plan.arena.arguments import require_time_limit_s, whole_number
from fuseline.plan.arena.bounds import live_bound, require_capacity, stack_bound
from fuseline.plan.arena.checker import check
from fuseline.plan.arena.compiled import Compiling, compiling_allowed
from fuseline.plan.arena.engine import WALK
from fuseline.plan.arena.exact import ExactSearch, Standing
from fuseline.plan.arena.findings import Bound, Ground, Method, Reason, Strategy
from fuseline.plan.arena.large import LARGE_BUFFERS, VALLEY, large_answers
from fuseline.plan.arena.lean import lean_answers
from fuseline.plan.arena.portfolio import Answer
from fuseline.plan.arena.sections import cut
from fuseline.plan.arena.types import Incumbent, Instance, PlanResult

DEFAULT_TIME_LIMIT_S = 60.0
_BOUNDED_FILLINGS = 1
"""Fillings of a large arena where the work is bounded: each takes about a second for 100,000 buffers."""
_MAX_BOUNDED_FILLING = 20_000
"""Buffers from which on not even one is made then."""
_GOOD_ENOUGH = 1.01
"""A peak over the bound that a filling, where the work is bounded, is not tried to improve."""
_LARGE_WITH_GAPS = 1_500
"""Buffers, some with gaps, from which on the pairs that meet in time are too many to keep."""
_ANSWERS_BEFORE_SEARCH = 2
"""One order, by best fit and by first fit: an upper bound for the exact search, which comes next."""
_CHECK_SHARE = 1.8
"""Seconds that checking an answer takes, for each second that cutting time and the live bound took."""
_FIRST_STACKED_SETS = 200
"""Sets that a search for the least stack may keep before the first answers; `stacking.MAX_SETS` after them."""
_TELL_EVERY_S = 0.5
"""Seconds between two reports where nothing new was found."""
_PURE_NODES, _PURE_WORK = 1_000, 2_000_000
"""Nodes, and nodes times entries, that plain Python walks while compiled code would be loaded."""
_EARLY_NODES = 25_000
"""Nodes of compiled search before the other quick answers, which are slower on most instances."""
_MAX_EXACT_ENTRIES = 2_000_000
"""Pairs of a buffer and a section in which it lives: more are too many for the exact search's tables."""

Progress = Callable[[Incumbent], None]


def plan_instance(
    instance: Instance,
    *,
    capacity_bytes: int | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    seed: int = 0,
    exact: bool = True,
    node_limit: int | None = None,
    on_progress: Progress | None = None,
) -> PlanResult:
    """Place the buffers of ``instance`` in one arena.

    ``capacity_bytes`` stops the search as soon as an answer fits; without it the search goes on to the least arena.
    ``exact=False`` ends after the portfolio; with ``node_limit`` exact search ends after so many nodes and nothing is
    compiled, so that the work is bounded. The answer depends only on the arguments unless the time limit or Ctrl-C
    (which gives the best answer so far) ends the search. ``on_progress`` is called when the best peak or the bound
    moves.

    Raises:
        InfeasibleError: the capacity is below the bound or was refuted by search, or fixed offsets collide.
        PlanError: the time limit is not positive, or an argument is of a wrong type.
    """
    return _Planning(instance, capacity_bytes, time_limit_s, seed, on_progress).run(exact, node_limit)


class _Planning:
    """One planning: its clock, its standing and who is told."""

    def __init__(
        self, instance: Instance, capacity: int | None, time_limit_s: float, seed: int, on_progress: Progress | None
    ) -> None:
        time_limit_s = require_time_limit_s(time_limit_s)
        seed = whole_number(seed, "the seed")
        capacity = None if capacity is None else whole_number(capacity, "a capacity")
        if on_progress is not None and not callable(on_progress):
            raise PlanError("on_progress must be a function that takes an Incumbent")
        self._began = self._told = time.perf_counter()
        self._deadline = self._began + time_limit_s
        self._instance = instance
        self._seed = seed
        self._on_progress = on_progress
        self._stage = "bound"
        self._bounded = False
        self._log: list[Incumbent] = []
        self._sections = cut(instance)
        self._bound = live_bound(instance, self._sections)
        if capacity is not None:
            require_capacity(self._bound, capacity)
        # The check of the answer takes about as long as this did, and is within the limit.
        self._deadline -= _CHECK_SHARE * (time.perf_counter() - self._began)
        unit = self._sections.unit_bytes
        lower = self._bound.size_bytes // unit
        self._goal = lower if capacity is None else max(lower, capacity // unit)
        self._capacity = capacity
        self._standing = Standing(lower, Answer([], 1 << 62, Method()))
        self._searcher: ExactSearch | None = None
        self._compiling = Compiling(False, self._left, self._fill_reserve)
        self._answers: Iterator[Answer] = iter(())
        self._reserve: deque[Answer] = deque()

    def run(self, exact: bool, node_limit: int | None) -> PlanResult:
        stopped = "effort spent"
        try:
            stopped = self._search(exact, node_limit)
        except portfolio.OutOfTime:
            stopped = "time limit"
        except KeyboardInterrupt:
            if not self._standing.best.method:
                raise
            stopped = "interrupted"
            self._compiling.end()
        if self._standing.closed:
            stopped = "optimal"
        elif stopped in ("time limit", "interrupted"):
            for answer in self._reserve:
                self._take(answer)
        return self._result(stopped)

    def _search(self, exact: bool, node_limit: int | None) -> str:
        sections = self._sections
        plain = not sections.windows and max(sections.fixed, default=-1) < 0
        large = sections.buffer_count > (_LARGE_WITH_GAPS if sections.windows else LARGE_BUFFERS)
        self._bounded = node_limit is not None
        self._compiling = Compiling(not self._bounded, self._left, self._fill_reserve)
        self._stage = "portfolio"
        if not plain:
            self._require_fixed_offsets()
        for first in portfolio.first_answers(sections, self._raised_goal):
            self._take(first)
            if self._done():
                return "capacity reached"
        if self._late():
            return "time limit"
        if not large:
            self._raise_by_stacks(stacking.MAX_SETS)
            if self._done():
                return "capacity reached"
        if large and self._bounded and self._is_slow_to_fill():
            return "effort spent"
        if large and plain:
            compiled = partial(self._compiling.may_use, VALLEY)
            self._answers = large_answers(sections, self._seed, self._goal, self._late, compiled)
        elif large:
            self._answers = lean_answers(sections, self._late)
        else:
            conflicts = portfolio.conflicts_of(sections, self._late)
            hints = [b.hint for b in self._instance.buffers]
            self._answers = portfolio.answers(sections, conflicts, hints, self._late)
        for k in count():
            answer = self._next_answer()
            if answer is None:
                break
            self._take(answer)
            if self._done():
                return "capacity reached"
            if self._late():
                return "time limit"
            if large and node_limit is not None and k + 1 == _BOUNDED_FILLINGS:
                return "effort spent"
            if exact and k + 1 == _ANSWERS_BEFORE_SEARCH and sections.windows and self._exhaust_windows():
                return "capacity reached"
            early = self._early_nodes() if node_limit is None else node_limit
            if exact and not large and k + 1 == _ANSWERS_BEFORE_SEARCH and self._exact(early):
                return "capacity reached"
        if self._late():
            return "time limit"
        if not exact or large or node_limit is not None or self._entries() > _MAX_EXACT_ENTRIES:
            return "effort spent"
        return "capacity reached" if self._exact(None) else "time limit"

    def _is_slow_to_fill(self) -> bool:
        """Whether filling an arena once is more work than the little that it could gain, or than is to be done."""
        gain = self._standing.best.peak > _GOOD_ENOUGH * self._standing.lower
        return not gain or self._sections.buffer_count > _MAX_BOUNDED_FILLING

    def _require_fixed_offsets(self) -> None:
        """Raise where buffers with fixed offsets share bytes.

        Raises:
            InfeasibleError: no placement exists; the message names both buffers.
        """
        fixed = [b for b in self._instance.buffers if b.offset is not None]
        offsets = tuple(b.offset or 0 for b in fixed)
        top = max((offset + b.size for b, offset in zip(fixed, offsets, strict=True)), default=0)
        for fault in check(Instance(tuple(fixed)), offsets, top):
            raise InfeasibleError(f"infeasible fixed offsets: {printable(fault)}")

    def _raised_goal(self) -> int:
        """The peak to reach, in units, once the bound knows what alignments cost."""
        self._raise_by_stacks(_FIRST_STACKED_SETS)
        return max(self._goal, self._standing.lower)

    def _raise_by_stacks(self, max_sets: int) -> None:
        """Raise the bound where alignments leave holes in every stack."""
        found = stack_bound(self._sections, self._standing.lower, max_sets)
        if found is not None:
            self._standing.lower, self._standing.stacked = self._sections.possible_peak(found[0]), found[1]
            self._report()

    def _next_answer(self) -> Answer | None:
        return self._reserve.popleft() if self._reserve else next(self._answers, None)

    def _exact(self, max_nodes: int | None) -> bool:
        """Search exactly; whether the goal was reached."""
        if self._entries() > _MAX_EXACT_ENTRIES:
            return False
        self._stage = "exact search"
        if self._searcher is None:
            self._searcher = ExactSearch(
                self._sections,
                self._standing,
                self._goal,
                self._seed,
                self._late,
                self._report,
                self._pure_nodes(),
                partial(self._compiling.may_use, WALK),
            )
        self._searcher.run(max_nodes, strict=self._bounded)
        return self._done()

    def _exhaust_windows(self) -> bool:
        """Few buffers with gaps: try all that matters while that is quick; whether the goal is reached."""
        if self._sections.buffer_count > windows.MAX_BUFFERS:
            return False
        standing = self._standing
        search = windows.WindowSearch(self._sections, self._late)
        while not self._done():
            outcome = search.below(standing.best.peak - 1)
            if outcome.offsets is not None:
                self._take(
                    Answer(outcome.offsets, self._sections.peak_of(outcome.offsets), Method(Strategy.ALL_OFFSETS))
                )
            elif outcome.complete:
                standing.lower = standing.best.peak
                standing.refuted = Reason(Ground.REFUTED, (("nodes", search.nodes),))
                self._report()
            else:
                return False
        return True

    def _pure_nodes(self) -> int:
        """Nodes worth walking as plain Python: what takes about as long as loading compiled code does."""
        if not self._compiling.allowed:
            return 1 << 60
        if WALK.loaded:
            return 0
        return min(_PURE_NODES, _PURE_WORK // max(1, self._entries()))

    def _entries(self) -> int:
        """Pairs of a buffer and a section in which it lives."""
        return sum(self._sections.upper) - sum(self._sections.lower)

    @staticmethod
    def _early_nodes() -> int:
        """Nodes of exact search before the rest of the portfolio: it is the quicker of the two on most instances."""
        return _EARLY_NODES if compiling_allowed() else _PURE_NODES

    def _fill_reserve(self) -> None:
        """Find the remaining quick answers before a slow search; they change nothing unless the time ends."""
        while self._stage == "exact search" and not self._late():
            answer = next(self._answers, None)
            if answer is None:
                return
            self._reserve.append(answer)

    def _left(self) -> float:
        return self._deadline - time.perf_counter()

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
        if self._capacity is not None and self._standing.lower > self._goal:
            bound = self._bound_now()
            raise InfeasibleError(f"infeasible: {bound.derivation}; the capacity is {self._capacity:,} bytes")

    def _tell(self) -> Incumbent:
        unit = self._sections.unit_bytes
        self._told = time.perf_counter()
        seconds = self._told - self._began
        now = Incumbent(seconds, self._standing.best.peak * unit, self._standing.lower * unit, self._stage)
        if self._on_progress is not None:
            self._on_progress(now)
        return now

    def _bound_now(self) -> Bound:
        """The bound with what has raised it since."""
        standing, bound = self._standing, self._bound
        if standing.stacked is None and standing.refuted is None:
            return bound
        raised = tuple(reason for reason in (standing.stacked, standing.refuted) if reason is not None)
        return Bound(standing.lower * self._sections.unit_bytes, (*bound.reasons, *raised))

    def _result(self, stopped: str) -> PlanResult:
        placement = self._sections.placement(self._standing.best.offsets)
        bound = self._bound_now()
        faults = check(self._instance, placement.offsets, placement.peak_bytes)
        if faults:
            fault = printable(faults[0])
            raise VerifyError(f"the planner produced a placement that its checker refuses (a defect): {fault}")
        return PlanResult(
            instance=self._instance,
            placement=placement,
            bound=bound,
            seconds=time.perf_counter() - self._began,
            stopped_because=stopped,
            method=self._standing.best.method,
            progress=tuple(self._log),
        )
