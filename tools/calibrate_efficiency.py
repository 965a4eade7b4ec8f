"""Writes ``src/fuseline/roofline/data/efficiency.csv``: how much of their time limit measured kernels reached.

    python tools/calibrate_efficiency.py KERNELS.csv[.gz] > src/fuseline/roofline/data/efficiency.csv

``KERNELS.csv`` has the columns ``op,device,dtype,kernel,m,n,k,batch,isl,past,heads,kv_heads,head_dim,window,
latency_ms,source`` of NVIDIA aiconfigurator's collected kernel tables (Apache-2.0). The bundled tables are added to it.
Each group of at least five kernels (device, operation, format, bound, decade of the time limit) becomes a line with its
median and deciles.

Left out: ``fp8_block`` products, whose small sizes measure the collector and not the kernel; decode attention, whose
rows beat the memory's peak as their columns read; and every group whose ninth decile beats the time limit, as kernels
that run from cache do. Where several kernels did the same, the one with the most samples stands.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterator

import numpy as np

from fuseline.cost.shape_cost import ShapeCost
from fuseline.cost.shapes import attention_prefill, gemm
from fuseline.errors import FuselineError
from fuseline.machine import Device, device
from fuseline.machine.dtypes import canonical_dtype
from fuseline.roofline.efficiency import DECADES, MIN_SAMPLES
from fuseline.roofline.rules import IMPOSSIBLE_RATIO
from fuseline.roofline.shape import analyse
from fuseline.roofline.tables import bundled_rows

GEMM_KERNELS = {"bfloat16": "torch.nn.functional.linear", "fp8": "CutlassFP8ScaledMMLinearKernel"}
COLUMNS = ("device", "operation", "dtype", "bound", "lower_s", "upper_s", "median", "low", "high", "samples", "basis")
Sample = tuple[Device, str, str, ShapeCost, float, str]


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


def main(arguments: list[str]) -> int:
    """Collects, groups and prints; returns the exit status."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    groups: dict[tuple[str, str, str, str, float, float, str], list[float]] = {}
    for samples in (kernel_samples(arguments[0]), table_samples()):
        for machine, operation, dtype, cost, seconds, basis in samples:
            try:
                found = analyse(cost, machine)
            except FuselineError:
                continue
            limit = float(found.bound_time_s)
            lower = max(edge for edge in DECADES if edge <= limit)
            upper = min(edge for edge in DECADES if edge > limit)
            key = (machine.name, operation, dtype, found.bound, lower, upper, basis)
            groups.setdefault(key, []).append(limit / seconds)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    chosen: dict[tuple[str, str, str, str, float, float], str] = {}
    for key in sorted(groups, key=lambda key: len(groups[key])):
        chosen[key[:-1]] = key[-1]
    for key in sorted(groups):
        values = np.array(groups[key])
        low, median, high = np.quantile(values, [0.1, 0.5, 0.9])
        if len(values) >= MIN_SAMPLES and high <= IMPOSSIBLE_RATIO and chosen[key[:-1]] == key[-1]:
            writer.writerow([*key[:-1], f"{median:.4f}", f"{low:.4f}", f"{high:.4f}", len(values), key[-1]])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
