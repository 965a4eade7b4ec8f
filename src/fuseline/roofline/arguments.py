"""What ``classify`` may be given together: arguments that contradict each other, or are no numbers, are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuseline.errors import UnitError, UnknownNameError, UsageError, shown_number
from fuseline.units import SourceKind


def check_kind(peaks: str | None) -> None:
    """Refuses a kind of peak that does not exist."""
    if peaks is not None and peaks not in list(SourceKind):
        raise UnknownNameError(f"unknown kind of peak {peaks!r}; use one of {', '.join(SourceKind)}")


def is_given(*groups: Mapping[str, Any]) -> bool:
    """Whether any argument of these groups has a value; an empty mapping or text has none."""
    return bool(names_given(*groups))


def names_given(*groups: Mapping[str, Any]) -> list[str]:
    """The names of the arguments of these groups that have a value."""
    return [name for group in groups for name, value in group.items() if value is not None and not _is_empty(value)]


def _is_empty(value: Any) -> bool:
    return isinstance(value, (str, Mapping)) and not value


def check_together(
    whole: Mapping[str, Any],
    cost: Any,
    size: Mapping[str, Any],
    rates: Mapping[str, Any],
    of_rates: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> None:
    """Refuses arguments that contradict each other, and those that the others leave without effect.

    ``whole`` are files, rows and tables, which bring their own shapes and rates; ``of_rates`` says more about
    ``rates``, and ``wanted`` what the kernel is.
    """
    sources = names_given(whole)
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} contradict each other: give one of them")
    about_rates = names_given(of_rates)
    if sources:
        shape, measured = is_given(size) or cost is not None, is_given(rates) or "waves" in about_rates
        # A file may leave out the number format, the other sources cannot.
        own = [name for name in (*about_rates, *names_given(wanted)) if (sources[0], name) != ("csv", "dtype")]
        if shape or measured or own:
            what = "a shape" if shape else "rates" if measured else " and ".join(own)
            raise UsageError(
                f"{sources[0]} brings its own shapes and rates: leave out {what}, or leave out {sources[0]}"
            )
    if cost is not None and is_given(size):
        raise UsageError("a formula or cost brings its own sizes: leave out m, n, k and sizes")
    if cost is not None and is_given({"operation": wanted["operation"]}):
        raise UsageError("a formula or cost is an operation of its own: leave out the operation")
    if rates["latency_us"] is not None and rates["latency_s"] is not None:
        raise UsageError("latency_us and latency_s are the same time twice: give one of them")
    if about_rates and not is_given(rates):
        names = " and ".join(about_rates)
        raise UsageError(f"without measured rates {names} has no meaning: give tflops, gbps, pipes or a latency")


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
        if not isinstance(path, (str, Path)):
            raise UnitError(f"device_files must be paths, not {path!r:.60}")
    return found


def one_number(name: str, value: Any) -> float:
    """One number; arrays, text and truth values are refused by name."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise UnitError(f"{name} must be one number, not {value!r:.60}")
    try:
        return float(value)
    except OverflowError:
        raise UnitError(f"{name} must be a number that a float64 holds, not {shown_number(value)}") from None
