"""Exact and correctly rounded operations that are a few primitives each.

Functions take expressions of the dtype the operation computes in (`infer.signature`) and keep `numerics`' meaning to
the bit, integers included.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fuseline.ir.build import Expr, call, where
from fuseline.ir.dtype import BOOL, I32, I64, DType
from fuseline.ir.node import const_array
from fuseline.mathlib.formats import where_rarely

Function = Callable[..., Expr]


def _false(x: Expr) -> Expr:
    return x != x


def _is_nan(x: Expr) -> Expr:
    return x != x


def _is_inf(x: Expr) -> Expr:
    return abs(x) == math.inf if x.dtype.is_float else _false(x)


def _is_finite(x: Expr) -> Expr:
    return abs(x) < math.inf if x.dtype.is_float else x == x


def _sign_bit(x: Expr) -> Expr:
    if x.dtype.is_float:
        return (x.bitcast(I32 if x.dtype.bits == 32 else I64) < 0) & (x == x)
    return x < 0 if x.dtype.kind == "int" else _false(x)


def _copysign(x: Expr, y: Expr) -> Expr:
    """A NaN counts as positive: its sign bit depends on the machine."""
    return where(y == y, call("with_sign", x, y), call("abs", x))


def _sign(x: Expr) -> Expr:
    if not x.dtype.is_float:
        negative = where(x < 0, -1, x.like(0)) if x.dtype.kind == "int" else x.like(0)
        return where(x > 0, 1, negative)
    return where(x > 0.0, 1.0, where(x < 0.0, -1.0, where(x == 0.0, 0.0, x)))


def _square(x: Expr) -> Expr:
    return x * x


def _reciprocal(x: Expr) -> Expr:
    if x.dtype.is_float:
        return 1.0 / x
    # NumPy divides 1 by zero in floating point and converts the infinity.
    at_zero = _infinity_as_integer(x.dtype)
    units = where(x == 1, 1, where(x == -1, -1, x.like(0))) if x.dtype.kind == "int" else where(x == 1, 1, x.like(0))
    return where(x == 0, at_zero, units)


def _infinity_as_integer(d: DType) -> int:
    return -(2 ** (d.bits - 1)) if d.kind == "int" and d.bits >= 32 else 0


def _round(x: Expr) -> Expr:
    return call("rint", x) if x.dtype.is_float else x


def _fmin(a: Expr, b: Expr) -> Expr:
    return _number_wins("minimum", a, b)


def _fmax(a: Expr, b: Expr) -> Expr:
    return _number_wins("maximum", a, b)


def _number_wins(op: str, a: Expr, b: Expr) -> Expr:
    picked = call(op, a, b)
    return where(a != a, b, where(b != b, a, picked)) if a.dtype.is_float else picked


def _clip(x: Expr, low: Expr, high: Expr) -> Expr:
    return call("minimum", call("maximum", x, low), high)


def _relu(x: Expr) -> Expr:
    return call("maximum", x, x.like(0))


# ── logic ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _truth(x: Expr) -> Expr:
    return x if x.dtype is BOOL else x != 0


def _logical(op: str) -> Function:
    def function(*operands: Expr) -> Expr:
        return call(op, *map(_truth, operands))

    return function


# ── division and powers ──────────────────────────────────────────────────────────────────────────────────────────────


def _mod(a: Expr, b: Expr) -> Expr:
    r = call("fmod", a, b)
    if a.dtype.kind == "uint":
        return r
    if a.dtype.is_float:
        adjusted = where((b < 0.0) == (r < 0.0), r, r + b)
        return where(r == 0.0, call("with_sign", r, b), adjusted)
    return where((r != 0) & ((r ^ b) < 0), r + b, r)


def _floordiv(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_float:
        return _floordiv_float(a, b)
    q = call("quotient", a, b)
    if a.dtype.kind == "uint":
        return q
    r = call("fmod", a, b)
    return where((r != 0) & ((r ^ b) < 0), q - 1, q)


def _floordiv_float(a: Expr, b: Expr) -> Expr:
    """NumPy's: the exact quotient less the remainder, snapped to the nearest integer (so that 1.0 // 0.1 is 9)."""
    r = call("fmod", a, b)
    quotient = (a - r) / b
    differs = (r != 0.0) & ((b < 0.0) != (r < 0.0))
    quotient = where(differs, quotient - 1.0, quotient)
    floor = call("floor", quotient)
    snapped = where(quotient - floor > 0.5, floor + 1.0, floor)
    whole = where(quotient == 0.0, call("with_sign", quotient.like(0.0), a / b), snapped)
    return where(b == 0.0, a / b, whole)


_USUAL_EXPONENT_BITS = 6


def _integer_power(a: Expr, b: Expr) -> Expr:
    """Square and multiply over every bit an exponent can have; a negative one gives the truncated reciprocal.

    Exponents that are no constants seldom have more than a few bits.
    """
    signed = a.dtype.kind == "int"
    bits = a.dtype.bits - signed
    usual = min(bits, _USUAL_EXPONENT_BITS)
    if b.node.op == "const":
        usual = bits = max(int(const_array(b.node)), 0).bit_length()
    positive, power = _squared_and_multiplied(where(b == b, 1, a) if bits == 0 else None, a, b, range(usual))
    if usual < bits:
        further, _ = _squared_and_multiplied(positive, power * power, b, range(usual, bits))
        positive = where_rarely((b >> usual) != 0, further, positive)
    if not signed:
        return positive
    odd = where((b & 1) == 1, -1, a.like(1))
    reciprocal = where(a == 1, 1, where(a == -1, odd, a.like(0)))
    return where(b < 0, reciprocal, positive)


def _squared_and_multiplied(result: Expr | None, power: Expr, b: Expr, bits: range) -> tuple[Expr, Expr]:
    """``result`` times the powers that these bits of ``b`` ask for, and the last; ``power`` is the first of them."""
    for i in bits:
        if i > bits.start:
            power = power * power
        factor = where((b & (1 << i)) != 0, power, 1)
        result = factor if result is None else result * factor
    assert result is not None
    return result, power


COMPOSITES: dict[str, Function] = {
    "isnan": _is_nan,
    "isinf": _is_inf,
    "isfinite": _is_finite,
    "signbit": _sign_bit,
    "copysign": _copysign,
    "sign": _sign,
    "square": _square,
    "reciprocal": _reciprocal,
    "round": _round,
    "fmin": _fmin,
    "fmax": _fmax,
    "clip": _clip,
    "relu": _relu,
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "logical_not": _logical("invert"),
    "mod": _mod,
    "floordiv": _floordiv,
    "pow": _integer_power,
}
"""Operation name to its expansion."""
