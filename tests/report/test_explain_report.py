"""The report shows the facts at any width, in both languages and in HTML, and shortens what is long."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from fuseline.api.explaining import explain
from fuseline.api.explanation import Explanation, Measured
from fuseline.api.measuring import measure
from fuseline.api.program import graph, optimize
from fuseline.codegen.c import emit_program
from fuseline.errors import UnsupportedError
from fuseline.machine.files import parse_device_text
from fuseline.report.catalogue import LANGUAGES, check_catalogues, text, topic_texts, topics
from fuseline.report.document import Document, Remarks, Section, head_and_tail
from fuseline.report.explain_document import bench_document, explain_document, operation_text
from fuseline.report.html import html_document
from fuseline.report.json_text import json_lines
from fuseline.report.measured_document import note_text
from fuseline.report.terminal import LEAST_WIDTH, TerminalView, plain_text
from fuseline.report.views import register
from fuseline.report.wrapping import cut, width_of

GELU = "h = x + b; y = 0.5*h*(1+tanh(0.7978845608*(h+0.044715*h*h*h))); out = y + r"
NAMES = ("numpy", "numpy-planned", "c-libm", "c-own", "jit")
FIGURES = (
    "3.288 GB", "469.8 MB", "981.6 µs", "140.2 µs", "1.375 FLOP/B", "295.3 FLOP/B", "19.97 FLOP/B", "58,720,256",
    "117.4 MB", "4 µs", "44 µs", "3.35 TB/s", "989.4 TFLOPS", "66.9 TFLOPS", "1.292 GB", "352.3 MB", "234.9 MB", "7×",
)  # fmt: skip
NUMBER_WITH_UNIT = re.compile(r"\d [kMGTµmn]?(?:B|s|FLOP/B|B/s)\b")


def rendered(e: Explanation, width: int, language: str = "en", **options: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False, **options)  # type: ignore[arg-type]
    console.print(TerminalView(explain_document(e, language)))
    return out.getvalue()


@pytest.fixture(scope="module")
def gelu() -> Explanation:
    return explain(GELU)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [80, 120])
def test_every_figure_is_shown_whole_and_no_line_is_too_long(gelu: Explanation, width: int, language: str) -> None:
    shown = rendered(gelu, width, language)
    for figure in FIGURES:
        assert figure in shown
    assert all(width_of(line) <= width for line in shown.splitlines())
    assert all(line == line.rstrip() for line in shown.splitlines())


def test_counts_of_accesses_launches_and_buffers_stand_side_by_side(gelu: Explanation) -> None:
    shown = rendered(gelu, 80)
    assert re.search(r"arrays read and written +28 +4 +7×", shown)
    assert re.search(r"kernel launches +11 +1 +11×", shown)
    assert [
        re.search(rf"{plan}.* (\d+) +[\d.]+ [GM]B", shown)[1] for plan in ("every instr", "order of", "best order")
    ] == [
        "11",
        "3",
        "2",
    ]  # type: ignore[index]


def test_the_assumed_launch_cost_is_marked_and_figures_name_their_source(gelu: Explanation) -> None:
    assert re.search(r"cost of a launch +4 µs +assumed", rendered(gelu, 80))
    assert re.search(r"单次启动开销 +4 µs +假设", rendered(gelu, 80, "zh"))
    assert "datasheet" in rendered(gelu, 80) and "数据手册" in rendered(gelu, 80, "zh")


def test_a_figure_that_predicts_no_time_is_unknown_and_says_why() -> None:
    text = """
