"""The published tables: their counts, verdicts, calibration and byte audit."""

import pytest

from fuseline.api.roofline import classify
from fuseline.errors import UnknownNameError
from fuseline.machine import device
from fuseline.roofline.audit import IMPLIED_ROWS, MOE_STAGES, MOE_STAGES_ALONE
from fuseline.roofline.rules import UNDETERMINED
from fuseline.roofline.tables import COURSE_ROWS, bundled_rows, course_bounds


@pytest.fixture(scope="module")
def ascend():
    return classify(table="ascend").tables[0]


@pytest.fixture(scope="module")
def deepgemm():
    return classify(table="deepgemm").tables[0]


def row(table, name):
    return next(found for found in table.rows if found.row.name == name)


def test_every_published_row_is_there_once(ascend, deepgemm):
    assert len(ascend.rows) == 43 and len(deepgemm.rows) == 64
    for table in (ascend, deepgemm):
        assert len({found.row.name for found in table.rows}) == len(table.rows)
        assert all(found.row.source for found in table.rows)
    with pytest.raises(UnknownNameError, match="ascend, deepgemm, course"):
        bundled_rows("h800")


def test_the_six_shapes_of_the_course_get_the_verdicts_of_its_script():
    found = classify()
    assert found.overview
    expected = ("compute", "compute", "balanced", "neither", "balanced", "memory")
    assert tuple(result.bound for result in found.rows) == expected
    assert course_bounds(bundled_rows("course"), device("ascend-950dt")) == expected
    printed = [(861, 186), (861, 180), (549, 2456), (681, 283), (565, 2006), (82, 3463)]
    rates = [(r.row.achieved["compute"].value / 1e12, r.row.achieved["memory"].value / 1e9) for r in found.rows]
    assert [(round(compute, 6), round(memory, 6)) for compute, memory in rates] == printed
    assert [result.row.name for result in found.rows] == list(COURSE_ROWS)


def test_ratios_of_the_first_shape_are_rate_over_peak():
    first = classify().rows[0]
    assert first.ratio("compute") == pytest.approx(861 / (8192 * 2 * 1650e6 * 32 / 1e12))
    assert first.ratio("memory") == pytest.approx(186 / 3500)


def test_a_bf16_row_is_read_over_its_own_peak_beside_what_the_course_reads():
    prenorm = classify().rows[-1]
    assert prenorm.ratio("compute") == pytest.approx(0.190, abs=5e-4)
    note = next(note for note in prenorm.notes if note.code == "course-peak")
    assert note.values["course"] == pytest.approx(0.0948, abs=5e-4)


def test_rows_that_their_source_calls_fix_bound_show_both(ascend):
    for name in ("MQA logits prefill FP8 Q4096 K8192", "MQA logits decode FP8 Q256 K8192"):
        found = row(ascend, name)
        assert found.row.says == "fix" and found.bound in ("neither", "balanced")
        assert any(note.code == "source-differs" for note in found.notes)


def test_calibration_recomputes_the_printed_rate_and_reports_what_differs(ascend):
    dense = row(ascend, "inference FP8 4096x7168x16384").calibration
    assert dense.reproduces and dense.flop_per_s / 1e12 == pytest.approx(861, abs=0.5)
    logits = row(ascend, "MQA logits prefill FP8 Q4096 K8192").calibration
    assert not logits.reproduces
    assert logits.flop_per_s / 1e12 == pytest.approx(2 * 4096 * 8192 * 32 * 128 / 302.6e-6 / 1e12)
    assert logits.over_printed == pytest.approx(1.33, abs=0.01)
    assert logits.printed_flop_per_s == 681e12


def test_every_dense_and_moe_row_reproduces_its_printed_tflops(ascend):
    for found in ascend.rows:
        if found.row.operation in ("gemm", "moe"):
            assert found.calibration.reproduces, found.row.name


def test_the_fp8_table_is_inputs_with_scales_and_no_output_in_all_14_rows(ascend):
    audit = next(found for found in ascend.audits if found.group.startswith("dense FP8"))
    assert audit.rows == 14
    assert audit.reproduced["inputs+scales"] == 14
    assert audit.explained_by == ("inputs+scales",)
    assert audit.over_inputs[0] == pytest.approx(1.125, rel=0.005) == audit.over_inputs[1]


def test_counting_the_output_moves_1763_gb_and_changes_the_verdict(ascend):
    found = row(ascend, "inference FP8 4096x32768x512")
    assert found.bound == "compute"
    lines = {line.convention: line for line in found.audit}
    assert lines["inputs+scales"].reproduces
    full = lines["inputs+scales+output"]
    assert full.bytes_per_s / 1e9 == pytest.approx(1763, abs=1)
    assert full.bound == "balanced"
    audit = next(a for a in ascend.audits if a.group.startswith("dense FP8"))
    assert audit.changed == ("inference FP8 4096x32768x512",)


def test_the_grouped_table_is_not_explained_by_its_stated_sizes(ascend):
    audit = next(found for found in ascend.audits if found.group.startswith("grouped"))
    assert audit.rows == 8
    assert audit.over_inputs[0] == pytest.approx(1.20, abs=0.005)
    assert audit.over_inputs[1] == pytest.approx(1.23, abs=0.006)
    assert [name for name, count in audit.reproduced.items() if count] == [IMPLIED_ROWS]
    for found in ascend.rows:
        if found.row.operation == "grouped-gemm":
            assert "bytes-by-implied-rows" in [note.code for note in found.notes]


