"""The exact search: one depth-first walk over ways to fill an arena bottom-up, under a given capacity.

The text of this module and of the ``walk_`` ones is plain Python and also what numba compiles (``engine`` chooses).
Everything a walk reads and changes lies in one sequence of integers ``m``, an int64 array or a list, at the starts that
the ``Layout`` ``at`` names: so calls stay cheap when compiled and nothing is allocated. A walk can stop and go on at
any node.

The named inferences:

* *Bottom-up order.* Some solution with the least sum of offsets exists; in it every buffer rests on something. So a
  partial solution may be grown by whole heaps: each section has a ``floor``, everything not yet placed lies above it.
* *Valley branching.* Only in a *valley* (sections whose neighbours' floors are all higher) can the next buffer be put
  down without leaving a hole that a later one could fill; there, either one of the buffers that fit the valley floor is
  placed, or the floor is lost up to the next level at which anything could rest (*waste*). Among all valleys the
  section with the fewest alternatives is taken, a lone alternative at once.
* *Support.* What would hang in the air, after its valley's floor was lost, is not placed there.
* *Raised floors.* No floor is lower than the least offset still possible for any buffer of the section.
* *Section check.* floor + what is left must fit; so must the second level + what cannot lie below it.
* *Twins.* Of identical buffers, and of two with equal lifetimes one on the other, the one tried first is below (the
  least sum may weigh offsets so that any such order is the better one).
* *Conflict-directed backjumping.* Every floor knows the decisions that raised it. When all alternatives fail, the walk
  returns to the last decision that any failure depended on; parts of time that do not touch each other fall apart by
  themselves, which makes an explicit decomposition at cut points unnecessary.
"""

from __future__ import annotations

from typing import Any

from fuseline.plan.arena.walk_branching import branch, choose, choose_lowest, waste_level
from fuseline.plan.arena.walk_floors import explain_level, propagate
from fuseline.plan.arena.walk_state import (
    FOUND,
    INFEASIBLE,
    INFINITE,
    OVERFLOW,
    PAUSED,
    Layout,
    highest_bit,
    merge,
    touch,
)


def retire(m: Any, at: Layout, s: int, entry: int) -> None:
    """Move one entry of section ``s`` behind those that are not placed; undoing needs no more than the old
    ``count``.
    """
    last = m[at.begin + s] + m[at.left + s] - 1
    here = m[at.position + entry]
    other = m[at.entry + last]
    m[at.member + last], m[at.member + here] = m[at.member + here], m[at.member + last]
    m[at.entry + last], m[at.entry + here] = entry, other
    m[at.position + entry], m[at.position + other] = last, here
    m[at.left + s] -= 1


def ground(m: Any, at: Layout, level: int) -> None:
    """Add to the conflict of ``level`` why its section had no other alternatives. The state must be as it was then.

    Asked for only where all alternatives failed, which most levels never come to.
    """
    s = m[at.level_section + level]
    row = at.conflict + level * at.words
    merge(m, at, row, at.reason + s * at.words)
    if m[at.above + s] < INFINITE:
        explain_level(m, at, s, m[at.above + s], row)


def put(m: Any, at: Layout, i: int, level: int, offset: int) -> int:
    """Place buffer ``i`` by the decision of ``level``; the number of sections queued."""
    m[at.offset + i] = offset
    m[at.placed] += 1
    word = level // at.bits
    bit = 1 << (level % at.bits)
    tail = 0
    for k in range(m[at.first + i], m[at.first + i + 1]):
        s = m[at.place + k]
        touch(m, at, s)
        m[at.floor + s] = offset + m[at.size + i]
        m[at.rest + s] -= m[at.size + i]
        retire(m, at, s, k)
        m[at.top + s] = i
        m[at.reason + s * at.words + word] |= bit
        m[at.queue + tail] = s
        m[at.queued + s] = 1
        tail += 1
    return tail


