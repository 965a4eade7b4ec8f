"""Numbers of a program: evaluated as IEEE doubles and exact integers among themselves, converted once to the dtype of
the array they meet, the same on every machine.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from arrays import same_bits, special_values
from fuseline.errors import FuselineError, LiteralError, TypeRuleError
from fuseline.frontends.formula import parse_formula
from fuseline.ir import TensorType, decimals, dtype, interpret
from fuseline.ir.dtype import BOOL, F16, F32, F64, I8, I64, U8, U64, DType
from fuseline.ir.literals import MAX_INTEGER_BITS, evaluate_literals
from fuseline.ir.node import const, const_array
from fuseline.ir.specialise import specialise
from fuseline.ops import OPERATIONS

NAN, INF = math.nan, math.inf


def value_of(formula: str) -> Any:
    """The value of a formula without arrays, as a NumPy scalar of its dtype."""
    (node,) = specialise(parse_formula(formula), {}).output_nodes
    assert node.op == "const", f"{formula} was not folded"
    return const_array(node)[()]


def beside(formula: str, d: DType, array: Any = (1,)) -> np.ndarray[Any, Any]:
    """The output of a formula over an array ``x`` of dtype ``d``."""
    x = np.asarray(array, d.numpy)
    graph = specialise(parse_formula(formula), {"x": TensorType(d, x.shape)})
    (result,) = interpret(graph, {"x": x}).values()
    return result


# ── among themselves ─────────────────────────────────────────────────────────────────────────────────────────────────

PYTHONS = [
    "1 + 2*3", "7 // 2", "-7 // 2", "7 % -3", "-7 % 3", "2**10", "2**-1", "(-3)**3", "1/3", "7/2", "1e308*10",
    "0.1 + 0.2", "abs(-3)", "1 << 20", "-1 >> 3", "6 & 3", "6 | 3", "6 ^ 3", "~5", "1 < 2", "2.5 >= 3", "1_000 + 0x10",
    "0b11 + 0o7", "3 << 0", "-5 >> 0",
    "-2**2", "2**3**2", "-2**-2", "10**20 // 10**18", "2**62 + 2**62 - 2**63", ".5 + 5.", "1e-400", "0.0 * -1",
    "5.5 // 2", "-5.5 % 2", "3 - -3", "+3", "--3", "1.0 // 0.1", "True + True*2",
]  # fmt: skip


@pytest.mark.parametrize("formula", PYTHONS)
def test_numbers_have_pythons_values(formula: str) -> None:
    expected = eval(formula)  # noqa: S307
    result = value_of(formula)
    assert repr(type(expected)(result)) == repr(expected)
    assert result.dtype == {bool: np.bool_, int: np.int64, float: np.float64}[type(expected)]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1/0", INF), ("-1/0", -INF), ("0/0", NAN), ("1.0 // 0", INF), ("1.0 % 0", NAN), ("0.0**-1", INF),
        ("inf - inf", NAN), ("log(0)", -INF), ("sqrt(-1)", NAN), ("exp(1000)", INF), ("exp(-1000)", 0.0),
        ("minimum(nan, 1)", NAN), ("maximum(-0.0, 0.0)", 0.0), ("nan**0", 1.0), ("where(1 < 2, 3, 4)", 3),
        ("where(nan, 3.5, 4)", 3.5), ("where(0.0, 3, 4)", 4), ("clip(5, 0, 3)", 3), ("floor(2.5) + ceil(2.5)", 5.0),
        ("round(2.5)", 2.0), ("isnan(nan)", True), ("sign(-2.0)", -1.0), ("pi", math.pi), ("e", math.e),
        ("fma(2.0, 3.0, 4.0)", 10.0), ("logical_not(0)", True), ("copysign(3, -0.0)", -3.0), ("abs(0.0)**2", 0.0),
        ("floor(7)", 7), ("minimum(3, 5)", 3), ("square(-3)", 9), ("reciprocal(2)", 0), ("reciprocal(-1)", -1),
        ("reciprocal(2.0)", 0.5), ("trunc(True)", True), ("where(True, 1, 2.0)", 1.0), ("where(False, True, 2)", 2),
        ("where(True, True, 2)", 1),
    ],
)  # fmt: skip
def test_functions_of_numbers(formula: str, expected: float) -> None:
    result = value_of(formula)
    assert same_bits(np.float64(result), np.float64(expected))
    if formula.startswith(("reciprocal", "trunc", "where")):  # they have the dtype of their operands
        assert result.dtype == np.asarray(expected).dtype


@pytest.mark.parametrize(
    ("formula", "error", "says"),
    [
        ("1 // 0", LiteralError, "division by zero"), ("1 % 0", LiteralError, "division by zero"),
        ("1 << -1", LiteralError, "negative shift"), ("2**5000", LiteralError, "bits"),
        ("1 << 5000", LiteralError, "bits"), ("1.5 & 2", TypeRuleError, "integers"),
        ("9**9**9", LiteralError, "bits"), ("2**63", LiteralError, "does not fit i64"),
        ("1.5 << 2", TypeRuleError, "integers"), ("~1.5", TypeRuleError, "integers"), ("-True", TypeRuleError, "bool"),
        ("True - True", TypeRuleError, "bool"),
        ("reciprocal(0)", LiteralError, "division by zero"),
    ],
)  # fmt: skip
def test_numbers_without_a_value_are_refused(formula: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        value_of(formula)
    assert isinstance(caught.value, FuselineError)
    assert "line 1" in str(caught.value) or formula == "2**63"


def test_integers_are_exact_up_to_the_limit() -> None:
    assert evaluate_literals("mul", [10**100, 10**100]) == 10**200
    assert evaluate_literals("pow", [3, 100]) == 3**100
    assert evaluate_literals("pow", [-1, 5001]) == -1
    assert evaluate_literals("pow", [0, 10**9]) == 0
    assert evaluate_literals("pow", [2, MAX_INTEGER_BITS - 1]) == 2 ** (MAX_INTEGER_BITS - 1)
    assert evaluate_literals("shl", [0, 10**9]) == 0
    for op, values in [("mul", [2**MAX_INTEGER_BITS // 2, 4]), ("pow", [2, MAX_INTEGER_BITS]), ("pow", [3, 10**9])]:
        with pytest.raises(LiteralError):
            evaluate_literals(op, values)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_large_integer_is_rounded_once_to_the_arrays_dtype(sign: int) -> None:
    for bits, digits, d in [(70, 24, F32), (64, 24, F32), (100, 53, F64)]:
        step = 2 ** (bits - digits)
        for below, offset, above in [
            (0, step // 2 - 1, 0),
            (0, step // 2, 0),
            (0, step // 2 + 1, 1),
            (1, step // 2, 2),
        ]:
            number = sign * (2 ** (bits - 1) + below * step + offset)
            nearest = sign * (2 ** (bits - 1) + above * step)
            assert int(beside(f"x*0 + {number}" if sign > 0 else f"x*0 - {-number}", d)[0]) == nearest


# ── beside arrays ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("d", [F32, F64, F16, dtype("bf16")])
def test_a_float_literal_is_rounded_once_to_the_arrays_dtype(d: DType) -> None:
    out = beside("x*0 + 0.1", d)
    assert same_bits(out, np.asarray([0.1]).astype(d.numpy))
    third = beside("x*0 + 1/3", d)
    assert same_bits(third, np.asarray([1 / 3]).astype(d.numpy))


def test_signed_numbers_and_comparisons_keep_float32() -> None:
    assert beside("-1 + x", F32).dtype == np.float32
    assert beside("x < -0.1", F32).dtype == np.bool_
    assert beside("x ** -1", F32, [4]).tolist() == [0.25]


def test_the_same_constant_twice_is_one_constant_and_nan_is_kept() -> None:
    graph = specialise(parse_formula("x*0.5 + y*0.5 + nan"), {"x": TensorType(F32), "y": TensorType(F32)})
    numbers = {a for n in graph.nodes for a in n.args if a.op == "const"}
    assert numbers == {const(0.5, F32), const(NAN, F32)}


@pytest.mark.parametrize("d", [I8, U8, I64, U64])
def test_an_integer_outside_the_arrays_range_is_an_error(d: DType) -> None:
    info = np.iinfo(d.numpy)
    for good in (int(info.min), int(info.max)):
        assert beside(f"x*0 + ({good})", d).tolist() == [good]
    for bad in (int(info.min) - 1, int(info.max) + 1):
        with pytest.raises(LiteralError, match=r"does not fit .*cast the array"):
            beside(f"x + ({bad})", d)


@pytest.mark.parametrize("d", [I8, U8, I64, U64])
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons_with_numbers_outside_the_range_are_those_of_the_numbers(d: DType, sign: str) -> None:
    info = np.iinfo(d.numpy)
    x = special_values(d.name)
    for number in (int(info.min) - 1, int(info.max) + 1, -(10**30), 10**30, int(info.min), int(info.max), 0):
        expected = [eval(f"{int(v)} {sign} {number}") for v in x]  # noqa: S307
        assert beside(f"x {sign} ({number})", d, x).tolist() == expected
        mirrored = [eval(f"{number} {sign} {int(v)}") for v in x]  # noqa: S307
        assert beside(f"({number}) {sign} x", d, x).tolist() == mirrored


def test_integers_beside_floats_may_be_large() -> None:
    assert beside("x*0 + 10**30", F32)[0] == np.float32(1e30)
    assert beside("x*0 + 10**400", F64)[0] == INF
    assert beside("x*0 + 70000", F16)[0] == INF


def test_integer_arrays_meet_floats_as_float64() -> None:
    assert beside("x * 0.5", I8, [3]).tolist() == [1.5]
    assert beside("x * 0.5", I8).dtype == np.float64
    assert beside("x / 2", U8, [3]).dtype == np.float64


def test_negative_integer_powers_of_integers_are_refused() -> None:
    for exponent in (-1, -2):
        with pytest.raises(LiteralError, match=rf"x\*\*{exponent}\.0"):
            beside(f"x ** {exponent}", I64)
    assert beside("x ** 0", I64, [0, 3]).tolist() == [1, 1]


def test_where_beside_numbers_takes_the_branches_dtype() -> None:
    assert beside("where(x > 0, x, 0)", F32).dtype == np.float32
    assert beside("where(x > 0, 1, 0)", F32).dtype == np.int64
    assert beside("where(x > 0, 1.0, 0)", I8).dtype == np.float64
    assert beside("where(1, x, 2)", U8).dtype == np.uint8


def test_a_bool_has_its_own_dtype_beside_arrays() -> None:
    for order in ("clip(x, True, 2.0)", "clip(x, 0.5, True)", "fma(x, True, 1.5)"):
        assert beside(order, F32).dtype == np.float32
    assert beside("x + True", I8, [1]).tolist() == [2]
    assert beside("x & True", BOOL).dtype == np.bool_


def test_clip_with_float_bounds_makes_integers_float64() -> None:
    out = beside("clip(x, 0, 1.5)", I8, [3, -1])
    assert out.dtype == np.float64
    assert out.tolist() == [1.5, 0.0]


# ── functions are correctly rounded, independently of the machine's library ──────────────────────────────────────────

MEASURED = [r.name for r in OPERATIONS.values() if r.exactness == "measured" and r.index_rule == "elementwise"]


def _reference() -> dict[str, Any]:
    mp = pytest.importorskip("mpmath")

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + mp.exp(-x))

    def gelu_tanh(x: Any) -> Any:
        return x * sigmoid(2 * mp.mpf(0.7978845608028654) * (x + mp.mpf(0.044715) * x**3))

    own = {
        "rsqrt": lambda x: 1 / mp.sqrt(x), "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "gelu_tanh": gelu_tanh,
        "exp2": lambda x: mp.power(2, x), "expm1": lambda x: mp.exp(x) - 1, "log2": lambda x: mp.log(x) / mp.log(2),
        "log10": lambda x: mp.log(x) / mp.log(10), "log1p": lambda x: mp.log(1 + x), "sigmoid": sigmoid,
        "softplus": lambda x: mp.log(1 + mp.exp(x)), "silu": lambda x: x * sigmoid(x),
        "gelu": lambda x: x / 2 * mp.erfc(-x / mp.sqrt(2)), "hypot": lambda x, y: mp.sqrt(x * x + y * y),
        "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), "pow": mp.power,
    }  # fmt: skip
    return {name: own.get(name) or getattr(mp, name) for name in MEASURED}


def _rounded_once(value: Any) -> float:
    sign, mantissa, exponent, _ = value._mpf_
    if not mantissa and exponent:
        return float(value)
    exact = Fraction(int(mantissa)) * Fraction(2) ** int(exponent) * (-1 if sign else 1)
    try:
        return float(exact)
    except OverflowError:
        return -INF if exact < 0 else INF


ARGUMENTS = (5e-324, 2.225073858507201e-308, 1e-9, 0.1, 0.7, 1.0, 1.5, 3.0, 20.0, 90.5, 700.0)


@pytest.mark.parametrize("op", MEASURED)
def test_functions_of_numbers_are_correctly_rounded(op: str) -> None:
    mp = pytest.importorskip("mpmath")
    reference = _reference()[op]
    source = random.Random(op)
    values = [
        *ARGUMENTS,
        *(-a for a in ARGUMENTS),
        *(source.gauss(0, 1) * 10 ** source.randint(-6, 2) for _ in range(25)),
    ]
    count = 0
    with mp.workdps(900):
        for x in values:
            operands = [x] if OPERATIONS[op].arity == 1 else [x, source.choice(values)]
            ours = decimals.evaluate(op, operands)
            if ours is None:
                continue
            assert ours == _rounded_once(reference(*map(mp.mpf, operands))), operands
            count += 1
    assert count >= 8


def test_special_operands_are_the_tables() -> None:
    for op in MEASURED:
        assert decimals.evaluate(op, [NAN] * OPERATIONS[op].arity) is None
        assert decimals.evaluate(op, [INF] * OPERATIONS[op].arity) is None
    assert evaluate_literals("sin", [-0.0]) == 0
    assert math.copysign(1, float(evaluate_literals("sin", [-0.0]))) == -1
    assert evaluate_literals("atanh", [1.0]) == INF
    assert evaluate_literals("atan2", [0.0, -1.0]) == math.pi
    assert evaluate_literals("exp", [1e308]) == INF
    assert evaluate_literals("exp", [-1e308]) == 0
    assert evaluate_literals("tanh", [1e308]) == 1
    assert evaluate_literals("sin", [1e300]) == -0.8178819121159085
    assert evaluate_literals("pow", [-8.0, 1 / 3]) != evaluate_literals("pow", [-8.0, 1 / 3])
    assert evaluate_literals("pow", [-2.0, 3.0]) == -8.0


@pytest.mark.parametrize("x", [1e308, -1e308, 1e17, -1e23])
def test_a_huge_argument_has_the_value_that_float64_functions_give(x: float) -> None:
    for op in MEASURED:
        meaning = OPERATIONS[op].meaning
        assert meaning is not None
        operands = [x] * OPERATIONS[op].arity
        with np.errstate(all="ignore"):
            wanted = float(meaning(*map(np.float64, operands)))
        assert float(evaluate_literals(op, operands)) == pytest.approx(wanted, rel=5e-16, nan_ok=True), op


def test_the_square_of_a_number_is_its_product() -> None:
    source = random.Random(3)
    for _ in range(200):
        x = source.gauss(0, 1)
        assert evaluate_literals("pow", [x, 2]) == x * x
        assert evaluate_literals("pow", [x, 2.0]) == x * x
