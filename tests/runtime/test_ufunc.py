"""The ufunc is NumPy's own kind of object: everything that speaks the ufunc protocol works with it."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
import threading
import weakref

import numpy as np
import pytest

from arrays import same_bits
from fuseline.api.kernel import compile
from fuseline.errors import CompilerError, UnsupportedError
from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import F32, F64
from fuseline.ir.graph import Graph
from fuseline.runtime.loop import Body, Loop
from fuseline.runtime.ufunc import make_ufunc
from kernels import loop_of, multiply_add, multiply_add_graph

N = 1001


@pytest.fixture(scope="module")
def axpy() -> np.ufunc:
    return make_ufunc("axpy", "x*b + r", [multiply_add(F32), multiply_add(F64)])


def operands(dtype: str = "f4", n: int = N) -> list[np.ndarray]:
    generator = np.random.default_rng(3)
    return [generator.standard_normal(n).astype(dtype) for _ in range(3)]


def test_it_is_a_ufunc_and_says_what_it_is(axpy: np.ufunc) -> None:
    assert type(axpy) is np.ufunc
    assert (axpy.__name__, axpy.nin, axpy.nout, axpy.types) == ("axpy", 3, 1, ["fff->f", "ddd->d"])
    assert "x*b + r" in (axpy.__doc__ or "")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 15, 16, 17, 63, 70, N])
def test_it_computes_at_every_length(axpy: np.ufunc, dtype: str, n: int) -> None:
    x, b, r = operands(dtype, n)
    assert same_bits(axpy(x, b, r), x * b + r)


def test_out_where_casting_and_broadcasting_are_numpys(axpy: np.ufunc) -> None:
    x, b, r = operands()
    expected = x * b + r
    out = np.full(2 * N, 7, np.float32)
    assert axpy(x, b, r, out=out[::2]) is not out and same_bits(out[::2], expected) and np.all(out[1::2] == 7)
    mask = np.arange(N) % 3 == 0
    kept = np.full(N, 7, np.float32)
    axpy(x, b, r, out=kept, where=mask)
    assert same_bits(kept, np.where(mask, expected, np.float32(7)))
    assert same_bits(axpy(x[:, None], b[:5], 2.0), x[:, None] * b[:5] + np.float32(2))
    assert axpy(x, 2, 3).dtype == np.float32
    assert axpy(x.astype("f8"), b, r).dtype == np.float64
    assert same_bits(axpy(x.astype(">f4"), b, r), expected)
    with pytest.raises(TypeError):
        axpy(x, b, r, out=np.empty(N, np.int32))
    with pytest.raises(ValueError, match="broadcast"):
        axpy(x, b[:5], r)
    assert isinstance(axpy(np.float32(2), 3, 4), np.float32)


def test_overlap_is_as_if_all_inputs_were_read_first(axpy: np.ufunc) -> None:
    memory = operands(n=2000)[0]
    for into, of in (
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None, None, -1), slice(None)),
    ):
        work = memory.copy()
        expected = memory[of] * memory[of] + memory[of]
        axpy(work[of], work[of], work[of], out=work[into])
        assert same_bits(work[into], expected)


def test_reductions_of_a_two_operand_kernel_run_in_order() -> None:
    x, y = (Expr(input_node(n, F64)) for n in "xy")
    loop = loop_of(Graph([x.node, y.node], [("z", (x * 0.5 + y).node)]))
    blend = make_ufunc("blend", "", [loop])
    values = operands("f8", 300)[0]
    expected, history = values[0], [values[0]]
    for v in values[1:]:
        expected = expected * 0.5 + v
        history.append(expected)
    assert blend.reduce(values) == expected
    assert blend.accumulate(values).tolist() == history
    assert blend.reduce(np.tile(values[:, None], 3), axis=0).tolist() == [expected] * 3
    target = np.zeros(4)
    blend.at(target, [1, 1, 2], np.array([1.0, 3.0, 5.0]))
    assert target.tolist() == [0, 3.5, 5, 0]
    assert same_bits(blend.outer(values[:4], values[:3]), values[:4, None] * 0.5 + values[:3])


def test_several_outputs_come_as_a_tuple() -> None:
    x, y = (Expr(input_node(n, F32)) for n in "xy")
    loop = loop_of(Graph([x.node, y.node], [("s", (x + y).node), ("less", (x < y).node)]))
    both = make_ufunc("both", "", [loop])
    a, b, _ = operands()
    total, less = both(a, b)
    assert same_bits(total, a + b) and same_bits(less, a < b)
    given = np.empty(N, np.float32), np.empty(N, bool)
    assert both(a, b, out=given) == given


def test_bfloat16_and_float16_loops_round_once() -> None:
    import ml_dtypes

    k = compile("out = x*y + x")
    generator = np.random.default_rng(0)
    for dtype in (ml_dtypes.bfloat16, np.float16):
        x, y = (generator.standard_normal(N).astype(dtype) for _ in range(2))
        wide, other = x.astype(np.float32), y.astype(np.float32)
        found = k.ufunc(x, y)
        assert same_bits(found, (wide * other + wide).astype(dtype))
        assert same_bits(k(x, y), found)


def test_integer_and_bool_loops_follow_the_program() -> None:
    k = compile("out = (x & y) ^ x")
    for dtype in ("?", "i1", "u2", "i4", "u8"):
        x, y = (np.arange(N).astype(dtype)[::s] for s in (1, -1))
        assert same_bits(k.ufunc(x, y), (x & y) ^ x)
    assert "ff->f" not in k.ufunc.types


def test_more_operands_than_numpy_allows_are_refused_and_the_kernel_itself_runs() -> None:
    names = [f"a{i}" for i in range(70)]
    k = compile("out = " + " + ".join(names))
    with pytest.raises(UnsupportedError, match="64 operands"):
        _ = k.ufunc
    arrays = [np.full(100, i, np.float32) for i in range(70)]
    assert same_bits(k(*arrays), sum(arrays[1:], arrays[0]))


# ── floating-point state ─────────────────────────────────────────────────────────────────────────────────────────────


def test_no_warning_and_no_flag_comes_from_a_loop(axpy: np.ufunc) -> None:
    big = np.full(N, 3e38, np.float32)
    with np.errstate(all="raise"):
        assert np.all(np.isinf(axpy(big, big, big)))
        assert np.all(np.isnan(axpy(np.full(N, np.inf, np.float32), np.zeros(N, np.float32), big)))


def test_the_callers_rounding_mode_and_flags_survive_and_do_not_change_the_bits(axpy: np.ufunc) -> None:
    libm = ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None)
    upward, inexact = (0x800, 0x20) if platform.machine().lower() in ("x86_64", "amd64") else (0x400000, 0x10)
    x, b, r = operands()
    expected = x * b + r
    k = compile("out = x*b + r")
    k(x, b, r)
    before = libm.fegetround()
    try:
        libm.fesetround(upward)
        libm.feclearexcept(0x3F)
        found, called = axpy(x, b, r), k(x, b, r)
        mode, flags = libm.fegetround(), libm.fetestexcept(inexact)
    finally:
        libm.fesetround(before)
    assert (mode, flags) == (upward, 0)
    assert same_bits(found, expected) and same_bits(called, expected)


# ── compiling on demand, and lifetime ────────────────────────────────────────────────────────────────────────────────


def test_only_the_loop_that_is_called_is_compiled() -> None:
    single, double = loop_of(multiply_add_graph(F32)), loop_of(multiply_add_graph(F64))
    ufunc = make_ufunc("lazy", "", [single, double])
    assert not single.is_compiled and not double.is_compiled
    ufunc(*operands("f8"))
    assert not single.is_compiled and double.is_compiled


def test_flags_that_compiling_raises_are_not_taken_for_the_loops() -> None:
    working = multiply_add(F32)

    def compile_body() -> Body:
        with np.errstate(all="ignore"):
            np.float32(np.inf) - np.float32(np.inf)
        libm = ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None)
        libm.feraiseexcept(1)  # FE_INVALID on x86-64 and AArch64
        return working.body()

    ufunc = make_ufunc("fresh", "", [Loop(working.inputs, working.outputs, compile_body)])
    x, b, r = operands()
    with np.errstate(all="raise"):
        assert same_bits(ufunc(x, b, r), x * b + r)


@pytest.mark.parametrize("error", [CompilerError("no such instruction"), KeyboardInterrupt(), MemoryError()])
def test_an_error_while_compiling_is_raised_by_the_call_and_the_next_call_tries_again(error: BaseException) -> None:
    working = multiply_add(F32)
    attempts = []

    def compile_body() -> Body:
        attempts.append(1)
        if len(attempts) == 1:
            raise error
        return working.body()

    loop = Loop(working.inputs, working.outputs, compile_body)
    ufunc = make_ufunc("failing", "", [loop])
    x, b, r = operands()
    with pytest.raises(type(error)) as caught:
        ufunc(x, b, r)
    assert caught.value is error
    assert same_bits(ufunc(x, b, r), x * b + r)


def test_threads_whose_compilations_fail_at_once_each_raise_their_own_error() -> None:
    working = multiply_add(F32)

    def compile_body() -> Body:
        raise CompilerError(f"in thread {threading.get_ident()}")

    ufunc = make_ufunc("failing", "", [Loop(working.inputs, working.outputs, compile_body)])
    x, b, r = operands()
    wrong: list[object] = []

    def call() -> None:
        mine = f"in thread {threading.get_ident()}"
        for _ in range(300):
            try:
                wrong.append(ufunc(x, b, r))
            except CompilerError as error:
                if str(error) != mine:
                    wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=call) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_an_interrupt_on_the_way_into_the_compiler_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing the compiler's own code may do is to raise what was pending when it was called."""
    working = multiply_add(F32)
    loop = Loop(working.inputs, working.outputs, working.body)
    x, b, r = operands()
    out = np.full_like(x, -1)

    def interrupted(self: Loop) -> Body:
        raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "body", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_ufunc("interrupted", "", [loop])(x, b, r, out=out)
    monkeypatch.undo()
    assert same_bits(make_ufunc("again", "", [loop])(x, b, r), x * b + r)


