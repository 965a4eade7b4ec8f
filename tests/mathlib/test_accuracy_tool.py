"""The accuracy tool finds what it is meant to find."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import accuracy
import numpy as np
import pytest
from accuracy_functions import MULTIPRECISION, ONE_ARGUMENT, TWO_ARGUMENTS, exact, hard_cases
from accuracy_judge import error_in_ulps, judge

INPUTS = np.linspace(-3, 3, 200_001).astype(np.float32)


def correctly_rounded(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp by float64."""
    return np.exp(x.astype(np.float64)).astype(np.float32)


def wrong_by_a_hundredth_more_than_an_ulp(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp, but a neighbour wherever that neighbour is off by 1.005 to 1.015 ulp."""
    exact = np.exp(x.astype(np.float64))
    y = exact.astype(np.float32)
    ulp = np.spacing(np.float32(2.0) ** np.floor(np.log2(exact)).astype(np.float32)).astype(np.float64)
    for neighbour in (np.nextafter(y, np.float32(math.inf)), np.nextafter(y, np.float32(0))):
        error = np.abs(neighbour - exact) / ulp
        y = np.where((error > 1.005) & (error < 1.015), neighbour, y)
    return y.astype(np.float32)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_planted_error_of_1_01_ulp_is_detected(compiled: bool) -> None:
    verdict = judge("exp", wrong_by_a_hundredth_more_than_an_ulp, [(INPUTS,)], compiled=compiled)
    assert 1.005 <= verdict.largest_ulp <= 1.015
    assert verdict.correctly_rounded < 1.0


@pytest.mark.parametrize("compiled", [True, False])
def test_a_correctly_rounded_function_is_found_to_be_one(compiled: bool) -> None:
    verdict = judge("exp", correctly_rounded, [(INPUTS,)], compiled=compiled)
    assert verdict.largest_ulp <= 0.5 and verdict.correctly_rounded == 1.0 and verdict.special_failures == 0


@pytest.mark.parametrize("compiled", [True, False])
def test_wrong_nan_infinity_and_sign_of_zero_are_counted(compiled: bool) -> None:
    x = np.array([-1.0, 0.0, math.inf, 1.0, 4.0], np.float32)
    wrong = np.array([0.0, 0.0, math.nan, -0.0, 2.0], np.float32)
    verdict = judge("log", lambda _: wrong, [(x,)], compiled=compiled)
    assert verdict.special_failures == 4


def test_a_float64_error_is_measured_in_float64_ulps() -> None:
    x = np.linspace(0.1, 3, 1001)
    verdict = judge("exp", lambda v: np.nextafter(np.exp(v), math.inf), [(x,)])
    assert 0.9 < verdict.largest_ulp < 2.5
    assert verdict.largest_ulp == error_in_ulps(
        "exp", verdict.where, float(np.nextafter(np.exp(verdict.where[0]), math.inf)), np.dtype(np.float64)
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_compiled_logaddexp_holds_where_everything_cancels(kind: Any) -> None:
    operands = hard_cases("logaddexp", kind, np.random.default_rng(5), 400)
    kept = np.isfinite(operands[0]) & np.isfinite(operands[1]) & (np.abs(operands[0]) < 600)
    a, b = (np.ascontiguousarray(v[kept]) for v in operands)
    rounded = np.array([float(exact("logaddexp", p)) for p in zip(a.tolist(), b.tolist(), strict=True)]).astype(kind)
    verdict = judge("logaddexp", lambda *_: rounded, [(a, b)])
    assert verdict.samples == a.size > 100
    assert verdict.largest_ulp < 0.51 and verdict.special_failures == 0, verdict


def test_overflow_is_as_far_as_the_next_power_of_two() -> None:
    assert error_in_ulps("exp", (100.0,), math.inf, np.dtype(np.float32)) == 0.0
    assert error_in_ulps("exp", (88.0,), math.inf, np.dtype(np.float32)) > 1e6


def test_multiprecision_covers_every_function() -> None:
    assert set(MULTIPRECISION) == {*ONE_ARGUMENT, *TWO_ARGUMENTS}


def test_the_command_fails_beyond_its_limit_and_records_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path / "accuracy.json")
    monkeypatch.setattr(accuracy, "PAGE", tmp_path / "accuracy.md")
    monkeypatch.setattr(accuracy, "samples", lambda *_: iter([(INPUTS,)]))
    common = ["--function", "exp", "--dtype", "f32", "--samples", "1e5", "--record", "--limit"]
    assert accuracy.main([*common, "1.0"]) == 0
    assert accuracy.main([*common, "0.1"]) == 1
    recorded = json.loads((tmp_path / "accuracy.json").read_text())
    assert recorded["exp f32 fuseline"]["samples"] == INPUTS.size
    assert "| exp | fuseline |" in (tmp_path / "accuracy.md").read_text()


def test_a_function_that_errs_only_among_others_is_not_acquitted_by_a_single_call() -> None:
    def wrong_in_company(x: np.ndarray) -> np.ndarray:
        y = np.exp(x.astype(np.float64)).astype(np.float32)
        return y if x.size == 1 else y + 3 * np.spacing(y)

    x = np.linspace(0.1, 0.6, 1000, dtype=np.float32)
    assert judge("exp", wrong_in_company, [(x,)]).largest_ulp > 3
