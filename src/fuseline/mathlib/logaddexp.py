"""logaddexp, log(exp(a) + exp(b)), accurate also where the sum of the exponentials is close to 1; and softplus's log1p.

There the larger operand and log1p of the exponential of their distance cancel. The latter is computed to some ten bits
more than the format has; where more than that cancel, which is rare, float32 goes on in float64, and float64 with both
exponentials to 100 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from fuseline.ir.build import Expr, fma, where
from fuseline.ir.dtype import F32, F64, I32
from fuseline.mathlib.exponential import LOG2_E, SINGLE_UNIT, sixteenth_root_power
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    at_least,
    at_most,
    fast_two_sum,
    polynomial,
    power_of_two,
    round_to_integer,
    two_product,
    two_sum,
    where_rarely,
)
from fuseline.mathlib.logarithm import log1p_finite
from fuseline.mathlib.pieces import pick

Pair = tuple[Expr, Expr]
_LIFT = 256


def logaddexp(a: Expr, b: Expr) -> Expr:
    """The larger operand plus log1p of the exponential of minus their distance."""
    swap = a < b
    high, low = where(swap, b, a), where(swap, a, b)
    if a.dtype is F32:
        value, cancels = _logaddexp_single(high, low)
        return where_rarely(cancels, _little_left(high.cast(F64), low.cast(F64)).cast(F32), value)
    distance = low - high
    rest = where(distance > LOWEST, (low - distance) - high, 0.0)
    term = _log1p_of_exp_long(at_least(distance, LOWEST), rest)
    value = term.plus(high)
    # Infinite operands make a NaN too.
    value = where_rarely(~(value == value), where((abs(high) == math.inf) & (low == low), high, value), value)
    cancels = abs(value) < at_least(term.leading() * (1.0 / _MOST_CANCELLED_DOUBLE), _TINY_DOUBLE)
    return where_rarely(cancels, _near_zero(high, low), value)


LOWEST, _TINY_DOUBLE = -200.0, 2.0**-220
"""The exponential of less is nothing beside a number that is not tiny, and powers of it would be subnormal, which takes
some processors a hundred cycles."""
_MOST_CANCELLED_DOUBLE = 96.0
"""A result this many times smaller than the logarithm may be off by more than an ulp: their errors are about equal."""
_UNIT = 2.0**-63
"""So that what the quotient of a small exponential lacks is a normal number."""
_UPPER_START, _UPPER_CENTER = 0.26, 0.5859375


@dataclass(frozen=True, slots=True)
class Logarithm:
    """log1p(exp(d)) as ``constant`` + (``main`` + ``rest``)*_UNIT, the rest much smaller."""

    constant: Expr
    main: Expr
    rest: Expr

    def leading(self) -> Expr:
        """The value, but for the rest."""
        return fma(self.main, _UNIT, self.constant)

    def plus(self, a: Expr) -> Expr:
        """The sum with ``a``, rounded once."""
        term = self.leading()
        term_rest = fma(self.constant - term, 1.0 / _UNIT, self.main) + self.rest
        total, total_rest = two_sum(a, term)
        return fma(fma(total_rest, 1.0 / _UNIT, term_rest), _UNIT, total)


def log1p_of_exp(d: Expr) -> Logarithm:
    """log1p(exp(d)) for LOWEST <= d <= 0 in float64, to about 57 bits."""
    f = DOUBLE
    n, power = _power_in_units(d)
    high, low = f.table("LN2")
    r_high, r_low = fma(n, -high, d), n * -low
    r = r_high + r_low
    slope, slope_rest = fast_two_sum(r_high, fma(r * r, polynomial(r, f.table("EXP")), r_low))
    e = fma(power, slope, power)
    return _log1p(e, fma(power, slope_rest, fma(power, slope, power - e)), long_cube=False)


def _log1p_of_exp_long(d: Expr, d_rest: Expr) -> Logarithm:
    """log1p(exp(d + d_rest)) for LOWEST <= d <= 0 in float64, to about 61 bits."""
    f = DOUBLE
    n, power = _power_in_units(d)
    high, low = f.table("LN2")
    r, r_rest = fast_two_sum(fma(n, -high, d), fma(n, -low, d_rest))
    half = r * 0.5
    square = r * half
    square_rest = fma(r, half, -square)
    third, third_rest = f.table("THIRD")
    cube = square * r
    cube_rest = fma(square_rest, r, fma(square, r, -cube))
    rest = fma(cube_rest, third, fma(r_rest, r + square, r_rest) + square_rest)
    rest = fma(cube, polynomial(r, [third_rest, *f.table("EXP_QUARTIC")]), rest)
    square, rest = fast_two_sum(square, rest)
    curve = fma(cube, third, square)
    rest = fma(cube, third, square - curve) + rest
    line = fma(power, r, power)
    e = fma(power, curve, line)
    return _log1p(e, fma(power, rest, fma(power, curve, line - e) + fma(power, r, power - line)), long_cube=True)


def _power_in_units(d: Expr) -> Pair:
    """The integer n next to d/log(2), and 2**n in the unit of `_log1p`'s argument."""
    n, bits = round_to_integer(d, LOG2_E, DOUBLE, low_bits=DOUBLE.bias + 64)
    return n, power_of_two(bits, DOUBLE)


