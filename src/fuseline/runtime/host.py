"""Facts about the machine this process runs on, read from the operating system without importing a compiler library.

The processor's level decides which code is generated, its identity is part of every cache key, and the size of its
last-level cache decides when stores go past it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import sys
from dataclasses import dataclass, replace

from fuseline.codegen.llvm.target import LlvmTarget, target
from fuseline.errors import UnsupportedError
from fuseline.runtime import control_groups, cpuid, system_files

_DEFAULT_LAST_LEVEL_CACHE_BYTES = 32 << 20
_INTEL = "GenuineIntel"
_SECOND_LEVEL = 2
_LARGEST_NEAR_CACHE_BYTES = 64 << 20
"""A larger last-level cache of Intel's lies in slices beside dozens of cores: a core reaches it as slowly as memory."""
# psABI levels (x86-64 System V ABI, table 3.1) in the spellings of Linux's /proc/cpuinfo.
_LEVEL_2 = {"ssse3", "sse4_1", "sse4_2", "popcnt", "cx16"}
_LEVEL_3 = _LEVEL_2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
_LEVEL_4 = _LEVEL_3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_MACOS_SPELLINGS = {"sse4.1": "sse4_1", "sse4.2": "sse4_2", "avx1.0": "avx"}


@dataclass(frozen=True, slots=True)
class Processor:
    """``flags`` are Linux's names of instruction-set extensions; ``model`` is the name printed for people, ``vendor``
    what an x86-64 processor calls its maker."""

    model: str
    flags: frozenset[str]
    vendor: str = ""


@functools.cache
def processor() -> Processor:
    """The processor of this machine, as the kernel describes its first core."""
    if sys.platform == "darwin":
        flags = (
            " ".join(_sysctl_text(n) for n in ("machdep.cpu.features", "machdep.cpu.leaf7_features")).lower().split()
        )
        return Processor(
            _sysctl_text("machdep.cpu.brand_string"),
            frozenset(_MACOS_SPELLINGS.get(f, f) for f in flags),
            _sysctl_text("machdep.cpu.vendor"),
        )
    fields = _first_processor(system_files.read("/proc/cpuinfo"))
    model = fields.get("model name") or " ".join(
        fields.get(k, "") for k in ("CPU implementer", "CPU part", "CPU variant", "CPU revision")
    )
    stepping = "/".join(fields.get(k, "") for k in ("cpu family", "model", "stepping"))
    return Processor(
        f"{model} {stepping}".strip(" /"),
        frozenset((fields.get("flags") or fields.get("Features", "")).split()),
        fields.get("vendor_id", ""),
    )


def _first_processor(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not colon and fields:
            break
        fields[name.strip()] = value.strip()
    return fields


def _sysctl(name: str) -> bytes:
    """macOS: the raw value of ``name``; empty where unknown."""
    libc = ctypes.CDLL(None)
    size = ctypes.c_size_t(0)
    if libc.sysctlbyname(name.encode(), None, ctypes.byref(size), None, 0) != 0:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    if libc.sysctlbyname(name.encode(), buffer, ctypes.byref(size), None, 0) != 0:
        return b""
    return buffer.raw[: size.value]


def _sysctl_text(name: str) -> str:
    return _sysctl(name).rstrip(b"\0").decode(errors="replace")


def target_names() -> list[str]:
    """The targets whose code runs on this processor, the plainest first."""
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return ["aarch64"]
    if machine not in ("x86_64", "amd64"):
        return []
    flags = _usable_flags()
    levels = [("x86-64-v2", _LEVEL_2), ("x86-64-v3", _LEVEL_3), ("x86-64-v4", _LEVEL_4)]
    return ["x86-64"] + [name for name, needed in levels if needed <= flags]


def _usable_flags() -> frozenset[str]:
    """Extensions that the system lists, without those that an x86-64 processor does not give this process."""
    return processor().flags - (cpuid.NAMES - cpuid.flags())


def host_target() -> LlvmTarget:
    """The target of this machine, tuned for its processor; ``FUSELINE_TARGET`` names a plainer one instead.

    Raises `UnsupportedError` for a processor that fuseline has no code for, or a target this processor cannot run.
    """
    names = target_names()
    asked = os.environ.get("FUSELINE_TARGET") or "native"
    if not names:
        raise UnsupportedError(
            f"no compiled kernels on {platform.machine()}; x86-64 and AArch64 are supported. NumPy text runs anywhere: "
            'kernel.emit("numpy"), or fuseline emit PROGRAM --target numpy'
        )
    if asked != "native":
        if asked not in names:
            raise UnsupportedError(f"FUSELINE_TARGET={asked}: this processor runs native, {', '.join(names)}")
        return target(asked)
    features = "+reserve-x18" if sys.platform == "darwin" and names == ["aarch64"] else ""
    best = target(names[-1])
    is_intel, has_masks = processor().vendor == _INTEL, best.vector_bytes == 64
    return replace(
        best,
        name="native",
        cpu="native",
        features=features,
        has_bfloat16_rounding=has_masks and "avx512_bf16" in _usable_flags(),
        prefetches_always=is_intel,
        has_slow_divider=is_intel and has_masks,
    )


@functools.cache
def identity() -> str:
    """A short digest of everything about this machine that compiled code may depend on."""
    p = processor()
    facts = [sys.platform, platform.machine(), p.model, *sorted(p.flags)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


@functools.cache
def last_level_cache_bytes() -> int:
    """Size of the largest cache that the first core reaches; 32 MiB where the system does not say."""
    if sys.platform == "darwin":
        sizes = [
            int.from_bytes(_sysctl(n), "little")
            for n in ("hw.l2cachesize", "hw.l3cachesize", "hw.perflevel0.l2cachesize")
        ]
    else:
        sizes = list(system_files.data_caches().values())
    return max(sizes, default=0) or _DEFAULT_LAST_LEVEL_CACHE_BYTES


@functools.cache
def cache_for_results_bytes() -> int:
    """How large the operands of a call may be together, so that its results are better written to the caches than past
    them: the last-level cache, or where that is far away the one before it."""
    last = last_level_cache_bytes()
    if processor().vendor != _INTEL or last <= _LARGEST_NEAR_CACHE_BYTES:
        return last
    return system_files.data_caches().get(_SECOND_LEVEL, last)


def caches_of_threads_bytes(threads: int) -> int:
    """`cache_for_results_bytes` of all the cores that ``threads`` run on, each on one of its own."""
    one = cache_for_results_bytes()
    if one >= last_level_cache_bytes():
        return one
    return one * max(1, threads // system_files.sharers(_SECOND_LEVEL))


def physical_memory_bytes() -> int:
    """Memory of the machine, or of the control groups where that is smaller."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, control_groups.memory_bytes() or total)
