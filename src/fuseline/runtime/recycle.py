"""Memory for the outputs of large calls, kept when an array dies and given to the next one.

Fresh memory costs a page fault for every 4 KiB written, about as much time as a memory-bound kernel needs for the bytes
themselves. At most `bound_bytes` lie idle; ``FUSELINE_RECYCLE_BYTES=0`` turns the store off and `trim` empties it. The
store is native/store.ll's, so a large call that returns a new array runs no Python for it.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fuseline.runtime import arrays, native
from fuseline.runtime.environment import stated_count
from fuseline.runtime.host import physical_memory_bytes
from fuseline.runtime.image import immortal
from fuseline.runtime.locks import Lock

SMALLEST_BYTES = 1 << 20
"""Smaller arrays come from NumPy, whose allocator reuses memory of that size already."""
_DEFAULT_BOUND_BYTES = 1 << 30
_SHARE_OF_MEMORY = 8
_BLOCKS = 64
_HEADER_FIELDS = 9
_IDLE, _BOUND = 2, 3
"""Bytes that lie idle, and most that may, by position in `%store`."""
_BYTE = np.dtype(np.uint8)


@functools.cache
def bound_bytes() -> int:
    """Idle bytes kept at most: ``FUSELINE_RECYCLE_BYTES``, else 1 GiB or an eighth of memory, whichever is less."""
    stated = stated_count("FUSELINE_RECYCLE_BYTES")
    if stated is not None:
        return stated
    return min(_DEFAULT_BOUND_BYTES, physical_memory_bytes() // _SHARE_OF_MEMORY)


_Fields = ctypes.c_int64 * (_HEADER_FIELDS + 2 * _BLOCKS)
_made: list[ctypes.Array[ctypes.c_int64]] = []
_making = Lock()


def _store() -> ctypes.Array[ctypes.c_int64]:
    """The `%store` of this process. It is never freed: arrays may die after everything else."""
    with _making:
        if not _made:
            functions = (arrays.new_from_descr(), arrays.set_base_object())
            _made.append(_Fields(0, 0, 0, bound_bytes(), *functions, id(np.ndarray), object.__basicsize__, id(_BYTE)))
            immortal(_made[0])
        return _made[0]


def store_address() -> int:
    """Address of the store."""
    return ctypes.addressof(_store())


@functools.cache
def _new_array() -> Callable[..., Any]:
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.c_void_p,  # store
        ctypes.py_object,  # dtype
        ctypes.c_int64,  # axes
        ctypes.c_void_p,  # lengths
        ctypes.c_void_p,  # strides
        ctypes.c_int64,  # bytes
    )
    return kind(native.support().exports["fl_store_array"])


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], axes: tuple[int, ...] | None = None) -> NDArray[Any]:
    """An uninitialised array like `numpy.empty`'s, from idle memory where there is some that fits.

    ``axes`` is the order of the axes in memory, slowest first (C order when None). A recycled array does not own its
    memory: its ``base`` is a capsule that holds the block, so `numpy.ndarray.resize` refuses it. It begins with a page,
    so rows of whole cache lines share none.
    """
    stored = shape if axes is None else tuple(shape[a] for a in axes)
    size_bytes = math.prod(stored) * dtype.itemsize
    laid_out: NDArray[Any]
    if size_bytes < SMALLEST_BYTES or size_bytes > bound_bytes() or not arrays.is_known():
        laid_out = with_idle_memory(lambda: np.empty(stored, dtype))
    else:
        store = _store()
        store[_BOUND] = bound_bytes()
        lengths, strides = _c_order(stored, dtype.itemsize)
        laid_out = _new_array()(ctypes.addressof(store), dtype, len(stored), lengths, strides, size_bytes)
    if axes is None:
        return laid_out
    return laid_out.transpose(sorted(range(len(axes)), key=axes.__getitem__))


_Made = TypeVar("_Made")


def with_idle_memory(make: Callable[[], _Made]) -> _Made:
    """``make()``; where that finds no memory, once more after what lies idle here is given back."""
    try:
        return make()
    except MemoryError:
        if not trim():
            raise
        return make()


def _c_order(shape: tuple[int, ...], item_bytes: int) -> tuple[ctypes.Array[Any], ctypes.Array[Any]]:
    strides = [item_bytes] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    kind = ctypes.c_int64 * len(shape)
    return kind(*shape), kind(*strides)


def trim() -> int:
    """Give idle memory back to the system; the bytes given back. Arrays in use are not touched."""
    if not _made:
        return 0
    kind = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    given_back: int = kind(native.support().exports["fl_store_shrink"])(store_address(), 0)
    return given_back
