"""Programs with reductions give the oracle's bits, for every output and every layout."""

from __future__ import annotations

import numpy as np
import pytest

import fuseline as fl
from arrays import first_difference, same_bits, special_values
from fuseline.api.kernel import kernel_of
from fuseline.ir.interpret import interpret
from fuseline.mathlib.expand import expand
from fuseline.runtime import threads
from fuseline.runtime.staged import StagedProgram
from programs import ELEMENTWISE, REDUCTIONS, seeded_programs


def assert_oracle(text: str, dtype: str, **arrays) -> None:
    k = fl.compile(text)
    shapes = {name: a.shape for name, a in arrays.items()}
    assert len(set(shapes.values())) == 1
    g = fl.optimize(fl.graph(text, dtype, shape=next(iter(shapes.values()))))
    wanted = interpret(expand(g), arrays)
    given = k(**arrays)
    results = dict(zip(k.outputs, given if len(k.outputs) > 1 else (given,), strict=True))
    for name in wanted:
        assert same_bits(wanted[name], results[name]), f"{text}: {first_difference(wanted[name], results[name])}"


@pytest.mark.parametrize(
    "text",
    [
        "m = max(x, -1)",
        "y = maximum(x, z); s = sum(x, -1)",
        "y = fmax(x, z); t = fmin(x, z); s = min(x, 0)",
        "y = x**0.5; s = sum(x, -1)",
        "y = exp(x*3) + tanh(z); s = sum(x)",
        "m = max(x, -1); e = exp(x - m); y = e/sum(e, -1)",
        "s = mean(x, -1, keepdims=False); t = sum(z, 0, keepdims=False)*2; u = any(x > z, 0)",
        "y = x*2; s = sum(y, -1) + max(y, -1); z2 = y/s",
    ],
)
def test_special_values_keep_their_bits_beside_reductions(text):
    values = special_values("f32")
    x, z = np.meshgrid(values, values)
    assert_oracle(text, "f32", **{n: a for n, a in (("x", x), ("z", z)) if n in fl.compile(text).inputs})


def test_negative_integer_powers_beside_a_reduction():
    i, j = np.meshgrid(np.arange(-3, 4, dtype=np.int32), np.arange(-3, 4, dtype=np.int32))
    assert_oracle("y = i**j; s = sum(i, -1)", "i32", i=i, j=j)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_16_bit_programs_round_only_at_outputs_and_casts(dtype):
    values = special_values(dtype)
    x, z = np.meshgrid(values, values)
    assert_oracle("h = x*z; s = sum(h, -1); y = h/s + x; b = f32(bf16(h)) - h", dtype, x=x, z=z)


