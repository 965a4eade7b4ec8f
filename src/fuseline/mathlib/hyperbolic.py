"""tanh, sinh, cosh and their inverses; all but tanh evaluate float32 in float64."""

from __future__ import annotations

import math

from ..ir.build import Expr, call, fma, where
from ..ir.dtype import F32, F64
from .exponential import exp_in_two_parts, exp_wide, expm1_wide
from .formats import (
    DOUBLE,
    at_most,
    fast_two_sum,
    polynomial,
    two_product,
    two_sum,
    with_sign_of,
)
from .logarithm import log1p_finite, log1p_in_two_parts, log1p_wide
from .pieces import odd_by_pieces


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent: in float64 a polynomial below 1, 1 - 2/(exp(2|x|) + 1) above."""
    if x.dtype is F32:
        return odd_by_pieces(x, "TANH", 9.011, scale=1.6646, offset=1.0, place=22, first=6)
    a = abs(x)
    u = x * x
    small = fma(a * u, polynomial(u, DOUBLE.table("TANH")), a)
    return with_sign_of(where(a > 1.0, _tanh_of_large_double(a), small), x)


def _tanh_of_large_double(a: Expr) -> Expr:
    """exp(2a) + 1 in two parts, and the sum with 1 as well."""
    y = at_most(a, 20.0)
    e, e_rest = exp_in_two_parts(y + y, y.like(0.0))
    bottom, rest = fast_two_sum(e, e.like(1.0))
    quotient = 2.0 / bottom
    total, error = fast_two_sum(e.like(1.0), -quotient)
    return total + fma(quotient * quotient, 0.5 * (rest + e_rest), error)


_DOUBLED = 2.0**60
"""Above this, asinh(x) and acosh(x) are log(2x) = log1p(x) + log(2) to more than double precision."""


def sinh(x: Expr) -> Expr:
    """Hyperbolic sine: (m + m/(m + 1))/2 with m = expm1(|x|), or a polynomial below 1 and (e - 1/e)/2 above."""
    a = abs(x)
    if x.dtype is F32:
        m = expm1_wide(at_most(a, 90.0).cast(F64))
        return call("with_sign", (0.5 * (m + m / (m + 1.0))).cast(F32), x)
    u = x * x
    small = fma(a * u, polynomial(u, DOUBLE.table("SINH")), a)
    h, h_rest = _quarter_exponential(a)
    large, rest = fast_two_sum(h, -0.0625 / h)
    large = large + (rest + h_rest)
    return call("with_sign", where(a > 1.0, large + large, small), x)


def cosh(x: Expr) -> Expr:
    """Hyperbolic cosine, (e + 1/e)/2 with e = exp(|x|)."""
    if x.dtype is F32:
        e = exp_wide(at_most(abs(x), 90.0).cast(F64))
        return (0.5 * (e + 1.0 / e)).cast(F32)
    h, h_rest = _quarter_exponential(abs(x))
    half, rest = fast_two_sum(h, 0.0625 / h)
    half = half + (rest + h_rest)
    return half + half


def _quarter_exponential(a: Expr) -> tuple[Expr, Expr]:
    """exp(a)/4 for a >= 0 in two parts; a quarter, so that it overflows after the results do."""
    # 710.476 is just beyond their overflow, where 2**n is still finite.
    return exp_in_two_parts(at_most(a, 710.476), a.like(0.0), scale=0.25)


def asinh(x: Expr) -> Expr:
    """Inverse hyperbolic sine, log1p(a + b) with a = |x| and b = sqrt(1 + a*a) - 1 = a*a/(1 + sqrt(1 + a*a))."""
    a = abs(x)
    if x.dtype is F32:
        y = a.cast(F64)
        square = y * y
        value = log1p_wide(y + square / (1.0 + call("sqrt", square + 1.0))).cast(F32)
        return call("with_sign", where(a < math.inf, value, a), x)
    large = a > _DOUBLED
    y = where(large, 1.0, a)
    # The argument with everything that is rounded on the way in a rest.
    square, square_rest = two_product(y, y)
    inside, inside_rest = two_sum(square, y.like(1.0))
    root = call("sqrt", inside)
    root_rest = (fma(-root, root, inside) + (inside_rest + square_rest)) / (root + root)
    above, above_rest = fast_two_sum(root, y.like(-1.0))
    argument, rest = two_sum(y, above)
    argument, rest = fast_two_sum(argument, rest + (above_rest + root_rest))
    value = _log1p_or_log_of_double(large, a, argument, rest)
    value = where(a < 2.0**-28, a, value)
    return call("with_sign", where(a < math.inf, value, a), x)


def _log1p_or_log_of_double(large: Expr, x: Expr, argument: Expr, rest: Expr) -> Expr:
    """log(2x) where x is ``large``, else log1p of the argument and its rest."""
    total, tail = log1p_in_two_parts(where(large, x, argument), where(large, 0.0, rest))
    return total + where(large, tail + math.log(2.0), tail)


def acosh(x: Expr) -> Expr:
    """Inverse hyperbolic cosine, log1p(t + sqrt(t*(t + 2))) with t = x - 1; NaN below 1."""
    if x.dtype is F32:
        t = x.cast(F64) - 1.0
        value = log1p_wide(t + call("sqrt", t * (t + 2.0))).cast(F32)
    else:
        large = x > _DOUBLED
        t = where(large, 1.0, x - 1.0)
        square, square_rest = two_product(t, t)
        inside, inside_rest = two_sum(t + t, square)
        root = call("sqrt", inside)
        error = fma(-root, root, inside) + (inside_rest + square_rest)
        root_rest = error / where(root == 0.0, 1.0, root + root)
        argument, rest = two_sum(root, t)
        value = _log1p_or_log_of_double(large, x, argument, rest + root_rest)
    return where(x < math.inf, where(x < 1.0, math.nan, value), x)


def atanh(x: Expr) -> Expr:
    """Inverse hyperbolic tangent, log1p(2a/(1 - a))/2 with a = |x|; infinite at 1, NaN beyond."""
    a = abs(x)
    if x.dtype is F32:
        y = where(a < 1.0, a, 0.0).cast(F64)
        value = (0.5 * log1p_wide((y + y) / (1.0 - y))).cast(F32)
    else:
        y = where(a < 1.0, a, 0.0)
        bottom, bottom_rest = fast_two_sum(y.like(1.0), -y)
        quotient = (y + y) / bottom
        error = fma(-quotient, bottom_rest, fma(-quotient, bottom, y + y))
        value = 0.5 * log1p_finite(quotient, DOUBLE, error / bottom)
        value = where(a < 2.0**-28, a, value)
    value = where(a < 1.0, value, where(a == 1.0, x.like(math.inf), math.nan))
    return call("with_sign", value, x)
