"""Untyped programs: pickling, choice of outputs, specialisation to dtypes and shapes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from fuseline.errors import FuselineError, TypeRuleError, UnknownNameError, UsageError
from fuseline.frontends.formula import parse_formula
from fuseline.frontends.trace import trace
from fuseline.ir import TensorType, dtype
from fuseline.ir.dtype import BF16, F32, F64, I32, U8
from fuseline.ir.program import Program, untyped
from fuseline.ir.specialise import input_types, specialise
from fuseline.ir.text import parse_graph
from fuseline.passes.pipeline import optimize
from programs import ELEMENTWISE, REDUCTIONS, RandomProgram, programs

WEIGHTS = np.arange(3.0)


def same(a: Program, b: Program) -> None:
    for part in ("source", "inputs", "nodes", "outputs", "origin"):
        assert getattr(a, part) == getattr(b, part), part
    for part in ("names", "bindings", "locations"):
        assert dict(getattr(a, part)) == dict(getattr(b, part)), part
    assert list(a.captures) == list(b.captures)


@given(programs(operations=(*ELEMENTWISE, *REDUCTIONS)))
def test_a_program_comes_back_from_a_pickle(made: RandomProgram) -> None:
    program = parse_formula(made.text)
    same(pickle.loads(pickle.dumps(program)), program)  # noqa: S301


def test_a_traced_program_comes_back_with_its_arrays_and_typed_numbers() -> None:
    program = trace(lambda x: (np.float32(0.5) * x + WEIGHTS) * np.int64(3))
    again = pickle.loads(pickle.dumps(program))  # noqa: S301
    same(again, program)
    assert (again.captures["WEIGHTS"] == WEIGHTS).all()


def test_a_deep_program_is_pickled_without_recursion() -> None:
    program = parse_formula("-" * 30_000 + "x")
    assert pickle.loads(pickle.dumps(program)).nodes == program.nodes  # noqa: S301


def test_one_program_is_specialised_to_many_dtypes() -> None:
    program = parse_formula("h = x * 0.5 + y; h > 1")
    kinds = {}
    for d in (F32, F64, BF16, I32):
        graph = specialise(program, input_types(program, d))
        kinds[d.name] = graph.nodes[0].dtype.name
    assert kinds == {"f32": "f32", "f64": "f64", "bf16": "bf16", "i32": "f64"}
    mixed = specialise(program, {"x": TensorType(F32), "y": TensorType(F64)})
    assert [n.dtype.name for n in mixed.nodes] == ["f32", "f64", "bool"]


def test_values_that_become_one_keep_the_first_name() -> None:
    graph = specialise(parse_formula("a = x + 1; b = x + 1.0; a * b"), {"x": TensorType(F32)})
    assert len(graph.nodes) == 2
    assert list(graph.names.values()) == ["a", "out"]


def test_outputs_may_be_numbers_and_inputs() -> None:
    graph = specialise(parse_formula("a = 2.5; b = x; c = x"), {"x": TensorType(F32)})
    assert [n.op for _, n in graph.outputs] == ["const", "input", "input"]
    assert graph.outputs[0][1].dtype is F64


def test_unknown_outputs_are_refused() -> None:
    program = parse_formula("a = x; b = a + 1")
    for names in ([], ["c"], ["b", "d"]):
        with pytest.raises(UnknownNameError):
            program.with_outputs(names)
    with pytest.raises(UsageError, match="the output b is asked for twice"):
        program.with_outputs(["b", "b", "a"])
    assert program.with_outputs(["b", "a"]).outputs == (("b", program.bindings["b"]), ("a", program.bindings["a"]))


LOCATED: list[tuple[str, Any, str]] = [
    ("h = x + 1\n\ny = h & 2.5", F32, "line 3, column 7: and (&) does not accept f32, f32"),
    ("y = bf16(x) + f16(x)", F32, "line 1, column 13: bf16 and f16 have no common dtype"),
    ("y = x + 300", "u8", "line 1, column 7: the number 300 does not fit u8"),
    ("y = -(x > 0)", F32, "line 1, column 5: neg does not accept bool"),
    ("y = sum(x, 3)", F32, "line 1, column 5: sum over axis 3"),
    ("y = f8e4m3(x) * 2", F32, "line 1, column 15: mul on f8e4m3: narrow formats are storage"),
]


@pytest.mark.parametrize(("text", "d", "says"), LOCATED)
def test_type_errors_show_where_they_are(text: str, d: Any, says: str) -> None:
    program = parse_formula(text)
    with pytest.raises(FuselineError) as caught:
        specialise(program, {"x": TensorType(dtype(d), (2, 2))})
    assert str(caught.value).startswith(says)
    line = int(says.split()[1].rstrip(","))
    assert str(caught.value).splitlines()[1] == "  " + text.split("\n")[line - 1]


def test_errors_stay_the_built_in_they_refine() -> None:
    program = parse_formula("x & y")
    with pytest.raises(TypeError):
        specialise(program, input_types(program, F32))
    with pytest.raises(TypeRuleError):
        specialise(program, input_types(program, F32))
    program = parse_formula("x + 300")
    with pytest.raises(ValueError, match="does not fit"):
        specialise(program, {"x": TensorType(U8)})


@given(programs())
def test_a_graph_becomes_a_program_that_becomes_the_graph_again(case: RandomProgram) -> None:
    g = optimize(case.graph)
    program = untyped(g)
    types = {d.name: TensorType(d.dtype, d.shape) for d in program.inputs if d.dtype is not None}
    assert specialise(program, types) == g
    assert specialise(untyped(parse_graph(str(g))), types) == g


def test_what_no_program_says_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="called out"):
        untyped(parse_graph("%out = input f32[*]\n%y = neg f32[*] %out\nreturn y=%y\n"))
    with pytest.raises(UsageError, match="'3'"):
        untyped(parse_graph("%3 = input f32[*]\n%y = neg f32[*] %3\nreturn y=%y\n"))
