"""What the joint plan of order and arena claims, against every order of small random graphs."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from itertools import permutations

import pytest

import fuseline as fl
from fuseline.errors import InfeasibleError
from fuseline.plan.inplace import Operation, Origin, StorageGraph, StoredValue, Use
from fuseline.plan.joint import plan_graph
from fuseline.plan.schedule import least_memory
from fuseline.plan.schedule.least_memory import order_for_least_memory
from fuseline.plan.schedule.problem import ScheduleProblem, Value, peak_of


def random_graph(rng: random.Random, count: int = 5, alignments: tuple[int, ...] = (1,)) -> StorageGraph:
    sizes = [rng.choice((4, 4, 8, 12, 32)) for _ in range(count + 1)]
    values = [StoredValue("x", sizes[0], 4, Origin.INPUT)]
    operations = []
    for k in range(count):
        operands = rng.sample(range(k + 1), min(k + 1, rng.randint(1, 2)))
        values.append(
            StoredValue(
                f"v{k}", sizes[k + 1], 4, output=k == count - 1 or rng.random() < 0.3, alignment=rng.choice(alignments)
            )
        )
        operations.append(Operation(f"f{k}", (k + 1,), tuple(Use(v, True, True) for v in operands)))
    return StorageGraph(tuple(values), tuple(operations))


def orders(problem: ScheduleProblem) -> list[tuple[int, ...]]:
    return [
        order
        for order in permutations(range(problem.operation_count))
        if all(order.index(b) < order.index(u) for u in order for b in problem.before[u])
    ]


def alive_by_hand(graph: StorageGraph, order: tuple[int, ...], alignment: int) -> int:
    """The most bytes alive at once, each value a multiple of ``alignment`` long; operation k makes value k + 1."""
    last = {v: order.index(v - 1) for v in range(1, len(graph.values))}
    for t, u in enumerate(order):
        last |= {use.value: t for use in graph.operations[u].operands if use.value}
    last |= {v: len(order) for v in last if graph.values[v].output}
    most, alive = 0, set[int]()
    for t, u in enumerate(order):
        size = graph.values[u + 1].size_bytes
        dying = [use.value for use in graph.operations[u].operands if use.value and last[use.value] == t]
        taken = next((v for v in dying if graph.values[v].size_bytes == size), None)
        alive = alive - {taken} | {u + 1}
        most = max(most, sum(-(-graph.values[v].size_bytes // alignment) * alignment for v in alive))
        alive = {v for v in alive if last[v] > t}
    return most


@pytest.mark.parametrize("alignment", [1, 16, 64])
def test_the_order_is_the_best_of_all_by_what_lies_in_the_arena(alignment: int) -> None:
    rng = random.Random(alignment)
    for _ in range(120):
        graph = random_graph(rng, rng.randint(1, 6), (alignment,))
        plan = plan_graph(graph)
        every = orders(graph.schedule_problem)
        least = min(alive_by_hand(graph, order, alignment) for order in every)
        assert plan.lower_bound_bytes == plan.peak_bytes == alive_by_hand(graph, plan.order, alignment) == least
        if plan.arena.peak_bytes > least:  # whole buffers need not fill what sums fill: no order may do better
            assert not plan.optimal
            assert plan.arena.peak_bytes == min(plan_graph(graph, order=order).arena.peak_bytes for order in every)


def test_small_arrays_are_ordered_by_the_lines_that_they_fill() -> None:
    source = (
        "x: f32[T,D]; y: f32[T,D]; c: f32[D]; e: f32[T,1]; s: f32[]; "
        "v0=maximum(s,c); v1=maximum(y,c); v2=e+s; v3=v1*v2; v4=v3*v0; v5=x-c"
    )
    plan = fl.plan_program(source, sizes={"T": 3, "D": 4}, alignment=64)
    assert (plan.arena.peak_bytes, plan.optimal) == (128, True)
    # The figures that are compared with the arena count as it does.
    assert plan.peak_bytes == 128 <= min(plan.program_order_peak_bytes, plan.peak_without_reuse_bytes)
    assert fl.explain(source, sizes={"T": 3, "D": 4}).memory.placement.peak_bytes == 128


@pytest.mark.parametrize("alignment", [1, 16, 64])
def test_one_instruction_is_proven_at_every_alignment(alignment: int) -> None:
    plan = fl.plan_program("out = x + y", "4x4", alignment=alignment)
    assert (plan.arena.peak_bytes, plan.optimal) == (max(32, alignment), True)
    with pytest.raises(InfeasibleError, match="infeasible: every order keeps"):
        fl.plan_program("out = x + y", "4x4", alignment=alignment, capacity=max(32, alignment) - 1)


@pytest.mark.parametrize("alignments", [(1,), (64,), (1, 16, 64), (4, 6)])
def test_bound_and_optimality_hold_for_all_orders(alignments: tuple[int, ...]) -> None:
    rng = random.Random(5)
    proven = 0
    for k in range(40):
        graph = random_graph(rng, alignments=alignments)
        plan = plan_graph(graph, exact=k % 4 > 0)
        problem = graph.schedule_problem
        arenas = [plan_graph(graph, order=order).arena.peak_bytes for order in orders(problem)]
        assert problem.footprint_bytes <= min(peak_of(problem, order) for order in orders(problem))
        assert plan.lower_bound_bytes <= min(arenas) <= plan.arena.peak_bytes
        if plan.optimal:
            proven += 1
            assert plan.arena.peak_bytes == min(arenas)
        found = plan.to_dict()
        assert (found["lower_bound_bytes"], found["optimal"]) == (plan.lower_bound_bytes, plan.optimal)
        for claim in (found, found["in_this_order"]):
            assert (claim["stopped_because"] == "optimal") == claim["optimal"]
        assert found["gap"] == found["peak_bytes"] / found["lower_bound_bytes"] - 1
        assert found["proof_covers"] == "all orders"
        assert found["valid_for"] == "sequential execution in this order"
        arena = plan.arena.to_dict()
        assert found["in_this_order"] == {name: arena[name] for name in found["in_this_order"]}
    assert proven >= 20


def test_optimal_in_one_order_is_not_called_optimal() -> None:
    graph = forked()
    bad = plan_graph(graph, order=(0, 1, 2, 3, 4), in_place=False)
    good = plan_graph(graph, in_place=False)
    assert bad.arena.optimal
    assert bad.to_dict()["proof_covers"] == "this order"
    assert bad.bound_derivation.startswith("in the given order")
    assert good.arena.peak_bytes < bad.arena.peak_bytes
    assert good.optimal


def forked() -> StorageGraph:
    """Two large values, each read down to a small one: one after the other is better than both at once."""
    sizes = {"x": 4, "large1": 100, "large2": 100, "small1": 4, "small2": 4, "out": 4}
    values = tuple(
        StoredValue(name, size, 4, Origin.INPUT if name == "x" else Origin.COMPUTED, output=name == "out")
        for name, size in sizes.items()
    )
    reads = {1: (0,), 2: (0,), 3: (1,), 4: (2,), 5: (3, 4)}
    return StorageGraph(
        values, tuple(Operation(values[v].name, (v,), tuple(map(Use, operands))) for v, operands in reads.items())
    )


def test_a_capacity_is_called_infeasible_only_where_no_order_fits() -> None:
    graph = forked()
    with pytest.raises(InfeasibleError, match="infeasible: every order keeps"):
        plan_graph(graph, capacity_bytes=50)
    schedule = plan_graph(graph).schedule
    assert schedule is not None
    # As if the search for an order had stopped early, with an order that does not fit while another might.
    poor = replace(schedule, order=(0, 1, 2, 3, 4), lower_bound_bytes=8)
    plan = plan_graph(graph, schedule=poor, in_place=False, capacity_bytes=150)
    assert plan.arena.peak_bytes > 150
    assert not plan.optimal


def test_all_that_is_kept_bounds_every_order() -> None:
    values = tuple(Value(10, u, (), kept=True) for u in range(6))
    assert ScheduleProblem(6, values).footprint_bytes == 60


def test_of_several_operands_to_take_the_bound_counts_the_one_that_saves_most() -> None:
    values = (Value(8, -1, (1,)), Value(2, 0, (1,)), Value(8, 1, (), kept=True))
    problem = ScheduleProblem(2, values, in_place=((1, 2, 0), (1, 2, 1)))
    assert problem.footprint_bytes <= peak_of(problem, (0, 1)) == 10


def test_both_searches_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from fuseline.plan import joint

    given: list[float] = []
    for name in ("order_for_least_memory", "plan_instance"):
        call = getattr(joint, name)

        def spy(*args: object, call: object = call, **options: object) -> object:
            given.append(options["time_limit_s"])  # type: ignore[arg-type]
            return call(*args, **options)  # type: ignore[operator]

        monkeypatch.setattr(joint, name, spy)
    now = iter((0.0, 40.0, 70.0))
    monkeypatch.setattr(joint, "time", type("Clock", (), {"perf_counter": staticmethod(lambda: next(now))}))
    plan = plan_graph(forked(), time_limit_s=100)
    assert given == [50, 60]
    assert plan.seconds == plan.to_dict()["seconds"] == 70
    assert plan.to_dict()["in_this_order"]["seconds"] == plan.arena.seconds


def hard_to_order() -> StorageGraph:
    """A graph whose largest operation needs less than any order, so that only a search of all of them proves one."""
    rng = random.Random(2)
    while True:
        graph = random_graph(rng, 7)
        problem = graph.schedule_problem
        if order_for_least_memory(problem).lower_bound_bytes > problem.footprint_bytes:
            return graph


HARD_TO_ORDER = hard_to_order()


def interrupted(*_: object) -> tuple[list[int], bool]:
    raise KeyboardInterrupt


def unfinished(*_: object) -> tuple[None, bool]:
    return None, False


ENDINGS = {
    "optimal": {},
    "interrupted": {"least_memory_order": interrupted},
    "effort spent": {"least_memory_order": unfinished},
    "time limit": {"time": type("Clock", (), {"perf_counter": staticmethod(itertools.count(0, 10).__next__)})},
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_reason_for_stopping_is_that_of_the_search_that_leaves_the_proof_open(
    monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    for name, replacement in ENDINGS[ending].items():
        monkeypatch.setattr(least_memory, name, replacement)
    plan = plan_graph(HARD_TO_ORDER, time_limit_s=10)
    found = plan.to_dict()
    assert found["stopped_because"] == plan.stopped_because == ending
    assert found["optimal"] == (ending == "optimal")
    assert (found["in_this_order"]["stopped_because"], found["in_this_order"]["optimal"]) == ("optimal", True)


def test_ctrl_c_during_the_search_of_an_order_gives_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_memory, "least_memory_order", interrupted)
    plan = plan_graph(HARD_TO_ORDER)
    assert sorted(plan.order) == list(range(7))
    assert plan.peak_bytes == min(peak for _, peak in plan.schedule.peaks)  # type: ignore[union-attr]
    with pytest.raises(KeyboardInterrupt):  # whose work is bounded has asked for no answer before its time
        plan_graph(HARD_TO_ORDER, bounded=True)
    monkeypatch.setitem(least_memory.ORDERS, "program order", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan_graph(HARD_TO_ORDER)


def test_of_two_endings_the_one_that_more_time_would_change_is_told() -> None:
    plan = plan_graph(HARD_TO_ORDER)
    assert plan.schedule is not None

    def told(order: str, arena: str) -> str:
        schedule = replace(plan.schedule, stopped_because=order)  # type: ignore[type-var]
        bound = replace(plan.order_bound, size_bytes=plan.lower_bound_bytes - 4)  # type: ignore[type-var]
        ended = replace(plan.arena, stopped_because=arena)
        return replace(plan, schedule=schedule, order_bound=bound, arena=ended).stopped_because

    assert told("effort spent", "time limit") == told("time limit", "effort spent") == "time limit"
    assert told("interrupted", "time limit") == told("time limit", "interrupted") == "interrupted"
    assert told("time limit", "capacity reached") == "capacity reached"
    # Both searches ended with a proof, and yet sums that fit need no arena that does.
    assert told("optimal", "optimal") == told("effort spent", "optimal") == "effort spent"


@pytest.mark.parametrize("uncounted", ["workspace", "outside", "donated"])
def test_no_bound_counts_what_lies_outside_the_arena(uncounted: str) -> None:
    """Scratch of one operation, one value of its own memory and one donated input among several counted ones."""
    values = [
        StoredValue("x", 96, 4, Origin.DONATED if uncounted == "donated" else Origin.INPUT),
        StoredValue("y", 8, 4, Origin.INPUT),
        StoredValue("a", 96, 4, outside=uncounted == "outside"),
        StoredValue("b", 8, 4, output=True),
    ]
    workspace = 96 if uncounted == "workspace" else 0
    operations = (
        Operation("a", (2,), (Use(0, True, True), Use(1))),
        Operation("b", (3,), (Use(2), Use(1)), workspace_bytes=workspace),
    )
    graph = StorageGraph(tuple(values), operations)
    plan = plan_graph(graph)
    needed = {"workspace": 104, "outside": 8, "donated": 8}[uncounted]
    assert plan.arena.peak_bytes == needed
    assert plan.lower_bound_bytes <= needed
    assert plan_graph(graph, capacity_bytes=needed).arena.peak_bytes == needed
