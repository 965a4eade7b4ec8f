"""The floating-point environment in which programs become code: rounding to nearest, subnormals kept, nothing trapped.

A thread may round in another direction or flush subnormals to zero, because a library around it does. Constants,
folded numbers and generated text must not depend on that: they are kept, in memory and on disk, for all callers.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from fuseline.c_library import c_library_with

_ROOM_BYTES = 64
"""More than any platform's `fenv_t`: 32 bytes on x86-64, 8 on AArch64."""


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def in_default_environment(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Decorator: the function works in C's default floating-point environment; then the thread's own modes and flags
    are back.

    No context manager: an interrupt on the way into one or out of it would leave the thread in the wrong environment.
    """

    @functools.wraps(function)
    def inside(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        get, put, default = _functions()
        saved = ctypes.create_string_buffer(_ROOM_BYTES)
        get(saved)
        try:
            put(default)
            return function(*args, **kwargs)
        finally:
            put(saved)

    return inside


@functools.cache
def _functions() -> tuple[Any, Any, ctypes.c_void_p]:
    """C99's fegetenv and fesetenv, and what <fenv.h> calls FE_DFL_ENV. They do not give up the interpreter's lock."""
    library = c_library_with("fegetenv", ctypes.PyDLL)
    get, put = library.fegetenv, library.fesetenv
    get.argtypes = put.argtypes = [ctypes.c_void_p]
    if sys.platform == "darwin":
        return get, put, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV")))
    return get, put, ctypes.c_void_p(-1)
