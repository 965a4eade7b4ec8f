"""``explain``, ``bench`` and ``emit``: where a program comes from, what is printed, and which status is left."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fuseline.api.explaining import explain
from fuseline.api.explanation import Measured
from fuseline.api.measuring import NOT_TIMED, MeasuringInterrupted
from fuseline.api.program import evaluate, graph, optimize
from fuseline.cli import programs
from fuseline.cli.main import run
from fuseline.errors import DataFileError, LimitError, UnitError
from fuseline.frontends.formula import MAX_TEXT_BYTES
from fuseline.ir.text import parse_graph
from fuseline.report.catalogue import text

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.fl"))
GELU = "h = x + b; y = 0.5*h*(1+tanh(0.7978845608*(h+0.044715*h*h*h))); out = y + r"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What a command prints, having left this status; its complaint where that is not 0."""
    assert run(list(arguments)) == status
    streams = capsys.readouterr()
    assert bool(streams.err) == bool(status)
    return streams.err if status else streams.out


# ── where a program comes from ──


def test_a_formula_is_told_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.fl").write_text("x + 1")
    Path("noext").write_text("x + 2")
    assert programs.read_program("a.fl") == "x + 1"
    assert programs.read_program("noext") == "x + 2"
    assert programs.read_program("x + 3") == "x + 3"
    assert programs.read_program("tests/cli") == "tests/cli"  # a quotient
    with pytest.raises(FileNotFoundError):
        programs.read_program("missing.fl")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("\ufeffy = x # 注释\n".encode())))
    assert programs.read_program("-") == "y = x # 注释\n"


def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.fl"
    binary.write_bytes(b"x + \xff\xfe")
    with pytest.raises(DataFileError, match=r"binary\.fl: not UTF-8 text \(byte 4\)"):
        programs.read_program(str(binary))
    large = tmp_path / "large.fl"
    large.write_bytes(b"#" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(LimitError, match=r"large\.fl"):
        programs.read_program(str(large))


def test_missing_files_and_folders_are_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "folder.fl").mkdir()
    for name in ("missing.fl", "folder.fl"):
        for command in (["explain"], ["bench"], ["emit", "--target", "c"]):
            assert name in answer(capsys, *command, str(tmp_path / name), status=2)


