"""Filling an arena bottom-up, valley by valley: the greedy placement for tens of thousands of buffers.

The lowest valley of the skyline gets the buffer with the largest key among those whose whole lifetime fits into it;
where none fits, the valley is given up to its lower wall. Plain Python over NumPy arrays, and what numba compiles
where installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# What stands for an array operation in compiled code, where a loop is quicker.
COMPILED_INSTEAD = (("least_of", "least_of_compiled"), ("end_of", "end_of_compiled"), ("pick", "pick_compiled"))
BLOCK = 64
DONE = 1 << 60


def least_of(floor: Any, begin: int, end: int) -> Any:
    """The smallest of ``floor[begin:end]``."""
    return floor[begin:end].min()


def least_of_compiled(floor: Any, begin: int, end: int) -> Any:
    """`least_of` as a loop, for compiled code."""
    least = floor[begin]
    for s in range(begin + 1, min(end, len(floor))):
        if floor[s] < least:
            least = floor[s]
    return least


def refresh(floor: Any, lowest: Any, lower: int, upper: int) -> None:
    """Bring the minima of the blocks that ``[lower, upper)`` touches up to date."""
    for block in range(lower // BLOCK, (upper - 1) // BLOCK + 1):
        lowest[block] = least_of(floor, block * BLOCK, (block + 1) * BLOCK)


def end_of(floor: Any, begin: int, level: int) -> int:
    """The end of the run of sections from ``begin`` whose floor is ``level``."""
    other = floor[begin:] != level
    k = int(other.argmax())
    return begin + k if other[k] else len(floor)


def end_of_compiled(floor: Any, begin: int, level: int) -> int:
    """`end_of` as a loop, for compiled code."""
    end = begin + 1
    while end < len(floor) and floor[end] == level:
        end += 1
    return end


def pick(candidates: Any, offsets: Any, upper: Any, key: Any, end: int) -> int:
    """Of ``candidates``, not placed and over by ``end``, the first with the largest key; -1 where there is none."""
    fitting = candidates[(offsets[candidates] < 0) & (upper[candidates] <= end)]
    return int(fitting[key[fitting].argmax()]) if len(fitting) else -1


def pick_compiled(candidates: Any, offsets: Any, upper: Any, key: Any, end: int) -> int:
    """`pick` as a loop, for compiled code."""
    best = -1
    for i in candidates:
        if offsets[i] < 0 and upper[i] <= end and (best < 0 or key[i] > key[best]):
            best = i
    return best


def start_filling(rest: Any, floor: Any, lowest: Any, offsets: Any, progress: Any) -> None:
    """Make the tables that `fill` changes ready; ``rest`` holds the number of buffers alive in each section."""
    floor[:] = np.where(rest == 0, DONE, 0)
    refresh(floor, lowest, 0, len(rest))
    offsets[:] = -1
    progress[0], progress[1] = len(offsets), 0


def fill(
    lower: Any,
    upper: Any,
    size: Any,
    alignment: Any,
    key: Any,
    by_start: Any,
    start: Any,
    floor: Any,
    rest: Any,
    lowest: Any,
    offsets: Any,
    progress: Any,
    steps: int,
) -> None:
    """Go on for so many ``steps``, or until every buffer is placed. `start_filling` makes the tables ready.

    ``by_start`` lists the buffers by first section, ``start`` where each section's begin in it. ``rest`` counts the
    buffers of each section that are not placed, ``floor`` is the skyline, ``lowest`` its block minima, ``progress``
    the number of buffers left and the peak so far.
    """
    sections = len(rest)
    left, peak = progress[0], progress[1]
    while left > 0 and steps > 0:
        steps -= 1
        block = int(lowest.argmin())
        level = lowest[block]
        begin = block * BLOCK + int(floor[block * BLOCK : (block + 1) * BLOCK].argmin())
        end = end_of(floor, begin, level)
        i = pick(by_start[start[begin] : start[end]], offsets, upper, key, end)
        if i < 0:
            wall = floor[begin - 1] if begin > 0 else DONE
            if end < sections and floor[end] < wall:
                wall = floor[end]
            floor[begin:end] = wall
            refresh(floor, lowest, begin, end)
            continue
        at = (level + alignment[i] - 1) // alignment[i] * alignment[i]
        top = at + size[i]
        offsets[i] = at
        left -= 1
        if top > peak:
            peak = top
        rest[lower[i] : upper[i]] -= 1
        floor[lower[i] : upper[i]] = np.where(rest[lower[i] : upper[i]] == 0, DONE, top)
        refresh(floor, lowest, lower[i], upper[i])
    progress[0], progress[1] = left, peak


def tables(lower: list[int], upper: list[int], sections: int) -> tuple[Any, Any, Any]:
    """``by_start``, ``start`` and the number of buffers alive in each section."""
    begins = np.array(lower, dtype=np.int64)
    by_start = np.argsort(begins, kind="stable")
    start = np.searchsorted(begins[by_start], np.arange(sections + 1))
    change = np.zeros(sections + 1, dtype=np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, np.array(upper, dtype=np.int64), -1)
    return by_start, start, np.cumsum(change)[:-1]
