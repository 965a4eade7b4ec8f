"""rsqrt, cbrt, hypot and pow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir.build import Expr, call, fma, where
from ..ir.dtype import F32, F64
from .exponential import exp_of_sum, exp_wide
from .formats import (
    DOUBLE,
    SINGLE,
    at_least,
    at_most,
    fast_two_sum,
    format_of,
    polynomial,
    two_product,
    where_rarely,
    with_sign_of,
)
from .logarithm import correction, split, split_normal


def rsqrt(x: Expr) -> Expr:
    """1/sqrt(x), both roundings corrected: infinite at zeros with their sign, NaN below."""
    f = format_of(x)
    # Away from the subnormals, so that residuals are exact.
    lift = 2 * f.fraction_bits
    small = x < f.smallest_normal * 2.0**lift
    y = where(small, x * 2.0**lift, x)
    root = call("sqrt", y)
    inverse = 1.0 / root
    # root*root = y - d and inverse*root = 1 - e: 1/sqrt(y) = inverse*(1 + e - d/(2y)), and 1/y is inverse**2.
    d = fma(-root, root, y)
    e = fma(-inverse, root, 1.0)
    corrected = fma(fma(d * (inverse * inverse), -0.5, e), inverse, inverse)
    value = where(corrected == corrected, corrected, inverse)  # at zeros and infinity only the plain quotient is right
    return value * where(small, x.like(2.0 ** (lift // 2)), 1.0)


def cbrt(x: Expr) -> Expr:
    """Cube root: a bit-level guess of x**(-1/3), cubic steps, and a corrected product."""
    f = format_of(x)
    a = abs(x)
    if f is not DOUBLE:
        # What a small number's root lacks would be subnormal. Zeros need no care, and are ordinary data.
        unusual = (a < f.smallest_normal * 2.0**30) & (a > 0.0) | (a == math.inf)
        lifted = _cube_root_single(a * 2.0 ** (3 * _CBRT_LIFT)) * 2.0**-_CBRT_LIFT
        special = where(a < math.inf, lifted, a)
        return with_sign_of(where_rarely(unusual, special, _cube_root_single(a)), x)
    tiny = a < f.smallest_normal
    y = where(tiny, a * 2.0 ** (3 * _CBRT_LIFT), a)
    guess = _cubic_step(y, _inverse_cube_root(y, 0.0503), (1.0 / 3.0, 2.0 / 9.0, 14.0 / 81.0))
    e = fma(-y * (guess * guess), guess, 1.0)
    guess = fma(guess * e, fma(e, 2.0 / 9.0, 1.0 / 3.0), guess)
    # A guess of few bits has an exact square.
    guess = (guess.bitcast(f.integer_type) & -(1 << 27)).bitcast(F64)
    square = guess * guess
    product = y * square
    rest = fma(y, square, -product)
    e = fma(-rest, guess, fma(-product, guess, 1.0))
    value = product + fma(product * e, fma(e, fma(e, 40.0 / 81.0, 5.0 / 9.0), 2.0 / 3.0), rest)
    value = value * where(tiny, x.like(2.0**-_CBRT_LIFT), 1.0)
    value = where((a < math.inf) & (a > 0.0), value, a)
    return call("with_sign", value, x)


def _cubic_step(y: Expr, guess: Expr, terms: Sequence[float]) -> Expr:
    """A better guess of y**(-1/3) by a series in e, where y*guess**3 = 1 - e."""
    e = fma(-y * (guess * guess), guess, 1.0)
    return fma(guess * e, polynomial(e, terms), guess)


def _cube_root_single(y: Expr) -> Expr:
    """The cube root of a float32 that is zero or normal: y*guess**2, and what its cube lacks of y over its slope."""
    guess = _cubic_step(y, _inverse_cube_root(y, 0.207), SINGLE.table("CBRT"))
    square = guess * guess
    root = y * square
    power, power_rest = two_product(root, root)
    lacking = fma(-power_rest, root, fma(-power, root, y))
    return fma(lacking, square * (1.0 / 3.0), root)


_CBRT_LIFT = 18
"""Subnormal numbers are multiplied by 2**(3*18) first."""


def _inverse_cube_root(y: Expr, lowered: float) -> Expr:
    """y**(-1/3) within 8 %, or within 4 % with 0.207: by a linear map of the bits, which are nearly a logarithm.

    The guess is as many doublings ``lowered`` as the number says, over three.
    """
    f = format_of(y)
    # The upper bits, as a float by way of a large exponent; they are multiplied by -1/3 and come back the same way.
    drop = 12 if f is DOUBLE else 9
    high = y.bitcast(f.integer_type) >> drop
    unit = 2.0**f.fraction_bits
    whole = (high + int(np.array(unit, f.float_type.numpy).view(f.integer_type.numpy))).bitcast(f.float_type) - unit
    bias = f.bias * 2.0 ** (f.fraction_bits - drop)
    image = fma(whole, -1.0 / 3.0, bias * 4.0 / 3.0 - lowered * 2.0 ** (f.fraction_bits - drop) / 3.0 + unit)
    return (image.bitcast(f.integer_type) << drop).bitcast(f.float_type)


def hypot(x: Expr, y: Expr) -> Expr:
    """sqrt(x*x + y*y) without overflow; infinite if either is, even beside NaN."""
    a, b = abs(x), abs(y)
    if x.dtype is F32:
        c, d = a.cast(F64), b.cast(F64)
        value = call("sqrt", fma(c, c, d * d)).cast(F32)
    else:
        value = _hypot_double(a, b)
    return where((a == math.inf) | (b == math.inf), math.inf, value)


def _hypot_double(a: Expr, b: Expr) -> Expr:
    large = (a > 2.0**500) | (b > 2.0**500)
    small = (a < 2.0**-400) & (b < 2.0**-400)
    scale = where(large, 2.0**-600, where(small, 2.0**600, a.like(1.0)))
    back = where(large, 2.0**600, where(small, 2.0**-600, a.like(1.0)))
    a, b = a * scale, b * scale
    swap = a < b
    high, low = where(swap, b, a), where(swap, a, b)
    p, p_rest = two_product(high, high)
    q, q_rest = two_product(low, low)
    total, rest = fast_two_sum(p, q)
    root = call("sqrt", total)
    rest = fma(-root, root, total) + (rest + (p_rest + q_rest))
    return (root + rest / where(root == 0.0, 1.0, root + root)) * back


def pow(x: Expr, y: Expr) -> Expr:
    """x**y with C99's special values."""
    a = abs(x)
    value = _power_single(a, y) if x.dtype is F32 else _power_double(a, y)
    whole = call("rint", y) == y
    half = y * 0.5
    odd = whole & (call("rint", half) != half)
    value = where(odd, call("with_sign", value, x), value)
    value = where((x < 0.0) & (x > -math.inf) & ~whole, math.nan, value)
    value = where(x != x, x, where(y != y, y, value))
    return where((y == 0.0) | (x == 1.0), 1.0, value)


