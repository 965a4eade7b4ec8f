"""Writes ``src/fuseline/roofline/data/efficiency.csv``: how much of their time limit measured kernels reached.

    python tools/calibrate_efficiency.py KERNELS.csv[.gz] > src/fuseline/roofline/data/efficiency.csv
    python tools/calibrate_efficiency.py --check KERNELS.csv[.gz]      # share of held-out kernels within the range

``KERNELS.csv`` has the columns ``op,device,dtype,kernel,m,n,k,batch,isl,past,heads,kv_heads,head_dim,window,
latency_ms,source`` of NVIDIA aiconfigurator's collected kernel tables (Apache-2.0). The bundled tables are added to it.
The kernels of a device, operation, format and side (the longer of memory and compute) are cut by their time limits into
groups of at least ten that span half an octave (of five where there are fewer than thirty). Each group is a point of
the curve: a line through it in the logarithms gives the median and the 5th and 95th percentile at its middle, and over
the points times are made to rise with the limit.

Left out: ``fp8_block`` products, whose small sizes measure the collector and not the kernel; decode attention, whose
rows beat the memory's peak as their columns read; and every group whose 95th percentile beats the time limit, as
kernels that run from cache do. Where several kernels did the same, the one with the most samples stands.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fuseline.cost.shape_cost import ShapeCost
from fuseline.cost.shapes import attention_prefill, gemm
from fuseline.errors import FuselineError
from fuseline.machine import Device, device
from fuseline.machine.dtypes import canonical_dtype
from fuseline.roofline.efficiency import MIN_SAMPLES, Efficiency, curves_of, estimate
from fuseline.roofline.rules import IMPOSSIBLE_RATIO
from fuseline.roofline.shape import analyse
from fuseline.roofline.tables import bundled_rows

GEMM_KERNELS = {"bfloat16": "torch.nn.functional.linear", "fp8": "CutlassFP8ScaledMMLinearKernel"}
POINT_SAMPLES, POINT_SPAN = 10, 2**0.5
"""How many kernels make a point at least, and by which factor their limits differ; few kernels make smaller points."""
FOLDS = 5
Sample = tuple[Device, str, str, ShapeCost, float, str]


class Kernel(NamedTuple):
    """A measured kernel: what curve it belongs to, the limits of both sides, its time, and the fold it is held out
    in, which all kernels of the same sizes but m (or batch) share."""

    key: tuple[str, str, str]
    memory_s: float
    compute_s: float
    seconds: float
    basis: str
    fold: int

    @property
    def bound(self) -> str:
        """The longer side."""
        return "memory" if self.memory_s >= self.compute_s else "compute"

    @property
    def limit_s(self) -> float:
        """The time limit."""
        return max(self.memory_s, self.compute_s)


def kernel_samples(path: str) -> Iterator[Sample]:
    """Device, operation, format, cost, seconds and basis of each usable kernel of the file."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            found = _cost(row)
            if found is not None:
                operation, cost = found
                basis = f"{row['source'].split(':')[0]} ({row['kernel']})"
                seconds = float(row["latency_ms"]) / 1e3
                yield device(row["device"]), operation, canonical_dtype(row["dtype"]), cost, seconds, basis


def _cost(row: dict[str, str]) -> tuple[str, ShapeCost] | None:
    def size(name: str) -> int:
        return int(float(row[name]))

    operation = row["op"]
    if operation == "gemm" and row["kernel"] == GEMM_KERNELS.get(row["dtype"]):
        return "gemm", gemm(size("m"), size("n"), size("k"), row["dtype"])
    if operation == "context_attention" and size("window") == 0 and size("past") == 0:
        heads, kv = size("heads"), size("kv_heads")
        cost = attention_prefill(size("batch"), size("isl"), heads, kv, size("head_dim"), dtype=row["dtype"])
        return "attention-prefill", cost
    return None


def table_samples() -> Iterator[Sample]:
    """The products of the bundled tables that state their time."""
    for name in ("ascend", "deepgemm"):
        for row in bundled_rows(name):
            cost = row.cost()
            if cost is None or row.latency_s is None or not row.device or row.operation not in ("gemm", "grouped-gemm"):
                continue
            basis = row.source.split(",", maxsplit=1)[0]
            yield device(row.device), row.operation, row.dtype, cost, row.latency_s, basis


def measured(path: str) -> list[Kernel]:
    """All usable kernels of the file and the bundled tables, with their limits."""
    found = []
    folds: dict[tuple[object, ...], int] = {}
    for samples in (kernel_samples(path), table_samples()):
        for machine, operation, dtype, cost, seconds, basis in samples:
            try:
                limits = analyse(cost, machine)
            except FuselineError:
                continue
            alike = (operation, *[v for name, v in cost.sizes.items() if name not in ("m", "batch")])
            fold = folds.setdefault(alike, len(folds) % FOLDS)
            compute = max(float(pipe.time_s) for pipe in limits.pipes)
            key = (machine.name, operation, dtype)
            found.append(Kernel(key, float(limits.memory_time_s), compute, seconds, basis, fold))
    return found


