"""The C library that this process runs on, its mathematical part among it."""

from __future__ import annotations

import ctypes
from typing import Any

_FILES = (None, "libm.so.6", "libm.dylib")
"""What is loaded already, else the mathematical library by its file: not every interpreter is linked with it."""


def c_library_with(name: str, load: Any = ctypes.CDLL) -> Any:
    """The library that has the function ``name``, as ``load`` (`ctypes.CDLL` or `ctypes.PyDLL`) makes it, or None."""
    for file in _FILES:
        try:
            library = load(file)
        except OSError:
            continue
        if hasattr(library, name):
            return library
    return None