@pytest.mark.parametrize("command", [["explain"], ["bench"], ["emit", "--target", "c"]])
def test_a_directory_and_a_mistyped_path_are_told_from_formulas(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("examples").mkdir()
    for folder in ("examples", "examples/", ".", "..", "/", str(tmp_path)):
        assert "this is a directory" in answer(capsys, *command, folder, status=2)
    for path in (
        "./gleu",
        "../gleu",
        "/nowhere/gleu",
        "examples/gleu",
        "examples/gleu.txt",
        "elsewhere/gleu.txt",
        "~/x",
    ):
        said = answer(capsys, *command, path, status=2)
        assert "there is no such file" in said and path in said


def test_quotients_are_still_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    for formula in ("x/y", "x/2.5", "x/1.e5", "x//y", "-x/.5", "~x/y", "(a/b)", "a / b", "y = x/b.c", "x/y\nz"):
        assert programs.read_program(formula) == formula


def test_sizes_and_names_are_read_or_refused() -> None:
    assert programs.parse_sizes(["T=4096", " D = 2^14 "]) == {"T": 4096, "D": 16384}
    assert programs.parse_sizes(None) == {}
    for wrong in (["T"], ["=4"], ["T=x"], ["T=1", "T=2"], ["T=-1"], ["2=2"]):
        with pytest.raises(UnitError):
            programs.parse_sizes(wrong)
    assert programs.parse_names(" y, z ,") == ["y", "z"]
    assert programs.parse_names(None) is None


# ── explain ──


def test_json_is_exactly_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(answer(capsys, "explain", GELU, "--json"))
    assert found == json.loads(json.dumps(explain(GELU).to_dict()))


def test_options_reach_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    program = "x: f32[T, D]; y = x*2; u = y*y; v = w*3"
    options = [
        "--size",
        "T=4",
        "--size",
        "D=8",
        "--device",
        "a100",
        "--dtype",
        "f16",
        "--outputs",
        "y,v",
        "--shape",
        "8",
    ]
    found = json.loads(answer(capsys, "explain", program, *options, "--json"))
    assert found == json.loads(
        json.dumps(explain(program, (8,), "f16", "a100", outputs=["y", "v"], sizes={"T": 4, "D": 8}).to_dict())
    )


def test_a_device_file_adds_machines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    machine = tmp_path / "mine.toml"
    machine.write_text(
        'format = 1\n[sources]\nme = "a note"\n[[device]]\nname = "mine"\ntitle = "My machine"\nsource = ["me"]\n'
        'confidence = "low"\n[device.memories.hbm]\nbandwidth = "1 TB/s"\n'
    )
    shown = answer(capsys, "explain", "x + y", "--device", "mine", "--device-file", str(machine), "--lang", "en")
    assert "My machine" in shown and "1 TB/s" in shown and "unknown" in shown


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_example_explains(capsys: pytest.CaptureFixture[str], path: Path, language: str) -> None:
    sizes = ["--size", "T=4096", "--size", "D=4096"] if "[T, D]" in path.read_text() else []
    shown = answer(capsys, "explain", str(path), *sizes, "--lang", language)
    assert {"en": "2  Traffic", "zh": "2  访存"}[language] in shown
    assert "\x1b" not in shown


def test_examples_open_with_what_they_are() -> None:
    assert {path.stem for path in EXAMPLES} >= {"gelu", "softmax"}
    for path in EXAMPLES:
        assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "y = x +"], "line 1, column"),
        (["explain", "y = tahn(x)"], "tanh"),
        (["explain", "x", "--device", "h1000"], "unknown device"),
        (["explain", "x", "--dtype", "f31"], "f31"),
        (["explain", "x", "--shape", "4x-1"], "-1"),
        (["explain", "x: f32[T]; y = x"], "--size T=4096"),
        (["explain", "x", "--size", "T=4"], "T"),
        (["explain", "x", "--outputs", "nothing"], "nothing"),
        (["explain", "x", "--lang", "fr"], "fr"),
        (["explain", "x", "--device-file", "missing.toml"], "missing.toml"),
        (["bench", "x + y", "--n", "0"], "at least one element"),
        (["bench", "x + y", "--threads", "0"], "thread count"),
        (["bench", "x + y", "--threads", "1,1025"], "from 1 to 1024"),
        (["bench", "x + y", "--threads", "one"], "one"),
        (["emit", "x + y", "--target", "fortran"], "fortran"),
        (["emit", "x + y", "--target", "numpy", "--header"], "--target c"),
        (["emit", "x + y", "--target", "llvm", "--functions", "libm"], "--target c"),
        (["emit", "x + y", "--target", "c", "--name", "a b"], "a b"),
        (["emit", "sum(x)", "--target", "c"], "reduction"),
    ],
)
def test_bad_input_is_explained_and_is_2(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    complaint = answer(capsys, *arguments, status=2)
    assert said in complaint
    assert "Traceback" not in complaint


def test_measuring_is_asked_for_with_the_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def measure(source: str, **options: Any) -> tuple[Measured, ...]:
        options.pop("progress")
        asked.append({"source": source, **options})
        return (Measured("numpy", 1, options["n"], options["dtype"], 0.1, 0.01, 1e9, 1e-7, 0.5, 1.0),)

    monkeypatch.setattr("fuseline.api.measuring.measure", measure)
    assert "100 ms" in answer(capsys, "explain", GELU, "--measure", "--lang", "en")
    answer(capsys, "explain", GELU, "--n", "2^10", "--dtype", "f16", "--quick")
    shown = json.loads(answer(capsys, "bench", GELU, "--threads", "1,3", "--outputs", "y", "--json"))
    assert [row["implementation"] for row in shown["measured"]] == ["numpy"]
    common = {"source": GELU, "outputs": None, "sizes": None, "thread_counts": None, "quick": False}
    assert asked == [
        common | {"n": 2**24, "dtype": "f32"},
        common | {"n": 2**10, "dtype": "f16", "quick": True},
        common | {"n": 2**24, "dtype": "f32", "outputs": ["y"], "thread_counts": [1, 3]},
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("command", [["bench"], ["explain", "--measure"]])
def test_an_interrupt_prints_the_rows_so_far_and_leaves_its_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str], language: str
) -> None:
    def measure(source: str, **options: Any) -> tuple[Measured, ...]:
        timed = Measured("numpy", 1, 8, "f32", 0.123, None, 1e9, 1e-7, None, 1.0)
        raise MeasuringInterrupted((timed, Measured("jit", 1, 8, "f32", None, note=NOT_TIMED)))

    monkeypatch.setattr("fuseline.api.measuring.measure", measure)
    assert run([*command, GELU, "--lang", language]) == 130
    streams = capsys.readouterr()
    assert "123 ms" in streams.out and text("explain.note.not_timed", language) in streams.out
    assert streams.err == f"fuseline: {text('explain.measured.interrupted', language)}\n"
    assert run([*command, GELU, "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["measured"][0]["median_s"] == 0.123


# ── emit ──


def test_the_numpy_texts_compute_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {
        name: np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4) * k
        for name, k in zip("xbr", (1, 2, 3), strict=True)
    }
    expected = evaluate(optimize(graph(GELU)), arrays)
    for target in ("numpy", "numpy-planned"):
        names: dict[str, Any] = {}
        exec(answer(capsys, "emit", GELU, "--target", target, "--name", "gelu"), names)
        np.testing.assert_allclose(names["gelu"](**arrays), expected, rtol=1e-5, atol=1e-6)


def test_the_graph_text_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "emit", GELU, "--target", "graph", "--shape", "4x8", "--dtype", "bf16")
    assert parse_graph(text) == optimize(graph(GELU, "bf16", shape=(4, 8)))


