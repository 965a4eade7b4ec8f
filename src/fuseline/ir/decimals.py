"""Functions of numbers that stand in a program, correctly rounded to double.

They are evaluated in decimal arithmetic, of forty digits and where these do not settle the rounding of eight hundred,
so that ``exp(0.1)`` is the same number on every machine whatever its mathematical library. NaN, infinities and poles
are left to the table's own definition, which is exact there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, InvalidOperation, localcontext
from fractions import Fraction
from types import MappingProxyType

from fuseline.numerics import GELU_CUBIC, SQRT_2_OVER_PI

DIGITS, MORE_DIGITS = 40, 800
_SMALL = Decimal("0.1")
_HUGE_EXPONENT = Decimal(100_000)  # e to this is far beyond every double, and quick to say


def evaluate(op: str, operands: list[float]) -> float | None:
    """The function's value, correctly rounded; None where it is not a finite number given by the formula here."""
    function = _FUNCTIONS.get(op)
    if function is None or not all(map(math.isfinite, operands)):
        return None
    try:
        value, settled = _rounded(function, operands, DIGITS)
        if not settled:
            value, _ = _rounded(function, operands, MORE_DIGITS)
    except (InvalidOperation, DivisionByZero):
        return None
    return value or None  # the sign of a zero is the table's as well


def _rounded(function: Callable[..., Decimal], operands: list[float], digits: int) -> tuple[float, bool]:
    """The value rounded to double, and whether an error in the last few digits would not change it (Ziv 1991)."""
    with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation, DivisionByZero])):
        value = function(*map(Decimal, operands))
        slack = abs(value).scaleb(8 - digits) if value.is_finite() else Decimal(0)
        return float(value), float(value - slack) == float(value + slack)


# ── elementary functions in the current precision ────────────────────────────────────────────────────────────────────


def _pi() -> Decimal:
    """Gauss and Legendre's iteration, which doubles the digits at each step."""
    a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), Decimal(1)
    for _ in range(math.ceil(math.log2(_precision())) + 1):
        middle = (a + b) / 2
        b, t, a, p = (a * b).sqrt(), t - p * (a - middle) ** 2, middle, 2 * p
    return (a + b) ** 2 / (4 * t)


def _precision() -> int:
    with localcontext() as context:
        return context.prec


