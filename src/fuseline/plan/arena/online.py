"""Best fit in the order of time, as an allocator at run time does it, but with all sizes known: quick for any number of
buffers, and near the bound where lifetimes end about in the order in which they begin.

Free blocks are split and joined again; what is free at the top belongs to nobody. Backwards in time it is the same
problem and often another answer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from fuseline.plan.arena.sections import Sections


class _Free:
    """Free blocks between 0 and ``top``, none beside another."""

    def __init__(self) -> None:
        self.top = 0
        self._by_size: list[tuple[int, int]] = []  # (size, offset), sorted
        self._size: dict[int, int] = {}  # by offset
        self._begin: dict[int, int] = {}  # by end

    def take(self, size: int, alignment: int) -> int:
        """The offset of the smallest free block with room for ``size`` aligned units, else at the top."""
        by_size = self._by_size
        for k in range(bisect_left(by_size, (size, -1)), len(by_size)):
            block, begin = by_size[k]
            offset = begin if alignment == 1 else -(-begin // alignment) * alignment
            if offset + size <= begin + block:
                self._remove(begin)
                self._add(begin, offset)
                self._add(offset + size, begin + block)
                return offset
        offset = -(-self.top // alignment) * alignment
        self._add(self.top, offset)
        self.top = offset + size
        return offset

    def give_back(self, begin: int, end: int) -> None:
        """Join ``[begin, end)`` with what is free beside it."""
        if end in self._size:
            end += self._remove(end)
        if begin in self._begin:
            begin = self._begin[begin]
            self._remove(begin)
        if end == self.top:
            self.top = begin
        else:
            self._add(begin, end)

    def _add(self, begin: int, end: int) -> None:
        if begin < end:
            insort(self._by_size, (end - begin, begin))
            self._size[begin] = end - begin
            self._begin[end] = begin

    def _remove(self, begin: int) -> int:
        size = self._size.pop(begin)
        del self._begin[begin + size]
        del self._by_size[bisect_left(self._by_size, (size, begin))]
        return size


def best_fit_in_time(sections: Sections, backwards: bool = False) -> list[int]:
    """Offsets in units; of buffers that begin together the largest goes first. For instances without gaps and fixed
    offsets.
    """
    size, alignment = sections.size, sections.alignment
    begin, end = sections.lower, sections.upper
    if backwards:
        begin, end = [-b for b in end], [-a for a in begin]
    offsets = [0] * len(size)
    real = [i for i, units in enumerate(size) if units]
    ending: Iterator[int] = iter(sorted(real, key=end.__getitem__))
    first_to_end = next(ending, -1)
    free = _Free()
    for i in sorted(sorted(real, key=size.__getitem__, reverse=True), key=begin.__getitem__):
        while end[first_to_end] <= begin[i]:
            free.give_back(offsets[first_to_end], offsets[first_to_end] + size[first_to_end])
            first_to_end = next(ending)
        offsets[i] = free.take(size[i], alignment[i])
    return offsets
