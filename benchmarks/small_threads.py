"""Many threads of small calls beside one: the time of as many calls by all together over that of one thread's.

    python benchmarks/small_threads.py        a table of ratios; `kernels.py` writes it into its page

Each thread has arrays of its own and takes fresh results, as callers do. NumPy's own calls stand beside ours.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fuseline

THREADS = 16
SIZES = (1, 1_000, 2_000, 20_000)
_SHORTEST_S = 0.05
"""How long one thread's share of a sample is made to last at least."""

Call = Callable[..., Any]


def main() -> None:
    """Print one JSON object; the argument is the number of samples, 7 unless given."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    rows = [
        {"call": name, "n": n, **_ratio(call, operands, n, samples)}
        for name, (call, operands) in _calls().items()
        for n in SIZES
    ]
    print(json.dumps({"threads": THREADS, "rows": rows}))


def _calls() -> dict[str, tuple[Call, int]]:
    """By name: what is called, and its number of operands."""
    exp, add = fuseline.compile("exp(x)", name="exp"), fuseline.compile("x + y", name="add")
    return {
        "k, exp(x)": (exp, 1),
        "k.ufunc, exp(x)": (exp.ufunc, 1),
        "np.exp": (np.exp, 1),
        "k, x + y": (add, 2),
        "k.ufunc, x + y": (add.ufunc, 2),
        "np.add": (np.add, 2),
    }


def _ratio(call: Call, operands: int, n: int, samples: int) -> dict[str, float]:
    """Median and distance between the quartiles of the ratio, one thread and many in turn."""
    sets = [[np.full(n, 0.5, np.float32) for _ in range(operands)] for _ in range(THREADS)]
    repeats = _repeats(call, sets[0])
    ratios = []
    for _ in range(samples):
        one = _seconds(call, sets[:1], repeats * THREADS)
        ratios.append(_seconds(call, sets, repeats) / one)
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if samples > 1 else (ratios * 3)
    return {"ratio": statistics.median(ratios), "spread": high - low}


def _seconds(call: Call, sets: list[list[Any]], repeats: int) -> float:
    """From the first call of the first of the threads, one a set of operands, to the last call of the last.

    The threads take the times themselves: one that only waits for them may get the interpreter's lock long after.
    """
    together = threading.Barrier(len(sets))
    times: list[tuple[float, float]] = []

    def work(arrays: list[Any]) -> None:
        turns = range(repeats)
        call(*arrays)
        together.wait()
        started = time.perf_counter()
        for _ in turns:
            call(*arrays)
        times.append((started, time.perf_counter()))

    workers = [threading.Thread(target=work, args=(arrays,)) for arrays in sets]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(end for _, end in times) - min(start for start, _ in times)


def _repeats(call: Call, arrays: list[Any]) -> int:
    """Calls of each of the threads, so that all of them by one thread last long enough."""
    repeats = 1
    while _seconds(call, [arrays], repeats * THREADS) < _SHORTEST_S:
        repeats *= 2
    return repeats


if __name__ == "__main__":
    main()