format = 1
[[device]]
name = "x-1"
[device.pipes.matrix]
bf16 = { value = "200 TFLOPS", sparse = true }
[device.memories.hbm]
bandwidth = { value = "2 TB/s", kind = "model constant" }
"""
    e = explain("out = x + y", device=parse_device_text(text)[0])
    shown = rendered(e, 80)
    assert re.search(r"time for the bytes +unknown \(model constant\) +unknown", shown)
    assert re.search(r"total, at least +unknown \(model constant\)", shown)
    assert re.search(r"ridge point, matrix +unknown \(sparse peak\)", shown)
    assert re.search(r"bound +undetermined", shown)
    chinese = rendered(e, 80, "zh")
    assert "未知（模型常数）" in chinese and "未知（稀疏峰值）" in chinese and "unknown" not in chinese
    fused = e.to_dict()["traffic"]["fused"]
    assert fused["bandwidth_time_s"] is None and fused["total_s"] is None and fused["bytes"] > 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_line_fits_from_the_least_width_on_and_prose_in_any(gelu: Explanation, language: str) -> None:
    timed = [Measured(name, t, 1 << 24, "bf16", 0.1234, 0.1, 1e12, 1e-7, 0.5, 123.0) for name in NAMES for t in (1, 64)]
    e = gelu.with_measurements(tuple(timed))
    documents = [explain_document(e, language), bench_document(e.graph, timed, GELU, language)]
    for document in documents:
        for width in (LEAST_WIDTH, LEAST_WIDTH + 7, 120):
            assert all(width_of(line) <= width for line in plain_text(document, width).splitlines())
        prose = [b for section in document.sections for b in section.blocks if isinstance(b, Remarks)]
        for width in (20, 33, 60):
            alone = Document("", (Section("", tuple(prose)),), language)
            assert all(width_of(line) <= width for line in plain_text(alone, width).splitlines())
            numbers = re.findall(r"3\.288 GB|469\.8 MB", plain_text(document, width))
            assert document is documents[1] or len(numbers) >= 2  # no number is cut for want of room


def test_nothing_is_coloured_where_nobody_sees_it(gelu: Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in rendered(gelu, 80)
    assert "\x1b[" in rendered(gelu, 80, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3\dm", rendered(gelu, 80, force_terminal=True, color_system="standard"))


def test_both_languages_show_the_same_table_rows(gelu: Explanation) -> None:
    def numbers(language: str) -> list[list[str]]:
        lines = rendered(gelu, 100, language).splitlines()
        return [found for line in lines if len(found := re.findall(r"[\d.,]*\d", line)) >= 3 and "%" not in line]

    assert check_catalogues() == []
    english = {tuple(row) for row in numbers("en")}
    assert len(english & {tuple(row) for row in numbers("zh")}) >= 20


def test_a_long_program_is_shortened_in_the_middle_and_whole_in_json() -> None:
    e = explain("out = " + " + ".join(f"x{i % 7}*{i}.0" for i in range(3000)))
    count = len(e.dataflow.instructions)
    shown = rendered(e, 80)
    assert len(shown.splitlines()) < 250
    assert f"… {count - 32:,} instructions left out" in shown
    assert re.search(rf"^ *{count - 1} +out ", shown, re.M)
    assert len(json.loads("\n".join(json_lines(e.to_dict())))["instructions"]) == count


def test_the_middle_is_only_left_out_where_that_saves_lines() -> None:
    assert head_and_tail(range(33), 24, 8) == (range(33), 0, range(0))
    head, hidden, tail = head_and_tail(range(34), 24, 8)
    assert (len(head), hidden, list(tail)) == (24, 2, list(range(26, 34)))


@pytest.mark.parametrize("name", ["a" * 300, "数据流" * 40, "ß" * 70])
def test_long_names_give_way_to_numbers(name: str) -> None:
    e = explain(f"{name} = x + b; out = {name}*{name}")
    shown = rendered(e, 80)
    assert all(width_of(line) <= 80 for line in shown.splitlines())
    assert re.search(r"^0 +\S*… +x \+ b +1 +1 +1$", shown, re.M)
    assert "587.2 MB" in shown  # (2 + 1) + (1 + 1) arrays of 117.4 MB


def test_a_narrow_terminal_and_an_ascii_one_get_every_row(gelu: Explanation) -> None:
    assert "981.6 µs" in rendered(gelu, 30)
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    Console(file=out, width=80, markup=False).print(TerminalView(explain_document(gelu, "en")))
    out.flush()
    shown = out.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert "#####" in shown and "3.288 GB" in shown


def test_an_unknown_peak_is_shown_as_unknown() -> None:
    e = explain("x + y", device="ascend-950dt", dtype="f64")
    shown = rendered(e, 80)
    assert re.search(r"ridge point, vector +unknown", shown)
    assert "None" not in shown and "nan" not in shown


ODD = [
    ("x", (4, 0)),
    ("x", ()),
    ("out = 3.0*x", None),
    ("sum(x)", None),
    ("a = x < y; b = ~a", None),
    ("i8(x) // i8(y)", (1,)),
    ("where(x > 0, x, -x)", (2, 3)),
]


@pytest.mark.parametrize(("program", "shape"), ODD)
def test_small_and_odd_programs_have_a_report(program: str, shape: tuple[int, ...] | None) -> None:
    e = explain(program, shape=shape)
    for language in LANGUAGES:
        assert "None" not in rendered(e, 80, language)
        html_document(explain_document(e, language))


def test_operations_are_spelt_as_formulas_spell_them() -> None:
    g = optimize(graph("out = -max(bf16(x)*2, axis=-1) < maximum(where(x > y, x, y), 1.5)", shape=(4, 4)))
    spelt = {operation_text(g, node) for node in g.nodes}
    assert "bf16(x)" in spelt
    assert any(re.fullmatch(r"max\(%\d, axis=-1, keepdims=True\)", text) for text in spelt)
    assert any(re.fullmatch(r"where\(%\d, x, y\)", text) for text in spelt)
    assert any(re.fullmatch(r"%\d < %\d", text) for text in spelt)


# ── measurements ──


def measured() -> list[Measured]:
    n = 1 << 24
    return [
        Measured("numpy", 1, n, "f32", 0.240, 0.012, 7.8e9, 1.2e-6, 0.45, 1.0),
        Measured("c-libm", 1, n, "f32", None, note="no C compiler found (CC, cc, gcc, clang)"),
        Measured("jit", 1, n, "f32", 0.0243, 0.001, 11.05e9, 2.4e-7, 0.97, 9.88),
        Measured("jit", 2, n, "f32", 0.0201, 0.001, 13.35e9, 2.4e-7, None, 11.94),
        Measured("another", 2, n, "f32", 0.0301),
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_measured_rows_show_their_figures(language: str) -> None:
    out = io.StringIO()
    document = bench_document(optimize(graph(GELU)), measured(), GELU, language)
    Console(file=out, width=80, markup=False, highlight=False).print(TerminalView(document))
    shown = out.getvalue()
    for figure in ("240 ms", "24.3 ms", "9.88×", "11.05 GB/s", "97.0 %", "2.4e-07", "16,777,216", "another"):
        assert figure in shown
    assert all(width_of(line) <= 80 for line in shown.splitlines())
    assert {"en": "no C compiler", "zh": "没有找到 C 编译器"}[language] in shown


@pytest.mark.parametrize("language", LANGUAGES)
def test_rows_that_cannot_run_say_why_to_a_user(language: str) -> None:
    """What a reduction's rows say is a sentence of the catalogue, not a remark to a programmer."""
    program = "m = max(x, -1); out = exp(x - m)"
    with pytest.raises(UnsupportedError) as refused:  # what the C rows of a reduction say
        emit_program(optimize(graph(program)))
    shown = note_text(str(refused.value), language)
    assert "primitive" not in shown and "expand the graph" not in shown and "max" in shown
    assert {"en": "a reduction (max) has no C", "zh": "归约（max）还没有 C"}[language] in shown
    assert language == "en" or "reductions" not in shown


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("command", "program"), [("false", "x + 1"), ('"', "x + 1"), ("/no/compiler", "x + 1"), ("", "b: f32[1]; x + b")]
)
def test_notes_of_the_c_rows_are_sentences_of_the_catalogue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str, command: str, program: str
) -> None:
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho no such option >&2\nexit 4\n")
    failing.chmod(0o755)
    monkeypatch.setenv("CC", command)
    notes = [r.note for r in measure(program, n=16, thread_counts=[1], quick=True) if r.median_s is None]
    if command:
        monkeypatch.setenv("CC", str(failing))
        notes += [r.note for r in measure(program, n=16, thread_counts=[1], quick=True) if r.median_s is None]
    else:
        with pytest.raises(UnsupportedError) as refused:
            emit_program(optimize(graph(program)))
        notes.append(str(refused.value))
    assert notes
    for note in notes:
        assert (note_text(note, language) == " ".join(note.split())) == (language == "en")


