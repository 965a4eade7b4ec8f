"""Integers longer than Python writes out (`sys.set_int_max_str_digits`): messages say how long they are, and formulas
read them up to their own bound."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from arrays import same_bits

LONG = 10**900
DIGITS = "9" * 900
WHOLE = np.ones(3, "i4")
REAL = np.ones(3, "f8")


@pytest.fixture(params=["as Python begins", "as few as can be"])
def integers(request: pytest.FixtureRequest) -> Iterator[int]:
    """An integer that Python does not write out."""
    before = sys.get_int_max_str_digits()
    if request.param == "as few as can be":
        sys.set_int_max_str_digits(640)
    yield LONG if request.param == "as few as can be" else 10**5000
    sys.set_int_max_str_digits(before)


REFUSED: list[Callable[[int], Any]] = [
    lambda n: fl.compile("x + y")(WHOLE, n),
    lambda n: fl.compile("x + y")(REAL, n) if n < 2**1024 else fl.compile("x + y")(WHOLE, -n),
    lambda n: fl.compile("x + y + z")(WHOLE, n, WHOLE.astype("i2")),
    lambda n: fl.compile("x: bool; ~x")(n),
    lambda n: fl.compile("x: i32; x + 1")(n),
    lambda n: fl.compile(lambda x: x + n)(WHOLE),
    lambda n: fl.compile(lambda x: x + n).ufunc(WHOLE),
    lambda n: fl.compile(lambda x: x % n)(WHOLE),
    lambda n: fl.compile(lambda x: x << n)(WHOLE),
    lambda n: fl.compile(lambda x: np.sum(x, axis=n))(WHOLE),
    lambda n: fl.evaluate(fl.graph("x + 1", dtype="i32"), x=n),
    lambda n: fl.explain("x: f32[N]; x + 1", sizes={"N": n}),
    lambda n: fl.explain("x: f32[N]; x + 1", sizes={"N": -n}),
    lambda n: fl.explain("x + 1", shape=(n,)),
    lambda n: fl.explain("x + 1", shape=(-n,)),
    lambda n: fl.graph("x: f32[N]; x + 1", sizes={"N": n}),
]


@pytest.mark.parametrize("use", range(len(REFUSED)))
def test_what_long_integers_do_not_fit_says_so_without_writing_them(integers: int, use: int) -> None:
    with pytest.raises(fl.FuselineError) as caught:
        REFUSED[use](integers)
    assert len(str(caught.value)) < 400


REFUSED_TEXTS = [
    f"x + {DIGITS}", f"{DIGITS} - x", f"x + -{DIGITS}", f"x % {DIGITS}", f"x << {DIGITS}", f"{DIGITS}//0 + x",
    f"(1 << -{DIGITS}) + x", f"({DIGITS} & 1.5) + x", f"sum(x, axis={DIGITS})", f"x: f32[{DIGITS}]; x + 1",
    f"x: f32[N, {DIGITS}]; x + 1", f"{DIGITS}*{DIGITS} + x", f"reshape(x, {DIGITS})",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_long_integers_of_a_formula_are_read_and_refused_where_they_do_not_fit(integers: int, text: str) -> None:
    with pytest.raises(fl.FuselineError) as caught:
        fl.explain(text, shape=(3,), dtype="i32")
    assert "not a number as Python" not in str(caught.value)
    with pytest.raises(fl.FuselineError):
        fl.compile(text)(WHOLE)


def test_long_integers_mean_the_same_under_every_limit(integers: int) -> None:
    digits = "1" + "0" * 700
    for text, wanted in (
        (f"x < {digits}", WHOLE > 0), (f"x + {digits}//{digits}", WHOLE + 1),
        (f"x + {digits}_000//{digits}", WHOLE + 1000), (f"x + {'0' * 700}", WHOLE), (f"x + 1.0/{digits}", WHOLE + 0.0),
    ):  # fmt: skip
        k = fl.compile(text)
        assert same_bits(k(WHOLE), wanted)
        assert k.emit("c") and k.emit("numpy") and str(k.graph) and fl.explain(text).to_dict()
    assert np.isinf(fl.compile(f"x + {digits}")(REAL)).all()


@pytest.mark.parametrize("text", ["0" * 700 + "7", "1_" * 400, "1__" + "0" * 700])
def test_what_python_does_not_read_is_still_refused(integers: int, text: str) -> None:
    with pytest.raises(fl.FuselineError):
        fl.compile(f"x + {text}")
