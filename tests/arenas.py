"""Instances and brute force for the tests of arena placement: what is valid and what is least, without the planner."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from fuseline.plan.arena.types import Buffer, Gap, Instance


def live_sum(buffers: tuple[Buffer, ...]) -> int:
    moments = {b.lower for b in buffers}
    return max((sum(b.size for b in buffers if b.lower <= t < b.upper) for t in moments), default=0)


def alive_bytes(instance: Instance, t: int) -> int:
    """The bytes in use at time ``t``."""
    alive = 0
    for b in instance.buffers:
        if b.lower <= t < b.upper:
            low, high = next(((g.window or (0, 0)) for g in b.gaps if g.lower <= t < g.upper), (0, b.size))
            alive += high - low
    return alive


def valid(instance: Instance, offsets: tuple[int, ...], peak: int) -> bool:
    """Byte by byte over all moments: no two buffers share a byte, everything is inside, aligned and where it was
    fixed.
    """
    for b, offset in zip(instance.buffers, offsets, strict=True):
        if offset < 0 or offset + b.size > peak or offset % b.alignment or b.offset not in (None, offset):
            return False
    for t in {t for b in instance.buffers for t in (b.lower, *(x for g in b.gaps for x in (g.lower, g.upper)))}:
        used: set[int] = set()
        for b, offset in zip(instance.buffers, offsets, strict=True):
            if not b.lower <= t < b.upper:
                continue
            window = next(((g.window or (0, 0)) for g in b.gaps if g.lower <= t < g.upper), (0, b.size))
            mine = set(range(offset + window[0], offset + window[1]))
            if used & mine:
                return False
            used |= mine
    return True


def fits(instance: Instance, capacity: int) -> bool:
    """Whether any placement exists, by keeping every reachable set of live (end, low, high) while time goes on."""
    states: set[tuple[tuple[int, int, int], ...]] = {()}
    for b in sorted(instance.buffers, key=lambda b: b.lower):
        following = set()
        for state in states:
            alive = tuple(x for x in state if x[0] > b.lower and b.size)
            for low in range(0, capacity - b.size + 1, b.alignment):
                if b.offset in (None, low) and all(low + b.size <= x[1] or x[2] <= low for x in alive):
                    mine = ((b.upper, low, low + b.size),) if b.size else state
                    following.add(tuple(sorted((*alive, *mine))))
        states = following
    return bool(states)


def least_peak(instance: Instance) -> int:
    """The least arena, by trying capacities upwards."""
    capacity = max(live_sum(instance.buffers), 0)
    while not fits(instance, capacity):
        capacity += 1
    return capacity


@st.composite
def instances(draw: st.DrawFn, most: int = 14, alignments: tuple[int, ...] = (1,), sizes: int = 12) -> Instance:
    count = draw(st.integers(1, most))
    buffers = []
    for i in range(count):
        lower = draw(st.integers(0, 9))
        buffers.append(
            Buffer(
                f"b{i}",
                lower,
                lower + draw(st.integers(1, 6)),
                draw(st.integers(0, sizes)),
                draw(st.sampled_from(alignments)),
            )
        )
    return Instance(tuple(buffers))


def never() -> bool:
    return False


def windowed(count: int = 40) -> Instance:
    rng = random.Random(4)
    buffers = []
    for i in range(count):
        lower, size = rng.randrange(20), rng.randint(1, 9)
        low = rng.randrange(size)
        window = rng.choice((None, (0, 1), (0, size), (low, rng.randint(low, size))))
        gaps = (Gap(lower + 2, lower + 4, window), Gap(lower + 6, lower + 7))
        buffers.append(Buffer(str(i), lower, lower + rng.randint(7, 12), size, gaps=gaps[: rng.randint(0, 2)]))
    return Instance(tuple(buffers))
