"""Expansion keeps inputs, names, types and, for exact operations, bits; only primitives and reductions are left."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fuseline.errors import TypeRuleError
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.dtype import BF16, DTYPES, F16, F32, DType
from fuseline.ir.graph import Graph
from fuseline.ir.infer import apply
from fuseline.ir.interpret import interpret
from fuseline.ir.verify import verify
from fuseline.mathlib.expand import expand
from fuseline.mathlib.functions import FUNCTIONS
from fuseline.ops import OPERATIONS
from mathlib_evaluation import operation_graph, same_bits

NAMES = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64".split()  # noqa: SIM905
EXACT = [
    row.name
    for row in OPERATIONS.values()
    if row.index_rule == "elementwise"
    and row.type_rule not in ("cast", "bitcast", "lookup")
    and row.name not in FUNCTIONS
]


def values(d: DType) -> np.ndarray[Any, Any]:
    """Zeros, ones, extremes, NaN and infinities, halves, subnormals."""
    if d.is_float:
        tiny, large = (1e-40, 1e30) if d.bits >= 32 else (1e-7, 1e4)
        numbers = [0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 0.1, 2.5, -2.5, 3, -3, 0.5, 7, -7.5, tiny, large]
        return np.array(numbers).astype(d.numpy)
    if d.kind == "bool":
        return np.array([False, True])
    limits = np.iinfo(d.numpy)
    negative = [-1, -2, -7] if d.kind == "int" else []
    return np.array([0, 1, 2, 3, 7, 5, limits.max, limits.min, *negative], d.numpy)


def admitted(op: str) -> list[tuple[str, ...]]:
    """The dtype combinations the operation accepts."""
    found = []
    arity = OPERATIONS[op].arity
    for pair in itertools.product(NAMES, repeat=min(arity, 2)):
        combination = (*pair, *pair[-1:] * (arity - len(pair)))
        if op == "where":
            combination = ("bool", *combination[1:])
        try:
            operation_graph(op, *combination)
        except TypeRuleError:
            continue
        found.append(combination)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("op", EXACT)
def test_exact_operations_expand_to_primitives_with_the_same_bits(op: str) -> None:
    combinations = admitted(op)
    assert combinations
    for combination in combinations:
        graph = operation_graph(op, *combination)
        expanded = expand(graph)
        verify(expanded)
        assert all(OPERATIONS[n.op].primitive for n in expanded.nodes), combination
        assert expanded.output_types == graph.output_types and expanded.inputs == graph.inputs
        grids = np.meshgrid(*(values(DTYPES[d]) for d in combination), indexing="ij")
        arrays = {f"x{i}": g.ravel() for i, g in enumerate(grids)}
        expected, got = interpret(graph, arrays)["out"], interpret(expanded, arrays)["out"]
        assert expected.dtype == got.dtype
        wrong = ~same_bits(expected, got)
        assert not wrong.any(), (combination, [a[wrong][0] for a in arrays.values()], expected[wrong][0], got[wrong][0])


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "i32"])
def test_functions_expand_to_primitives_and_keep_their_types(op: str, kind: str) -> None:
    graph = operation_graph(op, *[kind] * OPERATIONS[op].arity)
    expanded = expand(graph)
    verify(expanded)
    assert all(OPERATIONS[n.op].primitive for n in expanded.nodes)
    assert expanded.output_types == graph.output_types


@pytest.mark.parametrize("storage", [F16, BF16])
def test_16_bit_floats_are_rounded_only_at_outputs_and_casts(storage: DType) -> None:
    x = Expr(input_node("x", storage))
    kept = call("tanh", x) * 3
    rounded = call("tanh", x).cast(F32).cast(storage) * 3
    graph = Graph([x.node], [("kept", kept.node), ("rounded", rounded.node)])
    array = np.linspace(-3, 3, 101).astype(storage.numpy)
    got = interpret(expand(graph), {"x": array})
    exact = np.tanh(array.astype(np.float64)).astype(np.float32)
    once = (exact * np.float32(3)).astype(storage.numpy)
    twice = (exact.astype(storage.numpy).astype(np.float32) * np.float32(3)).astype(storage.numpy)
    assert (got["kept"].view(np.uint16) == once.view(np.uint16)).all()
    assert (got["rounded"].view(np.uint16) == twice.view(np.uint16)).all()
    assert (once.view(np.uint16) != twice.view(np.uint16)).any()


def test_mixed_dtypes_become_explicit_casts() -> None:
    a, b = input_node("a", DTYPES["i32"]), input_node("b", DTYPES["f64"])
    expanded = expand(Graph([a, b], [("out", apply("add", a, b))]))
    for node in expanded.nodes:
        if node.op == "add":
            assert {arg.dtype.name for arg in node.args} == {"f64"}


def test_a_chain_of_5000_functions_expands_without_recursion() -> None:
    node = input_node("x", F32)
    graph_input = node
    for _ in range(5_000):
        node = apply("relu", node)
    assert len(expand(Graph([graph_input], [("out", node)])).nodes) == 5_000


def test_names_of_the_source_survive() -> None:
    x = input_node("x", F32)
    h = apply("add", x, x)
    y = apply("exp", h)
    expanded = expand(Graph([x], [("out", apply("add", y, h))], names={h: "h", y: "y"}))
    assert set(expanded.names.values()) == {"h", "y"}


def test_reductions_stay_reductions() -> None:
    x = input_node("x", F32, (4, 8))
    node = apply("sum", apply("exp", x), axes=(1,))
    assert [n.op for n in expand(Graph([x], [("out", node)])).nodes][-1] == "sum"


def test_an_input_that_is_an_output_is_left_alone() -> None:
    x = input_node("x", BF16)
    assert expand(Graph([x], [("out", x)])).nodes == ()
