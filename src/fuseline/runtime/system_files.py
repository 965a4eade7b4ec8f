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


_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def data_caches(folder: Path = _CACHES) -> dict[int, int]:
    """Bytes of the caches that the first core's data goes through, by level; empty where the system does not say."""
    return {level: size for level, path in _levels(folder).items() if (size := _bytes(read(path / "size")))}


@functools.cache
def sharers(level: int, folder: Path = _CACHES) -> int:
    """How many processors share the first core's data cache of ``level``; 1 where the system does not say."""
    path = _levels(folder).get(level)
    spans = [span.split("-") for span in read(path / "shared_cpu_list").split(",")] if path is not None else []
    if not all(end.isdigit() for span in spans for end in span):
        return 1
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans) or 1


def _levels(folder: Path) -> dict[int, Path]:
    """Where the system describes each cache that data goes through, by level from the nearest."""
    found = {}
    for cache in sorted(folder.glob("index*")):
        level = read(cache / "level")
        if level.isdigit() and read(cache / "type") in ("Data", "Unified"):
            found[int(level)] = cache
    return dict(sorted(found.items()))


def _bytes(text: str) -> int:
    digits = text.rstrip("KMG")
    return int(digits) << _UNITS.get(text[-1:], 0) if digits.isdigit() else 0
