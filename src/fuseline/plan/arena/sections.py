"""An instance as integers: time cut into sections, sizes divided by their common unit.

Idea: a moment matters only if a buffer starts after another has ended, since every other live set is part of a
neighbour's. A handful of *sections* stands for all of time; two buffers conflict exactly when they share one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from fuseline.plan.arena.types import Buffer, Instance, Placement


@dataclass(frozen=True)
class Sections:
    """The integer form of an instance; sizes, alignments and offsets are counted in units of ``unit_bytes``.

    Buffer ``i`` lives in the sections ``lower[i] .. upper[i] - 1``; where it has gaps, ``windows[i]`` lists
    ``(first section, section after the last, low, high)`` instead, the ranges of its own units in use. ``fixed[i]`` is
    -1 where the offset is free. ``times[s]`` is the moment at which the whole live set of section ``s`` is alive.
    """

    unit_bytes: int
    size: list[int]
    alignment: list[int]
    fixed: list[int]
    lower: list[int]
    upper: list[int]
    times: list[int]
    windows: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)

    @property
    def buffer_count(self) -> int:
        return len(self.size)

    @property
    def section_count(self) -> int:
        return len(self.times)

    @property
    def plain(self) -> bool:
        """No gaps, no alignments, no fixed offsets."""
        return not self.windows and all(a == 1 for a in self.alignment) and all(f < 0 for f in self.fixed)

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
        for i, size in enumerate(self.size):
            if i not in self.windows:
                change[self.lower[i]] += size
                change[self.upper[i]] -= size
        for pieces in self.windows.values():
            for a, b, low, high in pieces:
                change[a] += high - low
                change[b] -= high - low
        total, live = 0, []
        for delta in change[:-1]:
            total += delta
            live.append(total)
        return live

    def placement(self, offsets: list[int]) -> Placement:
        """``offsets`` in units as a placement in bytes."""
        peak = max((o + s for o, s in zip(offsets, self.size, strict=True)), default=0)
        return Placement(tuple(o * self.unit_bytes for o in offsets), peak * self.unit_bytes)


def cut(instance: Instance) -> Sections:
    """The integer form of ``instance``.

    The common unit loses nothing: in some least arena every buffer rests on the bottom, on another buffer, on a fixed
    offset or on its alignment, so all its offsets are multiples of a number that divides all of those.
    """
    buffers = instance.buffers
    unit = common_unit(buffers)
    lower, upper, times, windows = _cut_time(buffers)
    return Sections(
        unit_bytes=unit,
        size=[b.size // unit for b in buffers],
        alignment=[max(1, b.alignment // unit) for b in buffers],
        fixed=[-1 if b.offset is None else b.offset // unit for b in buffers],
        lower=lower,
        upper=upper,
        times=times,
        windows={i: [(a, b, low // unit, high // unit) for a, b, low, high in w] for i, w in windows.items()},
    )


def common_unit(buffers: tuple[Buffer, ...]) -> int:
    """The largest number of bytes in which all sizes, windows and fixed offsets, hence a least arena, can be
    counted.
    """
    unit = math.gcd(*(b.size for b in buffers), *(b.offset or 0 for b in buffers))
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
    pieces = [(i, piece) for i, b in enumerate(buffers) for piece in (b.pieces() if b.gaps else (b,))]
    # At equal times ends come before starts: lifetimes are half-open.
    events = sorted(
        [(piece.lower, 1, k) for k, (_, piece) in enumerate(pieces)]
        + [(piece.upper, 0, k) for k, (_, piece) in enumerate(pieces)]
    )
    first = [0] * len(pieces)
    last = [0] * len(pieces)
    times: list[int] = []
    ended = True
    for time, starts, k in events:
        if starts:
            if ended:
                times.append(time)
                ended = False
            times[-1] = time
            first[k] = len(times) - 1
        else:
            ended = True
            last[k] = len(times)
    lower = [len(times)] * len(buffers)
    upper = [0] * len(buffers)
    windows: _Windows = {}
    for k, (i, piece) in enumerate(pieces):
        lower[i] = min(lower[i], first[k])
        upper[i] = max(upper[i], last[k])
        if buffers[i].gaps:
            low, high = (0, piece.size) if isinstance(piece, Buffer) else (piece.low, piece.high)
            windows.setdefault(i, []).append((first[k], last[k], low, high))
    for i, b in enumerate(buffers):
        if b.gaps and i not in windows:  # gaps cover the whole lifetime: nothing is ever in use
            lower[i] = upper[i] = 0
            windows[i] = []
    return lower, upper, times, windows
