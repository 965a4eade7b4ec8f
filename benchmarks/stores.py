"""Measures when it pays to store results past the caches, and prints a table: what the policy in runtime/iterate.py
rests on.

    python benchmarks/stores.py                          every program, 1/8 to 8 times the last-level cache
    python benchmarks/stores.py --programs copy --threads 1 --sizes 0.5 1 2

Sizes are those of all outputs together, in last-level caches. Each program is measured in five uses:

    out      one set of arrays again and again, `out=` given
    fresh    one set of inputs again and again, the result dropped at once
    sets     several sets of arrays in turn, `out=` given: no cache holds what the last call of a set has left
    kept     several sets of inputs in turn, and the last few results are kept
    read     as `sets`, and each result is read by a second kernel at once
"""

from __future__ import annotations

import argparse
import collections
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

import fuseline
from fuseline.runtime import host, iterate, threads
from programs import PROGRAMS, Array

_SETS_CACHES = 4
"""Several sets are at least so many last-level caches of memory."""
_FORMULAS = {
    "copy": ("out = x * 1.5", 1),
    "triad": ("out = x + 1.5*y", 2),
    "two": ("out = x + 1; out_2 = x - 1", 1),
    "widen": (PROGRAMS["dequantise"].formula, 2),
    "polynomial": (PROGRAMS["polynomial"].formula, 1),
    "gelu": (PROGRAMS["gelu"].formula, 1),
}
"""Formula and number of inputs of each program."""
USES = ("out", "fresh", "sets", "kept", "read")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=list(_FORMULAS), default=list(_FORMULAS))
    parser.add_argument("--uses", nargs="+", choices=USES, default=list(USES))
    parser.add_argument("--sizes", nargs="+", type=float, default=[2.0**i for i in range(-3, 4)])
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, threads.available()}))
    parser.add_argument("--repetitions", type=int, default=9)
    options = parser.parse_args()
    cache_bytes = host.last_level_cache_bytes()
    print(f"{host.processor().model}, last-level cache {cache_bytes >> 20} MiB")
    print("ms with ordinary stores / with stores past the caches = ratio")
    print("| program | threads | use |" + "".join(f" {size:g} |" for size in options.sizes))
    print("| --- | ---: | --- |" + " ---: |" * len(options.sizes))
    for program in options.programs:
        for count in options.threads:
            rows: dict[str, list[str]] = {use: [] for use in options.uses}
            for size in options.sizes:
                with threads.limit(count):
                    times = measure(program, int(size * cache_bytes), cache_bytes, options.uses, options.repetitions)
                for use, (ordinary_s, past_s) in times.items():
                    rows[use].append(f"{ordinary_s * 1e3:.2f} / {past_s * 1e3:.2f} = {ordinary_s / past_s:.2f}")
            for use, cells in rows.items():
                print(f"| {program} | {count} | {use} | " + " | ".join(cells) + " |", flush=True)


def measure(
    program: str, output_bytes: int, cache_bytes: int, uses: list[str], repetitions: int
) -> dict[str, tuple[float, float]]:
    """Seconds of a call with ordinary stores and with stores past the caches, by use: medians of turns."""
    one = _arrays(program, output_bytes)
    set_bytes = sum(a.nbytes for arrays in one for a in arrays)
    count = max(2, -(-_SETS_CACHES * cache_bytes // set_bytes))
    sets = [one, *(tuple([a.copy() for a in arrays] for arrays in one) for _ in range(count - 1))]
    kernels = {past: _kernel(_FORMULAS[program][0], past, one) for past in (False, True)}
    reader = _kernel("out = x > 3", False, ([one[1][0]], [np.zeros(one[1][0].shape, np.bool_)]))
    flags = np.zeros(one[1][0].shape, np.bool_)
    found = {}
    for use in uses:
        turns = {past: _use(use, kernel, sets, reader, flags) for past, kernel in kernels.items()}
        samples: dict[bool, list[float]] = {past: [] for past in turns}
        for _ in range(repetitions):
            for past, calls in turns.items():
                next(calls)  # brings the caches to where this use of this kernel leaves them
                next(calls)
                samples[past].append(next(calls))
        found[use] = (statistics.median(samples[False]), statistics.median(samples[True]))
        del turns
        fuseline.trim()
    return found


def _arrays(program: str, output_bytes: int) -> tuple[list[Array], list[Array]]:
    formula, inputs = _FORMULAS[program]
    g = np.random.default_rng(0)
    outputs = formula.count(";") + 1
    if program == "widen":
        operands = PROGRAMS["dequantise"].inputs(output_bytes // 2)
        ml_dtypes = __import__("ml_dtypes")
        return list(operands.values()), [np.zeros(operands["q"].shape, ml_dtypes.bfloat16)]
    n = output_bytes // (4 * outputs)
    return [g.random(n, dtype=np.float32) for _ in range(inputs)], [np.zeros(n, np.float32) for _ in range(outputs)]


def _kernel(formula: str, past: bool, arrays: tuple[list[Array], list[Array]]) -> Any:
    """A kernel that stores as told, for calls on arrays like these."""
    kernel = fuseline.compile(formula)
    with mock.patch.object(iterate, "_is_large", lambda _: past):
        kernel(*arrays[0])  # the call that later ones follow in everything but the addresses
        kernel(*arrays[0])
    return kernel


def _use(use: str, kernel: Any, sets: list[Any], reader: Any, flags: Array) -> Iterator[float]:
    """Seconds of one call after another."""
    kept: collections.deque[Any] = collections.deque(maxlen=len(sets))
    taken = sets[:1] if use in ("out", "fresh") else sets
    while True:
        samples = []
        for inputs, outputs in taken if len(taken) > 1 else taken * 3:
            out = outputs[0] if len(outputs) == 1 else tuple(outputs)
            call = _call(use, kernel, inputs, out)
            start = time.perf_counter_ns()
            result = call()
            if use == "read":
                reader(out[0] if isinstance(out, tuple) else out, out=flags)
            samples.append((time.perf_counter_ns() - start) * 1e-9)
            if use == "kept":
                kept.append(result)
            del result
        yield statistics.median(samples)


def _call(use: str, kernel: Any, inputs: list[Array], out: Any) -> Callable[[], Any]:
    if use in ("fresh", "kept"):
        return lambda: kernel(*inputs)
    return lambda: kernel(*inputs, out=out)


if __name__ == "__main__":
    main()
