"""Writing conversions out keeps every bit, and leaves nothing that a code generator would have to decide."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from arrays import first_difference, random_array, same_bits, special_values
from fuseline.codegen.legalize import is_subnormal, legalize, subnormal_test_operand
from fuseline.errors import UnsupportedError
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.dtype import BF16, BOOL, DTYPES, F16, F32, F64, I32, I64
from fuseline.ir.graph import Graph
from fuseline.ir.infer import signature
from fuseline.ir.interpret import evaluate_node, interpret
from fuseline.ir.node import Node, const_array
from fuseline.mathlib.formats import is_within
from fuseline.runtime import iterate
from kernels import loop_of
from primitive_graphs import COMPUTED, all_graphs, graph_of, operands


def feeds(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {n.attr("name"): random_array(generator, n.dtype, (300,)) for n in graph.inputs}


@pytest.mark.parametrize("native_half", [False, True])
@pytest.mark.parametrize("mixed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_every_primitive_on_every_dtype_keeps_its_bits(native_half: bool, mixed: bool) -> None:
    for seed, graph in enumerate(all_graphs(mixed=mixed)):
        arrays = feeds(graph, seed)
        expected, found = (interpret(g, arrays) for g in (graph, legalize(graph, native_half=native_half)))
        for name, value in expected.items():
            assert same_bits(value, found[name]), f"{graph}{name}: {first_difference(value, found[name])}"


def test_only_operations_whose_operands_need_no_conversion_remain() -> None:
    for graph in all_graphs():
        for node in legalize(graph).nodes:
            given = tuple(a.dtype for a in node.args)
            if node.op in ("cast", "lookup", "bitcast"):
                continue
            assert signature(node.op, given).operands == given
            assert not any(d in (F16, BF16) for d in given)
            assert (
                node.op in ("and", "or", "xor", "invert", "where", "lt", "le", "gt", "ge", "eq", "ne")
                or BOOL not in given
            )


def undefined(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """Where an instruction of some machine would not give what another gives: for these no operand may be."""
    if node.op == "cast" and operands[0].dtype.kind == "f" and node.dtype.is_integer:
        whole, limits = np.trunc(operands[0].astype(np.longdouble)), np.iinfo(node.dtype.numpy)
        return ~((whole >= limits.min) & (whole <= limits.max))
    if node.op in ("shl", "shr"):
        return (operands[1] < 0) | (operands[1] >= node.dtype.bits)
    if node.op in ("fmod", "quotient") and node.dtype.is_integer:
        wraps = (operands[0] == np.iinfo(node.dtype.numpy).min) & (operands[1] == -1)
        return (operands[1] == 0) | (wraps if node.dtype.kind == "int" else False)
    return np.zeros((), bool)


def crossed(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Beside random operands every special value of the first with every one of the second."""
    arrays = feeds(graph, seed)
    first, second = (special_values(n.dtype.name) for n in (*graph.inputs, *graph.inputs)[:2])
    every = [np.repeat(first, second.size), np.tile(second, first.size), np.repeat(first, second.size)]
    return {name: np.concatenate([a, more]) for (name, a), more in zip(arrays.items(), every, strict=False)}


@pytest.mark.parametrize("native_half", [False, True])
def test_no_instruction_sees_what_machines_disagree_about(native_half: bool) -> None:
    seen: set[str] = set()
    for seed, graph in enumerate(all_graphs()):
        lowered = legalize(graph, native_half=native_half)
        values: dict[Node, np.ndarray] = dict(zip(lowered.inputs, crossed(graph, seed).values(), strict=True))
        for node in lowered.nodes:
            operands = [const_array(a) if a.op == "const" else values[a] for a in node.args]
            with np.errstate(all="ignore"):
                values[node] = evaluate_node(node, operands)
            assert not undefined(node, operands).any(), f"{graph}: {node.op} of {[a.dtype for a in node.args]}"
            seen.add(node.op)
    assert seen >= {"cast", "shl", "shr", "fmod", "quotient"}


