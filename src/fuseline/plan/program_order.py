"""The arena of a greedy buffer plan: its in-place results are storages already, so nothing is left but to place them.

Used where program order needs the fewest bytes anyway; any other order is planned by `joint`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from fuseline.plan.arena.planner import plan_instance
from fuseline.plan.arena.types import Buffer, Instance, PlanResult, filled_up
from fuseline.plan.buffers import BufferPlan
from fuseline.plan.joint import BOUNDED_NODES, Stored


@dataclass(slots=True)
class _Storage:
    first: int
    upper: int
    size_bytes: int


@dataclass(frozen=True)
class ProgramOrderArena:
    """The arena, and the most bytes alive at once in it."""

    arena: PlanResult
    peak_bytes: int
    _plan: BufferPlan
    _storages: Sequence[_Storage]
    _storage_of: Sequence[int]
    """The storage of each value."""

    @cached_property
    def stored(self) -> tuple[Stored, ...]:
        """Where each value lies; values are positions in the order."""
        offsets = self.arena.placement.offsets
        steps = len(self._storage_of)
        newest: dict[int, int] = {}  # the value that a storage holds
        places = []
        for t, (a, storage) in enumerate(zip(self._plan.assignments, self._storage_of, strict=True)):
            upper = steps if a.last is None else a.last + 1
            over = newest.get(storage)
            first = self._storages[storage].first
            places.append(Stored(t, t, offsets[storage], t, upper, a.size_bytes, first, over))
            newest[storage] = t
        return tuple(places)


def arena_in_program_order(
    plan: BufferPlan, name_of: Callable[[int], str], alignment: int, name: str
) -> ProgramOrderArena:
    """Place the storages of ``plan``; ``name_of`` gives the name of a value by its position. The work is bounded."""
    steps = len(plan.assignments)
    storages: list[_Storage] = []
    storage_of: list[int] = []
    newest: dict[int, int] = {}  # the storage that a buffer is now
    for position, a in enumerate(plan.assignments):
        upper = steps if a.last is None else a.last + 1
        if a.in_place:
            index = newest[a.buffer]  # which ended here, with its last reader
            storages[index].upper = upper
        else:
            index = newest[a.buffer] = len(storages)
            storages.append(_Storage(position, upper, filled_up(a.size_bytes, alignment)))
        storage_of.append(index)
    buffers = tuple([Buffer(name_of(s.first), s.first, s.upper, s.size_bytes, alignment) for s in storages])
    arena = plan_instance(Instance(buffers, name), node_limit=BOUNDED_NODES)
    return ProgramOrderArena(arena, _most_alive(storages, steps), plan, storages, storage_of)


def _most_alive(storages: Sequence[_Storage], steps: int) -> int:
    change = [0] * (steps + 1)
    for s in storages:
        change[s.first] += s.size_bytes
        change[s.upper] -= s.size_bytes
    return max(accumulate(change), default=0)
