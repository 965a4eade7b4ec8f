"""What `generate_coefficients.py` fits: one row a polynomial, one row a constant that is kept in parts.

Suffixes: `_F32` and `_F64` are evaluated in their own format; `_WIDE` are short polynomials of a float32 function that
is evaluated in float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
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


@dataclass(frozen=True)
class Pieces:
    """A function by a polynomial for each cell between ``edges``.

    In cell i, f(x) is about head[i] + t*p_i(t) with t = x - node[i]. Each node is a float near the one that is asked
    for at which f is almost a float, the head. Where the first node is 0, f(0) is 0 and its slope near one: there f is
    about t + t*p_0(t).
    """

    name: str
    doc: str
    function: Function
    edges: tuple[str, ...]
    nodes: tuple[str, ...]
    degree: int
    bits: int
    long_terms: int | None = None
    """Coefficients of higher powers have `UPPER_HALF_BITS`, if it matters little: their lower half is not looked up."""
    searched: float = 0.0
    """The part of a cell to either side in which nodes are tried, at least neighbouring floats."""

    def fit(self, cell: int, node: Real) -> Fit:
        """The polynomial of one cell, under the weight that makes errors relative to f."""
        f, low, high = self.function, mp.mpf(self.edges[cell]) - node, mp.mpf(self.edges[cell + 1]) - node
        head = f(node)

        def slope(t: Real) -> Real:
            return (f(node + t) - head) / t - (node == 0)

        doc = f"(f(node + t) - f(node))/t, node {mp.nstr(node, 6)}," if node else "(f(t) - t)/t"
        bits, leading = self.bits, ()
        if self.long_terms is not None:
            bits, leading = UPPER_HALF_BITS, (self.bits,) * self.long_terms
        return Fit(f"{self.name}[{cell}]", doc, slope, lambda t: t / f(node + t), "t/function",
                   (low, high), self.degree, bits, leading_bits=leading)  # fmt: skip


@dataclass(frozen=True)
class Reciprocals:
    """Floats c[k] near 1/(1 + k/last) for k from 0 to ``last``, of which -log(c[k]) is almost a float too.

    log(1 + e) is log(1 + t) - log(c[k]) with t = c[k]*e - (1 - c[k]). For e within half a step of k/last both terms are
    within a factor of two of each other, so that their difference is exact (Sterbenz 1974).
    """

    name: str
    last: int
    bits: int

    def fits(self, k: int, c: Real) -> bool:
        """Whether the difference is exact in cell ``k``."""
        least, most = (c * (k + half) / self.last for half in (mp.mpf(-0.5), mp.mpf(0.5)))
        return most / 2 <= 1 - c <= least * 2


CELL_RECIPROCALS_IN_32NDS = (44, 40, 36, 34, 32, 29, 26, 24)
ATANH_RECIPROCALS_IN_64THS = (64, 56, 52, 47, 44, 40, 37, 34)


@dataclass(frozen=True)
class Cells:
    """Logarithms of cells of the numbers around 1: -log(c) for the reciprocals c = n/denominator, in two parts.

    The reciprocals are near those of the cells' middles, and have so few bits that a number times its cell's, less 1,
    is exact. The first part of the logarithm has ``first_bits``: it must be exact together with an exponent times the
    first part of log(2), and in float64 it has no lower half that would have to be looked up.
    """

    name: str
    doc: str
    scale: Callable[[], Real]
    """What the natural logarithm is divided by."""
    first_bits: int
    bits: int
    numerators: tuple[int, ...] = CELL_RECIPROCALS_IN_32NDS
    denominator: int = 32


UPPER_HALF_BITS = 21
"""Significant bits of a float64 whose lower half is zero."""

ERFC_CENTER = "3.8798828125"
"""Chosen among its neighbours because the function there, the constant coefficient, is almost a float64."""


def in_square(function: Function) -> Function:
    """A function of x as one of u = x*x, for even quotients such as tanh(x)/x."""
    return lambda u: function(mp.sqrt(u))


def tail(r: Real) -> Real:
    """The exponential series from its quadratic term on, over r**2."""
    return (mp.expm1(r) - r) / r**2


def cubic_tail(r: Real) -> Real:
    """The exponential series from its cubic term on, over r**3."""
    return (mp.expm1(r) - r - r * r / 2) / r**3


def doubled_quartic_tail(r: Real) -> Real:
    """Twice the exponential series from its quartic term on, over r**4."""
    return 2 * (mp.expm1(r) - r - r * r / 2 - r**3 / 6) / r**4


def base2(r: Real) -> Real:
    """The slope of 2**r from zero."""
    return (mp.mpf(2) ** r - 1) / r


def mean_slope(u: Real) -> Real:
    """log1p(x)/x at x = u + 3/8."""
    x = u + mp.mpf(3) / 8
    return mp.log1p(x) / x if x else mp.mpf(1)


def complement_over_exponential(y: Real) -> Real:
    """exp(y*y)*erfc(y)."""
    return mp.exp(y * y) * mp.erfc(y)


def gate_over_exponential(x: Real) -> Real:
    """2*x*Phi(-x)*exp(x*x/2), the normal distribution's tail times x, for gelu."""
    return x * complement_over_exponential(x / mp.sqrt(2))


