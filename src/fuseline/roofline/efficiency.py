"""Estimates from measured efficiencies: the time limit of a shape over the share of it that real kernels reached.

An efficiency belongs to a device, an operation, a number format, a bound and a range of time limits; it is the median
over measured kernels, kept with its spread, number of samples and source. Where none exists there is no estimate.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cache
from importlib import resources

MIN_SAMPLES = 5
"""Fewer measured kernels than this make no efficiency."""

DECADES = (0.0, 1e-5, 1e-4, 1e-3, float("inf"))
"""The ranges of time limits, in seconds, that efficiencies are kept for: short kernels reach less."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Time limit over measured time: median, first and ninth decile, over ``samples`` kernels from ``basis``."""

    device: str
    operation: str
    dtype: str
    bound: str
    lower_s: float
    upper_s: float
    median: float
    low: float
    high: float
    samples: int
    basis: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated time in seconds with its range, and the efficiency that it rests on."""

    time_s: float
    shortest_s: float
    longest_s: float
    efficiency: Efficiency


@cache
def efficiencies() -> tuple[Efficiency, ...]:
    """All bundled efficiencies."""
    path = resources.files("fuseline.roofline") / "data" / "efficiency.csv"
    if not path.is_file():
        return ()
    found = []
    for cell in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))):
        found.append(
            Efficiency(
                device=cell["device"],
                operation=cell["operation"],
                dtype=cell["dtype"],
                bound=cell["bound"],
                lower_s=float(cell["lower_s"]),
                upper_s=float(cell["upper_s"]),
                median=float(cell["median"]),
                low=float(cell["low"]),
                high=float(cell["high"]),
                samples=int(cell["samples"]),
                basis=cell["basis"],
            )
        )
    return tuple(found)


def estimate(device: str, operation: str, dtype: str, bound: str, limit_s: float) -> Estimate | None:
    """The estimated time of a kernel whose limit is ``limit_s``; ``None`` where nothing comparable was measured."""
    for known in efficiencies():
        key = (known.device, known.operation, known.dtype, known.bound)
        if key == (device, operation, dtype, bound) and known.lower_s <= limit_s < known.upper_s:
            return Estimate(limit_s / known.median, limit_s / known.high, limit_s / known.low, known)
    return None
