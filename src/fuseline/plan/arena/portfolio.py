"""Quick answers: a portfolio of orders and ties, each placed by first fit or best fit, until one meets the bound.

An order sorts buffers; a fit puts each into the lowest or the tightest free range among the already placed buffers that
share a section with it. Nothing here is exact; neither fit dominates, and ties alone move results by some percent.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fuseline.plan.arena.dive import Dive
from fuseline.plan.arena.findings import Method, Order, Strategy
from fuseline.plan.arena.online import best_fit_in_time
from fuseline.plan.arena.sections import Sections

Conflicts = list[list[int]]

FEW_BUFFERS = 128
"""Up to so many are first placed by valleys and a short search, more by best fit in time."""
_ASK_EVERY = 32
"""Buffers between two looks at the clock."""

Stop = Callable[[], bool]


class OutOfTime(Exception):
    """Raised where ``stop`` says that the time is up, so that what is under way is dropped."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Answer:
    """Offsets and peak in units, and the method that found them."""

    offsets: list[int]
    peak: int
    method: Method


def conflicts_of(sections: Sections, stop: Stop = _never) -> Conflicts:
    """For each buffer the others that use some byte at the same moment.

    Raises:
        OutOfTime: ``stop`` said so.
    """
    n = sections.buffer_count
    result: Conflicts = [[] for _ in range(n)]
    if sections.windows:
        return _conflicts_of_windows(sections, result, stop)
    starting: list[list[int]] = [[] for _ in range(sections.section_count)]
    for i in range(n):
        if sections.size[i]:
            starting[sections.lower[i]].append(i)
    alive: list[int] = []
    upper = sections.upper
    for s, new in enumerate(starting):
        alive = [i for i in alive if upper[i] > s]
        for k, i in enumerate(new):
            if k % _ASK_EVERY == 0 and stop():
                raise OutOfTime
            for j in alive:
                result[j].append(i)
            result[i].extend(alive)
            alive.append(i)
    return result


def _conflicts_of_windows(sections: Sections, result: Conflicts, stop: Stop) -> Conflicts:
    starting: list[list[tuple[int, int]]] = [[] for _ in range(sections.section_count)]
    for i in range(sections.buffer_count):
        for first, end, low, high in sections.pieces(i):
            if low < high:
                starting[first].append((end, i))
    alive: list[tuple[int, int]] = []
    sets: list[set[int]] = [set() for _ in result]
    for s, new in enumerate(starting):
        alive = [piece for piece in alive if piece[0] > s]
        for k, (end, i) in enumerate(new):
            if k % _ASK_EVERY == 0 and stop():
                raise OutOfTime
            sets[i].update([j for _, j in alive])
            alive.append((end, i))
    for i, others in enumerate(sets):
        for j in others:
            result[i].append(j)
            if i not in sets[j]:
                result[j].append(i)
    for row in result:
        row.sort()
    return result


