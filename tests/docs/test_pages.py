"""What the pages show can be typed: their commands and programs run, their files are read, their names exist."""

from __future__ import annotations

import importlib
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import fuseline as fl
from fuseline.cli.application import application
from fuseline.cli.main import COMMANDS, run
from fuseline.machine.files import parse_device_text

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["planner", "roofline", "devices", "kernels"]
TAKES_LONG = ("--measure", "probe", "bench")
"""Words of commands that measure this machine; what they print depends on it."""


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), flags=re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, str]]:
    for name in PAGES:
        for block in blocks(name, ""):
            yield from (
                (name, line.removeprefix("$ ")) for line in block.splitlines() if line.startswith("$ fuseline ")
            )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the pages assume it: the checkout's examples, and buffers of one's own."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "buffers.csv").write_text("id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "line"), [pytest.param(*c, id=c[1].split("  ")[0]) for c in commands()])
def test_a_command_of_a_page_runs(folder: Path, capsys: pytest.CaptureFixture[str], name: str, line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    if set(TAKES_LONG) & set(arguments):
        pytest.skip("it measures this machine")
    if "--chart" in arguments:
        for package in ("altair", "vl_convert"):
            pytest.importorskip(package)
    assert run(arguments) == 0
    assert capsys.readouterr().out
    for option in ("--chart", "--out"):
        if option in arguments:
            assert (folder / arguments[arguments.index(option) + 1]).stat().st_size


def test_the_pages_have_commands() -> None:
    assert {name for name, _ in commands()} >= {"planner", "roofline"}


@pytest.mark.parametrize("name", [p.stem for p in sorted((ROOT / "docs").glob("*.md")) if blocks(p.stem, "python")])
def test_the_python_of_a_page_runs_when_it_is_pasted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for i, code in enumerate(blocks(name, "python")):
        (tmp_path / f"block{i}.py").write_text(code, encoding="utf-8")  # functions are traced from their source
        runpy.run_path(str(tmp_path / f"block{i}.py"))


def test_the_device_file_shown_is_one() -> None:
    (shown,) = blocks("devices", "toml")
    (device,) = parse_device_text(shown, "docs/devices.md")
    assert device.name == "acme-x1"


@pytest.mark.parametrize("name", ["CHANGELOG.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_tells_exists(name: str) -> None:
    told = re.findall(
        r"[`(]((?:docs|src|tests|examples|benchmarks|requirements)/[^`)]*)[`)]", (ROOT / name).read_text()
    )
    assert told
    assert not [path for path in told if not (ROOT / path.partition("#")[0]).exists()]


EVERY_PAGE = sorted(p for p in (ROOT / "docs").glob("*.md") if not p.stem.startswith("benchmarks"))


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "README.zh-CN.md", *EVERY_PAGE], ids=lambda p: p.stem)
def test_every_name_of_ours_that_a_page_tells_is_public(path: Path) -> None:
    """Or a module, which tells where something lies."""
    for told in sorted(set(re.findall(r"\b(?:fl|fuseline)((?:\.[a-z]\w*)+)", path.read_text(encoding="utf-8")))):
        first, *rest = told.lstrip(".").split(".")
        if first in ("toml", "fl"):  # names of files
            continue
        if first in fl.__all__:
            assert not rest or hasattr(getattr(fl, first), rest[0]), told
        else:
            importlib.import_module(f"fuseline{told}")


@pytest.mark.parametrize("name", ["planner", "roofline", "devices"])
def test_every_option_that_a_page_tells_exists(name: str) -> None:
    known = {"--target"}
    for command in COMMANDS:
        found = typer.main.get_command(application([command], COMMANDS)).commands[command]
        for inner in getattr(found, "commands", {"": found}).values():
            known.update(option for parameter in inner.params for option in parameter.opts)
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page(name)))
    assert told
    assert told <= known
