"""``fl.classify`` on single rows, shapes alone and formulas."""

import numpy as np
import pytest

import fuseline as fl
from fuseline.api.roofline import formula_cost
from fuseline.cost import shapes
from fuseline.cost.shape_cost import CONVENTIONS
from fuseline.errors import (
    FormulaError,
    FuselineError,
    ProvenanceError,
    ShapeError,
    UnitError,
    UnknownNameError,
    UnsupportedError,
    UsageError,
)
from fuseline.report.roofline_document import classification_document
from fuseline.report.terminal import plain_text
from fuseline.roofline.efficiency import RestsOn, efficiencies
from fuseline.roofline.rules import UNDETERMINED
from fuseline.roofline.shape import RIDGE_MARGIN, analyse
from operation_sizes import OPERATION_SIZES

JSON_KEYS = {
    "name",
    "device",
    "dtype",
    "achieved",
    "peak",
    "ratios",
    "source",
    "bound",
    "rule",
    "source_says",
    "audit",
    "notes",
}


def test_rates_alone_are_enough():
    found = fl.classify(tflops=861, gbps=186)
    assert found.bound == "compute"
    row = found.to_dict()["rows"][0]
    assert row.keys() >= JSON_KEYS
    assert row["achieved"] == {"matrix": 861e12, "hbm": 186e9}
    assert row["ratios"]["matrix"] == pytest.approx(861 / 865.0752)


def test_a_shape_with_its_time_is_recomputed():
    found = fl.classify(m=4096, n=7168, k=16384, dtype="fp8", latency_us=1117.6).rows[0]
    assert found.calibration.flop_per_s / 1e12 == pytest.approx(860.9, abs=0.1)
    assert found.bound == "compute"
    assert {line.convention for line in found.audit} == set(CONVENTIONS)


def test_m_alone_means_the_shape_of_the_course():
    shape = fl.classify(m=128).shapes[0].to_dict()
    assert shape["device"] == "ascend-950dt" and shape["dtype"] == "fp8"
    assert shape["sizes"] == {"m": 128, "n": 7168, "k": 16384, "batch": 1}
    assert shape["shape"]["flop"] == 2 * 128 * 7168 * 16384
    assert shape["shape"]["bytes"]["inputs"] == (128 + 7168) * 16384
    assert shape["shape"]["bytes"]["inputs+output"] == (128 + 7168) * 16384 + 2 * 128 * 7168
    assert shape["shape"]["ridge_point_flop_per_byte"] == pytest.approx(865.0752 / 3.5, rel=1e-6)
    assert shape["shape"]["near_ridge"] is True and "near-ridge" in [note["code"] for note in shape["notes"]]


def test_the_time_limit_uses_the_datasheet_which_software_must_not_beat():
    found = fl.classify(m=1, n=8192, k=8192, dtype="bf16", device="ascend-950dt").shapes[0].analysis
    assert found.bound == "memory"
    assert float(found.bound_time_s) == pytest.approx(float(found.cost.bytes()) / 4e12)
    assert found.ridge == pytest.approx(432.5376e12 / 3.5e12)
    h100 = fl.classify(m=4096, n=4096, k=4096, dtype="bf16", device="h100").shapes[0].analysis
    assert float(h100.bound_time_s) == pytest.approx(2 * 4096**3 / 989.4e12)


def test_an_estimate_has_its_basis_and_is_absent_without_one():
    known = fl.classify(m=4096, n=4096, k=4096, dtype="bf16", device="h100").shapes[0]
    assert known.estimate is not None
    assert known.estimate.shortest_s <= known.estimate.time_s <= known.estimate.longest_s
    assert known.estimate.samples >= 5 and "aiconfigurator" in known.estimate.basis
    limit = float(known.analysis.bound_time_s)
    assert known.estimate.time_s == pytest.approx(limit / known.estimate.efficiency)
    assert known.to_dict()["shape"]["estimate"]["rests_on"] == "kernels alike"
    assert fl.classify(m=4096, n=4096, k=4096, dtype="bf16", device="mi300x").shapes[0].estimate is None


def test_bundled_efficiencies_are_possible_and_unambiguous():
    keys = [(e.device, e.operation, e.dtype, e.bound, e.limit_s) for e in efficiencies()]
    assert len(keys) == len(set(keys)) > 20
    for e in efficiencies():
        assert e.limit_s <= 1.02 * e.shortest_s and e.shortest_s <= e.median_s <= e.longest_s
        assert 0 < e.lower_s <= e.limit_s <= e.upper_s and e.samples >= 5 and e.basis
        assert fl.device(e.device).name == e.device


