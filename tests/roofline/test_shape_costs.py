"""Work and bytes of operations, against counting loops written out here."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuseline as fl
from fuseline.cost import shapes
from fuseline.cost.operands import parse_operands
from fuseline.cost.shape_cost import CONVENTIONS
from fuseline.cost.shapes import operation_sizes, shape_cost
from fuseline.errors import ShapeError, UnknownNameError
from operation_sizes import OPERATION_SIZES

small = st.integers(1, 6)


def counted_product(m, n, k):
    """Multiplications and additions of a product, one at a time."""
    return sum(2 for _ in itertools.product(range(m), range(n), range(k)))


@given(small, small, small, small)
def test_a_product_counts_every_multiply_and_add(count, m, n, k):
    flop = counted_product(m, n, k) * count
    for cost in (shapes.batched_gemm(count, m, n, k), shapes.grouped_gemm(count, m, n, k)):
        assert cost.work["matrix"] == (flop, "bf16")
        assert cost.bytes("inputs") == 2 * count * (m * k + n * k)
        assert cost.bytes() == 2 * count * (m * k + n * k + m * n)


def test_the_course_shape_has_the_printed_work():
    cost = shapes.gemm(4096, 7168, 16384, "fp8")
    assert cost.flop == 2 * 4096 * 7168 * 16384
    assert cost.flop / 1117.6e-6 == pytest.approx(861e12, rel=1e-3)


def test_four_bit_elements_are_half_a_byte():
    cost = shapes.gemm(3, 5, 7, "fp4")
    assert cost.bytes("inputs") == (3 * 7 + 5 * 7) / 2
    mixed = shapes.gemm(64, 64, 64, "fp8xfp4->bf16")
    assert mixed.bytes("inputs") == 64 * 64 * 1.5
    assert mixed.work["matrix"][1] == "fp8"


def test_scales_are_four_bytes_for_32_elements():
    cost = shapes.gemm(4096, 32768, 512, "fp8")
    inputs = (4096 + 32768) * 512
    assert cost.bytes("inputs+scales") == inputs * 1.125
    assert cost.bytes("inputs+scales+output") == inputs * 1.125 + 2 * 4096 * 32768
    assert shapes.gemm(2, 2, 2, "bf16").conventions == CONVENTIONS[:2]


@given(small, small)
def test_causal_pairs_are_those_at_or_before_the_query(q, extra):
    kv = q + extra - 1
    pairs = sum(1 for i in range(q) for j in range(kv) if j <= kv - q + i)
    cost = shapes.attention(1, q, kv, 1, head_dim=1)
    assert cost.work["matrix"][0] == 4 * pairs
    full = shapes.attention(1, q, kv, 1, head_dim=1, causal=False)
    assert full.work["matrix"][0] == 4 * q * kv


def test_prefill_matches_the_textbook_count():
    s, heads, dim = 1000, 32, 128
    cost = shapes.attention_prefill(1, s, heads, head_dim=dim)
    assert cost.work["matrix"][0] == 2 * s * (s + 1) * heads * dim


def test_grouped_heads_read_only_the_kept_keys_and_values():
    cost = shapes.attention_decode(1, 4096, 32, 8, 128, dtype="f16")
    kept = {tensor.name: tensor.size_bytes() for tensor in cost.tensors}
    assert kept["K"] + kept["V"] == 16_777_216
    assert kept["O"] == 8_192


def test_latent_attention_reads_one_cache_for_all_heads():
    cost = shapes.mla_decode(1, 1000, heads=128)
    assert {t.name: t.size_bytes() for t in cost.tensors}["KV"] == 1000 * (512 + 64) * 2
    assert cost.work["matrix"][0] == 2 * 128 * 1000 * (576 + 512)


def test_latent_attention_of_a_prompt_shares_the_rotary_key():
    cost = shapes.mla_prefill(1, 10, heads=2)
    assert cost.work["matrix"][0] == 2 * 2 * 55 * (192 + 128)
    assert {t.name: t.elements for t in cost.tensors}["K"] == 10 * (2 * 128 + 64)


def test_copies_do_no_work_and_integers_count_operations():
    copy = shapes.copy(1000, "f32")
    assert copy.flop == 0 and copy.bytes() == 8000
    assert shapes.elementwise(10, 3, 2, 1, "i32").work["vector"] == (30, "i32")
    assert shapes.elementwise(10, 3, 2, 1, "bf16").work["vector"] == (30, "f32")


def test_row_operations_read_and_write_each_element_once():
    assert shapes.softmax(4, 8, "f32").bytes() == 2 * 4 * 32
    assert shapes.norm(4, 8, "f32").bytes() == 2 * 4 * 32 + 32
    assert shapes.norm(4, 8, "f32", "layer").work["vector"][0] == 7 * 32
    assert shapes.reduction(100, 4, "f64").bytes() == 800 + 32
    assert shapes.moe_ffn(10, 4, 8, experts=3, topk=2, shared=1).work["matrix"][0] == 10 * 3 * 3 * counted_product(
        1, 4, 8
    )


@pytest.mark.parametrize("tokens", [1, 2, 7, 512])
def test_the_least_bytes_of_experts_are_those_of_the_best_routing(tokens):
    """Counted from routings themselves: every token the same choice, and evenly drawn choices beside the expected."""
    experts, topk, shared, one = 16, 4, 2, 3 * 8 * 16
    cost = shapes.moe_ffn(tokens, 8, 16, experts, topk, shared, dtype="fp8")
    weights = next(tensor for tensor in cost.tensors if tensor.name == "weights")
    same = {expert for _ in range(tokens) for expert in range(topk)}
    assert weights.size_bytes() == (len(same) + shared) * one
    rng = np.random.default_rng(1)
    drawn = [len({e for _ in range(tokens) for e in rng.choice(experts, topk, replace=False)}) for _ in range(200)]
    assert weights.size_bytes(expected=True) == pytest.approx((np.mean(drawn) + shared) * one, rel=0.03)
    assert weights.size_bytes() <= weights.size_bytes(expected=True) * (1 + 1e-12)


def test_no_routing_beats_the_limit_of_experts():
    sizes = {"tokens": 1, "hidden": 7168, "intermediate": 2048, "experts": 256, "topk": 8, "shared": 1}
    found = fl.classify(operation="moe", sizes=sizes, dtype="fp8", device="h200").shapes[0]
    assert found.analysis.bound_time_s == pytest.approx(9 * 3 * 7168 * 2048 / 4.8e12, rel=1e-3)
    row = fl.classify(operation="moe", sizes=sizes, dtype="fp8", device="h200", latency_us=120).rows[0]
    assert not any(note.code == "impossible-ratio" for note in row.notes) and row.ratio("memory") < 1
    with pytest.raises(ShapeError, match=r"topk \(8\) may not exceed experts \(4\)"):
        shape_cost("moe", **(sizes | {"experts": 4}))
    with pytest.raises(ShapeError, match="may not exceed"):
        shape_cost("moe", **(sizes | {"experts": np.array([256, 4])}))


def test_what_evenly_hit_experts_would_cost_stands_beside_the_limit():
    sizes = {"tokens": 512, "hidden": 7168, "intermediate": 2048, "experts": 256, "topk": 8, "shared": 1}
    shape = fl.classify(operation="moe", sizes=sizes, dtype="fp8", device="h200").shapes[0].to_dict()["shape"]
    assert shape["expected"]["bound"] == "memory" and shape["expected"]["bound_time_s"] > 10 * shape["bound_time_s"]
    row = fl.classify(operation="moe", sizes=sizes, dtype="fp8", device="h200", latency_us=2500).rows[0]
    note = next(note for note in row.notes if note.code == "bound-changes-with-output")
    assert row.bound == "neither" and note.values["bound"] == "memory"
    assert fl.classify(m=128).shapes[0].to_dict()["shape"]["expected"] is None


@pytest.mark.parametrize("operation", [name for name in shapes.OPERATIONS if "causal" in operation_sizes(name)[1]])
def test_a_mask_can_be_asked_for_and_left_out_wherever_queries_meet_positions(operation):
    sizes = OPERATION_SIZES[operation]
    masked, whole = (shape_cost(operation, **sizes, causal=causal) for causal in (True, False))
    default = shape_cost(operation, **sizes)
    assert default.flop == (masked if default.sizes["causal"] else whole).flop
    q = masked.sizes["q_len"]
    kv = masked.sizes.get("kv_len", q)
    assert masked.flop * q * kv == whole.flop * (q * kv - q * (q - 1) // 2)
    assert shape_cost(operation, **sizes, causal=False).sizes["causal"] is False
    with pytest.raises(ShapeError, match="causal is true or false, not 3"):
        shape_cost(operation, **sizes, causal=3)


def test_every_attention_has_the_choice_of_a_mask():
    having = {name for name in shapes.OPERATIONS if "causal" in operation_sizes(name)[1]}
    assert having == {name for name in shapes.OPERATIONS if name.startswith(("attention", "mla", "mqa"))}


def test_every_operation_is_in_the_array_cases():
    assert OPERATION_SIZES.keys() == shapes.OPERATIONS.keys()


@pytest.mark.parametrize("operation", OPERATION_SIZES)
def test_arrays_of_sizes_give_what_each_size_gives(operation):
    sizes = OPERATION_SIZES[operation]
    name = next(iter(sizes))
    values = np.array([sizes[name], sizes[name] * 2, sizes[name] * 1000])
    if operation == "attention":
        name, values = "kv_len", np.array([7, 8, 9000])
    together = shape_cost(operation, **(sizes | {name: values}))
    for index, value in enumerate(values):
        alone = shape_cost(operation, **(sizes | {name: int(value)}))
        for convention in alone.conventions:
            assert np.broadcast_to(together.bytes(convention), values.shape)[index] == alone.bytes(convention)
        assert np.broadcast_to(together.flop, values.shape)[index] == alone.flop


@pytest.mark.parametrize(
    ("operation", "sizes", "error"),
    [
        ("gemm", {"m": 0, "n": 1, "k": 1}, ShapeError),
        ("gemm", {"m": -5, "n": 1, "k": 1}, ShapeError),
        ("gemm", {"m": 1.5, "n": 1, "k": 1}, ShapeError),
        ("gemm", {"m": True, "n": 1, "k": 1}, ShapeError),
        ("gemm", {"m": [1, float("nan")], "n": 1, "k": 1}, ShapeError),
        ("gemm", {"m": 1, "n": 1}, ShapeError),
        ("gemm", {"m": 1, "n": 1, "k": 1, "q": 1}, UnknownNameError),
        ("gemm", {"m": 1, "n": 1, "k": 1, "dtype": "fp9"}, UnknownNameError),
        ("gem", {"m": 1}, UnknownNameError),
        ("attention", {"batch": 1, "q_len": 9, "kv_len": 5, "heads": 1}, ShapeError),
        ("attention-decode", {"batch": 1, "kv_len": 5, "heads": 3, "kv_heads": 2}, ShapeError),
        ("norm", {"rows": 1, "columns": 1, "kind": "batch"}, UnknownNameError),
    ],
)
def test_bad_sizes_and_names_are_refused(operation, sizes, error):
    with pytest.raises(error):
        shape_cost(operation, **sizes)


def test_conventions_are_named():
    with pytest.raises(UnknownNameError, match="convention"):
        shapes.gemm(1, 1, 1).bytes("outputs")


def test_operand_types_are_read_as_people_write_them():
    assert str(parse_operands("FP8xFP4->BF16")) == "fp8xfp4"
    assert (parse_operands("bf16xf32->f32").a, parse_operands("bf16xf32->f32").out) == ("bf16", "f32")
    assert parse_operands("int8").out == "i32" and parse_operands("fp8").out == "bf16"
    assert parse_operands("fp8->f32").out == "f32"
    for bad in ("", "x", "fp8x", "fp8xfp4->", "fp8->q", "fp8 fp8"):
        with pytest.raises(UnknownNameError):
            parse_operands(bad)
