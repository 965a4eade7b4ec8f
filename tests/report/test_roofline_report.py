"""Rooflines and machines as text and as pictures, in both languages and at both usual widths."""

import io
import itertools
import json
import struct
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import fuseline as fl
from fuseline.api.roofline import formula_cost
from fuseline.errors import OutputFileError, UnknownNameError, UnsupportedError
from fuseline.machine import parse_device_text
from fuseline.report import chart_files
from fuseline.report import roofline_charts as charts
from fuseline.report.catalogue import LANGUAGES, placeholders, text, topic_texts
from fuseline.report.html import html_document
from fuseline.report.roofline_devices import comparison, comparison_document, device_document, devices_document
from fuseline.report.roofline_document import classification_document
from fuseline.report.roofline_geometry import dot_boxes, overlap, place_names, points, regions, roofs
from fuseline.report.roofline_notes import note_text
from fuseline.report.terminal import plain_text
from fuseline.roofline.rules import UNDETERMINED, BookRule, NsightRule, Reading

FORMULA = "h = x + b; y = 0.5*h*(1 + tanh(h)); out = y + r"
CASES = {
    "overview": lambda: fl.classify(),
    "ascend": lambda: fl.classify(table="ascend"),
    "deepgemm": lambda: fl.classify(table="deepgemm"),
    "nsight": lambda: fl.classify(table="course", rule="nsight"),
    "row": lambda: fl.classify(m=128, latency_us=54.8),
    "third pipe": lambda: fl.classify(tflops=681, gbps=283, pipes={"fix": "6.69 TB/s"}),
    "mixed": lambda: fl.classify(tflops=681, gbps=283, device="h100", measured_on="h200", allow_mixed=True),
    "impossible": lambda: fl.classify(tflops=1979, gbps=283, device="h100", dtype="bf16"),
    "half saturated": lambda: fl.classify(tflops=861, gbps=1000),
    "latency": lambda: fl.classify(tflops=681, gbps=283, latency_us=5),
    "shape": lambda: fl.classify(m=128),
    "small shape": lambda: fl.classify(m=1, n=64, k=64, dtype="bf16", device="h100"),
    "estimate": lambda: fl.classify(m=4096, n=4096, k=4096, dtype="bf16", device="h100"),
    "attention": lambda: fl.classify(
        operation="attention-prefill", sizes={"batch": 1, "q_len": 4096, "heads": 32}, device="h100"
    ),
    "no vector figure": lambda: fl.classify(operation="mla-decode", sizes={"batch": 8, "kv_len": 99}, device="tpu-v5e"),
    "copy": lambda: fl.classify(operation="copy", sizes={"elements": 4096}, device="h100"),
    "many": lambda: fl.classify(m=[1, 10, 100000], n=4096, k=4096),
    "formula": lambda: fl.classify(cost=formula_cost(FORMULA, "4096x14336"), device="h100"),
}


