"""Quotients and roots without the divider have the divider's bits, and are written only where it binds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fuseline as fl
from arrays import first_difference, same_bits
from fuseline.codegen.llvm.body import body_text
from fuseline.codegen.llvm.target import LlvmTarget, target
from fuseline.ir.build import call
from fuseline.ir.dtype import F32, F64, DType
from fuseline.ir.graph import Graph
from fuseline.mathlib.expand import expand
from fuseline.runtime import host, iterate
from kernels import loop_of
from primitive_graphs import graph_of, operands

Array = NDArray[Any]
SLOW = replace(host.host_target(), has_slow_divider=True)
needs_estimates = pytest.mark.skipif("x86-64-v4" not in host.target_names(), reason="needs AVX-512")


def graph(formula: str, dtype: str) -> Graph:
    return expand(fl.optimize(fl.graph(formula, dtype=dtype)))


def common_path(text: str) -> str:
    """Of the loop, without what stands behind rare branches and behind the loop."""
    inside = text.split("\nloop:\n")[1].split("\ndeclare ")[0]
    common, rare = [], False
    for line in inside.splitlines():
        if line.endswith(":"):
            rare = line.startswith("rare")
        if not rare:
            common.append(line)
    return "\n".join(common)


# ── roots ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_avx512() -> LlvmTarget:
    return replace(target("x86-64-v4"), has_slow_divider=True)


def check_roots(d: DType, x: Array) -> None:
    (a,) = operands(d)
    program = graph_of([a], [call("sqrt", a)])
    text = body_text(program, with_avx512()).text
    assert "rsqrt14" in text
    assert "@llvm.sqrt" not in common_path(text)
    (found,) = iterate.run(loop_of(program, with_avx512()), [x], [None])
    with np.errstate(all="ignore"):
        expected = np.sqrt(x)
    assert same_bits(expected, found), first_difference(expected, found)


@needs_estimates
def test_roots_of_every_float32_significand_are_the_nearest() -> None:
    check_roots(F32, np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32))  # from 1 to 4


@needs_estimates
@pytest.mark.parametrize("d", [F32, F64], ids=str)
def test_roots_of_any_bits_and_of_the_edges_of_the_format(d: DType) -> None:
    unsigned = np.dtype(f"u{d.bits // 8}")
    any_bits = np.random.default_rng(1).integers(0, 2**d.bits - 1, 1 << 20, unsigned, endpoint=True).view(d.numpy)
    facts = np.finfo(d.numpy)
    powers = np.ldexp(1.0, np.arange(facts.minexp - facts.nmant, facts.maxexp)).astype(d.numpy)
    neighbours = [powers, np.nextafter(powers, d.numpy.type(0)), np.nextafter(powers, d.numpy.type(np.inf))]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, facts.max], d.numpy)
    edges = np.concatenate([*neighbours, special])
    for array in (any_bits, abs(any_bits), edges, np.concatenate([[d.numpy.type(-0.0)], powers])):
        check_roots(d, array)
    ordinary = abs(any_bits[np.isfinite(any_bits) & (abs(any_bits) > 1e-30)])
    ordinary[::7], ordinary[::11] = 0.0, np.nan
    check_roots(d, ordinary)


@needs_estimates
def test_float64_roots_next_to_a_tie_are_the_nearest() -> None:
    """G*G + G + j for a significand G and a small j is the square of G + 1/2, nearly; it is a float64 where it ends in
    52 zeros, or 53 from 2**105 on. For even j, and only for these, two G modulo a power of two make it so."""
    found = [1 + 2**-52, 1 - 2**-53, 4 - 2**-51, 2 - 2**-52, 4 + 2**-50]
    for j in range(-4000, 4000, 2):
        root = 1  # of the discriminant 1 - 4*j, modulo 2**bits: a bit more each time
        for bits in range(3, 57):
            if (root * root - (1 - 4 * j)) >> bits & 1:
                root += 1 << (bits - 1)
        for sign in (root, -root):
            half = (sign - 1) // 2 % (1 << 54)
            for significand in (half % (1 << 52) + (1 << 52), half % (1 << 53)):
                square = significand * significand + significand + j
                if 1 << 52 <= significand < 1 << 53 and square == int(float(square)):
                    found.append(float(square))
    assert len(found) > 4000
    check_roots(F64, np.array(found))
    for exponent in (-106, 400, *range(-1074, -900, 2), 900, 916, 917):
        with np.errstate(over="ignore"):
            check_roots(F64, np.ldexp(np.array(found), exponent))


@needs_estimates
def test_float32_roots_next_to_a_tie_are_the_nearest_for_every_exponent() -> None:
    x = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32)
    root = np.sqrt(x.astype(np.float64))
    from_tie = abs(root * 2.0**23 % 1 - 0.5)
    near = x[np.argsort(from_tie)[:3000]]
    check_roots(F32, np.ldexp(near[:, None], np.arange(-150, 128, 2, dtype=np.int32)).ravel())


@needs_estimates
def test_long_bodies_take_roots_of_the_divider() -> None:
    chain = "x"
    for i in range(20):
        chain = f"({chain}*x + {i}.5)"
    assert "rsqrt14" not in body_text(graph(f"out = sqrt({chain})", "f64"), with_avx512()).text
    assert "rsqrt14" not in body_text(graph("out = sqrt(x)", "f64"), target("x86-64-v4")).text
    assert (
        "rsqrt14"
        not in body_text(graph("out = sqrt(x)", "f64"), replace(target("x86-64-v3"), has_slow_divider=True)).text
    )


# ── quotients ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_long_bodies_divide_where_the_divider_is_not_what_binds() -> None:
    short, long = "x", "x"
    for i in range(20):
        long = f"({long}*x + {i}.5)"
    for inner, divides in ((short, False), (long, True)):
        assert ("fdiv" in common_path(body_text(graph(f"out = ({inner})/3", "f32"), SLOW).text)) == divides


def test_bodies_of_many_quotients_divide() -> None:
    few, many = (" + ".join(f"x/{i}.3" for i in range(count)) for count in (16, 17))
    assert "fdiv" not in common_path(body_text(graph(f"out = {few}", "f32"), SLOW).text)
    assert "fdiv" in common_path(body_text(graph(f"out = {many}", "f32"), SLOW).text)


def test_quotients_by_numbers_that_have_no_use_for_a_reciprocal() -> None:
    x = np.random.default_rng(8).standard_normal(1111).astype(np.float32)
    x[::17], x[::19], x[::23], x[::29] = 0.0, -0.0, np.nan, np.inf
    for number in (0.0, -0.0, np.inf, np.nan, 1e-45, 1e-39, 3e38, 1.2e-38, -7.0):
        (a,) = operands(F32)
        program = graph_of([a], [a / a.like(number)])
        (found,) = iterate.run(loop_of(program, SLOW), [x], [None])
        with np.errstate(all="ignore"):
            expected = x / np.float32(number)
        assert same_bits(expected, found), first_difference(expected, found)
