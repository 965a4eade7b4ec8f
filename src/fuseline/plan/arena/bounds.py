"""Lower bounds on the arena, each with its derivation as data.

The live bound is the largest sum of sizes alive at one moment. Alignments may raise it, and search does by refuting
capacities.
"""

from __future__ import annotations

from fuseline.errors import InfeasibleError
from fuseline.plan.arena.findings import Bound, Ground, Reason
from fuseline.plan.arena.sections import Sections
from fuseline.plan.arena.stacking import least_stack
from fuseline.plan.arena.types import Instance
from fuseline.units import format_bytes

_MAX_STACKED = 40
_MAX_STACKS = 60


def live_bound(instance: Instance, sections: Sections) -> Bound:
    """The largest live sum over time, or the largest extent that one buffer forces (its size or fixed end)."""
    if not instance.buffers:
        return Bound(0, (Reason(Ground.NO_BUFFERS),))
    unit = sections.unit_bytes
    least = sections.least
    most = max(least, default=0)
    peak = sections.possible_peak(most)
    ends = [b.size if b.offset is None else b.offset + b.size for b in instance.buffers]
    widest = ends.index(max(ends))
    if ends[widest] > peak * unit:
        return Bound(ends[widest], (_of_one(instance, widest),))
    if not least:
        return Bound(0, (Reason(Ground.NO_BYTES),))
    s = least.index(most)
    filled = any(sections.spare[i] for i in range(sections.buffer_count) if sections.lower[i] <= s < sections.upper[i])
    return Bound(peak * unit, (_at(Ground.ALIGNED_SUM if filled else Ground.LIVE_SUM, sections, s, peak),))


def _of_one(instance: Instance, i: int) -> Reason:
    b = instance.buffers[i]
    if b.offset is None:
        return Reason(Ground.ONE_BUFFER, (("id", b.id), ("size_bytes", b.size)))
    return Reason(Ground.FIXED_BUFFER, (("id", b.id), ("offset_bytes", b.offset), ("size_bytes", b.size)))


def _at(ground: Ground, sections: Sections, s: int, units: int) -> Reason:
    count = sum(1 for a, b in zip(sections.lower, sections.upper, strict=True) if a <= s < b)
    if sections.windows:
        count = sum(any(a <= s < b for a, b, _, _ in sections.pieces(i)) for i in range(sections.buffer_count))
    size_bytes = units * sections.unit_bytes
    return Reason(ground, (("time", sections.times[s]), ("count", count), ("size_bytes", size_bytes)))


def stack_bound(sections: Sections, above: int, max_sets: int) -> tuple[int, Reason] | None:
    """The least height in units of the buffers of some moment, and why, where alignments lift it over ``above``.

    Moments with few buffers and without gaps only, the fullest first; ``None`` where nothing is gained. ``max_sets``
    is that of `least_stack`.
    """
    if max(sections.alignment, default=1) == 1 or sections.windows:
        return None
    best, where = above, -1
    alive: list[list[int]] = [[] for _ in range(sections.section_count)]
    for i in range(sections.buffer_count):
        if sections.size[i]:
            for s in range(sections.lower[i], sections.upper[i]):
                alive[s].append(i)
    for s in sorted(range(len(alive)), key=lambda s: -sections.live[s])[:_MAX_STACKS]:
        if len(alive[s]) > _MAX_STACKED:
            continue
        units = least_stack([(sections.size[i] - sections.spare[i], sections.alignment[i]) for i in alive[s]], max_sets)
        if units > best:
            best, where = units, s
    return (best, _at(Ground.STACK, sections, where, best)) if where >= 0 else None


def require_capacity(bound: Bound, capacity_bytes: int) -> None:
    """Raise where ``capacity_bytes`` is provably too small.

    Raises:
        InfeasibleError: the bound exceeds the capacity; the message says when and by what.
    """
    if bound.size_bytes > capacity_bytes:
        capacity = format_bytes(capacity_bytes, binary=True)
        raise InfeasibleError(
            f"infeasible: {bound.derivation}, but the capacity is {capacity} ({capacity_bytes:,} bytes)"
        )
