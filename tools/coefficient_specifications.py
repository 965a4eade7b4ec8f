"""What `generate_coefficients.py` fits: one row a polynomial, one row a constant that is kept in parts.

Suffixes: `_F32` and `_F64` are evaluated in their own format; `_WIDE` are short polynomials of a float32 function that
is evaluated in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp

Real = mp.mpf
Function = Callable[[Real], Real]


@dataclass(frozen=True)
class Fit:
    """One polynomial p with the largest ``weight * (p - function)`` as small as possible on ``interval``."""

    name: str
    doc: str
    function: Function
    weight: Function
    weight_text: str
    interval: tuple[object, object]
    degree: int
    bits: int
    singular_at_zero: bool = True
    leading_bits: tuple[int, ...] = ()

    def precision_of(self, power: int) -> int:
        """Significant bits of the coefficient of this power."""
        return self.leading_bits[power] if power < len(self.leading_bits) else self.bits


@dataclass(frozen=True)
class Constant:
    """A real number as an unevaluated sum of floats with the given significant bits."""

    name: str
    doc: str
    value: Callable[[], Real]
    bits: tuple[int, ...]


def in_square(function: Function) -> Function:
    """A function of x as one of u = x*x, for even quotients such as tanh(x)/x."""
    return lambda u: function(mp.sqrt(u))


def tail(r: Real) -> Real:
    """The exponential series from its quadratic term on, over r**2."""
    return (mp.expm1(r) - r) / r**2


def base2(r: Real) -> Real:
    """The slope of 2**r from zero."""
    return (mp.mpf(2) ** r - 1) / r


def series(z: Real) -> Real:
    """2*atanh(s) after its first term, in z = s*s."""
    return (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) * 2 / z


def root(t: Real) -> Real:
    """sqrt(erfc(1 + t))."""
    return mp.sqrt(mp.erfc(t + 1))


def exponential_fits() -> list[Fit]:
    """(exp(r) - 1 - r)/r**2 and its kin after reduction by multiples of log 2."""
    half = "0.3475"
    rows = []
    for suffix, degree, bits in (("F32", 4, 24), ("F64", 9, 53), ("WIDE", 5, 53)):
        rows.append(
            Fit(f"EXP_{suffix}", "(exp(r) - 1 - r)/r**2", tail, lambda r: r**2 / mp.exp(r), "r**2/exp(r)",
                ("-" + half, half), degree, bits)
        )  # fmt: skip
    for suffix, degree, bits in (("F32", 5, 24), ("F64", 10, 53)):
        rows.append(
            Fit(f"EXPM1_{suffix}", "(exp(r) - 1 - r)/r**2", tail, lambda r: r**2 / mp.expm1(r), "r**2/expm1(r)",
                ("-0.2895", "0.4070"), degree, bits)
        )  # fmt: skip
    for suffix, degree, bits in (("F32", 5, 24), ("F64", 10, 53)):
        rows.append(
            Fit(f"EXP2_{suffix}", "(2**r - 1)/r", base2, lambda r: r / mp.mpf(2) ** r, "r/2**r",
                ("-0.5002", "0.5002"), degree, bits)
        )  # fmt: skip
    return rows


def logarithm_fits() -> list[Fit]:
    """log(1 + f) after its leading terms, with 1 + f in [sqrt(1/2), sqrt(2)]."""
    rows = [
        Fit("LOG_F32", "(log(1 + f) - f + f*f/2)/f**3", lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
            lambda f: f**3 / mp.log1p(f), "f**3/log1p(f)", ("-0.2930", "0.4145"), 8, 24)
    ]  # fmt: skip
    for suffix, degree in (("F64", 6), ("WIDE", 3)):
        rows.append(
            Fit(
                f"LOG_{suffix}",
                "(2*atanh(s) - 2*s)/s**3 in z = s*s",
                series,
                lambda z: z,
                "z",
                (0, "0.02950"),
                degree,
                53,
            )
        )
    return rows


def hyperbolic_fits() -> list[Fit]:
    """tanh near zero."""
    g = in_square(lambda x: (mp.tanh(x) / x - 1) / x**2)
    w = in_square(lambda x: x**3 / mp.tanh(x))
    odd = in_square(lambda x: (mp.sinh(x) / x - 1) / x**2)
    odd_weight = in_square(lambda x: x**3 / mp.sinh(x))
    return [
        Fit("SINH_F64", "(sinh(x) - x)/x**3 in u = x*x", odd, odd_weight, "x**3/sinh(x)", (0, "1.0001"), 7, 53),
        *(Fit(f"TANH_{s}", "(tanh(x) - x)/x**3 in u = x*x", g, w, "x**3/tanh(x)", (0, "1.0001"), degree, bits)
        for s, degree, bits in (("F32", 7, 24), ("F64", 16, 53))),
    ]  # fmt: skip


def error_function_fits() -> list[Fit]:
    """erf near zero, and its complement beyond one."""
    near = in_square(lambda x: mp.erf(x) / x - 1)
    weight = in_square(lambda x: x / mp.erf(x))
    rows = [
        Fit(f"ERF_{s}", "erf(x)/x - 1 in u = x*x", near, weight, "x/erf(x)", (0, "1.0"), degree, bits)
        for s, degree, bits in (("F32", 7, 24),)
    ]
    rows.append(
        Fit("ERF_TAIL_F32", "sqrt(erfc(x)) in t = x - 1", root, lambda t: 2 * root(t), "2*sqrt(erfc(x))",
            ("-1e-4", "2.9255"), 11, 24, singular_at_zero=False)
    )  # fmt: skip
    return rows


FITS = [*exponential_fits(), *logarithm_fits(), *hyperbolic_fits(), *error_function_fits()]

CONSTANTS = [
    # The first part times an exponent must be exact, hence its few bits.
    Constant("LN2_F32", "log(2)", lambda: mp.log(2), (15, 24)),
    Constant("LN2_F64", "log(2)", lambda: mp.log(2), (42, 53)),
    Constant("LN2_WIDE", "log(2)", lambda: mp.log(2), (42, 53)),
    Constant("LOG2_E_F32", "log2(e)", lambda: 1 / mp.log(2), (24, 24)),
    Constant("LOG2_E_F64", "log2(e)", lambda: 1 / mp.log(2), (53, 53)),
    Constant("LOG10_E_F32", "log10(e)", lambda: 1 / mp.log(10), (24, 24)),
    Constant("LOG10_E_F64", "log10(e)", lambda: 1 / mp.log(10), (53, 53)),
    Constant("LOG10_2_F32", "log10(2)", lambda: mp.log(2) / mp.log(10), (15, 24)),
    Constant("LOG10_2_F64", "log10(2)", lambda: mp.log(2) / mp.log(10), (42, 53)),
    Constant("GELU_LINEAR_F64", "2*sqrt(2/pi)", lambda: 2 * mp.sqrt(2 / mp.pi), (53, 53)),
    Constant("GELU_CUBIC_F64", "2*sqrt(2/pi)*0.044715", lambda: 2 * mp.sqrt(2 / mp.pi) * mp.mpf("0.044715"), (53, 53)),
    Constant("LN2_HALF_F32", "log(2)/2", lambda: mp.log(2) / 2, (24,)),
    Constant("LN2_HALF_F64", "log(2)/2", lambda: mp.log(2) / 2, (53,)),
]