def width(line):
    """Columns that a terminal needs: two for full-width characters."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def told(found, lang, columns):
    return plain_text(classification_document(found, lang), columns)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("case", CASES)
def test_everything_fits_the_terminal_in_both_languages(case, columns, lang):
    document = classification_document(CASES[case](), lang)
    assert "<td" in html_document(document) or CASES[case]().shapes
    text = plain_text(document, columns)
    assert all(width(line) <= columns for line in text.splitlines())
    assert "{" not in text and "Note(" not in text and "None" not in text
    chinese = sum("\u4e00" <= c <= "\u9fff" for c in text)
    assert (chinese > 50) == (lang == "zh")


def test_a_classification_prints_itself_and_is_short_as_a_value():
    found = fl.classify(tflops=861, gbps=186, dtype="fp8")
    assert repr(found) == "<Classification: 1 row, book rule>"
    assert repr(fl.classify(m=[1, 2, 3], rule="nsight")) == "<Classification: 3 shapes, nsight rule>"
    assert "99.5 %" in str(found) and "\n" in str(found)
    page = found._repr_html_()
    assert page.startswith('<div class="fuseline"') and "99.5 %" in page and "<thead>" in page
    stream = io.StringIO()
    Console(file=stream, width=90).print(found)
    assert "99.5 %" in stream.getvalue()


def test_a_name_is_text_in_a_notebook():
    found = fl.classify(tflops=861, gbps=186, dtype="fp8", name="</td><script>alert(1)</script>\u202e")
    page = found._repr_html_()
    assert "<script>" not in page and "\u202e" not in page


@pytest.mark.parametrize("columns", [80, 120])
def test_verdicts_and_what_the_source_says_are_whole(columns):
    text = told(fl.classify(), "en", columns)
    row = next(line for line in text.splitlines() if line.startswith("HC prenorm") and "%" in line)
    assert row.count("memory-bound") == 2


@pytest.mark.parametrize("case", CASES)
def test_the_same_as_json_has_stable_keys_and_only_plain_values(case):
    found = CASES[case]()
    data = json.loads(json.dumps(found.to_dict(lambda note: note_text(note, "en")), allow_nan=False))
    assert data["rule"]["thresholds"]
    for row in data["rows"]:
        assert row.keys() >= {
            "name",
            "device",
            "dtype",
            "achieved",
            "peak",
            "ratios",
            "bound",
            "rule",
            "audit",
            "notes",
        }
        assert all(set(note) == {"code", "values", "text"} for note in row["notes"])


def test_the_overview_says_what_was_asked_of_it():
    text = " ".join(told(fl.classify(), "en", 120).split())
    for phrase in (
        "is 861 TFLOPS; the source prints 861 TFLOPS: as printed",
        "is 908 TFLOPS; the source prints 681 TFLOPS: 33 % above the printed figure, which is kept",
        "the printed GB/s of all 14 rows follow from (A+B) with scales",
        "not fully explained by the stated sizes",
        "inference FP8 4096x32768x512",
        "compute-bound, compute-bound, balanced, neither, balanced, memory-bound",
        "reads 9.5 %; over the bf16 peak, its own, it is 19.0 %",
        "fuseline classify --m 128",
    ):
        assert phrase in text
    assert text.rstrip().endswith("This classifies measured rates; it does not predict a time.")
    assert "uses model constants and data sheets until it is calibrated" in text


def test_near_the_ridge_no_side_is_called_idle():
    text = told(fl.classify(m=128), "en", 80)
    assert "both sides must be optimised" in text and "takes longer" not in text
    text = told(fl.classify(m=4096), "en", 80)
    assert "both sides" not in text and "even at the peak the arithmetic takes longer" in " ".join(text.split())


def test_every_remark_code_has_a_text_in_the_catalogue():
    """The codes that the code makes, collected from its source, against the catalogue."""
    import inspect
    import re

    from fuseline.roofline import audit, classify, provenance, rules, shape, tables

    source = "".join(inspect.getsource(m) for m in (audit, classify, provenance, rules, shape, tables))
    texts = topic_texts("roofline", "en")
    codes = set(re.findall(r'Note\(\s*"([a-z-]+)"', source))
    assert len(codes) > 15 and {f"note.{code}" for code in codes} <= texts.keys()
    reasons = set(re.findall(r'Objection\(\s*"([a-z-]+)"', source))
    assert len(reasons) > 6 and {f"objection.{code}" for code in reasons} <= texts.keys()
    assert placeholders(texts["note.near-ridge"]) == {"margin"}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_machines_are_shown_with_sources_in_both_languages(lang):
    for columns in (80, 120):
        listed = plain_text(devices_document(fl.devices(), lang), columns)
        assert ("NVIDIA" in listed) == (columns == 120)  # spare columns where there is room
        assert "h100-sxm" in listed and "989.4 TFLOPS" in listed
        assert all(width(line) <= columns for line in listed.splitlines())
        for machine in (fl.device("ascend-950dt"), fl.device("rtx-4090"), fl.device("l40s")):
            shown = plain_text(device_document(machine, lang), columns)
            assert all(width(line) <= columns for line in shown.splitlines())
            assert "[1]" in shown
    machines = [fl.device(name) for name in ("h100", "a100", "mi300x", "ascend-950dt", "tpu-v5e")]
    compared = plain_text(comparison_document(machines, lang), 80)
    assert "0.315" in compared
    assert all(width(line) <= 80 and line == line.rstrip() for line in compared.splitlines())


@pytest.mark.parametrize(
    ("cores", "unit", "shown"), [(1, "threads", "1 thread"), (2, "threads", "2 threads"), (1, "SM", "1 SM")]
)
def test_one_core_is_not_several(cores, unit, shown):
    text = plain_text(device_document(replace(fl.device("h100"), cores=cores, core_unit=unit), "en"), 120)
    assert shown in text and "1 threads" not in text


def test_a_table_that_prints_nothing_to_reproduce_says_what_is_missing(tmp_path):
    path = tmp_path / "rows.csv"
    rows = {"with a shape": "128,128,128,9,,", "with rates": ",,,,5,6", "with both": "128,128,128,9,5,6"}
    shown = {}
    for name, cells in rows.items():
        path.write_text(
            "name,device,dtype,m,n,k,latency_us,tflops,gbps\n" + f"a,h100,bf16,{cells}\nb,h100,bf16,{cells}\n"
        )
        shown[name] = plain_text(classification_document(fl.classify(csv=path), "en"), 110)
    assert "2 rows without printed GB/s" in shown["with a shape"]
    assert "2 rows without a shape and a time" in shown["with rates"]
    assert "to reproduce" not in shown["with both"] and "without" not in shown["with both"]


def test_an_impossible_rate_is_not_asked_for_again():
    for lang in LANGUAGES:
        shown = plain_text(classification_document(fl.classify(tflops=1e5, gbps=100), lang), 110)
        assert (
            text("roofline.note.side-impossible", lang, side=text("roofline.column.compute_rate", lang))[:20] in shown
        )
        assert "Give that rate" not in shown and "请给出该速率" not in shown


@pytest.mark.parametrize("lang", LANGUAGES)
def test_machines_are_shown_in_notebooks(lang):
    page = html_document(device_document(fl.device("h100"), lang))
    assert "<td" in page and "989.4 TFLOPS" in page and "<summary><strong></strong>" not in page


def test_a_comparison_leaves_out_what_nobody_has_and_marks_what_one_lacks():
    rows = dict(comparison([fl.device("h100"), fl.device("a100")], "en"))
    assert rows["matrix fp8"][1] is None and rows["matrix fp8"][0].value == 1978.9e12
    assert "matrix fp4" not in rows


def test_a_sparse_figure_is_marked_and_is_none_of_the_dense_ones():
    text = 'format = 1\n[[device]]\nname = "x-1"\n[device.pipes.matrix]\n'
    text += 'bf16 = { value = "200 TFLOPS", sparse = true }\n[device.memories.hbm]\nbandwidth = "1 TB/s"\n'
    (machine,) = parse_device_text(text)
    for lang, mark in (("en", "sparse"), ("zh", "稀疏")):
        assert mark in plain_text(device_document(machine, lang), 80)
        assert "TFLOPS" not in plain_text(devices_document([machine], lang), 80)
        (line,) = [
            s
            for s in plain_text(comparison_document([fl.device("h100"), machine], lang), 80).split("\n")
            if "bf16" in s
        ]
        assert mark in line and "x)" not in line


# ------------------------------------------------------------------------------------------------------------ pictures


@pytest.mark.parametrize("kind", charts.KINDS)
def test_a_picture_is_1200_by_800(tmp_path, kind):
    path = tmp_path / "chart.png"
    charts.draw(fl.classify(table="course"), path, kind, lang="en")
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", header[16:24]) == (1200, 800)


def test_a_png_never_shows_boxes_for_characters_without_a_font(tmp_path, monkeypatch):
    assert chart_files._font_has("Roofline")
    assert not chart_files._font_has("\U0010fffd\U0010fffc")
    drawn = []
    monkeypatch.setattr(chart_files, "without_font", lambda ending, texts: "".join(texts) if ending == ".png" else "")
    monkeypatch.setattr(charts, "roofline_chart", lambda found, also, lang: drawn.append(lang) or _Unwritten())
    assert charts.draw(fl.classify(), tmp_path / "chart.png", lang="zh").language == "en" == drawn[0]
    assert charts.draw(fl.classify(), tmp_path / "chart.svg", lang="zh").language == "zh" == drawn[1]


def test_characters_of_names_that_no_font_has_are_told():
    assert chart_files.without_font(".png", ["gemm", "a\U0010fffdb\U0010fffc", "\U0010fffd"]) == "\U0010fffd\U0010fffc"
    assert chart_files.without_font(".svg", ["\U0010fffd"]) == ""


@given(st.text(alphabet="ab_.内核", min_size=1, max_size=40), st.integers(4, 40))
def test_a_shortened_name_fits_and_keeps_both_ends(name, columns):
    found = chart_files.shortened(name, columns)
    assert sum(map(width, found)) <= columns
    if found != name:
        head, tail = found.split("…")
        assert name.startswith(head) and name.endswith(tail) and len(head) + len(tail) < len(name)
    else:
        assert sum(map(width, name)) <= columns


def test_a_name_without_room_is_shortened_and_takes_no_place_of_a_whole_one():
    kernels = [{"name": "first" * 60, "x": 0.5, "y": 0.5}, {"name": "short", "x": 0.5, "y": 0.52}]
    kernels += [{"name": "low", "x": 0.0, "y": 0.0}]
    for k in range(0, 100, 7):
        kernels.append({"name": f"{k} right", "x": 1.0, "y": k / 100})
    covered = dot_boxes(kernels, lambda k: (k["x"], k["y"]), (978, 683))
    placed = {name["name"]: name for name in place_names(kernels, lambda k: (k["x"], k["y"]), (978, 683), covered)}
    assert "short" in placed and "low" in placed and "0 right" in placed
    assert any(name.startswith("first") and "…" in name and name.endswith("first") for name in placed)
    for left, right, bottom, top in covered[len(kernels) :]:
        assert left >= 2 and bottom >= 2 and right <= 976 and top <= 681  # off the axes
    assert not any(overlap(a, b) for a, b in itertools.combinations(covered[len(kernels) :], 2))


def test_legends_of_regions_and_verdicts_have_one_order():
    spec = charts.ratios_chart(fl.classify(table="course"), "en").to_dict()
    orders = [found["scale"]["domain"] for found in _colours(spec) if "title" in (found.get("legend") or {})]
    region, verdict = (list(order) for order in dict.fromkeys(map(tuple, orders)))
    assert [name for name in region if name in verdict] == [name for name in verdict if name in region]


def _colours(spec):
    """Every colour encoding in a chart's description."""
    for key, value in spec.items() if isinstance(spec, dict) else enumerate(spec):
        if key == "color" and isinstance(value, dict) and "scale" in value:
            yield value
        elif isinstance(value, (dict, list)):
            yield from _colours(value)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_shape_alone_has_no_source_that_counts_its_bytes(lang):
    of_shape, of_rows = (
        charts.roofline_chart(found, [], lang).to_dict() for found in (fl.classify(m=128), fl.classify())
    )
    said = [chart["title"]["subtitle"][0] for chart in (of_shape, of_rows)]
    words = "as its source counts it" if lang == "en" else "按来源的算法"
    assert words not in said[0] and words in said[1]


