"""A builtin function in front of a Python one: small calls with operands like the last ones skip Python altogether.

`FastCall.function` is what native/call.ll describes. It is made only where NumPy's arrays are laid out as its header
says; elsewhere callers keep their Python function.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import native
from .loop import Loop

_METH_FASTCALL, _METH_KEYWORDS = 0x80, 0x02
_DIRECT_ITEMS = 1 << 10
"""Most elements that are computed with the interpreter's lock held."""
_NEW_FROM_DESCR = 94  # position in NumPy's table of array functions, part of its stable binary interface
_OUT = sys.intern("out")  # names of keyword arguments in calls are interned


class _MethodDef(ctypes.Structure):
    """PyMethodDef of Python's C API."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Array(ctypes.Structure):
    """PyArrayObject after PyObject_HEAD (numpy/ndarraytypes.h)."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("nd", ctypes.c_int),
        ("dimensions", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    ]


@functools.cache
def is_available() -> bool:
    """Whether this NumPy's arrays have the layout that native code reads."""
    for sample in (np.zeros((3, 5), np.float32), np.zeros(7, np.int8)[::2], np.zeros(())):
        head = _Array.from_address(id(sample) + object.__basicsize__)
        known = (head.data, head.nd, head.descr, head.flags)
        if known != (sample.ctypes.data, sample.ndim, id(sample.dtype), sample.flags.num):
            return False
        if (
            tuple(head.dimensions[: sample.ndim]) != sample.shape
            or tuple(head.strides[: sample.ndim]) != sample.strides
        ):
            return False
    type_field = ctypes.c_void_p.from_address(id(sample) + object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p))
    return type_field.value == id(np.ndarray)


@functools.cache
def _method() -> _MethodDef:
    entry = native.support().exports["fl_call"]
    doc = (
        b"kernel(*operands, out=None, **named_operands)\n--\n\n"
        b"Call the kernel on arrays that broadcast; out= takes an array, or a tuple with one for each output."
    )
    return _MethodDef(b"kernel", entry, _METH_FASTCALL | _METH_KEYWORDS, doc)


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


@functools.cache
def _new_array() -> int:
    """Address of PyArray_NewFromDescr."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = (ctypes.c_void_p * (_NEW_FROM_DESCR + 1)).from_address(get(_multiarray_umath._ARRAY_API, None))
    return table[_NEW_FROM_DESCR] or 0


class FastCall:
    """Owns the memory behind one such function.

    Args:
        slow: the Python function that takes every call which is not of the remembered kind.
        few_rows: most rows of operands that are not all contiguous and of one shape; 0 where shapes must be equal.
        single: whether there is one output, so that ``out`` is an array and not a tuple.
    """

    def __init__(self, slow: Callable[..., Any], few_rows: int, single: bool) -> None:
        self._few_rows = few_rows
        out_type = np.ndarray if single else tuple
        fields = (
            None,
            id(slow),
            id(np.ndarray),
            object.__basicsize__,
            id(_OUT),
            id(out_type),
            id(ValueError),
            _new_array(),
        )
        self._caller = (ctypes.c_void_p * len(fields))(*fields)
        self._entries: dict[tuple[np.dtype[Any], ...], tuple[Any, ...]] = {}
        capsule = _new_capsule(ctypes.addressof(self._caller), None, None)
        self.function: Callable[..., Any] = _new_function(
            ctypes.addressof(_method()), (capsule, slow, self._caller, self._entries), None
        )
        """Keeps alive everything it needs, this object not."""

    def remember(self, loop: Loop, ufunc: np.ufunc, small_items: int, wrap: Callable[[Any], Any] | None) -> None:
        """Send calls of at most ``small_items`` elements with operands of exactly the dtypes of ``loop`` to it, or to
        ``ufunc``, which has it alone.

        ``wrap`` makes the result of a tuple of several outputs.

        An entry is never changed or freed while the function lives: another thread may be reading it.
        """
        dtypes = loop.inputs
        known = self._entries.get(dtypes)
        if known is None:
            wrap_address = id(wrap) if wrap is not None else None
            int_type, float_type = _standing_for(dtypes)
            head = [id(ufunc), wrap_address, len(dtypes), small_items, self._few_rows, int_type, float_type]
            head += [_DIRECT_ITEMS, loop.record_address]
            fields = [*head, *map(id, loop.inputs + loop.outputs)]
            known = ((ctypes.c_void_p * len(fields))(*fields), dtypes, ufunc, wrap, loop)
            known = self._entries.setdefault(dtypes, known)
        native.publish(ctypes.addressof(self._caller), ctypes.addressof(known[0]))


def _standing_for(dtypes: tuple[np.dtype[Any], ...]) -> tuple[int | None, int | None]:
    """Addresses of int and float where a Python number beside arrays of these dtypes takes their dtype (NEP 50)."""
    first = dtypes[0]
    if any(d != first for d in dtypes) or first.kind not in "iuf":
        return None, None
    return id(int), id(float) if first.kind == "f" else None