def _series(term: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """term + term*ratio(1) + term*ratio(1)*ratio(2) + …, until nothing changes."""
    total, n = term, 0
    while True:
        n += 1
        term *= ratio(n)
        previous, total = total, total + term
        if total == previous:
            return total


def _exp(x: Decimal) -> Decimal:
    return max(-_HUGE_EXPONENT, min(_HUGE_EXPONENT, x)).exp()


def _expm1(x: Decimal) -> Decimal:
    return _series(x, lambda n: x / (n + 1)) if abs(x) < _SMALL else _exp(x) - 1


def _log1p(x: Decimal) -> Decimal:
    if abs(x) >= _SMALL:
        return (1 + x).ln()
    z = x / (2 + x)
    powers = z * z
    return 2 * _series(z, lambda n: powers * (2 * n - 1) / (2 * n + 1))


def _sine_and_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    with localcontext() as context:
        context.prec += max(0, x.adjusted()) + 10
        turn = 2 * _pi()
        x = x - turn * (x / turn).to_integral_value()
        square = -x * x
        sine = _series(x, lambda n: square / (2 * n * (2 * n + 1))) if x else x
        cosine = _series(Decimal(1), lambda n: square / (2 * n * (2 * n - 1)))
    return sine, cosine


def _tan(x: Decimal) -> Decimal:
    sine, cosine = _sine_and_cosine(x)
    return sine / cosine


def _atan(x: Decimal) -> Decimal:
    halvings = 4
    for _ in range(halvings):
        x = x / (1 + (1 + x * x).sqrt())
    square = -x * x
    return 2**halvings * _series(x, lambda n: square * (2 * n - 1) / (2 * n + 1)) if x else x


def _atan2(y: Decimal, x: Decimal) -> Decimal:
    if x == 0:
        return (_pi() / 2).copy_sign(y)
    if y == 0:
        raise InvalidOperation  # 0 or pi, by the signs of the zeros
    return _atan(y / x) if x > 0 else _atan(y / x) + _pi().copy_sign(y)


def _asin(x: Decimal) -> Decimal:
    return _atan(x / ((1 - x) * (1 + x)).sqrt()) if abs(x) != 1 else _pi() / 2 * x


def _acos(x: Decimal) -> Decimal:
    return 2 * _atan(((1 - x) / (1 + x)).sqrt()) if x != -1 else _pi()


def _sinh(x: Decimal) -> Decimal:
    grown = _expm1(abs(x))
    return ((grown + grown / (grown + 1)) / 2).copy_sign(x)


def _tanh(x: Decimal) -> Decimal:
    grown = _expm1(2 * x)
    return grown / (grown + 2)


def _asinh(x: Decimal) -> Decimal:
    size, square = abs(x), x * x
    return _log1p(size + square / (1 + (1 + square).sqrt())).copy_sign(x)


def _acosh(x: Decimal) -> Decimal:
    if x < 1:
        raise InvalidOperation
    above = x - 1
    return _log1p(above + (2 * above + above * above).sqrt())


def _atanh(x: Decimal) -> Decimal:
    return _log1p(2 * x / (1 - x)) / 2


def _erf(x: Decimal) -> Decimal:
    if abs(x) > 30:
        return Decimal(1).copy_sign(x)
    square = x * x
    return 2 * _exp(-square) / _pi().sqrt() * _series(x, lambda n: 2 * square / (2 * n + 1))


def _erfc(x: Decimal) -> Decimal:
    if x > 30:
        return _exp(-x * x)  # its size is right, and far below every double
    with localcontext() as context:
        context.prec += int(x * x) // 2 + 10 if x > 0 else 0
        return 1 - _erf(x)


def _sigmoid(x: Decimal) -> Decimal:
    return 1 / (1 + _exp(-x))


def _gelu_tanh(x: Decimal) -> Decimal:
    inner = Decimal(SQRT_2_OVER_PI) * (x + Decimal(GELU_CUBIC) * x * x * x)
    return x * _sigmoid(2 * inner)


def _logaddexp(x: Decimal, y: Decimal) -> Decimal:
    return max(x, y) + _log1p(_exp(-abs(x - y)))


def _pow(x: Decimal, y: Decimal) -> Decimal:
    whole = int(y) if y == y.to_integral_value() else None
    if x == 0 or (x < 0 and whole is None):
        raise InvalidOperation
    if whole is not None and abs(whole) <= 64:
        exact = Fraction(x) ** whole
        try:
            return Decimal(exact.numerator / exact.denominator)  # the division of integers rounds once
        except OverflowError:
            return Decimal("Infinity").copy_sign(-1 if exact < 0 else 1)
    size = _exp(y * abs(x).ln())
    return -size if x < 0 and whole is not None and whole % 2 else size


_FUNCTIONS: Mapping[str, Callable[..., Decimal]] = MappingProxyType(
    {
        "rsqrt": lambda x: 1 / x.sqrt(),
        "cbrt": lambda x: _exp(abs(x).ln() / 3).copy_sign(x),
        "exp": _exp,
        "exp2": lambda x: _exp(x * Decimal(2).ln()),
        "expm1": _expm1,
        "log": lambda x: x.ln(),
        "log2": lambda x: x.ln() / Decimal(2).ln(),
        "log10": lambda x: x.log10(),
        "log1p": _log1p,
        "sin": lambda x: _sine_and_cosine(x)[0],
        "cos": lambda x: _sine_and_cosine(x)[1],
        "tan": _tan,
        "asin": _asin,
        "acos": _acos,
        "atan": _atan,
        "sinh": _sinh,
        "cosh": lambda x: (_exp(x) + _exp(-x)) / 2,
        "tanh": _tanh,
        "asinh": _asinh,
        "acosh": _acosh,
        "atanh": _atanh,
        "erf": _erf,
        "erfc": _erfc,
        "sigmoid": _sigmoid,
        "softplus": lambda x: _logaddexp(x, Decimal(0)),
        "silu": lambda x: x * _sigmoid(x),
        "gelu": lambda x: x / 2 * _erfc(-x / Decimal(2).sqrt()),
        "gelu_tanh": _gelu_tanh,
        "hypot": lambda x, y: (x * x + y * y).sqrt(),
        "atan2": _atan2,
        "logaddexp": _logaddexp,
        "pow": _pow,
    }
)
"""Every operation of the table that is not exact or correctly rounded by itself."""
