"""The small files in which Linux says what a machine has."""

from __future__ import annotations

import functools
from pathlib import Path

_LIMIT_BYTES = 16384
_UNITS = {"K": 10, "M": 20, "G": 30}


def read(path: Path | str) -> str:
    """The beginning of a system file, without the space around it; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LIMIT_BYTES).strip()
    except OSError:
        return ""


def data_caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[int, int]:
    """Bytes of the caches that the first core's data goes through, by level; empty where the system does not say."""
    found: dict[int, int] = {}
    for cache in sorted(folder.glob("index*")):
        kind, level, size = (read(cache / name) for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and _bytes(size):
            found[int(level)] = _bytes(size)
    return dict(sorted(found.items()))


@functools.cache
def sharers(level: int, folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """How many processors share the first core's data cache of ``level``; 1 where the system does not say."""
    for cache in sorted(folder.glob("index*")):
        kind, own_level, listed = (read(cache / name) for name in ("type", "level", "shared_cpu_list"))
        if kind in ("Data", "Unified") and own_level == str(level):
            spans = [span.split("-") for span in listed.split(",")]
            if all(end.isdigit() for span in spans for end in span):
                return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
    return 1


def _bytes(text: str) -> int:
    digits = text.rstrip("KMG")
    return int(digits) << _UNITS.get(text[-1:], 0) if digits.isdigit() else 0
