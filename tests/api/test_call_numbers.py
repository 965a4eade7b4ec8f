"""Python numbers given for inputs: each operation converts them to the dtype of the arrays beside them (NEP 50)."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.errors import NumberRangeError

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
FORMULAS: dict[str, Callable[..., Any]] = {
    "x*s + y": lambda x, s, y: x * s + y,
    "(x + s)*y": lambda x, s, y: (x + s) * y,
    "x + s*2 + y": lambda x, s, y: x + s * 2 + y,
    "(s*3 - x)*y": lambda x, s, y: (s * 3 - x) * y,
    "maximum(x, s) + y": lambda x, s, y: np.maximum(x, s) + y,
    "where(x > s, x, y)": lambda x, s, y: np.where(x > s, x, y),
    "where(s < 3, x, y)": lambda x, s, y: np.where(s < 3, x, y),
    "(x < s)*y": lambda x, s, y: (x < s) * y,
    "x/s + y": lambda x, s, y: x / s + y,
    "x + y*(s/2)": lambda x, s, y: x + y * (s / 2),
    "(s < 2)*x + y": lambda x, s, y: (s < 2) * x + y,
}


def array(dtype: str, seed: int, n: int = 9) -> Any:
    whole = np.random.default_rng(seed).integers(0, 2 if dtype == "?" else 100, n)
    return (whole + (0.37 if dtype.startswith("f") else 0)).astype(dtype)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("number", [3, 2.5, 0.1, -1, True, 40], ids=repr)
def test_numbers_beside_arrays_of_two_dtypes_do_what_numpy_does(formula: str, number: Any) -> None:
    kernel, function = fl.compile(formula), FORMULAS[formula]
    pairs = [p for p in itertools.product(DTYPES, DTYPES) if p[0] != p[1]]
    for i, (first, second) in enumerate(pairs[len(formula) % 3 :: 3]):
        x, y = array(first, i), array(second, i + 1000)
        try:
            with np.errstate(all="ignore"):
                expected = function(x, number, y)
        except (OverflowError, TypeError) as error:  # NumPy refuses the number, or the operation on bool
            with pytest.raises((OverflowError, TypeError, ValueError)):
                kernel(x=x, s=number, y=y)
            assert "np.bool" not in str(error) or first == "?"
            continue
        got = kernel(x=x, s=number, y=y)
        assert got.dtype == expected.dtype, (first, second)
        np.testing.assert_array_equal(got, expected, err_msg=f"{first}, {second}")


def test_a_number_is_rounded_to_the_array_that_it_meets_first() -> None:
    x, y = np.linspace(0, 1, 50_000, dtype=np.float32), np.linspace(0, 1, 50_000)
    kernel = fl.compile("x*s + y")
    for _ in range(3):  # the first calls of a kind go other ways than later ones
        np.testing.assert_array_equal(kernel(x, 0.1, y), x * 0.1 + y)
    out = np.empty(50_000)
    assert kernel(x, 0.3, y, out=out) is out
    np.testing.assert_array_equal(out, x * 0.3 + y)
    again = pickle.loads(pickle.dumps(kernel))  # noqa: S301 - our own bytes
    np.testing.assert_array_equal(again(x, 0.1, y), x * 0.1 + y)


def test_numbers_of_every_kind_are_told_apart_from_call_to_call() -> None:
    x, y = np.arange(4, dtype=np.int8), np.arange(4, dtype=np.int32)
    kernel = fl.compile("x*s + y")
    for number in (2, 2.0, True, 2, 100, 2.5):
        got, expected = kernel(x, number, y), x * number + y
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("formula", "number"),
    [("x*s + y", 1000), ("x*s + y", -129), ("x + s*2 + y", 100), ("y*s + x", 2**31), ("x**s + y", -1)],
)
def test_integers_that_do_not_fit_what_they_meet_are_refused(formula: str, number: int) -> None:
    x, y = np.arange(4, dtype=np.int8), np.arange(4, dtype=np.int32)
    with pytest.raises(NumberRangeError, match=rf"is {number if 's*2' not in formula else 200}"):
        fl.compile(formula)(x=x, s=number, y=y)


def test_what_is_computed_of_numbers_alone_does_not_wrap_unseen() -> None:
    x, y = np.arange(4, dtype=np.int64), np.arange(4, dtype=np.int8)
    with pytest.raises(NumberRangeError, match="computed by mul"):
        fl.compile("x + s*s + y")(x=x, s=2**40, y=y)


def test_integers_are_compared_by_value() -> None:
    x, y = np.arange(4, dtype=np.int8), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(fl.compile("where(x < s, y, 0)")(x=x, s=300, y=y), y)


@pytest.mark.parametrize("formula", ["x < s", "x: i8; x == s", "s: i8; x >= s"])
def test_beside_arrays_of_one_dtype_an_integer_that_does_not_fit_is_refused_where_it_is_compared_too(
    formula: str,
) -> None:
    x = np.arange(4, dtype=np.int8)
    with pytest.raises(NumberRangeError, match="the number 300 does not fit int8"):
        fl.compile(formula)(x=x, s=300)
    assert fl.compile("x < 300")(x).all()  # written in the program it is compared by value


def test_numbers_meet_arrays_in_operations_that_compute_floats_of_integers() -> None:
    """NumPy divides int8 by 200, which is no int8, as float64; and so for a number in the formula."""
    x, y = np.arange(1, 5, dtype=np.int8), np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(fl.compile("x/s + y")(x=x, s=200, y=y), x / 200 + y)
    np.testing.assert_array_equal(fl.compile("x/200")(x), x / 200)
    assert fl.compile("atan2(x, 200)")(x).dtype == np.arctan2(x, 200).dtype


def test_numbers_beside_other_libraries_arrays_and_in_reductions() -> None:
    series = pytest.importorskip("pandas").Series
    x, y = np.arange(8, dtype=np.int8), np.arange(8, dtype=np.int32)
    got = fl.compile("x*s + y")(series(x), 100, series(y))
    np.testing.assert_array_equal(got, x * np.int8(100) + y)
    summed = fl.compile("sum(x*s + y)")
    assert summed(x, 100, y) == np.sum(x * np.int8(100) + y)
    with pytest.raises(NumberRangeError, match="is 128"):
        summed(x, 128, y)


def test_integers_that_only_uint64_holds_stay_integers() -> None:
    x, y = np.float32([2]), np.uint64([1])
    np.testing.assert_array_equal(fl.compile("x*(y - s)")(x=x, y=y, s=2**63), x * (y - 2**63))
    np.testing.assert_array_equal(fl.compile("where(y < s, x, 0)")(x=x, y=np.uint64([2**64 - 2]), s=2**64 - 1), x)
    np.testing.assert_array_equal(fl.compile("(y | s) + x")(x=x, y=y, s=2**63), (y | np.uint64(2**63)) + x)


@pytest.mark.parametrize("number", [3, -2, 2.5, True], ids=repr)
def test_a_number_may_be_cast_or_given_back_by_itself(number: Any) -> None:
    expected = np.asarray(number)
    alone = fl.compile("a")(number)
    assert (alone, alone.dtype) == (number, expected.dtype)
    for dtype in ("f32", "f64", "i8", "i64", "bool"):
        cast = fl.compile(f"{dtype}(a)")(number)
        wanted = expected.astype({"f32": "f4", "f64": "f8", "i8": "i1", "i64": "i8", "bool": "?"}[dtype])
        assert (cast, cast.dtype) == (wanted, wanted.dtype)
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(fl.compile("f32(a)*x")(a=number, x=x), np.float32(number) * x, strict=True)
    x, y = np.arange(3, dtype=np.float32), np.arange(3, dtype=np.float64)
    for _ in range(3):
        found = fl.compile("p = f32(a)*x; q = y + 1; r = a")(a=number, x=x, y=y)
        np.testing.assert_array_equal(found.p, np.float32(number) * x, strict=True)
        assert (found.r, found.r.dtype) == (number, expected.dtype)


@pytest.mark.parametrize("text", ["y = x*min(n) + z", "y = x*max(n) + z", "y = x*sum(n + 1) + z"])
def test_an_integer_that_only_a_reduction_reads_is_itself(text: str) -> None:
    k, x, z = fl.compile(text), np.ones(3, np.float32), np.ones(3)
    for number in (2, True):
        assert np.array_equal(k(x=x, n=number, z=z), k(x=x, n=np.array(int(number)), z=z))
