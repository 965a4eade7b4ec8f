"""What stands still is computed before the loop, and a body that knows of it gives the bits of one that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from arrays import first_difference, same_bits
from fuseline.codegen.llvm.body import body_text
from fuseline.codegen.llvm.still import that_matter
from fuseline.codegen.llvm.target import LlvmTarget, target
from fuseline.ir.build import call
from fuseline.ir.dtype import DTYPES, F64
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import interpret
from fuseline.mathlib.expand import expand
from fuseline.runtime import host, iterate
from kernels import loop_of
from primitive_graphs import graph_of, operands

TARGETS = [host.host_target(), *map(target, host.target_names())]
TARGETS += [replace(t, name=f"{t.name}, slow divider", has_slow_divider=True) for t in TARGETS if t.has_fma]
COUNT = 1111


def graph(formula: str, dtype: str) -> Graph:
    return expand(fl.optimize(fl.graph(formula, dtype=dtype)))


def values(dtype: str, count: int, seed: int) -> Any:
    numpy_dtype = DTYPES[dtype].numpy
    generator = np.random.default_rng(seed)
    if DTYPES[dtype].is_integer:
        return generator.integers(-100, 100, count).astype(numpy_dtype)
    powers = generator.integers(-6, 4 if dtype == "f16" else 7, count)
    found = (generator.standard_normal(count) * 10.0**powers).astype(numpy_dtype)
    found[::17], found[::19], found[::23], found[::29] = 0.0, -0.0, np.nan, np.inf
    return found


@pytest.mark.parametrize("chosen", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "i8"])
def test_a_body_that_knows_what_stands_still_gives_the_same_bits(chosen: LlvmTarget, dtype: str) -> None:
    formulas = ["out = (x - a)/b", "out = x/b; second = x/(a + b)", "out = x*sqrt(a*a + b*b) + 1/b; second = x/3"]
    if dtype in ("f32", "f64"):
        formulas += ["out = x + sin(a*1e7)*cos(b)", "out = where(x > a, exp(b), x/b)", "out = a/b; second = x//b"]
    for formula in formulas:
        program = graph(formula, dtype)
        loop = loop_of(program, chosen)
        x = values(dtype, COUNT, 3)
        for a, b in zip(values(dtype, 40, 4), values(dtype, 40, 5), strict=True):
            given = {"x": x, "a": np.array(a), "b": np.array(b)}
            expected = interpret(program, given)
            found = iterate.run(loop, [given[name] for name in program.input_names], [None] * len(program.outputs))
            for value, result in zip(expected.values(), found, strict=True):
                wanted = np.broadcast_to(value, result.shape)
                assert same_bits(wanted, result), (formula, a, b, first_difference(wanted, result))


def before_and_inside(text: str) -> tuple[str, str]:
    before, inside = text.split("\nloop:\n")
    return before, inside.split("\ndeclare ")[0]


def test_roots_and_functions_of_still_operands_stand_before_the_loop() -> None:
    program = graph("out = (x - m)/sqrt(v + 0.001)*exp(s)", "f32")
    still = [i for i, name in enumerate(program.input_names) if name != "x"]
    before, inside = before_and_inside(body_text(program, host.host_target(), still).text)
    assert "@llvm.sqrt" in before
    assert "@llvm.sqrt" not in inside
    assert "@llvm.fma" in before
    _, inside = before_and_inside(body_text(program, host.host_target()).text)
    assert "@llvm.sqrt" in inside


def test_a_still_choice_beside_one_that_moves_stays_where_its_condition_is() -> None:
    """Two marked choices under one condition share a branch; what reads the still one cannot stand before it."""
    x, a = operands(F64, F64)
    large = a > 4.0
    still = call("where", large, call("sqrt", a), a, rare=True)
    moving = call("where", large, x * a, x, rare=True)
    program = graph_of([x, a], [still * 2.0, moving + still])
    for number in (1.0, 9.0):
        inputs = [np.linspace(-3, 3, COUNT), np.array(number)]
        found = iterate.run(loop_of(program), inputs, [None] * 2)
        expected = interpret(program, dict(zip(program.input_names, inputs, strict=True)))
        for value, result in zip(expected.values(), found, strict=True):
            assert same_bits(np.broadcast_to(value, result.shape), result)


def test_only_inputs_that_save_something_dear_matter() -> None:
    fast = host.host_target()
    slow, quick = replace(fast, has_slow_divider=True), replace(fast, has_slow_divider=False)

    def matter(formula: str, chosen: LlvmTarget, names: str) -> str:
        program = fl.optimize(fl.graph(formula, dtype="f32"))
        still = [i for i, name in enumerate(program.input_names) if name in names]
        return "".join(sorted(program.input_names[i] for i in that_matter(program, chosen, still)))

    assert matter("out = x*a + b", slow, "ab") == ""
    assert matter("out = (x - a)/b", quick, "ab") == ""
    assert matter("out = (x - a)/b", slow, "ab") == "b"
    assert matter("out = (x - a)/sqrt(b + c)", quick, "abc") == "bc"
    assert matter("out = (x - a)/sqrt(b + c)", quick, "ac") == ""
    assert matter("out = x*exp(-a)", quick, "a") == "a"
