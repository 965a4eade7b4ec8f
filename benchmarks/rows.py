"""Measures one peer beside fuseline and the copy limit, in one process with one number of threads.

Prints a JSON object a line: one for each program and size. `kernels.py` starts it, with the threads' environment set
and the process bound to as many processors as there are threads.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import peers
from peers import Form
from printers import CannotExpress

import fuseline
import programs
from fuseline.runtime.copy_limit import copy_limit
from fuseline.runtime.measure import Timing, faster
from programs import Inputs, Program

_SETTLE_S = {1: 0.0}
"""Pause before each sample by threads: workers of some libraries spin for milliseconds after their work."""
_SETTLE_OTHERWISE_S = 0.008
_CHECKED_ITEMS = 1 << 20
_LARGE = 1 << 24


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True, choices=sorted(peers.PEERS))
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--programs", nargs="+", default=list(programs.PROGRAMS))
    parser.add_argument("--sizes", nargs="+", type=int, required=True)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--row-seconds", type=float, default=1.0)
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    for name in options.programs:
        for n in options.sizes:
            row = _row(programs.PROGRAMS[name], n, options)
            print(json.dumps({"peer": options.peer, "threads": options.threads, "program": name, "n": n, **row}))
            sys.stdout.flush()
            gc.collect()


def _row(program: Program, n: int, options: argparse.Namespace) -> dict[str, Any]:
    inputs = program.inputs(n)
    forms = peers.fuseline(program, inputs, options.threads)
    note = ""
    try:
        forms += peers.PEERS[options.peer](program, inputs, options.threads)
    except CannotExpress as reason:
        note = str(reason)
    first_call_s: dict[str, float] = {}
    errors: dict[str, float] = {}
    peak_bytes: dict[str, int | None] = {}
    for form in list(forms):
        key = _key(form)
        started = time.perf_counter()
        value = form.call()
        first_call_s[key] = time.perf_counter() - started
        error = _error(program, inputs, form.results(value))
        if error is not None:
            errors[key] = error
            if not error <= 1.0:
                wrong = f"{key} is wrong by {error:.3g} times what is allowed (n = {n})"
                if form.label == "fuseline":
                    raise SystemExit(f"{program.name}: {wrong}")
                note = "; ".join(filter(None, [note, wrong]))
                forms.remove(form)
                continue
        del value
        if n >= _LARGE and not form.preallocated and not options.check_only:
            peak_bytes[key] = _peak_bytes(form)
    row = {"note": note, "errors": errors, "first_call_s": first_call_s, "peak_bytes": peak_bytes}
    if options.check_only:
        return row
    outputs = peers.empty_outputs(program, inputs)
    calls: dict[str, Callable[[], object]] = {
        f"limit {past}": copy_limit(list(inputs.values()), outputs, options.threads, past_caches=past)
        for past in (False, True)
    }
    calls |= {_key(form): form.call for form in forms}
    clock = time.process_time_ns if options.processor_time and options.threads == 1 else time.perf_counter_ns
    timings = in_turn(calls, options.repetitions, options.row_seconds, options.threads, clock)
    timings = {"limit": faster(timings.pop("limit False"), timings.pop("limit True")), **timings}
    bytes_moved = sum(a.nbytes for a in (*inputs.values(), *outputs))
    return {**row, "bytes": bytes_moved, "timings": {k: _plain(t) for k, t in timings.items()}}


def _key(form: Form) -> str:
    return f"{form.label} {'out' if form.preallocated else 'fresh'}"


def _plain(t: Timing) -> dict[str, float]:
    return {"median_s": t.median_s, "spread_s": t.spread_s, "best_s": t.best_s, "samples": t.samples}


def _error(program: Program, inputs: Inputs, results: Sequence[Any]) -> float | None:
    """The error of results in tolerances, on every item or, of large arrays, on a slice of the first axis."""
    if not results:
        return None
    shape = np.broadcast_shapes(*(a.shape for a in inputs.values()))
    step = max(1, int(np.prod(shape)) // _CHECKED_ITEMS)
    step = min(step, max(1, shape[0] // 2))
    offset = int(np.random.default_rng().integers(step))

    def part(a: Any) -> Any:
        whole = a.ndim == len(shape) and a.ndim > 0 and a.shape[0] == shape[0]
        return a[offset::step] if whole else a

    expected = peers.reference(program, {name: part(a) for name, a in inputs.items()})
    return peers.error_in_tolerances(program, [part(r) for r in results], expected)


# ── timing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_turn(
    calls: dict[str, Callable[[], object]], repetitions: int, limit_s: float, threads: int, clock: Callable[[], int]
) -> dict[str, Timing]:
    """Every candidate once a turn, in an order that rotates, after a pause and one call that is not counted: after a
    slow candidate the operands may be further away, where others share the last-level cache.

    `fuseline.runtime.measure.interleaved` does the same without the pause, which threads of other libraries need here:
    some spin for milliseconds after their work, on the processors that the next candidate is about to use.
    """
    pause_s = _SETTLE_S.get(threads, _SETTLE_OTHERWISE_S)
    repeats = {name: _repeats(call, clock) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    start = time.perf_counter()
    for turn in range(repetitions):
        if turn >= 3 and time.perf_counter() - start > limit_s:
            break
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if pause_s:
                time.sleep(pause_s)
            calls[name]()  # threads awake, and operands where a repeated call finds them
            samples[name].append(_sample(calls[name], repeats[name], clock))
    return {name: _timing(values, repeats[name]) for name, values in samples.items()}


def _sample(call: Callable[[], object], repeats: int, clock: Callable[[], int]) -> float:
    turns = range(repeats)
    start = clock()
    for _ in turns:
        call()
    return (clock() - start) * 1e-9 / repeats


def _repeats(call: Callable[[], object], clock: Callable[[], int], shortest_s: float = 2e-3) -> int:
    repeats = 1
    while (taken := _sample(call, repeats, clock) * repeats) < shortest_s:
        repeats *= min(10, max(2, round(shortest_s / max(taken, 1e-9))))
    return repeats


def _timing(samples: list[float], repeats: int) -> Timing:
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(statistics.median(samples), high - low, min(samples), len(samples), repeats)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _peak_bytes(form: Form) -> int | None:
    """How far one call with fresh outputs raises the process's resident memory, results included; None off Linux."""
    clear = Path("/proc/self/clear_refs")
    if not clear.exists():
        return None
    gc.collect()
    fuseline.trim()
    clear.write_text("5")  # forget the highest mark so far (proc(5))
    before = _resident("VmRSS")
    value = form.call()
    raised = _resident("VmHWM") - before
    del value
    return raised


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def versions(names: Sequence[str]) -> dict[str, str]:
    """Installed versions of packages; those that are missing are left out."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