def test_a_million_shapes_are_one_call():
    rng = np.random.default_rng(0)
    m, n, k = rng.integers(1, 10**5, (3, 10**6))
    found = fl.classify(m=m, n=n, k=k, dtype="fp8").shapes[0].analysis
    assert found.bounds.shape == (10**6,)
    for index in (0, 12345, 999_999):
        alone = fl.classify(m=int(m[index]), n=int(n[index]), k=int(k[index]), dtype="fp8").shapes[0].analysis
        assert found.bounds[index] == alone.bound
        assert found.bound_time_s[index] == alone.bound_time_s


def test_the_ridge_warning_is_within_its_margin_on_both_sides():
    device = fl.device("h100-sxm")
    elements = 2**24
    ridge = 66.9 / 3.35
    for operations in range(1, 400):
        found = analyse(shapes.elementwise(elements, operations, 1, 1, "f32"), device)
        intensity = operations / 8
        assert bool(found.near_ridge) == (abs(intensity / ridge - 1) <= RIDGE_MARGIN)
        assert found.bound == ("compute" if intensity > ridge else "memory")


def test_copies_are_memory_bound_and_need_no_ridge():
    found = fl.classify(operation="copy", sizes={"elements": 2**20}, device="h100").shapes[0]
    assert found.analysis.bound == "memory" and found.analysis.ridge is None
    assert found.to_dict()["shape"]["flop"] == 0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"m": 1}, "gemm 1x7168x16384"),
        ({"m": 1, "n": 1, "k": 1}, "gemm 1x1x1"),
        ({"m": 5, "sizes": {"batch": 3}}, "batched-gemm 3x5x7168x16384"),
        ({"m": 1, "operation": "grouped-gemm", "sizes": {"groups": 1}}, "grouped-gemm 1x1x7168x16384"),
        ({"m": 1, "operation": "batched-gemm", "sizes": {"batch": 1}}, "batched-gemm 1x1x7168x16384"),
        (
            {
                "operation": "moe",
                "sizes": {"tokens": 1, "hidden": 8, "intermediate": 4, "experts": 3, "topk": 1, "shared": 1},
            },
            "moe tokens=1 hidden=8 intermediate=4 experts=3 topk=1 shared=1",
        ),
    ],
)
def test_a_kernel_without_a_name_is_called_by_all_its_sizes(arguments, name):
    """With a measured time it has the same name; a size of one is a size."""
    assert fl.classify(**arguments, dtype="bf16").shapes[0].name == name
    assert fl.classify(**arguments, dtype="bf16", latency_us=1e5).rows[0].row.name == name


def test_an_array_of_sizes_has_a_place_in_the_name():
    assert fl.classify(m=[1, 2], n=3, k=4).shapes[0].name == "gemm …x3x4"
    sizes = {"batch": 1, "q_len": 8, "heads": 1, "causal": False}
    name = fl.classify(operation="attention-prefill", sizes=sizes, device="h100").shapes[0].name
    assert name.startswith("attention-prefill batch=1 q_len=8") and name.endswith("causal=false")


@pytest.mark.parametrize("operation", sorted(shapes.OPERATIONS))
def test_every_operation_is_classified_as_a_shape(operation):
    found = fl.classify(operation=operation, sizes=OPERATION_SIZES[operation] | {"dtype": "bf16"}, device="h100")
    assert found.bound in ("compute", "memory", "vector")


def test_integer_work_uses_integer_peaks():
    found = fl.classify(m=512, n=512, k=512, dtype="int8", device="h100").shapes[0]
    assert found.analysis.pipes[0].peak.unit == "OP/s"
    row = fl.classify(tflops=500, gbps=100, dtype="int8", device="h100").rows[0]
    assert row.to_dict()["units"]["matrix"] == "OP/s"


def test_a_formula_is_a_shape_with_its_own_bytes():
    program = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"
    cost = formula_cost(program, "4096x14336", "bf16")
    found = fl.classify(cost=cost, device="h100-sxm").shapes[0].analysis
    elements = 4096 * 14336
    assert cost.bytes() == 4 * elements * 2 and cost.flop == 11 * elements
    assert float(found.intensity) == 1.375 and found.ridge == pytest.approx(19.97, abs=0.01)
    assert float(found.bound_time_s) == pytest.approx(140.2e-6, abs=0.05e-6)
    declared = formula_cost("x: f32[N]; b: bf16[N]; x*x + b", dtype="f32", sizes={"N": np.array([10, 1000])})
    assert declared.bytes().tolist() == [100, 10_000]
    with pytest.raises(FormulaError):
        formula_cost("x +", "4")


