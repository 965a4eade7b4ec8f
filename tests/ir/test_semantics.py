"""What operations mean, over special values: against NumPy where the two must agree, against independent arithmetic
where NumPy's result depends on the machine, on argument order or on rounding at every step.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from arrays import Array, first_difference, same_bits, special_values
from fuseline.frontends.formula import parse_formula
from fuseline.ir import TensorType, dtype, interpret
from fuseline.ir.specialise import specialise
from fuseline.ops import OPERATIONS
from programs import DTYPES, ELEMENTWISE, INTEGERS, RandomProgram, operation_programs


def run(formula: str, **arrays: Any) -> Array:
    """The single output of a formula, by the oracle."""
    (result,) = outputs(formula, **arrays).values()
    return result


def outputs(formula: str, **arrays: Any) -> dict[str, Array]:
    """The outputs of a formula, by the oracle."""
    program = parse_formula(formula)
    given = {n: np.asarray(a) for n, a in arrays.items()}
    types = {n: TensorType(dtype(a.dtype), a.shape) for n, a in given.items()}
    return interpret(specialise(program, types), given)


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def f64(*values: float) -> Array:
    return np.array(values, np.float64)


NAN, INF = math.nan, math.inf

# ── every operation against NumPy ────────────────────────────────────────────────────────────────────────────────────

ORDERED = ("minimum", "maximum", "fmin", "fmax", "clip", "relu")  # -0 stands below +0, which NumPy leaves open
EXACT = [op for op in ELEMENTWISE if OPERATIONS[op].exactness != "measured" and op not in ("fma", *ORDERED)]


def _numpys(made: RandomProgram) -> Array:
    node = made.program.nodes[0]
    operands = list(made.arrays.values())
    if node.op == "cast":
        return operands[0].astype(node.attr("dtype").numpy)
    return np.asarray(getattr(np, OPERATIONS[node.op].spellings[0])(*operands))


def _quiet(made: Iterator[RandomProgram]) -> Iterator[tuple[RandomProgram, Array, Array]]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in made:
            yield one, interpret(one.graph, one.arrays)["out"], _numpys(one)


@pytest.mark.parametrize("op", EXACT)
def test_exact_operations_give_numpys_bits_over_special_values(op: str) -> None:
    dtypes = [d for d in DTYPES if d != "bf16" and (op, d) != ("round", "bool")]  # NumPy's rint makes bool a float16
    seen = 0
    for made, ours, numpys in _quiet(operation_programs([op], dtypes)):
        assert same_bits(ours, numpys), f"{made}: {first_difference(ours, numpys)}"
        seen += 1
    assert seen


@pytest.mark.long
@pytest.mark.parametrize("op", [op for op in EXACT if OPERATIONS[op].arity == 2])
def test_exact_operations_on_mixed_dtypes_give_numpys_bits(op: str) -> None:
    dtypes = [d for d in DTYPES if d not in ("bf16", "f16")]
    for made, ours, numpys in _quiet(operation_programs([op], dtypes, mixed=True)):
        assert same_bits(ours, numpys), f"{made}: {first_difference(ours, numpys)}"


@pytest.mark.parametrize("op", [op for op in ORDERED if op != "relu"])
def test_minima_and_maxima_differ_from_numpys_in_the_sign_of_zero_alone(op: str) -> None:
    for made, ours, numpys in _quiet(operation_programs([op], [d for d in DTYPES if d != "bf16"])):
        if not same_bits(ours, numpys):
            assert made.types["x0"].dtype.is_float
            assert same_bits(ours + ours.dtype.type(0), numpys + numpys.dtype.type(0)), str(made)


NUMPYS_FUNCTIONS = [
    op for op in ELEMENTWISE if OPERATIONS[op].exactness == "measured" and OPERATIONS[op].numpy_name and op != "pow"
]
"""Without pow, whose squares are products."""


@pytest.mark.parametrize("op", NUMPYS_FUNCTIONS)
def test_functions_are_the_float64_value_rounded_once(op: str) -> None:
    """For f32 and f16: NumPy's own float64 function, rounded; its float32 functions err by up to some ulps."""
    function = getattr(np, str(OPERATIONS[op].numpy_name))
    for made in operation_programs([op], ("f32", "f16")):
        with np.errstate(all="ignore"):
            wide = function(*(a.astype(np.float64) for a in made.arrays.values()))
            expected = wide.astype(np.float32).astype(next(iter(made.arrays.values())).dtype)
        ours = interpret(made.graph, made.arrays)["out"]
        assert same_bits(ours, expected), f"{made}: {first_difference(ours, expected)}"


