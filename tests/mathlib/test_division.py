"""A division by a known reciprocal has the division's bits: ordinary numbers, special ones, and quotients near ties."""

from __future__ import annotations

import itertools
import random
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
    step = 3 if d is F32 else 11
    powers = np.ldexp(1.0, np.arange(facts.minexp - facts.nmant, facts.maxexp, step)).astype(d.numpy)
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


def next_to_ties(d: DType, divisors: list[int]) -> tuple[Array, Array]:
    """Dividends and divisors, as whole numbers of all the significand's bits, whose quotients are next to a tie.

    2**(s+1) * x = b * (2*q + 1) + r with a small odd r: x/b lies r/(2*b) of a last place beside the middle between two
    floats, and nothing lies nearer. For each divisor the equation has one solution.
    """
    places = np.finfo(d.numpy).nmant
    found = []
    for b in divisors:
        inverse = pow(b, -1, 1 << (places + 2))
        for shift, r in itertools.product((places, places + 1), (1, -1, 3, -3, 5, -5)):
            modulus = 1 << (shift + 1)
            odd = -r * inverse % modulus + (modulus if shift == places else 0)
            x = (b * odd + r) // modulus
            if odd.bit_length() == places + 2 and x.bit_length() == places + 1:
                assert x * modulus == b * odd + r
                found.append((x, b))
    x, b = np.array(found, d.numpy).T
    return x, b


def test_quotients_next_to_a_tie_are_those_of_a_division() -> None:
    x, b = next_to_ties(F32, list(range((1 << 23) + 1, 1 << 24, 2 * 37)))
    assert len(x) > 100_000
    check(F32, x, b)
    draw = random.Random(5)
    x, b = next_to_ties(F64, [(1 << 52) + draw.getrandbits(51) * 2 + 1 for _ in range(4000)])
    assert len(x) > 4000
    check(F64, x, b)


def test_quotients_just_below_a_power_of_two_are_those_of_a_division() -> None:
    for d in (F32, F64):
        significands = (2.0 ** (np.finfo(d.numpy).nmant + 1) - np.arange(1, 500)).astype(d.numpy)
        x, b = (a.ravel() for a in np.meshgrid(significands, significands))
        check(d, x, b)


@pytest.mark.parametrize("d", [F32, F64], ids=str)
def test_quotients_next_to_a_tie_are_those_of_a_division_wherever_products_leave_the_format(d: DType) -> None:
    """Every exponent of the dividend beside divisors of exponents that are small, large or 0."""
    facts = np.finfo(d.numpy)
    draw = random.Random(6)
    divisors = [(1 << facts.nmant) + draw.getrandbits(facts.nmant - 1) * 2 + 1 for _ in range(40)]
    x, b = (np.ldexp(a, -facts.nmant) for a in next_to_ties(d, divisors))
    edges = [0, *range(facts.minexp, facts.minexp + 4), *range(facts.maxexp - 4, facts.maxexp)]
    exponents = np.arange(facts.minexp - 2, facts.maxexp).astype(np.int32)
    if d is F64:  # those where a bound of `by_reciprocal` may lie, for one of these divisors
        near = [facts.minexp, facts.minexp + facts.nmant, 0, facts.maxexp, facts.maxexp - facts.nmant]
        exponents = np.unique([e for edge in near for e in range(edge - 8, edge + 8) if e < facts.maxexp]).astype("i4")
    for edge in edges:
        wide = np.ldexp(x[:, None], exponents).ravel()
        check(d, wide, np.broadcast_to(np.ldexp(b, edge)[:, None], (len(b), len(exponents))).ravel())
