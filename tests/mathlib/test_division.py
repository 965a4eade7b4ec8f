"""A division by a known reciprocal has the division's bits: ordinary numbers, special ones, and quotients near ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from arrays import first_difference, same_bits
from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import F32, F64, DType
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import interpret
from fuseline.mathlib.division import by_reciprocal
from fuseline.runtime import iterate
from kernels import loop_of

Array = NDArray[Any]


def graph_of_quotient(d: DType) -> Graph:
    x, b = Expr(input_node("x", d)), Expr(input_node("b", d))
    return Graph([x.node, b.node], [("q", by_reciprocal(x, b).node)])


def check(d: DType, x: Array, b: Array) -> None:
    with np.errstate(all="ignore"):
        expected = x / b
    (compiled,) = iterate.run(loop_of(graph_of_quotient(d)), [x, b], [None])
    assert same_bits(expected, compiled), first_difference(expected, compiled)


def any_bits(d: DType, count: int, seed: int) -> Array:
    unsigned = np.dtype(f"u{d.bits // 8}")
    return np.random.default_rng(seed).integers(0, 2**d.bits - 1, count, unsigned, endpoint=True).view(d.numpy)


@pytest.mark.parametrize("d", [F32, F64], ids=str)
def test_quotients_of_any_two_numbers_are_those_of_a_division(d: DType) -> None:
    check(d, any_bits(d, 1 << 18, 1), any_bits(d, 1 << 18, 2))


@pytest.mark.parametrize("d", [F32, F64], ids=str)
def test_quotients_at_the_edges_of_the_format_are_those_of_a_division(d: DType) -> None:
    facts = np.finfo(d.numpy)
    powers = np.ldexp(1.0, np.arange(facts.minexp - facts.nmant, facts.maxexp, 3)).astype(d.numpy)
    edges = [0.0, np.inf, np.nan, facts.max, facts.tiny, facts.smallest_subnormal, 1.0, 3.0, 1 / 3, 1 - facts.epsneg]
    magnitudes = np.unique(np.concatenate([np.array(edges, d.numpy), powers, powers * d.numpy.type(1.75)]))
    values = np.concatenate([magnitudes, -magnitudes])
    x, b = (a.ravel() for a in np.meshgrid(values, values))
    check(d, x, b)
    expected = interpret(graph_of_quotient(d), {"x": x, "b": b})["q"]
    with np.errstate(all="ignore"):
        assert same_bits(x / b, expected)


@pytest.mark.parametrize("d", [F32, F64], ids=str)
def test_subnormal_quotients_in_the_middle_between_two_numbers_go_to_the_even_one(d: DType) -> None:
    facts = np.finfo(d.numpy)
    odd, factor = np.arange(1, 2000, 2), np.array([3, 5, 7, 11, 13, 4097])
    large = 2.0 ** (facts.nmant * 3)
    half_of_last_place = 2.0 ** (facts.minexp - facts.nmant - 1)
    x = (odd[:, None] * factor * (large * half_of_last_place)).astype(d.numpy).ravel()
    b = np.broadcast_to((factor * large).astype(d.numpy), (len(odd), len(factor))).ravel()
    check(d, x, b)


def test_quotients_next_to_a_tie_are_those_of_a_division() -> None:
    """2**(s+1) * x = b * (2*q + 1) + r with a small odd r: x/b lies r/(2*b) of a last place beside the middle between
    two floats, and nothing lies nearer. For each divisor the equation has one solution."""
    b = np.arange((1 << 23) + 1, 1 << 24, 2 * 37, dtype=np.int64)
    inverse = b.copy()
    for _ in range(5):  # Newton's iteration modulo a power of two
        inverse = inverse * (2 - b * inverse) & ((1 << 30) - 1)
    checked = 0
    for shift in (23, 24):
        modulus = 1 << (shift + 1)
        for r in (1, -1, 3, -3, 5, -5):
            odd = -r * inverse % modulus + (modulus if shift == 23 else 0)
            x, rest = np.divmod(b * odd + r, modulus)
            assert not rest.any()
            fits = (odd >= 1 << 24) & (odd < 1 << 25) & (x >= 1 << 23) & (x < 1 << 24)
            check(F32, x[fits].astype(np.float32), b[fits].astype(np.float32))
            checked += int(fits.sum())
    assert checked > 100_000
