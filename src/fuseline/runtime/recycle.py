"""Memory for the outputs of large calls, kept when an array dies and given to the next one.

Fresh memory costs a page fault for every 4 KiB written, about as much time as a memory-bound kernel needs for the bytes
themselves. At most `bound_bytes` lie idle; ``FUSELINE_RECYCLE_BYTES=0`` turns the store off and `trim` empties it.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .environment import stated_count
from .host import physical_memory_bytes

SMALLEST_BYTES = 1 << 20
"""Smaller arrays come from NumPy, whose allocator reuses memory of that size already."""
_DEFAULT_BOUND_BYTES = 1 << 30
_SHARE_OF_MEMORY = 8
_LARGEST_WASTE = 1.25
"""An idle block serves a request that is smaller by at most this factor."""


@functools.cache
def bound_bytes() -> int:
    """Idle bytes kept at most: ``FUSELINE_RECYCLE_BYTES``, else 1 GiB or an eighth of memory, whichever is less."""
    stated = stated_count("FUSELINE_RECYCLE_BYTES")
    if stated is not None:
        return stated
    return min(_DEFAULT_BOUND_BYTES, physical_memory_bytes() // _SHARE_OF_MEMORY)


class _Block:
    """Memory, and the type of the buffer that stands for one use of it."""

    __slots__ = ("address", "lease_type", "memory", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        # Where NumPy puts it: results then stand to a cache line and a page as operands do. Another phase made stores
        # look like hazards for the next loads (same low twelve address bits) and cost up to half of a kernel's speed.
        self.memory = np.empty(size_bytes, np.uint8)
        self.address = self.memory.ctypes.data
        self.size_bytes = size_bytes
        self.lease_type = _lease_type(size_bytes)


@functools.lru_cache(maxsize=64)
def _lease_type(size_bytes: int) -> type[Any]:
    """A ctypes array type whose instances, as bases of arrays, give their block back when the last view dies."""

    def give_back(self: Any, give_back: Callable[[_Block], None] = _give_back) -> None:
        give_back(self.block)

    return type("Lease", (ctypes.c_char * size_bytes,), {"__del__": give_back})


_idle: dict[int, _Block] = {}
"""Blocks that no array uses, by address, the one idle longest first. Only single, atomic operations touch it."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], axes: tuple[int, ...] | None = None) -> NDArray[Any]:
    """An uninitialised array like `numpy.empty`'s, from idle memory where there is some that fits.

    ``axes`` is the order of the axes in memory, slowest first (C order when None). A recycled array does not own its
    memory: its ``base`` is the block, so `numpy.ndarray.resize` refuses it.
    """
    stored = shape if axes is None else tuple(shape[a] for a in axes)
    size_bytes = math.prod(stored) * dtype.itemsize
    laid_out: NDArray[Any]
    if size_bytes < SMALLEST_BYTES or size_bytes > bound_bytes():
        laid_out = np.empty(stored, dtype)
    else:
        block = _take(size_bytes) or _Block(size_bytes)
        lease = block.lease_type.from_address(block.address)
        lease.block = block
        laid_out = np.ndarray(stored, dtype, buffer=lease)
    if axes is None:
        return laid_out
    return laid_out.transpose(sorted(range(len(axes)), key=axes.__getitem__))


def _take(size_bytes: int) -> _Block | None:
    for address, block in reversed(list(_idle.items())):
        if size_bytes <= block.size_bytes <= size_bytes * _LARGEST_WASTE:
            taken = _idle.pop(address, None)
            if taken is not None:  # else another thread was first
                return taken
    return None


def _give_back(block: _Block) -> None:
    _idle[block.address] = block
    _shrink(bound_bytes())


def _shrink(limit_bytes: int) -> int:
    """Drop the blocks idle longest until the rest fits; the bytes dropped."""
    dropped = 0
    excess = idle_bytes() - limit_bytes
    for address in list(_idle) if excess > 0 else ():
        block = _idle.pop(address, None)
        if block is not None:
            dropped += block.size_bytes
        if dropped >= excess:
            break
    return dropped


def trim() -> int:
    """Give idle memory back to the system; the bytes given back. Arrays in use are not touched."""
    return _shrink(0)


def idle_bytes() -> int:
    """Bytes kept for later calls."""
    return sum(block.size_bytes for block in list(_idle.values()))