def _log1p(e: Expr, e_rest: Expr, long_cube: bool) -> Logarithm:
    """log1p(E) of E = (e + e_rest)*_UNIT/2 from 0 to 1.

    It is 2*atanh(E/(2 + E)), from 0.26 on log(c) + 2*atanh((1 + E - c)/(1 + E + c)) with c = 203/128; the quotients
    are at most 0.115. The cubic term is the largest that is rounded; ``long_cube`` asks for more bits of it.
    """
    f, unit = DOUBLE, 0.5 * _UNIT
    upper = e > _UPPER_START / unit
    numerator = e - where(upper, e.like(_UPPER_CENTER / unit), 0.0)
    base = where(upper, e.like(2.0 + _UPPER_CENTER), 2.0)
    denominator = fma(e, unit, base)
    denominator_rest = fma(e_rest, unit, fma(e, unit, base - denominator))
    inverse = 1.0 / denominator
    quotient = numerator * inverse
    correction = (fma(-quotient, denominator, numerator) + fma(-quotient, denominator_rest, e_rest)) * inverse
    s = quotient * unit
    z = s * s
    cube = quotient * z
    high, low = f.table("LOG_UPPER")
    rest = where(upper, e.like(low / _UNIT), 0.0)
    third, third_rest = f.table("THIRD")
    if long_cube:
        cube_rest = fma(quotient, fma(s, s, -z), fma(quotient, z, -cube))
        rest = fma(cube_rest, third, fma(correction, z, correction) + rest)
        rest = fma(cube, third, fma(cube, polynomial(z, [third_rest, *f.table("LOG_NEAR")]), rest))
    else:
        rest = fma(cube, polynomial(z, [third, *f.table("LOG_NEAR")]), correction + rest)
    return Logarithm(where(upper, e.like(high), 0.0), quotient, rest)


# ── float32 ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_LEAST_LEFT = 2.0**-9
"""Results below it that are also less than a quarter of the logarithm they are a sum with may be off by an ulp."""
_LOWEST_SINGLE, _TINY_SINGLE = -42.0, 2.0**-30
"""The same as of `LOWEST`."""


def _logaddexp_single(high: Expr, low: Expr) -> tuple[Expr, Expr]:
    """The sum in float32, and whether it is tiny or too much has cancelled; infinities are as they should be.

    exp(d) comes in two parts of some 36 bits together, and so does its log1p: one of sixteen cells has a float c for
    which t = c*exp(d) - (1 - c) is exact, and log1p(exp(d)) is log1p(t) plus -log(c), which is almost a float.
    """
    distance = low - high
    distance_rest = where(distance > _LOWEST_SINGLE, -high - (distance - low), 0.0)
    # Equal operands may be infinite; their distance is 0 all the same.
    d = where(high == low, 0.0, at_least(distance, _LOWEST_SINGLE))
    n, bits = round_to_integer(d, 16.0 * LOG2_E, SINGLE)
    power, lack = sixteenth_root_power(bits, SINGLE_UNIT)
    ln2_high, ln2_low = (part / 16.0 for part in SINGLE.table("LN2"))
    r_high, r_low = fma(n, -ln2_high, d), fma(n, -ln2_low, lack) + distance_rest
    r, r_rest = fast_two_sum(r_high, r_low)
    slope_rest = fma(r * r, polynomial(r, SINGLE.table("EXP_SIXTEENTH")), r_rest)
    e = fma(power, r, power)
    e_rest = fma(power, slope_rest, fma(power, r, power - e))

    reciprocals = SINGLE.table("FIFTEENTHS", "RECIPROCALS")
    cell = fma(e, (len(reciprocals) - 1) * SINGLE_UNIT, 1.5 * 2.0**SINGLE.fraction_bits).bitcast(I32)
    c = pick(cell, [v * SINGLE_UNIT for v in reciprocals])
    product = e * c
    t = product + pick(cell, [v - 1.0 for v in reciprocals])
    t_rest = fma(e_rest, c, fma(e, c, -product))
    s = t + t_rest
    term, term_rest = fast_two_sum(pick(cell, SINGLE.table("FIFTEENTHS", "LOGARITHMS")), t)
    term_rest = term_rest + fma((s * polynomial(s, SINGLE.table("LOG_NEAR_ONE"))) * s, s, t_rest)

    total, rest = two_sum(high, term)
    # The quadratic term is the largest of what is rounded: it comes last, and not on its own.
    rest = fma(s * -0.5, s, rest + term_rest)
    value = where(rest == rest, total + rest, total)
    return value, abs(value) < at_least(at_most(term * 0.25, _LEAST_LEFT), _TINY_SINGLE)


