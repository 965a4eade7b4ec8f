"""What accuracy.py judges: the functions, their references in multiprecision and NumPy, and the inputs to try.

Nothing here comes from fuseline: a reference that shared code with what it judges would share its mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ONE_ARGUMENT = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sigmoid", "softplus", "silu",
    "gelu", "gelu_tanh",
)  # fmt: skip
TWO_ARGUMENTS = ("pow", "hypot", "atan2", "logaddexp")


# ── multiprecision ───────────────────────────────────────────────────────────────────────────────────────────────────


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _complement(x: Any) -> Any:
    """erfc; far out by its leading term, because mpmath cannot count the terms of its series there."""
    if abs(x) < 1e5:
        return mp.erfc(x)
    return mp.mpf(2) if x < 0 else mp.exp(-x * x) / (x * mp.sqrt(mp.pi))


def _gelu_tanh(x: Any) -> Any:
    return x * _sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))


MULTIPRECISION: dict[str, Callable[..., Any]] = {
    "exp": mp.exp, "exp2": lambda x: mp.mpf(2) ** x, "expm1": mp.expm1, "log": mp.log, "log10": mp.log10,
    "sqrt": mp.sqrt, "log2": lambda x: mp.log(x) / mp.log(2), "log1p": mp.log1p, "rsqrt": lambda x: 1 / mp.sqrt(x),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "asin": mp.asin,
    "acos": mp.acos, "atan": mp.atan, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "asinh": mp.asinh,
    "acosh": mp.acosh, "atanh": mp.atanh, "erf": mp.erf, "erfc": _complement, "sigmoid": _sigmoid,
    "softplus": lambda x: mp.log1p(mp.exp(x)), "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * _complement(-x / mp.sqrt(2)) / 2, "gelu_tanh": _gelu_tanh, "pow": lambda x, y: mp.power(x, y),
    "hypot": mp.hypot, "atan2": mp.atan2,
    "logaddexp": lambda a, b: mp.log(mp.exp(a) + mp.exp(b)),
}  # fmt: skip


def exact(name: str, operands: tuple[float, ...]) -> Any:
    """The function's value with at least 60 digits after any cancellation."""
    with mp.workdps(420 if name in ("sin", "cos", "tan", "logaddexp") else 120):
        return +MULTIPRECISION[name](*(mp.mpf(v) for v in operands))


# ── float64, where no C compiler gives something faster ──────────────────────────────────────────────────────────────


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    ufunc = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(ufunc(x), dtype=object).astype(np.float64)


_erfc = _elementwise(math.erfc)


def _gate(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e) + 0.0 * x


