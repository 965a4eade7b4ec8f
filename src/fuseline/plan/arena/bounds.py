"""Lower bounds on the arena, each with its derivation in words.

The live bound is the largest sum of sizes alive at one moment. ``search`` may raise it by refuting capacities.
"""

from __future__ import annotations

from fuseline.errors import InfeasibleError
from fuseline.plan.arena.sections import Sections
from fuseline.plan.arena.types import Bound, Instance, named
from fuseline.units import format_bytes


def live_bound(instance: Instance, sections: Sections) -> Bound:
    """The largest live sum over time, or the largest extent that one buffer forces (its size or fixed end)."""
    if not instance.buffers:
        return Bound(0, "live sum", "there are no buffers")
    unit = sections.unit_bytes
    live = sections.live
    peak = max(live, default=0)
    ends = [f + s if f >= 0 else s for f, s in zip(sections.fixed, sections.size, strict=True)]
    widest = max(range(len(ends)), key=ends.__getitem__)
    if ends[widest] > peak:
        b = instance.buffers[widest]
        why = f"{b.size:,} bytes long" if b.offset is None else f"fixed at {b.offset:,} and {b.size:,} bytes long"
        return Bound(ends[widest] * unit, "one buffer", f"buffer {named(b.id)} alone is {why}")
    if not live:
        return Bound(0, "live sum", "no buffer ever uses a byte")
    at = live.index(peak)
    count = sum(any(a <= at < b for a, b, _, _ in sections.pieces(i)) for i in range(sections.buffer_count))
    return Bound(
        peak * unit,
        "live sum",
        f"at t={sections.times[at]} {format_bytes(peak * unit, binary=True)} are live "
        f"({count} buffer{'s' * (count != 1)}, {peak * unit:,} bytes)",
    )


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
