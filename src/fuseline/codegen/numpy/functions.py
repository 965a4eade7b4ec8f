"""Functions that NumPy has no single call for, as the emitted text defines them.

Their source is printed into the text, so they use nothing but ``np``, ``math`` and each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any


def select(condition: Array, a: Array, b: Array, out: Array = None) -> Array:
    """np.where with an output."""
    chosen = np.where(condition, a, b)
    if out is None:
        return chosen
    np.copyto(out, chosen)
    return out


def erf(x: Array) -> Array:
    """The error function, an element at a time."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(x.dtype)


def erfc(x: Array) -> Array:
    """1 - erf(x), an element at a time."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(x)).astype(x.dtype)


def cast(x: Array, out: Array) -> Array:
    """``x`` converted into ``out``."""
    np.copyto(out, x, casting="unsafe")
    return out


def stride_of(count: int) -> int:
    """``count`` rounded up, so that multiples of it keep an array's start on a multiple of 64 bytes."""
    return -(-count // 64) * 64


def allocate(size: int) -> Array:
    """So many bytes, the first on a multiple of 64."""
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def part(memory: Array, start: int, shape: Array, dtype: Array) -> Array:
    """The bytes of memory from start as an array; a new one where they are too few, which only empty results have."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    flat = memory.reshape(-1).view(np.uint8)[start : start + size]
    return flat.view(dtype).reshape(shape) if len(flat) == size else np.empty(shape, dtype)
