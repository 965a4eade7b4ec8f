"""erf, erfc, and the normal distribution's gate, gelu."""

from __future__ import annotations

import math

from ..ir.build import Expr, call, fma, where
from ..ir.dtype import F32, F64
from .exponential import exp_of_sum, exp_wide
from .formats import DOUBLE, WIDE, at_least, at_most, fast_two_sum, polynomial, two_product, two_sum, with_sign_of
from .pieces import odd_by_pieces


def erf(x: Expr) -> Expr:
    """The error function."""
    if x.dtype is F32:
        return odd_by_pieces(x, "ERF", 3.94, scale=4.0 / 1.0875, offset=1.5 * 2.0**23 + 1.0, place=2, first=0)
    return _erf_double(x)


def erfc(x: Expr) -> Expr:
    """1 - erf(x), accurate in its tail."""
    if x.dtype is F32:
        y = at_most(abs(x), 10.3).cast(F64)
        tail = _tail_wide(y)
        return where(x < 0.0, 2.0 - tail, tail).cast(F32)
    a = abs(x)
    tail = _tail_double(at_most(a, 27.3), a.like(0.0), a.like(1.0))
    total, rest = fast_two_sum(x.like(1.0), -x)
    near = total + fma(-x, polynomial(x * x, DOUBLE.table("ERF")), rest)
    return where(a < _NEAR, near, where(x < 0.0, 2.0 - tail, tail))


def gelu(x: Expr) -> Expr:
    """x*Phi(x), the erf form: Phi(x) is erfc(-x/sqrt(2))/2."""
    if x.dtype is F32:
        clamped = at_least(x, -14.6)
        y = at_most(abs(clamped), 14.6).cast(F64) * math.sqrt(0.5)
        tail = 0.5 * _tail_wide(y)
        return (clamped.cast(F64) * where(x < 0.0, tail, 1.0 - tail)).cast(F32)
    high, low = DOUBLE.table("SQRT_HALF")
    clamped = at_least(x, -38.6)
    a = at_most(abs(clamped), 38.6)
    y, y_rest = two_product(a, a.like(high))
    y_rest = fma(a, low, y_rest)
    half = clamped * 0.5
    negative = _tail_double(y, y_rest, half)
    upper = fma(-x, 0.5 * _tail_double(y, y_rest, x.like(1.0)), x)
    # 1 + erf(z) as the sum of 1 + z and something small.
    z, z_rest = two_product(clamped, x.like(high))
    z_rest = fma(clamped, low, z_rest)
    total, rest = fast_two_sum(x.like(1.0), z)
    square = z * z
    slope = fma(square, fma(square, 0.5 * _ERF_SLOPE, -_ERF_SLOPE), _ERF_SLOPE)
    small = fma(z, polynomial(square, DOUBLE.table("ERF")), fma(z_rest, slope, rest))
    near = fma(half, total, half * small)
    far = where(x < 0.0, negative, where(x > 38.5, x, upper))
    return where(a < _NEAR * math.sqrt(2.0), call("with_sign", near, x), far)


_NEAR = 0.65
"""Up to this argument 1 - erf(x) is more accurate than the exponential form."""
_ERF_SLOPE = 2.0 / math.sqrt(math.pi)


def _tail_wide(y: Expr) -> Expr:
    """erfc(y) in float64 to float32 accuracy, for 0 <= y <= 10.35."""
    scaled = polynomial((y - 3.0) / (y + 3.0), WIDE.table("ERFC"))
    return scaled * exp_wide(-(y * y))


def _tail_double(y: Expr, y_rest: Expr, factor: Expr) -> Expr:
    """factor * erfc(y + y_rest) for 0.25 <= y <= 27.3: exp(-y*y), its argument in two parts, times a slow function."""
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
    quotient = top / bottom
    rest = (fma(-quotient, bottom, top) + fma(-quotient, bottom_rest, top_rest)) / bottom
    product, product_rest = two_product(factor, quotient)
    return exp_of_sum(-square, -square_rest, product, fma(factor, rest, product_rest))


def _erf_double(x: Expr) -> Expr:
    """x + x*p(x*x) below 1; 1 - erfc(x) above."""
    a = abs(x)
    small = fma(a, polynomial(x * x, DOUBLE.table("ERF"), small=False), a)
    y = at_most(a, 6.0)
    square, square_rest = two_product(y, y)
    large = 1.0 - exp_of_sum(-square, -square_rest, polynomial(y - 1.0, DOUBLE.table("ERF_TAIL")))
    return with_sign_of(where(a > 1.0, large, small), x)