class _Unwritten:
    def save(self, path, **options):
        """Stands for a chart that nobody looks at."""


def test_vector_pictures_hold_names_axes_and_ridge_points(tmp_path):
    path = tmp_path / "chart.svg"
    charts.draw(fl.classify(table="course"), path, lang="en")
    text = path.read_text()
    for phrase in (
        "HC prenorm 8192x24x28672",
        "arithmetic intensity (FLOP/byte)",
        "performance (FLOP/s)",
        "matrix fp8 865.1 TFLOPS",
        "vector f32 27 TFLOPS",
        "hbm 3.5 TB/s",
        "l2 4.5 TB/s",
        "247.2",
        "memory-bound",
    ):
        assert phrase in text


@pytest.mark.long
def test_a_page_is_interactive_and_needs_no_network(tmp_path):
    path = tmp_path / "chart.html"
    charts.draw(fl.classify(table="course"), path, lang="en")
    text = path.read_text()
    assert "tooltip" in text and "<script src" not in text and "cdn.jsdelivr" not in text


def test_several_machines_share_one_picture_in_either_language():
    found = fl.classify(m=4096, n=4096, k=4096, dtype="bf16", device="h100")
    chart = charts.roofline_chart(found, [fl.device("a100"), fl.device("mi300x")], "zh")
    text = json.dumps(chart.to_dict(), ensure_ascii=False)
    assert "计算强度" in text and "计算受限" in text
    assert all(name in text for name in ("h100-sxm", "a100-80gb", "mi300x", "gemm 4096x4096x4096"))


