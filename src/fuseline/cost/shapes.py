"""Work and bytes of whole operations from their sizes: one rule an operation, for one shape or for arrays of shapes.

Sizes are integers (then results are exact) or NumPy arrays of them (then results are float64 arrays, a million shapes
at once). Work is counted as textbooks do, a multiply-add as two; bytes follow a named convention, since sources differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from fuseline.cost.operands import OperandTypes, parse_operands
from fuseline.cost.shape_cost import ShapeCost, Sizes, Tensor
from fuseline.errors import ShapeError, UnknownNameError, nearest, shown_number
from fuseline.machine.dtypes import BITS, INTEGERS, canonical_dtype

DEFAULT_SCALES = "block-32"
SCALE_LAYOUTS: dict[str, tuple[float, float]] = {
    "block-32": (4 / 32, 4 / 32),
    "block-128": (4 / 128, 4 / (128 * 128)),
    "packed-32": (1 / 32, 1 / 32),
}
"""Bytes of scales an element of the left and of the right operand, by layout.

``block-32``: a float32 scale for every 32 elements (DeepGEMM-Ascend's tables). ``block-128``: float32 scales, one for
1x128 elements on the left and one for 128x128 on the right (DeepGEMM on Hopper, its README). ``packed-32``: one byte
(UE8M0) for every 32 elements (the OCP microscaling formats; DeepGEMM on Blackwell, tests/test_mega_moe.py @057ca59).
"""

VECTOR_OPERATIONS = frozenset({"norm", "softmax", "reduction", "copy", "elementwise", "formula"})
"""Operations whose arithmetic, if any, runs on the vector pipe."""


MAX_SIZE = 2**128
"""Products of several such sizes are still floats."""


def _sizes(least: int = 1, **given: Any) -> dict[str, Sizes]:
    """Sizes checked and normalised: whole, at least ``least``."""
    checked: dict[str, Sizes] = {}
    for name, value in given.items():
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if value < least:
                raise ShapeError(f"{name} must be at least {least}, not {shown_number(value)}")
            if value > MAX_SIZE:
                raise ShapeError(f"{name} may be at most 2**128, not {shown_number(value)}")
            checked[name] = int(value)
            continue
        array = np.asarray(value)
        if array.dtype.kind not in "iuf":
            raise ShapeError(f"{name} must be a whole number or an array of them, not {value!r}")
        sizes = array.astype(np.float64)
        if not np.all(np.isfinite(sizes)) or np.any(sizes < least) or np.any(sizes != np.floor(sizes)):
            raise ShapeError(f"every {name} must be a whole number of at least {least}")
        checked[name] = sizes
    arrays = {name: np.shape(size) for name, size in checked.items() if not isinstance(size, int)}
    if len(arrays) < 2:
        return checked
    try:
        np.broadcast_shapes(*arrays.values())
    except ValueError as error:
        listed = ", ".join(f"{name} {'x'.join(map(str, shape)) or 'one'}" for name, shape in arrays.items())
        raise ShapeError(f"arrays of sizes must have one length; found {listed}") from error
    return checked


def vector_dtype(dtype: str) -> str:
    """The format in which elementwise arithmetic on ``dtype`` runs: floats of 16 bits and fewer are storage for f32."""
    return dtype if dtype in INTEGERS or BITS[dtype] >= 32 else "f32"


def _scales(types: OperandTypes, layout: str) -> tuple[float, float]:
    """Bytes of scales an element of both operands: none for formats that come without."""
    if not isinstance(layout, str) or layout not in SCALE_LAYOUTS:
        raise UnknownNameError(f"unknown layout of scales {layout!r}; use one of {', '.join(SCALE_LAYOUTS)}")
    left, right = (
        each if BITS[dtype] <= 8 and dtype not in INTEGERS else 0.0
        for dtype, each in zip((types.a, types.b), SCALE_LAYOUTS[layout], strict=True)
    )
    return left, right


def gemm(m: Any, n: Any, k: Any, dtype: str = "bf16", batch: Any = 1, scales: str = DEFAULT_SCALES) -> ShapeCost:
    """``D[m,n] = A[m,k] @ B[k,n]``, ``batch`` times with operands of its own each: 2·m·n·k FLOP a product."""
    size = _sizes(m=m, n=n, k=k, batch=batch)
    name = "gemm" if isinstance(batch, int) and batch == 1 else "batched-gemm"
    return _product(name, size, size["batch"], dtype, scales)


def batched_gemm(batch: Any, m: Any, n: Any, k: Any, dtype: str = "bf16", scales: str = DEFAULT_SCALES) -> ShapeCost:
    """``batch`` products ``A[m,k] @ B[k,n]`` with operands of their own."""
    return _product("batched-gemm", size := _sizes(m=m, n=n, k=k, batch=batch), size["batch"], dtype, scales)


def grouped_gemm(groups: Any, m: Any, n: Any, k: Any, dtype: str = "bf16", scales: str = DEFAULT_SCALES) -> ShapeCost:
    """``groups`` experts, ``m`` rows each (the average where they differ), each with its own ``B[k,n]``."""
    return _product("grouped-gemm", size := _sizes(m=m, n=n, k=k, groups=groups), size["groups"], dtype, scales)


def _product(operation: str, size: dict[str, Sizes], count: Sizes, dtype: str, scales: str) -> ShapeCost:
    types = parse_operands(dtype)
    left, right = _scales(types, scales)
    m, n, k = size["m"], size["n"], size["k"]
    tensors = (
        Tensor("A", count * m * k, types.a, scale_bytes=left),
        Tensor("B", count * k * n, types.b, scale_bytes=right),
        Tensor("D", count * m * n, types.out, output=True),
    )
    work = {"matrix": (2 * count * m * n * k, types.compute)}
    return ShapeCost(operation, size, work, tensors, str(types), scales)


def attention(
    batch: Any,
    q_len: Any,
    kv_len: Any,
    heads: Any,
    kv_heads: Any | None = None,
    head_dim: Any = 128,
    v_dim: Any | None = None,
    causal: bool = True,
    dtype: str = "bf16",
) -> ShapeCost:
    """Fused attention with grouped key-value heads: the scores never reach memory.

    Two products a pair of query and position on the matrix pipe, and scale, maximum, subtraction, exponential and sum a
    pair on the vector pipe.
    """
    size = _sizes(
        batch=batch,
        q_len=q_len,
        kv_len=kv_len,
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=head_dim,
        v_dim=head_dim if v_dim is None else v_dim,
    )
    if np.any(np.asarray(size["heads"]) % np.asarray(size["kv_heads"])):
        raise ShapeError(f"heads ({heads}) must be a multiple of kv_heads ({kv_heads})")
    types = parse_operands(dtype)
    b, q, kv = size["batch"], size["q_len"], size["kv_len"]
    scores = b * size["heads"] * _pairs(q, kv, causal)
    work = {
        "matrix": (2 * scores * (size["head_dim"] + size["v_dim"]), types.compute),
        "vector": (5 * scores, "f32"),
    }
    tensors = (
        Tensor("Q", b * size["heads"] * q * size["head_dim"], types.a),
        Tensor("K", b * size["kv_heads"] * kv * size["head_dim"], types.b),
        Tensor("V", b * size["kv_heads"] * kv * size["v_dim"], types.b),
        Tensor("O", b * size["heads"] * q * size["v_dim"], types.out, output=True),
    )
    return ShapeCost("attention", size | {"causal": causal}, work, tensors, str(types))


def _pairs(q: Sizes, kv: Sizes, causal: bool) -> Sizes:
    """Pairs of a query and a position that it sees: all, or where ``causal`` those up to its own.

    Causal queries are the last ``q`` of ``kv`` positions, so ``q·kv - q(q-1)/2`` pairs remain.
    """
    if not isinstance(causal, (bool, np.bool_)):
        raise ShapeError(f"causal is true or false, not {causal!r}")
    if not causal:
        return q * kv
    if np.any(np.asarray(q) > np.asarray(kv)):
        raise ShapeError(f"causal attention needs q_len <= kv_len, not {q} > {kv}")
    half = q * (q - 1)
    return q * kv - (half // 2 if isinstance(half, int) else half / 2)


def attention_prefill(
    batch: Any,
    q_len: Any,
    heads: Any,
    kv_heads: Any | None = None,
    head_dim: Any = 128,
    causal: bool = True,
    dtype: str = "bf16",
) -> ShapeCost:
    """Attention of a whole prompt over itself, each token over those up to it unless ``causal`` is false."""
    found = attention(batch, q_len, q_len, heads, kv_heads, head_dim, causal=causal, dtype=dtype)
    return replace(found, operation="attention-prefill")


def attention_decode(
    batch: Any,
    kv_len: Any,
    heads: Any,
    kv_heads: Any | None = None,
    head_dim: Any = 128,
    q_len: Any = 1,
    causal: bool = False,
    dtype: str = "bf16",
) -> ShapeCost:
    """One new token (or ``q_len`` speculative ones) a sequence against a cache of ``kv_len`` positions."""
    found = attention(batch, q_len, kv_len, heads, kv_heads, head_dim, causal=causal, dtype=dtype)
    return replace(found, operation="attention-decode")


def mla_prefill(
    batch: Any,
    q_len: Any,
    heads: Any = 128,
    nope_dim: Any = 128,
    rope_dim: Any = 64,
    v_dim: Any = 128,
    causal: bool = True,
    dtype: str = "bf16",
) -> ShapeCost:
    """Multi-head latent attention of a prompt over itself, with keys and values expanded to every head.

    The rotary part of the key is one for all heads (DeepSeek-V2, arXiv:2405.04434, section 2.1).
    """
    size = _sizes(batch=batch, q_len=q_len, heads=heads, nope_dim=nope_dim, rope_dim=rope_dim, v_dim=v_dim)
    types = parse_operands(dtype)
    key = size["nope_dim"] + size["rope_dim"]
    rows = size["batch"] * size["q_len"]
    scores = size["batch"] * size["heads"] * _pairs(size["q_len"], size["q_len"], causal)
    work = {"matrix": (2 * scores * (key + size["v_dim"]), types.compute), "vector": (5 * scores, "f32")}
    tensors = (
        Tensor("Q", rows * size["heads"] * key, types.a),
        Tensor("K", rows * (size["heads"] * size["nope_dim"] + size["rope_dim"]), types.b),
        Tensor("V", rows * size["heads"] * size["v_dim"], types.b),
        Tensor("O", rows * size["heads"] * size["v_dim"], types.out, output=True),
    )
    return ShapeCost("mla-prefill", size | {"causal": causal}, work, tensors, str(types))


def mla_decode(
    batch: Any,
    kv_len: Any,
    heads: Any = 128,
    latent_dim: Any = 512,
    rope_dim: Any = 64,
    q_len: Any = 1,
    causal: bool = False,
    dtype: str = "bf16",
) -> ShapeCost:
    """Multi-head latent attention, absorbed form: all heads read one cache of ``latent_dim + rope_dim`` a position.

    The values are the latent part of the same cache, so it is read once (DeepSeek-V2, arXiv:2405.04434, section 2.1).
    """
    size = _sizes(batch=batch, q_len=q_len, kv_len=kv_len, heads=heads, latent_dim=latent_dim, rope_dim=rope_dim)
    types = parse_operands(dtype)
    key = size["latent_dim"] + size["rope_dim"]
    rows = size["batch"] * size["q_len"] * size["heads"]
    scores = size["batch"] * size["heads"] * _pairs(size["q_len"], size["kv_len"], causal)
    work = {"matrix": (2 * scores * (key + size["latent_dim"]), types.compute), "vector": (5 * scores, "f32")}
    tensors = (
        Tensor("Q", rows * key, types.a),
        Tensor("KV", size["batch"] * size["kv_len"] * key, types.b),
        Tensor("O", rows * size["latent_dim"], types.out, output=True),
    )
    return ShapeCost("mla-decode", size | {"causal": causal}, work, tensors, str(types))


def mqa_logits(
    q_len: Any, kv_len: Any, heads: Any = 32, head_dim: Any = 128, causal: bool = False, dtype: str = "fp8->bf16"
) -> ShapeCost:
    """Index logits of sparse attention: for each query and position a weighted sum over heads of relu(q·k).

    Of ``q_len × kv_len`` pairs all are counted unless ``causal``: 2·heads·dim FLOP a pair on the matrix pipe, three
    operations a score (relu, weight, sum) on the vector pipe.
    """
    size = _sizes(q_len=q_len, kv_len=kv_len, heads=heads, head_dim=head_dim)
    types = parse_operands(dtype)
    q, kv, h, d = size["q_len"], size["kv_len"], size["heads"], size["head_dim"]
    pairs = _pairs(q, kv, causal)
    work = {"matrix": (2 * pairs * h * d, types.compute), "vector": (3 * pairs * h, "f32")}
    tensors = (
        Tensor("Q", q * h * d, types.a),
        Tensor("K", kv * d, types.b),
        Tensor("weights", q * h, "f32"),
        Tensor("K scales", kv, "f32"),
        Tensor("logits", pairs, types.out, output=True),
    )
    return ShapeCost("mqa-logits", size | {"causal": causal}, work, tensors, str(types))


def moe_ffn(
    tokens: Any,
    hidden: Any,
    intermediate: Any,
    experts: Any,
    topk: Any,
    shared: Any = 0,
    dtype: str = "fp8xfp4->bf16",
    scales: str = DEFAULT_SCALES,
) -> ShapeCost:
    """Gate, up and down products of a mixture of experts: 2·3·tokens·(topk + shared)·hidden·intermediate FLOP.

    Each token chooses ``topk`` different ones of the ``experts`` that the device holds. All may choose the same, so
    bytes count the weights of ``topk`` and the shared ones; expected are those that a uniform choice hits. Tokens in
    and the result out are counted, not the exchange of tokens between devices.
    """
    size = _sizes(tokens=tokens, hidden=hidden, intermediate=intermediate, experts=experts, topk=topk)
    size |= _sizes(0, shared=shared)
    if np.any(np.asarray(size["topk"]) > np.asarray(size["experts"])):
        raise ShapeError(f"a token chooses topk different experts: topk ({topk}) may not exceed experts ({experts})")
    missed = (1 - np.divide(size["topk"], size["experts"])) ** size["tokens"]
    expected: Any = 3 * (size["experts"] * (1 - missed) + size["shared"])
    types = parse_operands(dtype)
    left, right = _scales(types, scales)
    one = size["hidden"] * size["intermediate"]
    active = size["tokens"] * (size["topk"] + size["shared"])
    tensors = (
        Tensor("tokens", size["tokens"] * size["hidden"], types.a, scale_bytes=left),
        Tensor("weights", 3 * (size["topk"] + size["shared"]) * one, types.b, False, right, expected * one),
        Tensor("result", size["tokens"] * size["hidden"], types.out, output=True),
    )
    return ShapeCost("moe", size, {"matrix": (6 * active * one, types.compute)}, tensors, str(types), scales)


def norm(rows: Any, columns: Any, dtype: str = "bf16", kind: str = "rms") -> ShapeCost:
    """RMS or layer normalisation of each row with learned weights, one pass over the input.

    ``rms``: square, sum, scale, weight (4 an element); ``layer``: sum, subtract, square, sum, scale, weight, bias (7).
    """
    per_element = {"rms": 4, "layer": 7}
    if kind not in per_element:
        raise UnknownNameError(f"unknown kind of norm {kind!r}; use rms or layer")
    size = _sizes(rows=rows, columns=columns)
    weights = size["columns"] * (1 if kind == "rms" else 2)
    return _rowwise("norm", size, per_element[kind], dtype, weights)


def softmax(rows: Any, columns: Any, dtype: str = "bf16") -> ShapeCost:
    """Softmax of each row, one pass: maximum, subtract, exponential, sum, divide (5 an element)."""
    return _rowwise("softmax", _sizes(rows=rows, columns=columns), 5, dtype, None)


def _rowwise(operation: str, size: dict[str, Sizes], per_element: int, dtype: str, weights: Sizes | None) -> ShapeCost:
    name = canonical_dtype(dtype)
    elements = size["rows"] * size["columns"]
    extra = () if weights is None else (Tensor("weights", weights, name),)
    tensors = (Tensor("x", elements, name), *extra, Tensor("y", elements, name, output=True))
    return ShapeCost(operation, size, {"vector": (per_element * elements, vector_dtype(name))}, tensors, name)


def reduction(elements: Any, results: Any = 1, dtype: str = "f32") -> ShapeCost:
    """A sum (or maximum, …) of ``elements`` values into ``results``: one operation a value."""
    size = _sizes(elements=elements, results=results)
    name = canonical_dtype(dtype)
    tensors = (Tensor("x", size["elements"], name), Tensor("y", size["results"], name, output=True))
    return ShapeCost("reduction", size, {"vector": (size["elements"], vector_dtype(name))}, tensors, name)


def copy(elements: Any, dtype: str = "f32") -> ShapeCost:
    """A copy, transpose or cast without arithmetic: no work, every element read and written once."""
    size = _sizes(elements=elements)
    name = canonical_dtype(dtype)
    tensors = (Tensor("x", size["elements"], name), Tensor("y", size["elements"], name, output=True))
    return ShapeCost("copy", size, {}, tensors, name)


def elementwise(elements: Any, operations: int = 1, inputs: int = 1, outputs: int = 1, dtype: str = "f32") -> ShapeCost:
    """A fused elementwise kernel: ``operations`` an element, each input read once and each output written once.

    Integer formats count OP on the vector pipe.
    """
    size = _sizes(elements=elements)
    counts = _sizes(0, operations=operations, inputs=inputs, outputs=outputs)
    name = canonical_dtype(dtype)
    work = {"vector": (counts["operations"] * size["elements"], vector_dtype(name))}
    tensors = (
        Tensor("inputs", counts["inputs"] * size["elements"], name),
        Tensor("outputs", counts["outputs"] * size["elements"], name, output=True),
    )
    return ShapeCost("elementwise", size, work, tensors, name)


OPERATIONS: dict[str, Callable[..., ShapeCost]] = {
    "gemm": gemm,
    "grouped-gemm": grouped_gemm,
    "batched-gemm": batched_gemm,
    "attention": attention,
    "attention-prefill": attention_prefill,
    "attention-decode": attention_decode,
    "mla-prefill": mla_prefill,
    "mla-decode": mla_decode,
    "mqa-logits": mqa_logits,
    "moe": moe_ffn,
    "norm": norm,
    "softmax": softmax,
    "reduction": reduction,
    "copy": copy,
    "elementwise": elementwise,
}
"""The rules by the name that people type."""


def operation_name(operation: str) -> str:
    """The name of an operation as ``OPERATIONS`` spells it; unknown names raise ``UnknownNameError``."""
    name = operation.strip().lower().replace("_", "-")
    if name not in OPERATIONS:
        close = nearest(operation, OPERATIONS)
        hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(OPERATIONS)}"
        raise UnknownNameError(f"unknown operation {operation!r}; {hint}")
    return name


@cache
def operation_sizes(operation: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sizes that ``operation`` needs, and all that it takes."""
    needed, known = _parameters(OPERATIONS[operation_name(operation)])
    return needed, tuple(name for name in known if name != "dtype")


@cache
def _parameters(rule: Callable[..., ShapeCost]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sizes that a rule needs, and all that it takes."""
    parameters = inspect.signature(rule).parameters
    needed = tuple(name for name, p in parameters.items() if p.default is inspect.Parameter.empty)
    return needed, tuple(parameters)


def shape_cost(operation: str, **sizes: Any) -> ShapeCost:
    """The cost of ``operation`` at ``sizes``, the parameters of its rule; unknown names raise ``UnknownNameError``."""
    rule = OPERATIONS[operation_name(operation)]
    needed, known = _parameters(rule)
    for name in sizes:
        if name not in known:
            raise UnknownNameError(f"{operation} has no size {name!r}; it takes {', '.join(known)}")
    missing = [name for name in needed if name not in sizes]
    if missing:
        raise ShapeError(f"{operation} needs {', '.join(missing)}")
    return rule(**sizes)
