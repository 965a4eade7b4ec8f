"""Arguments of sin, cos and tan as quarter turns and a rest in [-pi/4, pi/4], exact enough for every finite number.

x = k*(pi/2) + r. Below a bound the multiple is subtracted in parts (Cody and Waite); above, the fraction of x*(2/pi)
comes from the few words of 2/pi that matter at x's exponent (Payne and Hanek), looked up by groups of 16 exponents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fuseline.ir.build import Expr, call, fma
from fuseline.ir.dtype import F32, F64, I32, I64
from fuseline.mathlib.formats import DOUBLE, SINGLE, fast_two_sum, round_to_integer, two_product, two_sum, where_rarely
from fuseline.mathlib.inverse_pi import TWO_OVER_PI_BITS, TWO_OVER_PI_FRACTION

LARGE_SINGLE, LARGE_DOUBLE = 13, 30
"""Arguments up to 2 to this power are reduced by Cody and Waite's method."""
GROUP_BITS = 4
"""Larger exponents are taken 2**GROUP_BITS at a time: one table entry for each group."""


@dataclass(frozen=True)
class Reduced:
    """x = quadrant*(pi/2) + value + rest, and an integer of x's width of which the low two bits count."""

    quadrant: Expr
    value: Expr
    rest: Expr


def reduce_quarter_turns(x: Expr) -> Reduced:
    """The reduction, in x's own format; ``rest`` is below half an ulp of ``value``, which is at most 0.808."""
    return _reduce_single(x) if x.dtype is F32 else _reduce_double(x)


def _reduce_single(x: Expr) -> Reduced:
    n, bits = round_to_integer(x, 2.0 / math.pi, SINGLE)
    first, second, third = SINGLE.table("PI_HALF_THREE")
    whole = fma(n, -first, x)  # exact: below 1, and a multiple of 2**-24
    # The second product is exact as well. Where it is the larger it is a finer multiple below 1, and so is the rest.
    value = fma(n, -second, whole)
    rest = fma(n, -third, fma(n, -second, whole - value))
    far_bits, far = _far_single(x)
    far_value = far.cast(F32)
    far_rest = (far - far_value.cast(F64)).cast(F32)
    huge = abs(x) > 2.0**LARGE_SINGLE
    return Reduced(
        where_rarely(huge, far_bits.cast(I32), bits),
        where_rarely(huge, far_value, value),
        where_rarely(huge, far_rest, rest),
    )


def reduce_eighths(x: Expr) -> tuple[Reduced, Expr]:
    """float32 x in eighths of half turns, which ``quadrant`` counts; the value is at most 0.1967, ``rest`` is negated.

    So negated it is +0 for a zero: subtracting it takes no zero's sign. It may be 2**-21. Second is the value less it,
    within an ulp.
    """
    n, bits = round_to_integer(x, 8.0 / math.pi, SINGLE)
    first, second, third = SINGLE.table("PI_EIGHTH_THREE")
    whole = fma(n, -first, x)  # exact: below 1/4, and a multiple of 2**-26
    # The second product is exact as well. Where it is the larger it is a finer multiple, and so is the rest.
    value = fma(n, -second, whole)
    rest = fma(n, third, fma(n, second, value - whole))
    near = fma(n, -third, value)  # does not wait for the rest
    far_bits, far = _far_single(x)
    far = far * (8.0 / math.pi)
    magic = 1.5 * 2.0**52
    shifted = far + magic
    far = (far - (shifted - magic)) * (math.pi / 8)
    far_value = far.cast(F32)
    far_rest = (far_value.cast(F64) - far).cast(F32)
    count = (far_bits.cast(I32) << 2) + shifted.bitcast(I64).cast(I32)
    huge = abs(x) > 2.0**LARGE_SINGLE
    reduced = Reduced(
        where_rarely(huge, count, bits), where_rarely(huge, far_value, value), where_rarely(huge, far_rest, rest)
    )
    return reduced, where_rarely(huge, far_value, near)


def _far_single(x: Expr) -> tuple[Expr, Expr]:
    """Payne and Hanek for float32, in float64: products of 24 by 24 bits are exact."""
    pattern = x.bitcast(I32)
    place = ((pattern >> 23) & 0xFF) - (127 + LARGE_SINGLE)
    group = place >> GROUP_BITS
    in_group = place & (2**GROUP_BITS - 1)
    m = ((pattern & -0x7F800001) | ((in_group + 127) << 23)).bitcast(F32).cast(F64)
    tables = inverse_pi_tables(8, LARGE_SINGLE, 24, (24, 24, 24, 24), np.dtype(np.float32))
    first, second, third, fourth = (m * group.lookup(t, F32).cast(F64) for t in tables)
    magic = 1.5 * 2.0**52
    shifted = (first + second) + magic
    fraction = (((first - (shifted - magic)) + second) + third) + fourth
    return shifted.bitcast(I64), fraction * (math.pi / 2) + (x - x).cast(F64)


