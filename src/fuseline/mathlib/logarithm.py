"""log, log2, log10 and log1p.

In float32 x = 2**k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)]; log(1 + f) = f + c, and only the small c is
approximated. In float64 x = 2**k * (1 + r)/c with c from a table of eight cells, so that |r| is at most 1/16 and the
polynomial short; the logarithms of 1/c are in the table as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fuseline.ir.build import Expr, fma, where
from fuseline.ir.dtype import F32, F64, I32, I64
from fuseline.mathlib.coefficients import CELL_RECIPROCALS_IN_32NDS
from fuseline.mathlib.formats import (
    DOUBLE,
    SINGLE,
    Format,
    bits_of,
    fast_two_sum,
    format_of,
    polynomial,
    power_of_two,
    two_product,
    where_rarely,
)
from fuseline.mathlib.pieces import pick


def log(x: Expr) -> Expr:
    """Natural logarithm: -inf at zeros, NaN below."""
    if x.dtype is F32:
        high, low = SINGLE.table("LN2")
        return _of_positive_single(
            x, lambda k, r: fma(k, high, r + fma(r * r, polynomial(r, SINGLE.table("LOG")), k * low))
        )

    return _of_positive_double(x, log_by_cells)


def log_by_cells(cell: Cell, r: Expr) -> Expr:
    """The natural logarithm of a float64 that `split_by_cells` took apart."""
    total, rest = fast_two_sum(cell.head("LOG", "LN2"), r)
    return total + (rest + fma(r * r, _series(r), cell.rest("LOG", "LN2")))


def log2(x: Expr) -> Expr:
    """Logarithm to base 2; exact for powers of two."""
    high, low = format_of(x).table("LOG2_E")
    if x.dtype is F32:
        return _of_positive_single(
            x,
            lambda k, r: k + fma(r, high, fma(r * r, polynomial(r, SINGLE.table("LOG2"), cuts=0), r * low)),
        )

    def value(cell: Cell, r: Expr) -> Expr:
        head, head_rest = cell.binary()
        product, product_rest = two_product(r, r.like(high))
        tail = fma(product * r, _series(r), fma(r, low, product_rest))
        total, rest = fast_two_sum(head, product)
        return total + (rest + (tail + head_rest))

    return _of_positive_double(x, value)


def log10(x: Expr) -> Expr:
    """Logarithm to base 10."""
    f = format_of(x)
    high, low = f.table("LOG10_E")
    if f is SINGLE:
        step, step_rest = f.table("LOG10_2")

        def single(k: Expr, r: Expr) -> Expr:
            tail = fma(k, step_rest, r * low)
            return fma(k, step, fma(r, high, fma(r * r, polynomial(r, f.table("LOG10")), tail)))

        return _of_positive_single(x, single)

    def value(cell: Cell, r: Expr) -> Expr:
        product, product_rest = two_product(r, r.like(high))
        tail = fma(product * r, _series(r), fma(r, low, product_rest))
        total, rest = fast_two_sum(cell.head("LOG10", "LOG10_2"), product)
        return total + (rest + (tail + cell.rest("LOG10", "LOG10_2")))

    return _of_positive_double(x, value)


def _of_positive_single(x: Expr, value: Callable[[Expr, Expr], Expr]) -> Expr:
    """value(k, r) for x = 2**k * (1 + r); all but positive normal numbers get their logarithms behind a branch."""
    return where_rarely(_is_unusual(x), special_cases(x, value(*split_single(x))), value(*split_normal_single(x)))


def _of_positive_double(x: Expr, value: Callable[[Cell, Expr], Expr]) -> Expr:
    """The same of a cell and r."""
    lift = DOUBLE.fraction_bits + 2
    tiny = x < DOUBLE.smallest_normal
    lifted = split_by_cells(where(tiny, x * 2.0**lift, x), where(tiny, x.like(float(lift)), 0.0))
    return where_rarely(_is_unusual(x), special_cases(x, value(*lifted)), value(*split_by_cells(x)))


def _is_unusual(x: Expr) -> Expr:
    """Whether x is anything but a positive normal number."""
    f = format_of(x)
    smallest, infinity = 1 << f.fraction_bits, (2 * f.bias + 1) << f.fraction_bits
    half = 1 << (f.float_type.bits - 1)
    # One comparison of the bits, moved so that whatever lies outside, signs and NaN included, is at the upper end.
    return x.bitcast(f.integer_type) - (smallest - half) >= infinity - smallest - half


_LOWEST_CELL_BITS = bits_of(17.0 / 24.0, DOUBLE)
"""The cells are 2**49 numbers each; the fifth is that of 1, from 23/24 to 25/24. In all of them |r| is at most 1/16."""


@dataclass(frozen=True)
class Cell:
    """Where a float64 lies: 2**k times a number of the cell with the low bits of ``index``."""

    k: Expr
    index: Expr
    exponent: Expr
    """k times 2**52, as an integer."""

    @classmethod
    def of(cls, above: Expr, lift: Expr | None = None) -> Cell:
        """The cell of a number from its bits less those of the lowest cell; k is less by ``lift``."""
        k = integer_to_double(above >> DOUBLE.fraction_bits)
        exponent = above & (-1 << DOUBLE.fraction_bits)
        return cls(k if lift is None else k - lift, above >> (DOUBLE.fraction_bits - 3), exponent)

    @classmethod
    def of_number(cls, x: Expr) -> Cell:
        """The cell of a positive normal number."""
        return cls.of(x.bitcast(I64) - _LOWEST_CELL_BITS)

    @property
    def reciprocal(self) -> Expr:
        """The cell's c."""
        return pick(self.index, [n / 32.0 for n in CELL_RECIPROCALS_IN_32NDS])

    @property
    def scale(self) -> Expr:
        """c/2**k, for numbers below 2**1018."""
        return (self.reciprocal.bitcast(I64) - self.exponent).bitcast(F64)

    def logarithm_in_two_parts(self, r: Expr, r_rest: Expr) -> tuple[Expr, Expr]:
        """The natural logarithm of (1 + r + r_rest) * 2**k/c as an unevaluated sum."""
        total, rest = fast_two_sum(self.head("LOG", "LN2"), r)
        return total, rest + fma(r * r, _series(r), fma(-r_rest, r, r_rest) + self.rest("LOG", "LN2"))

    def head(self, base: str, step: str) -> Expr:
        """The first part of the logarithm of 2**k/c, exact; ``step`` is the logarithm of 2."""
        return fma(self.k, DOUBLE.table(step)[0], self._logarithm(base, "HEADS"))

    def rest(self, base: str, step: str) -> Expr:
        """What the first part lacks."""
        return fma(self.k, DOUBLE.table(step)[1], self._logarithm(base, "RESTS"))

    def binary(self) -> tuple[Expr, Expr]:
        """The two parts to base 2."""
        return self.k + self._logarithm("LOG2", "HEADS"), self._logarithm("LOG2", "RESTS")

    def _logarithm(self, base: str, part: str) -> Expr:
        return pick(self.index, DOUBLE.table(f"{base}_CELLS", part))


