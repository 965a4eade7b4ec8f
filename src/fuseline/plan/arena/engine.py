"""The walk of ``walk_loops`` made ready to run: compiled by numba where it is installed, else as plain Python.

Both run the same text; only the memory differs (an int64 array, or a list whose integers also serve as whole bit rows).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuseline.plan.arena import walk_branching, walk_floors, walk_loops, walk_state
from fuseline.plan.arena.compiled import Loops
from fuseline.plan.arena.sections import Sections

_MAX_LEVELS = 8000
"""Decisions that may be under way at once."""
_MAX_TRAIL_WORDS = 4_000_000
"""Of 64 bits, which say what each decision depends on: 32 MB."""


WALK = Loops(
    (walk_state, walk_floors, walk_branching, walk_loops),
    ("propagate", "walk"),
    "from fuseline.plan.arena.engine import build; build()",
)


def build() -> None:
    """Compile the walk and keep it on disk."""

    def use() -> None:
        walk = Walk(Sections(1, [1, 1], [1, 1], [-1, -1], [0, 0], [1, 1], [0]), compiled=True)
        walk.restart([0, 1], 2)
        walk.run(10)

    WALK.compile_and_seal(use)


class _PlainLayout:
    """A `walk_state.Layout` for the interpreter, which reads slots in half the time that fields of a tuple take."""

    __slots__ = walk_state.Layout._fields

    def __init__(self, at: walk_state.Layout) -> None:
        for name, value in zip(at._fields, at, strict=True):
            setattr(self, name, value)


class Walk:
    """One depth-first walk that can be paused.

    ``restart`` begins again with an order of trial and a capacity in units, ``run`` goes on for some nodes. Buffers
    of no size are left out; ``buffers`` lists the others.
    """

    def __init__(self, sections: Sections, compiled: bool) -> None:
        self.sections = sections
        self.compiled = compiled
        self._loops: Any = WALK.functions if compiled else walk_loops
        spans = [[s for s, low, high in sections.spans(i) if low < high] for i in range(sections.buffer_count)]
        self.buffers = [i for i, inside in enumerate(spans) if inside]
        self._spans = [spans[i] for i in self.buffers]
        self._free = [
            sections.fixed[i] < 0 and sections.alignment[i] == 1 and i not in sections.windows for i in self.buffers
        ]
        self._any_spare = any(sections.spare)
        layout, tables, length = self._plan_memory()
        at: Any = layout if compiled else _PlainLayout(layout)
        self._at = at
        self._m: Any = np.zeros(length, dtype=np.int64) if compiled else [0] * length
        for start, values in tables:
            self._m[start : start + len(values)] = values
        self._fresh = self._m[: self._at.trail_section].copy()

    def _plan_memory(self) -> tuple[walk_state.Layout, list[tuple[int, list[int]]], int]:
        """The layout, its constant tables with their starts, and the number of integers in all."""
        s, n, count = self.sections, len(self.buffers), self.sections.section_count
        levels = min(_MAX_LEVELS, n + 2 * count + 64)
        bits = 64 if self.compiled else 1 << levels.bit_length()
        words = levels // bits + 1
        rows = min(levels * count, _MAX_TRAIL_WORDS // words) + count + n
        slots = min(levels * n, 400_000) + n + 1
        entries = sum(map(len, self._spans))
        flags = {
            "plain": int(all(self._free)),
            "contiguous": int(not s.windows),
            "any_fixed": int(any(s.fixed[i] >= 0 for i in self.buffers)),
        }
        sizes = dict.fromkeys(
            ("capacity", "level", "descending", "placed", "nodes", "section_trail", "buffer_trail", "stamp"), 1
        )
        sizes |= {"option_top": 1, "jumps": 1, "first": n + 1, "place": entries, "begin": count + 1, "member": entries}
        sizes |= {"entry": entries, "position": entries}
        sizes |= dict.fromkeys(("size", "spare", "alignment", "fixed", "shape", "rank", "turn", "twin"), n)
        sizes |= dict.fromkeys(("least", "offset", "buffer_stamp", "mark"), n)
        sizes |= dict.fromkeys(
            ("floor", "rest", "left", "ready", "above", "top", "section_stamp", "section_mark", "queue", "queued"),
            count,
        )
        sizes |= {"reason": count * words, "failure": words, "conflict": levels * words}
        sizes |= dict.fromkeys(("level_section", "level_floor", "level_choice"), levels)
        sizes |= dict.fromkeys(("level_next", "level_end", "level_sections", "level_buffers"), levels)
        sizes |= {"trail_section": rows, "trail_values": 6 * rows, "trail_reason": rows * words, "trail_buffer": rows}
        sizes |= {"trail_least": rows, "options": slots}
        starts: dict[str, int] = {}
        length = 0
        for name, size in sizes.items():
            starts[name] = length
            length += size
        at = walk_state.Layout(
            buffers=n,
            sections=count,
            levels=levels,
            bits=bits,
            words=words,
            trail_rows=rows,
            option_slots=slots,
            **flags,
            **starts,
        )
        return at, self._constants(at), length

    def _constants(self, at: walk_state.Layout) -> list[tuple[int, list[int]]]:
        s = self.sections
        shapes: dict[tuple[int, int], int] = {}
        shape = [
            shapes.setdefault((s.lower[i], s.upper[i]), len(shapes)) if free else -1
            for i, free in zip(self.buffers, self._free, strict=True)
        ]
        first, place = [0], []
        rest, count = [0] * at.sections, [0] * at.sections
        for i, inside in zip(self.buffers, self._spans, strict=True):
            place += inside
            first.append(len(place))
            for section in inside:
                rest[section] += s.size[i]
                count[section] += 1
        begin = [0]
        member: list[int] = []
        entry: list[int] = []
        position = [0] * len(place)
        entries: list[list[int]] = [[] for _ in range(at.sections)]
        for e, section in enumerate(place):
            entries[section].append(e)
        owner = [k for k, inside in enumerate(self._spans) for _ in inside]
        for inside in entries:
            for e in inside:
                position[e] = len(entry)
                entry.append(e)
                member.append(owner[e])
            begin.append(len(entry))
        return [
            (at.begin, begin),
            (at.member, member),
            (at.entry, entry),
            (at.position, position),
            (at.size, [s.size[i] for i in self.buffers]),
            (at.spare, [s.spare[i] for i in self.buffers]),
            (at.alignment, [s.alignment[i] for i in self.buffers]),
            (at.fixed, [s.fixed[i] for i in self.buffers]),
            (at.shape, shape),
            (at.first, first),
            (at.place, place),
            (at.least, [max(0, s.fixed[i]) for i in self.buffers]),
            (at.offset, [-1] * at.buffers),
            (at.rest, rest),
            (at.left, count),
            (at.top, [-1] * at.sections),
            (at.queue, list(range(at.sections))),
            (at.queued, [1] * at.sections),
            (at.stamp, [1]),
            (at.descending, [1]),
        ]

    def _order_tables(self, order: list[int]) -> tuple[list[int], list[int], list[int]]:
        """Each buffer's place in ``order``; its turn where it and others may change places, and the identical buffer
        just before it: what has more spare is never the worse one on top.
        """
        s = self.sections
        rank, turn, twin = [0] * len(order), [0] * len(order), [-1] * len(order)
        for position, k in enumerate(order):
            rank[k] = position
        if self._any_spare:
            order = sorted(order, key=lambda k: s.spare[self.buffers[k]])
        latest: dict[tuple[int, int, int], int] = {}
        for position, k in enumerate(order):
            turn[k] = position
            if self._free[k]:
                i = self.buffers[k]
                key = (s.lower[i], s.upper[i], s.size[i])
                twin[k] = latest.get(key, -1)
                latest[key] = k
        return rank, turn, twin

    def restart(self, order: list[int], capacity: int) -> int:
        """Begin again under ``capacity`` units, trying buffers (indices into ``buffers``) in ``order``: an outcome."""
        at, m = self._at, self._m
        m[: at.trail_section] = self._fresh
        rank, turn, twin = self._order_tables(order)
        m[at.rank : at.rank + at.buffers] = rank
        m[at.turn : at.turn + at.buffers] = turn
        m[at.twin : at.twin + at.buffers] = twin
        m[at.capacity] = capacity
        return walk_state.PAUSED if self._loops.propagate(m, at, at.sections) else walk_state.INFEASIBLE

    def run(self, nodes: int) -> int:
        """Go on for at most ``nodes`` more nodes: an outcome of ``walk_loops.walk``."""
        return int(self._loops.walk(self._m, self._at, self.nodes + nodes))

    @property
    def nodes(self) -> int:
        """Nodes since the last restart."""
        return int(self._m[self._at.nodes])

    def offsets(self) -> list[int]:
        """Offsets in units of all buffers after ``FOUND``."""
        result = [max(0, f) for f in self.sections.fixed]
        for k, i in enumerate(self.buffers):
            result[i] = int(self._m[self._at.offset + k])
        return result
