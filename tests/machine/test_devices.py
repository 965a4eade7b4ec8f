"""Machines resolve by their names, carry sources, and never guess a figure."""

import pytest

from fuseline.errors import UnknownNameError, UnsupportedError
from fuseline.machine import DEFAULT_LAUNCH_LATENCY_S, database, device, devices
from fuseline.machine.database import normalized, packaged_database
from fuseline.machine.dtypes import BITS, bytes_per_element, canonical_dtype, rate_unit
from fuseline.units import SourceKind


def test_the_default_machine_has_the_textbook_ridge_points():
    h100 = device("h100-sxm")
    bandwidth = h100.memory("hbm").bandwidth.value
    assert h100.pipe("matrix").peak("bf16").value / bandwidth == pytest.approx(295.34, abs=0.01)
    assert h100.pipe("vector").peak("f32").value / bandwidth == pytest.approx(19.97, abs=0.01)
    assert h100.main_memory is h100.memory("hbm") is h100.memory("main")


@pytest.mark.parametrize(
    ("name", "fma_per_core_and_cycle", "cores", "clock_hz", "dtype", "pipe"),
    [
        ("h100-sxm", 4 * 512, 132, 1.83e9, "bf16", "matrix"),
        ("h100-sxm", 128, 132, 1.98e9, "f32", "vector"),
        ("a100-80gb", 4 * 256, 108, 1.41e9, "bf16", "matrix"),
        ("l4", 128, 58, 2.04e9, "f32", "vector"),
        ("mi300x", 1024, 304, 2.1e9, "bf16", "matrix"),
        ("mi355x", 2048, 256, 2.4e9, "bf16", "matrix"),
        ("ascend-950dt", 4096, 32, 1.65e9, "bf16", "matrix"),
        ("ascend-950dt", 8192, 32, 1.65e9, "fp8", "matrix"),
        ("ascend-950dt", 16384, 32, 1.65e9, "fp4", "matrix"),
        ("ascend-910b2", 4096, 24, 1.8e9, "bf16", "matrix"),
    ],
)
def test_peaks_are_units_times_clock(name, fma_per_core_and_cycle, cores, clock_hz, dtype, pipe):
    expected = 2 * fma_per_core_and_cycle * cores * clock_hz
    assert device(name).pipe(pipe).peak(dtype).value == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA L40S", "l40s"),
        ("b200_sxm", "b200"),
        ("h200_sxm", "h200"),
        ("b300_sxm", "b300"),
        ("A100-SXM-80GB", "a100-80gb"),
        ("A100 SXM 80GB", "a100-80gb"),
        ("A100-SXM4-80GB", "a100-80gb"),
        ("A100-80GB", "a100-80gb"),
        ("A100 PCIe 80GB", "a100-pcie"),
        ("H100", "h100-sxm"),
        ("NVIDIA GB10 (DGX Spark)", "gb10"),
        ("gb200", "gb200"),
        ("RTX 4090 24GB", "rtx-4090"),
        ("RTX 6000 Ada 48GB", "rtx-6000-ada"),
        ("RTX 6000 Ada", "rtx-6000-ada"),
        ("RTX A6000 48GB", "rtx-a6000"),
        ("RTX 4000 Ada 20GB", "rtx-4000-ada"),
        ("RTX 4080 16GB", "rtx-4080"),
        ("RTX 4070 Ti 12GB", "rtx-4070-ti"),
        ("RTX 3080 Ti 12GB", "rtx-3080-ti"),
        ("RTX 3080 10GB", "rtx-3080"),
        ("RTX 3070 8GB", "rtx-3070"),
        ("RTX PRO 6000 Blackwell Max-Q", "rtx-pro-6000-max-q"),
        ("L40S 48GB", "l40s"),
        ("Apple M2 Ultra 76-core GPU 192GB", "apple-m2-ultra"),
        ("Apple M3 Max 40-core GPU 64GB", "apple-m3-max"),
        ("Apple M1 7-core GPU 8GB", "apple-m1-7"),
        ("MI300X", "mi300x"),
        ("MI250X-1GCD", "mi250x-1gcd"),
        ("H800", "h800"),
        ("ascend-950dt", "ascend-950dt"),
    ],
)
def test_the_strings_of_published_measurements_resolve(text, name):
    assert device(text).name == name


def test_no_two_machines_share_a_name():
    owners: dict[str, str] = {}
    for machine in packaged_database().devices:
        for spelling in {normalized(text) for text in (machine.name, machine.title, *machine.aliases)}:
            assert owners.setdefault(spelling, machine.name) == machine.name


def test_an_unknown_machine_is_refused_with_the_nearest_names():
    with pytest.raises(UnknownNameError, match="nearest: h100-sxm"):
        device("h100-sxn")
    with pytest.raises(UnknownNameError, match="device list"):
        device("zzz")
    with pytest.raises(UnknownNameError, match="device probe"):
        device("host")


