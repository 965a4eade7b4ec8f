"""rsqrt, cbrt, hypot and pow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fuseline.ir.build import Expr, call, fma, where
from fuseline.ir.dtype import F32, F64, I32, I64
from fuseline.mathlib.coefficients import CELL_RECIPROCALS_IN_32NDS
from fuseline.mathlib.exponential import LOG2_E, exp_of_moderate_sum, exp_of_sum, exp_wide, fourth_root_power
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    at_least,
    at_most,
    bits_of,
    fast_two_sum,
    format_of,
    halved_reciprocal,
    is_within,
    polynomial,
    rough_reciprocal,
    round_to_integer,
    two_product,
    where_rarely,
    with_sign_of,
)
from fuseline.mathlib.logarithm import log_by_cells, split_by_cells
from fuseline.mathlib.pieces import pick


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
        return _hypot_single(x, y)
    return where((a == math.inf) | (b == math.inf), math.inf, _hypot_double(a, b))


_SQUARES_START, _SQUARES_END = 2.0**-50, 2.0**63
"""Between them the larger square is finite in float32, and what squares are rounded by is normal where it counts."""


def _hypot_single(x: Expr, y: Expr) -> Expr:
    """hypot in float32: a root, and what it and the smaller square were rounded by, over twice the root."""
    a, b = abs(x), abs(y)
    swap = a < b
    high, low = where(swap, b, a), where(swap, a, b)
    square = low * low
    total = fma(high, high, square)
    root = call("sqrt", total)
    error = fma(-root, root, total) + fma(low, low, -square)
    value = fma(error, halved_reciprocal(root), root)
    c, d = x.cast(F64), y.cast(F64)
    wide = call("sqrt", fma(c, c, d * d)).cast(F32)
    wide = where((a == math.inf) | (b == math.inf), math.inf, wide)
    size = where(high == 0.0, 1.0, high)  # zeros are ordinary data
    usual = is_within(size.bitcast(I32), bits_of(_SQUARES_START), bits_of(_SQUARES_END))
    return where_rarely(~usual, wide, value)


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
    return fma(rest, rough_reciprocal(root + root), root) * back


def pow(x: Expr, y: Expr) -> Expr:
    """x**y with C99's special values."""
    if x.dtype is F32:
        value = _power_single(x, y)
        of_zero = where(y > 0.0, 0.0, where(y < 0.0, y.like(math.inf), y + 1.0))
        with_signs = _of_negative(x, y, where(x == 0.0, of_zero, value))
        return where_rarely(x.bitcast(I32) < 1, with_signs, value)  # zeros, and numbers with a sign
    value = _power_double(x, y)
    return where_rarely(x.bitcast(I64) < 0, _of_negative(x, y, value), value)


def _of_negative(x: Expr, y: Expr, value: Expr) -> Expr:
    """x**y from |x|**y."""
    whole = call("rint", y) == y
    half = y * 0.5
    odd = whole & (call("rint", half) != half)
    value = where(odd, call("with_sign", value, x), value)
    return where((x < 0.0) & (x > -math.inf) & ~whole, math.nan, value)


def _of_special(x: Expr, y: Expr, value: Expr) -> Expr:
    """x**y where either is NaN, y is 0 or x is 1, else ``value``."""
    value = where(x != x, x, where(y != y, y, value))
    return where((y == 0.0) | (x == 1.0), 1.0, value)


_ORDINARY_END = 87.0
"""While the result's logarithm is smaller, the result is a normal float32 and no power of two leaves the format."""


def _power_single(x: Expr, y: Expr) -> Expr:
    """|x|**y for all x but zeros, in float32: the exponential of y*log(|x|), which is in two parts.

    2**(n/4) comes from a table. What remains may exceed an eighth of log(2), because the second part is no small one
    where the logarithm is near zero.
    """
    f, a = SINGLE, abs(x)
    high, low = _log_in_two_parts_single(a)
    product, rest = two_product(y, high)
    n, bits = round_to_integer(product, 4.0 * LOG2_E, f)
    factor, lack = fourth_root_power(bits, 1.0)
    step, step_low = f.table("LN2")
    r = fma(n, -0.25 * step, product)
    rest = fma(y, low, fma(n, -0.25 * step_low, lack) + rest)  # the product, the largest, is not rounded on its own
    t = r + rest
    slope = r + fma(t * t, polynomial(t, f.table("EXP_POWER"), cuts=1), rest)
    normal = is_within(a.bitcast(I32), 1 << f.fraction_bits, (2 * f.bias + 1) << f.fraction_bits)
    # One comparison: what stands for a number that is not normal is large, unless it is zero.
    size = where(normal, abs(product).bitcast(I32), (a.bitcast(I32) - 1) | 0x7F000000)
    return where_rarely(size >= bits_of(_ORDINARY_END), _power_wide(x, y), fma(factor, slope, factor))