def test_points_lie_on_or_below_the_roof_of_their_machine():
    device = fl.device("ascend-950dt")
    bandwidth = device.main_memory.bandwidth.value
    for point, row in zip(points(fl.classify(table="ascend")), fl.classify(table="ascend").rows, strict=True):
        peak = device.pipe("matrix").peak(row.row.dtype).value
        assert point["y"] <= 1.02 * min(peak, bandwidth * point["x"])


def test_roofs_meet_at_the_ridge_points():
    lines, ridges = roofs(fl.device("h100-sxm"), 1.0, 10_000.0)
    bf16 = next(ridge for ridge in ridges if "bf16" in ridge["label"])
    assert bf16["x"] == pytest.approx(295.34, abs=0.01) and bf16["y"] == 989.4e12
    steep = [line for line in lines if line["side"] == "memory"]
    assert all(line["y"] == pytest.approx(3.35e12 * line["x"]) for line in steep)


@pytest.mark.parametrize("rule", [BookRule(), NsightRule()], ids=lambda rule: rule.name)
def test_shaded_regions_are_what_the_rule_says(rule):
    areas = regions(rule, 1.05)
    covered = sum((a["x2"] - a["x"]) * (a["y2"] - a["y"]) for a in areas)
    assert covered == pytest.approx(1.05**2)
    for area in areas:
        compute, memory = (area["y"] + area["y2"]) / 2, (area["x"] + area["x2"]) / 2
        if max(compute, memory) > 1.02:
            assert area["bound"] == UNDETERMINED
        else:
            assert rule.judge(Reading(compute, memory)).bound == area["bound"]