def test_a_compiler_s_words_stand_on_one_line_without_control_characters() -> None:
    assert note_text("it said:\n  \x1b[1merror\x1b[0m", "en") == "it said: \\x1b[1merror\\x1b[0m"


@pytest.mark.parametrize(
    ("program", "words"),
    [("x + b", "1 instruction ·"), ("x", "no instructions ·"), ("(x + b)*c", "2 instructions ·")],
)
def test_counts_agree_with_their_words(program: str, words: str) -> None:
    e = explain(program)
    assert words in rendered(e, 100) and "1 instructions" not in rendered(e, 100)
    assert not re.search(
        r"(?<![\d.,])1 (instructions|primitive instructions|kernels|buffers|elements)", rendered(e, 100)
    )
    out = io.StringIO()
    Console(file=out, width=100).print(
        TerminalView(bench_document(optimize(graph(program)), measured(), program, "en"))
    )
    assert words in out.getvalue()


def test_every_count_before_an_english_plural_knows_its_singular() -> None:
    """A count right before a plural is written {count:row|rows}."""
    plural = re.compile(r"\{(\w+)\} ((?:primitive )?[a-z]+s)\b")
    for topic in topics("en"):
        for key, words in topic_texts(topic, "en").items():
            found = {(f, w) for f, w in plural.findall(words) if f in COUNTS}
            assert not found, f"{topic}.{key}: {found}"
    assert text("roofline.title_table", "en", name="course", count=1) == "course: 1 row"
    assert text("roofline.title_table", "en", name="course", count="2") == "course: 2 rows"