def test_a_time_near_the_launch_floor_is_latency_bound():
    assert fl.classify(tflops=861, gbps=186, latency_us=7.9).bound == "latency"
    assert fl.classify(tflops=861, gbps=186, latency_us=8.1).bound == "compute"


def test_the_other_rule_and_waves():
    assert fl.classify(tflops=300, gbps=100, rule="nsight", waves=0.5).bound == "small-grid"
    assert fl.classify(tflops=300, gbps=100, rule="nsight").bound == "latency"
    assert fl.classify(tflops=861, gbps=100, rule="nsight").rows[0].verdict.notes[0].code == "high-throughput"


def test_a_rate_of_one_machine_over_another_is_refused_unless_asked_for():
    with pytest.raises(ProvenanceError, match="measured on ascend-950dt"):
        fl.classify(tflops=861, gbps=186, device="h100", measured_on="ascend-950dt")
    mixed = fl.classify(tflops=861, gbps=186, device="h100", measured_on="ascend-950dt", allow_mixed=True)
    assert mixed.to_dict()["rows"][0]["mixed"] == ["matrix", "hbm"]
    assert "mixed" in [note.code for note in mixed.rows[0].notes]


def test_an_impossible_ratio_is_reported_and_not_clipped():
    found = fl.classify(tflops=1979, gbps=186, dtype="bf16", device="h100").rows[0]
    assert found.ratio("compute") == pytest.approx(1979 / 989.4)
    note = found.notes[0]
    assert note.code == "impossible-ratio" and note.values["pipe"] == "matrix"
    assert "impossible-ratio" not in [
        n.code for n in fl.classify(tflops=1000, gbps=1, device="h100", dtype="bf16").rows[0].notes
    ]


def test_another_kind_of_peak_can_be_asked_for():
    over_achievable = fl.classify(tflops=600, gbps=100, dtype="bf16", device="mi300x", peaks="achievable").rows[0]
    assert over_achievable.ratio("compute") == pytest.approx(600 / 708)
    over_datasheet = fl.classify(tflops=861, gbps=3400, peaks="datasheet").rows[0]
    assert over_datasheet.ratio("memory") == pytest.approx(0.85)


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        ({"tflops": 0}, UnitError, "positive"),
        ({"tflops": -1}, UnitError, "not -1"),
        ({"gbps": float("nan")}, UnitError, "positive"),
        ({"gbps": 1.8e11}, UnitError, "absurd"),
        ({"latency_us": 5}, UnitError, "needs a shape"),
        ({"latency_us": -5, "m": 1}, UnitError, "positive"),
        ({"tflops": 5, "dtype": "fp9"}, UnknownNameError, "unknown dtype"),
        ({"tflops": 5, "dtype": "fp8", "device": "a100"}, ProvenanceError, "does not do fp8"),
        ({"tflops": 5, "pipes": {"fix": "5"}}, UnitError, "unknown unit"),
        ({"gbps": 5, "device": "h101"}, UnknownNameError, "nearest: h100-sxm"),
        ({"table": "mine"}, UnknownNameError, "ascend, deepgemm, course"),
        ({"rule": "guess"}, UnknownNameError, "book, nsight"),
        ({"operation": "gemmm", "m": 4}, UnknownNameError, "did you mean"),
        ({"m": 0}, ShapeError, "at least 1"),
        ({"m": 4, "dtype": "fp8", "device": "a100"}, UnsupportedError, "does not do fp8"),
        ({"m": 4, "device": "apple-m3-max"}, UnknownNameError, "no pipe 'vector'"),
        ({"m": 2.5, "tflops": 4}, UnitError, "whole number"),
        ({"operation": "foo"}, UnknownNameError, "unknown operation 'foo'"),
        ({"operation": "norm"}, ShapeError, "norm needs rows"),
        ({"dtype": "nonsense"}, UnknownNameError, "nonsense"),
        ({"name": "mine"}, ShapeError, "gemm needs m"),
        ({"waves": 0.5}, UsageError, "waves has no meaning"),
        ({"m": 4, "measured_on": "h100"}, UsageError, "measured_on has no meaning"),
        ({"table": "course", "operation": "norm"}, UsageError, "leave out operation"),
        ({"table": "course", "dtype": "fp8"}, UsageError, "leave out dtype"),
        ({"csv": "x.csv", "measured_on": "h100"}, UsageError, "leave out measured_on"),
        ({"rows": [], "name": "mine"}, UsageError, "leave out name"),
        ({"cost": formula_cost("x*x", "4"), "operation": "norm"}, UsageError, "leave out the operation"),
    ],
)
def test_bad_input_gets_one_clear_line(arguments, error, complaint):
    with pytest.raises(error, match=complaint) as caught:
        fl.classify(**arguments)
    assert "\n" not in str(caught.value)