class _Counting(BookRule):
    """The book rule, counting what it is asked."""

    __slots__ = ()
    asked = 0

    def judge(self, reading):
        _Counting.asked += 1
        return super().judge(reading)


@pytest.mark.parametrize(
    ("rates", "largest", "arrows"),
    [
        ({"tflops": 80_000, "gbps": 186}, 1.5, "↑ "),
        ({"tflops": 800, "gbps": 100_000}, 1.5, "→ "),
        ({"tflops": 9e6, "gbps": 9e9}, 1.5, "→ "),
        ({"tflops": 1000, "gbps": 186}, 1.22, ""),
    ],
)
def test_a_picture_of_impossible_ratios_costs_no_more_and_says_where_it_ends(rates, largest, arrows):
    """A rate in the wrong unit, the ordinary mistake: the plane ends, and the point stands at its border."""
    plain = charts.ratios_chart(fl.classify(tflops=800, gbps=186, rule=_Counting()), "en")
    usual, _Counting.asked = _Counting.asked, 0
    chart = charts.ratios_chart(fl.classify(**rates, name="far", rule=_Counting()), "en").to_dict()
    assert _Counting.asked <= usual
    assert "beyond" not in json.dumps(plain.to_dict()["title"])
    told = json.dumps(chart, ensure_ascii=False)
    assert ("1 kernel lies beyond 150 % of a peak" in told) == ("triangle" in told) == bool(arrows)
    assert f"far {arrows}" in told if arrows else '"name": "far"' in told
    assert f'"domain": [0, {largest}]' in told


def test_a_picture_that_cannot_be_made_is_refused_clearly(tmp_path):
    with pytest.raises(UnsupportedError, match=r"\.svg, \.png, \.html"):
        charts.draw(fl.classify(), tmp_path / "chart.pdf")
    with pytest.raises(UnknownNameError, match="roofline, ratios"):
        charts.draw(fl.classify(), tmp_path / "chart.svg", "pie")
    with pytest.raises(OutputFileError, match="cannot be written: No such file"):
        charts.draw(fl.classify(), tmp_path / "missing" / "chart.svg")
    with pytest.raises(UnknownNameError, match="nothing to draw"):
        charts.draw(fl.classify(m=[1, 2]), tmp_path / "chart.svg", "ratios")
    assert not list(tmp_path.iterdir())


def test_every_row_of_the_course_is_calibrated():
    text = " ".join(told(fl.classify(), "en", 200).split())
    for fact in ("is 811 TFLOPS; the source prints 861", "is 114 TFLOPS; the source prints 565", "is 82.5 TFLOPS"):
        assert fact in text


def test_only_remarks_that_differ_in_figures_stand_for_each_other():
    text = told(fl.classify(table="ascend", device="h100"), "en", 200)
    assert "the peak for" in text or "does not do fp4" in text or "no fp4" in text


def test_a_chart_says_which_kernels_it_leaves_out_and_draws_no_roof_without_a_point(tmp_path):
    charts.draw(fl.classify(table="deepgemm"), tmp_path / "a.svg", lang="en")
    picture = (tmp_path / "a.svg").read_text()
    assert "21 kernels have no point" in picture and "b200" not in picture


def test_roofs_of_several_machines_carry_their_names_and_integers_their_unit(tmp_path):
    charts.draw(fl.classify(), tmp_path / "a.svg", also=[fl.device("h100")], lang="en")
    picture = (tmp_path / "a.svg").read_text()
    assert "h100-sxm: matrix fp8 1.979 PFLOPS, i8 1.979 POPS" in picture
    assert "stroke-dasharray" in picture and "FLOP/B" in picture


def test_chinese_has_chinese_words_for_origin_confidence_assumption_and_made_up_names():
    device = plain_text(device_document(fl.device("h100"), "zh"), 140)
    assert not any(word in device for word in ("packaged", "high", "default of fuseline"))
    row = told(fl.classify(tflops=861, gbps=186), "zh", 140)
    assert "measured" not in row and "实测" in row


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("width", [60, 80])
def test_no_figure_of_a_shape_is_torn_from_its_unit(lang, width):
    lines = told(fl.classify(m=128), lang, width).splitlines()
    assert not any(line.lstrip().startswith(("µs", "TB/s", "FLOP/B", "TFLOPS", "%")) for line in lines)
