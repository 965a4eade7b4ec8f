"""Hard instances a part of time at a time: placements of ever longer parts, each search guided by the one before.

A part of time is quickly filled within a capacity that all of time resists. What was found for it orders the trials in
the next longer part: low buffers first, as *solution-guided* search does for schedules (Beck,
https://doi.org/10.1613/jair.2169). Nothing is fixed, so a part that was filled badly can still be filled otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from fuseline.plan.arena import walk_state
from fuseline.plan.arena.engine import Walk
from fuseline.plan.arena.sections import Sections

_SHARES = (0.7, 0.82, 0.93, 0.96, 0.98, 1.0)
"""Of all sections, the parts: steps get shorter as parts get harder."""
_NOISE = (0.0, 0.005, 0.02, 0.05)
"""Of the capacity: how far an order may stray from the offsets that guide it."""
_PLAIN_EVERY = 3
"""Every third restart is not guided, for parts whose beginning was filled badly."""

Order = Callable[[int], list[int]]


def part_of(sections: Sections, begin: int, end: int) -> Sections:
    """Sections ``[begin, end)`` alone; buffers that live elsewhere live nowhere. For instances without gaps."""
    return replace(
        sections,
        lower=[min(max(s, begin), end) - begin for s in sections.lower],
        upper=[min(max(s, begin), end) - begin for s in sections.upper],
        times=sections.times[begin:end],
    )


def parts(section_count: int, backwards: bool) -> list[tuple[int, int]]:
    """Ever longer parts of time from its beginning, or from its end."""
    lengths = sorted({max(1, round(share * section_count)) for share in _SHARES})
    return [(section_count - n, section_count) if backwards else (0, n) for n in lengths]


def guided(order: list[int], lows: list[int | None], capacity: int, rng: random.Random) -> list[int]:
    """An order of trial by offsets ``lows`` found earlier (``None``: none; those take their place in ``order``), with
    some noise.
    """
    noise = rng.choice(_NOISE) * capacity
    place = [0.0] * len(order)
    for position, i in enumerate(order):
        low = lows[i]
        there = position / len(order) * capacity if low is None else low
        place[i] = there + (noise * rng.gauss(0.0, 1.0) if noise else 0.0)
    return sorted(range(len(order)), key=place.__getitem__)


class Growth:
    """One attempt to fill all of time within ``capacity``, part by part.

    ``order_of`` gives, for a part and the buffers in its walk, the orders to begin with. ``lengths`` are the nodes of
    the walks, ``max_nodes`` those for one part; ``stop`` is asked after each ``slice_nodes``.
    """

    def __init__(
        self,
        sections: Sections,
        capacity: int,
        seed: int,
        compiled: bool,
        order_of: Callable[[Sections, list[int]], Order],
        lengths: Callable[[int], int],
        max_nodes: int,
        slice_nodes: int,
        stop: Callable[[], bool],
    ) -> None:
        self._sections = sections
        self._capacity = capacity
        self._random = random.Random(seed)
        self._compiled = compiled
        self._order_of = order_of
        self._lengths = lengths
        self._max_nodes = max_nodes
        self._slice_nodes = slice_nodes
        self._stop = stop
        self._lows: dict[int, int] = {}
        self.nodes = 0
        self.stopped = False

    def search(self, backwards: bool) -> list[int] | None:
        """Offsets of all buffers, or ``None`` where a part was not filled in time or cannot be filled."""
        offsets = None
        for begin, end in parts(self._sections.section_count, backwards):
            offsets = self._fill(part_of(self._sections, begin, end))
            if offsets is None:
                return None
        return offsets

    def _fill(self, part: Sections) -> list[int] | None:
        walk = Walk(part, self._compiled)
        orders = self._order_of(part, walk.buffers)
        lows = [self._lows.get(i) for i in walk.buffers]
        spent = 0
        restart = 0
        while spent < self._max_nodes:
            order = orders(restart)
            if self._lows and restart % _PLAIN_EVERY < _PLAIN_EVERY - 1:
                order = guided(order, lows, self._capacity, self._random)
            restart += 1
            outcome = walk.restart(order, self._capacity)
            length = self._lengths(restart)
            while outcome == walk_state.PAUSED and walk.nodes < length:
                if self._stop():
                    self.stopped = True
                    return None
                outcome = walk.run(min(self._slice_nodes, length - walk.nodes))
            spent += max(1, walk.nodes)
            self.nodes += max(1, walk.nodes)
            if outcome == walk_state.FOUND:
                offsets = walk.offsets()
                self._lows = {i: offsets[i] for i in walk.buffers}
                return offsets
            if outcome == walk_state.INFEASIBLE:
                return None
        return None