def test_a_pipe_that_the_machine_lacks_is_a_remark_when_others_are_known():
    found = fl.classify(tflops=500, gbps=100, device="h100", pipes={"fix": "1 TB/s"}).rows[0]
    assert "fix" not in found.to_dict()["ratios"]
    assert "has no pipe 'fix'" in found.to_dict()["refused"]["fix"]


def test_several_rows_have_no_single_bound():
    with pytest.raises(UsageError, match="6 rows"):
        _ = fl.classify().bound


def test_an_impossible_ratio_carries_no_verdict():
    found = fl.classify(tflops=1979, gbps=186, dtype="bf16", device="h100").rows[0]
    assert found.bound == UNDETERMINED and found.to_dict()["bound"] is None
    assert fl.classify(tflops=100, gbps=3500, dtype="bf16", device="h100").bound == UNDETERMINED
    assert fl.classify(tflops=100, gbps=100, device="ascend-950dt", pipes={"fix": "9 TB/s"}).bound == "neither"


def test_a_kind_of_peak_is_known_and_its_absence_said():
    with pytest.raises(UnknownNameError, match="datasheet, achievable, effective"):
        fl.classify(tflops=500, gbps=100, device="h100", peaks="foo")
    codes = [note.code for note in fl.classify(tflops=500, gbps=100, device="h100", peaks="effective").rows[0].notes]
    assert "kind-absent" in codes
    shape = fl.classify(m=128, device="h100", peaks="effective").shapes[0]
    assert "kind-absent" in [note.code for note in shape.analysis.notes]
    assert (
        "kind-absent" not in [note.code for note in fl.classify(m=128, peaks="effective").shapes[0].analysis.notes][1:]
    )


SPARSE = """
format = 1
[[device]]
name = "x1"
[device.pipes.matrix]
bf16 = {figures}
[device.memories.hbm]
bandwidth = "1000 GB/s"
"""


def test_a_dense_shape_is_not_divided_by_a_sparse_peak(tmp_path):
    path = tmp_path / "d1.toml"
    path.write_text(SPARSE.format(figures='{ value = "400 TFLOPS", sparse = true }'))
    with pytest.raises(ProvenanceError, match="sparse"):
        fl.classify(m=128, dtype="bf16", device="x1", device_files=[path])
    mixed = fl.classify(m=128, dtype="bf16", device="x1", device_files=[path], allow_mixed=True).shapes[0]
    assert "mixed" in [note.code for note in mixed.analysis.notes]
    path.write_text(SPARSE.format(figures='[{ value = "400 TFLOPS", sparse = true }, "200 TFLOPS"]'))
    dense = fl.classify(m=128, dtype="bf16", device="x1", device_files=[path]).shapes[0].analysis
    assert dense.pipes[0].peak.value == 200e12


@pytest.mark.parametrize("operation", sorted(shapes.OPERATIONS))
def test_a_time_goes_with_every_operation(operation):
    sizes = {k: v for k, v in OPERATION_SIZES[operation].items() if not hasattr(v, "shape")} | {
        k: int(v.reshape(-1)[0]) for k, v in OPERATION_SIZES[operation].items() if hasattr(v, "shape")
    }
    cost = shapes.shape_cost(operation, **sizes, dtype="bf16")
    found = fl.classify(operation=operation, sizes=sizes, dtype="bf16", device="h100", latency_us=1e6).rows[0]
    rates = found.to_dict()["achieved"]
    assert rates["hbm"] == pytest.approx(float(cost.bytes()))
    work = next(iter(cost.work.values()), None)
    if work is not None:
        assert next(value for pipe, value in rates.items() if pipe != "hbm") == pytest.approx(float(work[0]))


