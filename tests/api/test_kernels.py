"""The public surface of compiled programs: what `compile` and `fuse` give, and how they refuse."""

from __future__ import annotations

import pickle
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from arrays import same_bits
from fuseline.errors import (
    NumberRangeError,
    ShapeError,
    TraceError,
    TypeRuleError,
    UnsupportedError,
    UsageError,
)

COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"
SOFTMAX = "x: f32[T, D]\nm = max(x, -1)\ne = exp(x - m)\ns = sum(e, -1)\ny = e / s"


def normals(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_a_kernel_has_its_names_graph_and_texts():
    k = fl.compile(COURSE)
    assert k.inputs == ("x", "b", "r")
    assert k.outputs == ("out",)
    assert len(k.graph.nodes) == 11
    assert {n.dtype.name for n in k.graph.inputs} == {"f32"}
    assert "np.tanh" in k.emit("numpy")
    assert "out=buffer" in k.emit("numpy-planned")
    assert "#include <math.h>" in k.emit("c")
    assert "define" in k.emit("llvm")
    assert "ret" in k.emit("asm")
    with pytest.raises(fl.UnknownNameError, match="fortran"):
        k.emit("fortran")


def test_integer_programs_are_emitted_in_the_dtype_that_is_named():
    k = fl.compile("(x & 7) << 3")
    assert "int32_t" in k.emit("c", dtype="i32") and "i32" in k.emit("llvm", dtype="i32")
    assert "!m[i]" in fl.compile("~m").emit("c", dtype="bool")
    for refused in (lambda: k.graph, k.emit):
        with pytest.raises(TypeRuleError, match=r'line 1.*\n.*\n.*\n.*emit\(target, dtype="i32"\)'):
            refused()


def test_arguments_by_position_by_name_and_out():
    k = fl.compile(COURSE)
    x, b, r = (normals(100, seed=i) for i in range(3))
    out = np.empty(100, np.float32)
    by_position = k(x, b, r)
    assert same_bits(by_position, k(r=r, x=x, b=b))
    assert k(x, b=b, r=r, out=out) is out
    assert same_bits(by_position, out)


def test_several_outputs_are_a_named_tuple():
    result = fl.compile("s = a + b; d = a - b", name="both")(np.float32([3, 4]), np.float32([1, 2]))
    assert result._fields == ("s", "d")
    assert result.s.tolist() == [4, 6]
    assert result.d.tolist() == [2, 2]


def test_the_ufunc_is_genuine_and_the_same_body():
    k = fl.compile(COURSE)
    assert isinstance(k.ufunc, np.ufunc)
    x, b, r = (normals(1000, seed=i) for i in range(3))
    assert same_bits(k.ufunc(x, b, r), k(x, b, r))
    assert (k.ufunc.nin, k.ufunc.nout) == (3, 1)


def test_a_kernel_agrees_with_the_oracle():
    k = fl.compile("y = x*2.5 - b/3; z = where(x > b, sqrt(abs(x)), floor(b))")
    x, b = normals(333), normals(333, seed=1)
    wanted = fl.evaluate(fl.graph("y = x*2.5 - b/3; z = where(x > b, sqrt(abs(x)), floor(b))"), x=x, b=b)
    given = k(x, b)
    assert same_bits(given.y, wanted["y"])
    assert same_bits(given.z, wanted["z"])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32"])
def test_each_dtype_gets_its_own_specialisation(dtype):
    import ml_dtypes

    d = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = (normals(65) * 10).astype(d)
    assert fl.compile("y = x*x + 1")(x).dtype == d
    assert same_bits(fl.compile("y = x*x + 1")(x), fl.evaluate(fl.graph("y = x*x + 1", fl_name(dtype)), x=x))


def test_a_16_bit_program_is_its_float32_self_rounded_once():
    import ml_dtypes

    x, b, r = (normals(500, seed=i).astype(ml_dtypes.bfloat16) for i in range(3))
    wide = fl.compile(COURSE)(*(a.astype(np.float32) for a in (x, b, r)))
    assert same_bits(fl.compile(COURSE)(x, b, r), wide.astype(ml_dtypes.bfloat16))


def fl_name(dtype: str) -> str:
    return {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32"}[dtype]


def test_a_kernel_pickles_as_its_program_into_another_process(tmp_path):
    k = fl.compile(COURSE, name="gelu")
    x, b, r = (normals(50, seed=i) for i in range(3))
    path = tmp_path / "kernel.pickle"
    path.write_bytes(pickle.dumps((k, x, b, r)))
    np.save(tmp_path / "out.npy", k(x, b, r))
    script = (
        "import pickle, sys, numpy as np; k, x, b, r = pickle.load(open(sys.argv[1], 'rb'))\n"
        "assert k(x, b, r).tobytes() == np.load(sys.argv[2]).tobytes() and k.name == 'gelu'"
    )
    subprocess.run([sys.executable, "-c", script, str(path), str(tmp_path / "out.npy")], check=True)


def test_a_traced_kernel_pickles_without_its_function():
    table = np.float32([1, 2, 3])
    k = fl.fuse(lambda x: x * table + 1)
    copy = pickle.loads(pickle.dumps(k))  # noqa: S301 - our own bytes
    assert copy(np.ones(3, np.float32)).tolist() == [2, 3, 4]


def test_a_very_deep_kernel_pickles():
    k = fl.compile("y = x" + " + 0.5" * 20_000)
    copy = pickle.loads(pickle.dumps(k))  # noqa: S301 - our own bytes
    assert len(copy.program.nodes) == 20_000


def test_fuse_makes_the_kernel_of_the_formula():
    @fl.fuse
    def gelu(x, b, r):
        """Bias, GELU, residual."""
        h = x + b
        return 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h))) + r

    x, b, r = (normals(100, seed=i) for i in range(3))
    assert same_bits(gelu(x, b, r), fl.compile(COURSE)(x, b, r))
    assert gelu.inputs == ("x", "b", "r")
    assert gelu.name == "gelu"
    assert gelu.__doc__ == "Bias, GELU, residual."


