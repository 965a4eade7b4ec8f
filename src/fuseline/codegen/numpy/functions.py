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
