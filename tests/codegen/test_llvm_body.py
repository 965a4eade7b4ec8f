"""LLVM code computes what the interpreter says, bit for bit, on every target this machine can run."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from arrays import first_difference, random_array, same_bits
from fuseline.codegen.llvm import body, lockstep
from fuseline.codegen.llvm.body import body_text
from fuseline.codegen.llvm.target import target
from fuseline.errors import LimitError, UnknownNameError, UnsupportedError
from fuseline.ir.build import Expr, call, fma, input_node, where
from fuseline.ir.dtype import BF16, F32, F64, DType
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import interpret
from fuseline.runtime import elf, host, iterate, jit
from kernels import loop_of
from primitive_graphs import all_graphs, graph_of, operands

PLAINEST = host.target_names()[0]
ODD_LENGTH = 301
"""Whole vectors and a tail, whatever the number of lanes."""


def assert_matches_the_interpreter(graph: Graph, target_name: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    inputs = {n.attr("name"): random_array(generator, n.dtype, (ODD_LENGTH,)) for n in graph.inputs}
    expected = interpret(graph, inputs)
    chosen = host.host_target() if target_name == "native" else target(target_name)
    found = iterate.run(loop_of(graph, chosen), list(inputs.values()), [None] * len(graph.outputs))
    for (name, value), result in zip(expected.items(), found, strict=True):
        assert same_bits(value, result), f"{target_name} {graph}{name}: {first_difference(value, result)}"


@pytest.mark.parametrize("name", ["native", PLAINEST])
def test_every_primitive_on_every_dtype(name: str) -> None:
    for seed, graph in enumerate(all_graphs()):
        assert_matches_the_interpreter(graph, name, seed)


def test_every_primitive_on_every_dtype_as_long_programs_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_LONG_TEXT_LINES", 0)
    for seed, graph in enumerate(all_graphs()):
        assert_matches_the_interpreter(graph, "native", seed)


@pytest.mark.long
@pytest.mark.parametrize("name", ["native", *host.target_names()])
def test_every_primitive_on_every_pair_of_dtypes(name: str) -> None:
    for seed, graph in enumerate(all_graphs(mixed=True)):
        assert_matches_the_interpreter(graph, name, seed)


def horner(x: Expr, terms: int) -> Expr:
    y = x * 0.3
    for term in range(terms):
        y = (y + 0.1 * term) * x
    return y


@pytest.mark.parametrize("dtype", [F32, F64])
def test_a_long_chain_in_all_registers_at_once_keeps_its_bits(dtype: DType) -> None:
    x, y = operands(dtype, dtype)
    chains = [graph_of([x], [horner(x, 9)]), graph_of([x, y], [-(horner(x, 5) / y) * y])]
    for graph in chains:
        assert lockstep.is_chain(graph, graph.nodes)
        for seed, name in enumerate(["native", *host.target_names()]):
            assert_matches_the_interpreter(graph, name, seed)


def test_only_chains_with_few_values_wait_for_all_registers() -> None:
    x, y, z = operands(F32, F32, F32)
    short = graph_of([x], [horner(x, 1)])
    assert not lockstep.is_chain(short, short.nodes)
    wide = graph_of([x, y, z], [horner(x, 5) + horner(y, 5) * horner(z, 5)])
    assert not lockstep.is_chain(wide, wide.nodes)


def polynomial_graph() -> Graph:
    (x,) = operands(F32)
    y = fma(fma(x, x, 0.3), x * 1.7, -x)
    return graph_of([x], [where(y > 0.5, y / (x * x + 1.0), call("floor", y)), call("maximum", x, -x)])


def test_the_same_element_gives_the_same_bits_at_every_length_offset_and_target() -> None:
    generator = np.random.default_rng(7)
    graph = polynomial_graph()
    x = random_array(generator, F32, (140,))
    whole = interpret(graph, {"x": x})
    for name in ("native", *host.target_names()):
        loop = loop_of(graph, host.host_target() if name == "native" else target(name))
        for n in range(71):
            for start in (0, 1, 5):
                found = iterate.run(loop, [x[start : start + n]], [None, None])
                for expected, result in zip(whole.values(), found, strict=True):
                    assert same_bits(expected[start : start + n], result), (name, n, start)


def test_a_product_and_a_sum_of_the_program_are_not_contracted() -> None:
    x, y, z = operands(F32, F32, F32)
    one = np.float32(1 + 2.0**-12)
    loop = loop_of(graph_of([x, y, z], [x * y + z, fma(x, y, z)]))
    separate, fused = iterate.run(loop, [np.full(40, v, np.float32) for v in (one, one, -(one * one))], [None, None])
    assert np.all(separate == 0) and np.all(fused == np.float32(2.0**-24))


def test_a_fused_product_never_overflows_before_it_meets_an_infinity() -> None:
    x, y, z = operands(F64, F64, F64)
    graph = graph_of([x, y, z], [fma(x, y, z)])
    values = [np.full(9, v) for v in (1.7976931348623157e308, 14.0, -np.inf)]
    (found,) = iterate.run(loop_of(graph), values, [None])
    expected = interpret(graph, dict(zip("xyz", values, strict=True)))["r0"]
    assert np.all(found == -np.inf) and np.all(expected == -np.inf)


def test_the_text_names_what_it_is_and_parses_for_every_target() -> None:
    for name in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"):
        text = body_text(polynomial_graph(), target(name)).text
        assert "define void @body(ptr %operands, ptr %increments, i64 %vectors, i64 %flags)" in text
        image = jit.compile_text(text, target(name))
        assert set(image.exports) == {"body", "lanes"}


def test_tables_and_conversions_link_on_the_architecture_this_machine_does_not_have() -> None:
    for name in ("aarch64", "x86-64-v4"):
        for graph in all_graphs():
            image = jit.compile_text(body_text(graph, target(name)).text, target(name))
            assert isinstance(image, elf.Image)


def test_assembly_is_text_of_the_target() -> None:
    text = body_text(polynomial_graph(), target("x86-64-v3")).text
    assert "vfmadd" in jit.assembly(text, target("x86-64-v3"))
    assert "fmla" in jit.assembly(body_text(polynomial_graph(), target("aarch64")).text, target("aarch64"))


def test_reductions_and_unknown_targets_are_refused_by_name() -> None:
    (x,) = operands(F32)
    with pytest.raises(UnsupportedError, match="sum"):
        body_text(graph_of([x], [call("sum", x, axes=None)]), target("x86-64"))
    with pytest.raises(UnknownNameError, match="x86-64-v3"):
        target("x86-64-v33")


def test_an_output_may_be_an_input_or_a_number() -> None:
    x, y = operands(F32, F32)
    loop = loop_of(graph_of([x, y], [y, x.like(2.5)]))
    a, b = np.arange(50, dtype=np.float32), np.arange(50, dtype=np.float32) * 3
    first, second = iterate.run(loop, [a, b], [None, None])
    assert same_bits(first, b) and np.all(second == 2.5)


def test_what_is_too_long_for_llvm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = Expr(input_node("x", F32)), Expr(input_node("y", F32))
    graph = Graph([x.node, y.node], [("out", (x * y + x).node)])
    for limit, what in (("MAX_INSTRUCTIONS", "1 instructions, and this program has 2"), ("MAX_OPERANDS", "1 operands")):
        with monkeypatch.context() as patched:
            patched.setattr(body, limit, 1)
            with pytest.raises(LimitError, match=what):
                body_text(graph, host.host_target())
    body_text(graph, host.host_target())


def test_divisions_that_llvm_takes_apart_count_as_many_lines() -> None:
    line = "  %v = sdiv <8 x i64> %a, %b\n"
    assert jit.is_long(line * 40) and not jit.is_long(line.replace("sdiv", "add") * 40)
    assert not jit.is_long(line)


def test_short_bodies_ask_ahead_only_for_targets_that_want_it() -> None:
    x = Expr(input_node("x", F32))
    short, best = graph_of([x], [x * x + 1]), target("x86-64-v3")
    assert "@llvm.prefetch" not in body_text(short, best).text
    assert "@llvm.prefetch" in body_text(short, replace(best, prefetches_always=True)).text
    long = x
    for _ in range(body._SHORT_BODY):
        long = long * x + 1
    assert "@llvm.prefetch" in body_text(graph_of([x], [long]), best).text


def test_one_operand_is_asked_for_further_ahead_than_several_where_a_target_asks_always() -> None:
    x, y = (Expr(input_node(name, F32)) for name in "xy")
    asking = replace(target("x86-64-v4"), prefetches_always=True)
    distances = {
        min(int(n) for n in re.findall(r"%ahead\d+_0 = getelementptr i8, ptr %p\d+, i64 (\d+)", body_text(g, t).text))
        for g, t in ((graph_of([x], [x * x]), asking), (graph_of([x, y], [x * y]), asking))
    }
    assert distances == {body._PREFETCHED_BYTES, body._PREFETCHED_BYTES_OF_ONE}


def test_bfloat16_is_rounded_by_the_processor_that_can_and_subnormals_are_not_left_to_it() -> None:
    x = Expr(input_node("x", F32))
    graph, best = graph_of([x], [x.cast(BF16)]), target("x86-64-v4")
    assert "cvtneps2bf16" not in jit.assembly(body_text(graph, best).text, best)
    able = replace(best, has_bfloat16_rounding=True, features="+avx512bf16")
    assembly = jit.assembly(body_text(graph, able).text, able)
    assert "vcvtne2ps2bf16" in assembly and "vfpclassps" in assembly and "vpsubd" not in assembly
    x86_flags = host.processor().flags
    assert host.host_target().has_bfloat16_rounding == (
        "avx512_bf16" in x86_flags and host.target_names()[-1] == "x86-64-v4"
    )
