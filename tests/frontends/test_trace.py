"""Tracing: the same nodes as the formula, NumPy's semantics, captured arrays, and refusals that say what to write."""

from __future__ import annotations

import collections
import enum
import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.errors import FuselineError, TraceError, TypeRuleError
from fuseline.frontends.formula import parse_formula
from fuseline.frontends.trace import trace
from fuseline.ir import interpret
from fuseline.ir.dtype import BOOL, F32, F64, I32, I64
from fuseline.ir.program import Declaration, Program
from fuseline.ir.specialise import input_types, specialise
from fuseline.ir.types import TensorType

WEIGHTS = np.arange(5.0)


def run(program: Program, **arrays: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The oracle's outputs, captured arrays included."""
    given = {**program.captures, **arrays}
    types = {n: TensorType(_dtype(a), a.shape) for n, a in given.items()}
    return interpret(specialise(program, types), given)


def _dtype(array: np.ndarray[Any, Any]) -> Any:
    from fuseline.ir import dtype

    return dtype(array.dtype)


def same_program(traced: Program, formula: str) -> bool:
    parsed = parse_formula(formula)
    return (
        traced.nodes == parsed.nodes
        and traced.outputs == parsed.outputs
        and [d.name for d in traced.inputs] == [d.name for d in parsed.inputs]
    )


# ── the same nodes as the formula ────────────────────────────────────────────────────────────────────────────────────


def course(x: Any, b: Any, r: Any) -> Any:
    h = x + b
    y = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return y + r


def test_traced_and_parsed_programs_are_the_same_nodes_with_the_same_names() -> None:
    formula = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"
    traced = trace(course)
    assert same_program(traced, formula)
    assert traced.names == parse_formula(formula).names


SAME = [
    (lambda x, y: x + y, "x + y"),
    (lambda x, y: 1 - x, "1 - x"),
    (lambda x, y: 2 / x // y % 3, "2 / x // y % 3"),
    (lambda x, y: -(x**2), "-x**2"),
    (lambda x, y: 2**x**y, "2**x**y"),
    (lambda x, y: (x < y) & (y <= 3) | ~(x == y) ^ (x != 2), "(x < y) & (y <= 3) | ~(x == y) ^ (x != 2)"),
    (lambda x, y: (x > y) & (y >= 3), "(x > y) & (y >= 3)"),
    (lambda x, y: x << 2 >> y, "x << 2 >> y"),
    (lambda x, y: abs(x) + (+y), "abs(x) + y"),
    (lambda x, y: np.where(x > 0, x, y), "where(x > 0, x, y)"),
    (lambda x, y: np.clip(x, 0, 1.5), "clip(x, 0, 1.5)"),
    (lambda x, y: np.clip(x, None, y), "minimum(x, y)"),
    (lambda x, y: x.clip(min=y), "maximum(x, y)"),
    (lambda x, y: np.maximum(x, y) + np.arctan2(x, y), "maximum(x, y) + atan2(x, y)"),
    (lambda x, y: np.absolute(x) * np.power(x, y), "abs(x) * x**y"),
    (lambda x, y: np.round(x) + np.rint(x) + round(y), "round(x) + rint(x) + round(y)"),
    (lambda x, y: np.logical_not(x) | np.isnan(y), "logical_not(x) | isnan(y)"),
    (lambda x, y: x.astype("float32") + y.astype(np.int64), "f32(x) + i64(y)"),
    (lambda x, y: x.sum() + np.mean(y), "sum(x) + mean(y)"),
    (lambda x, y: np.max(x, axis=-1) + y.min(0, keepdims=True), "max(x, -1, keepdims=False) + min(y, 0)"),
    (lambda x, y: np.any(x > 0, axis=1) & np.all(y, 0), "any(x > 0, 1, keepdims=False) & all(y, 0, keepdims=False)"),
    (lambda x, y: np.add.reduce(x) + np.maximum.reduce(y, axis=None), "sum(x, 0, keepdims=False) + max(y)"),
    (lambda x, y: math.pi * x + float("inf") * y, "pi * x + inf * y"),
    (lambda x, y: True & x | y, "True & x | y"),
]


@pytest.mark.parametrize(("function", "formula"), SAME, ids=[f for _, f in SAME])
def test_each_way_of_writing_gives_the_formulas_nodes(function: Any, formula: str) -> None:
    traced, parsed = trace(function), parse_formula(formula)
    assert traced.nodes == parsed.nodes
    assert traced.outputs[-1][1] is parsed.bindings["out"] if "out" in parsed.bindings else parsed.outputs[-1][1]


def test_in_place_operators_give_a_new_value() -> None:
    def function(x: Any, y: Any) -> Any:
        h = x
        h += y
        h *= 2
        return h - x

    assert same_program(trace(function), ["x + y", " h = (x + y) * 2; h - x"][1])


# ── operands ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scalar", "result"),
    [
        (np.float64(0.5), np.float64),
        (np.float32(0.5), np.float32),
        (np.int64(2), np.float64),
        (np.int16(2), np.float32),
    ],
)
def test_numpys_scalars_keep_their_dtype_on_either_side(scalar: Any, result: type) -> None:
    x = np.array([1.5, -2.0], np.float32)
    for function in (lambda x: scalar * x, lambda x: x * scalar, lambda x: np.multiply(scalar, x)):
        out = run(trace(function), x=x)["out"]
        assert out.dtype == result
        assert out.dtype == (scalar * x).dtype
        np.testing.assert_array_equal(out, scalar * x)


def test_python_numbers_take_the_arrays_dtype() -> None:
    assert run(trace(lambda x: 0.1 * x + 1), x=np.ones(3, np.float32))["out"].dtype == np.float32


def test_captured_arrays_are_inputs_by_the_name_they_have_in_the_source() -> None:
    local = np.ones((2, 1), np.float32)
    program = trace(lambda x: x * WEIGHTS + local)
    assert [d.name for d in program.inputs] == ["x", "WEIGHTS", "local"]
    assert program.captures["WEIGHTS"] is WEIGHTS
    assert program.captures["local"] is local
    assert program.inputs[2] == Declaration("local", F32, (2, 1))
    x = np.arange(5.0)
    np.testing.assert_array_equal(run(program, x=x)["out"], x * WEIGHTS + local)


def test_a_captured_array_is_one_input_however_often_it_is_used_and_costs_nothing() -> None:
    large = np.broadcast_to(np.float64(2.0), (10**7,))
    program = trace(lambda x: large * x + np.exp(x - large))
    assert list(program.captures) == ["large"]
    assert not any(node.op == "const" for node in program.nodes)
    assert len(program.nodes) == 4


def test_a_parameter_is_another_input_than_the_array_that_is_its_default() -> None:
    c, x = np.arange(5, dtype=np.float32), np.ones(5, np.float32)

    def seen_beside(x, w=c):
        return x * w + c

    def twice(x, w=c, v=c):
        return x * w + v

    @fl.fuse
    def inner(x):
        return x + c

    def through_a_kernel(x, w=c):
        return inner(x) * w

    for function in (seen_beside, twice, through_a_kernel):
        kernel = fl.fuse(function)
        for given in ({}, {"w": x * 3}, *([{"v": x * 2}, {"w": x, "v": x * 7}] if function is twice else [])):
            assert np.array_equal(kernel(x, **given), function(x, **given)), (function.__name__, given)
    assert fl.fuse(twice).inputs == ("x", "w", "v")
    assert np.array_equal(fl.fuse(twice)(x, x, x), twice(x, x, x))


@pytest.mark.parametrize("large", [False, True])
def test_an_array_that_is_written_to_after_it_was_used_is_refused(large: bool) -> None:
    x = np.ones(5 if not large else 9 << 20, np.float64)

    def in_place(x):
        b = np.zeros(x_shape)
        y = x + b
        b += 1
        return y * b

    x_shape = x.shape
    with pytest.raises(fl.TraceError, match="writes to an array that it has used"):
        fl.fuse(in_place)
    weights = np.zeros(x_shape)

    def of_its_own(x):
        y = x * weights
        weights[::2] = 5
        return y + weights

    with pytest.raises(fl.TraceError, match="writes to the array weights"):
        fl.fuse(of_its_own)
    before = np.full(5, 2.0)

    def harmless(x):
        before[:] = 3
        return x * before + np.broadcast_to(before[:1], (5,)) + np.broadcast_to(0.5, (1 << 40,))[:5]

    assert np.array_equal(fl.fuse(harmless)(np.ones(5)), np.full(5, 6.5))


def test_the_name_of_a_captured_array_does_not_collide() -> None:
    x = np.zeros(3)

    def function(y: Any, out_: Any = None) -> Any:
        x1 = y + 1
        return x1 * x + np.array([1.0, 2.0, 3.0])

    names = [d.name for d in trace(lambda x_: x_ + x).inputs]
    assert names == ["x_", "x"]
    program = trace(function)
    assert len({d.name for d in program.inputs} | set(program.names.values())) == len(program.inputs) + len(
        program.names
    )


def test_defaults_are_kept_except_arrays_which_may_be_left_out() -> None:
    def function(x: Any, scale: float = 2.0, bias: Any = WEIGHTS, *, rounded: bool = False) -> Any:
        y = x * scale + bias
        return np.round(y) if rounded else y

    program = trace(function)
    assert [d.name for d in program.inputs] == ["x", "bias"]
    assert list(program.captures) == ["bias"]
    assert same_program(program, "x * 2.0 + bias")
    assert same_program(trace(function, constants={"scale": 3, "rounded": True}), "round(x * 3 + bias)")


# ── outputs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_outputs_are_named_by_what_is_returned() -> None:
    pair = collections.namedtuple("pair", "low high")
    assert [n for n, _ in trace(lambda x: x + 1).outputs] == ["out"]
    assert [n for n, _ in trace(lambda x: (x + 1, x * 2)).outputs] == ["out0", "out1"]
    assert [n for n, _ in trace(lambda x: pair(x - 1, x + 1)).outputs] == ["low", "high"]
    assert [n for n, _ in trace(lambda x: {"a": x, "b": 3.0}).outputs] == ["a", "b"]


@pytest.mark.parametrize("returned", [None, (), {}, {"class": 1}, {"_a": 1}, {1: 2}, "text", ((1, 2), 3), object()])
def test_what_cannot_be_an_output_is_refused(returned: object) -> None:
    with pytest.raises(TraceError):
        trace(lambda x: returned)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────

REFUSED = [
    (lambda x: 1 if x > 0 else 2, "np.where"),
    (lambda x: 0 < x < 1, "np.where"),
    (lambda x: (x > 0) and x, "np.where"),
    (lambda x: list(x), "inputs of their own"),
    (lambda x: [*x], "inputs of their own"),
    (lambda x: x in [1, 2], "np.where"),
    (lambda x: math.exp(x), "np.exp"),
    (lambda x: int(x), "astype"),
    (lambda x: complex(x), "complex"),
    (lambda x: range(x), "np.where"),
    (lambda x: x[0], "slice the arrays"),
    (lambda x: x.__setitem__(0, 1), "np.where"),
    (lambda x: len(x), "default"),
    (lambda x: x.shape[0] * x, "default"),
    (lambda x: x.T, "no T"),
    (lambda x: np.asarray(x), "np.*"),
    (lambda x: np.dot(x, x), "np.dot"),
    (lambda x: np.sort(x), "np.sort"),
    (lambda x: np.stack([x, x]), "np.stack"),
    (lambda x: x @ x, "matrix"),
    (lambda x: np.gcd(x, 3), "gcd"),
    (lambda x: np.sqr(x) if hasattr(np, "sqr") else np.float_power(x, 2), "np.power"),
    (lambda x: np.frompyfunc(abs, 1, 1)(x), "not one that a program can use"),
    (lambda x: np.add(x, x, out=WEIGHTS), "return the result"),
    (lambda x: np.exp(x, where=x > 0), "np.where"),
    (lambda x: np.sum(x, dtype=np.float64), "astype"),
    (lambda x: np.sum(x, where=x > 0), "np.where"),
    (lambda x: np.sum(x, axis=0.5), "whole number"),
    (lambda x: np.add.accumulate(x), "accumulate"),
    (lambda x: np.subtract.reduce(x), "reduce"),
    (lambda x: np.round(x, 2), "decimals"),
    (lambda x: np.where(x > 0), "choose between"),
    (lambda x: x * "a", "not str"),
    (lambda x: [1, 2] * x, "an array before the call"),
    (lambda x: x * 1j, "not complex"),
    (lambda x: x * np.array(["a"]), "cannot be part of a program"),
    (lambda x: x * np.array([1j]), "cannot be part of a program"),
    (lambda x: np.clip(x, 1, 2, min=0), "not some of both"),
    (lambda x: x.astype("f8", casting="safe"), "before the call"),
    (lambda x: pow(x, 2, 3), "modulus"),
    (lambda x: x * float(f"{x:.3f}"), "after the call"),
    (lambda x: x * np.asmatrix(WEIGHTS), "np.asarray(matrix)"),
    (lambda x: np.emath.sqrt(x), "np.sqrt can"),
    (lambda x: np.linalg.norm(x), "numpy.linalg"),
    (lambda x: np.isclose(x, 1.0), "np.abs(x - y) <="),
    (lambda x: np.allclose(x, 1.0), "np.all(np.abs(x - y) <="),
    (lambda x: np.nan_to_num(x), "np.where(np.isnan(x)"),
    (lambda self, x: x * self.weight, "fl.fuse(object.method)"),
    (lambda *x: x, "name every input"),
    (lambda **x: x, "name every input"),
    (lambda out: out, "option"),
]


@pytest.mark.parametrize(("function", "advice"), REFUSED, ids=[inspect.getsource(f).strip()[:60] for f, _ in REFUSED])
def test_what_cannot_be_recorded_is_refused_with_advice(function: Any, advice: str) -> None:
    with pytest.raises(TraceError) as caught:
        trace(function)
    assert isinstance(caught.value, FuselineError)
    assert isinstance(caught.value, TypeError)
    assert advice in str(caught.value)


def test_an_array_on_the_left_of_an_in_place_operator_is_not_written() -> None:
    buffer = np.ones(3)

    def function(x: Any) -> Any:
        total = buffer
        total += x
        return total

    with pytest.raises(TraceError, match="return the result"):
        trace(function)
    assert (buffer == 1).all()


def test_values_of_another_trace_are_refused() -> None:
    kept: list[Any] = []
    trace(lambda x: kept.append(x) or x)
    with pytest.raises(TraceError, match="another traced call"):
        trace(lambda y: y + kept[0])


def test_unknown_attributes_look_absent_to_hasattr() -> None:
    def function(x: Any) -> Any:
        assert not hasattr(x, "toarray")
        assert not hasattr(x, "__array_interface__")
        return x + 1

    assert len(trace(function).nodes) == 1


def test_type_errors_point_into_the_function() -> None:
    def wrong(x: Any) -> Any:
        h = x + 1.5
        return h & x

    program = trace(wrong)
    with pytest.raises(TypeRuleError) as caught:
        specialise(program, input_types(program, F64))
    text = str(caught.value)
    assert "wrong (test_trace.py" in text
    assert "line 3, column 16" in text
    assert "return h & x" in text


def test_a_function_without_source_traces_and_fails_without_a_location() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x): return x & 1.5", scope)
    program = trace(scope["f"])
    with pytest.raises(TypeRuleError):
        specialise(program, input_types(program, I32))


