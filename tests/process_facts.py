"""What Linux says of this process, for tests that nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

PROCESS = Path("/proc/self")


def mappings() -> int:
    """Ranges of memory that are mapped; the test is skipped where the system does not say."""
    if not (PROCESS / "maps").exists():
        pytest.skip("this test reads /proc")
    return len((PROCESS / "maps").read_text().splitlines())


def code_bytes() -> int:
    """Memory that holds code and is no file's: compiled kernels and what they share."""
    if not (PROCESS / "maps").exists():
        pytest.skip("this test reads /proc")
    total = 0
    for line in (PROCESS / "maps").read_text().splitlines():
        bounds, access, _, _, _, *path = line.split()
        if access.startswith("r-x") and not path:
            first, end = (int(bound, 16) for bound in bounds.split("-"))
            total += end - first
    return total


def resident_kib() -> int:
    """Memory in use."""
    for line in (PROCESS / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no resident size")
