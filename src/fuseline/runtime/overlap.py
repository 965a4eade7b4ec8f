"""Which arrays share memory, and where a loop may write although it has not read everything yet."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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


SHARED, ALONE, SAME_ITEMS = range(3)
"""Where an output lies: on memory of another operand in some other way than the third; by itself; on the very items of
inputs, which a body reads before it writes them."""


def places(inputs: Sequence[Array], outputs: Sequence[Array]) -> list[int]:
    """For each of ``outputs``, arrays that a call shall write, where it lies: `SHARED`, `ALONE` or `SAME_ITEMS`.

    Two operands count as sharing memory where the ranges of their first to last bytes meet. native/prepared.ll and
    call.ll have the same rule for the calls that they run. Takes n log n steps for n operands.
    """
    if not outputs:
        return []
    spans = [byte_bounds(o) for o in outputs]
    crossed = _crossed(spans) if len(spans) > 1 else [False]
    bounds = [byte_bounds(a) for a in inputs]
    starts, ends = sorted([low for low, _ in bounds]), sorted([high for _, high in bounds])
    alike: dict[object, int] = {}
    found = []
    for output, (low, high), is_crossed in zip(outputs, spans, crossed, strict=True):
        met = bisect_left(starts, high) - bisect_right(ends, low)  # begin before its end, less those that end before it
        if met and not alike:
            for a in inputs:
                alike[_items_of(a)] = alike.get(_items_of(a), 0) + 1
        if is_crossed or (met and alike.get(_items_of(output)) != met):
            found.append(SHARED)
        else:
            found.append(SAME_ITEMS if met else ALONE)
    return found


def _crossed(spans: Sequence[Bounds]) -> list[bool]:
    """For each range of bytes, whether it meets another."""
    order = sorted(range(len(spans)), key=spans.__getitem__)
    crossed = [False] * len(spans)
    furthest = order[0]  # of those so far, the one that ends last
    for i in order[1:]:
        if spans[i][0] < spans[furthest][1]:
            crossed[i] = crossed[furthest] = True
        if spans[i][1] > spans[furthest][1]:
            furthest = i
    return crossed


def holds_result(output: Array, dtype: np.dtype[Any]) -> bool:
    """Whether a loop can write its result of ``dtype`` straight into ``output``: of that dtype, with no byte twice."""
    if output.dtype is not dtype and (output.dtype != dtype or not output.dtype.isnative):
        return False
    return output.flags.c_contiguous or not _repeats_itself(output)


def _repeats_itself(a: Array) -> bool:
    """Whether two elements may lie on the same bytes."""
    reach = a.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


def _items_of(a: Array) -> object:
    """What two arrays have in common whose elements are, one by one, the same bytes."""
    return data_address(a), a.shape, a.strides, a.itemsize
