"""Estimates from measured kernels: how long kernels took whose time limits are near a shape's own.

For a device, an operation, a number format and a side (*memory* or *compute*) the measured kernels make a **curve**:
points of a time limit, the share of it that kernels reached, and between points a straight line in the logarithms of
limit and time. A shape has a time on each curve, and the longer one is its estimate, but no kernel takes less than the
**floor**: what the smallest measured kernels took, or where only large ones were measured a prior of small kernels. So
the estimate is continuous and never falls as the limit grows. Where nothing was measured there is none.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

MIN_SAMPLES = 5
"""Fewer measured kernels than this make no point."""

FLOOR_SHARE = 0.5
"""Kernels that reach less than this share of their limit spend most of their time on what is no work: their floor."""

Times = tuple[float, float, float]
"""Median, 5th and 95th percentile, in seconds."""

PRIOR_FLOOR_S: Times = (math.sqrt(2.5e-6 * 8e-6), 2.5e-6, 8e-6)
"""What a small kernel takes whatever it computes, where none was measured; the middle is the geometric mean."""

PRIOR_BASIS = "small kernels of H100, H200, A100 and L40S in ai-dynamo/aiconfigurator@095f58a51c4c"


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A point of a curve: how long kernels with limits from ``lower_s`` to ``upper_s`` took at ``limit_s``.

    ``median_s``, ``shortest_s`` and ``longest_s`` are the median, the 5th and the 95th percentile of ``samples``
    kernels from ``basis``.
    """

    device: str
    operation: str
    dtype: str
    bound: str
    limit_s: float
    lower_s: float
    upper_s: float
    median_s: float
    shortest_s: float
    longest_s: float
    samples: int
    basis: str

    @property
    def times_s(self) -> Times:
        """The three times at ``limit_s``."""
        return self.median_s, self.shortest_s, self.longest_s

    @property
    def share(self) -> float:
        """The limit over the median time."""
        return self.limit_s / self.median_s


class RestsOn(StrEnum):
    """What an estimate rests on."""

    ALIKE = "kernels alike"
    SMALLEST = "the smallest kernels"
    OTHER = "kernels of other sizes"
    PRIOR = "a prior"


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated time in seconds, and the times that one in twenty comparable kernels falls below and exceeds.

    ``efficiency`` is the limit over the time. ``samples`` is the number of kernels at the points of the curve beside
    the shape, 0 for a prior.
    """

    time_s: float
    shortest_s: float
    longest_s: float
    efficiency: float
    samples: int
    basis: str
    rests_on: RestsOn

    @property
    def comparable(self) -> bool:
        """Whether kernels of this bound and size were measured."""
        return self.rests_on is RestsOn.ALIKE


Curve = Sequence[Efficiency]
Curves = Mapping[tuple[str, str, str], Mapping[str, Curve]]
"""By device, operation and format; then by *memory* and *compute*; points by their limits."""


def curves_of(points: Sequence[Efficiency]) -> Curves:
    """Points as curves."""
    found: dict[tuple[str, str, str], dict[str, list[Efficiency]]] = {}
    for point in sorted(points, key=lambda p: p.limit_s):
        sides = found.setdefault((point.device, point.operation, point.dtype), {})
        sides.setdefault(point.bound, []).append(point)
    return found


@cache
def efficiencies() -> tuple[Efficiency, ...]:
    """All bundled points."""
    path = resources.files("fuseline.roofline") / "data" / "efficiency.csv"
    return tuple(
        Efficiency(
            device=cell["device"],
            operation=cell["operation"],
            dtype=cell["dtype"],
            bound=cell["bound"],
            limit_s=float(cell["limit_s"]),
            lower_s=float(cell["lower_s"]),
            upper_s=float(cell["upper_s"]),
            median_s=float(cell["median_s"]),
            shortest_s=float(cell["shortest_s"]),
            longest_s=float(cell["longest_s"]),
            samples=int(cell["samples"]),
            basis=cell["basis"],
        )
        for cell in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    )


@cache
def _bundled() -> Curves:
    return curves_of(efficiencies())


def estimate(
    device: str, operation: str, dtype: str, memory_s: float, compute_s: float, curves: Curves | None = None
) -> Estimate | None:
    """The estimated time of a kernel whose bytes take at least ``memory_s`` and whose arithmetic ``compute_s``.

    A side without a curve takes the other's. ``None`` where no kernel of the device, operation and format was measured,
    and for a shape that does nothing. ``curves`` are the bundled ones unless given.
    """
    sides = (_bundled() if curves is None else curves).get((device, operation, dtype))
    limit = max(memory_s, compute_s)
    if not sides or limit <= 0:
        return None
    found = [_on_curve(sides, "memory", memory_s), _on_curve(sides, "compute", compute_s), _floor(sides)]
    times = [max(found, key=lambda one: one[0][i])[0][i] for i in range(3)]
    _, samples, basis, rests_on = max(found[:2], key=lambda one: one[0][0])
    if found[2][0][0] >= times[0] and rests_on is not RestsOn.ALIKE:
        _, samples, basis, rests_on = found[2]
    median, shortest, longest = times
    return Estimate(median, shortest, longest, limit / median, samples, basis, rests_on)


_Found = tuple[Times, int, str, RestsOn]


def _on_curve(sides: Mapping[str, Curve], side: str, limit_s: float) -> _Found:
    """The times at ``limit_s`` on the curve of ``side``; beyond its ends kernels reach the share of its last point."""
    own = sides.get(side)
    curve = own or next(iter(sides.values()))
    after = next((i for i, point in enumerate(curve) if point.limit_s >= limit_s), len(curve))
    beside = curve[max(after - 1, 0) : after + 1]
    alike = own is not None and curve[0].lower_s <= limit_s <= curve[-1].upper_s
    if limit_s <= 0:
        times: Times = (0.0, 0.0, 0.0)
    elif len(beside) == 1 or limit_s == beside[-1].limit_s:
        a, b, c = (t * limit_s / beside[-1].limit_s for t in beside[-1].times_s)
        times = a, b, c
    else:
        first, second = beside
        share = math.log(limit_s / first.limit_s) / math.log(second.limit_s / first.limit_s)
        a, b, c = (t * (u / t) ** share for t, u in zip(first.times_s, second.times_s, strict=True))
        times = a, b, c
    basis = "; ".join(dict.fromkeys(point.basis for point in beside))
    return times, sum(point.samples for point in beside), basis, RestsOn.ALIKE if alike else RestsOn.OTHER


def _floor(sides: Mapping[str, Curve]) -> _Found:
    """What no kernel falls below: the smallest measured ones where these were mostly waiting, else the prior."""
    smallest = [curve[0] for curve in sides.values() if curve[0].share < FLOOR_SHARE]
    if not smallest:
        return PRIOR_FLOOR_S, 0, PRIOR_BASIS, RestsOn.PRIOR
    point = min(smallest, key=lambda p: p.times_s)
    return point.times_s, point.samples, point.basis, RestsOn.SMALLEST
