"""logaddexp, log(exp(a) + exp(b)), accurate also where the sum of the exponentials is close to 1.

There the larger operand and log1p of the exponential of their distance cancel. Such pairs are rare, and get
exponentials in two parts.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..ir.build import Expr, fma, where
from ..ir.dtype import F32, F64
from .exponential import LOG2_E, exp_in_two_parts, exp_wide
from .formats import (
    DOUBLE,
    at_least,
    fast_two_sum,
    polynomial,
    power_of_two,
    round_to_integer,
    two_product,
    two_sum,
    where_rarely,
)
from .logarithm import add_log1p_wide, log1p_finite, log1p_in_two_parts

Pair = tuple[Expr, Expr]
_LIFT = 256


def logaddexp(a: Expr, b: Expr) -> Expr:
    """The larger operand plus log1p of the exponential of minus their distance; in float64."""
    swap = a < b
    larger, smaller = where(swap, b, a), where(swap, a, b)
    high, low = larger.cast(F64), smaller.cast(F64)
    # Equal operands may be infinite; their distance is 0 all the same.
    distance = where(high == low, 0.0, low - high)
    # How much may cancel before the error of what is left passes an ulp of the result's format.
    if a.dtype is F32:
        value = add_log1p_wide(high, exp_wide(at_least(distance, -110.0))).cast(F32)
        cancels = abs(value) * 2.0**8 < abs(larger)
        return where_rarely(cancels, _near_zero(high, low).cast(F32), value)
    value, term = _sum_double(high, low, distance)
    return where_rarely(abs(value) * 8.0 < term, _near_zero(high, low), value)


def _sum_double(high: Expr, low: Expr, distance: Expr) -> Pair:
    """The result and its second term in float64."""
    rest = where(distance > -750.0, (low - distance) - high, 0.0)
    rest = where(distance == 0.0, 0.0, rest)
    e, e_rest = exp_in_two_parts(at_least(distance, -750.0), rest)
    value, term = add_log1p(high, e, e_rest)
    return where((abs(high) == math.inf) & (low == low), high, value), term


def add_log1p(a: Expr, x: Expr, x_rest: Expr) -> Pair:
    """a + log1p(x + x_rest) for float64 a and 0 <= x <= 1, rounded about once unless they cancel; and the logarithm."""
    term, tail = log1p_in_two_parts(x, x_rest)
    # The reduced argument of a subnormal would be rounded.
    tiny = x < 2.0**-60
    term, tail = where(tiny, x, term), where(tiny, x_rest, tail)
    total, rest = two_sum(a, term)
    return total + (rest + tail), term


# ── near zero ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _near_zero(high: Expr, low: Expr) -> Expr:
    """log1p of exp(low) + (exp(high) - 1), for operands that cancel: -0.7 < high < 0."""
    u, scale = _expm1_reduced(high, lift=0)
    above = _add((scale - 1.0, scale * 0.0), (u[0] * scale, u[1] * scale))
    # Both terms may be subnormal: they are added 2**_LIFT times as large.
    v, scale = _expm1_reduced(at_least(low, -750.0), lift=_LIFT)
    one, one_rest = fast_two_sum(v[0].like(1.0), v[0])
    below = fast_two_sum(one, one_rest + v[1])
    total, rest = _add((above[0] * 2.0**_LIFT, above[1] * 2.0**_LIFT), (below[0] * scale, below[1] * scale))
    small = abs(total) < 2.0 ** (_LIFT - 60)
    total, rest = total * 2.0**-_LIFT, rest * 2.0**-_LIFT
    return where(small, total, log1p_finite(total, DOUBLE, rest))


def _expm1_reduced(x: Expr, lift: int) -> tuple[Pair, Expr]:
    """(u, s) with 2**lift * exp(x) = (1 + u)*s, s a power of two and u in two parts, to about 100 bits."""
    f = DOUBLE
    n, bits = round_to_integer(x, LOG2_E, f, low_bits=f.bias + lift)
    high, low = f.table("LN2")
    r = fast_two_sum(fma(n, -high, x), n * -low)
    # The series; from the eighth term on, one part is enough.
    series = [float(Fraction(1, math.factorial(k))) for k in range(8, 19)]
    total: Pair = (polynomial(r[0], series), r[0] * 0.0)
    for k in range(7, 0, -1):
        exact = Fraction(1, math.factorial(k))
        constant = float(exact)
        product, product_rest = _multiply(total, r)
        head, error = fast_two_sum(product.like(constant), product)
        total = fast_two_sum(head, error + (product_rest + float(exact - Fraction(constant))))
    return _multiply(total, r), power_of_two(bits, f)


def _multiply(a: Pair, b: Pair) -> Pair:
    product, rest = two_product(a[0], b[0])
    return fast_two_sum(product, fma(a[0], b[1], fma(a[1], b[0], rest)))


def _add(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs, accurate where they cancel."""
    total, rest = two_sum(a[0], b[0])
    small, smaller = two_sum(a[1], b[1])
    total, rest = fast_two_sum(total, rest + small)
    return fast_two_sum(total, rest + smaller)
