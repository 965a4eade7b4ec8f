"""What a function needs to know of the float format it is evaluated in, and the few idioms that all families share.

A function is written once over a `Format`; float32 and float64 differ in constants, and in the length of polynomials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fuseline.ir.build import Expr, call, fma, where
from fuseline.ir.dtype import F32, F64, I32, I64, DType
from fuseline.mathlib import coefficients


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float format: ``fraction_bits`` stored bits of significand, and its dtypes."""

    suffix: str
    float_type: DType
    integer_type: DType
    fraction_bits: int

    def table(self, name: str, part: str = "") -> tuple[float, ...]:
        """The generated polynomial or split constant called ``name`` for this format, or a ``part`` of a table."""
        values: tuple[float, ...] = getattr(coefficients, f"{name}_{self.suffix}{part and '_' + part}")
        return values

    @property
    def bias(self) -> int:
        """What is added to an exponent to store it."""
        assert self.float_type.least_exponent is not None
        return 1 - self.float_type.least_exponent

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0 ** (1 - self.bias)


SINGLE = Format("F32", F32, I32, 23)
DOUBLE = Format("F64", F64, I64, 52)
WIDE = Format("WIDE", F64, I64, 52)
"""float64 arithmetic with polynomials only good enough for a float32 result."""


def format_of(x: Expr) -> Format:
    """The format of an expression's own dtype."""
    return SINGLE if x.dtype is F32 else DOUBLE


def at_least(x: Expr, low: float) -> Expr:
    """The larger of ``x`` and a constant; NaN stays. One instruction, where `maximum` has to order zeros."""
    return where(x < low, low, x)


def at_most(x: Expr, high: float) -> Expr:
    """The smaller of ``x`` and a constant; NaN stays NaN."""
    return where(x > high, high, x)


def is_within(bits: Expr, low: int, high: int) -> Expr:
    """Whether an integer is from ``low`` on and below ``high``: one comparison, because low moves to the lower end."""
    half = 1 << (bits.dtype.bits - 1)
    return bits - (low - half) < high - low - half


def bits_of(value: float, f: Format = SINGLE) -> int:
    """The bits of a positive number of the format."""
    return int(np.array(value, f.float_type.numpy).view(f.integer_type.numpy))


def with_sign_of(magnitude: Expr, x: Expr) -> Expr:
    """``magnitude``, which has no sign yet, with that of ``x``: an operation less than `copysign`. NaN stays NaN."""
    f = format_of(x)
    sign = x.bitcast(f.integer_type) & (-1 << (x.dtype.bits - 1))
    return (magnitude.bitcast(f.integer_type) | sign).bitcast(x.dtype)


def where_rarely(condition: Expr, rare: Expr, common: Expr) -> Expr:
    """`where` with a mark: few elements take ``rare``, so what only it needs may be skipped where none does."""
    return call("where", condition, rare, common, rare=True)


def round_to_integer(x: Expr, factor: float, f: Format, low_bits: int = 0) -> tuple[Expr, Expr]:
    """``x * factor`` rounded to an integer below 2**20 in magnitude: the integer as a float, and bits that contain it.

    Adding 1.5 * 2**fraction_bits leaves the integer in the low bits of the sum; ``low_bits`` are added to them.
    """
    magic = 1.5 * 2.0**f.fraction_bits + low_bits
    shifted = fma(x, factor, magic)
    return shifted - magic, shifted.bitcast(f.integer_type)


def power_of_two(biased_exponent: Expr, f: Format) -> Expr:
    """2**(e - bias) from the low bits e of an integer; higher bits are shifted out."""
    return (biased_exponent << f.fraction_bits).bitcast(f.float_type)


