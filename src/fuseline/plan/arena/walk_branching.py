"""What a walk decides next: the section to branch on, and the alternatives there that no other makes superfluous.

See ``walk_loops`` for the inferences. Plain Python, and what numba compiles.
"""

from __future__ import annotations

from typing import Any

from fuseline.plan.arena.walk_state import INFINITE, Layout, aligned, merge


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
    if same and m[at.turn + i] < m[at.turn + top] and m[at.offset + top] + m[at.size + top] == m[at.floor + s]:
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
    spare = 0
    for k in range(m[at.begin + s], m[at.begin + s] + m[at.left + s]):
        i = m[at.member + k]
        spare = max(spare, m[at.spare + i])
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
    if floor + 1 + m[at.rest + s] - spare <= m[at.capacity]:
        m[at.options + kept] = -1
        kept += 1
    m[at.level_section + level] = s
    m[at.level_floor + level] = floor
    m[at.level_next + level] = first
    m[at.level_end + level] = kept
    m[at.level_sections + level] = m[at.section_trail]
    m[at.level_buffers + level] = m[at.buffer_trail]
    m[at.option_top] = kept
