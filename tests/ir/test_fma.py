"""The oracle's fused multiply-add against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from fuseline import numerics

EDGES = [0.0, -0.0, 5e-324, -5e-324, 2.3e-308, 1e-310, 1.0, -1.0, 1.7e308, -1.7e308, 1e-200, 3.3e200, 1 + 2**-52]


def exactly(a: float, b: float, c: float, dtype: type) -> float:
    """Round a*b + c once to ``dtype``, by comparing the exact value with the numbers around it."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    guess = dtype(float(exact)) if abs(exact) < Fraction(2) ** 1024 else dtype(np.inf if exact > 0 else -np.inf)
    largest = Fraction(float(np.finfo(dtype).max))
    half_step = (largest - Fraction(float(np.nextafter(np.finfo(dtype).max, dtype(0))))) / 2
    if abs(exact) >= largest + half_step:
        return np.inf if exact > 0 else -np.inf
    around = [np.nextafter(guess, dtype(-np.inf)), guess, np.nextafter(guess, dtype(np.inf))]
    finite = [v for v in around if np.isfinite(v)]
    even = lambda v: int(np.asarray(v).view(f"u{np.dtype(dtype).itemsize}")) % 2  # noqa: E731
    nearest = min(finite, key=lambda v: (abs(Fraction(float(v)) - exact), even(v)))
    return np.copysign(nearest, 1.0 if exact > 0 else -1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype):
    random = Random(3)
    top = 127 if dtype is np.float32 else 1023
    with np.errstate(all="ignore"):
        numbers = [dtype(e) for e in EDGES]
    rows = []
    for _ in range(4000):
        scaled = [dtype(random.uniform(-1, 1) * 2.0 ** random.randint(-top - 20, top)) for _ in range(3)]
        rows.append([random.choice([s, random.choice(numbers)]) for s in scaled])
    rows = [r for r in rows if all(np.isfinite(r))]
    with np.errstate(all="ignore"):
        given = numerics.fma(*np.array(rows, dtype).T)
        wanted = np.array([exactly(*map(float, r), dtype) for r in rows], dtype)
    bits = f"u{np.dtype(dtype).itemsize}"
    assert (given.view(bits) == wanted.view(bits)).all()


def test_fma_of_integers_wraps():
    a = np.array([2**31 - 1, -(2**31)], np.int32)
    assert numerics.fma(a, a, a).tolist() == (a * a + a).tolist()