# ── NaN, infinities, zeros: nothing is folded away ───────────────────────────────────────────────────────────────────


def test_products_with_zero_keep_nan_and_sign() -> None:
    x = f32(NAN, INF, -INF, -1, 1)
    for formula in ("x*0.0", "0*x"):
        assert same_bits(run(formula, x=x), f32(NAN, NAN, NAN, -0.0, 0.0))


def test_differences_and_quotients_of_equal_values_keep_nan() -> None:
    assert same_bits(run("x - x", x=f64(INF, NAN, 1)), f64(NAN, NAN, 0))
    assert same_bits(run("x / x", x=f64(0, INF, NAN, 2)), f64(NAN, NAN, NAN, 1))
    assert same_bits(run("(x*y)/y", x=f64(3, 1e300), y=f64(0, 1e300)), f64(NAN, INF))
    assert run("x == x", x=f64(NAN, 1)).tolist() == [False, True]
    assert run("x != x", x=f64(NAN, 1)).tolist() == [True, False]
    assert run("isnan(x)", x=f32(NAN, INF)).tolist() == [True, False]


def test_adding_zero_is_not_the_identity_but_subtracting_it_is() -> None:
    assert same_bits(run("x + 0.0", x=f32(-0.0)), f32(0.0))
    assert same_bits(run("x - 0.0", x=f32(-0.0)), f32(-0.0))
    assert same_bits(run("x + (-0.0)", x=f32(-0.0, 0.0)), f32(-0.0, 0.0))
    assert same_bits(run("0.0 - x", x=f32(0.0)), f32(0.0))
    assert same_bits(run("-x", x=f32(0.0)), f32(-0.0))


def test_sums_are_not_reassociated_or_contracted() -> None:
    largest = np.finfo(np.float32).max
    assert same_bits(run("(a+b)-a", a=f32(largest), b=f32(largest)), f32(INF))
    assert same_bits(run("(a+b)-a", a=f64(1e20), b=f64(1)), f64(0))
    assert same_bits(run("a - b*c", a=f64(1), b=f64(10), c=f64(0.1)), f64(0.0))
    third = f32(1 / 3)
    assert same_bits(run("x*x - y*y", x=third, y=third.copy()), f32(0))


def test_division_by_a_literal_zero_is_infinite() -> None:
    assert same_bits(run("x / 0.0", x=np.full(5, -236.0, np.float32)), np.full(5, -INF, np.float32))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_quotients_by_literals_are_correctly_rounded(kind: Any) -> None:
    x = np.arange(1, 60).astype(kind)
    for c in range(3, 60):
        exact = [kind(float(Fraction(int(v), c))) if kind is np.float64 else _round_f32(Fraction(int(v), c)) for v in x]
        assert same_bits(run(f"x / {c}", x=x), np.array(exact, kind))


def _round_f32(value: Fraction) -> np.float32:
    near = np.float32(float(value))
    candidates = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(candidates, key=lambda c: abs(Fraction(float(c)) - value))


def test_logarithms_and_exponentials_are_not_cancelled() -> None:
    out = run("exp(log(x))", x=f64(-1, 0, 4))
    assert math.isnan(out[0])
    assert out[1] == 0
    assert out[2] == np.exp(np.log(4.0))


def test_terms_that_are_minus_infinity_do_not_make_a_sum_of_exponentials_nan() -> None:
    x = f32(-INF, 1.0, -INF, 2.0)
    out = outputs("m = max(x, -1); s = exp(x - m); out = log(sum(s, -1)) + m; g = s / sum(s, -1)", x=x)
    assert same_bits(out["out"], np.array([np.float32(np.log(np.float32(np.exp(-1.0)) + 1)) + 2], np.float32))
    assert not np.isnan(out["g"]).any()


