"""sigmoid and what is made of it: silu, GELU's tanh form, softplus."""

from __future__ import annotations

from ..ir.build import Expr, fma, where
from ..ir.dtype import F32, F64
from ..numerics import GELU_CUBIC, SQRT_2_OVER_PI
from .exponential import LOG2_E, exp_in_two_parts, exp_wide
from .formats import (
    DOUBLE,
    SINGLE,
    Format,
    at_least,
    at_most,
    fast_two_sum,
    format_of,
    polynomial,
    power_of_two,
    round_to_integer,
    two_product,
)
from .logaddexp import add_log1p
from .logarithm import add_log1p_wide


def sigmoid(x: Expr) -> Expr:
    """1/(1 + exp(-x))."""
    if x.dtype is F32:
        return _gate_single(at_most(at_least(x, -109.0), 18.0))
    y = at_most(at_least(x, -_limit(DOUBLE)), _limit(DOUBLE))
    return _gate(y, x.like(0.0), x.like(1.0))


def silu(x: Expr) -> Expr:
    """x*sigmoid(x), rounded about once: the quotient is corrected as a whole."""
    if x.dtype is F32:
        y = at_most(at_least(x, -109.0), 18.0)
        return where((x > 18.0) | (x == 0.0), x, _gate_single(y, y))
    limit = _limit(format_of(x))
    numerator = at_least(x, -limit)
    return where((x > limit) | (x == 0.0), x, _gate(at_most(numerator, limit), x.like(0.0), numerator))


_SINGLE_UNIT = 2.0**-64
"""A float32 denominator is scaled by this, so that its range holds exp(109)."""


def _gate_single(y: Expr, numerator: Expr | None = None) -> Expr:
    """numerator/(1 + exp(-y)) in float32 for -109 <= y <= 18, the denominator in two parts, the quotient corrected.

    Without a numerator, which is 1 then, there is more room for what the exponential was rounded by.
    """
    f = SINGLE
    n, bits = round_to_integer(y, -LOG2_E, f, low_bits=f.bias - 64)
    high, low = f.table("LN2")
    r_high = fma(n, -high, -y)
    r_low = n * -low
    r = r_high + r_low
    tail = fma(r * r, polynomial(r, f.table("EXP"), cuts=1), r_low)
    slope, slope_rest = fast_two_sum(r_high, tail)
    scale = power_of_two(bits, f)  # times 1 + slope it is the exponential
    # Where the unit is the larger of the two, the sum is exact as long as the smaller one matters.
    total = scale + _SINGLE_UNIT
    rest = _SINGLE_UNIT - (total - scale)
    denominator = fma(scale, slope, total)
    rest = fma(scale, slope, total - denominator) + rest
    inverse = 1.0 / denominator
    if numerator is None:
        quotient, numerator = inverse, y.like(1.0)
    else:
        quotient, rest = numerator * inverse, fma(scale, slope_rest, rest)
    error = fma(-rest, quotient, fma(-denominator, quotient, numerator))
    return fma(error, inverse, quotient) * _SINGLE_UNIT


def _limit(f: Format) -> float:
    """Beyond this magnitude x*exp(-x) rounds to zero."""
    return 109.0 if f.bias == 127 else 752.0


def _gate(y: Expr, y_rest: Expr, numerator: Expr) -> Expr:
    """numerator/(1 + exp(-(y + y_rest))) in float64, the denominator in two parts and the quotient corrected.

    exp(-y) = 2**m * P with P in [0.7, 1.42] and w = 2**-|m|. For y >= 0 the denominator is 1 + w*P. For y < 0 it is
    w + P, and the quotient is multiplied by w last, so that only subnormal results are rounded twice.
    """
    f = DOUBLE
    spread = 256
    n, _ = round_to_integer(y, -LOG2_E, f)
    high, low = f.table("LN2")
    r_high, r_low = fma(n, -high, -y), fma(n, -low, -y_rest)
    r = r_high + r_low
    tail = fma(r * r, polynomial(r, f.table("EXP")), r_low)
    magic = 1.5 * 2.0**f.fraction_bits + f.bias + spread
    lifted = power_of_two((magic - abs(n)).bitcast(f.integer_type), f)  # normal for every n
    w = lifted * 2.0**-spread
    negative = y < 0.0
    unit = where(negative, 1.0, w)
    one_w = w + 1.0
    total, rest = fast_two_sum(one_w, unit * r_high)
    denominator, rest = fast_two_sum(total, fma(unit, tail, rest + (w - (one_w - 1.0))))
    inverse = 1.0 / denominator
    quotient = numerator * inverse
    error = fma(-rest, quotient, fma(-denominator, quotient, numerator))
    quotient = fma(error, inverse, quotient)
    return (quotient * where(negative, lifted, 2.0**spread)) * 2.0**-spread


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|))."""
    if x.dtype is F32:
        y = at_least(x, -110.0)
        e = exp_wide(-at_most(abs(y), 110.0).cast(F64))
        return add_log1p_wide(at_least(y, 0.0).cast(F64), e).cast(F32)
    e, e_rest = exp_in_two_parts(at_least(-abs(x), -750.0), x.like(0.0))
    return where(x > 40.0, x, add_log1p(at_least(x, 0.0), e, e_rest)[0])


def gelu_tanh(x: Expr) -> Expr:
    """x*sigmoid(2*sqrt(2/pi)*(x + 0.044715*x**3)), which equals the tanh form and keeps its left tail."""
    factor = 2.0 * SQRT_2_OVER_PI
    if x.dtype is F32:
        numerator = at_least(x, -12.0)
        y = at_most(numerator, 12.0).cast(F64)
        argument = y * fma(y * y, -factor * GELU_CUBIC, -factor)
        return (numerator.cast(F64) / (1.0 + exp_wide(argument))).cast(F32)
    numerator = at_least(x, -22.0)
    y = at_most(numerator, 22.0)
    # The exponential multiplies a relative error of its argument by up to 745: the argument is kept in two parts.
    linear, linear_rest = DOUBLE.table("GELU_LINEAR")
    cubic, cubic_rest = DOUBLE.table("GELU_CUBIC")
    square, square_rest = two_product(y, y)
    product, product_rest = two_product(square, x.like(cubic))
    product_rest = fma(square_rest, cubic, fma(square, cubic_rest, product_rest))
    total = product + linear
    # Either may be the larger: Knuth's sum.
    back = total - product
    rest = (product - (total - back)) + (linear - back) + (product_rest + linear_rest)
    argument, argument_rest = two_product(y, total)
    return where((x > 22.0) | (x == 0.0), x, _gate(argument, fma(y, rest, argument_rest), numerator))
