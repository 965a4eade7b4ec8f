"""Large instances: valley filling, again and again, with the buffers that stuck out moved up (squeaky-wheel
optimisation).

Joslin and Clements, https://doi.org/10.1613/jair.561. A buffer whose top lies above the target gets a larger key, so
that it finds its place earlier the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fuseline.plan.arena import engine, valley
from fuseline.plan.arena.portfolio import Answer
from fuseline.plan.arena.sections import Sections

LARGE_BUFFERS = 4_000
_PATIENCE = 80
_RESTART = 20


def large_answers(sections: Sections, seed: int, target: int, stop: Callable[[], bool]) -> Iterator[Answer]:
    """Ever new answers, the first without any noise; ends after ``_PATIENCE`` rounds without a better one.

    For instances without gaps and fixed offsets. ``target`` is the peak to reach, in units.
    """
    kernel = _kernel()
    lower = np.array(sections.lower, dtype=np.int64)
    upper = np.array(sections.upper, dtype=np.int64)
    size = np.array(sections.size, dtype=np.int64)
    alignment = np.array(sections.alignment, dtype=np.int64)
    count = sections.section_count
    by_start, start, alive = valley.tables(sections.lower, sections.upper, count)
    floor = np.zeros(count, dtype=np.int64)
    lowest = np.zeros((count + valley.BLOCK - 1) // valley.BLOCK, dtype=np.int64)
    rng = np.random.default_rng(seed)
    life = upper - lower
    plain = [(size * life).astype(float), size.astype(float), life.astype(float)]
    best_peak, best_key, since = 1 << 62, plain[0], 0
    key = plain[0]
    for k in range(1_000_000):
        offsets = np.full(len(lower), -1, dtype=np.int64)
        rest = alive.copy()
        peak = int(kernel.fill(lower, upper, size, alignment, key, by_start, start, floor, rest, lowest, offsets))
        yield Answer(offsets.tolist(), peak, "valley filling" if k < len(plain) else "valley filling, squeaky wheel")
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
        out = offsets + size > target
        key = key.copy()
        key[out] *= rng.uniform(1.2, 3.0, size=int(out.sum()))


def _kernel() -> Any:
    return engine.compile_module(valley, ("fill",), valley.COMPILED_INSTEAD) if engine.numba_available() else valley