def test_nan_wins_in_minimum_maximum_clip_and_relu_in_every_broadcast_form() -> None:
    for a, b in ((f32(NAN), f32(2)), (f32(2), f32(NAN)), (np.float32(NAN), f32(2, 3)), (f32(2, 3), np.float32(NAN))):
        assert np.isnan(run("minimum(a, b)", a=a, b=b)).all()
        assert np.isnan(run("maximum(a, b)", a=a, b=b)).all()
    assert np.isnan(run("clip(x, 0, 1)", x=f32(NAN))).all()
    assert np.isnan(run("clip(x, a, 1)", x=f32(0.5), a=f32(NAN))).all()
    assert np.isnan(run("relu(x)", x=f32(NAN))).all()
    assert same_bits(run("fmax(a, b)", a=f32(NAN, 1, NAN), b=f32(2, NAN, NAN)), f32(2, 1, NAN))


def test_minimum_and_maximum_order_the_zeros_whichever_comes_first() -> None:
    a, b = f32(0.0, -0.0, 0.0, -0.0), f32(-0.0, 0.0, 0.0, -0.0)
    assert same_bits(run("minimum(a, b)", a=a, b=b), f32(-0.0, -0.0, 0.0, -0.0))
    assert same_bits(run("maximum(a, b)", a=a, b=b), f32(0.0, 0.0, 0.0, -0.0))
    assert same_bits(run("fmin(a, b)", a=a, b=b), f32(-0.0, -0.0, 0.0, -0.0))
    assert same_bits(run("fmax(a, b)", a=a, b=b), f32(0.0, 0.0, 0.0, -0.0))
    assert same_bits(run("relu(x)", x=f32(-0.0, 0.0)), f32(0.0, 0.0))


def test_the_gelu_formula_saturates_and_keeps_nan_at_minus_infinity() -> None:
    gelu = "0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h)))"
    out = run(gelu, h=f32(-13.24, -50, -INF, INF, NAN))
    assert abs(out[0]) <= 1e-37
    assert abs(out[1]) <= 1e-37
    assert np.isnan(out[2])
    assert out[3] == INF
    assert np.isnan(out[4])


def test_tiny_arguments_and_the_edges_of_exp() -> None:
    assert run("atanh(x)", x=f32(1e-8))[0] == np.float32(1e-8)
    assert np.isnan(run("erf(x)", x=f32(NAN)))[0]
    x = f32(88, 88.7, -87.5, -88, -100, -103.9, -104, 88.72284, 100)
    expected = f32(1.6516363e38, 3.325977e38, 9.982351e-39, 6.0546e-39, 3.7835e-44, 1.4e-45, 0, INF, INF)
    np.testing.assert_allclose(run("exp(x)", x=x), expected, rtol=3e-4)
    assert same_bits(run("x * y", x=f64(1e-310, 1e-200), y=f64(1e100, 1e-110)), f64(1e-310 * 1e100, 1e-310))
    assert np.isnan(run("sin(atan(x))", x=f64(NAN)))[0]