def test_sixteen_bit_rounding_agrees_with_numpy_on_every_float16_and_its_neighbours() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = halves.astype(np.float32)
        middle = (exact + np.nextafter(halves, np.float16(np.inf)).astype(np.float32)) / 2
        singles = np.concatenate(
            [
                v
                for x in (exact, middle)
                for v in (x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf)))
            ]
        )
        expected = singles.astype(np.float16)
    (x,) = operands(F32)
    found = interpret(legalize(graph_of([x], [x.cast(F16)])), {"x": singles})["r0"]
    assert same_bits(found, expected)


def test_float64_reaches_sixteen_bits_with_one_rounding() -> None:
    # 1 + 2**-11 lies between two float16 numbers; a float32 in between would turn the bit far below it into a tie.
    value = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, -(1 + 2.0**-11 + 2.0**-40)])
    (x,) = operands(DTYPES["f64"])
    found = interpret(legalize(graph_of([x], [x.cast(F16)])), {"x": value})["r0"]
    assert found.tolist() == value.astype(np.float16).tolist() == [1.0009765625, 1.0, -1.0009765625]


@pytest.mark.parametrize("bits, expected", [
    (0x3E89CCD5, 0x3E8A), (0x7F7FFFFF, 0x7F80), (0x80000000, 0x8000), (0xFF7F8000, 0xFF80), (0x7F800000, 0x7F80),
    (0x00000001, 0x0000), (0x00008001, 0x0001), (0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0xFF800000, 0xFF80),
])  # fmt: skip
def test_bfloat16_rounds_to_nearest_even(bits: int, expected: int) -> None:
    (x,) = operands(F32)
    single = np.array([bits], np.uint32).view(np.float32)
    (found,) = iterate.run(loop_of(graph_of([x], [x.cast(BF16)])), [single], [None])
    assert found.view(np.uint16)[0] == expected


def test_compiled_rounding_to_bfloat16_agrees_with_its_own_library_subnormals_and_zeros_side_by_side() -> None:
    high, low = np.arange(1 << 16, dtype=np.uint32), np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    bits = np.add.outer(high << 16, low).ravel()
    singles = np.concatenate([bits, np.random.default_rng(0).permutation(bits)]).view(np.float32)
    (x,) = operands(F32)
    (found,) = iterate.run(loop_of(graph_of([x], [x.cast(BF16)])), [singles], [None])
    with np.errstate(all="ignore"):
        assert same_bits(found, singles.astype(ml_dtypes.bfloat16))


def test_only_the_question_whether_a_number_is_subnormal_is_known_as_such() -> None:
    x, y = operands(F32)[0], Expr(input_node("y", F64))
    asked = is_subnormal(x)
    assert subnormal_test_operand(asked.node) is x.node
    doubled = x.bitcast(I32) + x.bitcast(I32)
    bits = x.bitcast(I32)
    others = [is_within(doubled, 2, 1 << 23), is_within(doubled, 0, 1 << 24), is_within(bits, 2, 1 << 24), bits < 2]
    others += [is_within(doubled + bits, 2, 1 << 24), is_within(y.bitcast(I64), 2, 1 << 24), x < 1.0]
    assert not [other for other in others if subnormal_test_operand(other.node)]


def test_every_nan_becomes_a_bfloat16_nan() -> None:
    (x,) = operands(F32)
    bits = [s | 0x7F800000 | p for s in (0, 1 << 31) for p in (1, 0x40, 0x7FFF, 0x8000, 0x3F8000, 0x400000, 0x7FFFFF)]
    (found,) = iterate.run(loop_of(graph_of([x], [x.cast(BF16)])), [np.array(bits, np.uint32).view(np.float32)], [None])
    assert np.isnan(found.astype(np.float32)).all()