def test_sums_do_not_depend_on_layout():
    x = np.random.default_rng(0).standard_normal((50, 1000)).astype(np.float32)
    k = fl.compile("s = sum(x, -1)")
    assert same_bits(k(x), k(np.asfortranarray(x)))
    assert same_bits(k(x), k(x[:, ::-1].copy()[:, ::-1]))
    assert same_bits(k(x)[7:8], k(x[7:8]))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "shape", [(40_000,), (3, 11_111), (11_111, 3), (257, 129), (5, 7, 1000), (40, 30, 31), (1, 1 << 16), (1 << 16, 1)]
)
def test_large_reductions_give_the_bits_of_the_oracle_over_any_axes(dtype, shape):
    generator = np.random.default_rng(1)
    x = generator.standard_normal(shape).astype(dtype)
    special = generator.integers(0, x.size, x.size // 50)
    x.ravel()[special] = generator.choice(special_values("f32" if dtype == "f4" else "f64"), len(special))
    x.ravel()[: x.size // 2][np.isnan(x.ravel()[: x.size // 2])] = -0.0
    axes = [(), *((a,) for a in range(x.ndim)), tuple(sorted({0, x.ndim - 1})), tuple(range(x.ndim))]
    views = [x, np.asfortranarray(x), x[..., ::-1], np.concatenate([x, x], -1)[..., : shape[-1]]]
    for over in dict.fromkeys(axes):
        for function in (np.sum, np.mean, np.max, np.min):

            def program(x, function=function, over=over or None):
                return function(x, axis=over)

            kernel, view = fl.fuse(program), views[len(over) % len(views)]
            graph = fl.optimize(fl.graph(kernel.program, "f32" if dtype == "f4" else "f64", shape=shape))
            (wanted,) = interpret(expand(graph), {"x": view}).values()
            for count in (1, 3):
                with threads.limit(count):
                    found = kernel(view)
                assert same_bits(wanted, np.asarray(found)), f"{function} {over} {first_difference(wanted, found)}"


def test_outputs_are_the_callers_own_and_may_overlap_inputs():
    k = fl.compile("s = sum(x, -1); y = x; z = x - s; w = x - s", outputs=["s", "y", "z", "w"])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    r = k(x)
    assert not any(np.shares_memory(a, b) for a, b in [(r.y, x), (r.z, r.w)])
    wanted = k(x).z.copy()
    k(x, out=(None, None, x, None))
    assert same_bits(x, wanted)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i4", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(2, 1), (1, 3), (1, 1), (2, 3)])
def test_results_are_new_arrays_although_nothing_is_reduced(shape, dtype):
    x = np.arange(2, 2 + np.prod(shape)).reshape(shape).astype(dtype)
    y = np.ascontiguousarray(x[::-1, ::-1])
    functions = [np.max, np.min] if dtype == "bool" else [np.max, np.min, np.sum, np.mean]
    for function in functions:
        for axes in (-1, 0, (), (0, 1)):
            for keep in (True, False):

                def program(x, y, function=function, axes=axes, keep=keep):
                    first = function(x, axis=axes, keepdims=keep)
                    return first, function(y, axis=axes, keepdims=keep), function(x, axis=axes, keepdims=keep)

                k = fl.fuse(program)
                results = k(x, y)
                for i, a in enumerate(results):
                    assert not any(np.may_share_memory(a, b) for b in (x, y, *results[:i]))
                if results[0].shape == shape and results[0].dtype == x.dtype:
                    a, b, wanted = x.copy(), y.copy(), k(x, y)
                    k(a, b, out=(b, a, None))
                    assert np.array_equal(b, wanted[0]) and np.array_equal(a, wanted[1])


@pytest.mark.parametrize("dtype", ["bool", "i4", "f2", "f4"])
def test_results_without_elements_are_new_arrays_too(dtype):
    x = np.empty((3, 0, 1), dtype)[:1]
    x.flags.writeable = False
    for text in ("y = max(x, -1)", "y = min(x, 0)", "y = max(x, -1, keepdims=False)"):
        k = fl.compile(text)
        for _ in range(2):
            result = k(x)
            assert result.flags.writeable and result.base is None


@pytest.mark.parametrize(
    "text",
    [
        "y = x + min(2)",
        "s = sum(x); t = max(3)",
        "y = x*sum(f32(2))",
        "y = x + max(max(1 + 1.5))",
        "y = x*f32(any(True))",
    ],
)
def test_numbers_of_the_program_are_reduced(text):
    assert_oracle(text, "f32", x=np.ones(3, np.float32))


def test_outputs_of_other_kinds_are_refused_in_words():
    pd = pytest.importorskip("pandas")
    k = fl.compile("y = x - max(x, -1)")
    x = np.arange(4, dtype=np.float32)
    for _ in range(2):  # a shape is known from the second call on
        with pytest.raises(fl.TypeRuleError, match="output 'y' must be an array, not Series"):
            k(x, out=pd.Series(x))
        masked = np.ma.array(np.zeros(4, np.float32), mask=[0, 1, 0, 0])
        with pytest.raises(fl.UnsupportedError, match=r"output 'y' is a masked array.*out=y\.data"):
            k(x, out=masked)
        assert np.array_equal(k(x, out=masked.data), x - 3)


def test_outputs_that_do_not_fit_are_named():
    k = fl.compile("y = x - max(x, -1)")
    x = np.ones((2, 3), np.float32)
    with pytest.raises(fl.ShapeError, match="output 'y'"):
        k(x, out=np.empty((3, 2), np.float32))
    with pytest.raises(fl.TypeRuleError, match="output 'y'"):
        k(x, out=np.empty((2, 3), np.int32))
    frozen = np.empty((2, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(fl.ReadOnlyError, match="output 'y'"):
        k(x, out=frozen)


def test_what_is_copied_into_results_of_its_own_is_moved() -> None:
    x, s = 4 * 3 * 8, 4 * 3
    for text, outputs, moved in (
        ("s = sum(x, -1)", ["s"], x + s),
        ("s = sum(x, -1); y = x", ["s", "y"], x + s + 2 * x),
        ("s = sum(x, -1); t = s", ["s", "t"], x + s + 2 * s),
        ("s = sum(x, -1); n = 7", ["s", "n"], x + s + 8),
    ):
        assert StagedProgram(fl.optimize(fl.graph(text, outputs=outputs, shape=(3, 8)))).moved_bytes == moved


def check(count: int, seed: int, any_outputs: bool = False) -> None:
    operations = (*ELEMENTWISE, *REDUCTIONS, *REDUCTIONS)
    for p in seeded_programs(count, seed=seed, operations=operations, any_outputs=any_outputs):
        g = fl.optimize(p.graph)
        if not any(n.op in REDUCTIONS for n in p.program.nodes):
            continue
        wanted = interpret(expand(g), p.arrays)
        k = kernel_of(p.program, "kernel")
        given = k(**p.arrays)
        results = dict(zip(k.outputs, given if len(k.outputs) > 1 else (given,), strict=True))
        for name in wanted:
            assert same_bits(wanted[name], results[name]), f"{p.text}\n{first_difference(wanted[name], results[name])}"


def test_random_programs_with_reductions_give_the_bits_of_the_oracle():
    check(60, seed=31)
    check(40, seed=33, any_outputs=True)


@pytest.mark.long
def test_many_random_programs_with_reductions_give_the_bits_of_the_oracle():
    check(3_000, seed=32)
