"""What decides how fuseline and its tests run is told: every variable of ours, and every tool."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SETTINGS = (
    (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8").partition("\n## Settings\n")[2].partition("\n## ")[0]
)
VARIABLE = re.compile(r"\bFUSELINE_[A-Z_]*[A-Z]\b")


def told(text: str) -> set[str]:
    """The variables that have a row of a table."""
    return {name for line in text.splitlines() if line.startswith("|") for name in VARIABLE.findall(line.split("|")[1])}


def read_in(folder: str) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py"))
    return {name for text in texts for name in VARIABLE.findall(text)}


def test_every_variable_that_fuseline_reads_is_a_setting() -> None:
    assert read_in("src") == told(SETTINGS)


@pytest.mark.parametrize("folder", ["tests", "tools", "benchmarks"])
def test_every_variable_that_tests_and_tools_read_is_told(folder: str) -> None:
    assert read_in(folder) <= told(SETTINGS) | told(CONTRIBUTING)


def test_no_variable_is_told_that_nobody_reads() -> None:
    assert told(SETTINGS) | told(CONTRIBUTING) <= read_in("src") | read_in("tests")


def test_every_tool_is_told() -> None:
    programs = {p.name for p in (ROOT / "tools").glob("*.py") if '__name__ == "__main__"' in p.read_text("utf-8")}
    assert programs
    assert programs == set(re.findall(r"`tools/(\w+\.py)", CONTRIBUTING))