def lose(m: Any, at: Layout, s: int, level: int) -> int:
    """Give up the floor of ``s`` up to the waste level, by the decision of ``level``; the number of sections queued."""
    row = at.conflict + level * at.words
    ground(m, at, level)
    touch(m, at, s)
    m[at.floor + s] = waste_level(m, at, s, row)
    merge(m, at, at.reason + s * at.words, row)
    m[at.reason + s * at.words + level // at.bits] |= 1 << (level % at.bits)
    m[at.queue] = s
    m[at.queued + s] = 1
    return 1


def advance(m: Any, at: Layout, level: int) -> int:
    """Take the next alternative of ``level``; the number of sections queued."""
    i = m[at.options + m[at.level_next + level]]
    m[at.level_next + level] += 1
    m[at.level_choice + level] = i
    m[at.stamp] += 1
    m[at.nodes] += 1
    if i < 0:
        return lose(m, at, m[at.level_section + level], level)
    return put(m, at, i, level, m[at.level_floor + level])


def undo(m: Any, at: Layout, level: int) -> None:
    """Take back the current alternative of ``level`` and everything that followed from it."""
    i = m[at.level_choice + level]
    if i >= 0:
        m[at.offset + i] = -1
        m[at.placed] -= 1
    k = m[at.section_trail]
    while k > m[at.level_sections + level]:
        k -= 1
        s = m[at.trail_section + k]
        values = at.trail_values + 6 * k
        m[at.floor + s] = m[values]
        m[at.rest + s] = m[values + 1]
        m[at.left + s] = m[values + 2]
        m[at.ready + s] = m[values + 3]
        m[at.above + s] = m[values + 4]
        m[at.top + s] = m[values + 5]
        for w in range(at.words):
            m[at.reason + s * at.words + w] = m[at.trail_reason + k * at.words + w]
    m[at.section_trail] = k
    t = m[at.buffer_trail]
    while t > m[at.level_buffers + level]:
        t -= 1
        m[at.least + m[at.trail_buffer + t]] = m[at.trail_least + t]
    m[at.buffer_trail] = t


def jump(m: Any, at: Layout, level: int) -> int:
    """The level to return to when all alternatives of ``level`` failed, ready for its next one; -1 where there is
    none.
    """
    ground(m, at, level)
    row = at.conflict + level * at.words
    target = -1
    for w in range(at.words - 1, -1, -1):
        if m[row + w] != 0:
            target = w * at.bits + highest_bit(m[row + w], at.bits)
            break
    if target < 0:
        return -1
    if target < level - 1:
        m[at.jumps] += 1
    for back in range(level - 1, target - 1, -1):
        undo(m, at, back)
    merge(m, at, at.conflict + target * at.words, row)
    forget(m, at, target)
    m[at.option_top] = m[at.level_end + target]
    return target


def forget(m: Any, at: Layout, level: int) -> None:
    """Take the bit of ``level`` out of its own conflict row."""
    m[at.conflict + level * at.words + level // at.bits] &= ~(1 << (level % at.bits))


def has_room(m: Any, at: Layout) -> bool:
    """Whether every trail can take one more level."""
    return bool(
        m[at.level] + 1 < at.levels
        and m[at.section_trail] + at.sections <= at.trail_rows
        and m[at.buffer_trail] + at.buffers <= at.trail_rows
        and m[at.option_top] + at.buffers < at.option_slots
    )


def walk(m: Any, at: Layout, last_node: int) -> int:
    """Go on until the node count reaches ``last_node``: an outcome (``FOUND`` leaves the offsets in ``offset``)."""
    while True:
        if m[at.descending]:
            if m[at.placed] == at.buffers:
                return FOUND
            if not has_room(m, at):
                return OVERFLOW
            branch(m, at, choose(m, at) if at.contiguous else choose_lowest(m, at))
            m[at.descending] = 0
        level = m[at.level]
        if m[at.level_next + level] == m[at.level_end + level]:
            target = jump(m, at, level)
            if target < 0:
                return INFEASIBLE
            m[at.level] = target
            continue
        if m[at.nodes] >= last_node:
            return PAUSED
        if propagate(m, at, advance(m, at, level)):
            m[at.level] = level + 1
            m[at.descending] = 1
            continue
        merge(m, at, at.conflict + level * at.words, at.failure)
        forget(m, at, level)
        undo(m, at, level)
