"""Measures what bodies gain by computing once what stands still in a run, and by doing without the divider, and prints
a table: what decisions 0037 and 0039 rest on.

    python benchmarks/still.py
    python benchmarks/still.py --programs z-score root --repetitions 15

One thread, operands and results in the caches. Each program is measured in three forms, in turn:

    plain    a body that takes every operand for one that moves, and divides
    once     what stands still is computed once, and the body divides
    used     the body that calls run; on processors with fast dividers that is `once`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from rows import in_turn

import fuseline
from fuseline.runtime import host, threads
from fuseline.runtime.loop import Loop
from programs import PROGRAMS, Array

ITEMS, ROWS = 1 << 15, 64
FORMULAS = {
    "quotient": "out = x/s",
    "by three": "out = x/3",
    "normalised": "out = (x - m)/sqrt(v + 1e-5)",
    "z-score": PROGRAMS["zscore"].formula,
    "scaled": "out = x*exp(-m)",
    "root": "out = sqrt(x)",
    "length": "out = sqrt(x*x + y*y)",
    "by a root": "out = x/sqrt(y + 1e-5)",
    "rsqrt": "out = rsqrt(x)",
}
MOVING = ("x", "y")
"""Every other operand is one number, or one a row."""
FORMS = ("plain", "once", "used")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=list(FORMULAS), default=list(FORMULAS))
    parser.add_argument("--repetitions", type=int, default=9)
    options = parser.parse_args()
    print(
        f"{host.processor().model}, one thread, {ITEMS:,} elements; microseconds {', '.join(FORMS)} = first over last"
    )
    print("| program | dtype | one row | 64 rows |")
    print("| --- | --- | ---: | ---: |")
    for program in options.programs:
        for dtype in ("float32", "float64"):
            cells = []
            for rows in (1, ROWS):
                us = measure(FORMULAS[program], dtype, rows, options.repetitions)
                cells.append(f"{', '.join(f'{us[form]:.1f}' for form in FORMS)} = {us['plain'] / us['used']:.2f}")
            print(f"| {program} | {dtype} | {cells[0]} | {cells[1]} |", flush=True)


def measure(formula: str, dtype: str, rows: int, repetitions: int) -> dict[str, float]:
    """Microseconds of a call by form: medians of turns."""
    names = fuseline.graph(formula).input_names
    operands = [_operand(name in MOVING, dtype, rows) for name in names]
    out = np.empty((rows, ITEMS // rows), dtype)
    with threads.limit(1):
        calls = {form: _call(form, formula, operands, out) for form in FORMS}
        timings: Mapping[str, Any] = in_turn(calls, repetitions, 60.0, 1, time.perf_counter_ns)
    return {form: timing.median_s * 1e6 for form, timing in timings.items()}


def _operand(moves: bool, dtype: str, rows: int) -> Array:
    g = np.random.default_rng(1)
    if moves:
        return (g.random((rows, ITEMS // rows)) + 0.5).astype(dtype)
    return (g.random((rows, 1) if rows > 1 else ()) + np.array(0.5)).astype(dtype)


def _call(form: str, formula: str, operands: list[Array], out: Array) -> Callable[[], object]:
    """A call of a kernel whose body is of this form: the first two calls decide which later ones run."""
    with ExitStack() as changes:
        if form != "used":
            divides = replace(host.host_target(), has_slow_divider=False)
            changes.enter_context(mock.patch.object(host, "host_target", lambda: divides))
        if form == "plain":
            changes.enter_context(mock.patch.object(Loop, "for_call", lambda self, *_: self))
        kernel = fuseline.compile(formula)
        for _ in range(2):
            kernel(*operands, out=out)
    return lambda: kernel(*operands, out=out)


if __name__ == "__main__":
    main()
