"""Each method of arena placement by itself: what it finds is valid, and what it claims holds against brute force."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise, permutations
from pathlib import Path

import arena_instances
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arenas import instances, least_peak, never, valid, windowed
from fuseline.plan.arena import exact, large, lean, portfolio
from fuseline.plan.arena.bounds import live_bound, stack_bound
from fuseline.plan.arena.checker import check
from fuseline.plan.arena.compiled import numba_available
from fuseline.plan.arena.dive import Dive
from fuseline.plan.arena.findings import Ground, Method
from fuseline.plan.arena.growing import Growth, parts
from fuseline.plan.arena.online import _Free, best_fit_in_time
from fuseline.plan.arena.planner import plan_instance
from fuseline.plan.arena.sections import cut
from fuseline.plan.arena.stacking import least_stack
from fuseline.plan.arena.types import Buffer, Gap, Instance


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from((1, 2, 3, 4, 8))), max_size=6), st.integers(1, 400))
def test_a_stack_is_never_lower_than_its_bound(buffers: list[tuple[int, int]], max_sets: int) -> None:
    def height(order: tuple[tuple[int, int], ...]) -> int:
        top = 0
        for size, alignment in order:
            top = -(-top // alignment) * alignment + size
        return top

    least = min(map(height, permutations(buffers)))
    assert least_stack(buffers, 1_000) == least
    assert sum(size for size, _ in buffers) <= least_stack(buffers, max_sets) <= least


@settings(max_examples=60, deadline=None)
@given(instances(most=6, alignments=(4,), sizes=9))
def test_what_alignments_waste_counts_but_for_the_topmost_buffer(instance: Instance) -> None:
    """One alignment for all: sizes that are not its multiples must not keep the least arena from being proven."""
    result = plan_instance(instance, time_limit_s=5)
    assert result.optimal
    assert valid(instance, result.placement.offsets, result.peak_bytes)
    assert result.peak_bytes == least_peak(instance)


@settings(max_examples=100, deadline=None)
@given(instances(most=16, alignments=(1, 2, 4, 3)), st.integers(0, 8))
def test_a_short_search_finds_valid_arenas_within_its_capacity_only(instance: Instance, more: int) -> None:
    sections = cut(instance)
    capacity = max(sections.least, default=0) + more
    order = sorted(range(sections.buffer_count), key=lambda i: -sections.size[i])
    offsets = Dive(sections, portfolio.conflicts_of(sections), capacity).search(order)
    if offsets is not None:
        placement = sections.placement(offsets)
        assert placement.peak_bytes <= capacity * sections.unit_bytes
        assert valid(instance, placement.offsets, placement.peak_bytes)


@settings(max_examples=40, deadline=None)
@given(instances(most=16, alignments=(1, 2, 4)), st.integers(0, 6), st.booleans())
def test_growing_parts_find_valid_arenas_within_their_capacity_only(instance: Instance, more: int, back: bool) -> None:
    sections = cut(instance)
    capacity = max(sections.least, default=0) + more
    grown = Growth(
        sections,
        capacity,
        0,
        False,
        lambda part, buffers: exact.Orders(part, buffers, 0).order,
        lambda k: 60,
        600,
        60,
        never,
    )
    offsets = grown.search(back)
    assert offsets is not None or not grown.stopped
    if offsets is not None:
        placement = sections.placement(offsets)
        assert placement.peak_bytes <= capacity * sections.unit_bytes
        assert valid(instance, placement.offsets, placement.peak_bytes)


def test_parts_of_time_grow_from_either_end_and_the_last_is_all() -> None:
    for backwards in (False, True):
        found = parts(169, backwards)
        assert found[-1] == (0, 169)
        assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in pairwise(found))
    assert parts(1, True) == [(0, 1)]


def test_a_search_that_restarts_do_not_finish_grows_parts_and_depends_on_its_seed_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact, "_GROW_AFTER", 400)
    monkeypatch.setattr(exact, "_GROWTH_NODES", 400)
    sections = cut(arena_instances.packed(60, 4096, seed=3))
    found = []
    for _ in range(2):
        worst = portfolio.reuse_whole(sections)
        standing = exact.Standing(max(sections.live), portfolio.Answer(worst, sections.peak_of(worst), Method()))
        search = exact.ExactSearch(sections, standing, standing.lower, 5, never, lambda: None, 1 << 60, never)
        search.run(1_500)
        found.append((standing.best, search.nodes))
    assert found[0] == found[1]
    assert not check(arena_instances.packed(60, 4096, seed=3), *astuple(sections.placement(found[0][0].offsets)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_many_buffers_with_gaps_and_fixed_offsets_need_no_table_of_conflicts(data: st.DataObject) -> None:
    buffers = [Buffer("fixed", 2, 9, 5, offset=data.draw(st.integers(0, 9)))] if data.draw(st.booleans()) else []
    for i in range(data.draw(st.integers(1, 9))):
        lower, size = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 7))
        window = data.draw(st.sampled_from([None, (0, size // 2), (size // 2, size)]))
        gaps = (Gap(lower + 1, lower + 3, window),) if data.draw(st.booleans()) else ()
        alignment = data.draw(st.sampled_from([1, 2, 3]))
        buffers.append(Buffer(str(i), lower, lower + 5, size, alignment, gaps=gaps))
    instance = Instance(tuple(buffers))
    sections = cut(instance)
    answers = [
        *lean.lean_answers(sections, lambda: False),
        *portfolio.first_answers(sections, lambda: max(sections.live)),
    ]
    assert len(answers) >= 4
    for answer in answers:
        placement = sections.placement(answer.offsets)
        assert valid(instance, placement.offsets, placement.peak_bytes)


@pytest.mark.parametrize("seed", range(5))
def test_conflicts_are_what_shares_a_moment_with_a_byte_in_use(seed: int) -> None:
    sections = cut(windowed(20 + seed))
    used = [{s for s, low, high in sections.spans(i) if low < high} for i in range(sections.buffer_count)]
    expected = [[j for j in range(len(used)) if j != i and used[i] & used[j]] for i in range(len(used))]
    assert [sorted(row) for row in portfolio.conflicts_of(sections)] == expected


@settings(max_examples=60, deadline=None)
@given(instances(most=20))
def test_both_fits_of_every_order_are_valid(instance: Instance) -> None:
    sections = cut(instance)
    for answer in portfolio.answers(sections, portfolio.conflicts_of(sections)):
        placement = sections.placement(answer.offsets)
        assert valid(instance, placement.offsets, placement.peak_bytes)


@pytest.mark.long
def test_valley_filling_is_valid_and_the_same_compiled_and_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = arena_instances.random_trace(400, seed=3)
    sections = cut(instance)
    found = []
    if numba_available():
        monkeypatch.setitem(vars(large.VALLEY), "functions", large.VALLEY.compiled_in(tmp_path))
    for compiled in [False, True] if numba_available() else [False]:
        answers = large.large_answers(sections, 0, max(sections.live), lambda: False, lambda c=compiled: c)
        found.append([next(answers) for _ in range(5)])
    assert all(other == found[0] for other in found)
    for answer in found[0]:
        placement = sections.placement(answer.offsets)
        assert not check(instance, placement.offsets, placement.peak_bytes)


def test_valley_filling_is_valid_however_it_is_sliced() -> None:
    instance = arena_instances.random_trace(400, seed=3)
    sections = cut(instance)
    answers = large.large_answers(sections, 0, max(sections.live), lambda: False, lambda: False)
    first = [next(answers) for _ in range(4)]
    whole = pytest.MonkeyPatch()
    whole.setattr(large, "_PLAIN_STEPS", 7)
    again = large.large_answers(sections, 0, max(sections.live), lambda: False, lambda: False)
    assert [next(again) for _ in range(4)] == first
    whole.undo()
    for answer in first:
        placement = sections.placement(answer.offsets)
        assert not check(instance, placement.offsets, placement.peak_bytes)


@settings(max_examples=100, deadline=None)
@given(instances(most=30, alignments=(1, 2, 4, 3)), st.booleans())
def test_best_fit_in_time_is_valid_in_both_directions(instance: Instance, backwards: bool) -> None:
    sections = cut(instance)
    placement = sections.placement(best_fit_in_time(sections, backwards))
    assert valid(instance, placement.offsets, placement.peak_bytes)


def test_best_fit_in_time_joins_free_blocks_and_splits_them() -> None:
    """Two small blocks that end together make room for a large one, which makes room for two others."""
    buffers = [Buffer("a", 0, 2, 4), Buffer("b", 0, 2, 4), Buffer("c", 0, 9, 1), Buffer("d", 2, 4, 8)]
    sections = cut(Instance((*buffers, Buffer("e", 4, 6, 3), Buffer("f", 4, 6, 5))))
    assert sections.peak_of(best_fit_in_time(sections)) == max(sections.live) == 9


@pytest.mark.parametrize("count", [0, 700])
def test_the_first_answers_need_no_table_of_conflicts_where_buffers_are_many(count: int) -> None:
    sections = cut(arena_instances.random_trace(count))
    methods = [str(answer.method) for answer in portfolio.first_answers(sections, lambda: 0)]
    assert methods[0] == "reuse of whole buffers"
    assert count == 0 or methods[1:] == ["best fit in time", "best fit backwards in time"]


@settings(max_examples=100, deadline=None)
@given(instances(most=20, alignments=(1, 2, 4, 3)))
def test_first_answers_are_valid_and_the_least_where_sizes_are_equal(instance: Instance) -> None:
    sections = cut(instance)
    for answer in portfolio.first_answers(sections, lambda: max(sections.live)):
        placement = sections.placement(answer.offsets)
        assert valid(instance, placement.offsets, placement.peak_bytes)
    equal = Instance(tuple(Buffer(b.id, b.lower, b.upper, 6) for b in instance.buffers))
    sections = cut(equal)
    assert sections.peak_of(portfolio.reuse_whole(sections)) == max(sections.live)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_free_blocks_are_what_is_not_taken_and_none_lies_beside_another(data: st.DataObject) -> None:
    free, taken = _Free(), dict[int, int]()
    for _ in range(data.draw(st.integers(1, 25))):
        if taken and data.draw(st.booleans()):
            begin = data.draw(st.sampled_from(sorted(taken)))
            free.give_back(begin, begin + taken.pop(begin))
        else:
            size, alignment = data.draw(st.integers(1, 6)), data.draw(st.sampled_from((1, 1, 2, 4)))
            begin = free.take(size, alignment)
            assert begin % alignment == 0
            assert all(begin + size <= b or b + s <= begin for b, s in taken.items())
            taken[begin] = size
        edges = sorted(taken.items())
        ends = [0, *(b + s for b, s in edges)]
        between = [(begin, b) for begin, (b, _) in zip(ends, edges, strict=False) if begin < b]
        assert sorted((begin, begin + size) for size, begin in free._by_size) == between
        assert free.top == ends[-1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from((1, 2, 3, 4, 8))), min_size=1, max_size=5))
def test_the_bound_of_a_stack_is_the_least_arena_of_its_moment(buffers: list[tuple[int, int]]) -> None:
    instance = Instance(tuple(Buffer(str(i), 2, 4, size, a) for i, (size, a) in enumerate(buffers)))
    sections = cut(instance)
    least = least_peak(instance)
    live = live_bound(instance, sections)
    found = stack_bound(sections, live.size_bytes // sections.unit_bytes, 1_000)
    if found is None:
        assert live.size_bytes == least
    else:
        units, reason = found
        assert live.size_bytes < units * sections.unit_bytes == least
        assert reason.ground == Ground.STACK
        assert reason.to_dict() | {"time": 2, "count": len(buffers), "size_bytes": least} == reason.to_dict()
