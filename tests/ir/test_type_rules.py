"""Result dtypes are NumPy's: every operation on every pair of dtypes and beside every kind of literal, asked of
NumPy's own ``resolve_dtypes``; the exceptions are stated here, by name.
"""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from arrays import Array
from fuseline.errors import FuselineError, ShapeError, TypeRuleError, UnknownNameError
from fuseline.ir import TensorType, dtype, make, promote, signature, tensor_type
from fuseline.ir.dtype import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64, DType
from fuseline.ir.dtype import DTYPES as every_dtype
from fuseline.ir.index_map import IndexMap, broadcast_map, identity
from fuseline.ir.node import literal
from fuseline.ir.program import Declaration, Program
from fuseline.ir.size import named
from fuseline.ir.specialise import specialise
from fuseline.ops import OPERATIONS
from programs import DTYPES, ELEMENTWISE

NUMPYS = [dtype(d) for d in DTYPES if d != "bf16"]
UFUNCS = [
    (op, ufunc)
    for op in ELEMENTWISE
    for ufunc in {getattr(np, s) for s in OPERATIONS[op].spellings if isinstance(getattr(np, s, None), np.ufunc)}
]


def numpys_result(ufunc: np.ufunc, operands: list[Any]) -> str | None:
    try:
        return str(ufunc.resolve_dtypes((*operands, *[None] * ufunc.nout))[-1].name)
    except TypeError:
        return None


def ours(op: str, operands: tuple[DType, ...]) -> str | None:
    try:
        return str(signature(op, operands).result.numpy.name)
    except TypeRuleError:
        return None


@pytest.mark.parametrize(("op", "ufunc"), UFUNCS, ids=[f"{op}-{u.__name__}" for op, u in UFUNCS])
def test_every_operation_has_numpys_result_dtype_on_every_combination(op: str, ufunc: np.ufunc) -> None:
    for operands in itertools.product(NUMPYS, repeat=ufunc.nin):
        assert ours(op, operands) == numpys_result(ufunc, [d.numpy for d in operands]), operands


TWO = [(op, u) for op, u in UFUNCS if u.nin == 2]


@pytest.mark.parametrize(("op", "ufunc"), TWO, ids=[f"{op}-{u.__name__}" for op, u in TWO])
def test_a_literal_takes_the_dtype_that_nep_50_gives_it(op: str, ufunc: np.ufunc) -> None:
    x = make("input", (), (("name", "x"),))
    for d, value, side in itertools.product(NUMPYS, (1, 1.5, True), (0, 1)):
        weak: list[Any] = [d.numpy, d.numpy]
        weak[side] = np.dtype(bool) if value is True else type(value)
        operands = [x, x]
        operands[side] = literal(value)
        node = make(op, tuple(operands))
        program = Program("", (Declaration("x"),), (node,), (("out", node),))
        try:
            result = str(specialise(program, {"x": TensorType(d)}).output_nodes[0].dtype.numpy.name)
        except FuselineError:
            result = None
        assert result == numpys_result(ufunc, weak), (d, value, side)


def test_operations_that_are_no_ufunc_of_numpy_are_these() -> None:
    known = {op for op, _ in UFUNCS}
    assert set(ELEMENTWISE) - known == {
        "fma", "clip", "round", "where", "rsqrt", "erf", "erfc", "sigmoid", "softplus", "silu", "gelu", "gelu_tanh",
        "relu",
    }  # fmt: skip


@pytest.mark.parametrize("kinds", list(itertools.product(NUMPYS, repeat=3))[::7])
def test_clip_fma_and_where_promote_as_result_type_does(kinds: tuple[DType, DType, DType]) -> None:
    common = np.result_type(*(d.numpy for d in kinds))
    branches = np.result_type(*(d.numpy for d in kinds[1:]))
    assert signature("clip", kinds).result.numpy == common
    assert signature("where", kinds).result.numpy == branches
    assert ours("fma", kinds) == (None if common == np.bool_ else common.name)


