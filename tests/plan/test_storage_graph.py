"""A graph of the IR as storages: what may be overwritten, what is counted, what is an output."""

from __future__ import annotations

import fuseline as fl
from fuseline.ir.graph import Graph
from fuseline.plan.inplace import Origin
from fuseline.plan.joint import plan_graph
from fuseline.plan.storage_graph import storage_graph

ELEMENTS = {"f32": 4, "f64": 8, "i8": 1, "bool": 1}


def bytes_of(graph: Graph) -> dict[object, int]:
    found = {}
    for node in (*graph.inputs, *graph.nodes):
        count = 1
        for dim in node.tensor.shape or (16,):
            count *= int(str(dim))
        found[node] = count * ELEMENTS[node.dtype.name]
    return found


def storages(text: str) -> tuple[Graph, set[tuple[str, str]]]:
    graph = fl.graph(text)
    found = storage_graph(graph, bytes_of(graph).__getitem__)
    return graph, {(found.values[o.result].name, found.values[o.operand].name) for o in found.overwrites}


def test_inputs_are_never_overwritten_and_elementwise_results_may_take_their_operands() -> None:
    _, legal = storages("a = exp(x); b = a + x; out = b * a")
    assert legal == {("b", "a"), ("out", "a"), ("out", "b")}


def test_a_wider_result_takes_nothing() -> None:
    _, legal = storages("a = i8(x); b = f32(a); out = b + 1")
    assert legal == {("out", "b")}


def test_a_broadcast_operand_is_not_overwritten() -> None:
    _, legal = storages("x: f32[4, 8]; b: f32[8]; c = exp(b); d = exp(x); out = c + d")
    assert legal == {("out", "d")}


def test_outputs_live_to_the_end_and_inputs_lie_outside_the_arena() -> None:
    graph = fl.graph("a = exp(x); b = exp(a); c = exp(b)", outputs=["a", "c"])
    found = storage_graph(graph, bytes_of(graph).__getitem__)
    assert [v.origin for v in found.values] == [Origin.INPUT, Origin.COMPUTED, Origin.COMPUTED, Origin.COMPUTED]
    plan = plan_graph(found)
    assert {b.id: b.upper for b in plan.arena.instance.buffers} == {"a": 3, "b": 3}
    assert plan.arena.peak_bytes == 2 * 64


def test_a_name_that_is_bound_again_is_told_apart() -> None:
    graph = fl.graph("h = x + 1; h = h * 2; h = h - x")
    names = [v.name for v in storage_graph(graph, bytes_of(graph).__getitem__).values]
    assert len(set(names)) == len(names)