def test_a_ufunc_owns_its_loops_and_takes_them_along() -> None:
    loop = loop_of(multiply_add_graph())
    gone = weakref.ref(loop)
    ufunc = make_ufunc("mortal", "some documentation", [loop])
    del loop
    gc.collect()
    x, b, r = operands()
    assert same_bits(ufunc(x, b, r), x * b + r) and gone() is not None
    del ufunc
    gc.collect()
    assert gone() is None


# ── other libraries' arrays ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_subclass_of_ndarray_keeps_its_type(axpy: np.ufunc) -> None:
    x, b, r = operands()
    masked = np.ma.masked_array(x, mask=x > 0)
    found = axpy(masked, b, r)
    assert isinstance(found, np.ma.MaskedArray)
    assert same_bits(np.asarray(found)[x <= 0], (x * b + r)[x <= 0])


def test_the_protocol_of_other_arrays_is_asked(axpy: np.ufunc) -> None:
    class Logged:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):  # type: ignore[no-untyped-def]
            return ufunc.__name__, method, len(inputs), sorted(kwargs)

    k = compile("out = x*b + r")
    x, b, r = operands()
    assert axpy(x, Logged(), r) == ("axpy", "__call__", 3, [])
    assert k(x, Logged(), r) == ("kernel", "__call__", 3, [])
    assert k(x, b, r, out=Logged()) == ("kernel", "__call__", 3, ["out"])


