"""Exact search by restarts: short walks with ever new orders of trial, under capacities between bound and best answer.

A walk that finds a placement lowers the best peak; one that exhausts its capacity raises the bound. Walk lengths follow
Luby's sequence (https://doi.org/10.1016/0020-0190(93)90029-9), so one bad order costs little and every length comes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from fuseline.plan.arena import walk_state
from fuseline.plan.arena.engine import Walk
from fuseline.plan.arena.findings import Ground, Method, Reason, Strategy
from fuseline.plan.arena.growing import Growth
from fuseline.plan.arena.portfolio import Answer
from fuseline.plan.arena.sections import Sections

NODES_A_BUFFER = 4
"""Of the shortest walk: a first dive takes a node a buffer, and a few times that leaves room to repair it."""
SLICE_NODES, PURE_SLICE_NODES = 4_000, 50
"""Nodes between two looks at the clock, compiled and as plain Python: some milliseconds."""
_SLICE_ENTRIES = 500_000
"""Nodes times entries between two looks of plain Python: a node may look at every entry."""
_PLAIN_RESTARTS = 12
"""Restarts at the bound itself before every other one tries a capacity above it."""
_GROW_AFTER = 60_000
"""Nodes of restarts after which an instance counts as hard and is filled part by part (decision 0021)."""
_GROWTH_NODES = 300_000
"""Nodes for one part."""
_GROWTH_FACTOR = 3
"""Nodes of growing for each one of restarts, from then on."""
_GROWTH_SHARES = (0.5, 0.5, 0.75)
"""Where between bound and best answer the capacity of a growth lies, in turn."""
_FRACTIONS = 5
"""Capacities above the bound are below the best answer by 1/2 to 1/2**5 of what lies between."""


def luby(k: int) -> int:
    """The ``k``-th term (from 1) of 1, 1, 2, 1, 1, 2, 4, …"""
    while True:
        length = k.bit_length()
        if (1 << length) - 1 == k:
            return 1 << (length - 1)
        k -= (1 << (length - 1)) - 1


@dataclass
class Standing:
    """What is known, in units: no arena is smaller than ``lower``; ``best`` exists. ``stacked`` and ``refuted`` say how
    ``lower`` was raised.
    """

    lower: int
    best: Answer
    stacked: Reason | None = None
    refuted: Reason | None = None

    @property
    def closed(self) -> bool:
        return self.best.peak <= self.lower


# Exponents of size and of lifetime in the key of an order.
_PLAIN_ORDERS = ((0.0, 1.0), (1.0, 0.0), (1.0, 1.0))
# Large buffers first serves more instances, a free mixture some others: every other order is of each kind.
_MIXTURES = (((0.5, 1.0), (0.0, 0.25)), ((0.0, 0.25, 0.5, 1.0), (0.0, 0.25, 0.5, 1.0)))


class Orders:
    """Orders of trial: three plain ones, then mixtures of size and lifetime with noise, from one seed."""

    def __init__(self, sections: Sections, buffers: list[int], seed: int) -> None:
        self._random = random.Random(seed)
        self._size = [math.log(sections.size[i]) for i in buffers]
        self._life = [math.log(max(1, sections.upper[i] - sections.lower[i])) for i in buffers]

    def order(self, k: int) -> list[int]:
        """The ``k``-th order (from 0): indices, the first to be tried first."""
        if k < len(_PLAIN_ORDERS):
            by_size, by_life, noise = *_PLAIN_ORDERS[k], 0.0
        else:
            sizes, lives = _MIXTURES[k % len(_MIXTURES)]
            by_size, by_life = self._random.choice(sizes), self._random.choice(lives)
            noise = self._random.choice((0.1, 0.3, 0.6))
        gauss = self._random.gauss
        key = [
            by_size * size + by_life * life + (noise * gauss(0.0, 1.0) if noise else 0.0)
            for size, life in zip(self._size, self._life, strict=True)
        ]
        return sorted(range(len(key)), key=lambda i: -key[i])


class ExactSearch:
    """The restarts. ``run`` goes on until ``standing`` is closed, the goal is reached or ``stop`` says so.

    The first ``pure_nodes`` nodes are walked as plain Python, which starts at once; then compiled, from the moment at
    which ``may_compile``, asked once a slice, says yes. ``stop`` is asked after every slice of some milliseconds;
    ``report`` is told when ``standing`` changed. The walk, hence the answer, depends only on the seed as long as
    nothing stops it.
    """

    def __init__(
        self,
        sections: Sections,
        standing: Standing,
        goal: int,
        seed: int,
        stop: Callable[[], bool],
        report: Callable[[], None],
        pure_nodes: int,
        may_compile: Callable[[], bool],
    ) -> None:
        self.standing = standing
        self._sections = sections
        self._goal = goal
        self._stop = stop
        self._report = report
        self._pure_nodes = pure_nodes
        self._may_compile = may_compile
        self._walk = Walk(sections, compiled=False)
        self._orders = Orders(sections, self._walk.buffers, seed)
        self._restarts = 0
        self._seed = seed
        self._growths = self._grown = 0
        self._base_nodes = max(200, NODES_A_BUFFER * len(self._walk.buffers))
        self.nodes = 0
        entries = sum(sections.upper) - sum(sections.lower)
        self._pure_slice = max(1, min(PURE_SLICE_NODES, _SLICE_ENTRIES // max(1, entries)))

    def run(self, max_nodes: int | None = None, strict: bool = False) -> bool:
        """Search; true where it ended by itself (closed, goal reached or ``max_nodes`` spent), false where it was
        stopped. A restart may go beyond ``max_nodes`` unless ``strict``.
        """
        while not self._done():
            if max_nodes is not None and self.nodes >= max_nodes:
                return True
            if not strict and self._growth_is_due():
                if not self._grow():
                    return False
                continue
            target = self._target()
            nodes = self._base_nodes * luby(self._restarts + 1)
            if strict and max_nodes is not None:
                nodes = min(nodes, max_nodes - self.nodes)
            outcome = self._attempt(target, nodes)
            if outcome is None:
                return False
        return True

    def _done(self) -> bool:
        return self.standing.closed or self.standing.best.peak <= self._goal

    def _target(self) -> int:
        """The capacity to try: the goal or bound on every other restart, else below the best peak by some fraction of
        what lies between.
        """
        floor = max(self.standing.lower, self._goal)
        top = self.standing.best.peak - 1
        if self._restarts < _PLAIN_RESTARTS or self._restarts % 2 == 0:
            return min(floor, top)
        return max(floor, top - ((top - floor) >> (1 + self._restarts % _FRACTIONS)))

    def _growth_is_due(self) -> bool:
        """Whether to search part by part now: where restarts alone have not done it, for more nodes than they take."""
        return self.nodes >= _GROW_AFTER and self._grown <= _GROWTH_FACTOR * self.nodes and not self._sections.windows

    def _grow(self) -> bool:
        """One search part by part, between bound and best answer; false where ``stop`` ended it."""
        floor, top = max(self.standing.lower, self._goal), self.standing.best.peak - 1
        share = _GROWTH_SHARES[self._growths // 2 % len(_GROWTH_SHARES)]
        capacity = min(top, floor + int(share * (top - floor)))
        growth = Growth(
            self._sections,
            capacity,
            self._seed + self._growths,
            self._walk.compiled,
            lambda part, buffers: Orders(part, buffers, self._seed + self._growths).order,
            lambda restart: self._base_nodes * luby(restart),
            _GROWTH_NODES,
            SLICE_NODES if self._walk.compiled else self._pure_slice,
            self._stop,
        )
        offsets = growth.search(backwards=self._growths % 2 == 1)
        self._growths += 1
        self._grown += max(1, growth.nodes)
        if offsets is not None:
            self.standing.best = Answer(offsets, self._sections.peak_of(offsets), Method(Strategy.GROWING_PARTS))
            self._report()
        return not growth.stopped

    def _attempt(self, capacity: int, nodes: int) -> int | None:
        """One restart under ``capacity``: its outcome, or ``None`` where ``stop`` ended it."""
        if self._stop():
            return None
        order = self._orders.order(self._restarts)
        self._restarts += 1
        walk = self._walk
        outcome = walk.restart(order, capacity)
        while outcome == walk_state.PAUSED and walk.nodes < nodes:
            if self._stop():
                return None
            if not walk.compiled and self.nodes + walk.nodes >= self._pure_nodes and self._may_compile():
                walk = self._walk = Walk(self._sections, compiled=True)
                outcome = walk.restart(order, capacity)
                continue
            size = SLICE_NODES if walk.compiled else self._pure_slice
            outcome = walk.run(min(size, nodes - walk.nodes))
        self.nodes += max(1, walk.nodes)
        if outcome == walk_state.FOUND:
            offsets = walk.offsets()
            self.standing.best = Answer(offsets, self._sections.peak_of(offsets), Method(Strategy.EXACT_SEARCH))
            self._report()
        elif outcome == walk_state.INFEASIBLE and not self._sections.windows and capacity >= self.standing.lower:
            self.standing.lower = self._sections.possible_peak(capacity + 1)
            self.standing.refuted = Reason(Ground.REFUTED, (("nodes", max(1, walk.nodes)),))
            self._report()
        return outcome
