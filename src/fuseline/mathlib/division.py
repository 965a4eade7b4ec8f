"""Quotients by products, for a divisor whose reciprocal is at hand: the bits of the division itself.

For y the rounded reciprocal of b, q the rounded x*y and r = x - b*q, the rounded q + r*y is the rounded x/b (Markstein
1990; Brisebarre, Muller and Raina 2004) where nothing over- or underflows on the way.
"""

from __future__ import annotations

from fuseline.ir.build import Expr, fma, where
from fuseline.mathlib.formats import bits_of, format_of, is_within, where_rarely


def by_reciprocal(x: Expr, b: Expr) -> Expr:
    """``x / b`` in a few operations more than a division takes, of which all that is in ``b`` alone may be shared.

    Elements that are 0, infinite or NaN are right in x*y. Those whose way leaves the normal numbers are divided, and
    all are where ``b`` itself is too small, too large or no number.
    """
    f = format_of(x)
    lowest_bit = -1 << (x.dtype.bits - 1)
    infinity = bits_of(float("inf"), f)
    size = abs(b)
    size_bits = size.bitcast(f.integer_type)
    usable = is_within(size_bits, bits_of(f.smallest_normal, f), bits_of(2.0 ** (f.bias - 1), f))
    # r is a multiple of the product of the last places of b and q, which has to be a float.
    least, enough = 2.0 ** (f.fraction_bits + 2 - f.bias), size * 2.0 ** (3 - f.bias)
    first = where(enough > least, enough, least).bitcast(f.integer_type)
    end = (size * 2.0 ** (f.bias - 1)).bitcast(f.integer_type)
    length = where(usable, end - first + lowest_bit, lowest_bit)
    last_finite = where(usable, size_bits.like(infinity - 2 + lowest_bit), -1 - lowest_bit)

    y = 1.0 / b
    q = x * y
    nearest = fma(fma(-b, q, x), y, q)
    magnitude = x.bitcast(f.integer_type) & (-1 - lowest_bit)
    safe = magnitude - (first + lowest_bit) < length
    special = magnitude + (-1 - lowest_bit) > last_finite  # magnitude - 1, which wraps for zeros, as `length` is moved
    return where_rarely(~(safe | special), x / b, where(safe, nearest, q))
