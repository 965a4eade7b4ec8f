"""First fit without a table of conflicts, for many buffers with gaps or fixed offsets: memory grows with the number of
buffers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fuseline.plan.arena.findings import Method, Order, Strategy
from fuseline.plan.arena.portfolio import Answer
from fuseline.plan.arena.sections import Sections

_ASK_EVERY = 64
"""Buffers between two looks at the clock."""


def lean_answers(sections: Sections, stop: Callable[[], bool]) -> Iterator[Answer]:
    """First fit by size, by area and by lifetime; ends early where ``stop`` says so."""
    size = sections.size
    life = [b - a for a, b in zip(sections.lower, sections.upper, strict=True)]
    area = [a * b for a, b in zip(size, life, strict=True)]
    for name, key in ((Order.SIZE, size), (Order.AREA, area), (Order.LIFETIME, life)):
        order = sorted(range(len(size)), key=lambda i: (-key[i], i))
        offsets = first_fit(sections, order, stop)
        if offsets is None:
            return
        yield Answer(offsets, sections.peak_of(offsets), Method(Strategy.FIRST_FIT, name))


def first_fit(sections: Sections, order: list[int], stop: Callable[[], bool]) -> list[int] | None:
    """Offsets in units, fixed ones first; ``None`` where ``stop`` ended it."""
    pieces = [[p for p in sections.pieces(i) if p[0] < p[1] and p[2] < p[3]] for i in range(sections.buffer_count)]
    count = sum(map(len, pieces))
    lower, upper, start, end = (np.zeros(count, dtype=np.int64) for _ in range(4))
    placed = 0
    offsets = [max(0, f) for f in sections.fixed]
    fixed = [i for i in order if sections.fixed[i] >= 0]
    for k, i in enumerate([*fixed, *(i for i in order if sections.fixed[i] < 0)]):
        if k % _ASK_EVERY == 0 and stop():
            return None
        if sections.fixed[i] < 0:
            barred = []
            for a, b, low, high in pieces[i]:
                there = (lower[:placed] < b) & (upper[:placed] > a)
                barred.append((start[:placed][there] - high, end[:placed][there] - low))
            offsets[i] = _lowest(barred, sections.alignment[i])
        for a, b, low, high in pieces[i]:
            lower[placed], upper[placed] = a, b
            start[placed], end[placed] = offsets[i] + low, offsets[i] + high
            placed += 1
    return offsets


def _lowest(barred: list[tuple[np.ndarray, np.ndarray]], step: int) -> int:
    """The least multiple of ``step`` that lies strictly inside no ``(start, end)``."""
    if not barred:
        return 0
    starts = np.concatenate([a for a, _ in barred])
    ends = np.concatenate([b for _, b in barred])
    by_start = np.argsort(starts)
    # What is reached before each start; offsets from there up to the start are free.
    reached = np.concatenate([[0], np.maximum.accumulate(ends[by_start])])
    reached = (np.maximum(reached, 0) + step - 1) // step * step
    free = np.nonzero(reached[:-1] <= starts[by_start])[0]
    return int(reached[free[0]] if len(free) else reached[-1])