def test_every_figure_has_a_source_and_a_confidence():
    machines = devices()
    assert len(machines) >= 35
    for machine in machines:
        figures = [peak.rate for pipe in machine.pipes for peak in pipe.peaks]
        figures += [quantity for memory in machine.memories for quantity in (*memory.bandwidths, *memory.sizes)]
        figures += [quantity for link in machine.links for quantity in link.bandwidths_per_direction]
        assert figures
        for figure in figures:
            assert figure.source.document and figure.source.confidence in ("high", "medium", "low")
            assert figure.source.machine == machine.name


def test_an_unknown_figure_is_absent_and_an_unsupported_format_is_said_to_be():
    a100 = device("a100-80gb").pipe("matrix")
    assert a100.find("fp8") is None
    with pytest.raises(UnsupportedError, match="does not do fp8"):
        a100.peak("fp8")
    with pytest.raises(UnknownNameError, match="no fp6 figure"):
        a100.peak("fp6")
    with pytest.raises(UnknownNameError, match="no achievable bf16"):
        a100.peak("bf16", kind="achievable")
    with pytest.raises(UnknownNameError, match="bandwidth of l2"):
        device("a100-80gb").memory("l2").bandwidth
    with pytest.raises(UnknownNameError, match="did you mean matrix"):
        device("a100-80gb").pipe("matrx")
    with pytest.raises(UnknownNameError, match="no memory"):
        device("a100-80gb").memory("gddr")
    with pytest.raises(UnknownNameError, match="no link"):
        device("a100-80gb").link("pcie")


def test_peaks_depend_on_the_accumulator_where_the_hardware_does():
    matrix = device("rtx-4090").pipe("matrix")
    assert matrix.peak("f16").value == matrix.peak("f16", "f32").value == 165.2e12
    assert matrix.peak("f16", "f16").value == 330.3e12
    assert device("h100-sxm").pipe("matrix").peak("f16", "f32").value == 989.4e12
    with pytest.raises(UnknownNameError, match="f16/f16"):
        device("h100-sxm").pipe("matrix").peak("f16", "f16")


def test_several_figures_for_one_thing_are_told_apart_by_kind():
    ascend = device("ascend-950dt")
    assert ascend.memory("hbm").bandwidth.value == 3.5e12
    assert ascend.memory("hbm").bandwidth.source.kind == SourceKind.EFFECTIVE
    datasheet = ascend.memory("hbm").find_bandwidth("datasheet")
    assert datasheet is not None and datasheet.value == 4e12
    assert ascend.pipe("fix").peak().value == pytest.approx(128 * 1.65e9 * 32)
    assert ascend.pipe("fix").peak().source.kind == SourceKind.MODEL_CONSTANT
    assert device("mi300x").pipe("matrix").peak("bf16", kind="achievable").value == 708e12


def test_the_launch_latency_is_an_assumption_until_somebody_knows_better():
    latency = device("h100-sxm").launch_latency
    assert latency.value == DEFAULT_LAUNCH_LATENCY_S == 4e-6
    assert latency.source.kind == SourceKind.ASSUMED


def test_integer_peaks_are_operations_not_flops():
    assert device("a100").pipe("matrix").peak("int8").unit == "OP/s"
    assert rate_unit("int8") == "OP/s" and rate_unit("bf16") == "FLOP/s"


def test_number_formats_have_one_name_and_one_width():
    assert canonical_dtype("FP16") == canonical_dtype("half") == canonical_dtype("f16") == "f16"
    assert bytes_per_element("nvfp4") == 0.5
    assert {canonical_dtype(name) for name in BITS} == set(BITS)
    with pytest.raises(UnknownNameError, match="did you mean"):
        canonical_dtype("bf61")


def test_a_machine_as_data_has_every_figure_in_base_units():
    found = device("h100-sxm").to_dict()
    hbm = next(memory for memory in found["memories"] if memory["name"] == "hbm")
    assert hbm["bandwidths_bytes_per_s"][0]["value"] == 3.35e12
    assert found["launch_latency_s"]["source"]["kind"] == "assumed"
    assert database().names() == sorted(database().names())


def test_kinds_and_confidences_say_how_a_figure_came_to_be():
    ascend = device("ascend-950dt").pipe("matrix").peak("fp8")
    assert ascend.source.kind == "derived"  # 2 x 8192 FLOP a cycle and core x 1650 MHz x 32 cores
    assert ascend.value == 2 * 8192 * 1650e6 * 32
    assert [q.source.kind for q in device("b200").main_memory.bandwidths] == ["datasheet", "effective"]
    assert device("apple-m2-max").main_memory.bandwidth.source.confidence == "low"
    assert device("mi355x").pipe("vector").peak("f64").source.confidence == "medium"
