"""float32 pow, atan2 and hypot, which are evaluated in float32 with rests, and in float64 where that would not do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from accuracy_judge import judge

import fuseline as fl
from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import F32
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import interpret
from fuseline.mathlib.power import _log_in_two_parts_single
from mathlib_evaluation import expanded_value, same_bits

INF, NAN = math.inf, math.nan
ONE_BITS = 0x3F800000


def assert_within_an_ulp(op: str, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
    """Errors against the plain reference, and special values."""
    verdict = judge(op, lambda *a: expanded_value(op, *a), [(x, y)], compiled=False)
    assert verdict.special_failures == 0, verdict
    assert verdict.largest_ulp <= 1.0, verdict


def test_powers_that_are_floats_are_exact() -> None:
    pairs = [(b, e) for b in range(-40, 41) for e in range(1, 24) if abs(b) ** e <= 1 << 24]
    pairs += [(b / 8, e) for b, e in pairs if e < 8]
    x, y = (np.array(v, np.float32) for v in zip(*pairs, strict=True))
    assert (expanded_value("pow", x, y) == x.astype(np.float64) ** y).all()
    exponents = np.arange(-149, 128, dtype=np.float32)
    assert (
        expanded_value("pow", np.full_like(exponents, 2.0), exponents) == np.exp2(exponents.astype(np.float64))
    ).all()


def test_pow_keeps_its_ulp_where_the_logarithm_is_the_difference_of_larger_parts() -> None:
    rng = np.random.default_rng(2)
    x = (1.046875 + 0.02 * (rng.random(1 << 14) - 0.3)).astype(np.float32)
    y = (rng.uniform(-87.0, 87.0, x.size) / np.log(x.astype(np.float64))).astype(np.float32)
    assert_within_an_ulp("pow", x, y)


@pytest.mark.parametrize(("low", "high"), [(86.0, 89.0), (-105.0, -86.0)])
def test_pow_goes_on_to_overflow_and_to_the_last_subnormal_number(low: float, high: float) -> None:
    rng = np.random.default_rng(3)
    x = np.exp(rng.normal(size=1 << 13) * 3.0).astype(np.float32)
    y = (rng.uniform(low, high, x.size) / np.log(x.astype(np.float64))).astype(np.float32)
    assert_within_an_ulp("pow", x, y)


def test_pow_of_subnormal_numbers() -> None:
    rng = np.random.default_rng(4)
    x = (2.0 ** rng.uniform(-149.0, -125.0, 4096)).astype(np.float32)
    assert_within_an_ulp("pow", x, rng.uniform(-1.2, 1.2, x.size).astype(np.float32))


@pytest.mark.parametrize("op", ["atan2", "hypot"])
@pytest.mark.parametrize("exponent", [-149, -126, -100, -71, -70, -50, -49, 0, 53, 54, 62, 63, 100, 126])
def test_pairs_of_every_scale(op: str, exponent: int) -> None:
    rng = np.random.default_rng(5)
    size = 2048
    x = np.ldexp(rng.normal(size=size), exponent).astype(np.float32)
    ratio = np.where(rng.random(size) < 0.5, 1.0, 2.0 ** rng.uniform(-60.0, 60.0, size))
    with np.errstate(over="ignore"):
        y = (x * ratio * rng.normal(size=size)).astype(np.float32)
    assert_within_an_ulp(op, x, y)


@pytest.mark.parametrize("op", ["pow", "atan2", "hypot"])
def test_special_operands_leave_their_neighbours_alone(op: str) -> None:
    chosen = [0.0, 1.0, 1.5, 2.0, 3.0, 1e-3, 1e3, 1e-45, 1e-39, 1e-30, 1e30, 3e38, INF, NAN]
    values = np.array([*chosen, *(-v for v in chosen)], np.float32)
    x, y = (v.ravel().copy() for v in np.meshgrid(values, values))
    order = np.random.default_rng(6).permutation(x.size)
    x, y = x[order], y[order]
    wanted = expanded_value(op, x, y)  # by the oracle, which knows no vectors
    assert same_bits(fl.compile(f"{op}(x, y)")(x, y), wanted).all()


def test_the_logarithm_in_two_parts_has_32_bits() -> None:
    x = input_node("x", F32)
    high, low = _log_in_two_parts_single(Expr(x))
    graph = Graph([x], [("high", high.node), ("low", low.node)])
    rng = np.random.default_rng(7)
    near_one = (ONE_BITS + rng.integers(-(1 << 22), 1 << 22, 1 << 15)).astype(np.int32).view(np.float32)
    numbers = np.concatenate([near_one, np.exp(rng.uniform(-87.0, 87.0, 1 << 13)).astype(np.float32)])
    numbers = numbers[numbers != 1.0]
    parts = interpret(graph, {"x": numbers})
    exact = np.log(numbers.astype(np.float64))
    assert (np.abs((parts["high"].astype(np.float64) + parts["low"]) / exact - 1.0) < 2.0**-32).all()
