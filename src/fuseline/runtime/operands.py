"""What callers give for operands: arrays, Python's numbers, or values of libraries that decide for themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import NumberRangeError, TypeRuleError
from .arrays import FIRST_USER_TYPE

Array = NDArray[Any]
DTypes = tuple[np.dtype[Any], ...]

_WEAK_TYPES = (bool, int, float)
"""Python numbers take the dtype of the arrays they meet (NEP 50)."""


def speaks_for_itself(value: Any) -> bool:
    """Whether NumPy's ufunc protocol should handle the call: array types of other libraries, subclasses of ndarray."""
    kind = type(value)
    if kind is np.ndarray or isinstance(value, (np.generic, *_WEAK_TYPES)):
        return False
    return hasattr(kind, "__array_ufunc__")


def _check_number(dtype: np.dtype[Any], name: str) -> None:
    """Refuse text, dates, objects and structures by name, before NumPy is asked to promote them."""
    if dtype.hasobject or (dtype.kind in "SUVmM" and dtype.num < FIRST_USER_TYPE):
        raise TypeRuleError(f"the input {name} has dtype {dtype}; compiled kernels take numbers")


def _number_array(value: Any, dtypes: Sequence[np.dtype[Any]], name: str) -> Array:
    """A Python number in the dtype that the arrays beside it call for (NEP 50)."""
    try:
        made = np.asarray(value, _dtype_beside(dtypes, value))
    except OverflowError:
        shown = f"the number {value}" if abs(value) < 10**20 else f"a number of {value.bit_length()} bits"
        raise NumberRangeError(f"the input {name}: {shown} does not fit {np.result_type(*dtypes, 0)}") from None
    _check_number(made.dtype, name)
    return made


def _dtype_beside(dtypes: Sequence[np.dtype[Any]], value: Any) -> np.dtype[Any] | None:
    """NumPy's answer; floats of ml_dtypes, beside which NumPy makes a Python float 64 bits wide, count as its own."""
    if not dtypes:
        return None
    common = np.result_type(*dtypes)
    return common if common.num >= FIRST_USER_TYPE else np.result_type(*dtypes, value)


def as_arrays(values: Sequence[Any], names: Sequence[str]) -> tuple[list[Array], DTypes]:
    """Arrays in native byte order, and their dtypes; Python numbers take the dtype of the arrays."""
    strong = [v if type(v) in _WEAK_TYPES else np.asarray(v) for v in values]
    for value, name in zip(strong, names, strict=True):
        if isinstance(value, np.ndarray):
            _check_number(value.dtype, name)
    arrays: list[Array] = []
    for value, name in zip(strong, names, strict=True):
        if not isinstance(value, np.ndarray):
            dtypes = [v.dtype for v in strong if isinstance(v, np.ndarray)]
            value = _number_array(value, dtypes, name)
        arrays.append(value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("=")))
    return arrays, tuple([a.dtype for a in arrays])