# ── integers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_division_floors_and_never_signals(name: str) -> None:
    values = special_values(name)
    a, b = values[:, None], values[None, :]
    quotient, rest = run("a // b", a=a, b=b), run("a % b", a=a, b=b)
    width = dtype(name).bits
    for i, j in np.ndindex(quotient.shape):
        x, y = int(values[i]), int(values[j])
        if y == 0:
            assert (quotient[i, j], rest[i, j]) == (0, 0)
        else:
            assert int(quotient[i, j]) == _wrapped(x // y, name, width)
            assert int(rest[i, j]) == x % y


def _wrapped(value: int, name: str, width: int) -> int:
    low = value % 2**width
    return low - 2**width if name.startswith("i") and low >= 2 ** (width - 1) else low


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_arithmetic_wraps(name: str) -> None:
    values = special_values(name)
    a, b = values[:, None], values[None, :]
    for sign, exact in (
        ("+", int.__add__),
        ("-", int.__sub__),
        ("*", int.__mul__),
        ("&", int.__and__),
        ("^", int.__xor__),
    ):
        out = run(f"a {sign} b", a=a, b=b)
        for i, j in np.ndindex(out.shape):
            assert int(out[i, j]) == _wrapped(exact(int(values[i]), int(values[j])), name, dtype(name).bits), sign


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_are_those_of_unbounded_integers(name: str) -> None:
    """A count of the width or more (or negative, which reads as a large one) leaves nothing but the sign."""
    values, width = special_values(name), dtype(name).bits
    a, b = values[:, None], values[None, :]
    left, right = run("a << b", a=a, b=b), run("a >> b", a=a, b=b)
    for i, j in np.ndindex(left.shape):
        x, count = int(values[i]), int(values[j])
        count = count if 0 <= count < width else width
        assert int(left[i, j]) == _wrapped(x << count, name, width)
        assert int(right[i, j]) == _wrapped(x >> count, name, width)
    assert run("x << 64", x=np.array([1000]))[0] == 0
    assert run("x >> 64", x=np.array([-1]))[0] == -1
    assert run("x >> 31", x=np.array([-1]))[0] == -1


def test_negation_inside_floor_division_rounds_up() -> None:
    assert run("-((-a)//3)", a=np.array([3, 7, 10])).tolist() == [1, 3, 4]
    assert run("a//b", a=np.array([8, -8, 7, -7]), b=np.array([-3, 3, -2, 2])).tolist() == [-3, -3, -4, -4]


def test_float_floor_division_and_remainder_follow_python() -> None:
    assert run("x // 0.1", x=f64(1.0))[0] == 9
    assert same_bits(run("x // 1.0", x=f64(INF, -INF)), f64(NAN, NAN))
    values = [v for v in special_values("f64").tolist() if math.isfinite(v)]
    for x, y in itertools.product(values, values):
        if y != 0 and abs(x / y) < 1e15:
            assert run("x // y", x=f64(x), y=f64(y))[0] == x // y
            assert same_bits(run("x % y", x=f64(x), y=f64(y)), f64(x % y))


def test_integer_powers_are_exact_and_wrap() -> None:
    assert run("x**3", x=np.array([1, 5], np.int32)).tolist() == [1, 125]
    assert run("x**39", x=np.array([3]))[0] == 4052555153018976267
    assert run("x**y", x=np.array([2, -1, 1, 3, 0], np.int8), y=np.array([-1, -3, -7, -1, 0], np.int8)).tolist() == [
        0, -1, 1, 0, 1,
    ]  # fmt: skip
    assert run("x**64", x=np.array([2], np.uint64))[0] == 0
    assert same_bits(run("x**-2.0", x=np.array([2, 4])), f64(0.25, 0.0625))


@pytest.mark.parametrize("name", [d for d in DTYPES if d != "bool"])
def test_squares_are_products(name: str) -> None:
    x = special_values(name)
    expected = run("x*x", x=x)
    for formula in ("x**2", "square(x)", "x**y") if name[0] in "iu" else ("x**2", "x**2.0", "square(x)", "x**y"):
        out = run(formula, x=x, y=np.full_like(x, 2)) if "y" in formula else run(formula, x=x)
        assert same_bits(out, expected), formula


def test_pow_follows_annex_f_in_every_form() -> None:
    ones = f64(NAN, INF, -INF, 0.0, 2.0)
    assert (run("x**0.0", x=ones) == 1).all()
    assert (run("1.0**x", x=ones) == 1).all()
    assert same_bits(run("x**0.5", x=f64(-INF, -0.0)), f64(INF, 0.0))
    assert same_bits(run("x**y", x=f64(-INF), y=f64(0.5)), f64(INF))
    assert same_bits(run("x**y", x=np.float64(-INF), y=np.float64(0.5)), np.float64(INF))


def test_bool_arithmetic() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert run("a + b", a=a, b=b).tolist() == [False, True, True, True]
    assert run("a * b", a=a, b=b).tolist() == [False, False, False, True]
    assert run("~a", a=a).tolist() == [True, True, False, False]


def test_unsigned_columns_are_not_widened_and_compare_as_numbers() -> None:
    x = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    assert run("x + 1", x=x).dtype == np.uint64
    assert run("x > 9223372036854775808", x=x).tolist() == [False, False, False, True]
    assert run("x > y", x=x, y=np.array([-1, 1, -5, 2**62])).tolist() == [True, False, True, True]
    assert run("x == y", x=np.array([2**63 + 1], np.uint64), y=np.array([2**63 - 1])).tolist() == [False]


# ── casts and 16-bit floats ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", INTEGERS)
def test_floats_become_integers_by_one_rule_for_every_value(target: str) -> None:
    """What fits is truncated; the rest is the conversion of x86-64: the most negative of 32 or 64 bits, cut off."""
    x = np.concatenate([special_values("f64"), special_values("f32").astype(np.float64), f64(-1.5, 1e20, 255.9, 256)])
    out = run(f"{target}(x)", x=x)
    wide = 64 if target in ("u32", "i64", "u64") else 32
    for value, result in zip(x.tolist(), out.tolist(), strict=True):
        whole = math.trunc(value) if math.isfinite(value) else None
        if target == "u64" and whole is not None and 2**63 <= whole < 2**64:
            assert result == whole
            continue
        held = whole if whole is not None and -(2 ** (wide - 1)) <= whole < 2 ** (wide - 1) else -(2 ** (wide - 1))
        assert result == _wrapped(held, target, dtype(target).bits), value


def test_the_reported_float_to_integer_values() -> None:
    x = f32(-1.5, NAN, 1e20)
    assert run("u8(x)", x=x).tolist() == [255, 0, 0]
    assert run("i32(x)", x=x).tolist() == [-1, -(2**31), -(2**31)]
    assert run("i64(x)", x=x).tolist() == [-1, -(2**63), -(2**63)]


BF16_VECTORS = [
    (0x7F800001, 0x7FC0), (0x7FC00000, 0x7FC0), (0x3E89CCD5, 0x3E8A), (0x7F7FFFFF, 0x7F80), (0x80000000, 0x8000),
    (0x00000001, 0x0000), (0xFFFFFFFF, 0xFFFF), (0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x7F800000, 0x7F80),
    (0x00008000, 0x0000), (0x00008001, 0x0001), (0x00018000, 0x0002), (0x007FFFFF, 0x0080), (0x33018000, 0x3302),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "expected"), BF16_VECTORS)