def place(sections: Sections, conflicts: Conflicts, order: list[int], best_fit: bool, stop: Stop = _never) -> list[int]:
    """Offsets in units when the buffers are placed in ``order``; those with a fixed offset come first.

    Best fit takes the tightest free range below some placed buffer and the open end of the arena only where there is
    none; first fit takes the lowest range.

    Raises:
        OutOfTime: ``stop`` said so.
    """
    size, alignment, windows = sections.size, sections.alignment, sections.windows
    offsets = [-1] * len(size)
    for i, offset in enumerate(sections.fixed):
        offsets[i] = offset
    pieces = [sections.pieces(i) for i in range(len(size))] if windows else []
    for k, i in enumerate(order):
        if k % _ASK_EVERY == 0 and stop():
            raise OutOfTime
        if offsets[i] >= 0:
            continue
        mine = size[i]
        # Offsets strictly between the two numbers of a pair would overlap a placed buffer.
        if windows:
            barred = sorted(
                pair for j in conflicts[i] if offsets[j] >= 0 for pair in _barred(pieces[i], pieces[j], offsets[j])
            )
        else:
            barred = sorted([(o - mine, o + size[j]) for j in conflicts[i] if (o := offsets[j]) >= 0])
        step = alignment[i]
        at = 0
        choice = -1
        slack = 0
        for start, end in barred:
            if start >= at:
                if not best_fit:
                    break
                if choice < 0 or start - at < slack:
                    choice, slack = at, start - at
            if end > at:
                at = end if step == 1 else -(-end // step) * step
        offsets[i] = at if choice < 0 else choice
    return offsets


_Pieces = list[tuple[int, int, int, int]]


def _barred(mine: _Pieces, theirs: _Pieces, offset: int) -> Iterator[tuple[int, int]]:
    """Between which offsets a buffer would overlap one at ``offset``, for each two pieces of them that meet in time."""
    a = b = 0
    while a < len(mine) and b < len(theirs):
        first, end, low, high = mine[a]
        other_first, other_end, other_low, other_high = theirs[b]
        if first < other_end and other_first < end and low < high and other_low < other_high:
            yield offset + other_low - high, offset + other_high - low
        if end <= other_end:
            a += 1
        else:
            b += 1


def reuse_whole(sections: Sections) -> list[int]:
    """Offsets in units when a buffer takes over a whole one that has ended, the smallest that is large enough, else new
    memory at the top. Needs no conflicts and little time, and is the least possible where all sizes are equal.

    All of it lies above what has a fixed offset; gaps in lifetimes are not made use of.
    """
    size, alignment, lower, upper = sections.size, sections.alignment, sections.lower, sections.upper
    offsets = [max(0, f) for f in sections.fixed]
    block = size[:]  # the bytes of which a buffer takes over
    free: dict[int, list[int]] = {}  # offsets by size of block, sorted
    sizes: list[int] = []  # of free blocks, sorted
    top = max((f + size[i] for i, f in enumerate(sections.fixed) if f >= 0), default=0)
    floating = [i for i, f in enumerate(sections.fixed) if f < 0 and lower[i] < upper[i]]
    ending = sorted(floating, key=upper.__getitem__)
    ended = 0
    for i in sorted(sorted(floating, key=size.__getitem__, reverse=True), key=lower.__getitem__):
        while upper[ending[ended]] <= lower[i]:
            j = ending[ended]
            ended += 1
            if not free.setdefault(block[j], []):
                insort(sizes, block[j])
            insort(free[block[j]], offsets[j])
        for at in range(bisect_left(sizes, size[i]), len(sizes)):
            there = free[sizes[at]]
            k = 0 if alignment[i] == 1 else next((k for k, o in enumerate(there) if o % alignment[i] == 0), -1)
            if k >= 0:
                block[i], offsets[i] = sizes[at], there.pop(k)
                if not there:
                    del sizes[at]
                break
        else:
            offsets[i] = -(-top // alignment[i]) * alignment[i]
            top = offsets[i] + size[i]
    return offsets


def fill_valleys(sections: Sections, order: list[int]) -> list[int]:
    """Offsets in units when the lowest valley of the skyline always takes the first buffer of ``order`` whose lifetime
    fits into it, and rises to its lower wall where none does. Quick where buffers are few.

    For instances without gaps and fixed offsets.
    """
    size, alignment, lower, upper = sections.size, sections.alignment, sections.lower, sections.upper
    left = [0] * sections.section_count
    for i in order:
        for s in range(lower[i], upper[i]):
            left[s] += 1
    done = 1 << 62
    floor = [0 if count else done for count in left]
    offsets = [0] * len(size)
    waiting = list(order)
    while waiting:
        level = min(floor)
        begin = floor.index(level)
        end = begin + 1
        while end < len(floor) and floor[end] == level:
            end += 1
        i = next((i for i in waiting if lower[i] >= begin and upper[i] <= end), -1)
        if i < 0:
            wall = min(floor[begin - 1] if begin else done, floor[end] if end < len(floor) else done)
            floor[begin:end] = [wall] * (end - begin)
            continue
        waiting.remove(i)
        offsets[i] = -(-level // alignment[i]) * alignment[i]
        top = offsets[i] + size[i]
        for s in range(lower[i], upper[i]):
            left[s] -= 1
            floor[s] = top if left[s] else done
    return offsets


def first_answers(sections: Sections, goal: Callable[[], int]) -> Iterator[Answer]:
    """The quickest answers: whole buffers reused; where buffers are many, best fit in time; where they are few, valleys
    filled and a short search for an arena of ``goal()`` units.
    """
    offsets = reuse_whole(sections)
    yield Answer(offsets, sections.peak_of(offsets), Method(Strategy.WHOLE_BUFFERS))
    if sections.windows or max(sections.fixed, default=-1) >= 0:
        return
    if sections.buffer_count > FEW_BUFFERS:
        for strategy in (Strategy.BEST_FIT_IN_TIME, Strategy.BEST_FIT_BACKWARDS):
            offsets = best_fit_in_time(sections, strategy is Strategy.BEST_FIT_BACKWARDS)
            yield Answer(offsets, sections.peak_of(offsets), Method(strategy))
        return
    size = sections.size
    life = [b - a for a, b in zip(sections.lower, sections.upper, strict=True)]
    area = [a * b for a, b in zip(size, life, strict=True)]
    for name, key in ((Order.AREA, area), (Order.LIFETIME, life), (Order.SIZE, size)):
        order = sorted(range(len(size)), key=key.__getitem__, reverse=True)
        offsets = fill_valleys(sections, order)
        yield Answer(offsets, sections.peak_of(offsets), Method(Strategy.VALLEY_FILLING, name))
        if name is Order.AREA:
            # Of twins the one with more spare at its end is never the worse one on top.
            order = sorted(range(len(size)), key=lambda i: (-life[i], sections.spare[i]))
            found = Dive(sections, conflicts_of(sections), goal()).search(order)
            if found is not None:
                yield Answer(found, sections.peak_of(found), Method(Strategy.SHORT_SEARCH))


Key = Callable[[int], Any]


def orders(
    sections: Sections, conflicts: Conflicts, hints: list[int | None] | None = None
) -> Iterator[tuple[Order, Key]]:
    """Named sort keys, the most often successful first."""
    size, lower, upper, live = sections.size, sections.lower, sections.upper, sections.live
    life = [b - a for a, b in zip(lower, upper, strict=True)]
    if hints is not None and any(h is not None for h in hints):
        yield Order.HINT, lambda i: (hints[i] is None, hints[i] or 0, -size[i])
    if max(sections.alignment, default=1) > 1:  # what can only lie in few places goes first, the rest between
        alignment = sections.alignment
        yield Order.ALIGNMENT, lambda i: (-alignment[i], -size[i], lower[i])
        yield Order.LIFETIME_ALIGNMENT, lambda i: (-life[i], -alignment[i], -size[i])
    yield Order.SIZE_LONG_FIRST, lambda i: (-size[i], -life[i], lower[i])
    yield Order.LIFETIME, lambda i: (-life[i], -size[i], lower[i])
    yield Order.AREA, lambda i: (-size[i] * life[i], -size[i], lower[i])
    yield Order.START, lambda i: (lower[i], -life[i], -size[i])
    # The fullest moment that a buffer sees: the tight spots are packed before anything limits them.
    fullest = [max(live[a:b], default=0) for a, b in zip(lower, upper, strict=True)]
    yield Order.BREADTH, lambda i: (-fullest[i], -size[i], lower[i])
    yield Order.BREADTH_LONG_FIRST, lambda i: (-fullest[i], -life[i], -size[i])
    weight = [size[i] + sum(size[j] for j in conflicts[i]) for i in range(len(size))]
    yield Order.CONFLICT_WEIGHT, lambda i: (-weight[i], -size[i])
    yield Order.CONFLICT_AREA, lambda i: (-weight[i] * size[i], -life[i])
    yield Order.SIZE_EARLY_FIRST, lambda i: (-size[i], lower[i], -life[i])
    yield Order.SIZE_SHORT_FIRST, lambda i: (-size[i], life[i], lower[i])
    yield Order.SIZE_LATE_FIRST, lambda i: (-size[i], -upper[i], -life[i])
    yield Order.LIFETIME_LATE_FIRST, lambda i: (-life[i], -upper[i], -size[i])
    yield Order.AREA_LONG_FIRST, lambda i: (-size[i] * life[i], -life[i], -lower[i])
    yield Order.END, lambda i: (-upper[i], -life[i], -size[i])


def answers(
    sections: Sections, conflicts: Conflicts, hints: list[int | None] | None = None, stop: Stop = _never
) -> Iterator[Answer]:
    """The answers of the portfolio one after the other; the caller stops at the bound, `OutOfTime` where ``stop`` says
    so.
    """
    buffers = list(range(sections.buffer_count))
    for name, key in orders(sections, conflicts, hints):
        order = sorted(buffers, key=key)
        for best in (False, True):
            offsets = place(sections, conflicts, order, best, stop)
            yield Answer(
                offsets, sections.peak_of(offsets), Method(Strategy.BEST_FIT if best else Strategy.FIRST_FIT, name)
            )