def cells_in_the_square(factor: str, offset: str, limit: str) -> tuple[str, ...]:
    """Edges of eight cells of x, between which x*x*factor + offset doubles."""
    inner = [mp.sqrt((2**i - mp.mpf(offset)) / mp.mpf(factor)) for i in range(1, 8)]
    return ("0", *(mp.nstr(x, 8) for x in inner), limit)


def cells_of_parabola(slope: float, bend: float, limit: str, first: float = 0.5) -> tuple[str, ...]:
    """Edges of the cells of x in which slope*x - bend*x*x is nearest to one integer; the first ends at ``first``."""
    a, b = mp.mpf(bend), mp.mpf(slope)
    count = int(mp.floor(b * mp.mpf(limit) - a * mp.mpf(limit) ** 2 - first))
    inner = [(b - mp.sqrt(b * b - 4 * a * (k + mp.mpf(first)))) / (2 * a) for k in range(count + 1)]
    return ("0", *(mp.nstr(x, 12) for x in inner), limit)


def cells_of_two_a_binade(factor: str, offset: str, limit: str) -> tuple[str, ...]:
    """Edges of eight cells of x, between which x*factor + offset passes 1.5, 2, 3, 4, 6, 8 and 12."""
    inner = [(mp.mpf(passed) - mp.mpf(offset)) / mp.mpf(factor) for passed in ("1.5", 2, 3, 4, 6, 8, 12)]
    return ("0", *(mp.nstr(x, 8) for x in inner), limit)


def scaled_complement(center: Real) -> Function:
    """exp(y*y)*erfc(y)*(1 + 2*y) in v = (y - center)/(y + center)."""

    def function(v: Real) -> Real:
        y = center * (1 + v) / (1 - v)
        return complement_over_exponential(y) * (1 + 2 * y)

    return function


