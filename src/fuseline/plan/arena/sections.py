"""An instance as integers: time cut into sections, sizes divided by their common unit and filled up to alignments.

Idea: a moment matters only if a buffer starts after another has ended, since every other live set is part of a
neighbour's. A handful of *sections* stands for all of time; two buffers conflict exactly when they share one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from fuseline.plan.arena.types import Buffer, Instance, Placement


@dataclass(frozen=True)
class Sections:
    """The integer form of an instance; sizes, alignments and offsets are counted in units of ``unit_bytes``.

    Buffer ``i`` lives in the sections ``lower[i] .. upper[i] - 1``; where it has gaps, ``windows[i]`` lists
    ``(first section, section after the last, low, high)`` instead, the ranges of its own units in use. ``fixed[i]`` is
    -1 where the offset is free. ``times[s]`` is the moment at which the whole live set of section ``s`` is alive.

    ``size[i]`` includes ``spare[i]`` units at its end that alignments keep all others from using. They need not lie
    inside the arena.
    """

    unit_bytes: int
    size: list[int]
    alignment: list[int]
    fixed: list[int]
    lower: list[int]
    upper: list[int]
    times: list[int]
    windows: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    spare: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.spare:
            object.__setattr__(self, "spare", [0] * len(self.size))

    @property
    def buffer_count(self) -> int:
        return len(self.size)

    @property
    def section_count(self) -> int:
        return len(self.times)

    def spans(self, i: int) -> list[tuple[int, int, int]]:
        """``(section, low, high)`` of buffer ``i`` in section order."""
        return [(s, low, high) for a, b, low, high in self.pieces(i) for s in range(a, b)]

    def pieces(self, i: int) -> list[tuple[int, int, int, int]]:
        """``(first section, section after the last, low, high)`` of buffer ``i`` in section order."""
        whole = (self.lower[i], self.upper[i], 0, self.size[i])
        return self.windows.get(i, [whole])

    @cached_property
    def live(self) -> list[int]:
        """Units alive in each section."""
        change = [0] * (self.section_count + 1)
        whole = self.size if not self.windows else [0 if i in self.windows else s for i, s in enumerate(self.size)]
        for size, lower, upper in zip(whole, self.lower, self.upper, strict=True):
            change[lower] += size
            change[upper] -= size
        for pieces in self.windows.values():
            for a, b, low, high in pieces:
                change[a] += high - low
                change[b] -= high - low
        return list(accumulate(change))[:-1]

    @cached_property
    def least(self) -> list[int]:
        """Units that each section needs in every arena: what is alive, without the spare end of one buffer, which may
        be the topmost.
        """
        if not any(self.spare):
            return self.live
        most = [0] * self.section_count
        # The largest first, each into the sections that none has reached: ``free`` points on over those that are.
        free = list(range(self.section_count + 1))
        for i in sorted(range(len(self.size)), key=lambda i: -self.spare[i]):
            s = self.lower[i]
            passed = []
            while True:
                while free[s] != s:
                    passed.append(s)
                    s = free[s]
                if s >= self.upper[i]:
                    break
                most[s] = self.spare[i]
                free[s] = s + 1
            for p in passed:
                free[p] = s
        return [live - spare for live, spare in zip(self.live, most, strict=True)]

    @cached_property
    def _steps(self) -> tuple[int, list[int]]:
        """A number that divides all offsets that matter, and how far ends of buffers may lie below its multiples."""
        step = math.gcd(*self.size, *(f for f in self.fixed if f > 0), *(a for a in self.alignment if a > 1)) or 1
        return step, sorted({spare % step for spare in self.spare}) or [0]

    def possible_peak(self, units: int) -> int:
        """The least number from ``units`` at which some buffer can end."""
        step, spares = self._steps
        if step == 1 or self.windows:
            return units
        return min(units + (-units - spare) % step for spare in spares)

    def peak_of(self, offsets: list[int]) -> int:
        """The end of the highest buffer, in units."""
        return max([o + s - spare for o, s, spare in zip(offsets, self.size, self.spare, strict=True)], default=0)

    def placement(self, offsets: list[int]) -> Placement:
        """``offsets`` in units as a placement in bytes."""
        unit = self.unit_bytes
        return Placement(tuple([o * unit for o in offsets]), self.peak_of(offsets) * unit)


def cut(instance: Instance) -> Sections:
    """The integer form of ``instance``.

    The common unit loses nothing: in some least arena every buffer rests on the bottom, on another buffer, on a fixed
    offset or on its alignment, so all its offsets are multiples of a number that divides all of those.
    """
    buffers = instance.buffers
    unit = common_unit(buffers)
    lower, upper, times, windows = _cut_time(buffers)
    size = [b.size // unit for b in buffers]
    alignment = [max(1, b.alignment // unit) for b in buffers]
    fixed = [-1 if b.offset is None else b.offset // unit for b in buffers]
    spare: list[int] = []
    if max(alignment, default=1) > 1 and not windows:
        spare = _spare(size, alignment, lower, upper, len(times))
        size = [s + extra for s, extra in zip(size, spare, strict=True)]
        step = math.gcd(*size, *(f for f in fixed if f > 0))
        if all(step % a == 0 for a in set(alignment)):  # whatever rests on something is aligned
            alignment = [1] * len(size)
    return Sections(
        unit_bytes=unit,
        size=size,
        alignment=alignment,
        fixed=fixed,
        lower=lower,
        upper=upper,
        times=times,
        windows={i: [(a, b, low // unit, high // unit) for a, b, low, high in w] for i, w in windows.items()},
        spare=spare,
    )


def _spare(size: list[int], alignment: list[int], lower: list[int], upper: list[int], sections: int) -> list[int]:
    """Units behind each buffer that no other can use: all offsets about it are multiples of a common divisor of its
    alignment and of those of the buffers alive with it.
    """
    common = [0] * len(size)
    for step in set(alignment):
        if len(set(alignment)) == 1:
            common = alignment
            break
        change = [0] * (sections + 1)
        for i, a in enumerate(alignment):
            if a == step and size[i]:
                change[lower[i]] += 1
                change[upper[i]] -= 1
        there = [0, *accumulate(int(count > 0) for count in accumulate(change))]
        for i, a in enumerate(alignment):
            if a == step or there[upper[i]] > there[lower[i]]:
                common[i] = math.gcd(common[i], step)
    return [-s % step for s, step in zip(size, common, strict=True)]


def common_unit(buffers: tuple[Buffer, ...]) -> int:
    """The largest number of bytes in which all sizes, windows and fixed offsets, hence a least arena, can be
    counted.
    """
    unit = math.gcd(*{b.size for b in buffers}, *{b.offset or 0 for b in buffers})
    for b in buffers:
        for gap in b.gaps:
            unit = math.gcd(unit, *(gap.window or ()))
    unit = unit or 1
    # An alignment counts in units where it is a multiple of the unit, and says nothing where it divides the unit. What
    # divided a larger unit need not divide a smaller one, so all are asked again until none objects.
    alignments = {b.alignment for b in buffers}
    while objecting := [a for a in alignments if unit % a and a % unit]:
        unit = math.gcd(unit, *objecting)
    return unit


_Windows = dict[int, list[tuple[int, int, int, int]]]


def _cut_time(buffers: tuple[Buffer, ...]) -> tuple[list[int], list[int], list[int], _Windows]:
    """First section and the one after the last of each buffer, the moments of the sections, and the windows."""
    gapped = {i: b.pieces() for i, b in enumerate(buffers) if b.gaps}
    plain = buffers if not gapped else [b for b in buffers if not b.gaps]
    pieces = [piece for pieces in gapped.values() for piece in pieces]
    starts = sorted({*(b.lower for b in plain), *(p.lower for p in pieces)})
    ends = sorted({*(b.upper for b in plain), *(p.upper for p in pieces)})
    first, last, times = _number_sections(starts, ends)
    if not gapped:
        return [first[b.lower] for b in buffers], [last[b.upper] for b in buffers], times, {}
    windows = {i: [(first[p.lower], last[p.upper], p.low, p.high) for p in pieces] for i, pieces in gapped.items()}
    lower, upper = [0] * len(buffers), [0] * len(buffers)
    for i, b in enumerate(buffers):
        if i not in windows:
            lower[i], upper[i] = first[b.lower], last[b.upper]
        elif windows[i]:  # else gaps cover the whole lifetime: nothing is ever in use
            lower[i], upper[i] = windows[i][0][0], windows[i][-1][1]
    return lower, upper, times, windows


def _number_sections(starts: Iterable[int], ends: list[int]) -> tuple[dict[int, int], dict[int, int], list[int]]:
    """For moments in order at which something starts or ends: the section of each start, the number of sections begun
    before each end, and the last start in each section.

    Ends come before starts at equal times, since lifetimes are half-open; the first start after an end begins a
    section.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    times: list[int] = []
    at, ended = 0, True
    for start in starts:
        while at < len(ends) and ends[at] <= start:
            last[ends[at]] = len(times)
            at += 1
            ended = True
        if ended:
            times.append(start)
            ended = False
        times[-1] = start
        first[start] = len(times) - 1
    for end in ends[at:]:
        last[end] = len(times)
    return first, last, times