def test_the_h800_tables_count_the_output(deepgemm):
    dense = next(found for found in deepgemm.audits if found.group == "dense FP8, h800")
    grouped = next(found for found in deepgemm.audits if found.group == "grouped FP8, h800")
    assert dense.explained_by == ("inputs+output",) and dense.rows == 29
    assert grouped.explained_by == ("inputs+output",) and grouped.rows == 14


def test_each_row_is_read_over_its_own_machine(deepgemm):
    machines = {found.device.name if found.device else None for found in deepgemm.rows}
    assert machines == {"h800", "b200", "ascend-950dt", None}
    unnamed = [found for found in deepgemm.rows if found.device is None]
    assert len(unnamed) == 8
    for found in unnamed:
        assert found.bound == UNDETERMINED and not found.to_dict()["ratios"]
        assert any(note.code == "refused" for note in found.notes)


def test_agreement_is_counted_over_the_rows_that_say_something(ascend, deepgemm):
    for table in (ascend, deepgemm):
        stated = [found for found in table.rows if found.row.says]
        agreeing = sum(found.row.says == found.bound for found in stated)
        assert table.agreeing == agreeing
        open_ones = [found for found in stated if found.bound == UNDETERMINED]
        assert table.undetermined == len(open_ones)
        assert table.disagreeing == len(stated) - agreeing - len(open_ones)
        assert table.silent == len(table.rows) - len(stated)
    assert (ascend.agreeing, ascend.disagreeing, ascend.undetermined) == (6, 7, 0)
    assert (deepgemm.disagreeing, deepgemm.undetermined) == (0, 5)


def test_a_row_with_one_rate_is_undetermined_and_names_the_missing_one(deepgemm):
    found = row(deepgemm, "FlashMLA dense decode (memory) (h800)")
    assert found.bound == UNDETERMINED and found.to_dict()["bound"] is None and found.agrees() is None
    codes = [note.code for note in found.notes]
    assert "source-differs" not in codes and {"side-missing", "side-saturated"} & set(codes)


def test_scales_are_counted_as_each_table_stores_them(ascend, deepgemm):
    # DeepGEMM on Hopper: 4 bytes for 1x128 of A and for 128x128 of B; the Ascend tables: 4 bytes for 32 of either.
    found = row(deepgemm, "dense FP8 64x2112x7168 (2025-02-25)")
    m, n, k = 64, 2112, 7168
    lines = {line.convention: line.bytes for line in found.audit}
    assert lines["inputs+scales"] == (m + n) * k + 4 * m * k / 128 + 4 * n * k / 128**2
    m, n, k = 4096, 32768, 512
    lines = {line.convention: line.bytes for line in row(ascend, "inference FP8 4096x32768x512").audit}
    assert lines["inputs+scales"] == 1.125 * (m + n) * k
    changed = {audit.group: audit.changed for audit in deepgemm.audits}
    assert changed["dense FP8, h800"] == changed["grouped FP8, h800"] == ()


def test_a_table_without_printed_byte_rates_gets_a_line_too(ascend, deepgemm):
    silent = [audit for table in (ascend, deepgemm) for audit in table.audits if not audit.printed]
    assert {"dense GEMM, four formats, ascend-950dt": 4, "FlashMLA, h800": 7}.items() <= {
        audit.group: audit.rows for audit in silent
    }.items()


def test_figures_that_were_derived_are_marked(ascend, deepgemm):
    dense = row(ascend, "dense FP8 4096x7168x16384")
    memory = next(pipe for pipe in dense.pipes if pipe.side == "memory")
    assert memory.derived
    assert memory.achieved.value == pytest.approx(((4096 + 7168) * 16384 + 2 * 4096 * 7168) / 1117.6e-6)
    assert any(note.code == "derived-latency" for note in deepgemm.rows[0].notes)


def test_neither_names_the_pipes_without_figures_as_the_profiler_calls_them(ascend):
    found = row(ascend, "MQA logits prefill FP8 Q4096 K8192")
    missing = next(note for note in found.notes if note.code == "missing-pipes").values["pipes"]
    assert "fix (aic_fixpipe)" in missing and "matrix" not in missing


def test_the_mixtures_of_experts_move_what_both_products_read_and_write():
    ascend = {a.group: a for a in classify(table="ascend").tables[0].audits}["MegaMoE FP8xFP4, ascend-950dt"]
    assert ascend.explained_by[0] == MOE_STAGES and ascend.reproduced[MOE_STAGES] == ascend.rows == 8
    row = {row.row.name: row for row in classify(table="ascend").rows}["MegaMoE E96 H5120 I2304 T64"]
    routed = 12 * 3 * 5120 * 2304 / 2 + 64 * 6 * (5120 + 2 * 2304 + 2 * 5120)
    shared = 3 * 5120 * 2304 + 64 * (5120 + 2 * 2304 + 2 * 5120)
    line = next(line for line in row.audit if line.convention == MOE_STAGES)
    assert line.bytes == routed + shared and line.reproduces
    sm100 = {a.group: a for a in classify(table="deepgemm").tables[0].audits}["MegaMoE FP8xFP4"]
    assert not sm100.explained_by and sm100.reproduced[MOE_STAGES_ALONE] == 6