def _at_ends(a: Expr, logarithm: Expr) -> Expr:
    """A logarithm made infinite at 0 and infinity."""
    return where(a == 0.0, -math.inf, where(a == math.inf, math.inf, logarithm))


def _power_single(a: Expr, y: Expr) -> Expr:
    """float64 all through: the logarithm to full precision, because y multiplies its error."""
    k, r = split_normal(a.cast(F64), DOUBLE)
    logarithm = _at_ends(a, fma(k, math.log(2.0), r + correction(r, DOUBLE)))
    exponent = where(logarithm == 0.0, 0.0, y.cast(F64) * logarithm)
    return exp_wide(at_most(at_least(exponent, -110.0), 90.0)).cast(F32)


def _power_double(a: Expr, y: Expr) -> Expr:
    """The logarithm to about 68 bits, the exponential of a sum."""
    high, low = _log_in_two_parts(a)
    high = _at_ends(a, high)
    product, rest = two_product(y, high)
    rest = fma(y, low, rest)
    product = where(high == 0.0, 0.0, product)
    ordinary = (abs(product) < 760.0) & (high != 0.0)
    product = at_most(at_least(product, -760.0), 760.0)
    return exp_of_sum(product, where(ordinary, rest, 0.0))


def _log_in_two_parts(x: Expr) -> tuple[Expr, Expr]:
    """log(x) as an unevaluated sum, for positive finite x: 2*atanh(s) = 2s + (2/3)s**3 + ..., s = r/(2 + r).

    The terms are in two parts, and of the series from the fifth power on the factor is as well.
    """
    f = DOUBLE
    k, r = split(x, f)
    bottom, bottom_rest = fast_two_sum(r.like(2.0), r)
    inverse = 1.0 / bottom
    s = r * inverse
    s_rest = (fma(-s, bottom, r) - s * bottom_rest) * inverse
    z, z_rest = two_product(s, s)
    z_rest = fma(s + s, s_rest, z_rest)
    cube, cube_rest = two_product(s, z)
    cube_rest = fma(s, z_rest, fma(s_rest, z, cube_rest))
    third, third_rest = f.table("TWO_THIRDS")
    term, term_rest = two_product(cube, s.like(third))
    term_rest = fma(cube, third_rest, fma(cube_rest, third, term_rest))
    fifth, fifth_rest = two_product(cube, z)
    fifth_rest = fma(cube, z_rest, fma(cube_rest, z, fifth_rest))
    constant, *others = f.table("LOG_FIFTH")
    slope = polynomial(z, others)
    factor = fma(slope, z, constant)
    factor_rest = fma(slope, z, constant - factor)
    tail, tail_rest = two_product(fifth, factor)
    tail_rest = fma(fifth, factor_rest, fma(fifth_rest, factor, tail_rest))
    high, low = f.table("LN2")
    total, rest = fast_two_sum(s + s, term)
    total, more = fast_two_sum(total, tail)
    rest = (rest + more) + (s_rest + s_rest) + (term_rest + tail_rest)
    total, more = fast_two_sum(k * high, total)
    return fast_two_sum(total, fma(k, low, more + rest))
