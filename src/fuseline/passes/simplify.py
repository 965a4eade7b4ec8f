"""Identities that keep every bit of the result, with the reason beside each (SEMANTICS.md P1).

What is not here is not forgotten: ``x*0``, ``x-x``, ``x/x``, ``x+0.0`` and the like change NaN, infinities or the sign
of zero. A rule may replace a value only by one of exactly its type.
"""

from __future__ import annotations

import math

from fuseline.ir.infer import apply
from fuseline.ir.node import Node, const, const_value
from fuseline.ops import OPERATIONS
from fuseline.passes.rewrite import Rule, Rules


def _number(node: Node) -> float | int | bool | None:
    """The Python value of a constant, exactly; None for anything else."""
    return const_value(node) if node.op == "const" else None


def _is(node: Node, value: float) -> bool:
    """Whether ``node`` is this number, +0 and -0 being different ones."""
    number = _number(node)
    return number is not None and number == value and math.copysign(1.0, number) == math.copysign(1.0, value)


def _kept(node: Node, operand: Node) -> Node | None:
    """``operand`` in place of ``node``, where it has the same dtype and shape."""
    return operand if operand.type == node.type else None


def multiply_by_one(node: Node) -> Node | None:
    """x*1 is x: the product is exact, with x's sign, infinity or NaN."""
    for one, other in (node.args, node.args[::-1]):
        if _is(one, 1.0) and node.dtype.kind != "bool":
            return _kept(node, other)
    return None


def subtract_zero(node: Node) -> Node | None:
    """x - 0.0 is x: exact, and -0 - 0 is -0. (0.0 - x is not -x at x = 0.)"""
    return _kept(node, node.args[0]) if _is(node.args[1], 0.0) else None


def add_negative_zero(node: Node) -> Node | None:
    """x + -0.0 is x: exact, and 0 + -0 is 0, -0 + -0 is -0. For integers zero has no sign."""
    zero = -0.0 if node.dtype.is_float else 0.0
    for number, other in (node.args, node.args[::-1]):
        if _is(number, zero) and node.dtype.kind != "bool":
            return _kept(node, other)
    return None


def divide_by_power_of_two(node: Node) -> Node | None:
    """x / 2**k is x * 2**-k where both powers are normal numbers: one real quotient, rounded once either way."""
    divisor = _number(node.args[1])
    if not isinstance(divisor, float) or node.args[1].dtype is not node.dtype or not math.isfinite(divisor):
        return None
    mantissa, exponent = math.frexp(divisor)
    least = node.dtype.least_exponent
    if abs(mantissa) != 0.5 or least is None or abs(exponent - 1) > -least:
        return None
    return apply("mul", node.args[0], const(1.0 / divisor, node.dtype))


def undo_twice(node: Node) -> Node | None:
    """--x is x and ~~x is x: both only flip bits."""
    inner = node.args[0]
    return _kept(node, inner.args[0]) if inner.op == node.op else None


def same_operands(node: Node) -> Node | None:
    """min(x, x), max(x, x), x & x and x | x are x; one NaN is as good as another."""
    return _kept(node, node.args[0]) if node.args[0] is node.args[1] else None


def repeated(node: Node) -> Node | None:
    """Rounding to a whole number, or taking a magnitude, a second time changes nothing."""
    inner = node.args[0]
    whole = ("floor", "ceil", "trunc", "rint", "round")
    if inner.op == node.op or (node.op in whole and inner.op in whole):
        return _kept(node, inner)
    return None


def magnitude_of_negation(node: Node) -> Node | None:
    """abs(-x) is abs(x): abs clears the sign bit that neg flips. Not for integers: abs(-INT_MIN) takes its own road."""
    inner = node.args[0]
    return apply("abs", inner.args[0]) if inner.op == "neg" and node.dtype.is_float else None


def choose_equal(node: Node) -> Node | None:
    """where(c, x, x) is x, and where(true, x, y) is x."""
    condition, a, b = node.args
    if a is b:
        return _kept(node, a)
    if condition.op == "const":
        return _kept(node, a if _number(condition) else b)
    return None


def square(node: Node) -> Node | None:
    """x**2 and square(x) are defined as x*x. (Other powers are not products.)"""
    if node.op == "pow":
        exponent = _number(node.args[1])
        if exponent is None or exponent != 2 or node.args[0].dtype is not node.dtype:
            return None
    base = node.args[0]
    return apply("mul", base, base) if base.dtype is node.dtype else None


def cast_to_own_dtype(node: Node) -> Node | None:
    """A cast to the dtype a value has already is the value; not of a 16-bit result, which it rounds (P2)."""
    inner = node.args[0]
    rounds = node.dtype.is_storage_float and inner.op not in ("input", "cast")
    return None if rounds else _kept(node, inner)


def integer_neutral(node: Node) -> Node | None:
    """x << 0, x >> 0, x | 0, x ^ 0 and x & -1 are x, for integers."""
    if not node.dtype.is_integer:
        return None
    neutral = (1 << node.dtype.bits) - 1 if node.dtype.kind == "uint" else -1
    wanted = neutral if node.op == "and" else 0
    pairs = [(node.args[1], node.args[0])]
    if OPERATIONS[node.op].commutative:
        pairs.append((node.args[0], node.args[1]))
    for number, other in pairs:
        if _number(number) == wanted and number.op == "const":
            return _kept(node, other)
    return None


_TABLE: dict[str, list[Rule]] = {
    "mul": [multiply_by_one],
    "sub": [subtract_zero],
    "add": [add_negative_zero],
    "div": [divide_by_power_of_two],
    "neg": [undo_twice],
    "invert": [undo_twice],
    "minimum": [same_operands],
    "maximum": [same_operands],
    "fmin": [same_operands],
    "fmax": [same_operands],
    "and": [same_operands, integer_neutral],
    "or": [same_operands, integer_neutral],
    "xor": [integer_neutral],
    "shl": [integer_neutral],
    "shr": [integer_neutral],
    "abs": [repeated, magnitude_of_negation],
    "floor": [repeated],
    "ceil": [repeated],
    "trunc": [repeated],
    "rint": [repeated],
    "round": [repeated],
    "where": [choose_equal],
    "pow": [square],
    "square": [square],
    "cast": [cast_to_own_dtype],
}

RULES: Rules = _TABLE
