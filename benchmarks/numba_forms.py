"""The programs as numba takes them best: explicit loops for `njit`, scalar functions for `vectorize`.

Literals are float32 constants: with Python floats numba would compute in float64.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

numba: Any = importlib.import_module("numba")
prange: Any = numba.prange

f32 = np.float32
_HALF, _ONE, _C0, _C1 = f32(0.5), f32(1), f32(0.7978845608), f32(0.044715)
_SQRT_HALF = f32(0.7071067811865476)
_SCALAR = {"fastmath": True, "inline": "always"}
_KEEPS_NAN = {"contract", "afn", "arcp", "nsz", "reassoc"}


@numba.njit(**_SCALAR)
def _bias_gelu_residual(x: Any, b: Any, r: Any) -> Any:
    h = x + b
    return _HALF * h * (_ONE + math.tanh(_C0 * (h + _C1 * h * h * h))) + r


@numba.njit(**_SCALAR)
def _gelu(x: Any) -> Any:
    return _HALF * x * (_ONE + math.erf(_SQRT_HALF * x))


@numba.njit(**_SCALAR)
def _silu_gate(x: Any, g: Any) -> Any:
    return x / (_ONE + math.exp(-x)) * g


@numba.njit(**_SCALAR)
def _residual_scale_bias(r: Any, x: Any, s: Any, b: Any) -> Any:
    return r + x * s + b


@numba.njit(**_SCALAR)
def _polynomial(x: Any) -> Any:
    y = f32(0.1) * x + f32(0.2)
    y = y * x + f32(0.3)
    y = y * x + f32(0.4)
    y = y * x + f32(0.5)
    y = y * x + f32(0.6)
    y = y * x + f32(0.7)
    y = y * x + f32(0.8)
    y = y * x + f32(0.9)
    return y * x + f32(1.0)


@numba.njit(**_SCALAR)
def _logaddexp(a: Any, b: Any) -> Any:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@numba.njit(**_SCALAR)
def _haversine(lat1: Any, lon1: Any, lat2: Any, lon2: Any) -> Any:
    u, v = math.sin(_HALF * (lat2 - lat1)), math.sin(_HALF * (lon2 - lon1))
    return f32(12742.0) * math.asin(math.sqrt(u * u + math.cos(lat1) * math.cos(lat2) * (v * v)))


@numba.njit(fastmath=_KEEPS_NAN, inline="always")
def _zscore(x: Any, mu: Any, sd: Any) -> Any:
    z = (x - mu) / sd
    if z != z:
        return f32(0)
    return min(max(z, f32(-3)), f32(3))


@numba.njit(inline="always")
def _dequantise(q: Any, s: Any) -> Any:
    """The bits of the bfloat16, which numba does not know; scales are finite, so there is no NaN to keep."""
    bits = f32(f32(q) * s).view(np.uint32)
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@numba.njit(parallel=True, fastmath=True)
def _loop_bias_gelu_residual(x: Any, b: Any, r: Any, out: Any) -> None:
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = _bias_gelu_residual(x[i, j], b[j], r[i, j])


@numba.njit(parallel=True, fastmath=True)
def _loop_gelu(x: Any, out: Any) -> None:
    for i in prange(x.size):
        out[i] = _gelu(x[i])


@numba.njit(parallel=True, fastmath=True)
def _loop_silu_gate(x: Any, g: Any, out: Any) -> None:
    for i in prange(x.size):
        out[i] = _silu_gate(x[i], g[i])


@numba.njit(parallel=True, fastmath=True)
def _loop_residual_scale_bias(r: Any, x: Any, s: Any, b: Any, out: Any) -> None:
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = _residual_scale_bias(r[i, j], x[i, j], s[j], b[j])


@numba.njit(parallel=True, fastmath=True)
def _loop_adam(p: Any, g: Any, m: Any, v: Any, out: Any, out_first: Any, out_second: Any) -> None:
    for i in prange(p.size):
        first = f32(0.9) * m[i] + f32(0.1) * g[i]
        second = f32(0.999) * v[i] + f32(0.001) * (g[i] * g[i])
        out[i] = p[i] - f32(0.001) * (first * f32(1.25)) / (math.sqrt(second * f32(20.0)) + f32(1e-8))
        out_first[i] = first
        out_second[i] = second


@numba.njit(parallel=True, fastmath=True)
def _loop_black_scholes(s: Any, k: Any, t: Any, call: Any, put: Any) -> None:
    for i in prange(s.size):
        deviation = f32(0.2) * math.sqrt(t[i])
        d1 = (math.log(s[i] / k[i]) + f32(0.07) * t[i]) / deviation
        d2 = d1 - deviation
        n1 = _HALF + _HALF * math.erf(_SQRT_HALF * d1)
        n2 = _HALF + _HALF * math.erf(_SQRT_HALF * d2)
        discounted = k[i] * math.exp(f32(-0.05) * t[i])
        call[i] = s[i] * n1 - discounted * n2
        put[i] = discounted * (_ONE - n2) - s[i] * (_ONE - n1)


@numba.njit(parallel=True, fastmath=True)
def _loop_haversine(lat1: Any, lon1: Any, lat2: Any, lon2: Any, out: Any) -> None:
    for i in prange(lat1.size):
        out[i] = _haversine(lat1[i], lon1[i], lat2[i], lon2[i])


@numba.njit(parallel=True, fastmath=True)
def _loop_polynomial(x: Any, out: Any) -> None:
    for i in prange(x.size):
        out[i] = _polynomial(x[i])


@numba.njit(parallel=True, fastmath=True)
def _loop_logaddexp(a: Any, b: Any, out: Any) -> None:
    for i in prange(a.size):
        out[i] = _logaddexp(a[i], b[i])


@numba.njit(parallel=True)
def _loop_dequantise(q: Any, s: Any, out: Any) -> None:
    for i in prange(q.shape[0]):
        scale = s[i, 0]
        for j in range(q.shape[1]):
            out[i, j] = _dequantise(q[i, j], scale)


@numba.njit(parallel=True, fastmath=True)
def _loop_rotary(x: Any, y: Any, c: Any, s: Any, out_x: Any, out_y: Any) -> None:
    heads, places, half = x.shape
    for row in prange(heads * places):
        h, i = row // places, row % places
        for j in range(half):
            out_x[h, i, j] = x[h, i, j] * c[i, j] - y[h, i, j] * s[i, j]
            out_y[h, i, j] = y[h, i, j] * c[i, j] + x[h, i, j] * s[i, j]


@numba.njit(parallel=True, fastmath=_KEEPS_NAN)
def _loop_zscore(x: Any, mu: Any, sd: Any, out: Any) -> None:
    m, d = mu[()], sd[()]
    for i in prange(x.size):
        out[i] = _zscore(x[i], m, d)


LOOPS: dict[str, Callable[..., None]] = {
    name.removeprefix("_loop_"): value for name, value in list(globals().items()) if name.startswith("_loop_")
}
"""By program: a function of the inputs and the outputs."""

_F = "float32"
SCALARS: dict[str, tuple[Any, str]] = {
    "bias_gelu_residual": (_bias_gelu_residual, f"{_F}({_F},{_F},{_F})"),
    "gelu": (_gelu, f"{_F}({_F})"),
    "silu_gate": (_silu_gate, f"{_F}({_F},{_F})"),
    "residual_scale_bias": (_residual_scale_bias, f"{_F}({_F},{_F},{_F},{_F})"),
    "haversine": (_haversine, f"{_F}({_F},{_F},{_F},{_F})"),
    "polynomial": (_polynomial, f"{_F}({_F})"),
    "logaddexp": (_logaddexp, f"{_F}({_F},{_F})"),
    "dequantise": (_dequantise, f"uint16(int8,{_F})"),
    "zscore": (_zscore, f"{_F}({_F},{_F},{_F})"),
}
"""By program with one output: a scalar function and its signature."""


def ufunc(name: str, parallel: bool) -> Any:
    """The program as a `numba.vectorize` ufunc, or None: those have one output."""
    if name not in SCALARS:
        return None
    function, signature = SCALARS[name]
    fastmath: Any = _KEEPS_NAN if name == "zscore" else True
    make = numba.vectorize([signature], target="parallel" if parallel else "cpu", fastmath=fastmath)
    return make(function.py_func)
