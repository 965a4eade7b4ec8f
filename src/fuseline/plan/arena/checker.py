"""An independent check of a placement. It shares no code with the planner: a sweep over time beside a sorted arena.

Every answer passes through here before anybody sees it, so a defect of the search cannot become a wrong plan.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from fuseline.plan.arena.types import Instance


def check(instance: Instance, offsets: tuple[int, ...], peak_bytes: int) -> list[str]:
    """Every way in which ``offsets`` breaks the instance or the claimed arena size; empty for a valid placement."""
    if len(offsets) != len(instance.buffers):
        return [f"{len(offsets)} offsets for {len(instance.buffers)} buffers"]
    faults: list[str] = []
    names: list[str] = []
    begins, ends, lows, highs = [], [], [], []
    for b, offset in zip(instance.buffers, offsets, strict=True):
        if offset < 0 or offset + b.size > peak_bytes:
            faults.append(f"{b.id}: [{offset}, {offset + b.size}) is outside the arena of {peak_bytes} bytes")
        if offset % b.alignment:
            faults.append(f"{b.id}: offset {offset} is not aligned to {b.alignment}")
        if b.offset is not None and b.offset != offset:
            faults.append(f"{b.id}: moved from its fixed offset {b.offset} to {offset}")
        holes = {gap.lower: gap.window or (0, 0) for gap in b.gaps}
        edges = [b.lower, b.upper]
        if b.gaps:
            edges = sorted({*edges, *(t for gap in b.gaps for t in (gap.lower, gap.upper))})
        for lower, upper in pairwise(edges):
            low, high = holes.get(lower, (0, b.size))
            if low < high:
                names.append(b.id)
                begins.append(lower)
                ends.append(upper)
                lows.append(offset + low)
                highs.append(offset + high)
    ending = sorted(range(len(names)), key=ends.__getitem__)
    ended = 0
    live: list[tuple[int, int, int]] = []
    for k in sorted(range(len(names)), key=begins.__getitem__):
        while ends[ending[ended]] <= begins[k]:
            j = ending[ended]
            ended += 1
            del live[bisect_left(live, (lows[j], highs[j], j))]
        entry = (lows[k], highs[k], k)
        at = bisect_left(live, entry)
        for low, high, j in live[max(0, at - 1) : at + 1]:
            if lows[k] < high and low < highs[k]:
                faults.append(f"{names[k]} and {names[j]} share bytes at t={begins[k]}")
        live.insert(at, entry)
    return faults
