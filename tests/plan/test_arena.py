"""Promises of arena placement, checked against brute force and against a checker that shares no code with the
planner.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace

import arena_instances
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuseline as fl
from arenas import alive_bytes, instances, least_peak, live_sum, valid, windowed
from fuseline.errors import InfeasibleError, PlanError
from fuseline.plan.arena import engine, exact, portfolio, walk_loops
from fuseline.plan.arena.checker import check
from fuseline.plan.arena.engine import Walk
from fuseline.plan.arena.findings import Ground
from fuseline.plan.arena.instance_csv import parse_csv
from fuseline.plan.arena.planner import plan_instance
from fuseline.plan.arena.sections import Sections, cut
from fuseline.plan.arena.types import Buffer, Gap, Instance
from fuseline.plan.arena.windows import WindowSearch


@settings(max_examples=100, deadline=None)
@given(instances(alignments=(1, 2, 4, 3)))
def test_every_answer_is_valid_and_never_below_the_live_sum(instance: Instance) -> None:
    result = plan_instance(instance, time_limit_s=0.05)
    assert valid(instance, result.placement.offsets, result.peak_bytes)
    assert live_sum(instance.buffers) <= result.lower_bound_bytes <= result.peak_bytes
    assert result.optimal == (result.peak_bytes == result.lower_bound_bytes)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from((1, 2, 12, 60)))
def test_alignments_of_which_neither_divides_the_other_are_kept(data: st.DataObject, factor: int) -> None:
    drawn = data.draw(instances(alignments=(1, 4, 6, 15, 10, 48, 64), sizes=6))
    buffers = tuple(replace(b, size=b.size * factor) for b in drawn.buffers)
    result = plan_instance(Instance(buffers), time_limit_s=0.05)
    assert valid(Instance(buffers), result.placement.offsets, result.peak_bytes)


@pytest.mark.parametrize("alignments", list(permutations((15, 4, 15, 4))))
def test_the_common_unit_hears_every_alignment_in_any_order(alignments: tuple[int, ...]) -> None:
    buffers = tuple(Buffer(str(a + 100 * i), 0, 4, 12, a) for i, a in enumerate(alignments))
    unit = cut(Instance(buffers)).unit_bytes
    assert all(unit % a == 0 or a % unit == 0 for a in alignments)
    result = plan_instance(Instance(buffers), time_limit_s=0.2)
    assert valid(Instance(buffers), result.placement.offsets, result.peak_bytes)


@settings(max_examples=30, deadline=None)
@given(instances(most=5, alignments=(1, 2, 3), sizes=4))
def test_a_claimed_optimum_with_mixed_alignments_is_the_optimum_of_brute_force(instance: Instance) -> None:
    result = plan_instance(instance, time_limit_s=5)
    assert result.peak_bytes == least_peak(instance)


@settings(max_examples=60, deadline=None)
@given(instances(most=7, alignments=(1, 1, 2), sizes=3))
def test_a_claimed_optimum_is_the_optimum_of_brute_force(instance: Instance) -> None:
    result = plan_instance(instance, time_limit_s=5)
    assert result.optimal
    assert result.peak_bytes == least_peak(instance)


def test_where_the_live_sum_is_out_of_reach_the_raised_bound_is_the_optimum_of_brute_force() -> None:
    rng = random.Random(3)
    found = 0
    for _ in range(300):
        buffers = []
        for i in range(6):
            lower = rng.randrange(5)
            buffers.append(Buffer(str(i), lower, lower + rng.randint(1, 4), rng.randint(1, 3), rng.choice((1, 1, 2))))
        instance = Instance(tuple(buffers))
        result = plan_instance(instance, time_limit_s=10)
        if result.peak_bytes > live_sum(instance.buffers):
            found += 1
            assert result.optimal
            assert {r.ground for r in result.bound.reasons} & {Ground.REFUTED, Ground.STACK, Ground.ALIGNED_SUM}
            with pytest.raises(InfeasibleError, match=r"infeasible: .* the capacity is"):
                plan_instance(instance, capacity_bytes=result.peak_bytes - 1)
            assert result.peak_bytes == least_peak(instance)
            if found == 12:
                return
    raise AssertionError("no such instance was drawn")


def test_the_walk_refutes_what_no_stack_and_no_sum_refutes() -> None:
    lifetimes = ((0, 2, 3), (5, 8, 3), (0, 3, 3), (4, 6, 1), (5, 10, 1), (2, 5, 2), (6, 11, 3), (2, 6, 2))
    instance = Instance(tuple(Buffer(str(i), *row) for i, row in enumerate(lifetimes)))
    result = plan_instance(instance, time_limit_s=10)
    assert result.bound.reasons[-1].ground is Ground.REFUTED
    assert result.optimal
    assert result.peak_bytes == least_peak(instance) > live_sum(instance.buffers)
    with pytest.raises(InfeasibleError, match=r"infeasible: .* refuted .* the capacity is"):
        plan_instance(instance, capacity_bytes=result.peak_bytes - 1)


class ArrayWalk(Walk):
    """The walk over an int64 array with 64-bit words, as compiled code has it, but run by the interpreter."""

    def __init__(self, sections: Sections) -> None:
        def interpreted(function: Callable[..., int]) -> Callable[..., int]:
            return lambda m, at, n: function(Wrapping(m), at, n)

        functions = {name: interpreted(getattr(walk_loops, name)) for name in ("propagate", "walk")}
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(vars(engine.WALK), "functions", SimpleNamespace(**functions))
            super().__init__(sections, compiled=True)


class Wrapping:
    """An int64 array that gives Python integers and wraps around what is stored, as machine code does."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getitem__(self, i: int) -> int:
        return int(self.array[i])

    def __setitem__(self, i: int, value: int) -> None:
        self.array[i] = (value + 2**63) % 2**64 - 2**63


