"""The arena of a greedy buffer plan: its in-place results are storages already, so nothing is left but to place them.

Used where program order needs the fewest bytes anyway; any other order is planned by `joint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fuseline.plan.arena.planner import plan_instance
from fuseline.plan.arena.types import Buffer, Instance, PlanResult
from fuseline.plan.buffers import BufferPlan
from fuseline.plan.joint import BOUNDED_NODES, Stored


@dataclass(frozen=True)
class ProgramOrderArena:
    """The arena, where each value lies in it (values are positions in the order), and the most bytes alive at once."""

    arena: PlanResult
    stored: tuple[Stored, ...]
    peak_bytes: int


@dataclass(slots=True)
class _Storage:
    first: int
    upper: int
    size_bytes: int


def arena_in_program_order(plan: BufferPlan, names: Sequence[str], alignment: int, name: str) -> ProgramOrderArena:
    """Place the storages of ``plan``; ``names`` are those of the values, by position. The work is bounded."""
    steps = len(plan.assignments)
    storages: list[_Storage] = []
    storage_of: list[int] = []
    over: list[int | None] = []
    newest: dict[int, int] = {}  # the value that a buffer holds
    for position, a in enumerate(plan.assignments):
        upper = steps if a.last is None else a.last + 1
        over.append(newest[a.buffer] if a.in_place else None)
        if a.in_place:
            storage_of.append(storage_of[newest[a.buffer]])
            storage = storages[storage_of[-1]]
            storage.upper = max(storage.upper, upper)
        else:
            storage_of.append(len(storages))
            storages.append(_Storage(position, upper, a.size_bytes))
        newest[a.buffer] = position
    buffers = tuple(
        [
            Buffer(names[s.first], s.first, s.upper, -(-s.size_bytes // alignment) * alignment, alignment)
            for s in storages
        ]
    )
    arena = plan_instance(Instance(buffers, name), node_limit=BOUNDED_NODES)
    offsets = arena.placement.offsets
    stored = tuple(
        [
            Stored(
                value=t,
                step=t,
                offset=offsets[storage_of[t]],
                lower=t,
                upper=steps if a.last is None else a.last + 1,
                size_bytes=a.size_bytes,
                buffer=storages[storage_of[t]].first,
                over=over[t],
            )
            for t, a in enumerate(plan.assignments)
        ]
    )
    return ProgramOrderArena(arena, stored, _most_alive(storages, steps))


def _most_alive(storages: Sequence[_Storage], steps: int) -> int:
    change = [0] * (steps + 1)
    for s in storages:
        change[s.first] += s.size_bytes
        change[s.upper] -= s.size_bytes
    return max(accumulate(change), default=0)