def exponential_fits() -> list[Fit]:
    """(exp(r) - 1 - r)/r**2 and its kin after reduction by multiples of log 2."""
    half = "0.3475"
    rows = []
    for suffix, degree, bits in (("F32", 4, 24), ("F64", 9, 53), ("WIDE", 5, 53)):
        rows.append(
            Fit(f"EXP_{suffix}", "(exp(r) - 1 - r)/r**2", tail, lambda r: r**2 / mp.exp(r), "r**2/exp(r)",
                ("-" + half, half), degree, bits)
        )  # fmt: skip
    rows.append(
        Fit("EXP_QUARTER_F32", "(exp(r) - 1 - r)/r**2", tail, lambda r: r**2 / mp.exp(r), "r**2/exp(r)",
            ("-0.0870", "0.0870"), 2, 24)
    )  # fmt: skip
    rows.append(
        Fit("EXP_SIXTEENTH_F32", "(exp(r) - 1 - r)/r**2", tail, lambda r: r**2 / mp.exp(r), "r**2/exp(r)",
            ("-0.0217", "0.0217"), 2, 24)
    )  # fmt: skip
    rows.append(
        Fit("EXP_POWER_F32", "(exp(r) - 1 - r)/r**2", tail, lambda r: r**2 / mp.exp(r), "r**2/exp(r)",
            ("-0.1650", "0.1650"), 3, 24)
    )  # fmt: skip
    rows.append(
        Fit("EXP2_QUARTER_F32", "(2**(r/4) - 1)/r", lambda r: base2(r / 4) / 4, lambda r: r / mp.mpf(2) ** (r / 4),
            "r/2**(r/4)", ("-0.5002", "0.5002"), 3, 24)
    )  # fmt: skip
    for suffix, degree, bits in (("F32", 4, 24), ("F64", 9, 53)):
        rows.append(
            Fit(f"EXPM1_{suffix}", "(exp(r) - 1 - r - r*r/2)/r**3", cubic_tail, lambda r: r**3 / mp.expm1(r),
                "r**3/expm1(r)", ("-0.2895", "0.4070"), degree, bits)
        )  # fmt: skip
    rows.append(
        Fit("EXP_QUARTIC_F64", "2*(exp(r) - 1 - r - r**2/2 - r**3/6)/r**4", doubled_quartic_tail,
            lambda r: r**4 / mp.exp(r), "r**4/exp(r)", ("-" + half, half), 8, 53)
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
        Fit(f"{name}_F32", f"({written}(1 + f) - f*{written}(e))/f**2",
            lambda f, base=base: (mp.log1p(f) - f) / f**2 / base(), lambda f, base=base: f**2 / mp.log1p(f) * base(),
            f"f**2/{written}(1 + f)", ("-0.2930", "0.4145"), 8, 24)
        for name, written, base in (
            ("LOG", "log", lambda: mp.mpf(1)),
            ("LOG2", "log2", lambda: mp.log(2)),
            ("LOG10", "log10", lambda: mp.log(10)),
        )
    ]  # fmt: skip
    rows.append(
        Fit("LOG_CUBIC_F32", "(log(1 + f) - f + f*f/2)/f**3", lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
            lambda f: f**3 / mp.log1p(f), "f**3/log(1 + f)", ("-0.2930", "0.4145"), 7, 24)
    )  # fmt: skip
    rows.append(
        Fit("LOG_NEAR_ONE_F32", "(log(1 + t) - t + t*t/2)/t**3", lambda t: (mp.log1p(t) - t + t * t / 2) / t**3,
            lambda t: t**3, "t**3", ("-0.0345", "0.0345"), 3, 24)
    )  # fmt: skip
    rows.append(Fit("LOG1P_F32", "log1p(x)/x - 15/16 in u = x - 3/8", lambda u: mean_slope(u) - mp.mpf(15) / 16,
                    lambda u: 1 / mean_slope(u), "x/log1p(x)", ("-0.375", "0.625"), 10, 24,
                    singular_at_zero=False))  # fmt: skip
    rows.append(Fit("LOG_NEAR_F64", "(atanh(s)/s - 1 - s*s/3)/s**4 in z = s*s",
                    in_square(lambda s: (mp.atanh(s) / s - 1 - s * s / 3) / s**4), lambda z: z * z, "z*z",
                    (0, "0.01340"), 5, 53))  # fmt: skip
    rows.append(
        Fit("LOG_CELL_F64", "(log(1 + r) - r)/r**2", lambda r: (mp.log1p(r) - r) / r**2,
            lambda r: r**2 / mp.log1p(r), "r**2/log(1 + r)", ("-0.06251", "0.06251"), 9, 53)
    )  # fmt: skip
    rows.append(
        Fit("LOG_QUARTIC_F64", "((log(1 + r) - r + r*r/2)/r**3 - 1/3)/r",
            lambda r: ((mp.log1p(r) - r + r * r / 2) / r**3 - mp.mpf(1) / 3) / r,
            lambda r: r**4 / mp.log1p(r), "r**4/log(1 + r)", ("-0.06251", "0.06251"), 9, 53)
    )  # fmt: skip
    return rows


def hyperbolic_fits() -> list[Fit]:
    """sinh, cosh, tanh and atanh near zero."""
    odd = in_square(lambda x: (mp.sinh(x) / x - 1) / x**2)
    odd_weight = in_square(lambda x: x**3 / mp.sinh(x))
    even = in_square(lambda r: (mp.cosh(r) - 1) / r**2)
    octave = (0, mp.mpf("0.3475") ** 2)
    return [
        *(
            fit
            for suffix, degree, bits in (("F32", 2, 24), ("F64", 5, 53))
            for fit in (
                Fit(f"SINH_{suffix}", "(sinh(r) - r)/r**3 in u = r*r", odd, odd_weight, "r**3/sinh(r)", octave,
                    degree, bits),
                Fit(f"COSH_{suffix}", "(cosh(r) - 1)/r**2 in u = r*r", even, in_square(lambda r: r**2 * mp.exp(r)),
                    "r**2*exp(r)", octave, degree, bits),
            )
        ),
        Fit("ATANH_F32", "(atanh(b) - b)/b**3 in u = b*b", in_square(lambda b: (mp.atanh(b) / b - 1) / b**2),
            in_square(lambda b: b**3 / mp.atanh(b)), "b**3/atanh(b)", (0, mp.mpf("0.2452") ** 2), 2, 24),
        Fit("ATANH_F64", "(atanh(b) - b)/b**3 in u = b*b", in_square(lambda b: (mp.atanh(b) / b - 1) / b**2),
            in_square(lambda b: b**3 / mp.atanh(b)), "b**3/atanh(b)", (0, mp.mpf("0.0506") ** 2), 4, 53),
    ]  # fmt: skip