def _at_minus_infinity(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: np.where(x == -np.inf, -0.0, function(x))


FLOAT64: dict[str, Callable[..., Array]] = {
    **{n: getattr(np, n) for n in ONE_ARGUMENT[:8]},
    **{n: getattr(np, n) for n in ("cbrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{n: getattr(np, "arc" + n[1:]) for n in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "erf": _elementwise(math.erf),
    "erfc": _erfc,
    "sigmoid": lambda x: np.where(np.isinf(x), np.where(x > 0, 1.0, 0.0), _gate(np.where(np.isinf(x), 0.0, x))),
    "softplus": lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
    "silu": _at_minus_infinity(lambda x: x / (1.0 + np.exp(-x))),
    "gelu": _at_minus_infinity(lambda x: 0.5 * x * _erfc(-x * math.sqrt(0.5))),
    "gelu_tanh": _at_minus_infinity(
        lambda x: x / (1.0 + np.exp(-2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    ),
    "pow": np.power,
    "hypot": np.hypot,
    "atan2": np.arctan2,
    "logaddexp": np.logaddexp,
}


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_LANDMARKS = [
    0.0, 0.25, 0.35, 0.4142, 0.5, math.sqrt(0.5), 0.9, 1.0, math.sqrt(2.0), 2.414, 3.9, 5.9, 9.0, 10.0, 14.3, 17.0,
    20.0, 26.5, 27.3, 37.0, 38.5, 87.3, 88.72, 103.97, 110.0, 126.0, 149.0, 708.4, 709.78, 745.1, 1022.0, 1074.0,
    math.pi / 4, math.pi / 2, math.pi, 2.0**-28, 2.0**-30, 2.0**-57, 2.0**28, 2.0**30, 2.0**60, 1e22, 2.0**400,
    2.0**500, 2.0**1000, 1.047,
    # The float64 closest to a multiple of pi/2 (Muller, Elementary Functions, worst cases of range reduction).
    6381956970095103.0 * 2.0**797,
]  # fmt: skip
"""Where algorithms change course, results leave the format, or reductions are hardest."""


def all_float32(chunk: int = 1 << 22) -> Iterator[tuple[Array, ...]]:
    """Every float32, in order of its bit pattern."""
    for start in range(0, 1 << 32, chunk):
        yield (np.arange(start, start + chunk, dtype=np.uint64).astype(np.uint32).view(np.float32),)


def hard_cases(name: str, dtype: Any, rng: np.random.Generator, count: int) -> tuple[Array, ...]:
    """Neighbours of landmarks, multiples of pi/2, and for two arguments the curves where results cancel or overflow."""
    size = np.dtype(dtype).itemsize
    signed = np.concatenate([_LANDMARKS, np.negative(_LANDMARKS)])
    bits = _random_bits(rng, count)
    steps, turns, chosen = bits & 0xFFF, bits >> 12 & 0xFFFFF, bits >> 32 & 0xFFFF
    with np.errstate(over="ignore"):
        landmarks = signed.astype(dtype)
    near = landmarks[chosen * len(signed) >> 16].view(f"i{size}") + (steps - 2048).astype(f"i{size}")
    x = np.where(bits >> 48 & 0xFF < 0.7 * 256, near.view(dtype), ((turns + 1) * (math.pi / 2)).astype(dtype))
    if name not in TWO_ARGUMENTS:
        return (np.ascontiguousarray(x),)
    with np.errstate(all="ignore"):
        y = second_operand(name, x.astype(np.float64), rng, count).astype(dtype)
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def second_operand(name: str, x: Array, rng: np.random.Generator, count: int) -> Array:
    """Operands beside ``x`` for which results cancel, overflow or lie just between two numbers."""
    if name == "pow":  # results near overflow, underflow, and small powers of numbers near one
        target = rng.choice(
            [88.72, 86.9, -86.9, -87.3, -103.9, 709.7, -708.4, -745.1, 1.0, 0.5, -1.0, 1e-5, -1e-7], count
        )
        return np.where(rng.random(count) < 0.7, target / np.log(np.abs(x)), rng.integers(-40, 40, count) / 2.0)
    if name == "logaddexp":  # exp(x) + exp(y) close to one
        return np.log(-np.expm1(-np.abs(x))) * np.where(
            rng.random(count) < 0.5, 1.0, 1.0 + 1e-7 * rng.normal(size=count)
        )
    if name == "hypot" and rng.random() < 0.5:  # just between two numbers that follow |x|
        step = np.abs(x) * 2.0 ** -rng.choice([23.0, 24.0, 52.0, 53.0])
        return np.sqrt(step * (2.0 * np.abs(x) + step) * (rng.integers(0, 40, count) + 0.5))
    return (
        x
        * rng.choice([1.0, -1.0, 0.4142, 2.4142, 1e-8, 1e8, 2.0**26, 2.0**-52, 1e-30, 1e30, 1e-38], count)
        * (1 + 1e-6 * rng.normal(size=count))
    )


def samples(name: str, dtype: Any, count: int, seed: int = 0, chunk: int = 1 << 20) -> Iterator[tuple[Array, ...]]:
    """About ``count`` operands: bit patterns, moderate numbers, many scales, and hard cases, in equal shares."""
    rng = np.random.Generator(np.random.SFC64(seed))
    operands = 2 if name in TWO_ARGUMENTS else 1
    for i in range(max(1, -(-count // chunk))):
        kind = i % 4
        if kind == 3:
            yield hard_cases(name, dtype, rng, chunk)
            continue
        yield tuple((_bit_patterns, _moderate, _wide)[kind](dtype, rng, chunk) for _ in range(operands))


def _random_bits(rng: np.random.Generator, count: int) -> Array:
    """64 of them in each signed integer."""
    return rng.bit_generator.random_raw(count).view(np.int64)


def _bit_patterns(dtype: Any, rng: np.random.Generator, count: int) -> Array:
    return _random_bits(rng, count).view(dtype)[:count]


def _moderate(dtype: Any, rng: np.random.Generator, count: int) -> Array:
    """Evenly between two numbers of opposite sign."""
    bound = rng.choice([0.9, 6.0, 60.0, 900.0])
    x = rng.random(count)
    x -= 0.5
    x *= 2.0 * bound
    return x.astype(dtype, copy=False)


def _wide(dtype: Any, rng: np.random.Generator, count: int) -> Array:
    """Of either sign, with exponents evenly from -44 to 19."""
    bits = _random_bits(rng, count)
    exponents = bits >> 52
    exponents &= 63
    exponents += 1023 - 44
    exponents <<= 52
    bits &= ~(0x7FF << 52)
    bits |= exponents
    return bits.view(np.float64).astype(dtype, copy=False)