def test_bfloat16_rounds_to_nearest_even_with_subnormals(bits: int, expected: int) -> None:
    x = np.array([bits], np.uint32).view(np.float32)
    wanted = np.array([expected], np.uint16).view(dtype("bf16").numpy)
    assert same_bits(run("bf16(x)", x=x), wanted)


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_sixteen_bit_rounding_is_the_nearest_even_neighbour(name: str) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(dtype(name).numpy)
    wide = every.astype(np.float32)
    assert same_bits(run(f"{name}(f32(x))", x=every), every)
    finite = np.sort(wide[np.isfinite(wide) & ~np.signbit(wide)])
    middles = ((finite[:-1].astype(np.float64) + finite[1:]) / 2).astype(np.float32)
    low_is_even = (finite[:-1].astype(dtype(name).numpy).view(np.uint16) & 1) == 0
    expected = np.where(low_is_even, finite[:-1], finite[1:]).astype(dtype(name).numpy)
    assert same_bits(run(f"{name}(x)", x=middles), expected)
    assert same_bits(run(f"{name}(-x)", x=middles), -expected)


def test_only_outputs_and_explicit_casts_round_sixteen_bit_floats() -> None:
    x = np.array([2.0**-8], np.float32).astype(dtype("bf16").numpy)
    kept = run("y = x + 1; y - 1", x=x)  # 1 + 2**-8 is no bfloat16, and is kept in float32
    assert float(kept[0]) == 2.0**-8
    cut = run("y = bf16(x + 1); y - 1", x=x)
    assert float(cut[0]) == 0.0
    program = parse_formula("y = x + 1; z = y - 1")
    graph = specialise(program.with_outputs(["y", "z"]), {"x": TensorType(dtype("bf16"), (1,))})
    both = interpret(graph, {"x": x})
    assert float(both["y"][0]) == 1.0
    assert float(both["z"][0]) == 2.0**-8


