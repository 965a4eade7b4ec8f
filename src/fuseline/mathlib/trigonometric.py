"""sin, cos and tan over the whole range of their format, and the inverse functions.

All are evaluated in their own format, with corrections for what reduced arguments, square roots and quotients were
rounded by; atan of float32 by pieces.
"""

from __future__ import annotations

import math

from fuseline.ir.build import Expr, call, fma, where
from fuseline.ir.dtype import F32, F64, I32, I64
from fuseline.mathlib.argument_reduction import Reduced, reduce_eighths, reduce_quarter_turns
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    WIDE,
    Format,
    at_least,
    bits_of,
    fast_two_sum,
    format_of,
    is_within,
    polynomial,
    polynomial_with_last_steps,
    rough_reciprocal,
    two_sum,
    where_rarely,
    with_sign_of,
)
from fuseline.mathlib.pieces import pick, piece

Pair = tuple[Expr, Expr]


def sin(x: Expr) -> Expr:
    """Sine."""
    return _circular(x, shift=0)


def cos(x: Expr) -> Expr:
    """Cosine, a quarter turn ahead of the sine."""
    return _circular(x, shift=1)


def _circular(x: Expr, shift: int) -> Expr:
    if x.dtype is F32:
        return _circular_single(x, 4 * shift)
    reduced = reduce_quarter_turns(x)
    (sine, sine_rest), (cosine, cosine_rest) = _sine_and_cosine_double(reduced)
    quadrant = reduced.quadrant + shift if shift else reduced.quadrant
    odd = quadrant << 63 < 0
    value = where(odd, cosine, sine) + where(odd, cosine_rest, sine_rest)
    value = (value.bitcast(I64) ^ ((quadrant << 62) & (-1 << 63))).bitcast(F64)
    return value if shift else where(x == 0.0, x, value)


def _circular_single(x: Expr, shift: int) -> Expr:
    """sin(x + shift*pi/8) in float32: sin(k*pi/8 + r) by the addition theorem, k from 0 to 7, and half turns' sign.

    Sines of k*pi/8 have a second part. Zeros keep their sign because every sum of zeros has one that is -0 for -0.
    """
    reduced, near = reduce_eighths(x)
    r, cell = reduced.value, reduced.quadrant
    sines = [_sine_of_eighths(k + shift) for k in range(8)]
    sine, sine_low = (pick(cell, [parts[i] for parts in sines]) for i in (0, 1))
    cosine = pick(cell, [_sine_of_eighths(k + shift + 4)[0] for k in range(8)])
    u = near * near
    # Adding 0 makes a zero positive.
    bend = fma(near, fma(u, polynomial(u, SINGLE.table("SIN")), 0.0), -reduced.rest)
    drop = fma(u, polynomial(u, SINGLE.table("COSINE")), 0.0)
    value = sine + fma(cosine, r, fma(cosine, bend, fma(sine, drop, sine_low)))
    return (value.bitcast(I32) ^ ((cell << 28) & (-1 << 31))).bitcast(F32)


def _sine_of_eighths(k: int) -> tuple[float, float]:
    """sin(k*pi/8) in two parts; -0 instead of 0, which added to a zero takes no sign."""
    k, sign = k % 8, -1.0 if k % 16 >= 8 else 1.0
    if k == 0:
        return -0.0, -0.0
    high, low = (1.0, 0.0) if k == 4 else SINGLE.table(f"SIN_{min(k, 8 - k)}_EIGHTHS")
    if k in (1, 7):
        # Right at the end near zero, where an ulp is smallest, with what the cosine there is rounded by.
        low -= 0.13 * SINGLE.table("SIN_3_EIGHTHS")[1]
    return sign * high, sign * low


def tan(x: Expr) -> Expr:
    """Tangent: in float64 as the quotient of sine and cosine."""
    reduced = reduce_quarter_turns(x)
    odd = reduced.quadrant << (x.dtype.bits - 1) < 0
    if x.dtype is F32:
        return where(x == 0.0, x, _tangent_single(reduced, odd))
    (sine, sine_rest), (cosine, cosine_rest) = _sine_and_cosine_double(reduced)
    sine, sine_rest = fast_two_sum(sine, sine_rest)
    cosine, cosine_rest = fast_two_sum(cosine, cosine_rest)
    top, bottom = where(odd, cosine, sine), where(odd, -sine, cosine)
    top_rest, bottom_rest = where(odd, cosine_rest, sine_rest), where(odd, -sine_rest, cosine_rest)
    inverse = 1.0 / bottom
    quotient = top * inverse
    error = fma(-quotient, bottom_rest, fma(-quotient, bottom, top) + top_rest)
    return where(x == 0.0, x, fma(error, inverse, quotient))


