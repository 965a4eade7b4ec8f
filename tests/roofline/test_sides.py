"""Which figures of a machine a rate or a shape is laid against, and what a side without a ratio does to the verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fuseline as fl
from fuseline.cost.shapes import gemm, grouped_gemm
from fuseline.machine import parse_device_text
from fuseline.roofline.audit import IMPLIED_ROWS
from fuseline.roofline.ratios import compute_pipe
from fuseline.roofline.row_files import rows_from_text

MACHINE = """
format = 1
[[device]]
name = "x1"
{pipes}
[device.memories.hbm]
bandwidth = [{{ value = "800 GB/s", kind = "effective" }}, {{ value = "1000 GB/s", kind = "datasheet" }}]
"""
BOTH = """
[device.pipes.matrix]
bf16 = [{ value = "80 TFLOPS", kind = "effective" }, { value = "100 TFLOPS", kind = "datasheet" }]
[device.pipes.vector]
f32 = "10 TFLOPS"
"""
ONLY_VECTOR = """
[device.pipes.vector]
f32 = "10 TFLOPS"
bf16 = "20 TFLOPS"
"""


def classify(tmp_path: Path, parts: str = BOTH, **arguments: object) -> fl.Classification:
    path = tmp_path / "x1.toml"
    path.write_text(MACHINE.format(pipes=parts))
    return fl.classify(device="x1", device_files=[path], **arguments)  # type: ignore[arg-type]


def test_operands_alone_and_with_the_result_have_bounds_of_their_own() -> None:
    found = fl.classify(m=700, n=700, k=512, dtype="bf16", device="h100").shapes[0].analysis
    operands, result = 2 * 700 * 512 * 2, 700 * 700 * 2
    flop = 2 * 700 * 700 * 512
    assert flop / (operands + result) < found.ridge < flop / operands
    assert (found.bound, str(found.bounds_inputs)) == ("memory", "compute")
    assert float(found.intensity) == flop / (operands + result) and float(found.intensity_inputs) == flop / operands


def test_what_evenly_hit_experts_cost_takes_their_bytes_over_the_bandwidth() -> None:
    sizes = {"tokens": 8, "hidden": 7168, "intermediate": 2048, "experts": 256, "topk": 8, "shared": 1}
    found = fl.classify(operation="moe", sizes=sizes, dtype="bf16", device="h200").shapes[0].analysis
    assert found.expected is not None
    hit = 256 * (1 - (1 - 8 / 256) ** 8) + 1
    moved = 2 * (3 * hit * 7168 * 2048 + 2 * 8 * 7168)
    assert float(found.expected.time_s) == pytest.approx(moved / 4.8e12)


def test_remarks_about_one_shape_are_not_made_about_many() -> None:
    def codes(m: object) -> set[str]:
        return {note.code for note in fl.classify(m=m, n=8, k=8, dtype="bf16", device="h100").shapes[0].analysis.notes}

    assert "launch-dominated" in codes(8) or "launch-dominated-assumed" in codes(8)
    assert not {code for code in codes([8, 8]) if code.startswith("launch-dominated")}
    one, two = (fl.classify(m=m).shapes[0].analysis for m in (128, [128, 128]))
    assert "near-ridge" in [note.code for note in one.notes]
    assert np.all(two.near_ridge) and "near-ridge" not in [note.code for note in two.notes]


def test_software_is_read_against_effective_figures_and_limited_by_those_of_the_datasheet(tmp_path: Path) -> None:
    found = classify(tmp_path, m=4096, n=4096, k=4096, dtype="bf16").shapes[0].analysis
    (pipe,) = found.pipes
    assert (pipe.peak.value, pipe.limit.value) == (80e12, 100e12)
    assert found.ridge == pytest.approx(100)
    assert float(found.bound_time_s) == pytest.approx(2 * 4096**3 / 100e12)
    row = classify(tmp_path, tflops=40, gbps=400, dtype="bf16").rows[0]
    assert (row.ratio("compute"), row.ratio("memory")) == (pytest.approx(0.5), pytest.approx(0.5))


def test_a_remark_names_only_the_figures_whose_kind_is_missing(tmp_path: Path) -> None:
    pipes = BOTH.replace('[{ value = "80 TFLOPS", kind = "effective" }, ', "").replace(
        '"datasheet" }]', '"datasheet" }'
    )
    found = classify(tmp_path, pipes, tflops=40, gbps=400, dtype="bf16", peaks="effective").rows[0]
    assert [note.values["pipes"] for note in found.notes if note.code == "kind-absent"] == ["matrix"]
    shape = classify(tmp_path, pipes, m=4096, n=4096, k=4096, dtype="bf16", peaks="effective").shapes[0].analysis
    assert [note.values["pipes"] for note in shape.notes if note.code == "kind-absent"] == ["matrix"]


def test_without_a_matrix_pipe_products_run_on_the_vector_pipe(tmp_path: Path) -> None:
    for dtype, used, peak in (("bf16", "bf16", 20e12), ("f16", "f32", 10e12)):
        found = classify(tmp_path, ONLY_VECTOR, m=64, n=64, k=64, dtype=dtype).shapes[0].analysis
        assert [(p.pipe, p.dtype, p.peak.value) for p in found.pipes] == [("vector", used, peak)]
        about = [note for note in found.notes if "matrix" in note.code]
        assert [(note.code, note.values["dtype"]) for note in about] == [("no-matrix-pipe", used)]


def test_arithmetic_is_the_matrix_pipes_unless_only_the_vector_pipe_does_its_format() -> None:
    (both,) = parse_device_text(MACHINE.format(pipes=BOTH))
    (vector,) = parse_device_text(MACHINE.format(pipes=ONLY_VECTOR))
    assert [compute_pipe(both, dtype) for dtype in ("bf16", "f32", "fp8")] == ["matrix", "vector", "matrix"]
    assert [compute_pipe(vector, dtype) for dtype in ("bf16", "f32", "fp8")] == ["vector", "vector", "matrix"]
    twice = BOTH.replace("bf16 = [", 'f32 = "50 TFLOPS"\nbf16 = [')
    (machine,) = parse_device_text(MACHINE.format(pipes=twice))
    assert compute_pipe(machine, "f32") == "matrix"
    assert compute_pipe(None, "f32") == "matrix"


@pytest.mark.parametrize(
    ("pipes", "compute", "beside"),
    [
        ({"matrix": "40 TFLOPS", "hbm": "80 GB/s"}, 0.5, {}),
        ({"vector": "5 TFLOPS", "hbm": "80 GB/s"}, 0.5, {}),
        ({"matrix": "40 TFLOPS", "vector": "1 TFLOPS", "hbm": "80 GB/s"}, 0.5, {"vector": 0.1}),
        ({"vector": "1 TFLOPS", "matrix": "40 TFLOPS", "hbm": "80 GB/s"}, 0.5, {"vector": 0.1}),
    ],
)
def test_the_vector_pipe_is_the_compute_side_only_where_no_matrix_rate_is_given(
    tmp_path: Path, pipes: dict[str, str], compute: float, beside: dict[str, float]
) -> None:
    row = classify(tmp_path, dtype="bf16", pipes=pipes).rows[0]
    assert (row.ratio("compute"), row.ratio("memory")) == (pytest.approx(compute), pytest.approx(0.1))
    third = {p.pipe: p.ratio.value for p in row.pipes if p.side == "third" and p.ratio is not None}
    assert third == pytest.approx(beside)


def test_a_side_that_is_impossible_does_not_hide_the_other(tmp_path: Path) -> None:
    impossible = classify(tmp_path, tflops=200, gbps=400, dtype="bf16").rows[0]
    assert [note.code for note in impossible.verdict.notes] == ["side-impossible"]
    both = classify(tmp_path, tflops=200, gbps=4000, dtype="bf16").rows[0]
    assert [note.values["side"] for note in both.verdict.notes] == ["compute", "memory"]


def test_a_kernel_without_arithmetic_uses_none_of_the_compute_peak(tmp_path: Path) -> None:
    seconds = 2 * 4 * 2**28 / 760e9
    row = classify(tmp_path, operation="copy", sizes={"elements": 2**28}, latency_us=seconds * 1e6).rows[0]
    assert row.bound == "memory" and row.ratio("memory") == pytest.approx(0.95)


def test_bytes_of_grouped_products_are_also_counted_for_the_rows_that_rate_and_time_imply() -> None:
    sizes = {"groups": 4, "n": 4096, "k": 7168}
    meant, actual = (grouped_gemm(m=m, dtype="fp8", **sizes) for m in (8192, 8200))
    seconds = 2e-3
    row = fl.classify(
        operation="grouped-gemm",
        sizes={"m": 8192, **sizes},
        dtype="fp8",
        latency_us=seconds * 1e6,
        tflops=actual.flop / seconds / 1e12,
        gbps=actual.bytes("inputs+scales") / seconds / 1e9,
    ).rows[0]
    lines = {line.convention: line for line in row.audit}
    assert lines[IMPLIED_ROWS].bytes == pytest.approx(actual.bytes("inputs+scales"), rel=1e-12)
    assert lines["inputs+scales"].bytes == meant.bytes("inputs+scales")
    assert lines[IMPLIED_ROWS].bytes_per_s == pytest.approx(actual.bytes("inputs+scales") / seconds)


def test_a_rate_is_of_the_format_that_its_pipe_computes_in(tmp_path: Path) -> None:
    row = classify(tmp_path, tflops=40, gbps=400, dtype="bf16").rows[0]
    assert {p.pipe: p.achieved.dtype for p in row.pipes} == {"matrix": "bf16", "hbm": ""}
    sizes = {"elements": 2**20}
    row = classify(tmp_path, operation="reduction", sizes=sizes, tflops=1, gbps=400, dtype="bf16").rows[0]
    assert {p.pipe: p.achieved.dtype for p in row.pipes} == {"vector": "f32", "hbm": ""}


def test_the_rule_that_is_asked_for_reads_whole_tables_too() -> None:
    by_book, by_nsight = (fl.classify(table="course", rule=rule).tables[0].rows for rule in ("book", "nsight"))
    assert {row.rule.name for row in by_nsight} == {"nsight"}
    assert [row.bound for row in by_book] != [row.bound for row in by_nsight]
    alone = [
        fl.classify(
            tflops=r.row.achieved["compute"].value / 1e12,
            gbps=r.row.achieved["memory"].value / 1e9,
            dtype=r.row.dtype,
            device=r.row.device,
            rule="nsight",
        ).bound
        for r in by_nsight
    ]
    assert [row.bound for row in by_nsight] == alone


def test_a_rate_of_bytes_is_laid_against_the_memory_link_or_pipe_of_its_name(tmp_path: Path) -> None:
    parts = (
        BOTH
        + """
