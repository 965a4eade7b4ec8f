"""Which remarks appear follows from the results, and every remark of the catalogue has a result that brings it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fuseline.api.explaining import explain
from fuseline.api.explanation import Explanation, Measured
from fuseline.api.program import graph
from fuseline.codegen.c import emit_program
from fuseline.machine.database import device
from fuseline.machine.device import Device
from fuseline.machine.files import parse_device_text
from fuseline.report import remarks
from fuseline.report.catalogue import LANGUAGES, topic_texts
from fuseline.report.remarks import Remark, dataflow_remarks, measured_remarks, memory_remarks, traffic_remarks

GELU = "h = x + b; y = 0.5*h*(1+tanh(0.7978845608*(h+0.044715*h*h*h))); out = y + r"
POLYNOMIAL = "((a*x + b)*x + c)*x + d"
SUM = "+".join(f"a{i}*b{i}" for i in range(16))
ROOTS = "x" + "*1.5+y" * 200
SOFTMAX = "m = max(x, -1); e1 = exp(x - m); out = e1 / sum(e1, -1)"
LITTLE = "x: f32[4096, 4096]; b: f32[4096]; out = x * (b + 1)"
AT_RIDGE = "x" + "*1.5" * 79
N = 1 << 24


def without_pipes(found: Device) -> Device:
    return replace(found, pipes=())


def keys(found: list[Remark]) -> set[str]:
    return {remark.key for remark in found}


def of(e: Explanation) -> set[str]:
    return keys([*dataflow_remarks(e), *traffic_remarks(e), *memory_remarks(e)])


def operations_of(text: str, outputs: list[str] | None = None) -> int:
    return explain(graph(text, outputs=outputs), shape=(64, 128), dtype="f32").traffic.primitive_operations


def test_functions_are_counted_as_often_as_they_run_whatever_the_outputs_are() -> None:
    exponential, elements = operations_of("y = exp(x)"), 64 * 128
    assert exponential % elements == 0
    assert operations_of("y = sum(exp(x))") == exponential + elements
    both = "y = exp(x)\ns = sum(y)"
    assert operations_of(both, ["s", "y"]) == operations_of(both, ["y", "s"]) == exponential + elements
    assert operations_of("x: f32[1,128]; z: f32[64,128]; y = z*exp(x)") == exponential // 64 + elements


def test_a_sum_over_rows_says_nothing_of_one_row() -> None:
    assert "decode_is_launches" in of(explain("tanh(x)*x", shape=(4096, 14336), dtype="bf16"))
    assert "decode_is_launches" not in of(explain("sum(tanh(x), 0)", shape=(4096, 14336), dtype="bf16"))


def row(implementation: str, ms: float, threads: int = 1, share: float | None = None, **more: object) -> Measured:
    arrays = 4 if implementation in ("c-libm", "c-own", "jit") else 28
    seconds = ms / 1e3
    given = {"spread_s": 0.01 * seconds, "bytes_per_s": arrays * 4 * N / seconds, "fraction_of_limit": share}
    return replace(Measured(implementation, threads, N, "f32", seconds), **(given | more))  # type: ignore[arg-type]


def measured(program: str, *rows: Measured) -> set[str]:
    return keys(measured_remarks(rows, graph(program)))


# ── one switch a test ──


def test_a_chain_is_told_from_a_wide_graph() -> None:
    assert "graph_is_a_chain" in of(explain(GELU))
    wide = of(explain("; ".join(f"y{i} = a{i}*b{i}" for i in range(16))))
    assert "graph_is_wide" in wide and "graph_is_a_chain" not in wide


def test_a_graph_that_is_neither_chain_nor_wide_is_called_narrow() -> None:
    assert "graph_is_narrow" in of(explain("a = x*2; b = y*3; c = z*4"))
    assert not any(k.startswith("graph_is") for k in of(explain("x + y")))


def test_reductions_limit_the_parallelism_over_elements() -> None:
    assert "parallel_over_elements" in of(explain(GELU))
    found = of(explain(SOFTMAX))
    assert "parallel_over_rows" in found and "parallel_over_elements" not in found


def test_a_value_read_once_is_not_called_most_read() -> None:
    assert "most_read" in of(explain(GELU))
    assert "most_read" not in of(explain("a + b*c"))


def test_memory_compute_and_latency_bounds_have_their_own_words() -> None:
    memory = of(explain(GELU))
    assert {"memory_bound", "epilogue_next", "decode_is_launches"} <= memory
    compute = of(explain(ROOTS))
    assert "compute_bound" in compute and not {"memory_bound", "epilogue_next", "latency_bound"} & compute
    latency = of(explain(GELU, shape=(1, 14336)))
    assert {"latency_bound", "fusion_saves_launches"} <= latency
    assert not {"memory_bound", "epilogue_next", "decode_is_launches"} & latency


def test_an_unknown_peak_is_said_and_not_divided_by() -> None:
    found = of(explain(GELU, device=without_pipes(device("h100-sxm"))))
    assert {"memory_bound_without_peak", "functions_expand"} <= found
    assert not {"memory_bound", "functions_hide_behind_memory", "functions_outweigh_memory"} & found


def test_figures_that_predict_no_time_are_named_and_not_divided_by() -> None:
    sparse, invented = unfit_machines()
    found = of(explain(GELU, device=sparse))
    assert {"memory_bound_by_other_peak", "functions_expand", "epilogue_next"} <= found
    assert not {"memory_bound", "functions_hide_behind_memory"} & found
    found = of(explain(GELU, device=invented))
    assert {"bytes_without_time", "functions_expand"} <= found
    assert not {"memory_bound", "decode_is_launches", "latency_bound", "functions_hide_behind_memory"} & found


def test_the_epilogue_saves_the_largest_input() -> None:
    e = explain("x: bf16[T, D]; b: bf16[D]; out = x + b", sizes={"T": 4096, "D": 14336})
    (found,) = [r for r in traffic_remarks(e) if r.key == "epilogue_next"]
    assert found.values["name"] == "x"
    assert str(found.values["after"]).replace("\u00a0", " ") == "117.5 MB"


def test_a_reduction_is_no_epilogue() -> None:
    assert "epilogue_next" in of(explain("silu(x)"))
    assert "epilogue_next" not in of(explain(SOFTMAX))
    assert "epilogue_next" not in of(explain("sum(x)"))


DROPPED = "x: f32[T, D]; y = log(sum(exp(x), -1, keepdims=False))"


def test_an_axis_that_is_dropped_is_named_where_keeping_it_saves_a_kernel() -> None:
    sizes = {"T": 4096, "D": 1024}
    (found,) = [r for r in traffic_remarks(explain(DROPPED, sizes=sizes)) if r.key == "dropped_axes_cost_kernels"]
    assert dict(found.values) == {"names": ("sum",), "kernels": "1", "before": "2"}
    kept = DROPPED.replace("False", "True")
    meets_a_vector = "x: f32[T, D]; w: f32[T]; y = sum(x, -1, keepdims=False)*w"  # which has no axis to line up with
    nothing_follows = "x: f32[T, D]; y = sum(exp(x), -1, keepdims=False)"
    for program in (kept, meets_a_vector, nothing_follows, DROPPED.replace(", -1", "")):
        assert "dropped_axes_cost_kernels" not in of(explain(program, sizes=sizes))


def test_the_epilogue_finds_an_input_that_is_an_output_in_registers_as_well() -> None:
    e = explain(graph("y = x + b; z = x", "bf16", outputs=["y", "z"]))
    (found,) = [r for r in traffic_remarks(e) if r.key == "epilogue_next"]
    assert str(found.values["share"]).startswith("25")


def test_functions_are_weighed_against_the_bytes() -> None:
    assert "functions_hide_behind_memory" in of(explain("exp(x) + y + z"))
    assert "functions_outweigh_memory" in of(explain("sin(x)*cos(x)*tan(x)*exp(x)*log(x)*tanh(x)*erf(x)"))
    assert not any(k.startswith("functions") for k in of(explain(POLYNOMIAL)))
    assert not any(k.startswith("functions") for k in of(explain("i32(x) // i32(y)")))
    assert "functions_expand" in of(explain("silu(x)", shape=(8,)))


def test_one_instruction_has_nothing_to_fuse_or_plan() -> None:
    found = of(explain("x + y"))
    assert "decode_is_launches" not in found
    assert "fusion_saves_nothing" in found and "reuse_saves_nothing" in found
    assert not {"fusion_saves", "order_saves", "planning_saves_no_traffic", "eager_and_compiled"} & found


def test_what_fusion_saves_is_no_factor_of_one() -> None:
    """A vector beside a matrix is all that does not travel twice: nothing to speak of."""
    found = explain(LITTLE)
    assert "fusion_saves_little" in of(found) and not {"fusion_saves", "fusion_saves_nothing"} & of(found)
    assert "fusion_saves" in of(explain(GELU)) and "fusion_saves_little" not in of(explain(GELU))
    text = " ".join(remark.text("en") for remark in traffic_remarks(found))
    assert "to speak of" in text and "factor of 1," not in text


def test_a_program_at_the_ridge_is_not_a_factor_of_one_below_it() -> None:
    found = of(explain(AT_RIDGE))
    assert "memory_bound_at_ridge" in found and "memory_bound" not in found
    assert "memory_bound" in of(explain(GELU))


def test_planning_and_order_are_credited_only_where_they_save() -> None:
    gelu = of(explain(GELU))
    assert {"reuse_saves", "order_saves", "as_few_as_alive", "planning_saves_no_traffic", "eager_and_compiled"} <= gelu
    assert "order_saves_nothing" in of(explain(POLYNOMIAL))


def test_intermediates_that_fusion_keeps_are_not_called_gone() -> None:
    e = explain("x: f32[T]; y: f32[D]; sum(x) + sum(y)", sizes={"T": 1000, "D": 999})
    assert e.traffic.fused.kernels == 3
    assert "planning_saves_no_traffic" not in of(e)
    assert "planning_saves_no_traffic_here" in of(e)


def test_reuse_of_empty_arrays_is_reuse() -> None:
    e = explain("x: f32[0, 5]; x*2 + 1")
    assert (e.memory.naive_buffers, e.memory.planned_buffers) == (2, 1)
    assert "reuse_saves" in of(e)


def test_a_slow_libm_loop_is_explained_by_its_calls() -> None:
    slow = measured(GELU, row("numpy", 240), row("c-libm", 310))
    assert "libm_loop_is_slower" in slow
    fast = measured(GELU, row("numpy", 240), row("c-libm", 100))
    assert "libm_loop_is_faster" in fast and "libm_loop_is_slower" not in fast
    against_planned = measured(GELU, row("numpy", 240), row("numpy-planned", 60), row("c-libm", 100))
    assert "libm_loop_beats_allocation_only" in against_planned and "libm_loop_is_faster" not in against_planned
    assert "libm_loop_is_as_fast" in measured(GELU, row("numpy", 240), row("c-libm", 243))


def test_a_loop_without_functions_is_not_blamed_on_calls() -> None:
    for ms, key in ((310, "plain_loop_is_slower"), (60, "plain_loop_is_faster"), (241, "plain_loop_is_as_fast")):
        found = measured(POLYNOMIAL, row("numpy", 240), row("c-libm", ms))
        assert key in found and not any(k.startswith("libm") for k in found)


def test_the_called_functions_are_named() -> None:
    (found,) = measured_remarks([row("numpy", 240), row("c-libm", 310)], graph(GELU))
    assert "tanh" in found.text("en")
    assert "sqrt" not in "".join(remarks.called_functions(graph("sqrt(x) + floor(y)")))


CALLS = (
    "square(x) + clip(x, 0, 1)*b", "x + b", "sign(x) + fmax(x, y) + reciprocal(y)", "relu(x) + round(y) + rsqrt(x*x)",
    "sigmoid(x) + silu(y)", "gelu(x)", "gelu_tanh(x)", "tanh(x) + exp(x) + tanh(y)", "x % y", "x // y", "pow(x, y)",
    "softplus(x)", "logaddexp(x, y)",
    "hypot(x, y) + atan2(x, y) + cbrt(x)", "f64(x) + log1p(f64(y))", "bf16(x)*exp2(bf16(y))", "i32(x) // i32(y)",
    "isnan(x) | logical_and(x, y)",
)  # fmt: skip


@pytest.mark.parametrize("program", CALLS)
def test_functions_called_are_those_in_the_libm_c_text(program: str) -> None:
    text = emit_program(graph(program), functions="libm").source
    library = "exp exp2 expm1 log log2 log10 log1p cbrt pow hypot sin cos tan asin acos atan atan2 sinh cosh tanh "
    library += "asinh acosh atanh erf erfc fmod"
    called = set(re.findall(rf"(?<![\w])({'|'.join(library.split())})f?\(", text))
    assert set(remarks.called_functions(graph(program))) == called


def test_reductions_and_deep_programs_name_their_calls() -> None:
    assert remarks.called_functions(graph(SOFTMAX)) == ("exp",)
    assert remarks.called_functions(graph("x" + "*1.5+y" * 3000)) == ()


def test_no_bytes_are_said_to_be_saved_where_none_are() -> None:
    alone = (row("numpy", 240, bytes_per_s=12 * N / 0.24), row("numpy-planned", 150, bytes_per_s=12 * N / 0.15))
    for program, ms, key in (
        ("x + b", 60, "loop_is_faster_at_equal_bytes"),
        ("x + b", 310, "plain_loop_is_slower_at_equal_bytes"),
        ("x + b", 240, "loop_is_as_fast_at_equal_bytes"),
        ("tanh(x)", 310, "libm_loop_is_slower_at_equal_bytes"),
    ):
        rows = (*alone, row("c-libm", ms, bytes_per_s=12 * N / (ms / 1e3)))
        found = measured_remarks(rows, graph(program))
        assert key in keys(found)
        for language, phrase in (("en", "fewer bytes"), ("zh", "1/1")):
            assert not any(phrase in remark.text(language) for remark in found)


def test_functions_are_not_spoken_of_in_a_program_without_any() -> None:
    rows = (row("numpy", 240), row("c-libm", 60), row("c-own", 40))
    assert "own_functions_vectorise" in measured(GELU, *rows)
    for program in ("x + b", "square(x) + clip(x, 0, 1)*b", "x % y"):
        assert not any(key.startswith("own") for key in measured(program, *rows))


def test_planning_that_costs_is_said_to_cost() -> None:
    assert "planned_buffers_cost" in measured(GELU, row("numpy", 1), row("numpy-planned", 1.3))
    assert "planned_buffers_change_little" in measured(GELU, row("numpy", 1), row("numpy-planned", 1.01))
    assert "planned_buffers_help" in measured(GELU, row("numpy", 1), row("numpy-planned", 0.7))


@pytest.mark.parametrize(("ms", "key"), [(55, "threads_cost"), (40, "threads_gain_nothing"), (30, "threads_gain")])
def test_threads_that_do_not_help_are_not_called_faster(ms: float, key: str) -> None:
    found = measured_remarks([row("jit", 40), row("jit", ms, threads=4)], graph(GELU))
    assert key in keys(found)
    assert ("times faster" in " ".join(r.text("en") for r in found)) == (key == "threads_gain")


def test_more_than_a_copy_allows_draws_no_conclusion() -> None:
    found = measured(GELU, row("jit", 1, share=7.74), row("jit", 0.8, threads=2, share=6.0))
    assert {"beyond_the_copy_limit", "threads_gain"} <= found
    assert not {"at_the_copy_limit", "threads_share_memory", "threads_add_little"} & found
    assert "at_the_copy_limit" in measured(GELU, row("jit", 25, share=1.03))


def test_the_share_of_the_copy_limit_decides_what_binds() -> None:
    assert "at_the_copy_limit" in measured(GELU, row("jit", 25, share=0.97))
    assert "below_the_copy_limit" in measured(GELU, row("jit", 50, share=0.5))
    assert not {"at_the_copy_limit", "below_the_copy_limit"} & measured(GELU, row("jit", 25))


def test_threads_that_share_memory_are_told_from_threads_that_scale() -> None:
    one = row("jit", 40, share=0.97)
    assert "threads_scale" in measured(GELU, one, row("jit", 10, threads=4, share=0.9))
    assert "threads_share_memory" in measured(GELU, one, row("jit", 35, threads=4, share=0.98))
    assert "threads_add_little" in measured(GELU, one, row("jit", 35, threads=4, share=0.4))


def test_rows_without_times_are_passed_over() -> None:
    missing = Measured("c-libm", 1, N, "f32", None, note="no C compiler found (CC, cc, gcc, clang)")
    found = measured(GELU, row("numpy", 240), missing, row("numpy-planned", 150))
    assert found == {"planned_buffers_help"}
    assert measured(GELU) == set()


# ── the whole catalogue ──


@pytest.mark.parametrize(
    "rows",
    [
        [row("numpy", 0.0013), row("numpy-planned", 0.0009), row("c-libm", 0.0008), row("jit", 0.0006)],
        [row("numpy", 0.030), row("numpy-planned", 0.040), row("c-libm", 0.1), row("c-own", 0.2)],
        [row("jit", 0.002), row("jit", 0.070, threads=2)],
    ],
)
def test_times_that_are_mostly_calls_are_not_compared(rows: list[Measured]) -> None:
    assert measured(GELU, *rows) == {"calls_dominate"}
    longer = [replace(r, median_s=1e3 * (r.median_s or 0)) for r in rows]
    assert "calls_dominate" not in measured(GELU, *longer)


def unfit_machines() -> tuple[Device, Device]:
    """A machine with a sparse vector peak, and one whose bandwidth is a constant of a model."""
    parts = '[device.pipes.vector]\nf32 = {{ value = "60 TFLOPS"{} }}\n[device.memories.hbm]\nbandwidth = {}\n'
    heads = [f'[[device]]\nname = "{name}"\n' for name in ("sparse-1", "model-1")]
    figures = [(", sparse = true", '"3 TB/s"'), ("", '{ value = "3 TB/s", kind = "model constant" }')]
    text = "format = 1\n" + "".join(h + parts.format(*f) for h, f in zip(heads, figures, strict=True))
    sparse, invented = parse_device_text(text)
    return sparse, invented


def cases() -> Iterator[list[Remark]]:
    for unfit in unfit_machines():
        yield traffic_remarks(explain(GELU, device=unfit))
    yield traffic_remarks(explain(GELU, device="apple-m4-max-32"))
    bare = without_pipes(device("h100-sxm"))
    programs = (
        GELU,
        SOFTMAX,
        POLYNOMIAL,
        SUM,
        ROOTS,
        "x + y",
        "x",
        "sin(x)*cos(x)*tan(x)*exp(x)*log(x)*tanh(x)*erf(x)",
    )
    for program in programs:
        for shape in ((4096, 14336), (1, 14336)):
            for machine in (device("h100-sxm"), bare):
                e = explain(program, shape=shape, device=machine)
                yield [*dataflow_remarks(e), *traffic_remarks(e), *memory_remarks(e)]
    for program in (
        "a = x*2; b = y*3; c = z*4",
        "y = x*x*w; s = sum(y, 0); t = sum(y*s, 1)",
        "; ".join(f"y{i} = a{i}*b{i}" for i in range(16)),
        LITTLE,
        AT_RIDGE,
    ):
        several = explain(program)
        yield [*dataflow_remarks(several), *traffic_remarks(several), *memory_remarks(several)]
    yield traffic_remarks(explain(DROPPED, sizes={"T": 64, "D": 64}))
    for libm in (100, 240, 310):
        for own, planned in ((25, 150), (400, 239), (400, 60)):
            rows = [row("numpy", 240), row("numpy-planned", planned), row("c-libm", libm), row("c-own", own, share=0.9)]
            for program in (GELU, POLYNOMIAL):
                yield measured_remarks(rows, graph(program))
    for ms, share in ((10, 0.95), (35, 0.98), (35, 0.4)):
        yield measured_remarks([row("jit", 40, share=share), row("jit", ms, 4, share)], graph(GELU))
    for ms in (10, 30, 40, 55):
        yield measured_remarks([row("jit", 40, share=1.5), row("jit", ms, 4, 1.5)], graph(GELU))
    for ms in (100, 240, 310):
        for program in ("x + b", "tanh(x)"):
            rows = [row("numpy", 240, bytes_per_s=1.0), row("c-libm", ms, bytes_per_s=240 / ms)]
            yield measured_remarks([*rows, row("numpy-planned", 300)], graph(program))
    yield measured_remarks([row("jit", 40, share=0.5, spread_s=0.02, n=1 << 16)], graph(GELU))
    yield measured_remarks([row("jit", 0.001)], graph(GELU))


@pytest.fixture(scope="module")
def every_remark() -> dict[str, Remark]:
    return {remark.key: remark for found in cases() for remark in found}


def test_every_remark_of_the_catalogue_can_appear(every_remark: dict[str, Remark]) -> None:
    assert set(every_remark) == set(topic_texts("remarks", "en"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_remark_has_words_with_its_figures(every_remark: dict[str, Remark], language: str) -> None:
    for remark in every_remark.values():
        said = remark.text(language)
        assert "{" not in said and "}" not in said
        assert not re.search(r"(?<![\d.,])1 (instructions|kernels|buffers|levels|results|elements|threads)", said)
        assert len(said) > 15