def test_float_to_integer_is_the_same_everywhere_also_out_of_range() -> None:
    (x,) = operands(F32)
    targets = [DTYPES[n] for n in ("i8", "u8", "i32", "u32", "i64", "u64")]
    values = np.array([-1.5, np.nan, 1e20, -1e20, 3e9, 300.0, -0.9], np.float32)
    found = interpret(legalize(graph_of([x], [x.cast(t) for t in targets])), {"x": values})
    low32, low64 = -(2**31), -(2**63)
    assert found["r0"].tolist() == [-1, 0, 0, 0, 0, 44, 0]
    assert found["r1"].tolist() == [255, 0, 0, 0, 0, 44, 0]
    assert found["r2"].tolist() == [-1, low32, low32, low32, low32, 300, 0]
    assert found["r3"].tolist() == [2**32 - 1, 0, 0, 0, 3_000_000_000, 300, 0]
    assert found["r4"].tolist() == [-1, low64, low64, low64, 3_000_000_000, 300, 0]
    assert found["r5"].tolist() == [2**64 - 1, 2**63, 2**63, 2**63, 3_000_000_000, 300, 0]


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_floats_become_the_integers_that_they_are_up_to_the_ends_of_every_range(source: str, target: str) -> None:
    s, t = DTYPES[source], DTYPES[target]
    edges = np.array(
        [sign * 2.0**k for k in (0, 7, 8, 15, 16, 31, 32, 52, 62, 63, 64, 65) for sign in (1, -1)], s.numpy
    )
    near = [edges, np.nextafter(edges, s.numpy.type(0)), edges * s.numpy.type(1.5), edges + s.numpy.type(0.75)]
    values = np.concatenate([*near, -near[1]])
    (x,) = operands(s)
    graph = graph_of([x], [x.cast(t)])
    (expected,) = interpret(graph, {"x": values}).values()
    (found,) = interpret(legalize(graph), {"x": values}).values()
    assert found.tolist() == expected.tolist()
    limits = np.iinfo(t.numpy)
    for value, result in zip(values.tolist(), found.tolist(), strict=True):
        if limits.min <= int(value) <= limits.max:
            assert result == int(value)


def test_comparisons_of_signed_with_unsigned_integers_are_exact() -> None:
    for a, b in itertools.permutations([DTYPES["i64"], DTYPES["u64"]]):
        x, y = operands(a, b)
        arrays = {"x": special_values(a.name)[:, None], "y": special_values(b.name)[None, :]}
        ops = {"lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "eq": "__eq__", "ne": "__ne__"}
        found = interpret(legalize(graph_of([x, y], [call(op, x, y) for op in ops])), arrays)
        for i, method in enumerate(ops.values()):
            expected = [[getattr(p, method)(q) for q in arrays["y"][0].tolist()] for p in arrays["x"][:, 0].tolist()]
            assert found[f"r{i}"].tolist() == expected


def test_what_cannot_be_compiled_is_refused_by_name() -> None:
    (x,) = operands(F32)
    with pytest.raises(UnsupportedError, match="tanh"):
        legalize(graph_of([x], [call("tanh", x)]))
    for d in ("f8e4m3", "f4e2m1"):
        with pytest.raises(UnsupportedError, match=d):
            legalize(graph_of(operands(DTYPES[d]), []))
        with pytest.raises(UnsupportedError, match=d):
            legalize(graph_of([x], [x.cast(DTYPES[d]).cast(F32)]))
    assert len(COMPUTED) == 13


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32", "u32"])
@pytest.mark.parametrize("op", ["quotient", "fmod"])
def test_integers_divided_as_floats_give_the_quotients_of_integers(op: str, name: str) -> None:
    """Every pair of 8 bits; of more, products and their neighbours, whose quotients are almost integers."""
    d = DTYPES[name]
    low, high = np.iinfo(d.numpy).min, np.iinfo(d.numpy).max
    if d.bits == 8:
        x, y = (a.ravel() for a in np.meshgrid(np.arange(low, high + 1), np.arange(low, high + 1)))
    else:
        generator = np.random.default_rng(0)
        y = generator.integers(1, high, 20_000) >> generator.integers(0, d.bits - 2, 20_000)
        y = np.maximum(y, 1)
        x = generator.integers(0, high // y + 1) * y + generator.integers(-1, 2, y.size)
        x, y = np.concatenate([x, -x, [low, low, high, 0]]), np.concatenate([y, y, [-1, 0, 0, 0]])
    arrays = {"a": x.astype(d.numpy), "b": y.astype(d.numpy)}
    a, b = (Expr(input_node(operand, d)) for operand in "ab")
    graph = graph_of([a, b], [call(op, a, b)])
    (expected,) = interpret(graph, arrays).values()
    found = iterate.run(loop_of(legalize(graph)), list(arrays.values()), [None])[0]
    assert not any(n.op in ("quotient", "fmod") for n in legalize(graph).nodes)
    assert same_bits(expected, found), first_difference(expected, found)
