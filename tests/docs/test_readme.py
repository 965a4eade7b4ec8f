"""What the two READMEs show is true: their Python runs, their commands exist, their figures are those of `explain`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.cli import main
from fuseline.cli.interrupts import INTERRUPTED
from fuseline.cli.main import COMMANDS
from fuseline.units import format_bytes, format_time

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["README.md", "README.zh-CN.md"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(name), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_its_python_runs_and_gives_what_numpy_gives(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    (code,) = blocks(name, "python")
    exec(compile(code, name, "exec"), names)
    x, b, r = (names[operand] for operand in "xbr")
    h = (x + b).astype(np.float64)
    expected = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h**3))) + r
    np.testing.assert_allclose(names["out"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(names["gate"](x, b), x / (1 + np.exp(-x)) * b, rtol=1e-5, atol=1e-6)
    assert "kernel" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_its_python_runs_when_it_is_pasted_into_an_interpreter(name: str, tmp_path: Path) -> None:
    """Which reads a statement at a time, supplies nothing, and goes on after an error."""
    (code,) = blocks(name, "python")
    environment = os.environ | {"PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-q", "-i"],
        input=code, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert "Error" not in done.stderr, done.stderr
    assert "kernel" in done.stdout and "ufunc" in done.stdout


def test_both_languages_show_the_same_program_text() -> None:
    first, second = (re.sub(r"#.*", "", "".join(blocks(name, "python"))).split() for name in NAMES)
    assert first == second
    first, second = (re.findall(r"^(?:fuseline|\.venv|make|python3).*", text_of(name), re.MULTILINE) for name in NAMES)
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_every_command_it_names_exists(name: str) -> None:
    named = set(re.findall(r"(?:^|`|/)fuseline ([a-z]+)", text_of(name), flags=re.MULTILINE))
    assert named
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("name", NAMES)
def test_every_exit_status_is_told(name: str) -> None:
    (told,) = re.findall(r"^(?:The exit status is|退出状态：).*(?:\n\S.*)*", text_of(name), flags=re.MULTILINE)
    statuses = {main.DONE, 1, main.BAD_INPUT, main.DEFECT, main.OUTPUT_LOST, INTERRUPTED, main.BROKEN_PIPE}
    assert {int(number) for number in re.findall(r"\d+", told)} == statuses


@pytest.mark.parametrize("name", NAMES)
def test_every_file_it_links_exists(name: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", text_of(name)):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_its_figures_are_those_of_explain(name: str) -> None:
    shown = text_of(name)
    (formula,) = re.findall(r'fuseline explain "(.*?)"', shown)
    e = fl.explain(formula)
    traffic = e.traffic
    for figure in (
        f"{len(e.dataflow.instructions)} ",
        format_bytes(traffic.unfused.bytes),
        format_bytes(traffic.fused.bytes),
        format_time(traffic.unfused.bandwidth_time_s),
        format_time(traffic.fused.bandwidth_time_s),
        f"{traffic.arithmetic_intensity_flop_per_byte:.4g} FLOP/B",
        f"{traffic.ridge_point_flop_per_byte:.4g}",
    ):
        assert figure in shown, figure
    counts = [int(n) for n in re.findall(r"(\d+) (?:array accesses against|次对) (\d+)", shown)[0]]
    assert counts == [traffic.unfused.array_accesses, traffic.fused.array_accesses]
    memory = (e.memory.naive_buffers, e.memory.planned_buffers, e.memory.best_order_buffers)
    row = next(line for line in shown.splitlines() if line.startswith(("| Memory", "| 内存")))
    assert tuple(int(n) for n in re.findall(r"\d+", row)) == memory


@pytest.mark.parametrize("name", NAMES)
def test_it_links_the_pages_on_language_operations_and_accuracy(name: str) -> None:
    further = text_of(name).rpartition("\n## ")[2]
    for page in ("language", "operations", "accuracy", "kernels", "roofline", "devices"):
        assert f"](docs/{page}.md)" in further
