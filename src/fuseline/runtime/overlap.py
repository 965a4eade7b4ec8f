"""Which arrays share memory, and where a loop may write although it has not read everything yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuseline.runtime.arrays import data_address

Array = NDArray[Any]
Bounds = tuple[int, int]


def byte_bounds(a: Array) -> Bounds:
    """Addresses of an array's first byte and of the one after its last."""
    start = data_address(a)
    if a.flags.c_contiguous:
        return start, start + a.nbytes
    low = high = start
    for length, stride in zip(a.shape, a.strides, strict=True):
        low += min(stride * (length - 1), 0)
        high += max(stride * (length - 1), 0)
    return low, high + a.itemsize


def is_direct(
    output: Array, dtype: np.dtype[Any], inputs: Sequence[Array], bounds: Sequence[Bounds], outputs: Sequence[Bounds]
) -> bool:
    """Whether the loop may write straight into ``output``: right dtype, and apart from everything else.

    ``bounds`` are those of ``inputs``; ``outputs`` has those of every given output, this one among them.
    """
    if output.dtype is not dtype and (output.dtype != dtype or not output.dtype.isnative):
        return False
    if not output.flags.c_contiguous and _repeats_itself(output):
        return False
    low, high = byte_bounds(output)
    if len(outputs) > 1 and sum(a < high and low < b for a, b in outputs) > 1:
        return False
    return all(high <= b[0] or b[1] <= low or is_same_memory(output, a) for a, b in zip(inputs, bounds, strict=True))


def _repeats_itself(a: Array) -> bool:
    """Whether two elements may lie on the same bytes."""
    reach = a.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


def is_same_memory(output: Array, a: Array) -> bool:
    """Element for element the same bytes: a body reads a vector of them before it writes it."""
    return (
        a.shape == output.shape
        and a.strides == output.strides
        and a.itemsize == output.itemsize
        and data_address(a) == data_address(output)
    )
