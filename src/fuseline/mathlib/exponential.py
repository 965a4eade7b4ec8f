"""exp, exp2 and expm1.

x = n*log(2) + r with |r| at most half of log(2); exp(r) = 1 + t, and t stays apart from the 1 until the last rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fuseline.ir.build import Expr, fma, where
from fuseline.ir.dtype import F32, I32
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    WIDE,
    Format,
    at_least,
    at_most,
    fast_two_sum,
    format_of,
    lowered,
    lowered_where_deep,
    polynomial,
    power_of_two,
    round_to_integer,
    where_rarely,
)
from fuseline.mathlib.pieces import pick

LOG2_E = 1.4426950408889634


def exp(x: Expr) -> Expr:
    """e**x; overflow to infinity and subnormal results included."""
    f = format_of(x)
    limits = (-104.0, 89.0) if f.bias == 127 else (-746.0, 710.0)
    x = at_most(at_least(x, limits[0]), limits[1])
    n, bits = round_to_integer(x, LOG2_E, f, low_bits=f.bias - 1)
    r = reduce_by_log2(x, n, f)
    return _scale_one_plus(r, fma(polynomial(r, f.table("EXP")), r, 1.0), n, bits, f)


def exp2(x: Expr) -> Expr:
    """2**x; integers give exact powers of two."""
    f = format_of(x)
    limits = (-151.0, 128.0) if f.bias == 127 else (-1076.0, 1024.0)
    x = at_most(at_least(x, limits[0]), limits[1])
    n, bits = round_to_integer(x, 1.0, f, low_bits=f.bias - 1)
    r = x - n
    return _scale_one_plus(r, polynomial(r, f.table("EXP2")), n, bits, f)


def expm1(x: Expr) -> Expr:
    """e**x - 1, accurate near zero and where the 1 just fails to fit."""
    f = format_of(x)
    limits = (-18.0, 89.0) if f.bias == 127 else (-39.0, 710.0)
    y = at_most(at_least(x, limits[0]), limits[1])
    # The interval of n = 0 reaches further up than down: just above it, an error of r counts double.
    n, bits = round_to_integer(y - 0.058891517828191, LOG2_E, f, low_bits=f.bias - 1)
    high, low = f.table("LN2")
    r_high = fma(n, -high, y)
    rest = n * -low
    r = r_high + rest
    # The quadratic term is the largest of the tail: it is not rounded on its own.
    tail = fma(r * 0.5, r, fma(r * r * r, polynomial(r, f.table("EXPM1")), rest))
    half_scale = power_of_two(bits, f)  # 2**(n - 1), because 2**n itself may overflow
    whole = half_scale - 0.5
    whole_rest = (half_scale - whole) - 0.5
    result = whole + fma(r_high, half_scale, fma(tail, half_scale, whole_rest))
    # Halving would lose a subnormal's last bit, and adding loses the sign of zero.
    return where(abs(x) < 2.0 ** (-f.fraction_bits - 5), x, result + result)


def reduce_by_log2(x: Expr, n: Expr, f: Format) -> Expr:
    """x - n*log(2), with log(2) in two parts (Cody and Waite)."""
    high, low = f.table("LN2")
    return fma(n, -low, fma(n, -high, x))


_LIFT = 64


def _scale_one_plus(r: Expr, slope: Expr, n: Expr, bits: Expr, f: Format) -> Expr:
    """(1 + r*slope) * 2**n with one rounding in the normal range and a second only for subnormal results.

    ``bits`` hold n - 1 + bias: half the result is scaled, because 2**n itself may overflow; its slope is not subnormal.
    """
    power, lifted = power_of_two(bits, f), power_of_two(bits + (_LIFT + 1), f)
    half = fma(r, slope * power, power)
    return where_rarely(n < 3.0 - f.bias, lowered(fma(r, slope * lifted, lifted), _LIFT), half + half)


SINGLE_UNIT_BITS = 64
SINGLE_UNIT = 2.0**-SINGLE_UNIT_BITS
"""A unit for `exp_single` in which e**x is a normal float32 for -110 <= x <= 44; its inverse serves -44 to 110."""


def exp_single(x: Expr, rest: Expr | None = None, unit: float = SINGLE_UNIT) -> tuple[Expr, Expr]:
    """(factor, slope) with e**(x + rest) = factor*(1 + slope)*unit in float32, where the factor is normal.

    The factor is a power of the fourth root of two, in 20 bits; the slope, at most 0.1, makes up for that too. Together
    they are off by about 2**-27.
    """
    n, bits = round_to_integer(x, 4.0 * LOG2_E, SINGLE)
    factor, lack = fourth_root_power(bits, unit)
    high, low = SINGLE.table("LN2")
    r_low = fma(n, -0.25 * low, lack)
    r = fma(n, -0.25 * high, x) + (r_low if rest is None else r_low + rest)
    return factor, fma(r * r, polynomial(r, SINGLE.table("EXP_QUARTER")), r)


def fourth_root_power(bits: Expr, unit: float, logarithm_unit: float = 1.0) -> tuple[Expr, Expr]:
    """2**(n/4)/unit in 20 bits, and the logarithm of what it lacks in the unit given; ``bits`` end in n's bits."""
    power, lacks = _root_power(bits, unit, [SINGLE.table(f"TWO_TO_{k}_QUARTERS") for k in range(1, 4)])
    return power, pick(bits, [lack / logarithm_unit for lack in lacks])