def lowered(value: Expr, bits: int) -> Expr:
    """value / 2**bits for positive values that are normal, subnormal results rounded by integers.

    A product that is subnormal, or zero because it is too small, takes some processors a hundred cycles.
    """
    f = format_of(value)
    one = 2.0**f.fraction_bits
    smallest_is_one = 2.0 ** (f.bias - 1 + f.fraction_bits - bits)
    counted = fma(value, smallest_is_one, one).bitcast(f.integer_type) - bits_of(one, f)
    normal = value.bitcast(f.integer_type) - (bits << f.fraction_bits)
    return where(value < f.smallest_normal * 2.0**bits, counted, normal).bitcast(f.float_type)


def lowered_where_deep(value: Expr, bits: int, deep: Expr) -> Expr:
    """value / 2**bits; ``deep`` says where the result may be subnormal."""
    result = with_sign_of(lowered(abs(value), bits), value)
    return where_rarely(deep, result, where(deep, 0.0, value) * 2.0**-bits)


def fast_two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b and its rounding error, exact where a is zero or not smaller than b (Dekker 1971)."""
    s = a + b
    return s, b - (s - a)


def two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b and its rounding error, whatever their order (Knuth)."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


def two_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a * b and its rounding error."""
    p = a * b
    return p, fma(a, b, -p)


def halved_reciprocal(x: Expr) -> Expr:
    """1/(2x) for positive normal x, exact at powers of two and at most 12.5 % too large between them.

    Times the error of a square root's square it is that of the root, near enough.
    """
    return (0x7E800000 - x.bitcast(SINGLE.integer_type)).bitcast(SINGLE.float_type)


_ROUGH_RECIPROCAL = 0x7FDE624DD2F1A9FC
"""Less the bits of a float64 x, the bits of 1/x within 5.1 %: a tenth of the fraction below twice those of 1."""


def rough_reciprocal(x: Expr) -> Expr:
    """1/x in float64 within 0.26 %, for x from 2**-1022 to 2**1021; finite for zero too.

    What a quotient or a root lacks may be divided so: it is half a last place, and divisions take longest of all.
    """
    y = (_ROUGH_RECIPROCAL - x.bitcast(DOUBLE.integer_type)).bitcast(DOUBLE.float_type)
    return fma(y, fma(-x, y, 1.0), y)


def polynomial(x: Expr, coefficients: Sequence[float | Expr], *, small: bool = True, cuts: int | None = None) -> Expr:
    """The polynomial by fused multiply-adds, constant term first.

    Horner's scheme where it is short. A long one waits for each step, and a loop body that waits fills the processor's
    queues: it is cut into pieces of two or four terms that are independent of each other (Estrin). In float64 the
    constant term stays for a last step of its own, which halves the rounding error if the argument is ``small``.
    ``cuts`` asks for pieces of 2**cuts terms whatever the length.
    """
    if cuts is None:
        cuts = 0 if len(coefficients) < 7 else 1 if len(coefficients) < 20 else 2
    if cuts and small and x.dtype is F64:
        return fma(_in_pieces(x, coefficients[1:], cuts), x, coefficients[0])
    return _in_pieces(x, coefficients, cuts)


def polynomial_with_last_steps(x: Expr, coefficients: Sequence[float | Expr]) -> Expr:
    """The same, but the last two steps are Horner's: a small ``x`` then makes most of the rounding small."""
    low, next_one, *others = coefficients
    return fma(fma(_in_pieces(x, others, 1), x, next_one), x, low)


def _in_pieces(x: Expr, coefficients: Sequence[float | Expr], cuts: int) -> Expr:
    """Horner's scheme on pieces of 2**cuts terms."""
    terms: list[Expr | float] = list(coefficients)
    step = x
    for _ in range(cuts):
        terms = [_pair(step, *terms[i : i + 2]) for i in range(0, len(terms), 2)]
        step = step * step
    last = terms[-1]
    result = last if isinstance(last, Expr) else x.like(last)
    for term in reversed(terms[:-1]):
        result = fma(result, step, term)
    return result


def _pair(x: Expr, low: Expr | float, high: Expr | float | None = None) -> Expr | float:
    if high is None:
        return low
    return fma(x, high, low) if not isinstance(high, Expr) else fma(high, x, low)