def _reduce_double(x: Expr) -> Reduced:
    n, bits = round_to_integer(x, 2.0 / math.pi, DOUBLE)
    first, second, third = DOUBLE.table("PI_HALF_THREE")
    whole = fma(n, -first, x)  # exact: below 1, and a multiple of 2**-53
    product, product_rest = two_product(n, n.like(second))
    # Exact, although the product may be the larger: it is below 2**-23, and what is left of it a multiple of 2**-76.
    value, rest = fast_two_sum(whole, -product)
    value, rest = fast_two_sum(value, rest - fma(n, third, product_rest))
    far_bits, far, far_rest = _far_double(x)
    huge = abs(x) > 2.0**LARGE_DOUBLE
    return Reduced(
        where_rarely(huge, far_bits, bits), where_rarely(huge, far, value), where_rarely(huge, far_rest, rest)
    )


def _far_double(x: Expr) -> tuple[Expr, Expr, Expr]:
    """Payne and Hanek for float64, in products of two parts."""
    pattern = x.bitcast(I64)
    place = ((pattern >> 52) & 0x7FF) - (1023 + LARGE_DOUBLE)
    group = place >> GROUP_BITS
    in_group = place & (2**GROUP_BITS - 1)
    m = ((pattern & -0x7FF0000000000001) | ((in_group + 1023) << 52)).bitcast(F64)
    tables = inverse_pi_tables(64, LARGE_DOUBLE, 53, (53, 53, 53, 53), np.dtype(np.float64))
    words = [group.lookup(t, F64) for t in tables]
    products = [two_product(m, w) for w in words]
    # Whole turns go first: every part is reduced modulo 4 quarter turns, exactly.
    parts = [_modulo_four(products[0][0]), _modulo_four(products[0][1]), _modulo_four(products[1][0])]
    magic = 1.5 * 2.0**52
    shifted = (parts[0] + (parts[1] + parts[2])) + magic
    fraction, rest = parts[0] - (shifted - magic), x.like(0.0)
    for part in (parts[1], parts[2], products[1][1], products[2][0], products[2][1], products[3][0]):
        fraction, error = two_sum(fraction, part)
        rest = rest + error
    fraction, rest = fast_two_sum(fraction, rest)
    high, low = DOUBLE.table("PI_HALF")
    value, value_rest = two_product(fraction, x.like(high))
    value_rest = fma(fraction, low, fma(rest, high, value_rest)) + (x - x)
    value, value_rest = fast_two_sum(value, value_rest)
    return shifted.bitcast(I64), value, value_rest


def _modulo_four(x: Expr) -> Expr:
    """x less the nearest multiple of 4, exactly."""
    return x - call("rint", x * 0.25) * 4.0


@cache
def inverse_pi_tables(
    groups: int, lowest_exponent: int, significand_bits: int, part_bits: tuple[int, ...], kind: Any
) -> list[tuple[int, ...]]:
    """Tables of the parts of 2/pi that matter: entry g of part j, as bit patterns of ``kind``.

    An argument is m * 2**(16*g + lowest_exponent) with ``significand_bits`` bits in m < 2**16. Of 2**(16*g +
    lowest_exponent) * 2/pi everything that makes whole turns whatever m is left out; the rest is rounded to nearest
    part after part, so that products with m are exact where formats allow.
    """
    whole_turn = 4 << (significand_bits - 1)
    tables: list[list[int]] = [[] for _ in part_bits]
    unsigned = np.dtype(f"u{kind.itemsize}")
    for group in range(groups):
        exponent = group * 2**GROUP_BITS + lowest_exponent
        scaled = (TWO_OVER_PI_FRACTION << exponent) % (whole_turn << TWO_OVER_PI_BITS)
        if scaled >= whole_turn << (TWO_OVER_PI_BITS - 1):
            scaled -= whole_turn << TWO_OVER_PI_BITS
        for table, bits in zip(tables, part_bits, strict=True):
            part = _nearest(scaled, bits)
            value = np.ldexp(*_significand(part)).astype(kind) if part else np.zeros((), kind)
            table.append(int(value.view(unsigned)))
            scaled -= part
    return [tuple(t) for t in tables]


def _nearest(scaled: int, bits: int) -> int:
    """An integer rounded to ``bits`` significant bits."""
    drop = max(abs(scaled).bit_length() - bits, 0)
    half = 1 << drop >> 1
    return (abs(scaled) + half >> drop << drop) * (1 if scaled >= 0 else -1)


def _significand(part: int) -> tuple[np.float64, int]:
    drop = max(part.bit_length() - 53, 0)
    return np.float64(part >> drop), drop - TWO_OVER_PI_BITS