def power_fits() -> list[Fit]:
    """What a guess g of y**(-1/3) lacks, in e = 1 - y*g**3; the logarithm of pow after its leading terms."""

    def lacking(e: Real) -> Real:
        return (mp.cbrt(1 / (1 - e)) - 1) / e

    return [
        Fit("CBRT_F32", "((1 - e)**(-1/3) - 1)/e", lacking, lambda e: e, "e", ("-0.1055", "0.1055"), 2, 24),
        Fit("LOG_CELL_F32", "(log(1 + f) - f + f*f/2)/f**3", lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
            lambda f: f**3 / mp.log1p(f), "f**3/log(1 + f)", ("-0.0600", "0.0670"), 4, 24),
    ]  # fmt: skip


def error_function_fits() -> list[Fit]:
    """erf near zero, and its complement beyond one."""
    near = in_square(lambda x: mp.erf(x) / x - 1)
    weight = in_square(lambda x: x / mp.erf(x))
    rows = [Fit("ERF_F64", "erf(x)/x - 1 in u = x*x", near, weight, "x/erf(x)", (0, "0.8475"), 12, 53)]
    mapped = [(mp.mpf(y) - mp.mpf(ERFC_CENTER)) / (mp.mpf(y) + mp.mpf(ERFC_CENTER)) for y in ("0.25", "27.3")]
    function = scaled_complement(mp.mpf(ERFC_CENTER))
    written = f"exp(y*y)*erfc(y)*(1 + 2*y) in v = (y - {ERFC_CENTER})/(y + {ERFC_CENTER})"
    rows.append(
        Fit("ERFC_F64", written, function, lambda v: 1 / function(v), "1/function", (mapped[0], mapped[1]), 22, 53,
            singular_at_zero=False)
    )  # fmt: skip
    return rows


def trigonometric_fits() -> list[Fit]:
    """Sine, cosine and tangent on an eighth of a turn, inverse sine below 1/2, inverse tangent below tan(pi/8) and 1.

    float32 sines and cosines are fitted on a sixteenth of half a turn. The intervals of float32 allow for parts of
    turns that are counted with a rounded factor.
    """
    sixteenth = mp.mpf("0.1968") ** 2
    eighth = {"F32": mp.mpf("0.808") ** 2, "F64": (mp.pi / 4) ** 2 * mp.mpf("1.001")}
    sine = in_square(lambda r: (mp.sin(r) / r - 1) / r**2)
    cosine = in_square(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4)
    arcsine = in_square(lambda x: (mp.asin(x) / x - 1) / x**2)
    tangent = in_square(lambda r: (mp.tan(r) / r - 1) / r**2)
    arctangent = in_square(lambda x: (mp.atan(x) / x - 1) / x**2)
    rows = [
        Fit("COSINE_F32", "(cos(r) - 1)/r**2 in u = r*r", in_square(lambda r: (mp.cos(r) - 1) / r**2),
            in_square(lambda r: r**2 / mp.cos(r)), "r**2/cos(r)", (0, sixteenth), 1, 24),
        Fit("COS_F64", "(cos(r) - 1 + r*r/2)/r**4 in u = r*r", cosine, in_square(lambda r: r**4 / mp.cos(r)),
            "r**4/cos(r)", (0, eighth["F64"]), 5, 53),
    ]  # fmt: skip
    for suffix, degrees, bits in (("F32", (1, 4), 24), ("F64", (5, 12), 53)):
        rows += [
            Fit(f"SIN_{suffix}", "(sin(r) - r)/r**3 in u = r*r", sine, in_square(lambda r: r**3 / mp.sin(r)),
                "r**3/sin(r)", (0, sixteenth if suffix == "F32" else eighth[suffix]), degrees[0], bits),
            Fit(f"ASIN_{suffix}", "(asin(x) - x)/x**3 in u = x*x", arcsine, in_square(lambda x: x**3 / mp.asin(x)),
                "x**3/asin(x)", (0, "0.25"), degrees[1], bits),
        ]  # fmt: skip
    rows += [
        Fit("TAN_F32", "(tan(r) - r)/r**3 in u = r*r", tangent, in_square(lambda r: r**3 / mp.tan(r)), "r**3/tan(r)",
            (0, eighth["F32"]), 6, 24),
        Fit("ATAN_OCTANT_F32", "(atan(x) - x)/x**3 in u = x*x", arctangent, in_square(lambda x: x**3 / mp.atan(x)),
            "x**3/atan(x)", (0, "1.00001"), 8, 24),
    ]  # fmt: skip
    for suffix, degree in (("WIDE", 5), ("F64", 10)):
        rows.append(
            Fit(f"ATAN_{suffix}", "(atan(x) - x)/x**3 in u = x*x", arctangent, in_square(lambda x: x**3 / mp.atan(x)),
                "x**3/atan(x)", (0, "0.17165"), degree, 53)
        )  # fmt: skip
    return rows


