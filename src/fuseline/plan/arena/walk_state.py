"""The memory of a walk: where each table lies in its one sequence of integers, and what all its parts do with them.

See ``walk_loops`` for the walk itself. Plain Python, and what numba compiles.
"""

from __future__ import annotations

from typing import Any, NamedTuple

INFINITE = 1 << 61

# Outcomes of ``walk``.
INFEASIBLE, FOUND, PAUSED, OVERFLOW = 0, 1, 2, 3


class Layout(NamedTuple):
    """Counts, and where each table starts in ``m``.

    ``plain`` instances have neither gaps, alignments nor fixed offsets; ``contiguous`` ones have no gaps.

    Read only, by buffer: ``size``, ``alignment``, ``fixed`` (-1: free), ``shape`` (number of its lifetime, -1 where
    order inferences do not apply), ``rank`` (place in the order of trial), ``twin`` (the identical buffer tried just
    before, or -1); ``first`` and ``place`` list its sections, ``begin`` and ``member`` the buffers of a section.

    Changed, by entry (a buffer in a section): the order of ``member``, those not placed first, ``entry`` and
    ``position`` beside it. By buffer: ``least`` (its smallest possible offset), ``offset`` (-1 while not placed). By
    section: ``floor``, ``rest`` (size left), ``left`` (buffers not placed), ``ready`` (buffers that could rest on the
    floor), ``above`` (the next level), ``top`` (last buffer placed), ``reason`` (a row of bits, the levels that
    explain all of these). By level: ``level_*``, ``conflict``.
    """

    buffers: int
    sections: int
    levels: int
    bits: int
    words: int
    trail_rows: int
    option_slots: int
    plain: int
    contiguous: int
    any_fixed: int
    capacity: int
    level: int
    descending: int
    placed: int
    nodes: int
    section_trail: int
    buffer_trail: int
    stamp: int
    option_top: int
    jumps: int
    size: int
    spare: int
    alignment: int
    fixed: int
    shape: int
    rank: int
    turn: int
    twin: int
    first: int
    place: int
    begin: int
    member: int
    entry: int
    position: int
    least: int
    offset: int
    buffer_stamp: int
    mark: int
    floor: int
    rest: int
    left: int
    ready: int
    above: int
    top: int
    section_stamp: int
    section_mark: int
    queue: int
    queued: int
    reason: int
    failure: int
    trail_section: int
    trail_values: int
    trail_reason: int
    trail_buffer: int
    trail_least: int
    level_section: int
    level_floor: int
    level_choice: int
    level_next: int
    level_end: int
    level_sections: int
    level_buffers: int
    conflict: int
    options: int


def aligned(value: int, step: int) -> int:
    """``value`` rounded up to a multiple of ``step``."""
    return value if step == 1 else (value + step - 1) // step * step


def highest_bit(word: int, bits: int) -> int:
    """The index of the highest bit of a non-zero word of ``bits`` bits (a power of two)."""
    if word < 0:
        return bits - 1
    index = 0
    half = bits // 2
    while half > 0:
        if word >> half:
            word = word >> half
            index += half
        half //= 2
    return index


def merge(m: Any, at: Layout, row: int, other: int) -> None:
    """Add the bit row at ``other`` to the one at ``row``."""
    for w in range(at.words):
        m[row + w] |= m[other + w]


def touch(m: Any, at: Layout, s: int) -> None:
    """Remember section ``s`` as it is, once a decision."""
    stamp = m[at.stamp]
    if m[at.section_stamp + s] == stamp:
        return
    m[at.section_stamp + s] = stamp
    k = m[at.section_trail]
    m[at.section_trail] = k + 1
    m[at.trail_section + k] = s
    values = at.trail_values + 6 * k
    m[values] = m[at.floor + s]
    m[values + 1] = m[at.rest + s]
    m[values + 2] = m[at.left + s]
    m[values + 3] = m[at.ready + s]
    m[values + 4] = m[at.above + s]
    m[values + 5] = m[at.top + s]
    words = at.words
    saved = at.trail_reason + k * words
    row = at.reason + s * words
    for w in range(words):
        m[saved + w] = m[row + w]