_MOST_CANCELLED_SINGLE = 2.0**21
"""The operands' distance, up to 2**6 where this counts, is rounded to 53 bits: to 2**-48 of its exponential."""


def _little_left(high: Expr, low: Expr) -> Expr:
    """The same of float32 operands in float64, for results that are tiny or of which ten bits have cancelled."""
    term = log1p_of_exp(at_least(low - high, LOWEST))
    value = term.plus(high)
    cancels = abs(value) * _MOST_CANCELLED_SINGLE < term.leading()
    return where_rarely(cancels, _near_zero(high, low), value)


# ── near zero ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _near_zero(high: Expr, low: Expr) -> Expr:
    """log1p of exp(low) + (exp(high) - 1), for operands that cancel: -0.7 < high < 0."""
    u, scale = _expm1_reduced(high, lift=0)
    above = _add((scale - 1.0, scale * 0.0), (u[0] * scale, u[1] * scale))
    # Where its parts might be subnormal, expm1(high) is high.
    tiny = high > -(2.0**-300)
    above = where(tiny, high, above[0]), where(tiny, 0.0, above[1])
    # Both terms may be subnormal: they are added 2**_LIFT times as large.
    v, scale = _expm1_reduced(at_least(low, -750.0), lift=_LIFT)
    one, one_rest = fast_two_sum(v[0].like(1.0), v[0])
    below = fast_two_sum(one, one_rest + v[1])
    total, rest = _add((above[0] * 2.0**_LIFT, above[1] * 2.0**_LIFT), (below[0] * scale, below[1] * scale))
    small = abs(total) < 2.0 ** (_LIFT - 60)
    total, rest = total * 2.0**-_LIFT, rest * 2.0**-_LIFT
    return where(small, total, log1p_finite(total, rest))


_DOUBLINGS = 4


def _expm1_reduced(x: Expr, lift: int) -> tuple[Pair, Expr]:
    """(u, s) with 2**lift * exp(x) = (1 + u)*s, s a power of two and u in two parts, to about 100 bits."""
    f = DOUBLE
    n, bits = round_to_integer(x, LOG2_E, f, low_bits=f.bias + lift)
    high, middle, low = f.table("LN2_THREE")
    product, product_rest = two_product(n, n.like(-middle))
    r, rest = two_sum(fma(n, -high, x), product)
    r, rest = r * 2.0**-_DOUBLINGS, fma(n, -low, rest + product_rest) * 2.0**-_DOUBLINGS
    # The series of expm1(r)/r; from the eighth power on, one part is enough.
    series = [float(Fraction(1, math.factorial(k))) for k in range(8, 14)]
    total: Pair = (polynomial(r, series), r * 0.0)
    for k in range(7, 0, -1):
        exact = Fraction(1, math.factorial(k))
        constant = float(exact)
        product, product_rest = _multiply(total, (r, rest))
        head, error = fast_two_sum(product.like(constant), product)
        total = head, error + (product_rest + float(exact - Fraction(constant)))
    u = _multiply(total, (r, rest))
    for _ in range(_DOUBLINGS):
        # expm1(2r) = 2*expm1(r) + expm1(r)**2.
        square, square_rest = _multiply(u, u)
        head, error = fast_two_sum(u[0] + u[0], square)
        u = fast_two_sum(head, fma(u[1], 2.0, square_rest + error))
    return u, power_of_two(bits, f)


def _multiply(a: Pair, b: Pair) -> Pair:
    product, rest = two_product(a[0], b[0])
    return product, fma(a[0], b[1], fma(a[1], b[0], rest))


def _add(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs, accurate where they cancel."""
    total, rest = two_sum(a[0], b[0])
    small, smaller = two_sum(a[1], b[1])
    total, rest = fast_two_sum(total, rest + small)
    return fast_two_sum(total, rest + smaller)