def middles(edges: Sequence[str]) -> tuple[str, ...]:
    """The middles of neighbouring edges."""
    return tuple(mp.nstr((mp.mpf(a) + mp.mpf(b)) / 2, 12) for a, b in itertools.pairwise(edges))


ERF_EDGES = cells_of_parabola(1.874, 0.1031, "5.93")


def piecewise_fits() -> list[Pieces]:
    """tanh on cells that double, erf on cells of equal width after the first, what remains of erfc and gelu without
    their exponential on cells of the square that double; edges follow from their indices.

    atan(z) and pi/2 - atan(z) = atan(1/z) share cells, and are one table.
    """
    edges = ("0", "0.16667", "0.33334", "0.66667", "1.00001")
    return [
        Pieces("ATAN_F32", "f(t) = atan(t)", mp.atan, edges, ("0", "0.25", "0.5", "0.83"), 5, 24),
        Pieces("ATAN_TURNED_F32", "f(t) = pi/2 - atan(t)", lambda t: mp.pi / 2 - mp.atan(t), edges,
               ("0.083", "0.25", "0.5", "0.83"), 5, 24),
        Pieces("TANH_F32", "f(t) = tanh(t)", mp.tanh,
               ("0", "0.30038", "0.60075", "1.2015", "1.8022", "3.0037", "4.2052", "6.6082", "9.0112"),
               ("0", "0.45", "0.9", "1.5", "2.5", "3.6", "5.66", "8.318"), 6, 24),
        Pieces("ERF_F32", "f(t) = erf(t)", mp.erf, ("0", "0.6797", "1.7672", "2.8547", "3.9401"),
               ("0", "1.2235", "2.311", "3.397"), 7, 24),
        Pieces("ERF_F64", "f(t) = erf(t)", mp.erf, ERF_EDGES, ("0", *middles(ERF_EDGES[1:])), 14, 53, long_terms=11,
               searched=0.01),
        Pieces("ERFC_F32", "f(y) = exp(y*y)*erfc(y)", complement_over_exponential,
               cells_in_the_square("2.49", "1.5", "10.1"),
               ("0.12", "0.7", "1.28", "1.98", "2.93", "4.15", "5.85", "8.15"), 6, 24),
        Pieces("GELU_F32", "f(x) = 2*x*Phi(-x)*exp(x*x/2)", gate_over_exponential,
               cells_of_two_a_binade("1.02", "1.2", "14.5"),
               ("0", "0.46", "1.24", "2.2", "4.05", "6.1", "9.9", "13.75"), 7, 24),
    ]  # fmt: skip


PIECES = piecewise_fits()
CELLS = [
    Cells("LOG_CELLS_F32", "log", lambda: mp.mpf(1), 13, 24),
    Cells("LOG_CELLS_F64", "log", lambda: mp.mpf(1), 21, 53),
    Cells("LOG2_CELLS_F64", "log2", lambda: mp.log(2), 21, 53),
    Cells("LOG10_CELLS_F64", "log10", lambda: mp.log(10), 21, 53),
    Cells("ATANH_CELLS_F64", "half of log", lambda: mp.mpf(2), 21, 53, ATANH_RECIPROCALS_IN_64THS, 64),
]
RECIPROCALS = [Reciprocals("FIFTEENTHS_F32", 15, 24)]
FITS = [
    *exponential_fits(), *logarithm_fits(), *hyperbolic_fits(), *power_fits(), *error_function_fits(),
    *trigonometric_fits(),
]  # fmt: skip

