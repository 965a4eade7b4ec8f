"""What the control groups of Linux (version 2 or 1) grant this process: a container's share of its machine.

A limit of any group around a process holds for it, so the smallest is what counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fuseline.runtime.system_files import read

_ROOT, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def processors(root: Path = _ROOT, membership: Path = _MEMBERSHIP) -> int | None:
    """Processors that are granted in full, rounded up; None where no group limits them."""
    groups = _groups(membership)
    shares = [_share(*read(root / group / "cpu.max").partition(" ")[::2]) for group in groups]
    folders = [root / "cpu" / group for group in groups]
    shares += [_share(read(f / "cpu.cfs_quota_us"), read(f / "cpu.cfs_period_us")) for f in folders]
    return _smallest(shares)


def memory_bytes(root: Path = _ROOT, membership: Path = _MEMBERSHIP) -> int | None:
    """Bytes of memory; None where no group limits them."""
    groups = _groups(membership)
    files = [root / group / "memory.max" for group in groups]
    files += [root / "memory" / group / "memory.limit_in_bytes" for group in groups]
    return _smallest([int(text) if text.isdigit() else None for text in map(read, files)])


def _groups(membership: Path) -> list[str]:
    """The paths of this process's groups and of the groups around them, without the leading slash."""
    found = {""}
    for line in read(membership).splitlines():
        path = line.split(":", 2)[-1].strip("/")
        while path:
            found.add(path)
            path = path.rpartition("/")[0]
    return sorted(found)


def _share(quota_us: str, period_us: str) -> int | None:
    if not (quota_us.isdigit() and period_us.isdigit()):
        return None
    period = int(period_us)
    return max(1, -(-int(quota_us) // period)) if period else None


def _smallest(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
