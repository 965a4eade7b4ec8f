"""Arrays over special values, and the comparison that all promises about results are stated with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from fuseline.ir.dtype import DType, dtype

Array = np.ndarray[Any, Any]


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays agree in dtype, shape and every bit, any NaN being equal to any NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    bits = np.dtype(f"u{a.dtype.itemsize}")
    with np.errstate(all="ignore"):
        both_nan = (a != a) & (b != b)
    return bool(
        (both_nan | (np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)).reshape(a.shape)).all()
    )


def first_difference(a: Any, b: Any) -> str:
    """Where two arrays differ and how, for the message of a failed test."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{a.shape} against {b.dtype}{b.shape}"
    for index in np.ndindex(a.shape):
        if not same_bits(a[index], b[index]):
            return f"at {index}: {a[index]!r} against {b[index]!r}"
    return "no difference"


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def special_values(name: str) -> Array:
    """The values of a dtype at which rules break: NaN, infinities, zeros, both ends, ones, the edges of functions."""
    d = dtype(name)
    if name == "bool":
        return np.array([False, True])
    if d.is_integer:
        info = np.iinfo(d.numpy)
        wanted = [
            0,
            1,
            -1,
            2,
            -2,
            3,
            7,
            -8,
            31,
            32,
            63,
            64,
            info.min,
            info.min + 1,
            info.max,
            info.max - 1,
            info.max // 2,
        ]
        return np.array([v for v in dict.fromkeys(wanted) if info.min <= v <= info.max], d.numpy)
    tiny, huge, least, step = _float_limits(name)
    positive = [
        0.0,
        least,
        tiny - least,
        tiny,
        tiny * 2,
        step,
        0.1,
        0.5,
        1 - step / 2,
        1.0,
        1 + step,
        1.5,
        2.0,
        2.5,
        3.0,
    ]
    positive += [math.pi, 10.0, 88.72284, 104.0, 710.0, 2049.0, 16777217.0, 2.0**31, 2.0**63, 1e10, huge, math.inf]
    values = [*positive, *(-v for v in positive), math.nan]
    with np.errstate(all="ignore"):
        return np.unique(np.array(values, np.float64).astype(d.numpy).view(f"u{d.bits // 8}")).view(d.numpy)


def _float_limits(name: str) -> tuple[float, float, float, float]:
    """Smallest normal, largest, smallest subnormal number, and the distance from 1 to the next."""
    exponent, precision = {"f16": (15, 11), "bf16": (127, 8), "f32": (127, 24), "f64": (1023, 53)}[name]
    step = 2.0 ** (1 - precision)
    return 2.0 ** (1 - exponent), 2.0**exponent * (2 - step), 2.0 ** (1 - exponent) * step, step


def random_array(generator: np.random.Generator, d: DType, shape: Sequence[int]) -> Array:
    """Special values, ordinary numbers and random bit patterns, mixed."""
    count = math.prod(shape)
    special = special_values(d.name)
    chosen = special[generator.integers(0, len(special), count)]
    if d.name == "bool":
        return chosen.reshape(shape)
    bits = np.frombuffer(generator.bytes(count * d.bits // 8), d.numpy)
    if d.is_float:
        with np.errstate(all="ignore"):
            ordinary = (generator.standard_normal(count) * 10.0 ** generator.integers(-3, 4, count)).astype(d.numpy)
    else:
        ordinary = generator.integers(0, 20, count).astype(d.numpy)
    kind = generator.integers(0, 8, count)
    return np.where(kind < 3, chosen, np.where(kind < 7, ordinary, bits)).astype(d.numpy).reshape(shape)


def normal_numbers(shape: Sequence[int], seed: int = 0) -> Array:
    """float32 numbers from N(0, 1)."""
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(np.float32)
