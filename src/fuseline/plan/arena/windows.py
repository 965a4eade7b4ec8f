"""Exhaustive search for few buffers with gaps in their lifetimes, which the walk over floors cannot refute.

Idea: given who lies above whom at each moment, the least offsets put every buffer on the bottom or directly on a range
in use of another one, rounded up to its alignment. So only offsets that such chains reach need to be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuseline.plan.arena.sections import Sections

MAX_BUFFERS = 24
"""With gaps every buffer has offsets on every other, so the search is for few."""
MAX_NODES, _MAX_OFFSETS = 4_000, 1_500
"""Nodes of a search, and offsets that it may have to try, all in plain Python."""
_ASK_EVERY = 8
"""Nodes, or offsets, between two looks at the clock."""

_Meeting = tuple[int, int, int, int]
"""``(low, high, other low, other high)``: what two buffers use at the same moment, from their own offsets."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``offsets`` in units where a placement was found; else ``complete`` says that there is none."""

    offsets: list[int] | None
    complete: bool


class WindowSearch:
    """Depth-first search over the offsets that matter, the buffer with the fewest left first."""

    def __init__(self, sections: Sections, stop: Callable[[], bool], max_nodes: int = MAX_NODES) -> None:
        self._sections = sections
        self._stop = stop
        self._max_nodes = max_nodes
        self.nodes = 0
        pieces = [[p for p in sections.pieces(i) if p[2] < p[3]] for i in range(sections.buffer_count)]
        self._meetings: list[dict[int, list[_Meeting]]] = [{} for _ in pieces]
        for i, mine in enumerate(pieces):
            for j, theirs in enumerate(pieces):
                found = {(p[2], p[3], q[2], q[3]) for p in mine for q in theirs if p[0] < q[1] and q[0] < p[1]}
                if i != j and found:
                    self._meetings[i][j] = sorted(found)

    def below(self, capacity: int) -> Outcome:
        """A placement within ``capacity`` units, or the proof that there is none, or neither where it took too long."""
        domains = self._offsets_that_matter(capacity)
        if domains is None:
            return Outcome(None, False)
        offsets: list[int] = [-1] * len(domains)
        # Each level: the domains, the buffer that it decides, and that buffer's offsets still to be tried.
        levels = [self._level(domains, offsets)]
        while levels:
            domains, i, rest = levels[-1]
            if i < 0:
                return Outcome(offsets, True)
            if not rest:
                offsets[i] = -1
                levels.pop()
                continue
            self.nodes += 1
            if self.nodes > self._max_nodes or (self.nodes % _ASK_EVERY == 0 and self._stop()):
                return Outcome(None, False)
            offsets[i] = rest.pop()
            narrowed = self._narrowed(domains, i, offsets)
            if narrowed is not None:
                levels.append(self._level(narrowed, offsets))
        return Outcome(None, True)

    @staticmethod
    def _level(domains: list[list[int]], offsets: list[int]) -> tuple[list[list[int]], int, list[int]]:
        i = min((k for k, offset in enumerate(offsets) if offset < 0), key=lambda k: len(domains[k]), default=-1)
        return domains, i, domains[i][::-1] if i >= 0 else []

    def _narrowed(self, domains: list[list[int]], i: int, offsets: list[int]) -> list[list[int]] | None:
        """The domains without what buffer ``i`` at its offset forbids; ``None`` where nothing is left of one."""
        narrowed = list(domains)
        at = offsets[i]
        for j, meetings in self._meetings[i].items():
            if offsets[j] < 0:
                narrowed[j] = [o for o in domains[j] if not _collide(at, o, meetings)]
                if not narrowed[j]:
                    return None
        return narrowed

    def _offsets_that_matter(self, capacity: int) -> list[list[int]] | None:
        """For each buffer the offsets that chains reach within ``capacity``; ``None`` where they are too many."""
        s = self._sections
        found: list[set[int]] = [{max(0, fixed)} for fixed in s.fixed]
        waiting = [(i, offset) for i, offsets in enumerate(found) for offset in offsets]
        count = 0
        while waiting:
            i, offset = waiting.pop()
            count += 1
            if count > _MAX_OFFSETS or (count % _ASK_EVERY == 0 and self._stop()):
                return None
            for j, meetings in self._meetings[i].items():
                if s.fixed[j] >= 0:
                    continue
                for _, high, other_low, _ in meetings:
                    on_top = -(-(offset + high - other_low) // s.alignment[j]) * s.alignment[j]
                    if on_top > 0 and on_top + s.size[j] <= capacity and on_top not in found[j]:
                        found[j].add(on_top)
                        waiting.append((j, on_top))
        return [sorted(o for o in offsets if o + size <= capacity) for offsets, size in zip(found, s.size, strict=True)]


def _collide(at: int, other: int, meetings: list[_Meeting]) -> bool:
    return any(
        at + low < other + other_high and other + other_low < at + high for low, high, other_low, other_high in meetings
    )