@pytest.mark.parametrize("program", [GELU, "out = 1 + 1", "x: f16[T, D]; y = exp(x); z = sum(y, -1)"])
def test_a_graph_that_was_written_is_a_program_of_every_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, program: str
) -> None:
    text = answer(capsys, "emit", program, "--target", "graph")
    path = tmp_path / "graph.txt"
    path.write_text("\ufeff# as it was written\n" + text)
    sizes = ["--size", "T=64", "--size", "D=8"] if "T, D" in program else []
    assert answer(capsys, "emit", str(path), "--target", "graph") == text
    for command in ("explain", "plan"):
        asked = ["--shape", "8x8", "--dtype", "f32", "--json", *sizes]
        mine, wanted = (json.loads(answer(capsys, command, source, *asked)) for source in (str(path), program))
        for found in (mine, wanted):
            found.pop("seconds", None), found.get("in_this_order", {}).pop("seconds", None)
        assert mine == wanted
    if program == GELU:
        asked = ["--shape", "8x8", "--dtype", "f32", "--json"]
        mine, wanted = (answer(capsys, "classify", "--formula", p, *asked) for p in (str(path), program))
        assert mine == wanted
        rows = json.loads(answer(capsys, "bench", str(path), "--n", "64", "--threads", "1", "--json"))["measured"]
        assert rows[0]["median_s"] > 0 and rows[-1]["median_s"] > 0


def test_a_graph_takes_the_options_of_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("%x = input f32[T]\n%h = exp f32[T] %x\n%y = neg f32[T] %h\nreturn y=%y\n")
    text = answer(capsys, "emit", str(path), "--target", "graph", "--outputs", "h", "--size", "T=8")
    assert text == "%x = input f32[8]\n%h = exp f32[8] %x\nreturn h=%h\n"


def test_a_bad_graph_is_named_by_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("%x = input f32[*]\n%y = expp f32[*] %x\nreturn y=%y\n")
    for command in ("explain", "bench", "plan"):
        assert run([command, str(path)]) == 2
        assert "line 2: no instruction is called 'expp'" in capsys.readouterr().err


def test_the_nest_shows_the_loops(capsys: pytest.CaptureFixture[str]) -> None:
    softmax = str(next(path for path in EXAMPLES if path.stem == "softmax"))
    text = answer(capsys, "emit", softmax, "--target", "nest", "--shape", "64x128")
    assert "for i0 in 64 (parallel):" in text
    assert "for i1 in 128 (reduction):" in text
    assert answer(capsys, "emit", "x*y", "--target", "nest").startswith("for i0 in elements (parallel):")
    assert "launch 1:" in answer(capsys, "emit", "t = sum(x, 0); u = sum(x*t, 1)", "--target", "nest", "--shape", "4x5")


def test_c_has_our_functions_or_the_library_s(capsys: pytest.CaptureFixture[str]) -> None:
    own = answer(capsys, "emit", GELU, "--target", "c", "--name", "gelu")
    assert "void gelu(int64_t n," in own and "tanhf(" not in own
    assert GELU in own  # the program it came from, in the opening comment
    assert "tanhf(" in answer(capsys, "emit", GELU, "--target", "c", "--functions", "libm")
    header = answer(capsys, "emit", GELU, "--target", "c", "--name", "gelu", "--header")
    assert "#ifndef" in header and "void gelu(" in header and "{" in header


