"""Arithmetic among the numbers of a program, before they meet an array.

Floats are IEEE doubles (division by zero gives an infinity); integers are exact within a limit; the result is rounded
once, to the dtype of the array it finally meets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuseline.errors import LiteralError, TypeRuleError, named_number, shown_number
from fuseline.ir import decimals
from fuseline.ir.dtype import BOOL, F32, F64, I64, DType
from fuseline.ir.node import Node, Number, const
from fuseline.ops import OPERATIONS

MAX_INTEGER_BITS = 4096

_EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg, "abs": operator.abs,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "shl": operator.lshift,
    "shr": operator.rshift, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "invert": operator.invert,
    "lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge,
    "minimum": min, "maximum": max, "floor": int, "ceil": int, "trunc": int, "round": int, "square": lambda a: a * a,
    "fmin": min, "fmax": max, "relu": lambda a: max(a, 0), "sign": lambda a: (a > 0) - (a < 0),
    "reciprocal": lambda a: int(1 / a),
    "clip": lambda a, low, high: min(max(a, low), high), "fmod": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
}  # fmt: skip


def evaluate_literals(op: str, values: Sequence[Number]) -> Number:
    """``op`` on Python numbers; `LiteralError` where there is no value, `TypeRuleError` where there is no such loop."""
    if op == "where":
        chosen = values[1] if values[0] else values[2]
        widest = max(map(type, values[1:]), key=(bool, int, float).index)
        return _as_double(chosen) if widest is float else int(chosen) if widest is int else chosen
    exact = _EXACT.get(op)
    if exact is not None and all(isinstance(v, int) for v in values):
        return _exactly(op, exact, values)
    row = OPERATIONS[op]
    if row.meaning is None or row.index_rule != "elementwise":
        raise TypeRuleError(f"{op} of a number: it takes an array")
    if row.type_rule in ("bitwise", "shift"):
        shown = f"{op} ({row.infix})" if row.infix else op
        raise TypeRuleError(f"{shown} takes integers, not {' and '.join(map(shown_number, values))}")
    doubles = [_as_double(v) for v in values]
    if row.exactness == "measured" and not (op == "pow" and doubles[1] == 2):
        rounded = decimals.evaluate(op, doubles)
        if rounded is not None:
            return rounded
    with np.errstate(all="ignore"):
        result = row.meaning(*map(np.asarray, doubles))
    return bool(result) if np.asarray(result).dtype == np.bool_ else float(result)


def _exactly(op: str, exact: Callable[..., Any], values: Sequence[Any]) -> Number:
    boolean = all(isinstance(v, bool) for v in values)
    if boolean and op in ("sub", "neg", "sign", "relu"):
        raise TypeRuleError(f"{op} does not accept bool; use ^ or ~")
    if op == "invert" and boolean:
        return not values[0]
    if op in ("floordiv", "mod", "fmod") and values[1] == 0:
        raise LiteralError(f"integer division by zero: {shown_number(values[0])} {OPERATIONS[op].infix} 0")
    if op == "reciprocal" and values[0] == 0:
        raise LiteralError("integer division by zero: the reciprocal of 0")
    if op == "pow" and values[1] < 0:
        return evaluate_literals("pow", [float(values[0]), float(values[1])])
    if op in ("shl", "shr") and values[1] < 0:
        raise LiteralError(f"negative shift count: {shown_number(values[1])}")
    result = exact(*values) if _least_bits(op, values) <= MAX_INTEGER_BITS else None
    if result is None or result.bit_length() > MAX_INTEGER_BITS:
        raise LiteralError(f"an integer of more than {MAX_INTEGER_BITS} bits; write it as a float")
    return bool(result) if boolean and op in _KEEP_BOOL else result


_KEEP_BOOL = frozenset({"add", "mul", "floor", "ceil", "trunc", "minimum", "maximum", "fmin", "fmax"})


def _least_bits(op: str, values: Sequence[int]) -> int:
    """How many bits the result has at least: what may be large is not computed to learn that it is."""
    bits = abs(values[0]).bit_length()
    if op == "pow":
        return (bits - 1) * values[1] + 1 if bits > 1 else bits
    return bits + values[1] if op == "shl" and bits else 0


def _as_double(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def default_dtype(value: Number) -> DType:
    """The dtype of a number that meets no array: NumPy's defaults."""
    return BOOL if isinstance(value, bool) else I64 if isinstance(value, int) else F64


def meeting_dtype(value: Number, arrays: DType | None) -> DType:
    """The dtype a number takes beside arrays whose common dtype is ``arrays`` (NEP 50)."""
    default = default_dtype(value)
    if arrays is None or default is BOOL:
        return default
    if isinstance(value, float):
        return arrays if arrays.is_float else F64
    return I64 if arrays is BOOL else arrays


def number_const(value: Number, d: DType, advice: str = "cast the array to a wider dtype") -> Node:
    """``value`` as a constant of dtype ``d``; `LiteralError`, with advice, for an integer outside an integer dtype's
    range."""
    if d.is_integer and not in_range(value, d):
        low, high = limits(d)
        raise LiteralError(f"{named_number(value)} does not fit {d} ({low} … {high}); {advice}")
    if d.is_float and isinstance(value, int):
        value = _as_double(_round_integer(value, 24) if d.computed is F32 else value)
    return const(value, d)


def _round_integer(value: int, precision: int) -> int:
    """The nearest integer of ``precision`` significant bits, the even one of two: rounded here, it is rounded once."""
    shift = abs(value).bit_length() - precision
    if shift <= 0:
        return value
    quotient, rest = divmod(value, 1 << shift)  # towards minus infinity, so the rest is never negative
    half = 1 << (shift - 1)
    return (quotient + (rest > half or (rest == half and quotient % 2 == 1))) << shift


def limits(d: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype."""
    info = np.iinfo(d.numpy)
    return int(info.min), int(info.max)


def in_range(value: Number, d: DType) -> bool:
    """Whether an integer dtype holds ``value``."""
    low, high = limits(d)
    return low <= value <= high
