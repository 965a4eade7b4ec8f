"""An independent check of a placement. It shares no code with the planner: a sweep over time beside a sorted arena.

Every answer passes through here before anybody sees it, so a defect of the search cannot become a wrong plan.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import pairwise

from fuseline.plan.arena.types import Instance


def check(instance: Instance, offsets: tuple[int, ...], peak_bytes: int) -> list[str]:
    """Every way in which ``offsets`` breaks the instance or the claimed arena size; empty for a valid placement."""
    if len(offsets) != len(instance.buffers):
        return [f"{len(offsets)} offsets for {len(instance.buffers)} buffers"]
    faults: list[str] = []
    events: list[tuple[int, int, int, int, str]] = []
    for b, offset in zip(instance.buffers, offsets, strict=True):
        if offset < 0 or offset + b.size > peak_bytes:
            faults.append(f"{b.id}: [{offset}, {offset + b.size}) is outside the arena of {peak_bytes} bytes")
        if offset % b.alignment:
            faults.append(f"{b.id}: offset {offset} is not aligned to {b.alignment}")
        if b.offset is not None and b.offset != offset:
            faults.append(f"{b.id}: moved from its fixed offset {b.offset} to {offset}")
        edges = [b.lower]
        holes = {}
        for gap in b.gaps:
            edges += [gap.lower, gap.upper]
            holes[gap.lower] = gap.window or (0, 0)
        edges = sorted({*edges, b.upper})
        for lower, upper in pairwise(edges):
            low, high = holes.get(lower, (0, b.size))
            if low < high:
                events.append((lower, 1, offset + low, offset + high, b.id))
                events.append((upper, 0, offset + low, offset + high, b.id))
    live: list[tuple[int, int, str]] = []
    for time, is_start, low, high, name in sorted(events):
        at = bisect_left(live, (low, high, name))
        if not is_start:
            del live[at]
            continue
        for low2, high2, name2 in live[max(0, at - 1) : at + 1]:
            if low < high2 and low2 < high:
                faults.append(f"{name} and {name2} share bytes at t={time}")
        insort(live, (low, high, name))
    return faults