def test_rounding_keeps_integers_and_bool() -> None:
    """`round` of bool is bool, where NumPy gives float16."""
    for d in map(dtype, DTYPES):
        assert signature("round", (d,)).result is d


def test_functions_of_ours_have_the_floating_loop_of_numpys() -> None:
    for op, d in itertools.product(("rsqrt", "erf", "sigmoid", "softplus", "silu", "gelu", "gelu_tanh"), NUMPYS):
        assert ours(op, (d,)) == numpys_result(np.exp, [d.numpy])


def test_bfloat16_promotes_as_ml_dtypes_does() -> None:
    assert promote(BF16, F32) is F32
    assert promote(BF16, I8) is BF16
    assert promote(BF16, BOOL) is BF16
    assert promote(F64, BF16) is F64
    with pytest.raises(TypeRuleError, match=r"bf16.*f16|f16.*bf16"):
        promote(BF16, F16)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("sum", lambda a: np.sum(a)), ("mean", lambda a: np.mean(a)), ("max", lambda a: np.max(a)),
        ("min", lambda a: np.min(a)), ("any", lambda a: np.any(a)), ("all", lambda a: np.all(a)),
    ],
)  # fmt: skip
def test_reductions_have_numpys_result_dtype(op: str, expected: Any) -> None:
    for d in NUMPYS:
        array: Array = np.ones(3, d.numpy)
        assert signature(op, (d,)).result.numpy == np.asarray(expected(array)).dtype


def test_narrow_formats_are_storage() -> None:
    for name in ("f8e4m3", "f8e5m2", "f4e2m1", "i4"):
        with pytest.raises(TypeRuleError):
            signature("add", (dtype(name), dtype(name)))
    assert signature("cast", (dtype("f8e4m3"),), F32).result is F32


def test_bool_arithmetic_is_logical_and_has_no_difference() -> None:
    assert signature("add", (BOOL, BOOL)).result is BOOL
    assert signature("mul", (BOOL, BOOL)).result is BOOL
    for op in ("sub", "neg", "fma"):
        with pytest.raises(TypeRuleError, match="does not accept bool"):
            signature(op, (BOOL,) * OPERATIONS[op].arity)


def test_type_errors_name_the_operation_and_the_dtypes() -> None:
    with pytest.raises(TypeRuleError, match=r"and \(&\) does not accept f32, bool"):
        signature("and", (F32, BOOL))
    with pytest.raises(TypeRuleError, match="add takes 2 operands, not 1"):
        signature("add", (F32,))
    with pytest.raises(TypeRuleError, match="bitcast from f32 to f64"):
        signature("bitcast", (F32,), F64)
    with pytest.raises(UnknownNameError, match="near: "):
        signature("tahn", (F32,))


def test_u64_and_signed_integers_compare_exactly() -> None:
    sig = signature("lt", (U64, I64))
    assert sig.operands == (U64, I64)
    assert sig.result is BOOL


# ── dtypes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dtypes_are_found_by_every_spelling() -> None:
    assert dtype("f32") is dtype("float32") is dtype(np.float32) is dtype(np.dtype(">f4")) is dtype("FP32") is F32
    assert dtype(bool) is dtype("bool_") is BOOL
    assert dtype(float) is F64
    assert dtype(int) is I64
    with pytest.raises(UnknownNameError, match="float32"):
        dtype("flaot32")
    with pytest.raises(TypeRuleError, match="complex128"):
        dtype(np.complex128)


