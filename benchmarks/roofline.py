"""How long a million shapes take: ``python benchmarks/roofline.py`` prints a line an operation.

Each call lays a million random shapes against a machine: work, bytes, intensity, bound and time limit of every one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import fuseline as fl

SHAPES = 1_000_000
REPETITIONS = 5


def cases() -> Mapping[str, dict[str, Any]]:
    """Arguments of ``fl.classify`` by operation."""
    random = np.random.default_rng(0)
    m, n, k = random.integers(1, 2**17, (3, SHAPES))
    return {
        "gemm": {"m": m, "n": n, "k": k, "dtype": "fp8", "device": "ascend-950dt"},
        "attention-decode": {
            "operation": "attention-decode",
            "sizes": {"batch": 64, "kv_len": n, "heads": 64, "kv_heads": 8},
            "device": "h100-sxm",
        },
        "softmax": {"operation": "softmax", "sizes": {"rows": m, "columns": n}, "device": "h100-sxm"},
    }


def main() -> None:
    """Prints median and spread of the repetitions of each case."""
    for name, arguments in cases().items():
        fl.classify(**arguments)
        times = []
        for _ in range(REPETITIONS):
            start = time.perf_counter()
            fl.classify(**arguments)
            times.append(time.perf_counter() - start)
        low, median, high = min(times), statistics.median(times), max(times)
        print(f"{name:18} {SHAPES:,} shapes: median {median:.3f} s ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
