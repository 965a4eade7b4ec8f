"""erf, erfc, and the normal distribution's gate, gelu."""

from __future__ import annotations

import math

from fuseline.ir.build import Expr, call, fma, where
from fuseline.ir.dtype import F32, I32
from fuseline.mathlib.exponential import SINGLE_UNIT, SINGLE_UNIT_BITS, exp_of_sum, exp_single
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    at_least,
    at_most,
    fast_two_sum,
    lowered_where_deep,
    polynomial,
    two_product,
    two_sum,
    with_sign_of,
)
from fuseline.mathlib.pieces import odd_by_pieces, odd_by_uneven_pieces, piece_in_two_parts


def erf(x: Expr) -> Expr:
    """The error function."""
    if x.dtype is F32:
        return odd_by_pieces(x, "ERF", 3.94, scale=4.0 / 1.0875, offset=1.5 * 2.0**23 + 1.0, place=2, first=0)
    return odd_by_uneven_pieces(x, "ERF", 5.93, slope=1.874, bend=0.1031)


def erfc(x: Expr) -> Expr:
    """1 - erf(x), accurate in its tail."""
    if x.dtype is F32:
        return _erfc_single(x)
    a = abs(x)
    tail = _tail_double(at_most(a, 27.3), a.like(0.0), a.like(1.0), a > 26.5)
    total, rest = fast_two_sum(x.like(1.0), -x)
    near = total + fma(-x, polynomial(x * x, DOUBLE.table("ERF")), rest)
    return where(a < _NEAR, near, where(x < 0.0, 2.0 - tail, tail))


def gelu(x: Expr) -> Expr:
    """x*Phi(x), the erf form: Phi(x) is erfc(-x/sqrt(2))/2."""
    if x.dtype is F32:
        return _gelu_single(x)
    high, low = DOUBLE.table("SQRT_HALF")
    clamped = at_least(x, -38.6)
    a = at_most(abs(clamped), 38.6)
    y, y_rest = two_product(a, a.like(high))
    y_rest = fma(a, low, y_rest)
    value = at_least(x, 0.0) - _tail_double(y, y_rest, a * 0.5, a > 37.4)
    # 1 + erf(z) as the sum of 1 + z and something small.
    z, z_rest = two_product(clamped, x.like(high))
    z_rest = fma(clamped, low, z_rest)
    total, rest = fast_two_sum(x.like(1.0), z)
    square = z * z
    slope = fma(square, fma(square, 0.5 * _ERF_SLOPE, -_ERF_SLOPE), _ERF_SLOPE)
    small = fma(z, polynomial(square, DOUBLE.table("ERF")), fma(z_rest, slope, rest))
    half = clamped * 0.5
    near = fma(half, total, half * small)
    far = where(x > 38.5, x, value)
    return call("with_sign", where(a < _NEAR * math.sqrt(2.0), near, far), x)


_NEAR = 0.65
"""Up to this argument 1 - erf(x) is more accurate than the exponential form."""
_ERF_SLOPE = 2.0 / math.sqrt(math.pi)


def _erfc_single(x: Expr) -> Expr:
    """erfc in float32: exp(-y*y) times a slow function by pieces, or 2 without it. Beyond 10.1 it rounds to zero."""
    y = at_most(abs(x), 10.1)
    square, square_rest = two_product(y, y)
    factor, slope = exp_single(-square, -square_rest)
    cell = fma(square, 2.49, 1.5).bitcast(I32) >> SINGLE.fraction_bits
    top, top_rest = piece_in_two_parts(y, "ERFC", cell, first=7)
    negative = x < 0.0
    whole, factor = where(negative, 2.0 / SINGLE_UNIT, x.like(0.0)), where(negative, -factor, factor)
    value = _add_product(whole, factor, top, fma(slope, top, top_rest))
    return lowered_where_deep(value, SINGLE_UNIT_BITS, x > 9.1)


def _gelu_single(x: Expr) -> Expr:
    """gelu in float32: max(x, 0) - |x|*Phi(-|x|), and the latter exp(-x*x/2) times a slow function by pieces."""
    # Below -14.5 the result rounds to zero; above 6 it rounds to x.
    y = at_most(abs(x), 14.5)
    square, square_rest = two_product(y * 0.5, y)
    factor, slope = exp_single(-square, -square_rest)
    cell = fma(y, 1.02, 1.2).bitcast(I32) >> 22
    top, top_rest = piece_in_two_parts(y, "GELU", cell, first=6, starts_at_zero=True)
    # The tables hold twice the function.
    whole = at_least(x, 0.0) * (2.0 / SINGLE_UNIT)
    twice = _add_product(whole, -factor, top, fma(slope, top, top_rest))
    return with_sign_of(where(x > 6.0, x, lowered_where_deep(twice, SINGLE_UNIT_BITS + 1, x < -13.0)), x)


def _add_product(whole: Expr, factor: Expr, top: Expr, rest: Expr) -> Expr:
    """whole + factor*(top + rest) in float32, for a small rest, where a whole is not below twice the product."""
    total = fma(factor, top, whole)
    return total + fma(factor, rest, fma(factor, top, whole - total))


def _tail_double(y: Expr, y_rest: Expr, factor: Expr, deep: Expr) -> Expr:
    """factor * erfc(y + y_rest) for 0.25 <= y <= 27.3: exp(-y*y), its argument in two parts, times a slow function.

    Where it is ``deep``, the result may be subnormal.
    """
    square, square_rest = two_product(y, y)
    square_rest = fma(y + y, y_rest, square_rest)
    (center,) = DOUBLE.table("ERFC_CENTER")
    v = (y - center) / (y + center)
    # The quotient of a polynomial and 2y + 1, times the factor, in two parts; v is rounded, but it matters little.
    constant, *others = DOUBLE.table("ERFC")
    slope = polynomial(v, others)
    top = fma(slope, v, constant)
    top_rest = fma(slope, v, constant - top)
    bottom, bottom_rest = two_sum(y + y, y.like(1.0))
    bottom_rest = fma(y_rest, 2.0, bottom_rest)
    inverse = 1.0 / bottom
    quotient = top * inverse
    rest = (fma(-quotient, bottom, top) + fma(-quotient, bottom_rest, top_rest)) * inverse
    product, product_rest = two_product(factor, quotient)
    return exp_of_sum(-square, -square_rest, product, fma(factor, rest, product_rest), deep)