def test_llvm_and_assembly_are_texts(capsys: pytest.CaptureFixture[str]) -> None:
    assert "define" in answer(capsys, "emit", GELU, "--target", "llvm")
    assert ".text" in answer(capsys, "emit", GELU, "--target", "asm")


def test_output_goes_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "gelu.py"
    assert answer(capsys, "emit", GELU, "--target", "numpy", "-o", str(path)) == ""
    assert path.read_text() == answer(capsys, "emit", GELU, "--target", "numpy")
    assert str(tmp_path / "no") in answer(
        capsys, "emit", "x", "--target", "numpy", "-o", str(tmp_path / "no" / "x"), status=2
    )


def test_a_file_that_was_there_is_whole_or_as_it_was(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gelu.py"
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = answer(capsys, "emit", GELU, "--target", "numpy", "-o", str(path), status=74)
    assert said == f"fuseline: {path}: cannot be written: No space left on device\n"
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["gelu.py"]


def test_what_cannot_be_written_is_refused_before_the_program_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "cannot be written" in answer(
        capsys, "emit", "no program", "--target", "c", "-o", str(tmp_path / "no" / "x"), status=2
    )


# ── named sizes ──

NORM = str(next(path for path in EXAMPLES if path.name == "rms_norm.fl"))
SIZED = {
    "explain": ("explain", NORM),
    "bench": ("bench", NORM, "--quick"),
    "plan": ("plan", NORM),
    "classify": ("classify", "--formula", NORM),
    "emit": ("emit", NORM, "--target", "graph"),
}


@pytest.mark.parametrize("command", sorted(SIZED))
def test_a_size_that_no_array_has_is_refused_by_every_command(capsys: pytest.CaptureFixture[str], command: str) -> None:
    given = ("--size", "T=2", "--size", "D=8", "--size", "Q=3")
    complaint = "fuseline: no array has a size called Q; the sizes are D, T\n"
    assert answer(capsys, *SIZED[command], *given, status=2) == complaint


@pytest.mark.parametrize("command", sorted(SIZED.keys() - {"emit"}))  # a text may leave sizes open
def test_a_size_that_is_missing_is_asked_for_in_the_same_words(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    complaint = 'fuseline: give the named size T: --size T=4096 (sizes={"T": 4096} in Python)\n'
    assert answer(capsys, *SIZED[command], "--size", "D=8", status=2) == complaint


@pytest.mark.parametrize("command", sorted(SIZED.keys() - {"bench"}))  # measuring has tests of its own
def test_sizes_are_taken(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert answer(capsys, *SIZED[command], "--size", "T=2", "--size", "D=2^3")


# ── whole processes ──


def test_a_pipe_gets_no_colours_and_standard_input_is_a_program() -> None:
    command = [sys.executable, "-m", "fuseline", "explain", "-", "--lang", "zh"]
    environment = os.environ | {"COLUMNS": "80", "PYTHONUTF8": "1"}
    done = subprocess.run(command, input=GELU, env=environment, capture_output=True, text=True, check=True)
    assert "3.288 GB" in done.stdout and "\x1b" not in done.stdout
    assert done.stderr == ""


def test_explaining_imports_neither_llvm_nor_the_measuring_machinery() -> None:
    script = (
        "import sys\nfrom fuseline.cli.main import run\nrun(['explain', 'tanh(x)*y', '--json'])\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"llvmlite", "numba", "ortools", "altair", "rich", "fuseline.api.measuring"} & loaded


def test_nests_say_what_they_cannot_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["emit", "y = 3", "--target", "nest"]) == 0
    assert capsys.readouterr().out == "y = 3\n"
    assert run(["emit", "a = x; b = x + 1", "--outputs", "a,b", "--target", "nest"]) == 0
    assert capsys.readouterr().out == "for i0 in elements (parallel):\n  %b = add %x, 1.0\n  a = %x\n"
    softmax = "m = max(x, -1); w = exp(x - m); y = w/sum(w, -1)"
    assert run(["emit", softmax, "--target", "nest"]) == 0
    assert "give --shape" in capsys.readouterr().out
    assert run(["emit", softmax, "--target", "nest", "--shape", "4x8"]) == 0
    assert "launch" not in capsys.readouterr().out


def test_a_closed_standard_input_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run(["explain", "-"]) == 2
    assert "standard input" in capsys.readouterr().err