def _power_wide(x: Expr, y: Expr) -> Expr:
    """The same in float64: the logarithm to full precision, because y multiplies its error."""
    a = abs(x.cast(F64))
    logarithm = where(a == math.inf, math.inf, log_by_cells(*split_by_cells(a)))
    exponent = where(logarithm == 0.0, 0.0, y.cast(F64) * logarithm)
    value = exp_wide(at_most(at_least(exponent, -110.0), 90.0)).cast(F32)
    return _of_special(abs(x), y, value)


_LOWEST_CELL_BITS = 0x3F361000
"""The bits of 0.7112. The cells are 2**20 numbers each; the fifth has 1 in it, between 0.961 and 1.0474.

Its upper end, where errors are largest against the logarithm, is as near to where r is as large in both cells as the
sixth cell's upper end allows: r has to stay below 1/16 there to be exact.
"""


def _log_in_two_parts_single(x: Expr) -> tuple[Expr, Expr]:
    """log(x) as an unevaluated sum of two float32, to about 33 bits, for positive normal x.

    x = 2**k * (1 + r)/c with c from a table of eight and |r| < 0.067: k*log(2) - log(c) + log(1 + r).
    """
    f = SINGLE
    bits = x.bitcast(f.integer_type)
    above = bits - _LOWEST_CELL_BITS
    exponent = above & (-1 << f.fraction_bits)
    cell = above >> (f.fraction_bits - 3)
    k = exponent.cast(F32)  # in units of 2**-fraction_bits
    unit = 2.0**-f.fraction_bits
    r = fma((bits - exponent).bitcast(F32), pick(cell, [n / 32.0 for n in CELL_RECIPROCALS_IN_32NDS]), -1.0)
    high, low = f.table("LN2")
    base = fma(k, high * unit, pick(cell, f.table("LOG_CELLS", "HEADS")))  # exact
    base_rest = fma(k, low * unit, pick(cell, f.table("LOG_CELLS", "RESTS")))
    half = r * -0.5
    near = fma(half, r, r)
    total, rest = fast_two_sum(base, near)
    rest = fma(half, r, r - near) + (rest + base_rest)
    # Few of these steps round at the size of the cubic term, which y multiplies.
    constant, *others = f.table("LOG_CELL")
    cubic = fma(polynomial(r, others, cuts=1), r, constant)
    return total, fma(r * r * cubic, r, rest)


_MODERATE_END = 700.0
"""While the result's logarithm is smaller, the result and its power of two are normal float64."""


def _power_double(x: Expr, y: Expr) -> Expr:
    """|x|**y, but NaN for a NaN x: the logarithm to about 68 bits, the exponential of a sum."""
    f, a = DOUBLE, abs(x)
    smallest, infinity = 1 << f.fraction_bits, (2 * f.bias + 1) << f.fraction_bits
    unusual = ~is_within(a.bitcast(I64), smallest, infinity)
    tiny = a < f.smallest_normal
    lift = f.fraction_bits + 2
    normal = where_rarely(unusual, where(tiny, a * 2.0**lift, a), a)
    high, low = _log_in_two_parts(normal, where_rarely(unusual, where(tiny, x.like(float(lift)), 0.0), x.like(0.0)))
    product, rest = two_product(y, high)
    rest = fma(y, low, rest)
    value = exp_of_moderate_sum(product, rest)
    rare = unusual | ~(abs(product) < _MODERATE_END)
    # Zeros, infinities and NaN, and results that are none or not normal.
    high = where(a == 0.0, -math.inf, where(a == math.inf, math.inf, high))
    product = where(high == 0.0, 0.0, y * high)
    ordinary = (abs(product) < 760.0) & (high != 0.0)
    clamped = at_most(at_least(product, -760.0), 760.0)
    special = _of_special(x, y, exp_of_sum(clamped, where(ordinary, rest, 0.0)))
    return where_rarely(rare, special, value)


def _log_in_two_parts(x: Expr, lift: Expr) -> tuple[Expr, Expr]:
    """log(x * 2**-lift) as an unevaluated sum, for positive normal x: with x = 2**k * (1 + r)/c, the logarithm of
    2**k/c, r - r**2/2, and r**3 times a factor, each in two parts."""
    cell, r = split_by_cells(x, lift)
    square, square_rest = two_product(r, r)
    near = fma(square, -0.5, r)
    near_rest = fma(square_rest, -0.5, fma(square, -0.5, r - near))
    cube, cube_rest = two_product(square, r)
    cube_rest = fma(square_rest, r, cube_rest)
    third, third_rest = DOUBLE.table("THIRD")
    slope = polynomial(r, DOUBLE.table("LOG_QUARTIC"), cuts=1)
    factor = fma(slope, r, third)
    factor_rest = fma(slope, r, third - factor) + third_rest
    tail, tail_rest = two_product(cube, factor)
    tail_rest = fma(cube, factor_rest, fma(cube_rest, factor, tail_rest))
    total, rest = fast_two_sum(cell.head("LOG", "LN2"), near)
    total, more = fast_two_sum(total, tail)
    return fast_two_sum(total, (rest + more) + ((near_rest + tail_rest) + cell.rest("LOG", "LN2")))