# ── NumPy's semantics ────────────────────────────────────────────────────────────────────────────────────────────────


def test_reductions_follow_numpy_in_shape() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for function in (
        lambda x: x.sum(),
        lambda x: x.sum(0),
        lambda x: x.sum((0, 2), keepdims=True),
        lambda x: np.mean(x, axis=-1),
        lambda x: np.max(x, (1, 2)),
        lambda x: np.min(x, keepdims=True),
        lambda x: np.add.reduce(x, axis=1),
        lambda x: np.logical_or.reduce(x > 20),
    ):
        expected = np.asarray(function(x))
        out = run(trace(function), x=x)["out"]
        assert out.shape == expected.shape
        np.testing.assert_allclose(out, expected, rtol=1e-15)


def test_scipys_functions_are_known_by_identity() -> None:
    special = pytest.importorskip("scipy.special")
    assert same_program(trace(lambda x: special.erf(x) + special.expit(x)), "erf(x) + sigmoid(x)")


def test_a_logical_function_of_bool_gives_bool() -> None:
    program = trace(lambda a, b: np.logical_and(a, b) | ~a)
    assert specialise(program, input_types(program, BOOL)).output_nodes[0].dtype is BOOL


def test_a_traced_chain_may_be_deep() -> None:
    def deep(x: Any) -> Any:
        for _ in range(50_000):
            x = -x + 1.0
        return x

    program = trace(deep)
    graph = specialise(program, input_types(program, F32))
    assert graph.depth == 100_000
    assert hash(graph)
    assert repr(program.outputs[0][1])
    assert len(str(graph).splitlines()) == 100_002
    del program, graph