def test_an_explicit_cast_in_the_middle_of_a_chain_rounds() -> None:
    x = f32(1.00390625, 0.1, 3.14159)
    out = run("f32(bf16(x * 1.5)) + 1", x=x)
    rounded = (x * np.float32(1.5)).astype(dtype("bf16").numpy).astype(np.float32)
    assert same_bits(out, rounded + np.float32(1))
    floored = run("floor(f16(cos(x)))", x=np.linspace(-4, 4, 99, dtype=np.float32))
    cosine = np.cos(np.linspace(-4, 4, 99, dtype=np.float32).astype(np.float64)).astype(np.float32).astype(np.float16)
    assert same_bits(floored, np.floor(cosine))


# ── reductions and shapes ────────────────────────────────────────────────────────────────────────────────────────────


def test_float32_sums_are_as_accurate_as_pairwise_ones() -> None:
    x = np.full(10**6, 1 / 255, np.float32)
    assert abs(float(run("sum(x)", x=x)) - 10**6 * float(np.float32(1 / 255))) < 5e-4
    limit = np.finfo(np.float32).max
    assert run("sum(x)", x=f32(limit, -limit, limit, -limit)) == 0


def test_sums_follow_the_documented_tree_of_neighbours() -> None:
    x = np.random.default_rng(2).standard_normal(37).astype(np.float32)
    for n in range(1, 38):
        level = list(x[:n])
        while len(level) > 1:
            level = [sum(level[i : i + 2][1:], level[i]) for i in range(0, len(level), 2)]
        assert same_bits(run("sum(x)", x=x[:n]), level[0]), n
    blocks = np.array([run("sum(x)", x=x[i : i + 8]) for i in range(0, 32, 8)])
    assert same_bits(run("sum(x)", x=x[:32]), run("sum(x)", x=blocks))


def test_a_column_sums_to_the_same_bits_alone_and_in_its_matrix() -> None:
    matrix = np.random.default_rng(0).standard_normal((1001, 7)).astype(np.float32)
    whole = run("sum(x, 0, keepdims=False)", x=matrix)
    for j in range(7):
        assert same_bits(whole[j], run("sum(x)", x=matrix[:, j]))
        assert same_bits(whole[j], run("sum(x)", x=np.ascontiguousarray(matrix[:, j])))


def test_empty_and_zero_dimensional_arrays() -> None:
    assert run("a*a", a=np.ones(0)).shape == (0,)
    assert run("sum(a, 1, keepdims=False)", a=np.ones((0, 10))).shape == (0,)
    assert same_bits(run("sum(a, 0, keepdims=False)", a=np.ones((0, 10))), np.zeros(10))
    assert run("sum(a, 1, keepdims=False)", a=np.ones((3, 0, 4))).shape == (3, 4)
    assert run("any(a)", a=np.ones(0)) == np.False_
    assert run("all(a)", a=np.ones(0)) == np.True_
    assert np.isnan(run("mean(a)", a=np.ones(0)))
    for op in ("sum", "max", "min", "mean"):
        assert run(f"{op}(x)", x=np.float64(3.0)).shape == ()
        assert run(f"{op}(x)", x=np.float64(3.0)) == 3
    assert run("x**y + exp(x) - where(x > 1, x, y)", x=np.float64(2), y=np.float64(3)).shape == ()


def test_maximum_over_an_axis_propagates_nan_and_orders_zeros() -> None:
    assert np.isnan(run("max(x)", x=f64(1, NAN, 3)))
    assert same_bits(run("max(x)", x=f64(-0.0, 0.0, -0.0)), np.float64(0.0))
    assert same_bits(run("min(x)", x=f64(0.0, -0.0, 0.0)), np.float64(-0.0))


def test_row_softmax_keeps_reduced_axes_so_that_rows_meet_their_results() -> None:
    x = np.random.default_rng(1).standard_normal((4, 9)).astype(np.float32)
    out = run("m = max(x, -1)\ne = exp(x - m)\nout = e / sum(e, -1)", x=x)
    wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(out, wide / wide.sum(-1, keepdims=True), rtol=1e-6)
    assert run("max(x, -1, keepdims=False)", x=x).shape == (4,)
    assert run("max(x)", x=x).shape == ()
    assert run("max(x, keepdims=True)", x=x).shape == (1, 1)
