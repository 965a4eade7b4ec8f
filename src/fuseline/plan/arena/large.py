"""Large instances: valley filling, again and again, with the buffers that stuck out moved up (squeaky-wheel
optimisation).

Joslin and Clements, https://doi.org/10.1613/jair.561. A buffer whose top lies above the target gets a larger key, so
that it finds its place earlier the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fuseline.plan.arena import valley
from fuseline.plan.arena.compiled import Loops
from fuseline.plan.arena.findings import Method, Order, Strategy
from fuseline.plan.arena.portfolio import Answer
from fuseline.plan.arena.sections import Sections

LARGE_BUFFERS = 4_000
"""Buffers from which on there is no exact search, whose conflicts and tables grow with their square."""
_PATIENCE = 80
"""Rounds without a better answer after which there will be none."""
_RESTART = 20
"""Rounds without a better answer after which the keys of the best one are taken up again."""
_PLAIN_STEPS, _COMPILED_STEPS = 500, 5_000
"""Buffers placed between two looks at the clock: some milliseconds."""
_PLAIN_ORDERS = (Order.AREA, Order.SIZE, Order.LIFETIME)

VALLEY = Loops(
    (valley,), ("fill",), "from fuseline.plan.arena.large import build; build()", instead=valley.COMPILED_INSTEAD
)


def build() -> None:
    """Compile valley filling and keep it on disk."""
    filling = Filling(Sections(1, [1, 1], [1, 1], [-1, -1], [0, 0], [1, 1], [0]))
    VALLEY.compile_and_seal(lambda: filling.fill(filling.plain_keys()[0], lambda: False, lambda: True))


class Filling:
    """Valley filling of one instance with keys of your choice."""

    def __init__(self, sections: Sections) -> None:
        count = sections.section_count
        self.lower = np.array(sections.lower, dtype=np.int64)
        self.upper = np.array(sections.upper, dtype=np.int64)
        self.size = np.array(sections.size, dtype=np.int64)
        self.spare = np.array(sections.spare, dtype=np.int64)
        self._alignment = np.array(sections.alignment, dtype=np.int64)
        self._by_start, self._start, self._alive = valley.tables(sections.lower, sections.upper, count)
        self._floor = np.zeros(count, dtype=np.int64)
        self._lowest = np.zeros((count + valley.BLOCK - 1) // valley.BLOCK, dtype=np.int64)

    def plain_keys(self) -> list[np.ndarray]:
        """Area, size and lifetime: the buffer with the largest is taken first."""
        life = (self.upper - self.lower).astype(float)
        return [self.size * life, self.size.astype(float), life]

    def fill(
        self, key: np.ndarray, stop: Callable[[], bool], compiled: Callable[[], bool]
    ) -> tuple[np.ndarray, int] | None:
        """Offsets and peak in units with the largest ``key`` first; ``None`` where ``stop`` ended it.

        ``compiled`` says, ever again, whether compiled code may be used; what is found does not depend on it.
        """
        offsets = np.full(len(self.lower), -1, dtype=np.int64)
        rest = self._alive.copy()
        progress = np.zeros(2, dtype=np.int64)
        valley.start_filling(rest, self._floor, self._lowest, offsets, progress)
        shape = (self.lower, self.upper, self.size, self._alignment, key, self._by_start, self._start)
        while progress[0]:
            if stop():
                return None
            loops, steps = (VALLEY.functions, _COMPILED_STEPS) if compiled() else (valley, _PLAIN_STEPS)
            loops.fill(*shape, self._floor, rest, self._lowest, offsets, progress, steps)
        return offsets, int((offsets + self.size - self.spare).max(initial=0))


def large_answers(
    sections: Sections, seed: int, target: int, stop: Callable[[], bool], compiled: Callable[[], bool]
) -> Iterator[Answer]:
    """Ever new answers, the first three without any noise; ends after ``_PATIENCE`` rounds without a better one.

    For instances without gaps and fixed offsets. ``target`` is the peak to reach, in units; ``compiled`` is that of
    `Filling.fill`.
    """
    filling = Filling(sections)
    rng = np.random.default_rng(seed % 2**64)
    plain = filling.plain_keys()
    best_peak, best_key, since = 1 << 62, plain[0], 0
    key = plain[0]
    for k in range(1_000_000):
        found = filling.fill(key, stop, compiled)
        if found is None:
            return
        offsets, peak = found
        method = Method(Strategy.VALLEY_FILLING, _PLAIN_ORDERS[k]) if k < len(plain) else Method(Strategy.SQUEAKY_WHEEL)
        yield Answer(offsets.tolist(), peak, method)
        if peak < best_peak:
            best_peak, best_key, since = peak, key, 0
        else:
            since += 1
        if stop() or since > _PATIENCE:
            return
        if k + 1 < len(plain):
            key = plain[k + 1]
            continue
        if k + 1 == len(plain) or (since and since % _RESTART == 0):
            key = best_key
        out = offsets + filling.size - filling.spare > target
        key = key.copy()
        key[out] *= rng.uniform(1.2, 3.0, size=int(out.sum()))
