"""Measures this host as a machine: bandwidth of every memory level, fma rate, and the cost of a call.

The kernels are a few lines of LLVM text with vectors of the processor's own width. Rates are the best of several runs,
since a shared machine only ever makes them slower. The result is a device file of the user's cache folder.
"""

from __future__ import annotations

import ctypes
import datetime
import functools
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..machine.device import Device
from ..machine.files import parse_device_text
from ..machine.host import load_host, save_host
from ..units import format_number
from . import host, system_files, threads
from .image import LoadedImage
from .jit import compile_text

_STREAMS = {"read": (1, 0), "copy": (1, 1), "triad": (2, 1)}
"""Arrays read and written by each kernel of bandwidth."""

_ACCUMULATORS = 12
_LARGEST_BUFFER_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: seconds of one timed run, and how many of them the best is taken from."""

    run_s: float
    runs: int


STEADY = Effort(0.008, 25)
QUICK = Effort(0.003, 5)


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
    kernels = _kernels()
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
        rates = [Rate(f"fma {dtype}", count, fma_rate(kernels, dtype, count, effort)) for count in counts]
        lines.append(f"{dtype} = {_figures(rates, 'GFLOPS')}")
    for level in reversed(levels()):
        lines += ["", f"[device.memories.{level.name}]"]
        rates = [
            Rate(kernel, count, bandwidth(kernels, kernel, level.working_set_bytes, count, effort))
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
    """Rates as an array of figures, each with what was run."""
    parts = []
    for rate in rates:
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


# ---------------------------------------------------------------------------------------------------------- kernels


@functools.cache
def _kernels() -> dict[str, Callable[..., int]]:
    """The compiled kernels by name; each returns a number that depends on its work."""
    target = host.host_target()
    names = [*_STREAMS, "copy_past", "triad_past", "fma_f32", "fma_f64"]
    image = LoadedImage(compile_text(kernel_text(target.vector_bytes // 4, target.has_fma), target))
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)
    image.keep()  # the kernels stay as long as the process
    return {name: prototype(image.exports[name]) for name in names}


def kernel_text(lanes: int, has_fma: bool) -> str:
    """LLVM text of all kernels with vectors of ``lanes`` 32-bit elements; a product and a sum where there is no fma.

    Every kernel is ``i64 (dst, a, b, vectors, repetitions)``; ``vectors`` is a multiple of four. The ones called
    ``…_past`` write past the caches.
    """
    parts = [_stream_text(name, name, lanes, "") for name in _STREAMS]
    parts += [_stream_text(f"{name}_past", name, lanes, ", !nontemporal !0") for name in ("copy", "triad")]
    declared = []
    for element, bits in (("float", 32), ("double", 64)):
        width = lanes * 32 // bits
        vector = f"<{width} x {element}>"
        parts.append(_fma_text(element, width, f"fma_f{bits}", has_fma))
        declared.append(f"declare {vector} @llvm.fma.v{width}f{bits}({vector}, {vector}, {vector})")
    return "\n".join([*parts, *(declared if has_fma else []), "!0 = !{i32 1}", ""])


_HEAD = """define i64 @{name}(ptr %dst, ptr %a, ptr %b, i64 %n, i64 %reps) {{
entry:
  br label %outer
outer:
  %r = phi i64 [ 0, %entry ], [ %r1, %after ]
{outer_phi}  br label %inner
inner:
  %i = phi i64 [ 0, %outer ], [ %i1, %inner ]
"""

_TAIL = """  %i1 = add i64 %i, {step}
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %inner, label %after
after:
  %r1 = add i64 %r, 1
  %again = icmp ult i64 %r1, %reps
  br i1 %again, label %outer, label %done
done:
"""


def _stream_text(name: str, kind: str, lanes: int, past: str) -> str:
    """A kernel that reads, copies or adds arrays, four vectors a turn; the read one combines what it read."""
    vector = f"<{lanes} x i32>" if kind != "triad" else f"<{lanes} x float>"
    align = lanes * 4
    body: list[str] = []
    outer_phi = ""
    if kind == "read":
        for j in range(4):
            outer_phi += f"  %s{j} = phi {vector} [ zeroinitializer, %entry ], [ %t{j}, %after ]\n"
            body.append(f"  %c{j} = phi {vector} [ %s{j}, %outer ], [ %t{j}, %inner ]")
    for j in range(4):
        body.append(f"  %i_{j} = add i64 %i, {j}")
        body.append(f"  %pa{j} = getelementptr {vector}, ptr %a, i64 %i_{j}")
        body.append(f"  %x{j} = load {vector}, ptr %pa{j}, align {align}")
        if kind == "read":
            body.append(f"  %t{j} = xor {vector} %c{j}, %x{j}")
            continue
        value = f"%x{j}"
        if kind == "triad":
            body.append(f"  %pb{j} = getelementptr {vector}, ptr %b, i64 %i_{j}")
            body.append(f"  %y{j} = load {vector}, ptr %pb{j}, align {align}")
            body.append(f"  %z{j} = fadd {vector} %x{j}, %y{j}")
            value = f"%z{j}"
        body.append(f"  %pd{j} = getelementptr {vector}, ptr %dst, i64 %i_{j}")
        body.append(f"  store {vector} {value}, ptr %pd{j}, align {align}{past}")
    done = ["  ret i64 %r1"]
    if kind == "read":
        done = [
            f"  %u0 = xor {vector} %t0, %t1",
            f"  %u1 = xor {vector} %t2, %t3",
            f"  %u = xor {vector} %u0, %u1",
            f"  %e = extractelement {vector} %u, i32 0",
            "  %w = zext i32 %e to i64",
            "  ret i64 %w",
        ]
    head = _HEAD.format(name=name, outer_phi=outer_phi)
    return head + "\n".join(body) + "\n" + _TAIL.format(step=4) + "\n".join(done) + "\n}\n"


def _fma_text(element: str, lanes: int, name: str, has_fma: bool) -> str:
    """A kernel of independent chains of fused multiply-adds, ``_ACCUMULATORS`` of them a turn."""
    vector = f"<{lanes} x {element}>"
    bits = 32 if element == "float" else 64
    suffix = f"v{lanes}f{bits}"
    outer_phi, body = "", []
    for j in range(_ACCUMULATORS):
        outer_phi += f"  %s{j} = phi {vector} [ %o{j}, %entry ], [ %t{j}, %after ]\n"
        body.append(f"  %c{j} = phi {vector} [ %s{j}, %outer ], [ %t{j}, %inner ]")
    for j in range(_ACCUMULATORS):
        if has_fma:
            arguments = f"{vector} %c{j}, {vector} %m, {vector} %k"
            body.append(f"  %t{j} = call {vector} @llvm.fma.{suffix}({arguments})")
        else:
            body.append(f"  %p{j} = fmul {vector} %c{j}, %m")
            body.append(f"  %t{j} = fadd {vector} %p{j}, %k")
    load = f"  %m = load {vector}, ptr %a, align 4\n  %k = load {vector}, ptr %b, align 4\n"
    for j in range(_ACCUMULATORS):  # starts of their own, or the chains would be one
        load += f"  %q{j} = getelementptr {vector}, ptr %b, i64 {j + 1}\n  %o{j} = load {vector}, ptr %q{j}, align 4\n"
    head = _HEAD.format(name=name, outer_phi=outer_phi).replace("entry:\n", "entry:\n" + load, 1)
    done = [f"  %f0 = fadd {vector} %t0, %t1"]
    for j in range(2, _ACCUMULATORS):
        done.append(f"  %f{j - 1} = fadd {vector} %f{j - 2}, %t{j}")
    done.append(f"  %e = extractelement {vector} %f{_ACCUMULATORS - 2}, i32 0")
    done.append(f"  %w = bitcast {element} %e to i{bits}")
    done.append("  %v = zext i32 %w to i64" if bits == 32 else "  %v = add i64 %w, 0")
    done.append("  ret i64 %v")
    return head + "\n".join(body) + "\n" + _TAIL.format(step=1) + "\n".join(done) + "\n}\n"


# --------------------------------------------------------------------------------------------------------- measuring


def fma_rate(kernels: dict[str, Callable[..., int]], dtype: str, count: int, effort: Effort = STEADY) -> float:
    """FLOP/s of fused multiply-adds in ``dtype`` on ``count`` threads, two FLOP an element."""
    kernel = kernels[f"fma_{dtype}"]
    element = np.float32 if dtype == "f32" else np.float64
    turns = 4096
    lanes = _vector_bytes() // element().itemsize
    multiplier = np.full(lanes, 0.999999, element)
    summand = np.linspace(1e-6, 1.0, (_ACCUMULATORS + 1) * lanes, dtype=element)

    def run(repetitions: int) -> None:
        kernel(None, multiplier.ctypes.data, summand.ctypes.data, turns, repetitions)

    calls = [run] * count
    seconds, repetitions = _best(calls, effort)
    return count * repetitions * turns * _ACCUMULATORS * lanes * 2 / seconds


def bandwidth(
    kernels: dict[str, Callable[..., int]], kind: str, working_set_bytes: int, count: int, effort: Effort = STEADY
) -> float:
    """Bytes read and written a second by ``kind`` (``read``, ``copy``, ``triad``) on ``count`` threads.

    Each thread has arrays of its own, together ``working_set_bytes`` a thread for caches of one core; of the last level
    and the memory the threads share it. Beyond the last cache stores go past the caches, as copies of large arrays do.
    """
    reads, writes = _STREAMS[kind]
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