def split_by_cells(x: Expr, lift: Expr | None = None) -> tuple[Cell, Expr]:
    """A positive normal float64 x, or x * 2**-lift, as 2**k * (1 + r)/c: its cell, and r, which is exact."""
    bits = x.bitcast(I64)
    above = bits - _LOWEST_CELL_BITS
    cell = Cell.of(above, lift)
    return cell, fma((bits - cell.exponent).bitcast(F64), cell.reciprocal, -1.0)


def _series(r: Expr) -> Expr:
    """(log(1 + r) - r)/r**2 in float64, for |r| up to a sixteenth."""
    return polynomial(r, DOUBLE.table("LOG_CELL"), cuts=1)


def log1p(x: Expr) -> Expr:
    """log(1 + x), accurate near zero."""
    f = format_of(x)
    value = log1p_finite(x)
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
    k_bits = ((x + 1.0).bitcast(f.integer_type) - _SQRT_HALF_BITS) >> f.fraction_bits
    k = k_bits.cast(F32)
    scale = power_of_two(f.bias - k_bits, f)
    whole = scale - 1.0
    r = fma(x, scale, whole)
    rest = fma(x, scale, whole - r)
    rest = fma(-r, rest, rest)
    return fma(k, high, r + fma(r * r, polynomial(r, f.table("LOG")), fma(k, low, rest)))


