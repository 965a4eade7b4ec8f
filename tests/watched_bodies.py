"""Watching a compiled loop at work: what its body is called with, while it computes as ever."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from fuseline.runtime.loop import Loop

Array = NDArray[Any]
Pass = tuple[int, int, bool]
"""Vectors and flags of a call of the body, and whether it wrote to the outputs directly."""


@contextmanager
def watched(loop: Loop, inputs: int, outputs: Sequence[Array]) -> Iterator[list[Pass]]:
    """The calls of the body of ``loop``, which has so many ``inputs``, in the order in which they are made."""
    body = loop.body()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    compiled, found = kind(body.address), []
    bounds = [(o.ctypes.data, o.ctypes.data + o.nbytes) for o in outputs]

    def noted(operands: int, increments: int, vectors: int, flags: int) -> None:
        addresses = (ctypes.c_size_t * loop.operand_count).from_address(operands)[inputs:]
        direct = all(low <= a < high for a, (low, high) in zip(addresses, bounds, strict=True))
        found.append((vectors, flags, direct))
        compiled(operands, increments, vectors, flags)

    callback = kind(noted)
    place = ctypes.c_void_p.from_address(loop.record_address)
    before, place.value = place.value, ctypes.cast(callback, ctypes.c_void_p).value
    try:
        yield found
    finally:
        place.value = before