CONSTANTS = [
    # The first part times an exponent must be exact, hence its few bits.
    Constant("LN2_F32", "log(2)", lambda: mp.log(2), (15, 24)),
    Constant("LN2_F64", "log(2)", lambda: mp.log(2), (42, 53)),
    Constant("LN2_THREE_F64", "log(2)", lambda: mp.log(2), (42, 53, 53)),
    Constant("LOG2_E_F32", "log2(e)", lambda: 1 / mp.log(2), (24, 24)),
    Constant("LOG2_E_F64", "log2(e)", lambda: 1 / mp.log(2), (53, 53)),
    Constant("LOG10_E_F32", "log10(e)", lambda: 1 / mp.log(10), (24, 24)),
    Constant("LOG10_E_F64", "log10(e)", lambda: 1 / mp.log(10), (53, 53)),
    Constant("LOG10_2_F32", "log10(2)", lambda: mp.log(2) / mp.log(10), (15, 24)),
    Constant("LOG10_2_F64", "log10(2)", lambda: mp.log(2) / mp.log(10), (42, 53)),
    Constant("LOG_UPPER_F64", "log1p(75/128)", lambda: mp.log1p(mp.mpf(75) / 128), (53, 53)),
    Constant("ERFC_CENTER_F64", "where erfc's variable is zero", lambda: mp.mpf(ERFC_CENTER), (53,)),
    Constant("SQRT_HALF_F64", "sqrt(1/2)", lambda: mp.sqrt(mp.mpf(1) / 2), (53, 53)),
    Constant("THIRD_F64", "1/3", lambda: mp.mpf(1) / 3, (53, 53)),
    Constant("PI_HALF_F32", "pi/2", lambda: mp.pi / 2, (24, 24)),
    Constant("PI_HALF_F64", "pi/2", lambda: mp.pi / 2, (53, 53)),
    # A count of quarter turns times the second part must be exact.
    Constant("PI_HALF_THREE_F32", "pi/2", lambda: mp.pi / 2, (24, 11, 24)),
    Constant("PI_HALF_THREE_F64", "pi/2", lambda: mp.pi / 2, (53, 53, 53)),
    # A count of eighths times the second part must be exact; it is positive, so that negative zeros stay so.
    Constant("PI_EIGHTH_THREE_F32", "pi/8", lambda: mp.pi / 8, (23, 9, 24)),
    *(
        Constant(f"SIN_{k}_EIGHTHS_F32", f"sin({k}*pi/8)", lambda k=k: mp.sin(k * mp.pi / 8), (24, 24))
        for k in range(1, 4)
    ),
    # A product with a square has to fit in beside the linear factor, hence its few bits.
    Constant("GELU_LINEAR_F32", "8*sqrt(2/pi)*log2(e)", lambda: 8 * mp.sqrt(2 / mp.pi) / mp.log(2), (16, 24)),
    Constant(
        "GELU_CUBIC_F32",
        "8*sqrt(2/pi)*log2(e)*0.044715",
        lambda: 8 * mp.sqrt(2 / mp.pi) / mp.log(2) * mp.mpf("0.044715"),
        (24, 24),
    ),
    Constant("GELU_LINEAR_F64", "2*sqrt(2/pi)", lambda: 2 * mp.sqrt(2 / mp.pi), (53, 53)),
    Constant("GELU_CUBIC_F64", "2*sqrt(2/pi)*0.044715", lambda: 2 * mp.sqrt(2 / mp.pi) * mp.mpf("0.044715"), (53, 53)),
    *(
        Constant(f"TWO_TO_{k}_QUARTERS_F32", f"2**({k}/4)", lambda k=k: mp.mpf(2) ** (mp.mpf(k) / 4), (20, 24))
        for k in range(1, 4)
    ),
    *(
        Constant(f"TWO_TO_{k}_SIXTEENTHS_F32", f"2**({k}/16)", lambda k=k: mp.mpf(2) ** (mp.mpf(k) / 16), (24, 24))
        for k in range(1, 16)
    ),
]