def sixteenth_root_power(bits: Expr, unit: float) -> tuple[Expr, Expr]:
    """2**(n/16)/unit in 24 bits, and the logarithm of what it lacks; ``bits`` end in n's bits."""
    power, lacks = _root_power(bits, unit, [SINGLE.table(f"TWO_TO_{k}_SIXTEENTHS") for k in range(1, 16)])
    return power, pick(bits, lacks)


def _root_power(bits: Expr, unit: float, fractions: Sequence[tuple[float, ...]]) -> tuple[Expr, list[float]]:
    """2**(n/count)/unit, and the logarithms of what these lack; ``fractions`` are 2**(k/count) for 0 < k < count."""
    parts = [(1.0, 0.0), *fractions]
    shift = SINGLE.fraction_bits - (len(parts).bit_length() - 1)
    # The table leaves out what n's lowest bits, which count fractions, add to the significand.
    whole = np.array([high / unit for high, _ in parts], np.float32).view(np.int32)
    table = (whole - (np.arange(len(parts), dtype=np.int32) << shift)).view(np.float32)
    power = (pick(bits, table.tolist()).bitcast(I32) + (bits << shift)).bitcast(F32)
    return power, [low / high for high, low in parts]


def exp_wide(x: Expr) -> Expr:
    """e**x in float64 to float32 accuracy, for |x| < 700."""
    n, bits = round_to_integer(x, LOG2_E, WIDE, low_bits=WIDE.bias)
    r, scale = fma(n, -math.log(2.0), x), power_of_two(bits, WIDE)
    return fma(r * scale, fma(polynomial(r, WIDE.table("EXP")), r, 1.0), scale)


_LONG_LIFT = 256


def exp_of_sum(
    x: Expr, rest: Expr, factor: Expr | None = None, factor_rest: Expr | None = None, deep: Expr | None = None
) -> Expr:
    """(factor + factor_rest) * e**(x + rest) in float64 for |x| <= 760 and small rests, rounded about once.

    ``deep`` says where results may be subnormal; without it these are slow on some processors.
    """
    total, tail, first, second = _exp_parts(x, rest)
    if factor is None:
        value = total + tail
    else:
        low = factor * tail if factor_rest is None else fma(total + tail, factor_rest, factor * tail)
        value = fma(total, factor, low)
    if deep is not None:
        return lowered_where_deep((value * first) * (second * 2.0**_LONG_LIFT), _LONG_LIFT, deep)
    return (value * first) * second


def exp_of_moderate_sum(x: Expr, rest: Expr) -> Expr:
    """e**(x + rest) in float64 for |x| <= 700 and small rests, rounded about once."""
    total, tail, bits = _reduced_exp(x, rest, DOUBLE.bias)
    return (total + tail) * power_of_two(bits, DOUBLE)


def exp_in_two_parts(x: Expr, rest: Expr, scale: float = 1.0) -> tuple[Expr, Expr]:
    """scale * e**(x + rest) as an unevaluated sum, to about 57 bits; ``scale`` a power of two, |x| <= 760."""
    total, tail, first, second = _exp_parts(x, rest)
    high, low = fast_two_sum(total, tail)
    first = first * scale
    return (high * first) * second, (low * first) * second


def _exp_parts(x: Expr, rest: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """(t, u, p, q) with e**(x + rest) = (t + u)*p*q; p and q are powers of two and neither leaves the normal range."""
    total, tail, bits = _reduced_exp(x, rest, 2 * DOUBLE.bias)
    half = bits >> 1
    return total, tail, power_of_two(half, DOUBLE), power_of_two(bits - half, DOUBLE)


def _reduced_exp(x: Expr, rest: Expr, low_bits: int) -> tuple[Expr, Expr, Expr]:
    """(t, u, n) with e**(x + rest) = (t + u) * 2**(n - low_bits), n in the low bits of an integer."""
    f = DOUBLE
    n, bits = round_to_integer(x, LOG2_E, f, low_bits=low_bits)
    high, low = f.table("LN2")
    r_high, r_low = fma(n, -high, x), fma(n, -low, rest)
    r = r_high + r_low
    tail = fma(r * r, polynomial(r, f.table("EXP")), r_low)
    total, error = fast_two_sum(x.like(1.0), r_high)
    return total, error + tail, bits
