"""Which numbers may be divided by which."""

import pytest

import fuseline as fl
from fuseline.errors import ProvenanceError, UnitError
from fuseline.machine import device, parse_device_text
from fuseline.roofline.provenance import divide, objections, predictor
from fuseline.roofline.rows import measured
from fuseline.units import Quantity, Source, SourceKind

H100 = device("h100-sxm")
PEAK = H100.pipe("matrix").peak("bf16")


def rate(value=500e12, machine="h100-sxm", dtype="bf16", sparse=False, kind=SourceKind.MEASURED):
    return Quantity(value, "FLOP/s", Source(kind, "test", machine), dtype, sparse)


def test_a_measured_rate_over_any_peak_of_its_machine_is_labelled_with_the_kind():
    assert divide(rate(), PEAK).kind == "datasheet"
    achievable = device("mi300x").pipe("matrix").peak("bf16", kind="achievable")
    assert divide(rate(machine="mi300x"), achievable).kind == "achievable"
    effective = device("ascend-950dt").memory("hbm").bandwidth
    assert divide(measured(186e9, "B/s", "ascend-950dt"), effective).kind == "effective"
    assert divide(rate(), PEAK).value == pytest.approx(500 / 989.4)


@pytest.mark.parametrize(
    ("achieved", "code"),
    [
        (rate(machine="h200"), "other-machine"),
        (rate(machine=""), "machine-unknown"),
        (rate(dtype="fp8"), "other-dtype"),
        (rate(sparse=True), "sparse-over-dense"),
        (rate(kind=SourceKind.MODEL_CONSTANT), "not-achieved"),
        (rate(kind=SourceKind.DATASHEET), "not-achieved"),
    ],
)
def test_what_does_not_belong_together_is_refused_with_the_reason(achieved, code):
    assert [reason.code for reason in objections(achieved, PEAK)] == [code]
    with pytest.raises(ProvenanceError, match="may not be divided"):
        divide(achieved, PEAK)
    mixed = divide(achieved, PEAK, allow_mixed=True)
    assert mixed.mixed and mixed.value == achieved.value / PEAK.value


def test_a_dense_rate_over_a_sparse_peak_is_refused():
    text = """
format = 1
[[device]]
name = "sparse-1"
[device.pipes.matrix]
bf16 = { value = "2000 TFLOPS", sparse = true }
"""
    sparse = parse_device_text(text)[0].pipe("matrix").peak("bf16")
    assert [reason.code for reason in objections(rate(machine="sparse-1"), sparse)] == ["dense-over-sparse"]
    assert objections(rate(machine="sparse-1", sparse=True), sparse) == []
    with pytest.raises(ProvenanceError, match="skipped zeros"):
        divide(rate(machine="sparse-1"), sparse)


def test_every_reason_is_given_at_once():
    with pytest.raises(ProvenanceError) as caught:
        divide(rate(machine="h200", dtype="fp8", sparse=True), PEAK)
    for word in ("h200", "fp8", "zeros"):
        assert word in str(caught.value)


def test_units_must_agree_and_an_assumption_is_no_peak():
    with pytest.raises(UnitError):
        divide(measured(1e12, "B/s", "h100-sxm"), PEAK)
    with pytest.raises(ProvenanceError, match="assumption"):
        divide(measured(1e-6, "s", "h100-sxm"), H100.launch_latency)


def test_a_model_constant_predicts_no_time():
    l2 = device("ascend-950dt").memory("l2").bandwidth
    assert l2.source.kind == SourceKind.MODEL_CONSTANT
    assert divide(measured(1e12, "B/s", "ascend-950dt"), l2).kind == "model constant"
    with pytest.raises(ProvenanceError, match="cannot be predicted"):
        predictor(l2)
    assert predictor(l2, allow_mixed=True) == l2.value
    assert predictor(PEAK) == PEAK.value


@pytest.mark.parametrize(("kind", "words"), [("model constant", "a model constant"), ("assumed", "an assumption")])
def test_a_time_from_a_constant_is_refused_and_marked_where_it_is_shown_all_the_same(tmp_path, kind, words):
    path = tmp_path / "d.toml"
    path.write_text(
        'format = 1\n[[device]]\nname = "x1"\n[device.pipes.matrix]\n'
        f'fp8 = {{ value = "800 TFLOPS", kind = "{kind}" }}\n[device.memories.hbm]\nbandwidth = "1 TB/s"\n'
    )
    with pytest.raises(ProvenanceError, match=f"is {words}"):
        fl.classify(m=128, device="x1", device_files=[path])
    notes = fl.classify(m=128, device="x1", device_files=[path], allow_mixed=True).shapes[0].analysis.notes
    assert [note.values["pipes"] for note in notes if note.code == "mixed"] == ["matrix"]