def test_the_logits_recompute_to_908_tflops_from_their_shape_and_time():
    sizes = {"q_len": 4096, "kv_len": 8192, "heads": 32, "head_dim": 128}
    found = fl.classify(operation="mqa-logits", sizes=sizes, dtype="fp8", latency_us=302.6).rows[0]
    assert found.calibration.flop_per_s / 1e12 == pytest.approx(908.4, abs=0.1)


def test_a_formula_takes_a_time():
    cost = formula_cost("x*y + z", "4096x14336", "bf16")
    found = fl.classify(cost=cost, device="h100-sxm", latency_us=150).rows[0].to_dict()
    assert found["bound"] == "memory"
    assert found["achieved"] == {
        "vector": pytest.approx(2 * 4096 * 14336 / 150e-6),
        "hbm": pytest.approx(4 * 2 * 4096 * 14336 / 150e-6),
    }


def test_integer_work_without_a_known_peak_leaves_the_compute_side_open():
    found = fl.classify(operation="elementwise", sizes={"elements": 10**6}, dtype="i32", device="h100").shapes[0]
    answer = found.to_dict()
    assert answer["bound"] is None and answer["shape"]["flop"] == 10**6
    assert answer["shape"]["memory_time_s"] == answer["shape"]["bound_time_s"] == pytest.approx(8e6 / 3.35e12, rel=0.01)
    assert "compute-unknown" in [note["code"] for note in answer["notes"]]


def test_without_kernels_of_its_size_an_estimate_says_what_it_rests_on_instead():
    found = fl.classify(m=10**6, n=16384, k=16384, dtype="bf16", device="h200")
    estimate = found.shapes[0].estimate
    assert estimate.rests_on is RestsOn.OTHER and not estimate.comparable
    told = plain_text(classification_document(found, "en"), 400)
    assert "kernels of this size and bound were not measured" in told


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"table": "course", "m": 4}, "table brings its own"),
        ({"csv": "x.csv", "tflops": 4}, "csv brings its own"),
        ({"csv": "x.csv", "table": "course"}, "csv and table contradict"),
        ({"m": [1, 2], "latency_us": 5}, "m is an array"),
        ({"m": [1, 2], "n": [1, 2, 3]}, "m 2, n 3"),
        ({"m": 4, "latency_us": np.array([1.0, 2.0])}, "latency_us must be one number"),
        ({"m": 4, "latency_us": "5"}, "latency_us must be one number"),
        ({"tflops": True}, "tflops must be one number"),
        ({"n": 128}, "give --m"),
    ],
)
def test_contradictions_and_wrong_kinds_of_argument_are_named(arguments, complaint):
    with pytest.raises(FuselineError, match=complaint):
        fl.classify(**arguments)


def test_lists_are_arrays_of_sizes():
    found = fl.classify(m=[1, 4096]).shapes[0].analysis
    assert found.bounds.tolist() == ["memory", "compute"]


def test_a_time_near_an_assumed_floor_says_that_the_floor_is_assumed():
    found = fl.classify(tflops=861, gbps=186, latency_us=7.9).rows[0]
    assert found.bound == "latency" and "near-assumed-floor" in [note.code for note in found.notes]


def test_a_pipe_that_the_machine_lacks_is_also_an_error_of_the_answer():
    found = fl.classify(tflops=861, gbps=186, dtype="fp8", pipes={"warp": "6 TB/s"})
    assert found.rows[0].bound == "compute" and "no pipe 'warp'" in found.errors[0].message


@pytest.mark.parametrize(
    "arguments",
    [
        {"m": 1, "dtype": 3},
        {"m": 1, "device": 3},
        {"m": 1, "name": 3},
        {"m": 1, "operation": 3},
        {"m": 1, "sizes": [1]},
        {"m": 1, "sizes": {"scales": ["a"]}},
        {"m": 1, "latency_us": 3, "latency_s": 3},
        {"m": 1, "device_files": 3},
        {"m": 1, "device_files": [3]},
        {"cost": 3},
        {"rows": [1]},
        {"csv": 3},
        {"tflops": 1, "gbps": 1, "rule": b"book"},
        {"tflops": 1, "gbps": 1, "pipes": ["fix"]},
        {"tflops": 1, "gbps": 1, "pipes": {"fix": None}},
        {"tflops": 1, "gbps": 1, "pipes": {"fix": 6}},
        {"tflops": 1, "gbps": 1, "pipes": {"fix": "6 GHz"}},
        {"tflops": 1, "gbps": 1, "pipes": {"compute": "3 TFLOPS"}},
        {"tflops": 1, "gbps": 1, "measured_on": fl.device("h100")},
    ],
    ids=str,
)
def test_arguments_of_another_kind_are_refused_in_words(arguments):
    with pytest.raises(FuselineError):
        fl.classify(**arguments)


