"""sigmoid and what is made of it: silu, GELU's tanh form, softplus."""

from __future__ import annotations

from fuseline.ir.build import Expr, fma, where
from fuseline.ir.dtype import F32
from fuseline.mathlib.exponential import LOG2_E, SINGLE_UNIT, SINGLE_UNIT_BITS, exp, exp_single, fourth_root_power
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    at_least,
    at_most,
    fast_two_sum,
    lowered,
    lowered_where_deep,
    polynomial,
    polynomial_with_last_steps,
    power_of_two,
    round_to_integer,
    two_product,
    two_sum,
    where_rarely,
    with_sign_of,
)
from fuseline.mathlib.logaddexp import LOWEST, log1p_of_exp


def sigmoid(x: Expr) -> Expr:
    """1/(1 + exp(-x))."""
    if x.dtype is F32:
        y = at_most(at_least(x, -109.0), 18.0)
        return _gate_single(y, None, y < _DEEP)
    y = at_most(at_least(x, -_LIMIT_DOUBLE), _ONE_FROM)
    return _gate(y, x.like(0.0), x.like(1.0))


def silu(x: Expr) -> Expr:
    """x*sigmoid(x), rounded about once: the quotient is corrected as a whole."""
    if x.dtype is F32:
        y = at_most(at_least(x, -109.0), 18.0)
        return with_sign_of(where(x > 18.0, x, _gate_single(y, y, y < _DEEP)), x)
    numerator = at_least(x, -_LIMIT_DOUBLE)
    gate = _gate(at_most(numerator, _ONE_FROM), x.like(0.0), numerator)
    return where((x > _ONE_FROM) | (x == 0.0), x, gate)


_DEEP, _DEEP_DOUBLE = -87.0, -708.0
"""exp(x) may be subnormal below, in float32 and in float64."""


def _gate_single(y: Expr, numerator: Expr | None, deep: Expr) -> Expr:
    """numerator, or else 1, over 1 + exp(-y) in float32 for -109 <= y <= 18."""
    return _over_one_plus(*exp_single(-y, unit=1.0 / SINGLE_UNIT), numerator, deep)


def _over_one_plus(power: Expr, slope: Expr, numerator: Expr | None, deep: Expr) -> Expr:
    """numerator, or else 1, over 1 + power*(1 + slope)/SINGLE_UNIT in float32; it may be subnormal where ``deep``.

    The denominator is kept in two parts, in a unit so large that its range holds exp(109); the quotient is corrected.
    """
    total, rest = two_sum(power, power.like(SINGLE_UNIT))
    denominator = fma(power, slope, total)
    rest = fma(power, slope, total - denominator) + rest
    inverse = 1.0 / denominator
    quotient = inverse if numerator is None else numerator * inverse
    error = fma(-rest, quotient, fma(-denominator, quotient, 1.0 if numerator is None else numerator))
    return lowered_where_deep(fma(error, inverse, quotient), SINGLE_UNIT_BITS, deep)


_LIMIT_DOUBLE, _ONE_FROM = 752.0, 40.0
"""Beyond the first x*exp(-x) rounds to zero in float64; from the second on 1 + exp(-x) to 1."""


def _gate(y: Expr, y_rest: Expr, numerator: Expr) -> Expr:
    """numerator/(1 + exp(-(y + y_rest))) in float64, the denominator in two parts and the quotient corrected; y < 50.

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
    bits = (1.5 * 2.0**f.fraction_bits + f.bias - abs(n)).bitcast(f.integer_type)
    # Less is for deep results alone; a power whose exponent is too small comes out as zero or negative.
    w = at_least(power_of_two(bits, f), f.smallest_normal * 2.0)
    negative = y < 0.0
    unit = where(negative, 1.0, w)
    one_w = w + 1.0
    total, rest = fast_two_sum(one_w, unit * r_high)
    denominator, rest = fast_two_sum(total, fma(unit, tail, rest + (w - (one_w - 1.0))))
    inverse = 1.0 / denominator
    quotient = numerator * inverse
    error = fma(-rest, quotient, fma(-denominator, quotient, numerator))
    quotient = fma(error, inverse, quotient)
    lifted = quotient * power_of_two(bits + spread, f)
    result = with_sign_of(lowered(abs(lifted), spread), lifted)
    return where_rarely(y < _DEEP_DOUBLE, result, quotient * where(negative, w, 1.0))


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|))."""
    if x.dtype is F32:
        return _softplus_single(x)
    value = log1p_of_exp(at_least(-abs(x), LOWEST)).plus(at_least(x, 0.0))
    return where_rarely(x < LOWEST, exp(x), where(x > 40.0, x, value))


def _softplus_single(x: Expr) -> Expr:
    """softplus in float32, in units of 2**-64 until the last step."""
    # Beyond 110 the exponential rounds to zero; beyond 20 it is less than half an ulp of x.
    y = at_most(abs(x), 110.0)
    factor, slope = exp_single(-y)
    e = fma(factor, slope, factor)
    # log1p(e) is 3/4 or 15/16 of e, exact in its leading part, and a small rest.
    near = y < 0.7
    constant, *others = SINGLE.table("LOG1P")
    constant_here = where(near, x.like(constant + 0.1875), x.like(constant))
    rise = polynomial_with_last_steps(fma(e, SINGLE_UNIT, -0.375), [constant_here, *others])
    most = factor * where(near, x.like(0.75), x.like(0.9375))
    total, rest = two_sum(most, at_least(x, 0.0) * (1.0 / SINGLE_UNIT))
    tail = fma(e, rise, fma(most, slope, rest))
    return where(x > 20.0, x, lowered_where_deep(total + tail, SINGLE_UNIT_BITS, x < _DEEP))


def gelu_tanh(x: Expr) -> Expr:
    """x*sigmoid(2*sqrt(2/pi)*(x + 0.044715*x**3)), which equals the tanh form and keeps its left tail."""
    if x.dtype is F32:
        return _gelu_tanh_single(x)
    numerator = at_least(x, -22.0)
    y = at_most(numerator, 8.0)
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
    return where((x > 8.0) | (x == 0.0), x, _gate(argument, fma(y, rest, argument_rest), numerator))


def _gelu_tanh_single(x: Expr) -> Expr:
    """gelu_tanh in float32, the gate's argument in two parts."""
    # Below -10.8 the result rounds to zero; above 5.5 the gate rounds to one.
    y = at_most(at_least(x, -10.8), 5.5)
    linear, linear_rest = SINGLE.table("GELU_LINEAR")
    cubic, cubic_rest = SINGLE.table("GELU_CUBIC")
    # The argument in quarters of log(2) is y*(ratio + ratio_rest). What ratio is rounded by is exact, because the
    # linear factor has few bits.
    square, square_rest = two_product(y, y)
    ratio = fma(square, cubic, linear)
    ratio_rest = fma(square_rest, cubic, fma(square, cubic_rest, linear_rest)) + fma(square, cubic, linear - ratio)
    n, bits = round_to_integer(y * ratio, -1.0, SINGLE)
    power, lack = fourth_root_power(bits, 1.0 / SINGLE_UNIT, 0.25 / LOG2_E)
    r = fma(-y, ratio, -n) + fma(-y, ratio_rest, lack)
    slope = r * polynomial(r, SINGLE.table("EXP2_QUARTER"))
    return with_sign_of(where(x > 5.5, x, _over_one_plus(power, slope, y, y < -10.0)), x)
