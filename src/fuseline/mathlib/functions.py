"""The table of functions: operation name to the graph that computes it in float32 or float64."""

from __future__ import annotations

from collections.abc import Callable

from fuseline.ir.build import Expr
from fuseline.mathlib.activation import gelu_tanh, sigmoid, silu, softplus
from fuseline.mathlib.error_function import erf, erfc, gelu
from fuseline.mathlib.exponential import exp, exp2, expm1
from fuseline.mathlib.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from fuseline.mathlib.logaddexp import logaddexp
from fuseline.mathlib.logarithm import log, log1p, log2, log10
from fuseline.mathlib.power import cbrt, hypot, pow, rsqrt
from fuseline.mathlib.trigonometric import acos, asin, atan, atan2, cos, sin, tan

FUNCTIONS: dict[str, Callable[..., Expr]] = {
    f.__name__: f
    for f in (
        exp, exp2, expm1, log, log2, log10, log1p, tanh, sinh, cosh, asinh, acosh, atanh, erf,
        sigmoid, silu, softplus, gelu_tanh, gelu, erfc, logaddexp, rsqrt, cbrt, hypot, pow,
        sin, cos, tan, asin, acos, atan, atan2,
    )
}  # fmt: skip
"""Every transcendental operation by its name in `ops`."""
