"""Every operand, result and pipe of every operation as their definitions have them, in exact integers of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuseline.cost.operands import parse_operands
from fuseline.cost.shape_cost import CONVENTIONS, ShapeCost
from fuseline.cost.shapes import OPERATIONS, gemm, operation_sizes, shape_cost
from fuseline.errors import ShapeError

whole = st.one_of(st.integers(1, 9), st.integers(1, 10**12))
Definition = tuple[int, int, Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]
"""Work of the matrix pipe, of the vector pipe, and the shapes of operands and results."""


def pairs(q: int, kv: int, causal: bool) -> int:
    """The first of ``q`` queries sees ``kv - q + 1`` positions, each later one a further one."""
    return q * (2 * kv - q + 1) // 2 if causal else q * kv


def product(count: int, m: int, n: int, k: int) -> Definition:
    return 2 * count * m * n * k, 0, {"A": (count, m, k), "B": (count, k, n)}, {"D": (count, m, n)}


def attention(b: int, q: int, kv: int, h: int, kept: int, d: int, v: int, causal: bool) -> Definition:
    scores = b * h * pairs(q, kv, causal)
    operands = {"Q": (b, h, q, d), "K": (b, kept, kv, d), "V": (b, kept, kv, v)}
    return 2 * scores * d + 2 * scores * v, 5 * scores, operands, {"O": (b, h, q, v)}


def mla_prefill(b: int, q: int, h: int, nope: int, rope: int, v: int, causal: bool) -> Definition:
    scores = b * h * pairs(q, q, causal)
    operands = {"Q": (b, q, h, nope + rope), "K": (b, q, h * nope + rope), "V": (b, q, h, v)}
    return 2 * scores * (nope + rope) + 2 * scores * v, 5 * scores, operands, {"O": (b, q, h, v)}


def mla_decode(b: int, kv: int, h: int, latent: int, rope: int, q: int, causal: bool) -> Definition:
    scores = b * h * pairs(q, kv, causal)
    operands = {"Q": (b, q, h, latent + rope), "KV": (b, kv, latent + rope)}
    return 2 * scores * (latent + rope) + 2 * scores * latent, 5 * scores, operands, {"O": (b, q, h, latent)}


def mqa_logits(q: int, kv: int, h: int, d: int, causal: bool) -> Definition:
    seen = pairs(q, kv, causal)
    operands = {"Q": (q, h, d), "K": (kv, d), "weights": (q, h), "K scales": (kv,)}
    return 2 * seen * h * d, 3 * seen * h, operands, {"logits": (seen,)}


def moe(tokens: int, hidden: int, inner: int, experts: int, topk: int, shared: int) -> Definition:
    work = tokens * (topk + shared) * 3 * 2 * hidden * inner  # gate, up and down
    operands = {"tokens": (tokens, hidden), "weights": (topk + shared, 3, hidden, inner)}
    return work, 0, operands, {"result": (tokens, hidden)}


def norm(rows: int, columns: int, kind: str) -> Definition:
    per_element, vectors = {"rms": (4, 1), "layer": (7, 2)}[kind]
    operands = {"x": (rows, columns), "weights": (vectors, columns)}
    return 0, per_element * rows * columns, operands, {"y": (rows, columns)}


DEFINITIONS: dict[str, Callable[..., Definition]] = {
    "gemm": lambda s: product(s["batch"], s["m"], s["n"], s["k"]),
    "batched-gemm": lambda s: product(s["batch"], s["m"], s["n"], s["k"]),
    "grouped-gemm": lambda s: product(s["groups"], s["m"], s["n"], s["k"]),
    "attention": lambda s: attention(
        s["batch"], s["q_len"], s["kv_len"], s["heads"], s["kv_heads"], s["head_dim"], s["v_dim"], s["causal"]
    ),
    "attention-prefill": lambda s: attention(
        s["batch"], s["q_len"], s["q_len"], s["heads"], s["kv_heads"], s["head_dim"], s["head_dim"], s["causal"]
    ),
    "attention-decode": lambda s: attention(
        s["batch"], s["q_len"], s["kv_len"], s["heads"], s["kv_heads"], s["head_dim"], s["head_dim"], s["causal"]
    ),
    "mla-prefill": lambda s: mla_prefill(
        s["batch"], s["q_len"], s["heads"], s["nope_dim"], s["rope_dim"], s["v_dim"], s["causal"]
    ),
    "mla-decode": lambda s: mla_decode(
        s["batch"], s["kv_len"], s["heads"], s["latent_dim"], s["rope_dim"], s["q_len"], s["causal"]
    ),
    "mqa-logits": lambda s: mqa_logits(s["q_len"], s["kv_len"], s["heads"], s["head_dim"], s["causal"]),
    "moe": lambda s: moe(s["tokens"], s["hidden"], s["intermediate"], s["experts"], s["topk"], s["shared"]),
    "norm": lambda s: norm(s["rows"], s["columns"], s["kind"]),
    "softmax": lambda s: (
        0,
        5 * s["rows"] * s["columns"],
        {"x": (s["rows"], s["columns"])},
        {"y": (s["rows"], s["columns"])},
    ),
    "reduction": lambda s: (0, s["elements"], {"x": (s["elements"],)}, {"y": (s["results"],)}),
    "copy": lambda s: (0, 0, {"x": (s["elements"],)}, {"y": (s["elements"],)}),
    "elementwise": lambda s: (
        0,
        s["operations"] * s["elements"],
        {"inputs": (s["inputs"], s["elements"])},
        {"outputs": (s["outputs"], s["elements"])},
    ),
}


def drawn(data: st.DataObject, operation: str) -> dict[str, Any]:
    """Every size that ``operation`` takes."""
    sizes: dict[str, Any] = {}
    for name in operation_sizes(operation)[1]:
        if name == "causal":
            sizes[name] = data.draw(st.booleans())
        elif name == "kind":
            sizes[name] = data.draw(st.sampled_from(("rms", "layer")))
        elif name != "scales":
            sizes[name] = data.draw(whole)
    if "kv_len" in sizes:
        sizes["kv_len"] += sizes["q_len"] - 1
    if "kv_heads" in sizes:
        sizes["heads"] *= sizes["kv_heads"]
    if "topk" in sizes:
        sizes["experts"] += sizes["topk"] - 1
    return sizes


def test_every_operation_is_defined() -> None:
    assert DEFINITIONS.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("operation", DEFINITIONS)
@given(st.data())
def test_operands_results_and_work_are_those_of_the_definition(operation: str, data: st.DataObject) -> None:
    sizes = drawn(data, operation)
    cost = shape_cost(operation, **sizes, dtype="f16")
    matrix, vector, operands, results = DEFINITIONS[operation](sizes)
    assert cost.operation == ("batched-gemm" if operation == "gemm" and sizes["batch"] > 1 else operation)
    expected_work = {"matrix": (matrix, "f16"), "vector": (vector, "f32")}
    assert cost.work == {pipe: amount for pipe, amount in expected_work.items() if pipe in cost.work}
    assert cost.flop == matrix + vector
    assert {t.name: t.elements for t in cost.tensors if not t.output} == {n: prod(s) for n, s in operands.items()}
    assert {t.name: t.elements for t in cost.tensors if t.output} == {n: prod(s) for n, s in results.items()}
    beside = ("weights", "K scales") if operation == "mqa-logits" else ()
    assert all(t.dtype == ("f32" if t.name in beside else "f16") for t in cost.tensors)
    assert_exact(cost)


def assert_exact(cost: ShapeCost) -> None:
    assert all(type(t.elements) is int for t in cost.tensors)
    assert all(type(amount) is int for amount, _ in cost.work.values())
    assert type(cost.bytes()) is int


def test_only_floats_of_8_bits_and_fewer_come_with_scales() -> None:
    for dtype, layered in (("fp8", True), ("fp4", True), ("i8", False), ("i4", False), ("bf16", False), ("f32", False)):
        cost = gemm(64, 64, 64, dtype)
        assert cost.conventions == (CONVENTIONS if layered else CONVENTIONS[:2])
        assert [t.scale_bytes > 0 for t in cost.tensors] == [layered, layered, False]


def test_a_mixed_product_runs_and_is_stored_in_the_wider_format() -> None:
    for text, compute, out in (
        ("bf16xfp8", "bf16", "bf16"),
        ("fp8xbf16", "bf16", "bf16"),
        ("f32xbf16", "f32", "f32"),
        ("bf16xf32", "f32", "f32"),
        ("fp4xfp8", "fp8", "bf16"),
        ("i8xi4", "i8", "i32"),
    ):
        types = parse_operands(text)
        assert (types.compute, types.out) == (compute, out)
        assert gemm(2, 2, 2, text).work == {"matrix": (16, compute)}


def test_every_one_of_many_sizes_is_checked() -> None:
    for bad in ([1, 0], [1.0, 2.5], [1.0, float("inf")], [2, -1]):
        with pytest.raises(ShapeError, match="every m must be a whole number of at least 1"):
            gemm(np.array(bad), 2, 2)
    assert shape_cost("moe", tokens=1, hidden=2, intermediate=2, experts=4, topk=4).work["matrix"][0] == 6 * 4 * 4
    for bad in ({"operations": -1}, {"inputs": -1}, {"outputs": np.array([1, -1])}):
        with pytest.raises(ShapeError, match="at least 0"):
            shape_cost("elementwise", elements=4, **bad)
    assert shape_cost("elementwise", elements=4, operations=0, inputs=0).bytes("inputs") == 0


@pytest.mark.parametrize("operation", DEFINITIONS)
@given(st.data())
def test_many_shapes_of_any_sizes_cost_what_each_costs(operation: str, data: st.DataObject) -> None:
    shapes = [
        {name: min(size, 9) if type(size) is int else size for name, size in drawn(data, operation).items()}
        for _ in range(3)
    ]
    shapes = [consistent(shape) for shape in shapes]
    names = [name for name in shapes[0] if name not in ("causal", "kind") and data.draw(st.booleans())]
    for shape in shapes[1:]:
        shape |= {name: shapes[0][name] for name in shape if name not in names}
    shapes = [shape for shape in shapes if consistent(shape) == shape]
    many = {
        name: np.array([shape[name] for shape in shapes]) if name in names else shapes[0][name] for name in shapes[0]
    }
    together = shape_cost(operation, **many, dtype="f16")
    for index, shape in enumerate(shapes):
        alone = shape_cost(operation, **shape, dtype="f16")
        assert np.broadcast_to(together.flop, len(shapes))[index] == alone.flop
        assert np.broadcast_to(together.bytes(), len(shapes))[index] == alone.bytes()


def consistent(sizes: dict[str, Any]) -> dict[str, Any]:
    """Sizes that an operation takes: small, and those that others bound within their bounds."""
    found = dict(sizes)
    if "kv_len" in found:
        found["kv_len"] = max(found["kv_len"], found["q_len"])
    if "kv_heads" in found:
        found["heads"] = max(found["heads"] // found["kv_heads"], 1) * found["kv_heads"]
    if "topk" in found:
        found["experts"] = max(found["experts"], found["topk"])
    return found
