"""Operations that NumPy and the C library spell as several calls, rewritten into those calls.

These texts are baselines: they follow their library's rounding and special values, not the exact ones of `mathlib`.
"""

from __future__ import annotations

import math

from fuseline.ir.build import Expr, call, where
from fuseline.ir.node import Node
from fuseline.numerics import GELU_CUBIC, SQRT_2_OVER_PI
from fuseline.passes.rewrite import Rule


def _sigmoid(x: Expr) -> Expr:
    return 1.0 / (1.0 + call("exp", -x))


def _gelu_tanh(x: Expr) -> Expr:
    inner = SQRT_2_OVER_PI * (x + GELU_CUBIC * (x * x * x))
    return 0.5 * x * (1.0 + call("tanh", inner))


def _unary(node: Node) -> Expr:
    """The operand, converted to the dtype the operation computes in."""
    return Expr(node.args[0]).cast(node.dtype)


def _expanded(node: Node) -> Node | None:
    x = _unary(node)
    match node.op:
        case "sigmoid":
            result = _sigmoid(x)
        case "silu":
            result = x / (1.0 + call("exp", -x))
        case "softplus":
            result = call("logaddexp", x, x.like(0.0))
        case "gelu":
            result = 0.5 * x * (1.0 + call("erf", x * math.sqrt(0.5)))
        case "gelu_tanh":
            result = _gelu_tanh(x)
        case "rsqrt":
            result = 1.0 / call("sqrt", x)
        case "relu":
            result = call("maximum", x, x.like(0))
        case _:
            return None
    return result.node if result.node.type == node.type else None


def _multi(node: Node) -> Node | None:
    a, b, c = (Expr(arg).cast(node.dtype) for arg in node.args)
    if node.op == "clip":
        result = call("minimum", call("maximum", a, b), c)
    else:
        result = a * b + c
    return result.node if result.node.type == node.type else None


def _logaddexp_of_c(node: Node) -> Node | None:
    """softplus and logaddexp by exp and log1p: the C library has neither."""
    a = Expr(node.args[0]).cast(node.dtype)
    if node.op == "softplus":
        result = call("maximum", a, a.like(0.0)) + call("log1p", call("exp", -abs(a)))
    else:
        b = Expr(node.args[1]).cast(node.dtype)
        apart = call("maximum", a, b) + call("log1p", call("exp", -abs(a - b)))
        result = where(a == b, a + math.log(2.0), apart)  # equal infinities have no difference
    return result.node if result.node.type == node.type else None


_UNARY = ("sigmoid", "silu", "softplus", "gelu", "gelu_tanh", "rsqrt", "relu")
RULES: dict[str, list[Rule]] = {**{op: [_expanded] for op in _UNARY}, "clip": [_multi], "fma": [_multi]}
C_RULES: dict[str, list[Rule]] = {**RULES, "softplus": [_logaddexp_of_c], "logaddexp": [_logaddexp_of_c]}
