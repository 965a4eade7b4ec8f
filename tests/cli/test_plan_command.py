"""Promises of ``fuseline plan``, made through the entry point as a user's shell would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuseline.cli.main import run
from fuseline.plan.arena.instance_csv import is_instance_text, read_csv

CSV = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "input.csv"
    path.write_text(CSV)
    return path


def test_json_has_the_stable_keys(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(example), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    keys = {"peak_bytes", "lower_bound_bytes", "optimal", "gap", "seconds", "stopped_because", "buffers"}
    assert keys <= set(found)
    assert (found["peak_bytes"], found["lower_bound_bytes"], found["optimal"], found["gap"]) == (12, 12, True, 0.0)
    assert [set(b) for b in found["buffers"]] == [{"id", "offset"}] * 5


def test_out_writes_the_instance_with_its_offsets(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert run(["plan", str(example), "--out", str(out), "--quick"]) == 0
    written = read_csv(out)
    assert [b.id for b in written.buffers] == ["b1", "b2", "b3", "b4", "b5"]
    assert max((b.offset or 0) + b.size for b in written.buffers) == 12


@pytest.mark.parametrize(
    ("lang", "words"), [("en", ("lower bound", "12 B are live")), ("zh", ("下界", "有 12 B 存活"))]
)
def test_the_report_speaks_both_languages(
    example: Path, capsys: pytest.CaptureFixture[str], lang: str, words: tuple[str, str]
) -> None:
    assert run(["plan", str(example), "--lang", lang]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)


def test_a_capacity_that_cannot_be_reached_is_a_no(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(example), "--capacity", "11"]) == 1
    assert "infeasible: at t=0 12 B are live" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.csv"],
        ["input.csv", "--time-limit", "0"],
        ["input.csv", "--time-limit", "soon"],
        ["input.csv", "--capacity", "lots"],
        ["input.csv", "--chart", "arena.gif"],
        ["input.csv", "--out", "no/such/folder/x.csv"],
        ["input.csv", "--out", ""],
        ["input.csv", "--out", "."],
        ["input.csv", "--chart", ""],
        ["input.csv", "--chart", "no/such/folder/x.svg"],
        ["input.csv", "--capacity", "-1"],
        ["input.csv", "--shape", "3"],
        ["input.csv", "--dtype", "f32"],
        ["input.csv", "--size", "T=3"],
        ["input.csv", "--outputs", "y"],
        ["input.csv", "--alignment", "64"],
        ["y = x + 1", "--alignment", "0"],
        ["y = x + 1", "--alignment", "1.5"],
    ],
)
def test_bad_input_is_one_line_and_status_2(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(example.parent)
    assert run(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("fuseline: ")
    assert captured.err.count("\n") == 1


def test_a_capacity_with_a_fraction_of_a_byte_is_rounded_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "large.csv"
    path.write_text("id,lower,upper,size\na,0,4,1288490188\nb,3,6,1\n")
    assert run(["plan", str(path), "--capacity", "1.2 GiB"]) == 1
    assert "but the capacity is 1.2 GiB (1,288,490,188 bytes)" in capsys.readouterr().err
    path.write_text("id,lower,upper,size\na,0,4,1288490188\n")
    assert run(["plan", str(path), "--capacity", "1.2 GiB"]) == 0


def test_what_cannot_be_written_is_refused_before_the_search(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def search(*_: object, **__: object) -> None:
        raise AssertionError("the search began")

    monkeypatch.setattr("fuseline.api.planning.plan_buffers", search)
    for option in ("--out", "--chart"):
        assert run(["plan", str(example), option, str(example.parent / "missing" / "x.svg")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_quick_is_for_programs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from fuseline.plan.arena.exact import ExactSearch

    asked: list[object] = []
    monkeypatch.setattr(ExactSearch, "run", lambda self, *_, **__: asked.append(self) or True)
    # As if no quick answer were good enough, so that the search is asked for wherever it may be.
    monkeypatch.setattr("fuseline.plan.arena.planner._Planning._done", lambda self: False)
    assert run(["plan", "y = exp(x) + x", "--quick"]) == 0
    assert not asked
    assert run(["plan", "y = exp(x) + x"]) == 0
    assert asked


STRANGE = ("\u202eabc</script><script>alert(1)</script>", "\ufffe & <b>", "\u200b", "na\u00efve")


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_any_id_that_can_be_read_can_be_drawn_and_stays_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    path, chart = tmp_path / "strange\x1b[31m.csv", tmp_path / f"chart.{ending}"
    path.write_text("id,lower,upper,size\n" + "".join(f"{id},0,3,4\n" for id in STRANGE), encoding="utf-8")
    assert run(["plan", str(path), "--chart", str(chart)]) == 0
    shown = capsys.readouterr().out
    drawn = chart.read_bytes()
    for raw in ("\u202e", "\ufffe", "\u200b", "\x1b"):
        assert raw not in shown
        assert ending == "png" or raw.encode() not in drawn
    assert b"<script>alert" not in drawn
    assert "\\u202eabc" in shown


@pytest.mark.parametrize("id", ["a\0b", "\x1b[31mred", '"a\nb"', "\x9b31m"])
def test_an_id_with_a_control_character_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], id: str
) -> None:
    path = tmp_path / "control.csv"
    path.write_text(f"id,lower,upper,size\n{id},0,3,4\n", encoding="utf-8")
    assert run(["plan", str(path), "--chart", str(tmp_path / "chart.svg")]) == 2
    captured = capsys.readouterr()
    assert "its id has a control character" in captured.err
    assert captured.err.count("\n") == 1
    assert captured.err.strip().isprintable()
    assert not (tmp_path / "chart.svg").exists()


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")])
def test_the_chart_is_written_in_each_format(example: Path, tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / f"arena.{ending}"
    assert run(["plan", str(example), "--chart", str(path)]) == 0
    assert path.read_bytes().lstrip().startswith(start)
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "input.csv"]


COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"


def test_a_picture_that_is_not_as_asked_for_is_told_by_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text("id,lower,upper,size\n\U0002a6d6,0,1,4\n")  # a character that few fonts have
    missing = lambda ending, texts: "".join(c for t in texts for c in t if not c.isascii())  # noqa: E731
    monkeypatch.setattr("fuseline.report.chart_files.without_font", missing)
    monkeypatch.setattr("fuseline.report.arena_chart.without_font", missing)
    picture = str(tmp_path / "a.png")
    assert run(["plan", str(path), "--chart", picture, "--lang", "zh"]) == 0
    said = capsys.readouterr().err
    assert "图片用英文绘制" in said and "\U0002a6d6" in said
    assert run(["explain", "y = x + 1", "--chart", picture, "--lang", "zh"]) == 0
    assert "图片用英文绘制" in capsys.readouterr().err
    assert run(["explain", "y = x + 1", "--chart", picture, "--lang", "en"]) == 0
    assert capsys.readouterr().err == ""


def test_a_formula_is_ordered_and_placed_in_two_buffers_instead_of_three(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", COURSE, "--shape", "1024", "--dtype", "f32", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["program_order_peak_bytes"], found["peak_bytes"], found["optimal"]) == (3 * 4096, 2 * 4096, True)
    assert len(found["buffers"]) == 2
    assert len(found["order"]) == 11
    assert {"result": "out", "operand": "y"} in found["overwrites"]


def test_a_program_whose_search_was_interrupted_says_so_and_is_status_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fuseline.plan.schedule import least_memory

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(least_memory, "least_memory_order", interrupt)
    # Whatever comes first, two large values are alive beside a third: less than any order needs is all that is known.
    source = "x: f32[64]; a = exp(x); p = sum(a); b = tanh(x); q = sum(b*a); c = sqrt(x); out = sum(c*b) + p*q"
    assert run(["plan", source, "--json"]) == 130
    found = json.loads(capsys.readouterr().out)
    assert (found["stopped_because"], found["optimal"]) == ("interrupted", False)
    assert found["in_this_order"]["stopped_because"] == "optimal"
    assert run(["plan", source, "--lang", "en"]) == 130
    assert ["stopped", "interrupted"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_graph_in_text_form_is_planned_and_its_report_names_each_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("%x = input f32[8]\n%h = exp f32[8] %x\n%out = add f32[8] %h, %x\nreturn out=%out\n")
    assert run(["plan", str(path), "--lang", "en"]) == 0
    out = capsys.readouterr().out
    assert "Steps in the chosen order" in out
    assert "32 B" in out


@pytest.mark.parametrize(
    "text", [CSV, "\ufeff" + CSV, "\n\nsize, end, start, buffer\n4,3,0,b1\n", '"id","lower","upper","size"\nb,0,1,4\n']
)
def test_buffers_are_known_by_their_header_whatever_the_file_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text(text)
    assert run(["plan", str(path), "--json"]) == 0
    wanted = json.loads(capsys.readouterr().out)
    renamed = path.rename(tmp_path / "buffers.txt")
    with renamed.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        for source in ("-", str(renamed), text.lstrip("\ufeff")):
            assert run(["plan", source, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["buffers"] == wanted["buffers"]
    assert run(["plan", str(renamed), "--dtype", "f32"]) == 2
    assert "only for programs" in capsys.readouterr().err


def test_a_bad_header_is_one_of_buffers_and_a_bad_line_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "buffers.txt"
    path.write_text("id,lower,upper,bytes\na,0,1,4\n")
    assert run(["plan", str(path)]) == 2
    assert f"{path}, line 1: no column size" in capsys.readouterr().err
    path.write_text("id,lower,upper,size\na,0,0,4\n")
    assert run(["plan", str(path)]) == 2
    assert f"{path}, line 2: buffer 'a'" in capsys.readouterr().err


def test_no_formula_is_taken_for_buffers() -> None:
    for formula in ("id, size = divmod(x, y)", "lower + upper", "size = id*lower", "x: f32[lower, upper]; out = x"):
        assert not is_instance_text(formula)


def test_a_bad_formula_is_status_2_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "x +* y"]) == 2
    assert "line 1, column" in capsys.readouterr().err
