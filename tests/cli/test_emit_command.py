"""``fuseline emit`` and ``Kernel.emit`` write the same texts, with the same options, of the same targets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fuseline as fl
from fuseline.cli.main import run
from fuseline.codegen.targets import EMIT_TARGETS, EmitTarget
from fuseline.errors import UnsupportedError

ROOT = Path(__file__).resolve().parents[2]
GELU = "h = x + b; y = 0.5*h*(1+tanh(0.7978845608*(h+0.044715*h*h*h))); out = y + r"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What the command prints, having left this status; its complaint where that is not 0."""
    assert run(["emit", *arguments]) == status
    streams = capsys.readouterr()
    return streams.err if status else streams.out


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_readmes_list_every_target(page: str) -> None:
    (listed,) = re.findall(r"`fuseline emit \S+ --target (\S+)`", (ROOT / page).read_text(encoding="utf-8"))
    assert listed.split(r"\|") == list(EMIT_TARGETS)
    (comment,) = re.findall(r"print\(k\.emit.*?# (.*)", (ROOT / page).read_text(encoding="utf-8"))
    assert set(EMIT_TARGETS) <= set(re.findall(r"[a-z-]+", comment))


def test_the_page_on_kernels_says_what_every_target_is() -> None:
    section = (ROOT / "docs" / "kernels.md").read_text("utf-8").partition("\n## As text\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(.*?)`", section, flags=re.MULTILINE) == list(EMIT_TARGETS)


def test_an_unknown_target_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    complaint = answer(capsys, "x + y", "--target", "fortran", status=2)
    with pytest.raises(fl.UnknownNameError) as refusal:
        fl.compile("x + y").emit("fortran")  # type: ignore[arg-type]
    for target in EMIT_TARGETS:
        assert target in complaint and target in str(refusal.value)


@pytest.mark.parametrize("target", EMIT_TARGETS)
def test_the_command_and_the_kernel_write_the_same_text(capsys: pytest.CaptureFixture[str], target: EmitTarget) -> None:
    for options, asked in (
        ([], {}),
        (["--dtype", "f64", "--shape", "4x8"], {"dtype": "f64", "shape": (4, 8)}),
        (["--header"], {"header": True}),
        (["--functions", "libm"], {"functions": "libm"}),
    ):
        kernel = fl.compile(GELU, name="gelu")
        if target != "c" and not {"header", "functions"}.isdisjoint(asked):
            complaint = answer(capsys, GELU, "--target", target, *options, status=2)
            with pytest.raises(UnsupportedError) as refusal:
                kernel.emit(target, **asked)
            assert complaint == f"fuseline: {refusal.value}\n" and "--target c" in complaint
            continue
        mine = answer(capsys, GELU, "--target", target, "--name", "gelu", *options)
        text = kernel.emit(target, **asked)
        if target == "c":  # the opening comment says what the text was made from: here a formula, there a graph
            mine, text = (re.sub(r"/\*.*?\*/", "", t, count=1, flags=re.DOTALL) for t in (mine, text))
        assert mine.strip() == text.strip() and text.strip()


@pytest.mark.parametrize("target", EMIT_TARGETS)
def test_json_has_the_text_and_the_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: EmitTarget
) -> None:
    asked = [GELU, "--target", target, "--name", "gelu"]
    text = answer(capsys, *asked)
    found = json.loads(answer(capsys, *asked, "--json"))
    assert found["text"].rstrip("\n") == text.rstrip("\n")
    assert {k: found[k] for k in found if k != "text"} == {
        "target": target, "name": "gelu", "inputs": ["x", "b", "r"], "outputs": ["out"], "header": False
    }  # fmt: skip
    assert answer(capsys, *asked, "--json", "-o", str(tmp_path / "gelu.json")) == ""
    assert json.loads((tmp_path / "gelu.json").read_text()) == found


def test_what_is_said_of_loops_is_said_in_the_language(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["m = max(x, -1); w = exp(x - m); y = w/sum(w, -1)", "--target", "nest"]
    english, chinese = (answer(capsys, *asked, "--lang", language).splitlines() for language in ("en", "zh"))
    assert english[0].startswith("# the axes") and "--shape" in chinese[0] and english[0] != chinese[0]
    assert english[1:] == chinese[1:]
    kernel = fl.compile(asked[0])
    assert kernel.emit("nest").splitlines()[1:] == english[1:] and "give a shape" in kernel.emit("nest")
    assert "launch" not in kernel.emit("nest", shape=(4, 8))