def test_fuse_takes_options():
    @fl.fuse(name="other")
    def f(x):
        return x + 1

    assert f.name == "other"


def test_closed_over_arrays_are_operands_not_constants():
    weights = normals(1000)
    k = fl.fuse(lambda x: x * weights)
    x = normals(1000, seed=1)
    assert same_bits(k(x), x * weights)
    assert len(k.graph.nodes) == 1


def test_a_kernel_keeps_no_reference_to_its_callers_arrays():
    k = fl.compile("y = x*2")
    x, out = normals(100), np.empty(100, np.float32)
    refs = [weakref.ref(x), weakref.ref(out)]
    k(x, out=out)
    del x, out
    assert [r() for r in refs] == [None, None]


def test_reductions_run_and_have_no_ufunc():
    k = fl.compile(SOFTMAX)
    y = k(normals(4, 7))
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)
    with pytest.raises(fl.UnsupportedError, match="reduces"):
        k.ufunc
    out = np.empty((4, 7), np.float32)
    assert k(normals(4, 7), out=out) is out
    assert same_bits(out, y)


def test_declared_shapes_and_dtypes_are_checked():
    k = fl.compile("x: f32[T, D]; b: f32[D]; y = x + b")
    assert k(normals(3, 4), normals(4)).shape == (3, 4)
    with pytest.raises(fl.ShapeError, match="size D is 4 in x and 5 in b"):
        k(normals(3, 4), normals(5))
    with pytest.raises(fl.ShapeError, match=r"x is declared \[T, D\]"):
        k(normals(4), normals(4))
    with pytest.raises(fl.TypeRuleError, match="x is declared f32"):
        k(normals(3, 4, dtype="float64"), normals(4))


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ValueError, match=r"x.*\(2, 3\).*b.*\(4,\)"):
        fl.compile("y = x + b")(normals(2, 3), normals(4))