def outcomes(walk: Walk, sections: Sections, seed: int) -> tuple[object, ...]:
    order = exact.Orders(sections, walk.buffers, seed).order(4)
    return walk.restart(order, max(sections.live)), walk.run(400), walk.nodes, walk.offsets()


def walk_instances(count: int) -> Iterator[Sections]:
    rng = random.Random(5)
    for _ in range(count):
        buffers = tuple(
            Buffer(str(i), lower, lower + rng.randint(1, 9), rng.randint(1, 40))
            for i in range(40)
            for lower in [rng.randrange(30)]
        )
        yield cut(Instance(buffers))


def test_the_walk_visits_the_same_nodes_whatever_its_words_and_memory() -> None:
    for sections in walk_instances(4):
        plain = outcomes(Walk(sections, compiled=False), sections, 3)
        assert plain == outcomes(ArrayWalk(sections), sections, 3)


@pytest.mark.long
def test_the_compiled_walk_and_the_plain_one_visit_the_same_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setitem(vars(engine.WALK), "functions", engine.WALK.compiled_in(tmp_path))
    for sections in walk_instances(12):
        walks = [Walk(sections, compiled) for compiled in (False, True)]
        plain, compiled = (outcomes(walk, sections, 3) for walk in walks)
        assert plain == compiled


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_gaps_and_windows_are_honoured(data: st.DataObject) -> None:
    buffers = []
    unit = data.draw(st.sampled_from((1, 4)))
    for i in range(data.draw(st.integers(2, 8))):
        lower = data.draw(st.integers(0, 5))
        upper = lower + data.draw(st.integers(3, 8))
        size = data.draw(st.integers(1, 6)) * unit
        gaps: tuple[Gap, ...] = ()
        if data.draw(st.booleans()):
            low = data.draw(st.integers(lower, upper - 1))
            window = None
            if data.draw(st.booleans()):
                step = data.draw(st.sampled_from((1, unit)))
                first = data.draw(st.integers(0, size // step))
                window = (first * step, data.draw(st.integers(first, size // step)) * step)
            gaps = (Gap(low, data.draw(st.integers(low + 1, upper)), window),)
        buffers.append(Buffer(str(i), lower, upper, size, gaps=gaps))
    instance = Instance(tuple(buffers))
    result = plan_instance(instance, time_limit_s=0.05)
    assert valid(instance, result.placement.offsets, result.peak_bytes)
    assert max(alive_bytes(instance, t) for t in range(14)) <= result.lower_bound_bytes <= result.peak_bytes
    sections = cut(instance)
    assert [units * sections.unit_bytes for units in sections.live] == [
        alive_bytes(instance, t) for t in sections.times
    ]


@settings(max_examples=100, deadline=None)
@given(instances(most=8), st.integers(0, 20))
def test_a_fixed_buffer_stays_where_it_is(instance: Instance, offset: int) -> None:
    first, *others = instance.buffers
    fixed = Buffer(first.id, first.lower, first.upper, first.size, offset=offset)
    instance = Instance((fixed, *others))
    result = plan_instance(instance, time_limit_s=0.05)
    assert result.placement.offsets[0] == offset


@settings(max_examples=60, deadline=None)
@given(instances(most=5, alignments=(1, 2, 4), sizes=4), st.integers(0, 6), st.sampled_from((1, 4)))
def test_bounds_hold_where_a_buffer_is_fixed_between_aligned_ones(instance: Instance, offset: int, step: int) -> None:
    first, *others = (replace(b, size=b.size * step) for b in instance.buffers)
    instance = Instance((replace(first, offset=offset, alignment=1), *others))
    result = plan_instance(instance, time_limit_s=5)
    assert valid(instance, result.placement.offsets, result.peak_bytes)
    assert result.lower_bound_bytes <= least_peak(instance) <= result.peak_bytes
    assert not result.optimal or result.peak_bytes == least_peak(instance)
    assert valid(instance, result.placement.offsets, result.peak_bytes)


@pytest.mark.parametrize("kind", ["plain", "gaps", "fixed"])
def test_a_time_limit_holds_for_any_number_and_kind_of_buffers(kind: str) -> None:
    rng = random.Random(4)
    buffers = []
    for i in range(6_000):
        lower = rng.randrange(6_000)
        gaps = (Gap(lower + 1, lower + 2),) if kind == "gaps" and i % 50 == 0 else ()
        offset = 0 if kind == "fixed" and i == 0 else None
        buffers.append(Buffer(str(i), lower, lower + rng.randint(2, 900), rng.randint(1, 99), gaps=gaps, offset=offset))
    result = plan_instance(Instance(tuple(buffers)), time_limit_s=0.3)
    assert result.stopped_because in ("time limit", "optimal")


def test_colliding_fixed_offsets_are_infeasible_and_both_are_named() -> None:
    instance = Instance((Buffer("left", 0, 4, 8, offset=0), Buffer("right", 2, 6, 8, offset=4)))
    with pytest.raises(InfeasibleError, match=r"infeasible fixed offsets: right and left share bytes at t=2"):
        plan_instance(instance)


def test_a_capacity_below_the_bound_says_when_and_how_much_is_live() -> None:
    instance = Instance((Buffer("a", 0, 4, 2**30), Buffer("b", 3, 6, 2**28)))
    with pytest.raises(InfeasibleError, match=r"infeasible: at t=3 1\.25 GiB are live"):
        plan_instance(instance, capacity_bytes=2**30)


def test_the_free_range_below_the_first_live_block_is_used() -> None:
    instance = Instance((Buffer("A", 0, 2, 100), Buffer("B", 1, 3, 80), Buffer("C", 2, 4, 60)))
    result = plan_instance(instance)
    assert result.peak_bytes == 180
    assert result.optimal


def test_the_answer_depends_only_on_the_seed() -> None:
    rng = random.Random(1)
    buffers = tuple(
        Buffer(str(i), t, t + rng.randint(1, 20), rng.randint(1, 99)) for i in range(60) for t in [rng.randrange(40)]
    )
    runs = [plan_instance(Instance(buffers), seed=7) for _ in range(2)]
    assert runs[0].placement == runs[1].placement


def test_a_reached_capacity_ends_the_search() -> None:
    rng = random.Random(2)
    buffers = tuple(
        Buffer(str(i), t, t + rng.randint(1, 20), rng.randint(1, 99)) for i in range(80) for t in [rng.randrange(40)]
    )
    capacity = 2 * live_sum(buffers)
    result = plan_instance(Instance(buffers), capacity_bytes=capacity)
    assert result.peak_bytes <= capacity
    assert result.stopped_because in ("capacity reached", "optimal")


def test_ctrl_c_gives_the_best_answer_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object, max_nodes: int | None, strict: bool) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(exact.ExactSearch, "run", interrupt)
    instance = arena_instances.packed(150, 4096)
    result = plan_instance(instance)
    assert result.stopped_because == "interrupted"
    assert valid(instance, result.placement.offsets, result.peak_bytes)


@pytest.mark.parametrize("window", [None, (0, 0)])
def test_buffers_that_never_use_a_byte_need_no_arena(window: tuple[int, int] | None) -> None:
    instance = Instance((Buffer("a", 4, 6, 0, 3, gaps=(Gap(4, 6, window),)), Buffer("b", 1, 2, 0)))
    for chosen in (instance, Instance(instance.buffers[:1])):
        result = plan_instance(chosen)
        assert (result.peak_bytes, result.optimal) == (0, True)


def few_with_gaps(rng: random.Random) -> Instance:
    buffers = []
    for i in range(rng.randint(2, 4)):
        lower, size, life = rng.randrange(4), rng.randint(1, 5), rng.randint(2, 5)
        at = rng.randrange(lower, lower + life)
        window = rng.choice((None, (0, 1), (size - 1, size), (0, size)))
        gaps = (Gap(at, rng.randint(at + 1, lower + life), window),) if rng.random() < 0.8 else ()
        offset = 2 if i == 0 and rng.random() < 0.2 else None
        buffers.append(Buffer(str(i), lower, lower + life, size, rng.choice((1, 1, 2)), offset, gaps=gaps))
    return Instance(tuple(buffers))


def test_few_buffers_with_gaps_are_proven_least_against_all_offsets() -> None:
    rng = random.Random(11)
    above_live = 0
    for _ in range(40):
        instance = few_with_gaps(rng)
        result = plan_instance(instance, time_limit_s=20)
        assert valid(instance, result.placement.offsets, result.peak_bytes)
        assert result.optimal
        above_live += "refuted" in result.bound.derivation
        smaller = result.peak_bytes - 1
        ranges = [range(0, smaller - b.size + 1, b.alignment) for b in instance.buffers]
        assert not any(valid(instance, offsets, smaller) for offsets in product(*ranges))
    assert above_live >= 3


def test_a_walk_that_misses_the_least_arena_is_made_up_for() -> None:
    text = "id,lower,upper,size,gaps\n0,0,5,1,\n1,0,2,4,0-2@1:2\n2,3,5,4,4-5\n3,1,3,5,2-3\n"
    result = plan_instance(parse_csv(text))
    assert (result.peak_bytes, result.optimal) == (7, True)


def test_the_search_over_all_offsets_ends_with_its_nodes_or_the_time() -> None:
    sections = cut(windowed(20))
    for search in (
        WindowSearch(sections, lambda: False, max_nodes=3),
        WindowSearch(sections, lambda: True),
    ):
        outcome = search.below(max(sections.live))
        assert (outcome.offsets, outcome.complete) == (None, False)


@pytest.mark.parametrize("instance", [windowed(), arena_instances.random_trace(40, seed=1)])
def test_every_long_step_asks_for_the_time(instance: Instance) -> None:
    sections = cut(instance)
    conflicts = portfolio.conflicts_of(sections)
    with pytest.raises(portfolio.OutOfTime):
        portfolio.conflicts_of(sections, lambda: True)
    asked = iter([False, True])
    with pytest.raises(portfolio.OutOfTime):
        portfolio.place(sections, conflicts, list(range(40)), True, lambda: next(asked))


def test_where_the_time_ends_within_a_step_the_answer_so_far_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise portfolio.OutOfTime

    monkeypatch.setattr(portfolio, "place", late)
    instance = windowed()
    result = plan_instance(instance)
    assert result.stopped_because == "time limit"
    assert valid(instance, result.placement.offsets, result.peak_bytes)


def test_no_buffers_need_no_arena() -> None:
    result = plan_instance(Instance(()))
    assert (result.peak_bytes, result.lower_bound_bytes, result.optimal, result.gap) == (0, 0, True, 0.0)


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (Buffer("x", 0, 1, -1), "negative"),
        (Buffer("x", 2, 2, 1), "empty"),
        (Buffer("x", 3, 2, 1), "inverted"),
        (Buffer("x", 0, 1, 1, alignment=0), "alignment"),
        (Buffer("x", 0, 1, 1, alignment=4, offset=2), "multiple"),
        (Buffer("x", 0, 1, 1, offset=-4), "negative"),
        (Buffer("x", 0, 9, 4, gaps=(Gap(3, 12),)), "outside"),
        (Buffer("x", 0, 9, 4, gaps=(Gap(3, 5, (2, 8)),)), "window"),
        (Buffer("x", 0, 2**63, 4), r"2\*\*62"),
        (Buffer("", 0, 1, 4), "empty"),
        (Buffer("x", 0, 1, 10**5000), r"size exceeds 2\*\*60"),
        (Buffer("x", 0, 1, 4, hint=2**63), r"hint exceeds 2\*\*62"),
        (Buffer("x", 0, 1, 4, gaps=(Gap(0, 10**5000),)), r"gaps exceeds 2\*\*62"),
    ],
)
def test_an_impossible_buffer_is_refused_by_name(buffer: Buffer, message: str) -> None:
    with pytest.raises(PlanError, match=f"'x?'.*{message}"):
        Instance((buffer,))


@pytest.mark.parametrize(
    "buffers",
    [
        (Buffer("a", 0, 3, 2**59), Buffer("b", 5, 9, 2**59)),
        (Buffer("a", 0, 3, 1, alignment=2**60), Buffer("b", 0, 3, 1)),
        (Buffer("a", 0, 3, 8, offset=2**60), Buffer("b", 0, 3, 1)),
    ],
)
def test_what_64_bits_cannot_add_up_is_refused(buffers: tuple[Buffer, ...]) -> None:
    with pytest.raises(PlanError, match=r"add up to .* 2\*\*60"):
        Instance(buffers)


@pytest.mark.parametrize("shape", [2**59, 2**60, 2**61, 2**62])
def test_a_program_beyond_the_limit_is_refused_with_the_limit_of_the_documentation(shape: int) -> None:
    with pytest.raises(PlanError, match=r"2\*\*60") as refused:
        fl.explain("x + 1", shape=(shape,))
    assert "2**62" not in str(refused.value)


def test_a_repeated_id_is_refused() -> None:
    with pytest.raises(PlanError, match="'x' occurs twice"):
        Instance((Buffer("x", 0, 1, 1), Buffer("x", 0, 1, 1)))


@pytest.mark.parametrize("make", [arena_instances.training_step, arena_instances.random_trace, arena_instances.packed])
def test_generated_instances_are_reproducible_and_possible(make: object) -> None:
    assert make(50) == make(50)  # type: ignore[operator]
    instance = make(50)  # type: ignore[operator]
    result = plan_instance(instance, time_limit_s=1)
    assert not check(instance, result.placement.offsets, result.peak_bytes)


def test_a_packed_instance_has_the_same_live_sum_at_every_moment() -> None:
    assert set(cut(arena_instances.packed(60, 4096)).live) == {4096}


def test_the_checker_finds_each_kind_of_fault() -> None:
    instance = Instance((Buffer("a", 0, 4, 8, alignment=4), Buffer("b", 2, 6, 8), Buffer("c", 0, 1, 4, offset=8)))
    assert check(instance, (0, 8, 8), 16) == []
    assert "share bytes at t=2" in check(instance, (0, 4, 8), 16)[0]
    assert "outside" in check(instance, (0, 12, 8), 16)[0]
    assert "not aligned" in check(instance, (2, 12, 10), 32)[0]
    assert any("fixed offset" in fault for fault in check(instance, (0, 8, 12), 32))
    assert "offsets for 3 buffers" in check(instance, (0, 8), 16)[0]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_checker_finds_a_fault_wherever_bytes_are_shared_and_nowhere_else(data: st.DataObject) -> None:
    whole = st.integers(0, 6)
    buffers, offsets = [], []
    for i in range(data.draw(st.integers(1, 5))):
        lower, life, size = data.draw(whole), data.draw(st.integers(1, 6)), data.draw(whole)
        gaps: list[Gap] = []
        at = lower
        while at < lower + life and data.draw(st.booleans()):
            begin = data.draw(st.integers(at, lower + life - 1))
            end = data.draw(st.integers(begin + 1, lower + life))
            low = data.draw(st.integers(0, size))
            window = data.draw(st.sampled_from((None, (low, size), (0, low), (low, (low + size + 1) // 2))))
            gaps.append(Gap(begin, end, window))
            at = end
        alignment = data.draw(st.sampled_from((1, 1, 2)))
        offset = data.draw(st.integers(0, 9))
        fixed = data.draw(st.sampled_from((None, None, None, offset // 2 * 2)))
        buffers.append(Buffer(str(i), lower, lower + life, size, alignment, offset=fixed, gaps=tuple(gaps)))
        offsets.append(offset)
    instance = Instance(tuple(buffers))
    peak = data.draw(st.integers(6, 16))
    assert (check(instance, tuple(offsets), peak) == []) == valid(instance, tuple(offsets), peak)


def test_a_buffer_that_is_never_whole_still_needs_all_of_its_bytes() -> None:
    result = plan_instance(Instance((Buffer("a", 0, 4, 8, gaps=(Gap(0, 4, (0, 2)),)), Buffer("b", 0, 4, 3))))
    assert result.peak_bytes == result.lower_bound_bytes == 8
    (reason,) = result.bound.reasons
    assert (reason.ground, reason.to_dict()["id"]) == (Ground.ONE_BUFFER, "a")


def test_buffers_without_bytes_need_no_arena() -> None:
    result = plan_instance(Instance((Buffer("a", 0, 4, 0), Buffer("b", 2, 6, 0, 8))))
    assert (result.peak_bytes, result.lower_bound_bytes, result.gap, result.optimal) == (0, 0, 0.0, True)


def test_what_is_told_of_a_search_is_in_bytes() -> None:
    result = plan_instance(
        Instance(tuple(Buffer(str(i), i % 5, i % 5 + 1 + i % 4, 64 * (1 + i % 7)) for i in range(30)))
    )
    assert result.progress
    assert result.progress[-1].peak_bytes == result.peak_bytes
    assert result.progress[-1].lower_bound_bytes == result.lower_bound_bytes
