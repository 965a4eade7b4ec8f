"""The oracle: agrees with NumPy on programs where the two must agree, rounds 16-bit floats only where the program says,
and evaluates several results and repeated bodies as the program they stand for.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

from arrays import Array, first_difference, same_bits
from fuseline.errors import ShapeError, TypeRuleError
from fuseline.ir import Graph, TensorType, apply, const, interpret
from fuseline.ir.build import Expr, call, fma, input_node, where
from fuseline.ir.dtype import BF16, F32, F64, I32, I64
from fuseline.ir.node import Node, const_array
from fuseline.ops import OPERATIONS
from programs import ELEMENTWISE, RandomProgram, programs, seeded_programs

AGREEING = tuple(
    op for op in ELEMENTWISE
    if OPERATIONS[op].exactness != "measured" and op not in ("fma", "relu", "round")
    and op not in ("minimum", "maximum", "fmin", "fmax", "clip")
)  # fmt: skip
WITHOUT_16_BITS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")


def numpys(graph: Graph, arrays: dict[str, Array]) -> dict[str, Array]:
    """The graph by NumPy's functions alone, an instruction at a time."""
    values: dict[Node, Any] = {n: arrays[n.attr("name")] for n in graph.inputs}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for node in graph.nodes:
            operands = [const_array(a) if a.op == "const" else values[a] for a in node.args]
            if node.op in ("copysign", "signbit"):  # the sign of a computed NaN is the machine's: here it has none
                operands[-1] = np.where(np.isnan(operands[-1]), np.abs(operands[-1]), operands[-1])
            if node.op == "cast":
                values[node] = np.asarray(operands[0]).astype(node.dtype.numpy)
            else:
                values[node] = getattr(np, OPERATIONS[node.op].spellings[0])(*operands)
        return {name: np.asarray(const_array(n) if n.op == "const" else values[n]) for name, n in graph.outputs}


def agrees(made: RandomProgram) -> None:
    # Functions of 8-bit integers are float16, in which NumPy computes and we do not.
    if any(n.dtype.is_storage_float for n in made.graph.nodes):
        return
    ours, theirs = interpret(made.graph, made.arrays), numpys(made.graph, dict(made.arrays))
    for name, expected in theirs.items():
        assert same_bits(ours[name], expected), f"{made}\n{name} {first_difference(ours[name], expected)}"


@given(programs(operations=AGREEING, dtypes=WITHOUT_16_BITS))
def test_programs_of_exact_operations_give_numpys_bits(made: RandomProgram) -> None:
    agrees(made)


@pytest.mark.long
def test_many_programs_of_exact_operations_give_numpys_bits() -> None:
    for made in seeded_programs(20_000, seed=11, operations=AGREEING, dtypes=WITHOUT_16_BITS):
        agrees(made)


@given(programs())
def test_shapes_that_are_known_or_not_give_the_same_bits(made: RandomProgram) -> None:
    known, unknown = interpret(made.graph, made.arrays), interpret(made.shapeless_graph, made.arrays)
    assert all(same_bits(known[name], unknown[name]) for name in known)
    for name, node in made.graph.outputs:
        assert known[name].shape == node.tensor.shape
        assert known[name].dtype == node.dtype.numpy


@given(programs(shape=(1,), max_statements=3))
def test_an_element_depends_on_its_own_operands_alone(made: RandomProgram) -> None:
    single = interpret(made.graph, made.arrays)
    types = {n: TensorType(t.dtype, (5,)) for n, t in made.types.items()}
    arrays = {n: np.repeat(np.ravel(a)[:1], 5) for n, a in made.arrays.items()}
    from fuseline.ir.specialise import specialise

    program = made.program
    assume(not any(d.shape for d in program.inputs))
    several = interpret(specialise(program, types), arrays)
    for name, whole in several.items():
        for element in np.ravel(whole):
            assert same_bits(element, np.ravel(single[name])[0]), f"{made} {name}"


def test_inputs_are_checked() -> None:
    x = input_node("x", F32, (2,))
    graph = Graph([x], [("out", apply("neg", x))])
    with pytest.raises(ShapeError, match="x is missing; given: y"):
        interpret(graph, {"y": np.zeros(2)})
    with pytest.raises(TypeRuleError, match="x is f32 in this graph; the array given is float64"):
        interpret(graph, {"x": np.zeros(2)})


def test_outputs_are_fresh_arrays() -> None:
    x = input_node("x", F32, (2,))
    given = np.zeros(2, np.float32)
    out = interpret(Graph([x], [("a", x), ("b", x)]), {"x": given})
    assert not np.shares_memory(out["a"], given)
    assert not np.shares_memory(out["a"], out["b"])


def test_fma_rounds_once_and_products_with_sums_twice() -> None:
    a = np.array([1 + 2.0**-12], np.float32)
    x = Expr(input_node("x", F32, (1,)))
    graph = Graph([x.node], [("once", fma(x, x, -1.0).node), ("twice", (x * x - 1.0).node)])
    out = interpret(graph, {"x": a})
    assert float(out["once"][0]) == 2.0**-11 + 2.0**-24
    assert float(out["twice"][0]) == 2.0**-11


