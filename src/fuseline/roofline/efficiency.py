"""Estimates from measured efficiencies: the time limit of a shape over the share of it that real kernels reached.

An efficiency belongs to a device, an operation, a number format, a bound and a range of time limits; it is the median
over measured kernels, kept with its spread, number of samples and source. Where none exists there is no estimate.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
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
    """An estimated time in seconds with its range, and the efficiency that it rests on.

    ``comparable`` is false where no kernels of this bound and size were measured, and the efficiency is that of all
    kernels of the device, operation and format.
    """

    time_s: float
    shortest_s: float
    longest_s: float
    efficiency: Efficiency
    comparable: bool = True


@cache
def efficiencies() -> tuple[Efficiency, ...]:
    """All bundled efficiencies."""
    path = resources.files("fuseline.roofline") / "data" / "efficiency.csv"
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
    """The estimated time of a kernel whose limit is ``limit_s``.

    It rests on kernels of the same bound and decade of time, else on all of the device, operation and format together;
    ``None`` where there are none.
    """
    alike = [e for e in efficiencies() if (e.device, e.operation, e.dtype) == (device, operation, dtype)]
    if not alike:
        return None
    exact = [e for e in alike if e.bound == bound and e.lower_s <= limit_s < e.upper_s]
    known = exact[0] if exact else _pooled(alike)
    return Estimate(limit_s / known.median, limit_s / known.high, limit_s / known.low, known, bool(exact))


def _pooled(parts: list[Efficiency]) -> Efficiency:
    """All ``parts`` as one: the mean of the medians weighted by their samples, and the widest range."""
    samples = sum(part.samples for part in parts)
    return replace(
        parts[0],
        bound="",
        lower_s=min(part.lower_s for part in parts),
        upper_s=max(part.upper_s for part in parts),
        median=sum(part.median * part.samples for part in parts) / samples,
        low=min(part.low for part in parts),
        high=max(part.high for part in parts),
        samples=samples,
        basis="; ".join(dict.fromkeys(part.basis for part in parts)),
    )