def test_packed_sizes_are_rounded_up_to_bytes() -> None:
    assert dtype("fp4").size_bytes(7) == 4
    assert F64.size_bytes(7) == 56
    assert list(dtype("i4").size_bytes(np.array([1, 2, 3]))) == [1, 1, 2]


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "shapes",
    [((2, 3), (3,)), ((2, 1), (1, 3)), ((0,), (1,)), ((), (4,)), ((5, 1, 2), (3, 1)), ((1,), (1,)), ((0, 3), (3,))],
)
def test_shapes_broadcast_as_in_numpy(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    expected = np.broadcast_shapes(*shapes)
    a, b = (TensorType(F32, s) for s in shapes)
    assert tensor_type("add", [a, b]).shape == expected
    assert tensor_type("where", [TensorType(BOOL, ()), b, a]).shape == expected


def test_a_mismatch_names_both_operands_and_shapes() -> None:
    a, b = TensorType(F32, (2, 3)), TensorType(F32, (4,))
    with pytest.raises(ShapeError, match=r"x of shape \(2,3\) and y of shape \(4\)"):
        tensor_type("add", [a, b], (), ["x", "y"])


def test_named_sizes_equal_only_themselves() -> None:
    t, d = named("T"), named("D")
    assert tensor_type("add", [TensorType(F32, (t, d)), TensorType(F32, (d,))]).shape == (t, d)
    assert tensor_type("add", [TensorType(F32, (t, 1)), TensorType(F32, (1, d))]).shape == (t, d)
    for other in ((t,), (3,)):
        with pytest.raises(ShapeError):
            tensor_type("add", [TensorType(F32, (t, d)), TensorType(F32, other)])


def test_an_unknown_shape_makes_the_result_unknown() -> None:
    assert tensor_type("add", [TensorType(F32), TensorType(F32, (3,))]) == TensorType(F32)
    for axes, keepdims, shape in ((None, False, ()), (None, True, None), ((0,), False, None), ((), False, None)):
        attrs = (("axes", axes), ("keepdims", keepdims))
        assert tensor_type("sum", [TensorType(F32)], attrs) == TensorType(F32, shape)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (), (1, -1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 0, 3)])
def test_reduced_shapes_are_numpys(axis: Any, keepdims: bool, shape: tuple[int, ...]) -> None:
    expected = np.sum(np.ones(shape), axis=axis, keepdims=keepdims).shape
    axes = axis if axis is None or isinstance(axis, tuple) else (axis,)
    attrs = (("axes", axes), ("keepdims", keepdims))
    assert tensor_type("sum", [TensorType(F32, shape)], attrs).shape == expected


def test_bad_axes_are_refused() -> None:
    x = TensorType(F32, (2, 3))
    for axes, says in (((2,), "axis 2"), ((-3,), "axis -3"), ((0, -2), "twice")):
        with pytest.raises(ShapeError, match=says):
            tensor_type("sum", [x], (("axes", axes), ("keepdims", False)))
    with pytest.raises(ShapeError, match="no value"):
        tensor_type("max", [TensorType(I32, (2, 0))], (("axes", (1,)), ("keepdims", False)))
    assert tensor_type("any", [TensorType(U8, (2, 0))], (("axes", (1,)),)).shape == (2,)


def test_index_maps_say_which_loops_an_operand_depends_on() -> None:
    t, d = named("T"), named("D")
    bias = broadcast_map((d,), (t, d))
    assert not bias.depends_on(0)
    assert bias.depends_on(1)
    assert str(bias) == "[i1]"
    assert broadcast_map((1, d), (t, d)).axes[0].loop is None
    assert broadcast_map((t, d), (t, d)) == identity(2)
    assert identity(2) == IndexMap(2, broadcast_map((2, 3), (2, 3)).axes)
    assert str(identity(2).permuted((1, 0))) == "[i1,i0]"
    assert signature("cast", (I8,), F16).result is F16


def test_the_least_exponent_of_a_float_is_that_of_its_smallest_normal_number() -> None:
    for d in every_dtype.values():
        if not d.is_float:
            assert d.least_exponent is None
            continue
        in_numpy = d.numpy if d.numpy_name else ml_dtypes.float4_e2m1fn
        assert d.least_exponent is not None
        assert float(ml_dtypes.finfo(in_numpy).smallest_normal) == 2.0**d.least_exponent