@pytest.mark.parametrize("name", ["out", "where", "dtype", "casting"])
def test_reserved_names_are_refused_as_inputs(name):
    with pytest.raises(fl.FormulaError):
        fl.compile(f"y = {name} + 1")


def test_missing_unknown_and_doubled_arguments_are_named():
    k = fl.compile(COURSE)
    x = normals(3)
    with pytest.raises(TypeError, match="r is missing"):
        k(x, x)
    with pytest.raises(TypeError, match="no input q"):
        k(x, x, x, q=x)
    with pytest.raises(TypeError, match="given twice"):
        k(x, x, x, x=x)


def test_one_kernel_serves_changing_dtypes_and_shapes():
    k = fl.compile("y = x + 1")
    for dtype in ("float32", "float64", "int16", "float32"):
        for shape in ((), (3,), (2, 0), (4, 1, 5)):
            x = np.ones(shape, dtype)
            assert k(x).dtype == np.dtype(dtype)
            assert k(x).shape == shape


def test_a_program_without_inputs_gives_its_number():
    assert fl.compile("y = 2*3.5")() == 7.0


def test_an_output_that_is_an_input_is_a_copy():
    x = normals(10)
    y = fl.compile("y = x")(x)
    assert same_bits(x, y)
    assert not np.shares_memory(x, y)


def test_arrays_of_no_numbers_are_refused_by_name():
    k = fl.compile("y = x + z")
    for value in (np.ones(3, "m8[s]"), np.array(["a"]), np.array([None]), np.ones(2, "M8[D]")):
        with pytest.raises(fl.TypeRuleError, match="the input x has dtype"):
            k(value, 1.0)


@pytest.mark.parametrize(
    "literal", ["relu(3)", "fmax(1, 2)", "sign(-4)", "clip(7, 1, 3)", "fmod(-7, 4)", "maximum(1, 2)"]
)
def test_functions_of_whole_numbers_stay_whole(literal):
    assert fl.compile(f"y = i + {literal}")(np.arange(3, dtype=np.int32)).dtype == np.int32


def test_fmod_of_whole_numbers_takes_the_dividends_sign():
    assert [int(fl.compile(f"fmod({a}, {b})")()) for a, b in ((-7, 4), (7, -4), (-7, -4))] == [-3, 3, -3]


def test_numbers_of_a_stated_dtype_survive_pickling():
    k = fl.fuse(lambda x: x * np.float64(0.1))
    x = normals(5)
    copy = pickle.loads(pickle.dumps(k))  # noqa: S301 - our own bytes
    assert copy(x).dtype == k(x).dtype == np.float64
    assert same_bits(copy(x), k(x))


# ── a kernel inside another program ──────────────────────────────────────────────────────────────────────────────────


def test_a_kernel_in_a_traced_function_is_part_of_its_program() -> None:
    gate = fl.compile("s = sigmoid(x)\nout = x * s * g")

    @fl.fuse
    def layer(a: Any, b: Any) -> Any:
        h = a + b
        y = gate(h, g=b)
        return gate(y, 2.0) - h

    whole = "h = a + b; s = sigmoid(h); y = h * s * b; s1 = sigmoid(y); out = y * s1 * 2.0 - h"
    assert layer.graph.nodes == fl.compile(whole).graph.nodes
    assert list(layer.graph.names.values()) == ["h", "s", "out", "s.1", "out.1", "out.2"]
    a, b = np.linspace(-3, 3, 12).astype(np.float32).reshape(2, 6)
    assert (layer(a, b) == fl.compile(whole)(a, b)).all()


def test_outputs_of_a_kernel_in_a_traced_function_are_a_named_tuple() -> None:
    pair = fl.compile("low = x - d\nhigh = x + d")

    def spread(x: Any) -> Any:
        found = pair(x, d=x)
        return found.high * found.low

    traced = fl.compile(spread)
    assert len(traced.graph.nodes) == 3
    assert traced(np.float64(3)) == 0.0


