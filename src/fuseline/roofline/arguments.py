"""What ``classify`` may be given together: arguments that contradict each other, or are no numbers, are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fuseline.errors import UnitError, UnknownNameError
from fuseline.units import SourceKind


def check_kind(peaks: str | None) -> None:
    """Refuses a kind of peak that does not exist."""
    if peaks is not None and peaks not in list(SourceKind):
        raise UnknownNameError(f"unknown kind of peak {peaks!r}; use one of {', '.join(SourceKind)}")


def check_sources(csv: Any, rows: Any, table: Any, cost: Any, size_given: bool, rates_given: bool) -> None:
    """Refuses arguments that contradict each other: a file, rows or a table bring their own shapes and rates."""
    whole = [name for name, value in (("csv", csv), ("rows", rows), ("table", table)) if value is not None]
    if len(whole) > 1:
        raise UnitError(f"{' and '.join(whole)} contradict each other: give one of them")
    if whole and (size_given or rates_given or cost is not None):
        what = "a shape" if size_given or cost is not None else "rates"
        raise UnitError(f"{whole[0]} brings its own shapes and rates: leave out {what}, or leave out {whole[0]}")
    if cost is not None and size_given:
        raise UnitError("a formula or cost brings its own sizes: leave out m, n, k and sizes")


def check_types(**given: tuple[Any, type | tuple[type, ...], str]) -> None:
    """Refuses arguments of another type than they are meant to have: ``name=(value, types, what is meant)``.

    ``None`` stands for an argument that was not given.
    """
    for name, (value, types, meant) in given.items():
        if value is not None and not isinstance(value, types):
            raise UnitError(f"{name} must be {meant}, not {value!r:.60}")


def dtype_name(dtype: Any) -> str | None:
    """A number format as text: names as they are, NumPy's types and formats by their name."""
    if dtype is None or isinstance(dtype, str):
        return dtype
    try:
        return str(np.dtype(dtype).name)
    except TypeError as error:
        raise UnitError(f"dtype must be a name as 'bf16', or a NumPy type, not {dtype!r:.60}") from error


def paths(files: Any) -> tuple[str | Path, ...]:
    """Device files as a tuple; a single path is one file."""
    if isinstance(files, (str, Path)):
        return (files,)
    try:
        found = tuple(files)
    except TypeError as error:
        raise UnitError(f"device_files must be paths, not {files!r:.60}") from error
    for path in found:
        check_types(device_files=(path, (str, Path), "paths"))
    return found


def one_number(name: str, value: Any) -> float:
    """One number; arrays, text and truth values are refused by name."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise UnitError(f"{name} must be one number, not {value!r:.60}")
    return float(value)
