"""Rates of this host: bandwidth, fused multiply-adds, and the cost of a call.

They are the best of several runs, since a shared machine only ever makes them slower.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fuseline.runtime import host
from fuseline.runtime.probe_kernels import ACCUMULATORS, STREAMS


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: seconds of one timed run, and how many of them the best is taken from."""

    run_s: float
    runs: int


STEADY = Effort(0.008, 25)
QUICK = Effort(0.003, 5)


def call_cost_s() -> float:
    """Seconds that one call of a ufunc on one element takes: what a launch costs on this host."""
    x = np.zeros(1, np.float32)
    y = np.zeros(1, np.float32)
    add = np.add
    calls = 20_000
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            add(x, x, y)
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def fma_rate(kernels: dict[str, Callable[..., int]], dtype: str, count: int, effort: Effort = STEADY) -> float:
    """FLOP/s of fused multiply-adds in ``dtype`` on ``count`` threads, two FLOP an element."""
    kernel = kernels[f"fma_{dtype}"]
    element = np.float32 if dtype == "f32" else np.float64
    turns = 4096
    lanes = _vector_bytes() // element().itemsize
    multiplier = np.full(lanes, 0.999999, element)
    summand = np.linspace(1e-6, 1.0, (ACCUMULATORS + 1) * lanes, dtype=element)

    def run(repetitions: int) -> None:
        kernel(None, multiplier.ctypes.data, summand.ctypes.data, turns, repetitions)

    calls = [run] * count
    seconds, repetitions = _best(calls, effort)
    return count * repetitions * turns * ACCUMULATORS * lanes * 2 / seconds


def bandwidth(
    kernels: dict[str, Callable[..., int]], kind: str, working_set_bytes: int, count: int, effort: Effort = STEADY
) -> float:
    """Bytes read and written a second by ``kind`` (``read``, ``copy``, ``triad``) on ``count`` threads.

    Each thread has arrays of its own, together ``working_set_bytes`` a thread for caches of one core; of the last level
    and the memory the threads share it. Beyond the last cache stores go past the caches, as copies of large arrays do.
    """
    reads, writes = STREAMS[kind]
    shared = working_set_bytes >= host.last_level_cache_bytes() // 2
    each = working_set_bytes // (count if shared else 1) // (reads + writes)
    step = 4 * _vector_bytes()
    size = max(step, each // step * step)
    past = working_set_bytes > host.last_level_cache_bytes() and kind != "read"
    kernel = kernels[f"{kind}_past" if past else kind]
    vectors = size // _vector_bytes()
    calls = []
    for _ in range(count):
        arrays = [_aligned(size) for _ in range(3)]
        calls.append(functools.partial(_stream, kernel, arrays, vectors))
    seconds, repetitions = _best(calls, effort)
    return count * repetitions * size * (reads + writes) / seconds


def _stream(kernel: Callable[..., int], arrays: Sequence[np.ndarray], vectors: int, repetitions: int) -> None:
    dst, a, b = (array.ctypes.data for array in arrays)
    kernel(dst, a, b, vectors, repetitions)


def _aligned(size: int) -> np.ndarray:
    """``size`` bytes that begin on a 64-byte border and whose pages exist."""
    raw = np.zeros(size + 64, np.uint8)
    raw += 1
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


@functools.cache
def _vector_bytes() -> int:
    return host.host_target().vector_bytes


def _best(calls: Sequence[Callable[[int], None]], effort: Effort) -> tuple[float, int]:
    """The shortest time in which all calls, one a thread, do their repetitions; and how many repetitions that were."""
    repetitions = 1
    while (spent := _together(calls, repetitions)) < effort.run_s / 2 and repetitions < 1 << 30:
        repetitions = max(repetitions * 2, min(repetitions * 64, int(repetitions * effort.run_s / max(spent, 1e-7))))
    return min(_together(calls, repetitions) for _ in range(effort.runs)), repetitions


def _together(calls: Sequence[Callable[[int], None]], repetitions: int) -> float:
    """Seconds from the first call's start until the last one's end; the calls run without the interpreter's lock.

    Each thread reads the clock itself: the one that waits for them may be late to notice that they began.
    """
    if len(calls) == 1:
        start = time.perf_counter()
        calls[0](repetitions)
        return time.perf_counter() - start
    gate = threading.Barrier(len(calls))

    def work(call: Callable[[int], None]) -> tuple[float, float]:
        gate.wait()
        start = time.perf_counter()
        call(repetitions)
        return start, time.perf_counter()

    with ThreadPoolExecutor(len(calls)) as pool:
        spans = list(pool.map(work, calls))
    return max(end for _, end in spans) - min(start for start, _ in spans)