def test_reducing_and_capturing_kernels_may_stand_in_a_traced_function() -> None:
    scale = np.array([1.0, 2.0, 4.0])
    scaled = fl.fuse(lambda x: x * scale)
    centred = fl.fuse(lambda x: x - np.mean(x, axis=-1, keepdims=True))
    both = fl.compile(lambda x: centred(scaled(x)))
    x = np.arange(6.0).reshape(2, 3)
    assert (both(x) == centred(scaled(x))).all()


def test_a_declared_kernel_or_out_in_a_traced_function_is_refused() -> None:
    declared = fl.compile("x: f32[N]\nout = x + 1")
    with pytest.raises(TraceError, match="declares its input x"):
        fl.compile(lambda a: declared(a))
    plain = fl.compile("x + 1")
    with pytest.raises(TraceError, match="return its result"):
        fl.compile(lambda a: plain(a, out=np.empty(3)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_sign_of_a_nan_is_no_part_of_a_result(dtype: str) -> None:
    x = np.array([np.nan, -np.nan, np.inf, -0.0] * 20, dtype)
    with np.errstate(invalid="ignore"):
        made = np.concatenate([x, x - x, -(x - x)])
    assert np.signbit(made).any() and np.isnan(made[np.signbit(made)]).any()
    k = fl.compile("s = signbit(x); c = copysign(2.0, x); d = copysign(2.0, (x - x)*y)")
    s, c, d = k(made, np.ones_like(made))
    nan = np.isnan(made)
    assert not s[nan].any() and (c[nan] == 2).all()
    assert (s[~nan] == np.signbit(made[~nan])).all()
    assert (c[~nan] == np.copysign(2, made[~nan])).all()
    with np.errstate(invalid="ignore"):
        assert (d[np.isnan(made - made)] == 2).all()


def test_named_results_pickle_and_come_back_as_themselves() -> None:
    pair = fl.compile("s = x + y\nd = x - y", name="pair")
    found = pair(np.arange(3.0), np.ones(3))
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert type(again) is type(found)
    assert again._fields == ("s", "d")
    assert (again.d == found.d).all()


@pytest.mark.parametrize("operand", [np.ones(3, complex), np.ones(3, "longdouble"), np.array(["a"]), [2**70]])
def test_an_operand_that_is_no_number_of_ours_is_named(operand: Any) -> None:
    with pytest.raises(TypeRuleError, match="the input x"):
        fl.compile("x + y")(operand, 1)


def test_a_number_that_no_array_beside_it_can_hold_is_named() -> None:
    for array, number in ((np.ones(3, np.uint8), 300), (np.ones(3, np.uint8), 2**70), (np.ones(3), 10**400)):
        with pytest.raises(NumberRangeError, match=r"the input y: .* does not fit"):
            fl.compile("x + y")(array, number)


def test_declarations_hold_for_arrays_of_other_libraries() -> None:
    pandas = pytest.importorskip("pandas")
    k = fl.compile("x: f64[4]; y: f64[T]; out = x*2 + y")
    good = pandas.Series([1.0, 2.0, 3.0, 4.0])
    assert isinstance(k(good, good), pandas.Series)
    with pytest.raises(ShapeError, match="declared"):
        k(pandas.Series([1.0, 2.0, 3.0]), pandas.Series([1.0, 2.0, 3.0]))
    with pytest.raises(TypeRuleError, match="declared f64"):
        k(good.astype("float32"), good)


def test_a_reduction_refuses_a_mask_and_writes_nothing_before_all_is_right() -> None:
    masked = np.ma.masked_array([1.0, 200.0, 3.0], [0, 1, 0])
    with pytest.raises(UnsupportedError, match="masked array"):
        fl.compile("x - max(x, -1)")(masked)
    assert isinstance(fl.compile("x*2")(masked), np.ma.MaskedArray)
    both = fl.compile("a = x - max(x, -1); b = sum(x)")
    first = np.full(3, 7.0)
    with pytest.raises(ShapeError):
        both(np.arange(3.0), out=(first, np.zeros(7)))
    assert (first == 7).all()
    half = np.zeros(3, np.float32)
    assert fl.compile("x - max(x, -1)")(np.arange(3.0), out=half) is half
    assert half.tolist() == [-2, -1, 0]


def test_inputs_may_be_called_self_and_kernels_only_by_names() -> None:
    k = fl.compile("self*args + named")
    assert k(self=2.0, args=3.0, named=4.0) == 10.0
    assert fl.compile("sum(self)")(self=np.ones(3)) == 3
    for name in ("my kernel", "class", "1st", ""):
        with pytest.raises(UsageError, match="name of a kernel"):
            fl.compile("x + 1", name=name)


def test_an_operand_for_a_parameter_that_kept_its_default_is_told_so():
    k = fl.compile(lambda x, y=2.0: x * y)
    for kernel in (k, pickle.loads(pickle.dumps(k))):  # noqa: S301 - its own
        with pytest.raises(TypeRuleError, match="y kept its default"):
            kernel(normals(3), 5.0)
    with pytest.raises(TypeRuleError, match=r"its inputs are x$"):
        fl.compile("x + 1")(normals(3), 5.0)


@pytest.mark.parametrize("name", ["int4", "float4_e2m1fn"])
def test_arrays_of_dtypes_without_code_are_refused_with_those_that_have(name: str) -> None:
    import ml_dtypes

    array = np.ones(3).astype(getattr(ml_dtypes, name))
    with pytest.raises(TypeRuleError, match=f"the input x has dtype {name}; kernels take bool, .*, f64: convert it"):
        fl.compile("f32(x) + 1")(array)


# ── Python numbers for declared inputs ──


@pytest.mark.parametrize(
    ("text", "given", "same_as"),
    [
        ("x: f32; x + 1", (1.0,), (np.float32(1),)),
        ("x: f32; x + 1", (1,), (np.float32(1),)),
        ("x: f16; y: f64; x*y", (0.1, np.arange(3.0)), (np.float16(0.1), np.arange(3.0))),
        ("x: i8; y: f32; x*y", (100, normals(3)), (np.int8(100), normals(3))),
        ("x: i8; y: i32; x*y", (100, np.arange(3, dtype="i4")), (np.int8(100), np.arange(3, dtype="i4"))),
        ("x: bool; where(x, y, 0)", (True, normals(3)), (np.True_, normals(3))),
        ("x: f32; y + x*s", (1.5, normals(3), 0.1), (np.float32(1.5), normals(3), np.float32(0.1))),
        ("x: f32; y: f32; sum(y) + x", (1.0, normals(3)), (np.float32(1), normals(3))),
    ],
)
def test_a_number_takes_the_dtype_that_its_input_is_declared_with(text: str, given: Any, same_as: Any) -> None:
    k = fl.compile(text)
    named = dict(zip(("x", "y", "s"), given, strict=False))
    for _ in range(3):  # the ways of later calls are others
        assert same_bits(k(**named), fl.compile(text)(**dict(zip(("x", "y", "s"), same_as, strict=False))))


def test_a_number_that_does_not_fit_its_declaration_is_refused():
    k = fl.compile("x: i8; y: f32; x*y")
    with pytest.raises(NumberRangeError, match="the input x: the number 300 does not fit int8"):
        k(300, normals(3))
    with pytest.raises(TypeRuleError, match=r"the input x is declared i8, which the number 1\.5 is not"):
        k(1.5, normals(3))
    with pytest.raises(TypeRuleError, match="declared bool, which the number 1 is not"):
        fl.compile("x: bool; ~x")(1)
