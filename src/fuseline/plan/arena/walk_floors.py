"""What follows from a decision of a walk: least offsets and floors rise, sections prove too full, each with its reason.

See ``walk_loops`` for the inferences. Plain Python, and what numba compiles.
"""

from __future__ import annotations

from typing import Any

from fuseline.plan.arena.walk_state import INFINITE, Layout, aligned, merge, touch


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
    member, leasts, sizes, spares = at.member, at.least, at.size, at.spare
    floor = m[at.floor + s]
    low = INFINITE
    above = INFINITE
    spare = 0
    ready = 0
    ready_size = 0
    m[at.queued + s] = 1
    begin = m[at.begin + s]
    for k in range(begin, begin + m[at.left + s]):
        i = m[member + k]
        least = m[leasts + i]
        if m[spares + i] > spare:
            spare = m[spares + i]
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
    rest = m[at.rest + s] - spare
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
