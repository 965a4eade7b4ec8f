"""Planning in tests is plain Python unless a test asks for compiled code: nothing is compiled behind its back.

The instances that the benchmarks place can be imported by the tests of this room.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # after tests: both have a module of programs


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSELINE_CACHE", "off")
