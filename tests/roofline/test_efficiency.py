"""Estimates: they rise with the limit, never jump, never fall below a floor, and their range holds what it says."""

from __future__ import annotations

import math
from random import Random

import pytest
from calibrate_efficiency import Kernel, fitted

import fuseline as fl
from fuseline.roofline.efficiency import (
    PRIOR_FLOOR_S,
    Estimate,
    RestsOn,
    curves_of,
    efficiencies,
    estimate,
)

KEYS = sorted({(p.device, p.operation, p.dtype) for p in efficiencies()})
STEP = 1.01


def ends(found: Estimate | None) -> tuple[float, float, float]:
    assert found is not None
    return found.shortest_s, found.time_s, found.longest_s


@pytest.mark.parametrize("key", KEYS, ids="-".join)
@pytest.mark.parametrize("other", [0.0, 1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("side", ["memory", "compute"])
def test_an_estimate_rises_with_its_limits_and_never_jumps(key: tuple[str, str, str], other: float, side: str) -> None:
    before: tuple[float, ...] | None = None
    limit = 1e-10
    while limit < 1.0:
        memory, compute = (limit, other) if side == "memory" else (other, limit)
        now = ends(estimate(*key, memory, compute))
        assert now[0] <= now[1] <= now[2]
        assert now[1] >= 0.99 * max(limit, other)
        if before is not None:
            for a, b in zip(before, now, strict=True):
                assert a * (1 - 1e-12) <= b <= a * STEP**4, limit
        before = now
        limit *= STEP


@pytest.mark.parametrize("key", KEYS, ids="-".join)
def test_no_kernel_takes_less_than_a_floor_which_says_what_it_rests_on(key: tuple[str, str, str]) -> None:
    found = estimate(*key, 1e-12, 1e-13)
    assert found is not None and found.time_s >= 2.5e-6
    assert found.rests_on in (RestsOn.SMALLEST, RestsOn.PRIOR) and found.basis and not found.comparable
    if found.rests_on is RestsOn.PRIOR:
        assert ends(found) == (PRIOR_FLOOR_S[1], PRIOR_FLOOR_S[0], PRIOR_FLOOR_S[2]) and found.samples == 0


@pytest.mark.parametrize("size", [1, 8, 64, 256, 1024])
def test_a_small_product_takes_what_small_products_took(size: int) -> None:
    """The calibration rows have 7.6 µs for 1x1024x1024, and nothing below 3.9 µs."""
    found = fl.classify(m=1, n=size, k=size, dtype="bf16", device="h200").shapes[0].estimate
    assert found is not None and 3.9e-6 <= found.time_s <= found.longest_s
    assert found.shortest_s <= 7.6e-6 <= found.longest_s


def test_a_product_a_column_wider_takes_no_less() -> None:
    def time_s(n: int) -> float:
        found = fl.classify(m=1, n=n, k=8192, dtype="bf16", device="h200").shapes[0].estimate
        assert found is not None
        return found.time_s

    times = [time_s(n) for n in range(2800, 3100, 5)]
    assert times == sorted(times) and times[-1] < 1.15 * times[0]


def test_what_does_nothing_or_was_never_measured_has_no_estimate() -> None:
    assert estimate(*KEYS[0], 0.0, 0.0) is None
    assert estimate("mi300x", "gemm", "bf16", 1e-5, 1e-5) is None


def kernels(seed: int, count: int) -> list[Kernel]:
    """Kernels of 5 µs and 80 % of the limit, with noise of a tenth either way."""
    rng = Random(seed)
    found = []
    for _ in range(count):
        limit = 10 ** rng.uniform(-7, -3)
        seconds = (5e-6 + limit / 0.8) * math.exp(rng.gauss(0, 0.1))
        found.append(Kernel(("a", "gemm", "bf16"), limit, limit / 10, seconds, "made up", 0))
    return found


def test_the_range_of_a_fit_holds_kernels_that_it_was_not_made_of() -> None:
    curves = curves_of(fitted(kernels(0, 600)))
    inside = total = 0
    for kernel in kernels(1, 600):
        found = estimate(*kernel.key, kernel.memory_s, kernel.compute_s, curves)
        if found is not None and found.comparable:
            total += 1
            inside += found.shortest_s <= kernel.seconds <= found.longest_s
            assert found.time_s == pytest.approx(5e-6 + kernel.limit_s / 0.8, rel=0.25)
    assert total > 500 and 0.8 <= inside / total <= 0.99


def test_too_few_kernels_and_kernels_that_beat_their_limit_make_no_point() -> None:
    assert fitted(kernels(0, 4)) == []
    assert fitted([kernel._replace(seconds=kernel.limit_s / 2) for kernel in kernels(0, 100)]) == []
