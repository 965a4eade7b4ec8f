"""The NumPy text: it runs, agrees with its own steps, and with the oracle up to NumPy's own functions."""

from __future__ import annotations

import ast
import keyword

import numpy as np
import pytest

from arrays import same_bits
from fuseline.api.program import evaluate, graph, optimize
from fuseline.codegen.numpy import build_steps, emit_numpy
from fuseline.codegen.numpy.steps import RESERVED
from fuseline.ir.specialise import specialise
from fuseline.ir.types import TensorType
from fuseline.ops import SPELLINGS
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


@pytest.mark.parametrize("shape", [None, (1000,)])
def test_planned_text_needs_the_output_and_an_arena_for_one_value(shape):
    g = optimize(graph(COURSE, shape=shape))
    text = emit_numpy(g, planned=True)
    size = "4 * stride" if shape is None else "4032"
    assert f"arena = allocate({size})" in text
    assert text.count("np.empty") == 3
    arrays = gelu_inputs()
    assert same_bits(call(text, arrays.values())[0], call(emit_numpy(g), arrays.values())[0])


def without_shapes(p):
    """The program's graph where every array may have any shape."""
    types = {name: TensorType(t.dtype, None) for name, t in p.types.items()}
    return specialise(p.program, types)


def check_planned(g, arrays, text):
    """Planned steps and text give the bits of the plain steps, touch no input, and return arrays of their own."""
    plain = build_steps(g).run(arrays)
    program = build_steps(g, planned=True)
    before = {name: a.copy() for name, a in arrays.items()}
    buffers = program.make_buffers(arrays)
    for _ in range(2):  # the second time over what the first left
        found = program.run(arrays, buffers)
        for name, wanted in plain.items():
            assert np.shape(wanted) == np.shape(found[name]), text
            assert same_bits(np.asarray(wanted), np.asarray(found[name])), f"{text}\n{emit_numpy(g, planned=True)}"
    written = call(emit_numpy(g, planned=True), arrays.values())
    for wanted, given in zip(plain.values(), written, strict=True):
        assert same_bits(np.asarray(wanted), np.asarray(given)), text
    assert all(same_bits(before[name], arrays[name]) for name in arrays), text
    results = [*arrays.values(), *found.values()]
    for i, a in enumerate(results):
        assert not any(np.shares_memory(a, b) for b in results[i + 1 :]), text
    for place in program.places:
        start = place.start if not program.shapes else place.start * 64
        assert place.memory != "arena" or start % 64 == 0


@pytest.mark.parametrize("shapes", ["known", "unknown"])
def test_planned_programs_give_the_bits_of_plain_ones_and_never_touch_an_input(shapes):
    for p in (*seeded_programs(250, seed=33), *seeded_programs(100, seed=34, operations=EXACT, any_outputs=True)):
        g = optimize(p.graph if shapes == "known" else without_shapes(p))
        check_planned(g, p.arrays, p.text)


@pytest.mark.parametrize("shapes", ["known", "unknown"])
def test_planned_programs_with_reductions_give_the_bits_of_plain_ones(shapes):
    softmax = "x: f32[T, D]; e = exp(x - max(x, 1, keepdims=True)); y = e/sum(e, 1, keepdims=True)"
    softmax += "; m = mean(y, 0); k = any(x > 2, 0)"
    sizes = {"T": 6, "D": 40} if shapes == "known" else None
    g = optimize(graph(softmax, sizes=sizes))
    x = np.random.default_rng(2).standard_normal((6, 40)).astype(np.float32)
    check_planned(g, {"x": x}, softmax)


def test_reductions_and_buffers_of_several_sizes_share_one_arena():
    g = optimize(graph("x: f32[64, 32]; e = exp(x); s = sum(e, 1, keepdims=True); t = sqrt(s); u = e/t; y = f64(u)*2"))
    program = build_steps(g, planned=True)
    sizes = {p.shape: p for p in program.places if p.memory == "arena"}
    assert {(64, 32), (64, 1)} <= set(sizes)
    assert {p.dtype.itemsize for p in program.places} == {4, 8}
    assert program.arena_size < 2 * 64 * 32 * 4 + 64 * 4


def test_results_of_no_elements_are_computed_whatever_they_are_broadcast_with():
    g = optimize(graph("a = exp(x); b = a + y; c = b*a; d = c + 1"))
    one, none = np.float32([1]), np.zeros(0, np.float32)
    for arrays in ({"x": one, "y": none}, {"x": none, "y": one}):
        assert build_steps(g, planned=True).run(arrays)["d"].shape == (0,)
        assert call(emit_numpy(g, planned=True), arrays.values())[0].shape == (0,)


def test_an_output_that_depends_on_a_small_input_alone_has_its_shape():
    g = optimize(graph("y = exp(b)*2; z = x + b"))
    arrays = {"b": np.ones(8, np.float32), "x": np.ones((4, 8), np.float32)}
    found = build_steps(g, planned=True).run(arrays)
    assert (found["y"].shape, found["z"].shape) == ((8,), (4, 8))


def test_a_long_program_is_planned():
    g = optimize(graph("; ".join(f"v{i + 1} = v{i}*{i}.5 + x" for i in range(3000)) + "; out = v3000"))
    program = build_steps(g, planned=True)
    assert [p.memory for p in program.places] == ["", "v3000"]


@pytest.mark.parametrize("planned", [False, True])
def test_random_programs_of_exact_operations_give_the_bits_of_the_oracle(planned):
    several_outputs = seeded_programs(200, seed=22, operations=EXACT, any_outputs=True)
    for p in (*seeded_programs(400, seed=21, operations=EXACT), *several_outputs):
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


@pytest.mark.parametrize(
    ("text", "conversions"),
    [("x: f8e4m3; out = f32(x)", 1), ("x: f32; out = f16(x)", 1), ("x: f32; out = f16(x); y = out*2", 3)],
)
def test_nothing_is_converted_twice(text: str, conversions: int) -> None:
    g = optimize(graph(text, outputs=["out"] if "y" not in text else ["out", "y"]))
    assert emit_numpy(g).count("astype") == conversions
    x = np.float32([0.1, 2.7, -9]).astype(g.inputs[0].dtype.numpy)
    for planned in (False, True):
        (first, *_) = call(emit_numpy(g, planned=planned), [x])
        assert same_bits(first, evaluate(optimize(graph(text, outputs=["out"])), {"x": x}))


def test_what_the_text_calls_is_no_name_of_its_values() -> None:
    g = optimize(graph("u: f32[n]; v: f32[m]; max = exp(u)*2 + u; y = sum(max*max, -1); z = v*3 + 1; w = exp(z)*z"))
    for planned in (False, True):
        text = emit_numpy(g, planned=planned)
        functions = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
        calls = [n.func for n in ast.walk(functions["kernel"]) if isinstance(n, ast.Call)]
        called = {f.id for f in calls if isinstance(f, ast.Name)}
        assert called <= RESERVED
        given = (np.arange(4, dtype=np.float32), np.arange(6, dtype=np.float32))
        wanted = evaluate(g, dict(zip(("u", "v"), given, strict=True)))
        for found, name in zip(call(text, given), wanted, strict=True):
            np.testing.assert_allclose(found, wanted[name], rtol=1e-6)
