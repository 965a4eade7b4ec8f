"""Measures fuseline beside its peers and the copy limit, and writes docs/benchmarks.md.

    python benchmarks/kernels.py                      every program, size, peer; writes docs/benchmarks.md
    python benchmarks/kernels.py --quick              a few minutes, three sizes, printed only
    python benchmarks/kernels.py --programs gelu --sizes 16777216 --peers torch

One process measures one peer with one number of threads (`rows.py`), so that no library's threads stand in another's
way; in it the peer, fuseline and the copy limit take turns. README.md says how to install the peers.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tables
from peers import PEERS, is_installed, thread_environment
from rows import versions

import fuseline
from fuseline.runtime import host, threads
from programs import PROGRAMS

HERE = Path(__file__).parent
TABLE = HERE.parent / "docs" / "benchmarks.md"
SIZES = (1, 1000, 1 << 15, 1 << 20, 1 << 24)
QUICK_SIZES = (1, 1 << 15, 1 << 20)
PACKAGES = ("fuseline", "llvmlite", "numpy", "scipy", "numexpr", "numba", "jax", "torch", "onnxruntime", "blosc2")


def main() -> None:
    """Measure what the command line asks for and write or print the table."""
    options = _options()
    if options.data and options.data.exists() and options.from_data:
        data = json.loads(options.data.read_text(encoding="utf-8"))
    else:
        compileall.compile_dir(Path(fuseline.__file__).parent, quiet=1)  # as installing does
        data = measure(options)
        if options.data:
            options.data.write_text(json.dumps(data), encoding="utf-8")
    text = tables.document(data)
    if options.quick or options.print:
        print(text)
    else:
        options.page.write_text(text, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of elements")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=[p for p in PEERS if is_installed(p)])
    parser.add_argument("--threads", nargs="+", type=int, help="default: 1 and all")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--row-seconds", type=float, default=1.2, help="fewer repetitions (never under 3) after this")
    parser.add_argument("--compile-processes", type=int, default=3, help="for compiles: so many of each kind a program")
    parser.add_argument("--quick", action="store_true", help="three sizes, three repetitions, printed")
    parser.add_argument("--check-only", action="store_true", help="compare every row with float64, time nothing")
    parser.add_argument(
        "--processor-time", action="store_true", help="with one thread, time on a processor: for a machine that is busy"
    )
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it")
    parser.add_argument("--page", type=Path, default=TABLE, help="write this page; docs/benchmarks.md by default")
    parser.add_argument("--data", type=Path, help="keep the measurements in this JSON file")
    parser.add_argument("--from-data", action="store_true", help="write the table of the measurements in --data")
    options = parser.parse_args()
    options.sizes = options.sizes or list(QUICK_SIZES if options.quick else SIZES)
    options.threads = options.threads or sorted({1, threads.available()})
    if options.quick:
        options.repetitions, options.row_seconds = 3, 0.3
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything the tables are made of."""
    started = time.monotonic()
    data: dict[str, Any] = {"machine": _machine(), "versions": versions(PACKAGES), "load_before": os.getloadavg()[0]}
    if not options.check_only:
        data["resources"] = _lines(
            [HERE / "resources.py", max(options.threads), *options.programs], max(options.threads)
        )
        data["small"] = _small(options)
        data["compiles"] = _compiles(options)
        samples = [str(options.repetitions)]
        data["small_calls"] = _lines([HERE / "small_threads.py", *samples], max(options.threads))[0]
    data["rows"] = []
    for peer in options.peers:
        for count in options.threads:
            command = [HERE / "rows.py", "--peer", peer, "--threads", count, "--programs", *options.programs,
                       "--sizes", *options.sizes, "--repetitions", options.repetitions,
                       "--row-seconds", options.row_seconds]  # fmt: skip
            command += ["--check-only"] * options.check_only + ["--processor-time"] * options.processor_time
            rows = _lines(command, count)
            data["rows"] += rows
            _tell(f"{peer}, {count} thread{'s' * (count > 1)}: {len(rows)} rows, {time.monotonic() - started:.0f} s")
    data["load_after"] = os.getloadavg()[0]
    data["seconds"] = time.monotonic() - started
    data["processor_time"] = options.processor_time
    return data


def _small(options: argparse.Namespace) -> dict[str, Any]:
    small = HERE / "small.py"
    found: dict[str, Any] = {"overhead": _lines([small, "overhead"], 1)[0], "first": {}}
    with tempfile.TemporaryDirectory() as folder:
        caches = {"FUSELINE_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
        found["cold"] = _lines([small, "first", "fuseline"], 1, caches)[0]
        again = [_lines([small, "first", "fuseline"], 1, caches)[0] for _ in range(3)]
        found["warm"] = min(again, key=lambda one: float(one["first_call_s"]))
        for peer in options.peers:
            found["first"][peer] = _lines([small, "first", peer], 1, caches)[0]["first_call_s"]
    cold = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_lines([small, "first", "fuseline"], 1, {"FUSELINE_CACHE_DIR": folder})[0])
    found["cold"] = min([found["cold"], *cold], key=lambda one: float(one["first_call_s"]))
    return found


def _compiles(options: argparse.Namespace) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Seconds of every program, by kind (``first``: the first kernel of a process; ``own``: the second), state of the
    cache and program. A process compiles two programs, and another with the same cache loads them."""
    names = list(options.programs)
    others = [*names[1:], names[0]] if len(names) > 1 else ["residual_scale_bias"]
    found: dict[str, dict[str, dict[str, list[float]]]] = {
        kind: {state: {name: [] for name in (names if kind == "first" else others)} for state in ("cold", "warm")}
        for kind in ("own", "first")
    }
    for first, second in zip(names, others, strict=True):
        for _ in range(options.compile_processes):
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    command = [HERE / "compiles.py", first, second]
                    seconds = _lines(command, 1, {"FUSELINE_CACHE_DIR": folder})[0]
                    found["first"][state][first].append(seconds["first"])
                    found["own"][state][second].append(seconds["own"])
    return found


def _lines(command: list[Any], count: int, environment: dict[str, str] | None = None) -> list[Any]:
    """The JSON objects that a Python file prints, run on as many processors as it has threads."""
    processors = sorted(os.sched_getaffinity(0))[:count] if hasattr(os, "sched_getaffinity") else None

    def bind() -> None:
        if processors:
            os.sched_setaffinity(0, processors)

    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, **thread_environment(count), **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=bind,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command[1:]))} failed with status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _machine() -> dict[str, Any]:
    return {
        "processor": host.processor().model,
        "target": host.host_target().name if os.environ.get("FUSELINE_TARGET") else host.target_names()[-1],
        "processors": threads.affinity(),
        "last_level_cache_bytes": host.last_level_cache_bytes(),
        "memory_bytes": host.physical_memory_bytes(),
        "system": f"{os.uname().sysname} {os.uname().release.split('-')[0]}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": sys.version.split()[0],
    }


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