def fitted(kernels: Sequence[Kernel]) -> list[Efficiency]:
    """The points of all curves."""
    groups: dict[tuple[str, ...], dict[str, list[Kernel]]] = defaultdict(lambda: defaultdict(list))
    for kernel in kernels:
        groups[*kernel.key, kernel.bound][kernel.basis].append(kernel)
    points = []
    for key in sorted(groups):
        basis, same = max(groups[key].items(), key=lambda item: (len(item[1]), item[0]))
        curve = [_point(key, basis, part) for part in _parts(sorted(same, key=lambda kernel: kernel.limit_s))]
        points += _rising([point for point in curve if point.limit_s <= IMPOSSIBLE_RATIO * point.shortest_s])
    return points


def _parts(kernels: Sequence[Kernel]) -> list[Sequence[Kernel]]:
    """Kernels in the order of their limits, cut into groups; none with equal limits are cut apart."""
    cuts, fewest = [0], max(MIN_SAMPLES, min(POINT_SAMPLES, len(kernels) // 3))
    for i in range(1, len(kernels)):
        first, here, before = kernels[cuts[-1]].limit_s, kernels[i].limit_s, kernels[i - 1].limit_s
        if i - cuts[-1] >= fewest and here > before and before >= POINT_SPAN * first:
            cuts.append(i)
    if len(cuts) > 1 and len(kernels) - cuts[-1] < fewest:
        cuts.pop()
    parts = [kernels[a:b] for a, b in zip(cuts, [*cuts[1:], len(kernels)], strict=True)]
    return [part for part in parts if len(part) >= MIN_SAMPLES]


def _point(key: tuple[str, ...], basis: str, part: Sequence[Kernel]) -> Efficiency:
    """The median, 5th and 95th percentile of a group, at the middle of its limits on a line through it."""
    limits, times = (np.log([getattr(kernel, name) for kernel in part]) for name in ("limit_s", "seconds"))
    middle = float(limits[0] + limits[-1]) / 2
    slope = float(np.clip(np.polyfit(limits, times, 1)[0], 0, 1)) if np.ptp(limits) > 1e-6 else 0.0
    at_middle = times + slope * (middle - limits)
    quantiles = np.exp(np.quantile(at_middle, [0.5, 0.05, 0.95]))
    ends = part[0].limit_s, part[-1].limit_s
    return Efficiency(*key, float(np.exp(middle)), *ends, *map(float, quantiles), len(part), basis)


def _rising(curve: Sequence[Efficiency]) -> list[Efficiency]:
    """The curve with times that never fall: medians halfway between the largest so far and the smallest still to come,
    the ends of the range where they are further out."""
    if not curve:
        return []
    times = np.array([point.times_s for point in curve])
    upper, lower = np.maximum.accumulate(times), np.minimum.accumulate(times[::-1])[::-1]
    risen = zip(np.sqrt(upper * lower)[:, 0], lower[:, 1], upper[:, 2], strict=True)
    return [
        replace(point, median_s=float(median), shortest_s=float(shortest), longest_s=float(longest))
        for point, (median, shortest, longest) in zip(curve, risen, strict=True)
    ]


LIMITS_S = (0.0, 1e-6, 1e-5, 1e-4, float("inf"))


def check(kernels: Sequence[Kernel]) -> None:
    """Print which share of the kernels that the curves were not made of lies within the printed range."""
    inside: dict[tuple[str, str, str], dict[float, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for fold in range(FOLDS):
        curves = curves_of(fitted([kernel for kernel in kernels if kernel.fold != fold]))
        used = {point.basis for sides in curves.values() for curve in sides.values() for point in curve}
        for kernel in kernels:
            found = estimate(*kernel.key, kernel.memory_s, kernel.compute_s, curves) if kernel.fold == fold else None
            if found is not None and kernel.basis in used and found.comparable:
                band = max(edge for edge in LIMITS_S if edge <= kernel.limit_s)
                inside[kernel.key][band].append(found.shortest_s <= kernel.seconds <= found.longest_s)
    edges = list(pairwise(LIMITS_S))
    print("| machine | operation | format |", " | ".join(f"{a * 1e6:g} to {b * 1e6:g} µs" for a, b in edges), "| all |")
    print("|---|---|---|" + "---|" * (len(edges) + 1))
    for key in sorted(inside):
        bands = [inside[key][a] for a, _ in edges]
        cells = [_share(band) for band in [*bands, [one for band in bands for one in band]]]
        print("|", " | ".join([*key, *cells]), "|")
    everything = [one for bands in inside.values() for band in bands.values() for one in band]
    print("all:", _share(everything))


def _share(inside: Sequence[bool]) -> str:
    return f"{100 * sum(inside) / len(inside):.0f} % of {len(inside)}" if inside else "–"


def main(arguments: list[str]) -> int:
    """Collects, fits and prints; returns the exit status."""
    paths = [argument for argument in arguments if argument != "--check"]
    if len(paths) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    kernels = measured(paths[0])
    if "--check" in arguments:
        check(kernels)
        return 0
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([field.name for field in fields(Efficiency)])
    for point in fitted(kernels):
        writer.writerow([f"{value:.4g}" if isinstance(value, float) else value for value in astuple(point)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
