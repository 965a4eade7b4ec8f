"""What callers give for operands: arrays, Python's numbers, or values of libraries that decide for themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuseline.errors import NumberRangeError, TypeRuleError, named_number, shown_number
from fuseline.ir.dtype import DType
from fuseline.runtime.arrays import FIRST_USER_TYPE

Array = NDArray[Any]
DTypes = tuple[np.dtype[Any], ...]


@dataclass(frozen=True, slots=True)
class WeakDType:
    """What a Python number is passed as where arrays of several dtypes are beside it: each operation converts it."""

    dtype: np.dtype[Any]


OperandTypes = tuple[np.dtype[Any] | WeakDType, ...]

_WEAK_TYPES = (bool, int, float)
"""Python numbers take the dtype of the arrays they meet (NEP 50)."""


def speaks_for_itself(value: Any) -> bool:
    """Whether NumPy's ufunc protocol should handle the call: array types of other libraries, subclasses of ndarray.

    NumPy computes plain arrays of memory maps, and so they are arrays here.
    """
    kind = type(value)
    if kind is np.ndarray or kind is np.memmap or isinstance(value, (np.generic, *_WEAK_TYPES)):
        return False
    return hasattr(kind, "__array_ufunc__")


def _is_number(dtype: np.dtype[Any]) -> bool:
    return not dtype.hasobject and (dtype.kind not in "SUVmM" or dtype.num >= FIRST_USER_TYPE)


def _check_number(dtype: np.dtype[Any], name: str) -> None:
    """Refuse text, dates, objects and structures by name, before NumPy is asked to promote them."""
    if not _is_number(dtype):
        raise TypeRuleError(f"the input {name} has dtype {dtype}; compiled kernels take numbers")


def _number_array(value: Any, dtype: np.dtype[Any] | None, name: str) -> Array:
    """A Python number as an array of no axes, of NumPy's default dtype when ``dtype`` is None."""
    try:
        if dtype is not None and dtype.num >= FIRST_USER_TYPE and abs(value) >= 2**63:
            value = float(value)  # floats of ml_dtypes take no longer integers
        made = np.asarray(value, dtype)
    except OverflowError:
        raise NumberRangeError(f"the input {name}: {named_number(value)} does not fit {dtype}") from None
    _check_number(made.dtype, name)
    return made


def _declared_dtype(value: Any, declared: DType, name: str) -> np.dtype[Any]:
    """The dtype that a Python number takes for an input of a declared one: a weak number fits every dtype of its kind
    and of wider kinds."""
    needed = _WEAK_TYPES.index(type(value))
    if needed > (0 if declared.kind == "bool" else 1 if declared.is_integer else 2):
        raise TypeRuleError(f"the input {name} is declared {declared}, which {named_number(value)} is not")
    return declared.numpy


def _with_numbers(
    values: Sequence[Any], names: Sequence[str], declared: Sequence[DType | None]
) -> tuple[list[Any], OperandTypes]:
    """Python numbers as arrays, and what each operand is passed as.

    A number takes the declared dtype, or that of the arrays beside it, or, where these differ, one in each operation
    (NEP 50).
    """
    weak = [type(v) in _WEAK_TYPES for v in values]
    if not any(weak):
        return list(values), tuple([v.dtype.newbyteorder("=") for v in values])
    stated = [
        (_declared_dtype(v, d, name) if d is not None else None) if is_weak else v.dtype.newbyteorder("=")
        for v, d, name, is_weak in zip(values, declared, names, weak, strict=True)
    ]
    dtypes = [dtype for dtype in stated if dtype is not None]
    several = len(set(dtypes)) > 1
    arrays: list[Any] = []
    types: list[np.dtype[Any] | WeakDType] = []
    for v, dtype, name, is_weak in zip(values, stated, names, weak, strict=True):
        wide = _wide(v) if is_weak and dtype is None and several else None
        if wide is not None:
            arrays.append(np.asarray(v, wide))
            types.append(WeakDType(wide))
            continue
        arrays.append(_number_array(v, dtype or _dtype_beside(dtypes, v), name) if is_weak else v)
        types.append(arrays[-1].dtype.newbyteorder("="))
    return arrays, tuple(types)