COUNTS = {
    "count", "users", "kernels", "levels", "depth", "naive", "planned", "best", "in_place", "alive", "primitives",
    "rows", "threads", "all", "stated", "agree", "disagree", "silent", "elements", "n",
}  # fmt: skip


def test_a_comment_cannot_command_the_terminal(gelu: Explanation) -> None:
    shown = rendered(explain("x + b  # \x1b[31mred\u202e 注释"), 100)
    assert "\x1b[31m" not in shown and "\u202e" not in shown
    assert "\\x1b[31mred\\u202e 注释" in shown


def test_an_explanation_has_the_fourth_section_only_with_measurements(gelu: Explanation) -> None:
    assert "Measured" not in rendered(gelu, 80)
    assert "4  Measured" in rendered(gelu.with_measurements(tuple(measured())), 80)


# ── notebooks ──


class _Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_balanced_escaped_and_shows_the_figures() -> None:
    register()
    html = explain(f"# <script>alert('&')</script>\n{GELU}")._repr_html_()
    parser = _Balanced()
    parser.feed(html)
    assert parser.open == [] and "script" not in parser.seen
    assert "&lt;script&gt;" in html
    for figure in FIGURES:
        assert figure in html.replace("\u00a0", " ")


def test_explanations_print_themselves_with_rich(gelu: Explanation) -> None:
    register()
    out = io.StringIO()
    Console(file=out, width=80).print(gelu)
    assert "3.288 GB" in out.getvalue()


def test_printing_an_explanation_prints_the_report() -> None:
    script = (
        "import fuseline as fl\n"
        f"e = fl.explain({GELU!r})\n"
        "print(e)\nprint(repr(e))\nassert '<details' in e._repr_html_()\n"
    )
    environment = os.environ | {"COLUMNS": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "981.6 µs" in done.stdout
    assert done.stdout.splitlines()[-1] == "<Explanation: 11 instructions, bf16, NVIDIA H100 SXM5 80GB>"


# ── JSON ──


def test_json_keys_are_those_promised(gelu: Explanation) -> None:
    facts = json.loads("\n".join(json_lines(gelu.with_measurements(tuple(measured())).to_dict())))
    assert (facts["instruction_count"], facts["depth"]) == (11, 10)
    assert {"name", "op", "args", "level", "users", "last_use"} <= set(facts["instructions"][0])
    sides = {"array_accesses", "bytes", "kernels", "bandwidth_time_s", "launch_time_s", "total_s"}
    assert sides <= set(facts["traffic"]["unfused"]) and sides <= set(facts["traffic"]["fused"])
    assert facts["arithmetic_intensity_flop_per_byte"] == 1.375
    assert round(facts["ridge_point_flop_per_byte"], 1) == 295.3
    assert round(facts["ridge_point_vector_flop_per_byte"], 1) == 20.0
    assert facts["bound"] == "memory"
    buffers = {"naive_buffers", "planned_buffers", "best_order_buffers", "buffer_bytes", "assignment"}
    assert buffers <= set(facts["memory"])
    rows = {"implementation", "threads", "n", "dtype", "median_s", "spread_s", "bytes_per_s", "max_abs_error"}
    assert rows | {"fraction_of_limit"} <= set(facts["measured"][0])
    assert facts["measured"][3]["fraction_of_limit"] is None


def test_a_value_without_a_name_is_not_mistaken_for_a_number(gelu: Explanation) -> None:
    rows = gelu.to_dict()["instructions"]
    assert rows[1]["name"] == "%1" and rows[1]["args"] == ["0.5", "h"]
    names = {row["name"] for row in rows} | {"x", "b", "r"}
    for row in rows:
        for arg in row["args"]:
            assert (arg in names) != bool(re.fullmatch(r"-?[\d.]+(e-?\d+)?", arg))


def test_json_is_strict_and_keeps_every_value() -> None:
    value = {
        "a": [{"x": 1.5, "名": "值"}, {"x": float("nan")}],
        "b": {"c": [1, 2], "d": {}},
        "e": [],
        "f": float("inf"),
    }
    text = "\n".join(json_lines(value))
    read = json.loads(text, parse_constant=pytest.fail)
    assert read == {"a": [{"x": 1.5, "名": "值"}, {"x": None}], "b": {"c": [1, 2], "d": {}}, "e": [], "f": None}
    assert "名" in text


def test_text_is_cut_by_columns_not_characters() -> None:
    assert cut("内存带宽", 8) == "内存带宽"
    assert cut("内存带宽", 7) == "内存带…"
    assert width_of(cut("内存带宽", 6)) <= 6
    assert cut("abc", 3) == "abc" and cut("abcd", 3) == "ab…"
