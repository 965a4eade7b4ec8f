"""How the pages spell tables, sizes, threads and times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from fuseline.units import format_time

LARGE = 1 << 20
"""Fractions of the copy limit are shown from this size on; below it a call's overhead is most of the copy."""


def geometric_mean(values: Iterable[float]) -> float:
    """NaN of no values."""
    logs = [math.log(v) for v in values]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table whose first ``texts`` columns are text and whose others are figures."""
    rule = ["---"] * texts + ["---:"] * (len(heads) - texts)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *lines))


def threads(count: int) -> str:
    """The number of threads in words."""
    return "One thread" if count == 1 else f"{count} threads"


def size(n: int) -> str:
    """A number of elements; powers of two from 2^20 on as such."""
    power = n.bit_length() - 1
    return f"2^{power}" if n >= LARGE and n == 1 << power else f"{n:,}"


def time(seconds: float) -> str:
    """Three digits and a unit."""
    return format_time(seconds, digits=3)
