"""Measures this host as a machine: bandwidth of every memory level, fma rate, and the cost of a call.

The result is a device file of the user's cache folder.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass

from fuseline.machine.device import Device
from fuseline.machine.files import parse_device_text
from fuseline.machine.host import load_host, save_host
from fuseline.runtime import host, system_files, threads
from fuseline.runtime.probe_kernels import kernels
from fuseline.runtime.probe_rates import QUICK, STEADY, Effort, bandwidth, call_cost_s, fma_rate
from fuseline.units import format_number

_LARGEST_BUFFER_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Level:
    """A memory level: its size and the working set that is used to measure it, in bytes."""

    name: str
    size_bytes: int | None
    working_set_bytes: int


@dataclass(frozen=True, slots=True)
class Rate:
    """A measured rate with what was run: ``copy``, ``fma f32``, … on so many threads."""

    what: str
    threads: int
    per_s: float


def probe(*, again: bool = False, quick: bool = False) -> Device:
    """This host as a machine called ``host``; the kept measurement unless there is none or ``again`` is asked for.

    Takes some seconds. Raises ``UnsupportedError`` on a processor that fuseline has no code for.
    """
    kept = None if again else load_host()
    if kept is not None:
        return kept
    text = _device_text(QUICK if quick else STEADY)
    save_host(text)
    return parse_device_text(text, "host", "measured")[0]


def _device_text(effort: Effort) -> str:
    """Measures everything and writes it as a device file."""
    many = max(1, threads.available())
    counts = [1] if many == 1 else [many, 1]
    loops = kernels()
    lines = [
        "format = 1",
        "",
        "[[device]]",
        'name = "host"',
        f"title = {_quoted(host.processor().model or 'this host')}",
        'kind = "measured"',
        'source = "fuseline device probe"',
        'confidence = "medium"',
        f'date = "{datetime.date.today().isoformat()}"',
        f"cores = {many}",
        'core_unit = "threads"',
        f'launch_latency = {{ value = "{format_number(call_cost_s() * 1e9)} ns", source = "one NumPy ufunc call" }}',
        "",
        "[device.pipes.vector]",
    ]
    for dtype in ("f32", "f64"):
        rates = [Rate(f"fma {dtype}", count, fma_rate(loops, dtype, count, effort)) for count in counts]
        lines.append(f"{dtype} = {_figures(rates, 'GFLOPS')}")
    for level in reversed(levels()):
        lines += ["", f"[device.memories.{level.name}]"]
        rates = [
            Rate(kernel, count, bandwidth(loops, kernel, level.working_set_bytes, count, effort))
            for count in counts
            for kernel in ("copy", "read", "triad")
        ]
        lines.append(f"bandwidth = {_figures(rates, 'GB/s')}")
        if level.size_bytes:
            lines.append(f'size = "{level.size_bytes} B"')
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _figures(rates: Sequence[Rate], unit: str) -> str:
    """Rates as an array of figures, each with what was run, the fastest first: that one is the limit.

    More threads can do what fewer did, so where other work on the machine slowed the run on all of them, the rate of
    fewer is the better measurement of what all can reach; and no measured rate is above the limit.
    """
    parts = []
    for rate in sorted(rates, key=lambda rate: -rate.per_s):
        noun = "thread" if rate.threads == 1 else "threads"
        source = f"{rate.what}, {rate.threads} {noun}, best of several runs"
        parts.append(f'{{ value = "{format_number(rate.per_s / 1e9)} {unit}", source = "{source}" }}')
    return "[\n  " + ",\n  ".join(parts) + ",\n]"


def levels() -> list[Level]:
    """The caches that the first core reaches, from the smallest, and the main memory.

    A cache is measured with half its size; the main memory with four times the last cache, within bounds.
    """
    caches = [Level(f"l{level}", size, size // 2) for level, size in system_files.data_caches().items()]
    last = max([level.size_bytes or 0 for level in caches] or [host.last_level_cache_bytes()])
    memory = host.physical_memory_bytes()
    working = min(4 * last, _LARGEST_BUFFER_BYTES, memory // 8)
    return [*caches, Level("dram", memory, max(working, 1 << 20))]
