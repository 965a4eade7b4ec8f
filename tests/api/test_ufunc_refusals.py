"""What a kernel refuses of plain arrays, its ufunc and arrays of other libraries refuse too: NumPy would otherwise cast
such operands, safely, to the next wider dtype that has a loop."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fuseline as fl
from arrays import same_bits
from fuseline.errors import FuselineError, LiteralError, TypeRuleError

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", ml_dtypes.bfloat16, "f4", "f8")
PROGRAMS = (
    "x + 300", "x*70000", "x*(-1)", "x - x", "-x", "x - y", "x*y + 300", "(x & 1)*y", "~x", "x << 1", "x/y", "sqrt(x)",
    "x % 200", "where(x, y, 0)", "(x < 300) | (x == y)", "s = x + y\nd = x - 200", "y: i32; x + y - 40000", "x**300",
    "abs(x) - 1", "x*2.5 + 1", "minimum(x, 70000)", "sign(x)", "floor(x)", "x // y", "(x << 2) + exp(x)",
)  # fmt: skip


def outcome(function: Any, operands: list[Any]) -> Any:
    """The arrays that it gives, or the error; NumPy says in its own words that a ufunc has no loop."""
    try:
        found = function(*operands)
    except FuselineError as error:
        return type(error), str(error)
    except TypeError as error:
        assert str(error).startswith("ufunc 'kernel' not supported for the input types")
        return TypeRuleError, ""
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


def operands_of(k: Any, dtype: Any) -> list[Any]:
    declared = {d.name: d.dtype for d in k.program.inputs}
    return [np.ones(3, declared[n].numpy if declared[n] else dtype) for n in k.inputs]


def agree(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return bool(found == wanted or found == (wanted[0], ""))
    return not isinstance(found, tuple) and all(
        f.dtype == w.dtype and same_bits(f, w) for f, w in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_ufunc_computes_and_refuses_what_the_kernel_does_in_every_dtype(text: str) -> None:
    k = fl.compile(text)
    for dtype in DTYPES:
        operands = operands_of(k, dtype)
        assert agree(outcome(k.ufunc, operands), outcome(k, operands)), dtype


@pytest.mark.parametrize("library", ["masked", "pandas", "dask", "xarray"])
@pytest.mark.parametrize("text", PROGRAMS)
def test_arrays_of_other_libraries_are_refused_where_plain_ones_are(text: str, library: str) -> None:
    wrap: Any = {
        "masked": lambda: np.ma.masked_array,
        "pandas": lambda: pytest.importorskip("pandas").Series,
        "dask": lambda: lambda a: pytest.importorskip("dask.array").from_array(a, chunks=2),
        "xarray": lambda: pytest.importorskip("xarray").DataArray,
    }[library]()
    k = fl.compile(text)
    for dtype in DTYPES:
        operands = operands_of(k, dtype)
        wanted = outcome(k, operands)
        if dtype is ml_dtypes.bfloat16 and (library != "masked" or not isinstance(wanted, tuple)):
            continue
        assert agree(outcome(k, [wrap(a) for a in operands]), wanted), dtype


def test_one_array_of_another_library_and_pythons_numbers_are_refused_as_beside_plain_ones() -> None:
    x = np.ones(3, np.int8)
    k = fl.compile("x*y + 300")
    for other in (x, 2, np.int8(2)):
        for given in ((np.ma.masked_array(x), other), (other, np.ma.masked_array(x))):
            with pytest.raises(LiteralError, match="300 does not fit i8"):
                k(*given)
        with pytest.raises(LiteralError, match="300 does not fit i8"):
            k.ufunc(x, other)
    with pytest.raises(LiteralError, match="300 does not fit i8"):
        k.ufunc(x, x > 0)  # NumPy computes int8 with bool as int8


def test_numpys_own_way_of_asking_for_a_wider_loop_works() -> None:
    x = np.array([1, -2, 3], np.int8)
    k = fl.compile("x + 300")
    for options in ({"dtype": np.int16}, {"signature": "h->h"}, {"signature": (np.int16, None)}):
        found = k.ufunc(x, **options)
        assert found.dtype == np.int16 and found.tolist() == [301, 298, 303]
    place = np.zeros(3, np.int16)
    with pytest.raises(LiteralError):
        k.ufunc(x, out=place)
    assert k.ufunc(x, out=place, dtype=np.int16).tolist() == [301, 298, 303]


def test_every_method_of_the_ufunc_refuses() -> None:
    x = np.ones((3, 4), np.int8)
    u = fl.compile("x*y + 300").ufunc
    for method in (u.reduce, u.accumulate, u.reduceat):
        with pytest.raises(LiteralError):
            method(x, *([[0, 1]] if method == u.reduceat else []))
    with pytest.raises(LiteralError):
        u.outer(x, x)
    with pytest.raises(LiteralError):
        u.at(x.copy(), (0, 0), np.int8(2))
    for where in (True, np.ones(4, bool)):
        with pytest.raises(LiteralError):
            u(x, x, where=where, out=np.zeros((3, 4), np.int8))
    assert u.reduce(x, dtype=np.int32).tolist() == [601] * 4
    with pytest.raises(TypeRuleError, match="sub"):
        fl.compile("x - y").ufunc.reduce(x > 0)


def test_a_strided_view_and_a_scalar_are_refused_and_nothing_is_written() -> None:
    u = fl.compile("x - 200").ufunc
    place = np.full(5, 7, np.int8)
    for given in (np.ones(10, np.int8)[::2], np.int8(1), np.ones((5, 2), np.int8)[:, 1]):
        with pytest.raises(LiteralError):
            u(given, out=place)
    assert place.tolist() == [7] * 5
    with pytest.raises(LiteralError):
        u(np.int8(1))


def test_a_program_that_no_dtype_admits_has_a_ufunc_that_says_why() -> None:
    u = fl.compile("(x << 2) + (1.5 | x)").ufunc
    for dtype in ("?", "i4", "f4"):
        with pytest.raises(FuselineError):
            u(np.ones(3, dtype))


def test_each_call_raises_an_error_of_its_own() -> None:
    """A traceback that grew with every call would hold the frames of all of them."""
    u = fl.compile("x + 300").ufunc
    seen = []
    for _ in range(3):
        with pytest.raises(LiteralError) as caught:
            u(np.ones(3, np.int8))
        seen.append(caught.value)
    assert len({id(e) for e in seen}) == 3
    depths = [len(list(iter_traceback(e))) for e in seen]
    assert len(set(depths)) == 1


def iter_traceback(error: BaseException) -> Any:
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def test_a_kernel_with_refused_dtypes_pickles_and_dies() -> None:
    k = fl.compile("x + 300")
    again = pickle.loads(pickle.dumps(k))  # noqa: S301
    with pytest.raises(LiteralError):
        again.ufunc(np.ones(3, np.int8))
    gone = weakref.ref(again)
    alone = again.ufunc
    del again
    gc.collect()
    assert gone() is None
    with pytest.raises(LiteralError):
        alone(np.ones(3, np.int8))


def test_types_lists_what_is_refused_where_numpy_would_widen_it() -> None:
    assert "??->?" in fl.compile("x - y").ufunc.types
    types = fl.compile("x << y").ufunc.types
    assert "ll->l" in types and "dd->d" not in types