@pytest.mark.parametrize("d", [np.float32, np.float64])
def test_64_axes_are_taken(d: Any) -> None:
    x = np.full((1,) * 64, 2, d)
    a = Expr(input_node("x", F32 if d is np.float32 else F64))
    g = Graph([a.node], [("y", fma(a, a, a).node), ("z", call("pow", a, a.like(0.5)).node)])
    wanted, found = interpret(g, {"x": x.reshape(1)}), interpret(g, {"x": x})
    for name in ("y", "z"):
        assert found[name].shape == x.shape and found[name].item() == wanted[name].item()


def test_expressions_build_what_the_interpreter_evaluates() -> None:
    x = Expr(input_node("x", F64, (3,)))
    polynomial = fma(fma(x.like(3.0), x, 2.0), x, 1.0)
    chosen = where(x > 0, polynomial, -x)
    bits = x.bitcast(I64) >> 52
    graph = Graph([x.node], [("p", chosen.node), ("e", bits.node)])
    data = np.array([2.0, -1.5, 0.5])
    out = interpret(graph, {"x": data})
    assert out["p"].tolist() == [17.0, 1.5, 2.75]
    assert out["e"].tolist() == (data.view(np.int64) >> 52).tolist()


def test_a_lookup_takes_its_index_modulo_the_tables_length() -> None:
    x = Expr(input_node("i", I32, (5,)))
    table = [int(v) for v in np.array([1.5, 2.5, -3.5, 0.0], np.float32).view(np.uint32)]
    graph = Graph([x.node], [("out", x.lookup(table, F32).node)])
    out = interpret(graph, {"i": np.array([0, 1, 5, -1, 7], np.int32)})["out"]
    assert out.tolist() == [1.5, 2.5, 2.5, 0.0, 0.0]
    with pytest.raises(TypeRuleError, match="power of two"):
        x.lookup([1, 2, 3], F32)


# ── several results and repetition ───────────────────────────────────────────────────────────────────────────────────


def test_divmod_is_its_two_parts() -> None:
    a, b = input_node("a", I32, (3, 1)), input_node("b", I32, (4,))
    both = apply("divmod", a, b)
    graph = Graph([a, b], [("q", apply("proj", both, index=0)), ("r", apply("proj", both, index=1))])
    arrays = {"a": np.array([[7], [-7], [5]], np.int32), "b": np.array([2, -2, 0, 3], np.int32)}
    out = interpret(graph, arrays)
    with np.errstate(all="ignore"):
        quotient, rest = np.divmod(arrays["a"], arrays["b"])
    assert same_bits(out["q"], quotient)
    assert same_bits(out["r"], rest)


def _layer(d: Any) -> Graph:
    h, w = input_node("h", d, (4,)), input_node("w", d, (4,))
    return Graph([h, w], [("h", (Expr(h) * Expr(w) + 0.125).node)])


@pytest.mark.parametrize("d", [F32, BF16])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_repeated_body_is_the_body_written_out(d: Any, count: int) -> None:
    """Nothing is rounded between iterations: a bfloat16 value is carried in float32, as in the program written out."""
    x, w = input_node("x", d, (4,)), input_node("w", d, (4,))
    repeated = apply("proj", apply("repeat", x, w, body=_layer(d), count=count), index=0)
    unrolled = Expr(x)
    for _ in range(count):
        unrolled = unrolled * Expr(w) + 0.125
    generator = np.random.default_rng(count)
    arrays = {n: generator.standard_normal(4).astype(d.numpy) for n in ("x", "w")}
    left = interpret(Graph([x, w], [("out", repeated)]), arrays)["out"]
    right = interpret(Graph([x, w], [("out", unrolled.node)]), arrays)["out"]
    assert same_bits(left, right)


def test_several_values_are_carried_at_once() -> None:
    a, b = input_node("a", I64, ()), input_node("b", I64, ())
    body = Graph([a, b], [("a", b), ("b", (Expr(a) + Expr(b)).node)])
    whole = apply("repeat", a, b, body=body, count=50)
    graph = Graph([a, b], [("out", apply("proj", whole, index=0))])
    assert interpret(graph, {"a": np.int64(0), "b": np.int64(1)})["out"] == 12586269025


def test_eighty_equal_layers_are_one_body() -> None:
    x = input_node("x", F32, (4,))
    whole = apply("repeat", x, const(0.5, F32), body=_scalar_layer(), count=80)
    graph = Graph([x], [("out", apply("proj", whole, index=0))])
    assert len(graph.nodes) == 2
    assert len(str(graph).splitlines()) == 10


def _scalar_layer() -> Graph:
    h, w = input_node("h", F32, (4,)), input_node("w", F32, ())
    return Graph([h, w], [("h", (Expr(h) * Expr(w) + 1.0).node)])
