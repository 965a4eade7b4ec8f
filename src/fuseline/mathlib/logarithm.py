"""log, log2, log10 and log1p.

x = 2**k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)]; log(1 + f) = f + c, and only the small c is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fuseline.ir.build import Expr, fma, where
from fuseline.ir.dtype import F32
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    Format,
    fast_two_sum,
    format_of,
    polynomial,
    power_of_two,
    two_product,
    where_rarely,
)


def log(x: Expr) -> Expr:
    """Natural logarithm: -inf at zeros, NaN below."""
    f = format_of(x)
    high, low = f.table("LN2")

    def value(k: Expr, r: Expr) -> Expr:
        if f is SINGLE:
            return fma(k, high, r + fma(r * r, polynomial(r, f.table("LOG")), k * low))
        total, rest = fast_two_sum(k * high, r)
        return total + (rest + fma(k, low, correction(r, f)))

    return _of_positive(x, f, value)


def log2(x: Expr) -> Expr:
    """Logarithm to base 2; exact for powers of two."""
    f = format_of(x)
    high, low = f.table("LOG2_E")

    def value(k: Expr, r: Expr) -> Expr:
        if f is SINGLE:
            return k + fma(r, high, fma(r * r, polynomial(r, f.table("LOG2"), cuts=0), r * low))
        # The quadratic term is the largest of the tail: it is not rounded on its own.
        half, cubic = r * -0.5, _beyond_square(r)
        product, product_rest = two_product(r, r.like(high))
        product_rest = fma(r, low, product_rest)
        tail = fma(product, half, fma(cubic, high, fma(product_rest, half, product_rest)))
        total, rest = fast_two_sum(k, product)
        return total + (rest + tail)

    return _of_positive(x, f, value)


def log10(x: Expr) -> Expr:
    """Logarithm to base 10."""
    f = format_of(x)
    high, low = f.table("LOG10_E")
    step, step_rest = f.table("LOG10_2")

    def value(k: Expr, r: Expr) -> Expr:
        if f is SINGLE:
            tail = fma(k, step_rest, r * low)
            return fma(k, step, fma(r, high, fma(r * r, polynomial(r, f.table("LOG10")), tail)))
        product, product_rest = two_product(r, r.like(high))
        tail = fma(correction(r, f), high, fma(k, step_rest, fma(r, low, product_rest)))
        total, rest = fast_two_sum(k * step, product)
        return total + (rest + tail)

    return _of_positive(x, f, value)


def _of_positive(x: Expr, f: Format, value: Callable[[Expr, Expr], Expr]) -> Expr:
    """value(k, r) for x = 2**k * (1 + r); all but positive normal numbers get their logarithms behind a branch."""
    smallest, infinity = 1 << f.fraction_bits, (2 * f.bias + 1) << f.fraction_bits
    half = 1 << (f.float_type.bits - 1)
    # One comparison of the bits, moved so that whatever lies outside, signs and NaN included, is at the upper end.
    unusual = x.bitcast(f.integer_type) - (smallest - half) >= infinity - smallest - half
    return where_rarely(unusual, special_cases(x, value(*split(x, f))), value(*split_normal(x, f)))


def log1p(x: Expr) -> Expr:
    """log(1 + x), accurate near zero."""
    f = format_of(x)
    value = log1p_finite(x, f)
    value = where(abs(x) < 2.0 ** (-f.fraction_bits - 5), x, value)
    value = where(x < math.inf, value, x)
    value = where(x < -1.0, math.nan, value)
    value = where(x == -1.0, -math.inf, value)
    if f is DOUBLE:
        return value
    unusual = ~((x > -1.0) & (x < 2.0**100))
    return where(x == 0.0, x, where_rarely(unusual, value, _log1p_of_ordinary(x)))


def _log1p_of_ordinary(x: Expr) -> Expr:
    """The same in float32 for -1 < x < 2**126, but for the sign of zero."""
    f = SINGLE
    high, low = f.table("LN2")
    k_bits = ((x + 1.0).bitcast(f.integer_type) - _sqrt_half_bits(f)) >> f.fraction_bits
    k = integer_to_float(k_bits, f)
    scale = power_of_two(f.bias - k_bits, f)
    whole = scale - 1.0
    r = fma(x, scale, whole)
    rest = fma(x, scale, whole - r)
    rest = fma(-r, rest, rest)
    return fma(k, high, r + fma(r * r, polynomial(r, f.table("LOG")), fma(k, low, rest)))


def log1p_finite(x: Expr, f: Format, x_rest: Expr | None = None) -> Expr:
    """log(1 + x + x_rest) for finite x > -1 that are not subnormal, and a rest far below x."""
    total, tail = _log1p_parts(x, f, x_rest)
    return total + tail


def log1p_in_two_parts(x: Expr, x_rest: Expr) -> tuple[Expr, Expr]:
    """The same in float64 as an unevaluated sum of a large and a small part."""
    return _log1p_parts(x, DOUBLE, x_rest)


def _log1p_parts(x: Expr, f: Format, x_rest: Expr | None) -> tuple[Expr, Expr]:
    # k comes from the rounded 1 + x; the reduced argument is x*2**-k + (2**-k - 1), rounded once and with its error.
    k_bits = ((x + 1.0).bitcast(f.integer_type) - _sqrt_half_bits(f)) >> f.fraction_bits
    k = integer_to_float(k_bits, f)
    scale = power_of_two((f.bias + 2) - k_bits, f)  # 4 * 2**-k, a normal number even at the largest k
    whole = fma(scale, 0.25, -1.0)
    quarter = x * 0.25
    r = fma(quarter, scale, whole)
    r_rest = fma(quarter, scale, whole - r)
    if x_rest is not None:
        r_rest = fma(x_rest * 0.25, scale, r_rest)
    high, low = f.table("LN2")
    total, rest = fast_two_sum(k * high, r)
    return total, rest + fma(k, low, correction(r, f) + r_rest * (1.0 - r))


def log_of_parts_single(x: Expr, rest: Expr, doublings: int = 0) -> Expr:
    """log((x + rest) * 2**doublings) in float32 for normal x < 2**127 and a rest of about half an ulp of x.

    Relative even to results near zero, where x is about 1, down to results of 2**-20 or so.
    """
    f = SINGLE
    high, low = f.table("LN2")
    bits = x.bitcast(f.integer_type)
    exponent = (bits - _sqrt_half_bits(f)) & (-1 << f.fraction_bits)
    unit = 2.0**-f.fraction_bits
    k = exponent.cast(F32)  # in this unit
    if doublings:
        k = k + doublings / unit
    r = (bits - exponent).bitcast(f.float_type) - 1.0
    square = r * r
    # The rest over 1 + r, by (1 - r)*(1 + r*r).
    rest = rest * (ONE_BITS - exponent).bitcast(f.float_type)
    rest = fma(-r, rest, rest)
    rest = fma(k, low * unit, fma(square, rest, rest))
    # The quadratic term is the largest of the tail: it is not rounded on its own.
    tail = fma(r * -0.5, r, fma(square * r, polynomial(r, f.table("LOG_CUBIC")), rest))
    return fma(k, high * unit, r + tail)


def integer_to_float(k: Expr, f: Format) -> Expr:
    """A small integer as a float; in 64 bits by two additions, for lack of a conversion before AVX-512."""
    if f is SINGLE:
        return k.cast(F32)
    magic = 1.5 * 2.0**f.fraction_bits
    bits = int(np.array(magic, f.float_type.numpy).view(f.integer_type.numpy))
    return (k + bits).bitcast(f.float_type) - magic


ONE_BITS = 0x3F800000
"""The bits of 1 in float32."""


def _sqrt_half_bits(f: Format) -> int:
    return 0x3F3504F3 if f is SINGLE else 0x3FE6A09E667F3BCD


def split(x: Expr, f: Format) -> tuple[Expr, Expr]:
    """(k, r) with x = 2**k * (1 + r), r exact, for every positive finite x, subnormal ones too."""
    lift = f.fraction_bits + 2
    tiny = x < f.smallest_normal
    k, r = split_normal(where(tiny, x * 2.0**lift, x), f)
    return k - where(tiny, x.like(float(lift)), 0.0), r


def split_normal(x: Expr, f: Format) -> tuple[Expr, Expr]:
    """The same for normal x."""
    bits = x.bitcast(f.integer_type)
    above = bits - _sqrt_half_bits(f)
    r = (bits - (above & (-1 << f.fraction_bits))).bitcast(f.float_type) - 1.0
    return integer_to_float(above >> f.fraction_bits, f), r


def correction(r: Expr, f: Format) -> Expr:
    """log(1 + r) - r for r in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    if f is SINGLE:
        return (r * r) * polynomial(r, f.table("LOG"))
    return fma(r * -0.5, r, _beyond_square(r))


def _beyond_square(r: Expr) -> Expr:
    """log(1 + r) - r + r*r/2 in float64: 2*atanh(s) with s = r/(2 + r) needs far fewer terms (fdlibm's arrangement)."""
    s = r / (r + 2.0)
    z = s * s
    half_square = r * r * 0.5
    series = z * polynomial(z, DOUBLE.table("LOG"))
    return s * (half_square + series)


def special_cases(x: Expr, value: Expr) -> Expr:
    """The logarithm's values at zero, below zero, at infinity and NaN."""
    value = where(x < math.inf, value, x)
    value = where(x < 0.0, math.nan, value)
    return where(x == 0.0, -math.inf, value)
