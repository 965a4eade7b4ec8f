"""Memory set aside for compiled code that needs some while it runs and finds that the system has none (P7).

A body whose values fill more than a thread's stack, and calls of many operands, take memory when they run, where
nothing can be raised any more. So as much as any one thread may need at once is set aside when a loop is compiled:
`MemoryError` is raised then or never. It is address space that nobody touches before the day it is needed; threads that
need it at the same time take turns (native/reserve.ll).
"""

from __future__ import annotations

import ctypes
import mmap
import os

from fuseline.runtime.image import immortal, own_symbols
from fuseline.runtime.locks import Lock

_HOLDER, _MEMORY, _BYTES, _TAKEN = range(4)
RESERVE_FIELDS = 4
"""Of `%reserve` in native/reserve.ll."""
FUNCTIONS = ("fl_take", "fl_give")
"""What bodies call of it."""
_LEAST_BYTES = 1 << 20
"""More than the blocks of rows and items of any call, which have a bound of their own."""

_record = (ctypes.c_int64 * RESERVE_FIELDS)()
immortal(_record)  # code may still run when the interpreter ends
_memory: list[tuple[mmap.mmap, ctypes.c_char]] = []
_lock = Lock()


def needed_bytes(operands: int, lanes: int, frame_bytes: int) -> int:
    """What one thread takes at most at once for a loop: vectors of each operand, lists of them, the body's frame."""
    vectors = 2 * 8 * lanes  # a padded one and a packed one, of 8 bytes an item
    lists = 256  # parts of lines, pointers and increments: native/run.ll, block.ll, streaming.ll
    return _LEAST_BYTES + operands * (vectors + lists) + frame_bytes


def ensure(size_bytes: int) -> None:
    """Have at least so much set aside. Raises `MemoryError` where the system does not give it."""
    if _record[_BYTES] >= size_bytes:
        return
    from fuseline.runtime import native  # its code refers to the record above

    support = native.support()
    with _lock:
        if _record[_BYTES] >= size_bytes:
            return
        rounded = 1 << (size_bytes - 1).bit_length()
        try:
            memory = mmap.mmap(-1, rounded, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError) as error:
            raise MemoryError(f"no memory to set aside for compiled code: {rounded:,} bytes ({error})") from None
        _memory.append((memory, ctypes.c_char.from_buffer(memory)))
        set_aside = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(support.exports["fl_set_aside"])
        set_aside(ctypes.addressof(_memory[-1][1]), rounded)
        del _memory[:-1]


def _renew() -> None:
    """In a forked child: the thread that had it does not exist."""
    _record[_HOLDER] = _record[_TAKEN] = 0


own_symbols["fl_reserve"] = lambda: ctypes.addressof(_record)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
