"""tanh, sinh, cosh and their inverses.

In float32 sinh and cosh share one evaluation of both exponentials; asinh and acosh are logarithms of sums in two parts,
and atanh needs one division.
"""

from __future__ import annotations

import math

from fuseline.ir.build import Expr, call, fma, where
from fuseline.ir.dtype import F32, F64, I64
from fuseline.mathlib.coefficients import ATANH_RECIPROCALS_IN_64THS
from fuseline.mathlib.exponential import LOG2_E, exp_in_two_parts, exp_wide
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    at_most,
    fast_two_sum,
    format_of,
    halved_reciprocal,
    polynomial,
    power_of_two,
    rough_reciprocal,
    round_to_integer,
    two_product,
    two_sum,
    where_rarely,
    with_sign_of,
)
from fuseline.mathlib.logarithm import (
    ONE_BITS,
    Cell,
    integer_to_double,
    log_by_cells,
    log_of_parts_single,
    split_by_cells,
)
from fuseline.mathlib.pieces import odd_by_pieces, pick


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent: in float64 expm1(2|x|)/(expm1(2|x|) + 2), both in two parts and the quotient corrected."""
    if x.dtype is F32:
        return odd_by_pieces(x, "TANH", 9.011, scale=1.6646, offset=1.0, place=22, first=6)
    f = DOUBLE
    a = abs(x)
    y = at_most(a + a, 38.2)
    # With y = n*log(2) + r, both terms are halved: 2**(n - 1)*(exp(r) - 1) + 2**(n - 1) -+ 1/2.
    n, bits = round_to_integer(y, LOG2_E, f, low_bits=f.bias - 1)
    power = power_of_two(bits, f)
    high, low = f.table("LN2")
    r_high, r_low = fma(n, -high, y), n * -low
    r = r_high + r_low
    slope, slope_rest = fast_two_sum(r_high, fma(r * r, polynomial(r, f.table("EXP")), r_low))
    less = power - 0.5
    e = fma(power, slope, less)
    e_rest = fma(power, slope_rest, fma(power, slope, less - e))
    inverse = 1.0 / (e + 1.0)
    quotient = e * inverse
    # e - quotient*(e + 1), where e + 1 is rounded, as e*(1 - quotient) - quotient.
    lack = 1.0 - quotient
    lack_rest = (1.0 - lack) - quotient
    error = fma(lack_rest, e, fma(lack, e_rest, fma(lack, e, -quotient)))
    return with_sign_of(fma(error, inverse, quotient), x)


def sinh(x: Expr) -> Expr:
    """Hyperbolic sine."""
    return with_sign_of(_of_half_exponentials(abs(x), odd=True), x)


def cosh(x: Expr) -> Expr:
    """Hyperbolic cosine."""
    return _of_half_exponentials(abs(x), odd=False)


_POWERS_END = {"F32": 87.0, "F64": 707.0}
"""Up to here 2**(n - 1) is finite, and the exponent of 2**(-n - 1) not below that of zero."""


def _of_half_exponentials(a: Expr, odd: bool) -> Expr:
    """sinh(a) if ``odd``, else cosh(a), for a >= 0.

    With a = n*log(2) + r, p = 2**(n - 1), q = 2**(-n - 1), cosh(r) = 1 + c and sinh(r) = r + s:
    sinh(a) = (p - q)*(1 + c) + (p + q)*(r + s), and cosh(a) the same with the sum and the difference exchanged. Where
    n is 0, p - q is as well, so that sinh keeps its relative accuracy.
    """
    f = format_of(a)
    n, bits = round_to_integer(a, LOG2_E, f, low_bits=f.bias - 1)
    p, q = power_of_two(bits, f), power_of_two(2 * (f.bias - 1) - bits, f)
    high, low = f.table("LN2")
    r_high, r_low = fma(n, -high, a), n * -low
    r = r_high + r_low
    u = r * r
    s = fma(r * u, polynomial(u, f.table("SINH")), r_low)
    c = u * polynomial(u, f.table("COSH"))
    first, second = (p - q, p + q) if odd else (p + q, p - q)
    total = fma(second, r_high, first)
    # From n = 12 on (float64: 27) sum and difference are rounded; the difference matters little.
    if f is SINGLE:
        rest = fma(second, r_high, first - total) if odd else fma(second, r_high, p - total) + q
    else:
        lost = (p - first) - q if odd else fma((p - second) - q, r_high, (p - first) + q)
        rest = fma(second, r_high, first - total) + lost
    value = total + fma(second, s, fma(first, c, rest))
    large = (0.5 * exp_wide(at_most(a, 90.0).cast(F64))).cast(F32) if f is SINGLE else _half_exponential(a)
    return where_rarely(~(a <= _POWERS_END[f.suffix]), large, value)


def _half_exponential(a: Expr) -> Expr:
    """exp(a)/2 in float64 for large a, infinite where it overflows."""
    # 710.476 is just beyond that, where 2**n is still finite; a quarter overflows after the half does.
    quarter, rest = exp_in_two_parts(at_most(a, 710.476), a.like(0.0), scale=0.25)
    return 2.0 * (quarter + rest)


def asinh(x: Expr) -> Expr:
    """Inverse hyperbolic sine, log(a + sqrt(a*a + 1)) with a = |x|."""
    a = abs(x)
    return with_sign_of(_asinh_single(a) if x.dtype is F32 else _asinh_double(a), x)


_DOUBLE_SQUARED_END = 2.0**500
"""Up to here squares are finite; beyond, and long before, asinh(x) is log(2x)."""


def _asinh_double(a: Expr) -> Expr:
    """asinh(a) for a >= 0 by the cells of the logarithm: with s = c/2**k, r is s*root - 1 + s*a."""
    square, square_rest = two_product(a, a)
    inside = square + 1.0
    inside_rest = square - (inside - 1.0)  # exact while the 1 counts
    root = call("sqrt", inside)
    error = fma(-root, root, inside) + (inside_rest + square_rest)
    cell = Cell.of_number(a + root)
    s = cell.scale
    of_root, of_root_rest = two_product(s, root)
    of_a, of_a_rest = two_product(s, a)
    less, less_rest = fast_two_sum(s.like(-1.0), of_root)
    r, r_rest = fast_two_sum(of_a, less)  # exact but in the first cell, where s is 1
    # With v = 1/(a + root), 1/(2*root) is v/(1 + v*v), and to first order around 1, where it counts, v - v*v/2.
    v = fma(-r, s, s)
    inverse = fma(v * -0.5, v, v)
    r_rest = (r_rest + less_rest) + fma(s * inverse, error, of_root_rest + of_a_rest)
    # The rest over 1 + r, by (1 + r*r)*(1 - r).
    total, tail = cell.logarithm_in_two_parts(r, fma(r_rest, r * r, r_rest))
    large = log_by_cells(*split_by_cells(a, a.like(-1.0)))
    return where_rarely(~(a < _DOUBLE_SQUARED_END), where(a < math.inf, large, a), total + tail)


def acosh(x: Expr) -> Expr:
    """Inverse hyperbolic cosine, log(x + sqrt(x*x - 1)); NaN below 1."""
    return _acosh_single(x) if x.dtype is F32 else _acosh_double(x)


def _acosh_double(x: Expr) -> Expr:
    """acosh(x) by the cells of the logarithm: with s = c/2**k, r is s*root + (s*x - 1)."""
    t = x - 1.0
    square, square_rest = two_product(t, t)
    inside, inside_rest = two_sum(t + t, square)
    root = call("sqrt", inside)
    error = fma(-root, root, inside) + (inside_rest + square_rest)
    cell = Cell.of_number(x + root)
    s = cell.scale
    of_root, of_root_rest = two_product(s, root)
    of_x, of_x_rest = two_product(s, x)
    less, less_rest = fast_two_sum(s.like(-1.0), of_x)
    r, r_rest = fast_two_sum(of_root, less)  # exact but in the first cell, where s is 1
    r_rest = (r_rest + less_rest) + fma(s * rough_reciprocal(root + root), error, of_root_rest + of_x_rest)
    # The rest over 1 + r, by (1 + r*r)*(1 - r).
    total, tail = cell.logarithm_in_two_parts(r, fma(r_rest, r * r, r_rest))
    large = log_by_cells(*split_by_cells(x, x.like(-1.0)))
    beyond = where(x < math.inf, where(x < 1.0, math.nan, large), x)
    return where_rarely(~((x >= 1.0) & (x < _DOUBLE_SQUARED_END)), beyond, total + tail)


def atanh(x: Expr) -> Expr:
    """Inverse hyperbolic tangent; infinite at 1, NaN beyond."""
    a = abs(x)
    return with_sign_of(_atanh_single(a) if x.dtype is F32 else _atanh_double(a), x)


_DOUBLE_POLE_START = 1.0 - 2.0**-44
"""From here on 1 + s needs more than 53 bits."""


def _atanh_double(a: Expr) -> Expr:
    """atanh(a) for a >= 0 as k*log(2)/2 - log(c)/2 + atanh(b), as in float32 but for cells between powers of two.

    With s = c/2**k, p = (s + 1)/2 and q = (s - 1)/2, b is (a*p + q)/(p + a*q). Cell and k come from the bits of 1 + a
    less those of 1 - a, nearly a logarithm of their quotient. |b| is below 0.0506; in the first cell s is 1 and b is a.
    """
    f = DOUBLE
    bottom = 1.0 - a
    above = (a + 1.0).bitcast(I64) - bottom.bitcast(I64)
    cell = above >> (f.fraction_bits - 3)
    k = integer_to_double(above >> f.fraction_bits)
    half = pick(cell, [n / 128.0 for n in ATANH_RECIPROCALS_IN_64THS]).bitcast(I64)
    half = (half - (above & (-1 << f.fraction_bits))).bitcast(F64)
    p, q = half + 0.5, half - 0.5
    product, product_rest = two_product(a, p)
    numerator = fma(a, p, q)
    numerator_rest = product_rest + ((product + q) - numerator)  # exact but near the pole, where it does not count
    denominator = fma(a, q, p)
    denominator_rest = fma(a, q, p - denominator)
    b = numerator / denominator
    # The remainder itself instead of its quotient by the divisor, which is about 1 where it counts.
    error = fma(-b, denominator, numerator) + fma(-b, denominator_rest, numerator_rest)
    high, low = f.table("LN2")
    total, rest = fast_two_sum(fma(k, 0.5 * high, pick(cell, f.table("ATANH_CELLS", "HEADS"))), b)
    rest = rest + (error + fma(k, 0.5 * low, pick(cell, f.table("ATANH_CELLS", "RESTS"))))
    u = b * b
    value = total + fma(b * u, polynomial(u, f.table("ATANH")), rest)
    near_pole = 0.5 * log_by_cells(*split_by_cells((1.0 + a) / bottom))
    beyond = where(a < 1.0, near_pole, where(a == 1.0, a.like(math.inf), math.nan))
    return where_rarely(~(a < _DOUBLE_POLE_START), beyond, value)


# ── inverse functions in float32 ─────────────────────────────────────────────────────────────────────────────────────

_SQUARED_END = 2.0**60
"""Up to here squares are finite in float32; beyond, and long before, asinh(x) and acosh(x) are log(2x)."""
_LINEAR_END = 2.0**-18
"""Below, asinh(x) is x, and the parts of its logarithm would cancel."""


def _asinh_single(a: Expr) -> Expr:
    """asinh(a) for a >= 0."""
    root = call("sqrt", fma(a, a, 1.0))
    total, rest = fast_two_sum(root, a)
    error = fma(a, a, fma(-root, root, 1.0))
    value = log_of_parts_single(total, fma(error, halved_reciprocal(root), rest))
    value = where(a < _LINEAR_END, a, value)
    return where_rarely(~(a < _SQUARED_END), where(a < math.inf, _log_of_double_single(a), a), value)


def _acosh_single(x: Expr) -> Expr:
    t = x - 1.0
    double = t + t
    root = call("sqrt", fma(t, t, double))
    total, rest = fast_two_sum(x, root)
    error = fma(t, t, fma(-root, root, double))
    value = log_of_parts_single(total, fma(error, halved_reciprocal(root), rest))
    beyond = where(x < math.inf, where(x < 1.0, math.nan, _log_of_double_single(x)), x)
    return where_rarely(~((x >= 1.0) & (x < _SQUARED_END)), beyond, value)


def _log_of_double_single(x: Expr) -> Expr:
    """log(2x) for x >= 1."""
    return log_of_parts_single(x * 0.25, x.like(0.0), doublings=3)


_POLE_START = 1.0 - 2.0**-20
"""From here on 1 + s needs more than 24 bits."""


def _atanh_single(a: Expr) -> Expr:
    """atanh(a) for a >= 0 as k*log(2)/2 + atanh(b).

    With s = 2**-k, l = 1 - s and m = 1 + s, b is (a*m - l)/(m - a*l), and 2**k <= 1.2125*(1 + a)/(1 - a) < 2**(k + 1)
    keeps it between -0.096 and 0.2452. Where k is 0, b is a; elsewhere results exceed a quarter, and b is too small for
    what its divisor was rounded by to matter.
    """
    f = SINGLE
    top, bottom = fma(a, 1.2125, 1.2125), 1.0 - a
    exponent = (top.bitcast(f.integer_type) - bottom.bitcast(f.integer_type)) & (-1 << f.fraction_bits)
    s = (ONE_BITS - exponent).bitcast(f.float_type)
    less, more = 1.0 - s, s + 1.0
    numerator, denominator = fma(a, more, -less), fma(-a, less, more)
    b = numerator / denominator
    # The remainder itself instead of its quotient by the divisor, which is about as large where it counts.
    error = fma(-b, denominator, numerator)
    k, step = exponent.cast(F32), math.log(2.0) * 2.0 ** (-f.fraction_bits - 1)
    total = fma(k, step, b)
    rest = (b - fma(-k, step, total)) + error
    u = b * b
    value = total + fma(b * u, polynomial(u, f.table("ATANH")), rest)
    near_pole = 0.5 * log_of_parts_single((1.0 + a) / bottom, a.like(0.0))
    beyond = where(a < 1.0, near_pole, where(a == 1.0, a.like(math.inf), math.nan))
    return where_rarely(~(a < _POLE_START), beyond, value)
