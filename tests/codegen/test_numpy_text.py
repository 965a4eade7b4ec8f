"""The NumPy text: it runs, agrees with its own steps, and with the oracle up to NumPy's own functions."""

from __future__ import annotations

import keyword

import numpy as np
import pytest

from arrays import same_bits
from fuseline.api.program import evaluate, graph, optimize
from fuseline.codegen.numpy import build_steps, emit_numpy
from fuseline.codegen.numpy.steps import RESERVED
from fuseline.ops import SPELLINGS
from fuseline.plan.order import order_for_least_memory
from programs import seeded_programs

COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"
EXACT = (
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint", "where", "lt", "le", "gt",
    "ge", "eq", "ne", "isnan", "isfinite", "and", "or", "xor", "invert", "copysign", "square", "cast",
)  # fmt: skip
"""Operations in which NumPy and the oracle agree to the bit."""


def call(text: str, arrays, name: str = "kernel") -> tuple:
    """The emitted text is Python: running it is the test."""
    namespace: dict = {}
    exec(compile(text, "emitted", "exec"), namespace)
    with np.errstate(all="ignore"):
        result = namespace[name](*arrays)
    return result if isinstance(result, tuple) else (result,)


def gelu_inputs(n: int = 1000):
    rng = np.random.default_rng(5)
    return {name: rng.standard_normal(n).astype(np.float32) for name in "xbr"}


@pytest.mark.parametrize("planned", [False, True])
def test_the_text_and_its_steps_are_one_program(planned):
    g = optimize(graph(COURSE))
    arrays = gelu_inputs()
    stepped = build_steps(g, planned).run(arrays)["out"]
    (written,) = call(emit_numpy(g, planned=planned), arrays.values())
    assert same_bits(stepped, written)
    np.testing.assert_allclose(stepped, evaluate(g, arrays), atol=1e-6)


def test_planned_text_allocates_three_buffers_and_two_in_the_best_order():
    g = optimize(graph(COURSE))
    order = order_for_least_memory(g, lambda n: 1)
    assert emit_numpy(g, planned=True).count("np.empty") == 3
    best = emit_numpy(g, planned=True, order=order)
    assert best.count("np.empty") == 2
    arrays = gelu_inputs()
    assert same_bits(call(best, arrays.values())[0], call(emit_numpy(g), arrays.values())[0])


@pytest.mark.parametrize("planned", [False, True])
def test_random_programs_of_exact_operations_give_the_bits_of_the_oracle(planned):
    for p in seeded_programs(400, seed=21, operations=EXACT, broadcast=not planned):
        g = optimize(p.graph)
        wanted = evaluate(g, p.arrays) if len(g.outputs) > 1 else {g.output_names[0]: evaluate(g, p.arrays)}
        given = build_steps(g, planned).run(p.arrays)
        for name in wanted:
            assert same_bits(wanted[name], given[name]), f"{p.text}\n{emit_numpy(g, planned=planned)}"


def test_16_bit_floats_round_at_outputs_and_casts_alone():
    x = np.arange(1, 200, dtype=np.float32).astype("float16")
    g = graph("y = x*x*x/(x + 1); z = f16(x*x)*x", "f16")
    assert same_bits(build_steps(g).run({"x": x})["y"], evaluate(g, x=x)["y"])
    assert same_bits(build_steps(g).run({"x": x})["z"], evaluate(g, x=x)["z"])


def test_a_returned_input_is_a_copy():
    x = np.ones(3, np.float32)
    y = build_steps(graph("y = x")).run({"x": x})["y"]
    assert not np.shares_memory(x, y)


def test_two_names_of_one_value_are_two_arrays():
    outputs = build_steps(graph("a = x + 1; b = x + 1")).run({"x": np.ones(3, np.float32)})
    assert not np.shares_memory(outputs["a"], outputs["b"])


def test_names_that_python_or_numpy_use_are_no_trouble():
    g = graph("np = x*2; select = np + 1; buffer0 = select*math; lambda_ = buffer0")
    (result,) = call(emit_numpy(g, planned=True), [np.float32([1, 2]), np.float32([3, 4])])
    assert result.tolist() == [9.0, 20.0]


@pytest.mark.parametrize(
    "name", [*sorted(RESERVED - set(keyword.kwlist) - set(SPELLINGS)), "buffer0", "buffer1", "kernel", "t0", "x_f32"]
)
def test_an_input_called_as_the_text_calls_something_of_its_own_keeps_its_value(name: str) -> None:
    g = graph(f"where({name} < 2, {name} + 1, {name}*2) + erf(bf16(x))")
    given = [np.float32([1, 2, 3]), np.float32([0.3, 0.4, 0.5])]
    (result,) = call(emit_numpy(g, planned=True), given)
    (expected,) = call(emit_numpy(graph("where(a < 2, a + 1, a*2) + erf(bf16(x))"), planned=True), given)
    assert same_bits(result, expected)


@pytest.mark.parametrize("name", ["for", "np", "select", "shape"])
def test_a_function_called_as_python_or_the_text_calls_something_is_renamed(name: str) -> None:
    text = emit_numpy(graph("where(x < 2, x, 1)"), name)
    assert f"def {name}_kernel(x):" in text
    (result,) = call(text, [np.float32([1, 5])], f"{name}_kernel")
    assert result.tolist() == [1.0, 1.0]