def long_integers(
    values: Sequence[Any], names: Sequence[str], declared: Sequence[DType | None]
) -> dict[str, int] | None:
    """The Python integers that have no dtype before they meet others, by the names of their inputs; None without any.

    Where no array is beside them these are those beyond int64, and beside arrays of several dtypes those beyond 64
    bits. Beside one dtype every number takes it. Raises `NumberRangeError` for one that no float holds either.
    """
    if not any(type(v) is int and not -(2**63) <= v < 2**63 for v in values):
        return None
    weak = [type(v) in _WEAK_TYPES and d is None for v, d in zip(values, declared, strict=True)]
    beside = {
        d.numpy if d is not None else np.asarray(v).dtype.newbyteorder("=")
        for v, d, is_weak in zip(values, declared, weak, strict=True)
        if not is_weak
    }
    if len(beside) == 1:
        return None
    found = {
        name: v
        for v, name, is_weak in zip(values, names, weak, strict=True)
        if is_weak and type(v) is int and (_wide(v) is None if beside else not -(2**63) <= v < 2**63)
    }
    for name, number in found.items():
        if number.bit_length() > _MOST_FLOAT_BITS:
            raise NumberRangeError(f"the input {name}: {named_number(number)} does not fit float64")
    return found or None


_MOST_FLOAT_BITS = 1023


def out_of_range(long: Mapping[str, int]) -> NumberRangeError:
    """What is raised where one of `long_integers` meets integers in more than a comparison."""
    name, number = next(iter(long.items()))
    scalar = f", or NumPy's scalar, as in np.uint64({number})" if 0 < number < 2**64 else ""
    return NumberRangeError(
        f"the input {name} is {shown_number(number)}, which the integers that it meets cannot hold (those of a call "
        f"without arrays are int64); give a float{scalar}"
    )


def _wide(number: Any) -> np.dtype[Any] | None:
    """What a Python number is passed as before it meets an array; None for an integer that no dtype holds."""
    if type(number) is int and not -(2**63) <= number < 2**63:
        return np.dtype(np.uint64) if 0 <= number < 2**64 else None
    return _WIDE[type(number)]


_WIDE = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64)}


def _dtype_beside(dtypes: Sequence[np.dtype[Any]], value: Any) -> np.dtype[Any] | None:
    """NumPy's answer; floats of ml_dtypes, beside which NumPy makes a Python float 64 bits wide, count as its own."""
    if not dtypes:
        return None
    common = np.result_type(*dtypes)
    return common if common.num >= FIRST_USER_TYPE else np.result_type(*dtypes, value)


def as_arrays(
    values: Sequence[Any], names: Sequence[str], declared: Sequence[DType | None]
) -> tuple[list[Array], OperandTypes]:
    """Arrays in native byte order, and what they are passed as; see `_with_numbers` for Python numbers."""
    strong = [v if type(v) in _WEAK_TYPES else np.asarray(v) for v in values]
    for value, name in zip(strong, names, strict=True):
        if isinstance(value, np.ndarray):
            _check_number(value.dtype, name)
    made, types = _with_numbers(strong, names, declared)
    arrays: list[Array] = [a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("=")) for a in made]
    return arrays, types


def protocol_operands(
    values: Sequence[Any], names: Sequence[str], declared: Sequence[DType | None]
) -> tuple[list[Any], OperandTypes] | None:
    """Operands for NumPy's ufunc protocol, numbers made NumPy's scalars, and what they are passed as.

    None where one of them does not say that it has a dtype of numbers.
    """
    given = [v if type(v) in _WEAK_TYPES or speaks_for_itself(v) else np.asarray(v) for v in values]
    for value in given:
        dtype = getattr(value, "dtype", None)
        if type(value) not in _WEAK_TYPES and not (isinstance(dtype, np.dtype) and _is_number(dtype)):
            return None
    typed, types = _with_numbers(given, names, declared)
    operands = [t[()] if type(v) in _WEAK_TYPES else v for v, t in zip(given, typed, strict=True)]
    return operands, types