def _tangent_single(reduced: Reduced, odd: Expr) -> Expr:
    """t = tan(value + rest) in float32, or -1/t a quarter turn further."""
    r = reduced.value
    u = r * r
    # What the argument and its square were rounded by counts by slopes that need not be exact.
    rest = fma(fma(r, r, -u), r * 0.5, reduced.rest * fma(u, 1.45, 1.0))
    cube = r * u
    third, *others = SINGLE.table("TAN")
    rest = fma(cube, third, fma(cube * u, polynomial(u, others, cuts=1), rest))
    t, rest = fast_two_sum(r, rest)
    inverse = -1.0 / t
    turned = fma(fma(inverse, rest, fma(inverse, t, 1.0)), inverse, inverse)
    return where(odd, turned, t)


def _sine_and_cosine_double(reduced: Reduced) -> tuple[Pair, Pair]:
    """The same in float64: sums of a large and a small part."""
    r, rest = reduced.value, reduced.rest
    u = r * r
    half = u * 0.5
    whole = 1.0 - half
    sine_rest = fma(r * u, polynomial(u, DOUBLE.table("SIN")), rest * whole)
    linear = fma(r, -rest, (1.0 - whole) - half)
    cosine_rest = linear + (u * u) * polynomial(u, DOUBLE.table("COS"))
    # u was rounded: half of its error belongs to the cosine.
    return (r, sine_rest), (whole, fma(fma(r, r, -u), -0.5, cosine_rest))


# ── inverse functions ────────────────────────────────────────────────────────────────────────────────────────────────


def asin(x: Expr) -> Expr:
    """Inverse sine; NaN outside [-1, 1]."""
    f, a = format_of(x), abs(x)
    large = a > 0.5
    p, tail = _asin_of_half(a, large, f)
    high, low = f.table("PI_HALF")
    total, rest = fast_two_sum(p.like(high), p * -2.0)
    return with_sign_of(where(large, total + (rest + fma(tail, -2.0, low)), p + tail), x)


def acos(x: Expr) -> Expr:
    """Inverse cosine; NaN outside [-1, 1]."""
    f, a = format_of(x), abs(x)
    large, negative = a > 0.5, x < 0.0
    p, tail = _asin_of_half(a, large, f)
    high, low = f.table("PI_HALF")
    # The three cases are base - factor*(p + tail).
    factor = where(large, where(negative, 2.0, x.like(-2.0)), where(negative, -1.0, x.like(1.0)))
    base = where(large, where(negative, 2.0 * high, x.like(0.0)), high)
    base_low = where(large, where(negative, 2.0 * low, x.like(0.0)), low)
    product = p * factor
    total = base - product
    # Fast two-sum needs the larger operand first; where base is zero both corrections vanish.
    rest = where(base == 0.0, 0.0, (base - total) - product)
    return total + (rest + fma(tail, -factor, base_low))


def _asin_of_half(a: Expr, large: Expr, f: Format) -> tuple[Expr, Expr]:
    """asin(t) for t = a, or t = sqrt((1 - a)/2) where a is large; in two parts, the second small."""
    z = where(large, (1.0 - a) * 0.5, a * a)
    root = call("sqrt", z)
    t = where(large, root, a)
    series = (t * z) * polynomial(z, f.table("ASIN"))
    if f is SINGLE:
        # What the root was rounded by, over twice the root; the reciprocal is a subtraction of bits, near enough.
        inverse = (_HALVED_RECIPROCAL - root.bitcast(f.integer_type)).bitcast(f.float_type)
        return t, fma(where(large, fma(-root, root, z), 0.0), inverse, series)
    return t, fma(where(large, fma(-root, root, z), 0.0), rough_reciprocal(root + root), series)


_HALVED_RECIPROCAL = 0x7E731200
"""Less the bits of a float32 x, the bits of 1/(2x) within 12 %."""


def atan(x: Expr) -> Expr:
    """Inverse tangent."""
    a = abs(x)
    if x.dtype is F32:
        turned = a > 1.0
        z = where(turned, 1.0 / a, a)
        # The cells are those of z*3 + 1 below 4; the table goes on with those of the turned angle, pi/2 - atan(z).
        place = fma(z, 3.0 - 2.0**-22, 1.0) * where(turned, 4.0, x.like(1.0))
        cell = place.bitcast(I32) >> 22
        head, t, terms = piece(z, ("ATAN", "ATAN_TURNED"), cell, first=6, starts_at_zero=True)
        return with_sign_of(fma(t, polynomial(t, terms), head), x)
    total, rest = _arctangent(a, a.like(1.0), DOUBLE)
    return call("with_sign", total + rest, x)


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), in [-pi, pi], with C99's values at zeros and infinities."""
    if x.dtype is F32:
        return _angle_single(y, x)
    return call("with_sign", _angle(abs(y), abs(x), x.bitcast(I64) < 0, DOUBLE), y)


