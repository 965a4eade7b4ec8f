"""The twelve programs: each as a formula, and once more as a plain function that NumPy and the peers evaluate.

The function takes a namespace first, so that the same text is the float64 reference, NumPy's own row, and what JAX,
torch and the expression printers are given. Inputs are seeded; n is the number of elements of the largest operand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Inputs = dict[str, Array]
Function = Callable[..., tuple[Any, ...]]

COLUMNS = 4096
"""Length of a row where a program has vectors that are repeated over rows."""
SQRT_HALF = 0.7071067811865476


@dataclass(frozen=True)
class Program:
    """One row family of the table."""

    name: str
    title: str
    formula: str
    inputs: Callable[[int], Inputs]
    function: Function
    transcendental: bool
    scale: float = 1.0
    """Errors are judged against ``tolerance * (|result| + scale)``."""
    tolerance: float = 1e-5
    result_dtypes: tuple[str, ...] = ("float32",)


def _rows(n: int) -> tuple[int, int]:
    columns = min(n, COLUMNS)
    return n // columns, columns


def _generator(n: int) -> np.random.Generator:
    return np.random.default_rng(n)


def _normal(g: np.random.Generator, *shape: int, factor: float = 1.0) -> Array:
    values = g.standard_normal(shape, dtype=np.float32)
    return values if factor == 1.0 else values * np.float32(factor)


def _uniform(g: np.random.Generator, low: float, high: float, *shape: int) -> Array:
    return g.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)


# ── bias + GELU + residual ───────────────────────────────────────────────────────────────────────────────────────────


def _bias_gelu_inputs(n: int) -> Inputs:
    g, (rows, columns) = _generator(n), _rows(n)
    return {"x": _normal(g, rows, columns), "b": _normal(g, columns), "r": _normal(g, rows, columns)}


def _bias_gelu(m: Any, x: Any, b: Any, r: Any) -> tuple[Any, ...]:
    h = x + b
    return (0.5 * h * (1 + m.tanh(0.7978845608 * (h + 0.044715 * h * h * h))) + r,)


# ── one operand ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _one(n: int) -> Inputs:
    return {"x": _normal(_generator(n), n)}


def _gelu(m: Any, x: Any) -> tuple[Any, ...]:
    return (0.5 * x * (1 + m.erf(SQRT_HALF * x)),)


def _polynomial(m: Any, x: Any) -> tuple[Any, ...]:
    y = 0.1 * x + 0.2
    for c in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        y = y * x + c
    return (y,)


def _polynomial_inputs(n: int) -> Inputs:
    return {"x": _uniform(_generator(n), -1.0, 1.0, n)}


# ── gates, residuals ─────────────────────────────────────────────────────────────────────────────────────────────────


def _gate_inputs(n: int) -> Inputs:
    g = _generator(n)
    return {"x": _normal(g, n), "g": _normal(g, n)}


def _silu_gate(m: Any, x: Any, g: Any) -> tuple[Any, ...]:
    return (x * m.sigmoid(x) * g,)


def _residual_inputs(n: int) -> Inputs:
    g, (rows, columns) = _generator(n), _rows(n)
    return {
        "r": _normal(g, rows, columns),
        "x": _normal(g, rows, columns),
        "s": _normal(g, columns),
        "b": _normal(g, columns),
    }


def _residual(m: Any, r: Any, x: Any, s: Any, b: Any) -> tuple[Any, ...]:
    return (r + x * s + b,)


def _logaddexp_inputs(n: int) -> Inputs:
    g = _generator(n)
    return {"a": _normal(g, n, factor=5.0), "b": _normal(g, n, factor=5.0)}


def _logaddexp(m: Any, a: Any, b: Any) -> tuple[Any, ...]:
    return (m.logaddexp(a, b),)


# ── Adam ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _adam_inputs(n: int) -> Inputs:
    g = _generator(n)
    return {
        "p": _normal(g, n),
        "g": _normal(g, n),
        "m": _normal(g, n, factor=0.1),
        "v": _uniform(g, 1e-4, 1.0, n),
    }


def _adam(m_: Any, p: Any, g: Any, m: Any, v: Any) -> tuple[Any, ...]:
    first = 0.9 * m + 0.1 * g
    second = 0.999 * v + 0.001 * (g * g)
    return p - 0.001 * (first * 1.25) / (m_.sqrt(second * 20.0) + 1e-8), first, second


# ── Black–Scholes ────────────────────────────────────────────────────────────────────────────────────────────────────


def _options(n: int) -> Inputs:
    g = _generator(n)
    return {"s": _uniform(g, 50, 150, n), "k": _uniform(g, 50, 150, n), "t": _uniform(g, 0.1, 2.0, n)}


def _black_scholes(m: Any, s: Any, k: Any, t: Any) -> tuple[Any, ...]:
    deviation = 0.2 * m.sqrt(t)
    d1 = (m.log(s / k) + 0.07 * t) / deviation
    d2 = d1 - deviation
    n1 = 0.5 + 0.5 * m.erf(SQRT_HALF * d1)
    n2 = 0.5 + 0.5 * m.erf(SQRT_HALF * d2)
    discounted = k * m.exp(-0.05 * t)
    return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)


# ── haversine ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _places(n: int) -> Inputs:
    g = _generator(n)
    spans = {"lat1": 1.5, "lon1": 3.1, "lat2": 1.5, "lon2": 3.1}
    return {name: _uniform(g, -span, span, n) for name, span in spans.items()}


def _haversine(m: Any, lat1: Any, lon1: Any, lat2: Any, lon2: Any) -> tuple[Any, ...]:
    u, v = m.sin(0.5 * (lat2 - lat1)), m.sin(0.5 * (lon2 - lon1))
    return (12742.0 * m.arcsin(m.sqrt(u * u + m.cos(lat1) * m.cos(lat2) * (v * v))),)


# ── int8, rotary, z-score ────────────────────────────────────────────────────────────────────────────────────────────


def _quantised(n: int) -> Inputs:
    g, (rows, columns) = _generator(n), _rows(n)
    return {"q": g.integers(-127, 128, (rows, columns), np.int8), "s": _uniform(g, 0.01, 0.1, rows, 1)}


def _dequantise(m: Any, q: Any, s: Any) -> tuple[Any, ...]:
    return (m.bf16(q * s),)


_ROTARY_SHAPES = {1: (1, 1, 1), 1000: (4, 5, 50)}
_HALF_HEAD = 64


def _rotary_inputs(n: int) -> Inputs:
    g = _generator(n)
    heads = min(32, max(1, n // (64 * _HALF_HEAD)))
    shape = _ROTARY_SHAPES.get(n, (heads, n // (heads * _HALF_HEAD), _HALF_HEAD))
    angle = _uniform(g, -3.1, 3.1, *shape[1:])
    return {"x": _normal(g, *shape), "y": _normal(g, *shape), "c": np.cos(angle), "s": np.sin(angle)}


def _rotary(m: Any, x: Any, y: Any, c: Any, s: Any) -> tuple[Any, ...]:
    return x * c - y * s, y * c + x * s


def _scores(n: int) -> Inputs:
    g = _generator(n)
    x = _normal(g, n, factor=3.0)
    x[g.random(n) < 0.01] = np.nan
    return {"x": x, "mu": np.array(0.25, np.float32), "sd": np.array(1.75, np.float32)}


def _zscore(m: Any, x: Any, mu: Any, sd: Any) -> tuple[Any, ...]:
    z = (x - mu) / sd
    return (m.where(m.isnan(z), 0.0, m.clip(z, -3.0, 3.0)),)


PROGRAMS: dict[str, Program] = {
    p.name: p
    for p in (
        Program(
            "bias_gelu_residual",
            "bias + GELU (tanh) + residual",
            "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r",
            _bias_gelu_inputs,
            _bias_gelu,
            True,
        ),
        Program("gelu", "GELU (erf)", f"out = 0.5*x*(1 + erf({SQRT_HALF}*x))", _one, _gelu, True),
        Program("silu_gate", "SiLU gate", "out = x*sigmoid(x)*g", _gate_inputs, _silu_gate, True),
        Program(
            "residual_scale_bias",
            "residual + scale + bias (vectors)",
            "out = r + x*s + b",
            _residual_inputs,
            _residual,
            False,
        ),
        Program(
            "adam",
            "Adam step",
            "first = 0.9*m + 0.1*g; second = 0.999*v + 0.001*(g*g)\n"
            "next = p - 0.001*(first*1.25)/(sqrt(second*20.0) + 1e-8)\n"
            "out = next; out_first = first; out_second = second",
            _adam_inputs,
            _adam,
            False,
            result_dtypes=("float32",) * 3,
        ),
        Program(
            "black_scholes",
            "Black–Scholes, call and put",
            "deviation = 0.2*sqrt(t); d1 = (log(s/k) + 0.07*t)/deviation; d2 = d1 - deviation\n"
            f"n1 = 0.5 + 0.5*erf({SQRT_HALF}*d1); n2 = 0.5 + 0.5*erf({SQRT_HALF}*d2)\n"
            "discounted = k*exp(-0.05*t)\n"
            "call = s*n1 - discounted*n2; put = discounted*(1 - n2) - s*(1 - n1)",
            _options,
            _black_scholes,
            True,
            scale=100.0,
            result_dtypes=("float32",) * 2,
        ),
        Program(
            "haversine",
            "haversine",
            "u = sin(0.5*(lat2 - lat1)); v = sin(0.5*(lon2 - lon1))\n"
            "out = 12742.0*asin(sqrt(u*u + cos(lat1)*cos(lat2)*(v*v)))",
            _places,
            _haversine,
            True,
            scale=12742.0,
            tolerance=1e-4,  # near the antipodes asin is steep: half a unit in the last place of 1 is 4 km
        ),
        Program(
            "polynomial",
            "polynomial of 10 terms",
            "out = ((((((((0.1*x + 0.2)*x + 0.3)*x + 0.4)*x + 0.5)*x + 0.6)*x + 0.7)*x + 0.8)*x + 0.9)*x + 1.0",
            _polynomial_inputs,
            _polynomial,
            False,
        ),
        Program("logaddexp", "logaddexp of two", "out = logaddexp(a, b)", _logaddexp_inputs, _logaddexp, True),
        Program(
            "dequantise",
            "int8 × row scale → bfloat16",
            "out = bf16(q*s)",
            _quantised,
            _dequantise,
            False,
            scale=1e-3,
            tolerance=2.0**-8,
            result_dtypes=("bfloat16",),
        ),
        Program(
            "rotary",
            "rotary embedding",
            "out_x = x*c - y*s; out_y = y*c + x*s",
            _rotary_inputs,
            _rotary,
            False,
            result_dtypes=("float32",) * 2,
        ),
        Program(
            "zscore",
            "clipped, NaN-aware z-score",
            "z = (x - mu)/sd; out = where(isnan(z), 0.0, clip(z, -3.0, 3.0))",
            _scores,
            _zscore,
            False,
        ),
    )
}
