"""Python integers of a call that no dtype holds before they meet others mean what they do in the text of a program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.errors import NumberRangeError, ShapeError, TypeRuleError

LONG = 2**63
BINARY: dict[str, Callable[..., Any]] = {
    "a + b": np.add, "a - b": np.subtract, "a*b": np.multiply, "a/b": np.divide, "a//b": np.floor_divide,
    "a % b": np.remainder, "a**b": np.power, "a & b": np.bitwise_and, "a << b": np.left_shift, "a < b": np.less,
    "a <= b": np.less_equal, "a == b": np.equal, "a != b": np.not_equal, "maximum(a, b)": np.maximum,
    "hypot(a, b)": np.hypot, "atan2(a, b)": np.arctan2,
}  # fmt: skip
NUMBERS = (LONG, -LONG, -LONG - 1, 2 * LONG - 1, 2 * LONG, 2 * LONG + 1, 10**30, -(10**30), 1, -1, 0, LONG - 1, 1.5)


def folded(formula: str, a: Any, b: Any) -> Any:
    """The value of the same numbers written in the program, or None where that is refused."""
    text = formula.replace("(a", f"(({a})").replace("a ", f"({a}) ").replace("a*", f"({a})*").replace("a/", f"({a})/")
    text = text.replace(" b", f" ({b})").replace("*b", f"*({b})").replace("/b", f"/({b})")
    try:
        return fl.compile(text)()
    except (TypeError, ArithmeticError):
        return None


@pytest.mark.parametrize("formula", BINARY)
def test_numbers_alone_give_what_numpy_gives_or_what_the_program_says(formula: str) -> None:
    kernel = fl.compile(formula)
    for a, b in itertools.product(NUMBERS, NUMBERS):
        try:
            with np.errstate(all="ignore"):
                expected = BINARY[formula](a, b)
        except (TypeError, OverflowError, ValueError):
            expected = None
        try:
            got = kernel(a, b)
        except (NumberRangeError, TypeRuleError) as error:
            assert expected is None, (a, b, error)
            continue
        named = kernel(b=b, a=a)
        assert got.dtype == named.dtype and np.array_equal(got, named, equal_nan=True)
        if expected is None:
            if all(-LONG <= v < LONG for v in (a, b)):
                continue  # int64 to a negative power, a listed difference
            expected = folded(formula, a, b)  # NumPy refuses what is exact, as the difference of two of them
            assert expected is not None, (a, b)
        assert got.dtype == np.asarray(expected).dtype, (a, b)
        np.testing.assert_array_max_ulp(np.float64(got), np.float64(expected), 2) if got.dtype.kind == "f" else None
        assert got.dtype.kind == "f" or got == expected, (a, b)


@pytest.mark.parametrize("number", [LONG, -LONG - 1, 2 * LONG, 10**30, 10**400])
@pytest.mark.parametrize("formula", ["a + b", "a*2 + b", "b*a", "a", "abs(a)", "a & b", "sum(a)", "sum(a + b)", "+a"])
def test_what_int64_cannot_hold_is_refused_by_the_name_of_the_input(formula: str, number: int) -> None:
    @fl.fuse
    def traced(a, b):
        return a * 2 + b

    kernel = fl.compile(formula)
    for k in (kernel, traced):
        others = {name: 1 for name in k.inputs if name != "a"}
        k(a=1, **others), k(a=2, **others)  # calls like earlier ones go other ways
        with pytest.raises(NumberRangeError, match="the input a"):
            k(*[number if name == "a" else 1 for name in k.inputs])
        with pytest.raises(NumberRangeError, match="the input a"):
            k(a=number, **others)
        with pytest.raises(NumberRangeError, match="the input a"):
            k(a=number, **others, out=np.empty((), np.int64))
    assert "object" not in _refusal(kernel, number)


def _refusal(kernel: Any, number: int) -> str:
    with pytest.raises(NumberRangeError) as caught:
        kernel(a=number, **{name: 1 for name in kernel.inputs if name != "a"})
    return str(caught.value)


def test_the_refusal_says_what_to_give() -> None:
    kernel = fl.compile("a + b")
    assert "np.uint64(9223372036854775808)" in _refusal(kernel, LONG)
    assert kernel(np.uint64(LONG), np.uint64(1)) == LONG + 1
    assert "give a float" in _refusal(kernel, 10**30) and "np.uint64" not in _refusal(kernel, 10**30)


def test_comparisons_are_by_value() -> None:
    less = fl.compile("a < b")
    ends = (-(10**30), -LONG - 1, -LONG, 0, LONG - 1, LONG, 2 * LONG - 1, 2 * LONG, 2 * LONG + 1, 10**30)
    for a, b in itertools.product(ends, ends):
        assert less(a, b) == (a < b) and less(a, b).dtype == bool
    x, y = np.uint64([2**64 - 1]), np.float32([1])
    assert fl.compile("where(x < s, y, 0)")(x=x, y=y, s=2**64) == 1  # beside arrays of several dtypes too
    assert fl.compile("where(x < s, y, 0)")(x=x, y=y, s=-(10**30)) == 0


def test_integers_beside_arrays_of_several_dtypes() -> None:
    x, y = np.arange(4, dtype=np.int8), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(fl.compile("x + y*s")(x, y, 2**70), x + y * np.float32(2**70))
    with pytest.raises(NumberRangeError, match="the input s"):
        fl.compile("x*s + y")(x, 2**70, y)
    with pytest.raises(ShapeError, match="y"):
        fl.compile("x + y*s")(x, y[:3], 2**70)
    for numbers in ((LONG, -1), (LONG, LONG), (-1, LONG)):  # two numbers met each other as uint64 and int64
        with pytest.raises(NumberRangeError):
            fl.compile("(a + b)*x + y")(*numbers, x, y)


def test_results_have_places_and_names_as_in_every_call() -> None:
    kernel = fl.compile("p = a/b; q = a < c; r = c + 1")
    got = kernel(10**30, 4, 2)
    assert type(got).__name__ == "kernel" and got == (2.5e29, False, 3)
    assert [type(v) for v in got] == [np.float64, np.bool_, np.int64]
    out = np.empty(3)
    with pytest.raises(ShapeError):
        kernel(10**30, 4, 2, out=(out, None, None))
    place = np.empty(())
    assert kernel(10**30, 4, 2, out=(place, None, None)).p is place and place == 2.5e29


def test_a_declared_input_gives_the_dtype() -> None:
    assert fl.compile("a: u64; a + 1")(LONG) == LONG + 1
    assert fl.compile("a: f32; a + b")(1.0, LONG).dtype == np.float32
    with pytest.raises(NumberRangeError, match="does not fit int64"):
        fl.compile("a: i64; a + 1")(LONG)
