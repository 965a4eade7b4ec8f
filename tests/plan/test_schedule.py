"""Promises of the order for least memory, checked against all orders of small graphs."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuseline.errors import PlanError
from fuseline.plan.schedule.beam import beam_order
from fuseline.plan.schedule.downsets import least_memory_order
from fuseline.plan.schedule.greedy import ORDERS
from fuseline.plan.schedule.least_memory import order_for_least_memory
from fuseline.plan.schedule.problem import ScheduleProblem, Value, peak_of


def edges(text: str) -> ScheduleProblem:
    """``A->B 10, B->C 20`` as a problem: a value an edge, a mere constraint where the size is 0."""
    parts = [part.replace("->", " ").split() for part in text.split(",")]
    names = tuple(dict.fromkeys(name for a, b, _ in parts for name in (a, b)))
    found = [(names.index(a), names.index(b), int(size)) for a, b, size in parts]
    values = tuple(Value(size, a, (b,)) for a, b, size in found if size)
    return ScheduleProblem(len(names), values, tuple((a, b) for a, b, size in found if not size), names=names)


def peak_by_hand(problem: ScheduleProblem, order: tuple[int, ...]) -> int | None:
    """Sum of what is alive at each step, straight from the definition; ``None`` where ``order`` breaks a dependence."""
    position = {u: t for t, u in enumerate(order)}
    if any(position[a] > position[b] for a, b in problem.after):
        return None
    peak = 0
    for t in range(-1, len(order)):
        alive = 0
        for value in problem.values:
            start = position[value.producer] if value.producer >= 0 else -1
            if any(position[r] <= start for r in value.readers):
                return None
            last = max((position[r] for r in value.readers), default=start)
            if value.kept:
                last = len(order)
            if start < 0 and not value.readers and not value.kept:
                continue
            alive += value.size_bytes if start <= t <= last else 0
        if t >= 0:
            dying = {
                v
                for v in problem.reads[order[t]]
                if not problem.values[v].kept and max(position[r] for r in problem.values[v].readers) == t
            }
            used: set[int] = set()
            for u, result, operand in problem.in_place:
                if u == order[t] and operand in dying and not used & {operand, result}:
                    used |= {operand, result}
                    alive -= problem.values[result].size_bytes
            alive += problem.workspace_bytes[order[t]] if problem.workspace_bytes else 0
        peak = max(peak, alive)
    return peak


@pytest.mark.parametrize(
    ("graph", "peak"),
    [
        ("A->B 10, B->C 20, B->D 30, D->E 40", 70),
        ("A->B 10, B->C 20, B->D 30, D->E 40, E->F 50, C->F 60, F->G 10", 130),
        ("A->B 10, B->C 20, B->D 30, D->E 40, E->F 50, C->F 60, F->G 10, C->E 0", 150),
        ("A->B 10, A->C 20, B->D 30, D->E 40, C->E 50", 110),
    ],
)
def test_known_graphs_get_their_least_peak_and_its_proof(graph: str, peak: int) -> None:
    schedule = order_for_least_memory(edges(graph))
    assert schedule.peak_bytes == peak
    assert schedule.optimal


@st.composite
def problems(draw: st.DrawFn, most: int = 7) -> ScheduleProblem:
    n = draw(st.integers(1, most))
    values = []
    in_place = []
    for u in range(-1, n):
        for _ in range(draw(st.integers(0 if u < 0 else 1, 2))):
            later = list(range(u + 1, n))
            readers = draw(st.lists(st.sampled_from(later), max_size=3)) if later else []
            values.append(Value(draw(st.integers(0, 9)), u, tuple(readers), kept=draw(st.booleans())))
    for r, result in enumerate(values):
        for o, operand in enumerate(values):
            same = result.size_bytes == operand.size_bytes and result.producer in operand.readers
            if result.producer >= 0 and same and draw(st.booleans()):
                in_place.append((result.producer, r, o))
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    after = draw(st.lists(st.sampled_from(pairs), max_size=2)) if pairs else []
    workspace = tuple(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))) if draw(st.booleans()) else ()
    return ScheduleProblem(n, tuple(values), tuple(after), tuple(in_place), workspace)


def never() -> bool:
    return False


@settings(max_examples=120, deadline=None)
@given(problems(most=6))
def test_the_exact_order_is_the_best_of_all_orders(problem: ScheduleProblem) -> None:
    every = (peak_by_hand(problem, order) for order in itertools.permutations(range(problem.operation_count)))
    best = min(peak for peak in every if peak is not None)
    order, complete = least_memory_order(problem, 100_000, 1 << 60, never)
    assert complete and order is not None
    assert peak_by_hand(problem, tuple(order)) == peak_of(problem, order) == best
    schedule = order_for_least_memory(problem)
    assert (schedule.peak_bytes, schedule.lower_bound_bytes) == (best, best)


@settings(max_examples=120, deadline=None)
@given(problems(most=12))
def test_every_method_gives_a_schedule_and_the_peak_it_claims(problem: ScheduleProblem) -> None:
    found = [rule(problem, never) for rule in ORDERS.values()]
    beam = beam_order(problem, 4, never)
    assert beam is not None
    for order in (*found, beam):
        assert sorted(order) == list(range(problem.operation_count))
        assert peak_of(problem, order) == peak_by_hand(problem, tuple(order))
    schedule = order_for_least_memory(problem)
    assert schedule.peak_bytes == min(peak for _, peak in schedule.peaks) == peak_by_hand(problem, schedule.order)
    assert schedule.lower_bound_bytes <= schedule.peak_bytes


def test_allocations_and_frees_of_one_step_do_not_cancel() -> None:
    problem = ScheduleProblem(2, (Value(10, 0, (1,)), Value(10, 1, kept=True)))
    assert peak_of(problem, [0, 1]) == 20
    in_place = ScheduleProblem(2, problem.values, in_place=((1, 1, 0),))
    assert peak_of(in_place, [0, 1]) == 10


def test_the_bias_gelu_residual_program_goes_from_three_values_to_two() -> None:
    # h = x + b; out = 0.5 * h * (1 + tanh(c * (h + d * h * h * h))) + r, left to right, elementwise in place;
    # inputs are not counted.
    reads = [(), (0,), (0,), (2, 0), (3, 0), (0, 4), (5,), (6,), (7,), (1, 8), (9,)]
    readers: list[list[int]] = [[] for _ in reads]
    for u, operands in enumerate(reads):
        for v in operands:
            readers[v].append(u)
    values = tuple(Value(1, u, tuple(r), kept=u == 10) for u, r in enumerate(readers))
    in_place = tuple((u, u, v) for u, operands in enumerate(reads) for v in operands)
    problem = ScheduleProblem(11, values, in_place=in_place)
    assert peak_of(problem, range(11)) == 3
    schedule = order_for_least_memory(problem)
    assert schedule.peak_bytes == 2
    assert schedule.optimal


def test_a_cycle_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match="cycle through B, C"):
        edges("A->B 1, B->C 1, C->B 1")


def test_an_order_that_breaks_a_dependence_is_refused() -> None:
    with pytest.raises(PlanError, match="B runs before A"):
        peak_of(edges("A->B 1"), [1, 0])


def test_a_chain_of_a_hundred_thousand_operations_is_ordered() -> None:
    n = 100_000
    problem = ScheduleProblem(n, tuple(Value(1, u, (u + 1,) if u + 1 < n else ()) for u in range(n)))
    schedule = order_for_least_memory(problem)
    assert schedule.peak_bytes == 2
    assert schedule.optimal


@settings(max_examples=100, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_operations_may_be_given_in_any_order(problem: ScheduleProblem, rng: random.Random) -> None:
    count = problem.operation_count
    to = list(range(count))
    rng.shuffle(to)
    renamed = ScheduleProblem(
        count,
        tuple(
            replace(v, producer=to[v.producer] if v.producer >= 0 else -1, readers=tuple(to[r] for r in v.readers))
            for v in problem.values
        ),
        tuple((to[a], to[b]) for a, b in problem.after),
        tuple((to[u], result, operand) for u, result, operand in problem.in_place),
        tuple(problem.workspace_bytes[to.index(u)] for u in range(count)) if problem.workspace_bytes else (),
    )
    done: list[int] = []
    while len(done) < count:  # always the ready operation of the smallest index
        ready = (u for u in range(count) if u not in done and set(renamed.before[u]) <= set(done))
        done.append(min(ready))
    assert renamed.program_order == done
    assert renamed.footprint_bytes == problem.footprint_bytes
    found, wanted = order_for_least_memory(renamed), order_for_least_memory(problem)
    assert (found.peak_bytes, found.lower_bound_bytes) == (wanted.peak_bytes, wanted.lower_bound_bytes)


@settings(max_examples=100, deadline=None)
@given(problems(most=6))
def test_every_operation_needs_what_it_reads_and_makes_beside_what_was_kept_from_the_start(
    problem: ScheduleProblem,
) -> None:
    plain = problem.without_reuse()
    kept = {v for v, value in enumerate(problem.values) if value.kept}
    start = {v for v in kept if problem.values[v].producer < 0}
    needed = [sum(problem.values[v].size_bytes for v in kept)]
    for u in range(problem.operation_count):
        held = start | {v for v, value in enumerate(problem.values) if u in value.readers or value.producer == u}
        scratch = problem.workspace_bytes[u] if problem.workspace_bytes else 0
        needed.append(sum(problem.values[v].size_bytes for v in held) + scratch)
    assert problem.footprint_bytes <= max(needed)
    assert plain.footprint_bytes == problem.without_reuse().footprint_bytes == max(needed)


@settings(max_examples=60, deadline=None)
@given(problems(most=6))
def test_a_beam_that_drops_nothing_ends_with_the_least_peak(problem: ScheduleProblem) -> None:
    order = beam_order(problem, 1_000, never)
    assert order is not None
    least = order_for_least_memory(problem)
    assert least.optimal
    assert peak_of(problem, order) == least.peak_bytes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, (Value(-1, 0),)), "value 0: its size is negative"),
        ((1, (Value(1, 1),)), "value 0 names operation 1 of 1"),
        ((1, (Value(1, -2),)), "value 0 names operation -2 of 1"),
        ((1, (Value(1, 0, (3,)),)), "value 0 names operation 3 of 1"),
        ((1, (Value(1, 0, (-1,)),)), "value 0 names operation -1 of 1"),
        ((2, (), ((0, 2),)), "0 before 2 names an operation outside 0..1"),
        ((2, (), ((-1, 0),)), "-1 before 0 names an operation outside 0..1"),
        ((2, (Value(1, 0), Value(1, 1)), (), ((1, 1, 0),)), "neither makes value 1 nor reads value 0"),
        ((2, (Value(1, 0, (1,)), Value(1, 0)), (), ((1, 1, 0),)), "neither makes value 1 nor reads value 0"),
    ],
)
def test_what_names_no_operation_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        ScheduleProblem(*arguments)
