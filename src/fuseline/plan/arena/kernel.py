"""The exact search: one depth-first walk over ways to fill an arena bottom-up, under a given capacity.

The text below is plain Python and also what numba compiles (``engine`` chooses). Everything a walk reads and changes
lies in one sequence of integers ``m``, an int64 array or a list, at the starts that the ``Layout`` ``at`` names: so
calls stay cheap when compiled and nothing is allocated. A walk can stop and go on at any node.

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
    alignment: int
    fixed: int
    shape: int
    rank: int
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


def explain(m: Any, at: Layout, i: int, level: int, s: int, row: int) -> None:
    """Add to ``row`` why buffer ``i`` of section ``s`` cannot lie below ``level``: the reason of one of its
    sections.
    """
    step = m[at.alignment + i]
    if m[at.fixed + i] >= level or aligned(m[at.floor + s], step) >= level:
        return
    for k in range(m[at.first + i], m[at.first + i + 1]):
        other = m[at.place + k]
        if aligned(m[at.floor + other], step) >= level:
            merge(m, at, row, at.reason + other * at.words)
            return


def explain_level(m: Any, at: Layout, s: int, level: int, row: int) -> None:
    """Add to ``row`` why no buffer of section ``s`` whose ``least`` reaches ``level`` can lie below it.

    In plain instances all of them cross the nearest section on the left or on the right whose floor is that high.
    """
    if not at.plain:
        for k in range(m[at.begin + s], m[at.begin + s] + m[at.left + s]):
            i = m[at.member + k]
            if m[at.least + i] >= level:
                explain(m, at, i, level, s, row)
        return
    left = s
    while left >= 0 and m[at.left + left] > 0 and m[at.floor + left] < level:
        left -= 1
    right = s
    while right < at.sections and m[at.left + right] > 0 and m[at.floor + right] < level:
        right += 1
    left_serves = left >= 0 and m[at.left + left] > 0
    right_serves = right < at.sections and m[at.left + right] > 0
    all_left = left_serves
    all_right = right_serves
    for k in range(m[at.begin + s], m[at.begin + s] + m[at.left + s]):
        i = m[at.member + k]
        if m[at.least + i] >= level:
            all_left = all_left and m[at.place + m[at.first + i]] <= left
            all_right = all_right and m[at.place + m[at.first + i + 1] - 1] >= right
    if left_serves and (all_left or not all_right):
        merge(m, at, row, at.reason + left * at.words)
    if right_serves and not all_left:
        merge(m, at, row, at.reason + right * at.words)


def fail(m: Any, at: Layout, s: int, level: int) -> None:
    """Put into ``failure`` why section ``s`` is too full, given that what is not ready cannot lie below ``level``."""
    for w in range(at.words):
        m[at.failure + w] = m[at.reason + s * at.words + w]
    if level > m[at.floor + s]:
        explain_level(m, at, s, level, at.failure)


def lift(m: Any, at: Layout, i: int, level: int, tail: int) -> int:
    """Buffer ``i`` cannot lie below ``level``: note it and queue its sections; the new end of the queue."""
    if m[at.buffer_stamp + i] != m[at.stamp]:
        m[at.buffer_stamp + i] = m[at.stamp]
        t = m[at.buffer_trail]
        m[at.buffer_trail] = t + 1
        m[at.trail_buffer + t] = i
        m[at.trail_least + t] = m[at.least + i]
    m[at.least + i] = level
    for k in range(m[at.first + i], m[at.first + i + 1]):
        s = m[at.place + k]
        if not m[at.queued + s]:
            m[at.queued + s] = 1
            m[at.queue + tail % at.sections] = s
            tail += 1
    return tail


def visit(m: Any, at: Layout, s: int, tail: int) -> int:
    """Bring section ``s`` up to date; the new end of the queue, or -1 where the capacity is exceeded."""
    touch(m, at, s)
    member, leasts, sizes = at.member, at.least, at.size
    floor = m[at.floor + s]
    low = INFINITE
    above = INFINITE
    ready = 0
    ready_size = 0
    m[at.queued + s] = 1
    begin = m[at.begin + s]
    for k in range(begin, begin + m[at.left + s]):
        i = m[member + k]
        least = m[leasts + i]
        if least < floor:
            if m[at.fixed + i] >= 0:
                fail(m, at, s, 0)
                return -1
            least = aligned(floor, m[at.alignment + i])
            tail = lift(m, at, i, least, tail)
        if least < low:
            above = low
            low = least
            ready = 1
            ready_size = m[sizes + i]
        elif least == low:
            ready += 1
            ready_size += m[sizes + i]
        elif least < above:
            above = least
    m[at.queued + s] = 0
    if low > floor:
        explain_level(m, at, s, low, at.reason + s * at.words)
        m[at.floor + s] = low
    m[at.ready + s] = ready
    m[at.above + s] = above
    rest = m[at.rest + s]
    if low + rest > m[at.capacity]:
        fail(m, at, s, 0)
        return -1
    if above < INFINITE and above + rest - ready_size > m[at.capacity]:
        fail(m, at, s, above)
        return -1
    return tail


def propagate(m: Any, at: Layout, tail: int) -> int:
    """Visit the ``tail`` queued sections until nothing changes: 1, or 0 where it cannot fit (``failure`` says why)."""
    head = 0
    while head < tail:
        s = m[at.queue + head % at.sections]
        head += 1
        m[at.queued + s] = 0
        if m[at.left + s] == 0:
            continue
        tail = visit(m, at, s, tail)
        if tail < 0:
            for other in range(at.sections):
                m[at.queued + other] = 0
            return 0
    return 1


def choose(m: Any, at: Layout) -> int:
    """The section to branch on: in some valley, with the fewest alternatives, then the least slack."""
    # Names of tables as locals: the loop is short and hot, also where it is interpreted.
    floor, left, rest, ready = at.floor, at.left, at.rest, at.ready
    sections, capacity = at.sections, m[at.capacity]
    best = -1
    best_alternatives = INFINITE
    best_slack = INFINITE
    wall = True
    s = 0
    while s < sections:
        if m[left + s] == 0:
            wall = True
            s += 1
            continue
        level = m[floor + s]
        end = s + 1
        while end < sections and m[floor + end] == level and m[left + end] > 0:
            end += 1
        falls = end < sections and m[left + end] > 0 and m[floor + end] < level
        if wall and not falls:
            for q in range(s, end):
                slack = capacity - level - m[rest + q]
                alternatives = m[ready + q] + (1 if slack > 0 else 0)
                if alternatives < best_alternatives or (alternatives == best_alternatives and slack < best_slack):
                    best = q
                    best_alternatives = alternatives
                    best_slack = slack
        wall = falls
        s = end
    return best


def choose_lowest(m: Any, at: Layout) -> int:
    """The section with the lowest floor: always in a valley, also where lifetimes have gaps."""
    best = -1
    for s in range(at.sections):
        if m[at.left + s] > 0 and (best < 0 or m[at.floor + s] < m[at.floor + best]):
            best = s
    return best


def collides(m: Any, at: Layout, i: int, level: int) -> bool:
    """Whether buffer ``i`` at ``level`` would cover a fixed buffer that is not placed yet."""
    for k in range(m[at.first + i], m[at.first + i + 1]):
        s = m[at.place + k]
        for e in range(m[at.begin + s], m[at.begin + s] + m[at.left + s]):
            j = m[at.member + e]
            low = m[at.fixed + j]
            if j != i and low >= 0 and low < level + m[at.size + i] and level < low + m[at.size + j]:
                return True
    return False


def waste_level(m: Any, at: Layout, s: int, row: int) -> int:
    """The lowest level above the floor of ``s`` at which any of its buffers could rest if none rests on the floor.

    A ready buffer that does not rest on this floor rests on a buffer outside this section. The bits at ``row`` gain
    what this depends on.
    """
    smallest = INFINITE
    mark = -1 - m[at.nodes]
    for k in range(m[at.begin + s], m[at.begin + s] + m[at.left + s]):
        m[at.mark + m[at.member + k]] = mark
    for r in range(m[at.begin + s], m[at.begin + s] + m[at.left + s]):
        i = m[at.member + r]
        if m[at.least + i] > m[at.floor + s]:
            continue
        for k in range(m[at.first + i], m[at.first + i + 1]):
            other = m[at.place + k]
            if m[at.section_mark + other] == mark:
                continue
            m[at.section_mark + other] = mark
            merge(m, at, row, at.reason + other * at.words)
            for e in range(m[at.begin + other], m[at.begin + other] + m[at.left + other]):
                j = m[at.member + e]
                if m[at.mark + j] != mark and m[at.size + j] < smallest:
                    smallest = m[at.size + j]
    level = m[at.floor + s] + smallest
    return level if level < m[at.above + s] else int(m[at.above + s])


def admitted(m: Any, at: Layout, s: int, i: int) -> bool:
    """Whether buffer ``i`` on the floor of ``s`` is no worse than another alternative (*twins*) and hits no fixed
    buffer.
    """
    twin = m[at.twin + i]
    if twin >= 0 and m[at.offset + twin] < 0:
        return False
    top = m[at.top + s]
    same = top >= 0 and m[at.shape + i] >= 0 and m[at.shape + i] == m[at.shape + top]
    if same and m[at.rank + i] < m[at.rank + top] and m[at.offset + top] + m[at.size + top] == m[at.floor + s]:
        return False
    return not (at.any_fixed and collides(m, at, i, m[at.floor + s]))


def supported(m: Any, at: Layout, i: int, level: int, row: int) -> bool:
    """Whether buffer ``i`` at ``level`` rests on something; where not, ``row`` gains what that depends on."""
    highest = 0
    for k in range(m[at.first + i], m[at.first + i + 1]):
        top = m[at.top + m[at.place + k]]
        if top >= 0 and m[at.offset + top] + m[at.size + top] > highest:
            highest = m[at.offset + top] + m[at.size + top]
    if m[at.fixed + i] >= 0 or aligned(highest, m[at.alignment + i]) >= level:
        return True
    for k in range(m[at.first + i], m[at.first + i + 1]):
        merge(m, at, row, at.reason + m[at.place + k] * at.words)
    return False


def branch(m: Any, at: Layout, s: int) -> None:
    """List the alternatives in section ``s`` as the next level."""
    level = m[at.level]
    floor = m[at.floor + s]
    row = at.conflict + level * at.words
    for w in range(at.words):
        m[row + w] = 0
    first = m[at.option_top]
    end = first
    for k in range(m[at.begin + s], m[at.begin + s] + m[at.left + s]):
        i = m[at.member + k]
        if m[at.least + i] == floor:
            slot = end
            while slot > first and m[at.rank + m[at.options + slot - 1]] > m[at.rank + i]:
                m[at.options + slot] = m[at.options + slot - 1]
                slot -= 1
            m[at.options + slot] = i
            end += 1
    kept = first
    for o in range(first, end):
        i = m[at.options + o]
        if admitted(m, at, s, i) and supported(m, at, i, floor, row):
            m[at.options + kept] = i
            kept += 1
    if floor + 1 + m[at.rest + s] <= m[at.capacity]:
        m[at.options + kept] = -1
        kept += 1
    m[at.level_section + level] = s
    m[at.level_floor + level] = floor
    m[at.level_next + level] = first
    m[at.level_end + level] = kept
    m[at.level_sections + level] = m[at.section_trail]
    m[at.level_buffers + level] = m[at.buffer_trail]
    m[at.option_top] = kept


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