[device.pipes.fix]
rate = [{ value = "400 GB/s", kind = "effective" }, "500 GB/s"]
[device.links.bus]
bandwidth_per_direction = "20 GB/s"
[device.links.net]
bandwidth_per_direction = "50 GB/s"
"""
    )
    given = {"net": "10 GB/s", "bus": "10 GB/s", "fix": "100 GB/s"}

    def ratios(**more: object) -> dict[str, float]:
        row = classify(tmp_path, parts, tflops=40, gbps=400, dtype="bf16", pipes=given, **more).rows[0]
        return {p.pipe: p.ratio.value for p in row.pipes if p.ratio is not None}

    usual = {"matrix": 0.5, "hbm": 0.5, "net": 0.2, "bus": 0.5, "fix": 0.25}
    assert ratios() == pytest.approx(usual)
    assert ratios(peaks="datasheet") == pytest.approx(usual | {"matrix": 0.4, "hbm": 0.4, "fix": 0.2})
    row = classify(tmp_path, parts, tflops=40, gbps=400, dtype="bf16", pipes={"link": "10 GB/s"}).rows[0]
    assert row.to_dict()["ratios"]["link"] == pytest.approx(0.5)  # the first


def test_a_printed_rate_is_reproduced_within_one_percent_half_a_printed_unit_and_half_a_tenth_of_a_microsecond() -> (
    None
):
    cost = gemm(4096, 7168, 16384, "fp8")
    for latency_us, unit in ((1117.6, 1), (10.0, 1), (0.5, 1)):
        exact = cost.flop / (latency_us * 1e-6) / 1e12
        allowed = 0.01 + 0.5 * unit / exact + 0.05 / latency_us
        for off in (0.9 * allowed, 1.1 * allowed):
            for sign in (1, -1):
                printed = exact / (1 + sign * off)
                allowed_here = 0.01 + 0.5 * unit / printed + 0.05 / latency_us
                row = fl.classify(
                    m=4096,
                    n=7168,
                    k=16384,
                    dtype="fp8",
                    latency_us=latency_us,
                    tflops=printed,
                    gbps=1,
                    allow_mixed=True,
                ).rows[0]
                assert row.calibration is not None
                assert row.calibration.reproduces == (abs(exact / printed - 1) <= allowed_here), (latency_us, off)


def test_a_source_that_says_another_bound_is_contradicted_and_empty_facts_are_none() -> None:
    header = "name,device,dtype,tflops,gbps,says,says_text"
    rows, errors = rows_from_text(
        f"{header}\na,ascend-950dt,fp8,861,186,memory,by bandwidth\nb,ascend-950dt,fp8,861,186,compute,\n", "mine.csv"
    )
    assert not errors
    differs, agrees = fl.classify(rows=rows).rows
    assert (differs.bound, differs.agrees(), agrees.agrees()) == ("compute", False, True)
    (note,) = [note for note in differs.notes if note.code == "source-differs"]
    assert note.values == {"says": "memory", "text": "by bandwidth", "bound": "compute"}
    assert "source-differs" not in [note.code for note in agrees.notes]
    first, second = differs.to_dict(), agrees.to_dict()
    assert (first["device"], first["operation"]) == ("ascend-950dt", None)
    assert (first["source_says"], first["source_says_text"]) == ("memory", "by bandwidth")
    assert (second["source_says"], second["source_says_text"]) == ("compute", None)


def test_an_audit_says_which_bound_each_count_of_bytes_would_give() -> None:
    row = fl.classify(m=4096, n=7168, k=16384, dtype="fp8", latency_us=1117.6).rows[0]
    lines = row.to_dict()["audit"]
    assert [line["bound"] for line in lines] == [line.bound for line in row.audit] == ["compute"] * len(lines)
    (audit,) = fl.classify(rows=[row.row]).tables[0].audits
    assert (audit.rows, audit.printed, audit.shaped, audit.scales) == (1, 0, 1, "")
    printed = [
        fl.classify(m=4096, n=7168, k=16384, dtype=dtype, latency_us=2000, gbps=186).rows[0].row
        for dtype in ("fp8", "bf16")
    ]
    assert [audit.scales for audit in fl.classify(rows=printed).tables[0].audits] == ["block-32", ""]
