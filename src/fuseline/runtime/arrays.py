"""What native code knows of NumPy's arrays: their layout in memory, and the functions of NumPy's tables."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_NEW_FROM_DESCR, _SET_BASE_OBJECT = 94, 282
"""Positions in NumPy's table of array functions."""
FIRST_USER_TYPE = 256
"""NPY_USERDEF: types from this number on are other libraries', such as ml_dtypes' bfloat16."""


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


class _Descr(ctypes.Structure):
    """PyArray_Descr after PyObject_HEAD, as far as it is read."""

    _fields_ = [
        ("typeobj", ctypes.c_void_p),
        ("kind", ctypes.c_char),
        ("type", ctypes.c_char),
        ("byteorder", ctypes.c_char),
        ("former_flags", ctypes.c_char),
        ("type_num", ctypes.c_int),
    ]


@functools.cache
def is_known() -> bool:
    """Whether this NumPy's arrays and dtypes have the layout that native code reads."""
    swapped = "<" if sys.byteorder == "big" else ">"
    for dtype in (np.dtype(np.float32), np.dtype(np.int8), np.dtype(f"{swapped}f8")):
        descr = _Descr.from_address(id(dtype) + object.__basicsize__)
        if (descr.byteorder.decode(), descr.type_num) != (dtype.byteorder, dtype.num):
            return False
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
def scalars_are_known() -> bool:
    """Whether the element of a NumPy scalar follows PyObject_HEAD."""
    samples: list[Any] = [np.float64(2.5), np.float32(1.5), np.float16(3.5), np.bool_(True)]
    samples += [np.dtype(kind).type(77) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
    return all(ctypes.string_at(id(s) + object.__basicsize__, s.dtype.itemsize) == s.tobytes() for s in samples)


@functools.cache
def numpy_function(table: Literal["_ARRAY_API", "_UFUNC_API"], position: int) -> int:
    """Address of the function at ``position`` of one of NumPy's tables; positions are its stable binary interface."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]  # its stub does not list it

    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    start = get(getattr(_multiarray_umath, table), None)
    return ctypes.c_void_p.from_address(start + position * ctypes.sizeof(ctypes.c_void_p)).value or 0


def new_from_descr() -> int:
    """Address of PyArray_NewFromDescr."""
    return numpy_function("_ARRAY_API", _NEW_FROM_DESCR)


def set_base_object() -> int:
    """Address of PyArray_SetBaseObject."""
    return numpy_function("_ARRAY_API", _SET_BASE_OBJECT)


def _slow_data_address(a: Array) -> int:
    return a.ctypes.data


def _field_data_address(
    a: Array, _at: Callable[[int], Any] = ctypes.c_int64.from_address, _head_bytes: int = object.__basicsize__
) -> int:
    """The field ``data``, the first of PyArrayObject after PyObject_HEAD (numpy/ndarraytypes.h)."""
    address: int = _at(id(a) + _head_bytes).value
    return address


def _choose_data_address() -> Callable[[Array], int]:
    samples: list[Array] = [np.zeros(3), np.zeros((4, 4))[1:, ::2]]
    fits = all(_field_data_address(a) == _slow_data_address(a) for a in samples)
    return _field_data_address if fits else _slow_data_address


data_address = _choose_data_address()
"""Address of an array's first element."""