@pytest.mark.parametrize(
    "spelling", ["i8", "u8", "i4", "f8", "f4", "f2", "float", "int", "d", "q", "bool", "<i4", int, np.int16]
)
def test_astype_reads_dtypes_as_numpy_does(spelling: Any) -> None:
    program = trace(lambda x: x.astype(spelling))
    graph = specialise(program, input_types(program, F32))
    assert graph.output_types[0].dtype.numpy == np.dtype(spelling).newbyteorder("=")


def test_astype_reads_names_that_numpy_lacks_as_formulas_do() -> None:
    program = trace(lambda x: x.astype(dtype="bf16", copy=False))
    assert specialise(program, input_types(program, F32)).output_types[0].dtype.name == "bf16"


def test_membership_and_ufuncs_are_refused_with_advice() -> None:
    with pytest.raises(TraceError, match=r"np\.any"):
        trace(lambda x: 1 in x)
    with pytest.raises(TraceError, match="calls it"):
        trace(np.add)


@pytest.mark.parametrize(
    "now", ["", "it's prose\n" * 9, "def f(x):\n  (\n" * 4, "  x\n y\n" * 9, "'''\n" * 9, "\\\n" * 9, "\0" * 9]
)
def test_a_function_whose_file_holds_something_else_by_now_is_traced_all_the_same(tmp_path: Path, now: str) -> None:
    path = tmp_path / "program.py"
    names: dict[str, Any] = {}
    exec(compile("\n\ndef double(x):\n    h = x + x\n    return h * 0.5\n", str(path), "exec"), names)
    path.write_text(now)
    assert same_program(trace(names["double"]), "h = x + x; out = h * 0.5")


def test_numbers_of_a_type_of_their_own_have_a_dtype_as_in_numpy() -> None:
    class Factor(enum.IntEnum):
        THREE = 3

    node = trace(lambda x: x * Factor.THREE).outputs[0][1]
    (constant,) = (a for a in node.args if a.op != "input")
    assert (constant.op, constant.dtype) == ("const", I64)
    assert (np.int8([100]) * Factor.THREE).dtype == np.int64