_SMALL_END, _LARGE_END = 2.0**-70, 2.0**54
"""Between them quotients of coordinates, and what they were rounded by, are normal float32."""


def _angle_single(y: Expr, x: Expr) -> Expr:
    """atan2 in float32: the arctangent of the smaller coordinate over the larger, from the nearest half axis."""
    a, b = abs(y), abs(x)
    steep = a > b
    small, large = where(steep, b, a), where(steep, a, b)
    # Zeros are ordinary data. One comparison: a larger coordinate too large makes the smaller one count as too small.
    least = where(large < _LARGE_END, small.bitcast(I32), 1)
    unusual = is_within(least, 1, bits_of(_SMALL_END))
    # Positive away from the half axis that is the base.
    pattern = x.bitcast(I32)
    sign = where(steep, ~pattern, pattern) & (-1 << 31)
    small = (small.bitcast(I32) ^ sign).bitcast(F32)
    inverse = 1.0 / at_least(large, _SMALL_END)
    z = small * inverse
    z_rest = fma(-z, large, small) * inverse
    u = z * z
    cube = z * u
    high, low = SINGLE.table("PI_HALF")
    base = where(steep, high, where(pattern < 0, 2.0 * high, x.like(0.0)))
    total, rest = fast_two_sum(base, z)
    # What quotient, square and cube were rounded by counts by slopes that need not be exact.
    rest = fma(z_rest, fma(u, -0.5, 1.0), fma(base, low / high, rest))
    rest = fma(fma(z, u, -cube), -0.21, fma(fma(z, z, -u), z * -0.14, rest))
    value = total + fma(cube, polynomial_with_last_steps(u, SINGLE.table("ATAN_OCTANT")), rest)
    wide = _angle(abs(y.cast(F64)), abs(x.cast(F64)), pattern < 0, WIDE).cast(F32)
    return with_sign_of(where_rarely(unusual, wide, value), y)


def _angle(a: Expr, b: Expr, negative: Expr, f: Format) -> Expr:
    """The angle in [0, pi] of the point (b, a), or (-b, a) where ``negative``, for a, b >= 0 in float64."""
    both_infinite = (a == math.inf) & (b == math.inf)
    a, b = where(both_infinite, 1.0, a), where(both_infinite, 1.0, b)
    if f is DOUBLE:
        # Sums must not overflow, nor corrections underflow.
        huge, tiny = (a > 2.0**1000) | (b > 2.0**1000), (a < 2.0**-800) & (b < 2.0**-800)
        scale = where(huge, 2.0**-100, where(tiny, 2.0**200, a.like(1.0)))
        a, b = a * scale, b * scale
    total, rest = _arctangent(a, b, f)
    high, low = (math.pi, 0.0) if f is WIDE else tuple(2.0 * v for v in f.table("PI_HALF"))
    turned, turned_rest = fast_two_sum(total.like(high), -total)
    return where(negative, turned, total) + where(negative, turned_rest + (low - rest), rest)


def _arctangent(a: Expr, b: Expr, f: Format) -> tuple[Expr, Expr]:
    """atan(a/b) for a, b >= 0 as a sum of two.

    The quotient is brought below tan(pi/8) by the angles pi/4 and pi/2 before the one division.
    """
    steep, middle = a > b * 2.414, a > b * 0.4142
    difference, difference_rest = two_sum(a, -b)
    total, total_rest = two_sum(a, b)
    top = where(steep, -b, where(middle, difference, a))
    bottom = where(steep, a, where(middle, total, b))
    bottom = where(bottom == 0.0, 1.0, bottom)
    t = top / bottom
    u = t * t
    series = (t * u) * polynomial(u, f.table("ATAN"))
    high, low = (math.pi / 2, 0.0) if f is WIDE else f.table("PI_HALF")
    base = where(steep, high, where(middle, 0.5 * high, t.like(0.0)))
    if f is WIDE:
        return base, t + series
    lost = where(~steep & middle, fma(-t, total_rest, difference_rest), 0.0)
    # Beside half a turn a quotient by more has no error that counts.
    error = where(bottom < 2.0**1020, (fma(-t, bottom, top) + lost) * rough_reciprocal(bottom), 0.0)
    base_low = where(steep, low, where(middle, 0.5 * low, t.like(0.0)))
    total, rest = fast_two_sum(base, t)
    return total, rest + (series + (base_low + error))
