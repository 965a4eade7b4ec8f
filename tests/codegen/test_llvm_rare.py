"""Work behind a branch gives the bits of the unmarked graph, whichever lanes take it, and stands behind one branch."""

from __future__ import annotations

import numpy as np
import pytest

from arrays import first_difference, same_bits
from fuseline.codegen.llvm.body import body_text
from fuseline.codegen.llvm.order import RareWork, schedule
from fuseline.ir.build import Expr, call, where
from fuseline.ir.dtype import F32, F64
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import interpret
from fuseline.ir.text import parse_graph, print_graph
from fuseline.runtime import host, iterate
from kernels import loop_of
from primitive_graphs import graph_of, operands


def marked(condition: Expr, rare: Expr, common: Expr) -> Expr:
    return call("where", condition, rare, common, rare=True)


def two_choices() -> Graph:
    """Two results of one rare computation, beside ordinary work."""
    (x,) = operands(F64)
    shared = call("sqrt", x * x + 3.0) / (x + 0.25)
    large = x > 4.0
    a = marked(large, shared + 1.0, x * 2.0)
    b = marked(large, shared - x, x - 0.5)
    return graph_of([x], [a * b, a + x])


def chained() -> Graph:
    """A rare operand that depends on another choice under the same condition."""
    (x,) = operands(F32)
    large = x > 4.0
    a = marked(large, x * x, x + 1.0)
    b = marked(large, call("sqrt", a), a - 1.0)
    return graph_of([x], [b])


def shared_with_ordinary_work() -> Graph:
    """A rare operand that the output needs as well, a constant one, and one that is the common operand too."""
    (x,) = operands(F32)
    needed = x * 3.0
    large = x > 4.0
    c = marked(large, x.like(7.0), x)
    d = marked(large, needed, x)
    e = marked(x < -4.0, c * 2.0, c * 2.0)
    return graph_of([x], [c + d + e, needed])


def nested() -> Graph:
    """Rarer work that only rare work needs, and beside it some whose condition the rare work knows."""
    (x,) = operands(F64)
    large, root = x > 4.0, call("sqrt", x)
    rarer = root > 2.75
    inner = marked(rarer, call("floor", root * 5.0) - 1.0, root * 2.0)
    other = marked(rarer, root / 3.0, root)
    return graph_of([x], [marked(large, inner - other, x + 1.0)])


def nested_in_steps() -> Graph:
    """A choice in rare work that another choice under its condition waits for, by way of what is not of that choice."""
    (x,) = operands(F64)
    root = call("sqrt", x)
    rarer = root > 2.75
    first = marked(rarer, root * 3.0, root)
    between = first + 0.5
    second = marked(rarer, between * root, root - 1.0)
    return graph_of([x], [marked(x > 4.0, second - between, x + 1.0)])


@pytest.mark.parametrize("graph", [two_choices(), chained(), shared_with_ordinary_work(), nested(), nested_in_steps()])
@pytest.mark.parametrize("name", ["native", host.target_names()[0]])
def test_marked_choices_give_the_same_bits_for_any_mixture_of_lanes(graph: Graph, name: str) -> None:
    from fuseline.codegen.llvm.target import target

    chosen = host.host_target() if name == "native" else target(name)
    d = graph.inputs[0].dtype.numpy
    generator = np.random.default_rng(3)
    common, rare = generator.uniform(-3, 3, 257).astype(d), generator.uniform(5, 9, 257).astype(d)
    single = common.copy()
    single[[0, 70, 256]] = 6.0
    mixed = np.where(generator.random(257) < 0.5, common, rare).astype(d)
    loop = loop_of(graph, chosen)
    for array in (common, rare, single, mixed, np.array([np.nan, np.inf, -np.inf, -0.0] * 9, d)):
        expected = interpret(graph, {graph.input_names[0]: array})
        found = iterate.run(loop, [array], [None] * len(graph.outputs))
        for value, result in zip(expected.values(), found, strict=True):
            assert same_bits(value, result), first_difference(value, result)


def test_rarer_work_stands_behind_a_branch_of_its_own_inside() -> None:
    (work,) = [i for i in schedule(nested()) if isinstance(i, RareWork)]
    (inner,) = [i for i in work.instructions if isinstance(i, RareWork)]
    assert len(inner.choices) == 2
    assert "floor" in {n.op for n in inner.nodes()}
    assert {n.op for n in work.instructions if not isinstance(n, RareWork)} >= {"sqrt", "gt"}
    (flat,) = [i for i in schedule(nested_in_steps()) if isinstance(i, RareWork)]
    assert not any(isinstance(i, RareWork) for i in flat.instructions)


def test_choices_under_one_condition_share_one_branch() -> None:
    graph = two_choices()
    items = schedule(graph)
    (work,) = [i for i in items if isinstance(i, RareWork)]
    assert len(work.choices) == 2
    assert {n.op for n in work.instructions} >= {"sqrt", "div"}
    text = body_text(graph, host.host_target()).text
    assert text.count("label %rare") == 1
    before, after = text.split("br i1", 1)
    assert "llvm.sqrt" not in before and "llvm.sqrt" in after


def test_wide_work_behind_a_branch_does_not_shorten_the_vectors() -> None:
    (x,) = operands(F32)
    plain = body_text(graph_of([x], [x * 2.0]), host.host_target())
    rare = call("sqrt", x.cast(F64) + 1.0).cast(F32)
    behind = body_text(graph_of([x], [marked(x > 4.0, rare, x * 2.0)]), host.host_target())
    assert behind.lanes == plain.lanes


def test_a_choice_that_depends_on_another_is_not_gathered_with_it() -> None:
    graph = chained()
    assert set(schedule(graph)) == set(graph.nodes)


def test_what_others_need_is_not_put_behind_the_branch() -> None:
    graph = shared_with_ordinary_work()
    inside = [n for i in schedule(graph) if isinstance(i, RareWork) for n in i.instructions]
    assert graph.output_nodes[1] not in inside


def test_unmarked_graphs_have_no_branch() -> None:
    (x,) = operands(F32)
    graph = graph_of([x], [where(x > 0.0, x * 2.0, x * 3.0)])
    assert set(schedule(graph)) == set(graph.nodes)
    assert "label %rare" not in body_text(graph, host.host_target()).text


def test_operands_come_first_and_the_one_that_needs_more_registers_before_the_other() -> None:
    x, y = operands(F32, F32)
    single = x * 3.0
    heavy = (x + y) * (x - y)
    graph = graph_of([x, y], [single - heavy, single])
    order = schedule(graph)
    assert order.index(heavy.node) < order.index(single.node)
    assert all(order.index(a) < order.index(n) for n in graph.nodes for a in n.args if not a.is_source)


def test_long_chains_are_ordered_without_recursion() -> None:
    (x,) = operands(F32)
    value = x
    for _ in range(30_000):
        value = value * x
    graph = graph_of([x], [value])
    assert schedule(graph) == list(graph.nodes)


def test_the_mark_survives_the_text_form() -> None:
    graph = two_choices()
    assert parse_graph(print_graph(graph)) == graph