def log1p_finite(x: Expr, x_rest: Expr | None = None) -> Expr:
    """log(1 + x + x_rest) for finite x > -1 that are not subnormal, and a rest far below x."""
    f = format_of(x)
    if f is DOUBLE:
        return _log1p_by_cells(x, x_rest)
    above, r, r_rest = _one_more(x, _SQRT_HALF_BITS, f)
    k = (above >> f.fraction_bits).cast(F32)
    high, low = f.table("LN2")
    total, rest = fast_two_sum(k * high, r)
    return total + (rest + fma(k, low, (r * r) * polynomial(r, f.table("LOG")) + r_rest * (1.0 - r)))


def _log1p_by_cells(x: Expr, x_rest: Expr | None) -> Expr:
    """The same in float64."""
    above, whole, whole_rest = _one_more(x, _LOWEST_CELL_BITS, DOUBLE, x_rest)
    cell = Cell.of(above)
    # (1 + whole)*c - 1, of which all but the product is exact.
    c = cell.reciprocal
    product, product_rest = two_product(whole, c)
    r = product + (c - 1.0)
    total, tail = cell.logarithm_in_two_parts(r, fma(whole_rest, c, product_rest))
    return total + tail


def _one_more(x: Expr, lowest_bits: int, f: Format, x_rest: Expr | None = None) -> tuple[Expr, Expr, Expr]:
    """The bits of 1 + x less ``lowest_bits``, of which those above the fraction are k; r and rest in
    1 + x + x_rest = 2**k * (1 + r + rest).

    k comes from the rounded 1 + x; r is x*2**-k + (2**-k - 1), rounded once and with its error.
    """
    above = (x + 1.0).bitcast(f.integer_type) - lowest_bits
    scale = power_of_two(
        (f.bias + 2) - (above >> f.fraction_bits), f
    )  # 4 * 2**-k, a normal number even at the largest k
    whole = fma(scale, 0.25, -1.0)
    quarter = x * 0.25
    r = fma(quarter, scale, whole)
    rest = fma(quarter, scale, whole - r)
    if x_rest is not None:
        rest = fma(x_rest * 0.25, scale, rest)
    return above, r, rest


def log_of_parts_single(x: Expr, rest: Expr, doublings: int = 0) -> Expr:
    """log((x + rest) * 2**doublings) in float32 for normal x < 2**127 and a rest of about half an ulp of x.

    Relative even to results near zero, where x is about 1, down to results of 2**-20 or so.
    """
    f = SINGLE
    high, low = f.table("LN2")
    bits = x.bitcast(f.integer_type)
    exponent = (bits - _SQRT_HALF_BITS) & (-1 << f.fraction_bits)
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


def integer_to_double(k: Expr) -> Expr:
    """A small 64-bit integer as a float64, by two additions, for lack of a conversion before AVX-512."""
    magic = 1.5 * 2.0**DOUBLE.fraction_bits
    return (k + bits_of(magic, DOUBLE)).bitcast(F64) - magic


ONE_BITS = 0x3F800000
"""The bits of 1 in float32."""
_SQRT_HALF_BITS = 0x3F3504F3
"""Those of sqrt(1/2)."""


def split_single(x: Expr) -> tuple[Expr, Expr]:
    """(k, r) with a float32 x = 2**k * (1 + r), r exact, for every positive finite x, subnormal ones too."""
    lift = SINGLE.fraction_bits + 2
    tiny = x < SINGLE.smallest_normal
    k, r = split_normal_single(where(tiny, x * 2.0**lift, x))
    return k - where(tiny, x.like(float(lift)), 0.0), r


def split_normal_single(x: Expr) -> tuple[Expr, Expr]:
    """The same for normal x."""
    bits = x.bitcast(I32)
    above = bits - _SQRT_HALF_BITS
    r = (bits - (above & (-1 << SINGLE.fraction_bits))).bitcast(F32) - 1.0
    return (above >> SINGLE.fraction_bits).cast(F32), r


def special_cases(x: Expr, value: Expr) -> Expr:
    """The logarithm's values at zero, below zero, at infinity and NaN."""
    value = where(x < math.inf, value, x)
    value = where(x < 0.0, math.nan, value)
    return where(x == 0.0, -math.inf, value)
