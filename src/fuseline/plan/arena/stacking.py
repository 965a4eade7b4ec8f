"""How high the buffers of one moment stand one on the other at least, where alignments leave holes between them.

Idea: the lower a stack ends, the lower the next buffer can begin, so of each set of buffers only its lowest stack
matters. Sets are searched by the height that they lead to at least: their stack plus the sizes of all others.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

MAX_SETS = 4_000
"""Sets of stacked buffers that a search for the least stack may keep."""


def least_stack(buffers: Sequence[tuple[int, int]], max_sets: int) -> int:
    """The least height of a stack of ``(size, alignment)`` in any order, or a number below it where ``max_sets`` sets
    do not suffice to find it.
    """
    everything = (1 << len(buffers)) - 1
    total = sum(size for size, _ in buffers)
    # (height of all at least, -buffers stacked, set, height of the set)
    waiting = [(total, 0, 0, 0)]
    lowest = {0: 0}
    reached = total
    while waiting and len(lowest) <= max_sets:
        reached, count, members, height = heapq.heappop(waiting)
        if members == everything:
            return reached
        if lowest[members] < height:
            continue
        tried = set()
        for i, (size, alignment) in enumerate(buffers):
            if members >> i & 1 or (size, alignment) in tried:
                continue
            tried.add((size, alignment))
            start = -(-height // alignment) * alignment
            grown, top = members | 1 << i, start + size
            if lowest.get(grown, top + 1) > top:
                lowest[grown] = top
                heapq.heappush(waiting, (reached + start - height, count - 1, grown, top))
    return reached