def test_devices_are_asked_for_by_name_and_files_by_path():
    for call in (lambda: fl.device(3), lambda: fl.device(None), lambda: fl.device("h100", 3), lambda: fl.devices(3)):
        with pytest.raises(FuselineError):
            call()
    with pytest.raises(FuselineError) as refused:
        fl.device("x" * 100_000)
    assert len(str(refused.value)) < 300
    with pytest.raises(FuselineError, match=r"^none\.toml: cannot be read"):
        fl.device("h100", "none.toml")


def test_numpy_formats_are_formats_and_an_array_of_one_size_stays_an_array():
    assert fl.classify(m=8, dtype=np.float32, device="h100").to_dict()["rows"][0]["dtype"] == "f32"
    shape = fl.classify(m=np.array([4096])).shapes[0]
    assert shape.analysis.bounds.shape == (1,) and shape.estimate is None and shape.analysis.bound == "compute"


def test_a_rate_given_twice_is_named_and_only_the_first_is_used():
    found = fl.classify(tflops=861, gbps=186, dtype="fp8", pipes={"hbm": "3 TB/s"})
    assert found.rows[0].ratio("memory") == pytest.approx(186 / 3500) and "given twice" in found.errors[0].message


def test_a_recomputed_vector_rate_is_marked_as_recomputed():
    row = fl.classify(operation="softmax", sizes={"rows": 4096, "columns": 8192}, latency_us=100, device="h100").rows[0]
    assert {pipe.pipe: pipe.derived for pipe in row.pipes} == {"vector": True, "hbm": True}


def test_a_product_that_the_matrix_pipe_does_not_do_is_laid_against_the_vector_pipe_and_says_so():
    shape = fl.classify(m=4096, n=4096, k=4096, dtype="f32", device="h100").shapes[0].analysis
    assert shape.pipes[0].pipe == "vector" and shape.pipes[0].peak.value == pytest.approx(66.9e12)
    assert "not-on-matrix-pipe" in [note.code for note in shape.notes]
    with pytest.raises(UnsupportedError, match="does not do fp4"):
        fl.classify(m=4096, dtype="fp4", device="h100")


def test_every_bundled_efficiency_belongs_to_an_operation_that_can_be_asked_for():
    sizes = {
        "gemm": {"m": 4096, "n": 4096, "k": 4096},
        "grouped-gemm": {"groups": 8, "m": 4096, "n": 4096, "k": 4096},
        "attention-prefill": {"batch": 1, "q_len": 4096, "heads": 32, "kv_heads": 8},
    }
    for known in {(e.operation, e.device, e.dtype): e for e in efficiencies()}.values():
        size = sizes[known.operation]
        shape = fl.classify(operation=known.operation, sizes=size, dtype=known.dtype, device=known.device).shapes[0]
        assert shape.estimate is not None and known.basis.split()[0] in shape.estimate.basis


def test_integers_have_their_own_unit_of_intensity():
    text = plain_text(classification_document(fl.classify(m=4096, dtype="int8", device="h100"), "en"), 100)
    assert "OP/B" in text and "FLOP/B" not in text


@pytest.mark.parametrize("rule", ["book", "nsight"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"m": 4096, "latency_us": 1.1176},
        {"operation": "elementwise", "sizes": {"elements": 100}, "tflops": 1},
        {"m": 1, "n": 1024, "k": 1024, "dtype": "bf16", "device": "h200", "latency_us": 0.01},
        {"m": 1, "n": 1024, "k": 1024, "dtype": "bf16", "device": "h200", "latency_us": 3, "gbps": 8e6},
    ],
)
def test_a_time_beside_an_impossible_ratio_makes_nothing_latency_bound(rule, arguments):
    row = fl.classify(rule=rule, **arguments).rows[0]
    assert row.bound == UNDETERMINED
    assert "impossible-ratio" in [note.code for note in row.notes]
    for line in row.audit:  # what is counted in another way may be possible, and is then judged as any other
        assert line.bound != "latency" or line.bytes_per_s <= 1.02 * row.device.main_memory.bandwidth.value