@pytest.mark.parametrize("rows", [10, 100_000])
def test_dask_arrays_stay_lazy_and_right(rows: int) -> None:
    import dask.array as dask_array

    k = compile("out = x*b + r")
    x, b, r = operands(n=rows)
    lazy = dask_array.from_array(x, chunks=max(rows // 3, 1))
    found = k(lazy, b, 2.0)
    assert isinstance(found, dask_array.Array)
    assert same_bits(found.compute(scheduler="threads"), x * b + np.float32(2))
    assert same_bits(k.ufunc(lazy, lazy, r).compute(scheduler="threads"), x * x + r)


def test_dask_arrays_give_every_one_of_several_outputs() -> None:
    import dask.array as dask_array

    x = np.arange(12.0).reshape(3, 4)
    lazy = dask_array.from_array(x, chunks=2)
    found = compile("s = x + y\nd = x - 2", name="pair")(lazy, lazy)
    assert isinstance(found.s, dask_array.Array) and isinstance(found.d, dask_array.Array)
    assert same_bits(found.s.compute(), x + x)
    assert same_bits(found.d.compute(), x - 2)


def test_xarray_keeps_names_and_coordinates() -> None:
    import xarray

    k = compile("out = x*b + r")
    x, b, r = operands(n=20)
    labelled = xarray.DataArray(x, dims="time", coords={"time": np.arange(20)})
    found = k(labelled, b, r)
    assert isinstance(found, xarray.DataArray) and found.dims == ("time",)
    assert same_bits(found.values, x * b + r)


def test_pandas_columns_keep_their_index() -> None:
    import pandas

    k = compile("out = x*b + r")
    x, b, r = operands(n=20)
    frame = pandas.DataFrame({"x": x, "b": b}, index=list("abcdefghijklmnopqrst"))
    found = k(frame["x"], frame["b"], r)
    assert isinstance(found, pandas.Series) and list(found.index) == list(frame.index)
    assert same_bits(found.to_numpy(), x * b + r)
