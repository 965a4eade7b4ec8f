"""Greedy buffers: legality of every reuse, checked by simulating who holds what."""

import random
from itertools import pairwise

import pytest

from fuseline.api.program import graph, optimize
from fuseline.plan.buffers import assign_buffers
from fuseline.plan.order import better_buffers, may_have_better_order, schedule_storages
from fuseline.plan.program_order import arena_in_program_order
from fuseline.plan.storage_graph import storage_graph

COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"


def in_best_order(g, size_of):
    computed = set(g.nodes)
    storages = storage_graph(g, lambda node: size_of(node) if node in computed else 0)
    return better_buffers(g, size_of, assign_buffers(g, size_of), schedule_storages(storages))


def simulate(g, plan):
    """Run the plan on labels instead of numbers: a buffer holds what was last written, every read must find its own."""
    holds, where = {}, {}
    for a in plan.assignments:
        for arg in a.value.args:
            assert arg.is_source or holds[where[arg]] is arg, "an operand was overwritten"
        holds[a.buffer] = a.value
        where[a.value] = a.buffer
    for node in g.output_nodes:
        assert node.is_source or holds[where[node]] is node, "an output was overwritten"


def test_the_course_program_needs_three_and_in_the_best_order_two():
    g = optimize(graph(COURSE))
    in_order = assign_buffers(g, lambda n: 1)
    best = in_best_order(g, lambda n: 1)
    assert (in_order.buffer_count, best.buffer_count) == (3, 2)
    assert (in_order.most_alive, best.most_alive) == (3, 2)


def random_graph(seed):
    """A random program over a matrix and a vector, and the bytes of its values."""
    rng = random.Random(seed)
    names = ["x", "b"]
    lines = ["x: f32[T, D]", "b: f32[D]"]
    for i in range(rng.randint(1, 30)):
        a, b = rng.choice(names), rng.choice(names)
        text = rng.choice(
            [f"{a} + {b}", f"exp({a})", f"{a}*{b}", f"f64({a})", f"sum({a}, -1)", f"{a} > {b}", f"f32({a})"]
        )
        lines.append(f"v{i} = {text}")
        names.append(f"v{i}")
    g = optimize(graph("\n".join(lines), sizes={"T": 8, "D": 5}))
    return g, lambda n: n.dtype.size_bytes(n.tensor.element_count())


@pytest.mark.parametrize("seed", range(200))
def test_no_value_is_overwritten_while_it_is_needed(seed):
    g, sizes = random_graph(seed)
    for plan in (assign_buffers(g, sizes), in_best_order(g, sizes)):
        simulate(g, plan)
        assert all(plan.buffer_sizes_bytes[a.buffer] >= a.size_bytes for a in plan.assignments)
        assert sorted(map(id, plan.order)) == sorted(map(id, g.nodes))


def test_a_result_never_takes_an_input_or_a_smaller_operand():
    g = graph("x: f32[T, D]; b: f32[D]; c = b*2; y = x + c", sizes={"T": 4, "D": 3})
    plan = assign_buffers(g, lambda n: 4 * n.tensor.element_count())
    assert not any(a.in_place for a in plan.assignments)


def test_a_cast_to_another_width_is_not_in_place():
    plan = assign_buffers(graph("h = x + 1; y = f64(h)"), lambda n: n.dtype.bits // 8)
    assert not any(a.in_place for a in plan.assignments)


def test_a_reduction_is_not_in_place():
    g = graph("x: f32[1, 1]; h = x + 1; s = sum(h, 1)")
    assert not any(a.in_place for a in assign_buffers(g, lambda n: 4).assignments)


def test_only_the_last_reader_overwrites():
    g = graph("h = x + 1; a = exp(h); b = h*2; y = a + b")
    plan = assign_buffers(g, lambda n: 1)
    assert [a.in_place for a in plan.assignments] == [False, False, True, True]


def test_the_order_is_not_searched_where_program_order_is_the_least_possible() -> None:
    chain = optimize(graph("; ".join(f"v{i + 1} = v{i}*{i}.5 + x" for i in range(200)) + "; out = v200", "f32"))
    in_order = assign_buffers(chain, lambda n: 4)
    assert not may_have_better_order(chain, lambda n: 4, in_order)
    assert in_order.buffer_count == 1


def test_the_buffer_of_a_value_that_nobody_reads_is_used_again():
    g = graph("d = exp(x); y = log(x); z = x*2 + y", outputs=["z"])
    assert [n.op for n in g.nodes] == ["exp", "log", "mul", "add"]
    plan = assign_buffers(g, lambda n: 1)
    simulate(g, plan)
    assert (plan.buffer_count, plan.most_alive) == (2, 2)


@pytest.mark.parametrize("alignment", [1, 64])
@pytest.mark.parametrize("seed", range(25))
def test_the_arena_of_a_greedy_plan_says_where_and_how_long_each_value_lies(seed, alignment):
    g, sizes = random_graph(seed)
    plan = assign_buffers(g, sizes)
    found = arena_in_program_order(plan, lambda t: f"v{t}", alignment, "greedy")
    lifetimes = storage_graph(g, sizes).lifetimes(range(len(g.nodes)))[len(g.inputs) :]
    assert [(s.value, s.step, s.lower, s.upper) for s in found.stored] == [
        (t, t, *lifetimes[t]) for t in range(len(g.nodes))
    ]
    placed = {}  # first value of a storage -> (offset, bytes, from, until)
    for s, a in zip(found.stored, plan.assignments, strict=True):
        assert s.size_bytes == sizes(a.value) and s.offset % alignment == 0
        assert (s.over is not None) == a.in_place
        if a.in_place:
            assert a.value.args and g.nodes[s.over] in a.value.args and found.stored[s.over].buffer == s.buffer
        offset, size, lower, upper = placed.get(
            s.buffer, (s.offset, -(-s.size_bytes // alignment) * alignment, s.lower, 0)
        )
        assert offset == s.offset and s.size_bytes <= size
        placed[s.buffer] = (offset, size, lower, max(upper, s.upper))
    alive = [
        [(o, o + size) for o, size, lower, upper in placed.values() if lower <= t < upper] for t in range(len(g.nodes))
    ]
    for ranges in alive:
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(ranges)))
    assert found.peak_bytes == max(sum(high - low for low, high in ranges) for ranges in alive)
    assert found.arena.peak_bytes >= found.peak_bytes
