"""A short search for few buffers, light enough for plain Python: it finds most small arenas in about a millisecond.

The way down is that of ``walk_loops`` (valley branching, raised floors, section check), but it returns to the last
decision only, explains nothing and so proves nothing. What it does not find soon is left to the exact search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fuseline.plan.arena.sections import Sections

_NODES_A_BUFFER, _MORE_NODES = 2.5, 8
"""Nodes of a dive: nearly all small arenas are filled within a node or two a buffer, or not at all."""
_DONE = 1 << 61
"""The floor of a section in which nothing is left to place, above every offset."""

Conflicts = Sequence[Sequence[int]]


class _State(NamedTuple):
    """By buffer ``least``, its smallest possible offset. By section ``floor``, the lowest offset at which something can
    still lie, ``room``, what the arena has more than the sizes left, ``ready``, the number of buffers that could lie on
    the floor, and ``members``, the buffers that are not placed, the first to be tried first.
    """

    least: list[int]
    floor: list[int]
    room: list[int]
    ready: list[int]
    members: list[list[int]]

    def copy(self) -> _State:
        return _State(self.least[:], self.floor[:], self.room[:], self.ready[:], self.members[:])


class _Level(NamedTuple):
    """A decision: the state before it, how many buffers were left, the section, and what is to be tried there, the last
    first (-1: no buffer lies on the floor).
    """

    state: _State
    left: int
    section: int
    alternatives: list[int]


class Dive:
    """The search under one capacity in units, for instances without gaps and fixed offsets."""

    def __init__(self, sections: Sections, conflicts: Conflicts, capacity: int) -> None:
        self._sections = sections
        self._conflicts = conflicts
        self._capacity = capacity
        self._spare = sections.spare if any(sections.spare) else None
        self._alignment = sections.alignment if max(sections.alignment, default=1) > 1 else None
        self.nodes = 0

    def search(self, order: list[int]) -> list[int] | None:
        """Offsets within the capacity with the buffers tried in ``order``, or ``None`` where none were found soon."""
        offsets = [0] * len(order)
        left = sum(map(bool, self._sections.size))
        last_node = self.nodes + int(_NODES_A_BUFFER * left) + _MORE_NODES
        state = self._start(order)
        levels: list[_Level] = []
        while left:
            levels.append(self._level(state, left))
            fits = False
            while not fits:
                while levels and not levels[-1].alternatives:
                    levels.pop()
                if not levels or self.nodes == last_node:
                    return None
                self.nodes += 1
                before, left, s, alternatives = levels[-1]
                i = alternatives.pop()
                state = before.copy() if alternatives else before
                if i < 0:
                    fits = self._lose(state, s)
                else:
                    left -= 1
                    offsets[i] = state.least[i]
                    fits = self._put(state, i)
        return offsets if self._sections.peak_of(offsets) <= self._capacity else None

    def _start(self, order: list[int]) -> _State:
        s = self._sections
        members: list[list[int]] = [[] for _ in range(s.section_count)]
        for i in order:
            if s.size[i]:
                for section in members[s.lower[i] : s.upper[i]]:
                    section.append(i)
        floor = [0 if inside else _DONE for inside in members]
        room = [self._capacity - live for live in s.live]
        return _State([0] * len(order), floor, room, list(map(len, members)), members)

    def _level(self, state: _State, left: int) -> _Level:
        """The decision in a valley's section with the fewest alternatives, then the least slack."""
        floor, ready, room = state.floor, state.ready, state.room
        best, fewest, tightest = -1, _DONE, 0
        sections = len(floor)
        wall, s = _DONE, 0
        while s < sections:
            level = floor[s]
            end = s + 1
            while end < sections and floor[end] == level:
                end += 1
            if level < wall and (end == sections or floor[end] > level):
                for q in range(s, end):
                    slack = room[q] - level
                    alternatives = ready[q] + (slack > 0)
                    if alternatives < fewest or (alternatives == fewest and slack < tightest):
                        best, fewest, tightest = q, alternatives, slack
                if fewest <= 1:
                    break
            wall, s = level, end
        return _Level(state, left, best, self._alternatives(state, best))

    def _alternatives(self, state: _State, s: int) -> list[int]:
        """The buffers that can lie on the floor of section ``s``, one of those that are alike, and where there is room
        none of them; the first to be tried last.
        """
        lower, upper = self._sections.lower, self._sections.upper
        size, alignment = self._sections.size, self._sections.alignment
        level, least = state.floor[s], state.least
        found: dict[tuple[int, int, int, int], int] = {}
        for i in state.members[s]:
            if least[i] == level:
                found.setdefault((lower[i], upper[i], size[i], alignment[i]), i)
        alternatives = [*found.values()]
        if state.room[s] > level:
            alternatives.append(-1)
        return alternatives[::-1]

    def _put(self, state: _State, i: int) -> bool:
        """Place buffer ``i`` as low as it can lie; whether everything can still fit."""
        least, floor, room, _, members = state
        lower, upper, size = self._sections.lower[i], self._sections.upper[i], self._sections.size[i]
        top = least[i] + size
        least[i] = _DONE
        for s in range(lower, upper):
            members[s] = [j for j in members[s] if j != i]
            room[s] += size
            floor[s] = top
        lifted = [j for j in self._conflicts[i] if least[j] < top]
        return self._lift(state, lifted, top, lower, upper)

    def _lose(self, state: _State, s: int) -> bool:
        """Leave the floor of section ``s`` empty up to where anything could rest; whether everything can still fit."""
        least, floor, members = state.least, state.floor, state.members[s]
        size, inside = self._sections.size, set(members)
        lowest = floor[s]
        # Who does not rest on this floor rests on a buffer outside of this section.
        level = min([least[j] for j in members if least[j] > lowest], default=_DONE)
        for i in members:
            if least[i] == lowest:
                for j in self._conflicts[i]:
                    if j not in inside and lowest + size[j] < level and self._is_left(state, j):
                        level = lowest + size[j]
        floor[s] = level
        lifted = [j for j in members if least[j] < level]
        return level < _DONE and self._lift(state, lifted, level, s, s + 1)

    def _is_left(self, state: _State, j: int) -> bool:
        return j in state.members[self._sections.lower[j]]

    def _lift(self, state: _State, lifted: list[int], level: int, begin: int, end: int) -> bool:
        """Bring up to date what follows from floors in ``[begin, end)`` that rose to ``level`` and lifted buffers;
        whether everything can still fit.
        """
        least, floor, room, ready, members = state
        lower, upper, spare = self._sections.lower, self._sections.upper, self._spare
        alignment = self._alignment
        for j in lifted:
            least[j] = level if alignment is None else -(-level // alignment[j]) * alignment[j]
            begin = min(begin, lower[j])
            end = max(end, upper[j])
        for s in range(begin, end):
            if floor[s] > level:
                continue
            offsets = [least[j] for j in members[s]]
            if not offsets:
                floor[s] = _DONE
                continue
            floor[s] = lowest = min(offsets)
            # The topmost buffer may stick out of the arena with its spare end.
            if lowest > room[s] and (spare is None or lowest > room[s] + max([spare[j] for j in members[s]])):
                return False
            ready[s] = offsets.count(lowest)
        return True
