"""Arrays of other libraries and memory maps give the bits that plain arrays give, whatever their dtypes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fuseline as fl
from arrays import same_bits
from fuseline.errors import TypeRuleError, UnsupportedError

WHOLE = np.array([1, 2, 3], "i4")
ONES = np.ones(3, "f4")
BRIEF = WHOLE.astype(ml_dtypes.bfloat16)
FIRST, SECOND = np.array([True, False, True]), np.array([True, True, False])

PROGRAMS: list[tuple[str, tuple[Any, ...]]] = [
    ("x*100000*100000 + y", (WHOLE, ONES)),  # int32 wraps before it meets a float
    ("x*100000*100000 + y", (WHOLE, 2.5)),
    ("x*100000*100000 + y", (WHOLE, WHOLE.astype(">i2"))),
    ("where(c & d, x, 0)", (FIRST, SECOND, ONES)),
    ("(x & 1)*y", (WHOLE, ONES)),
    ("(x & 1)*y", (WHOLE, [0.5, 1.5, 2.5])),
    ("x*y + z", (WHOLE.astype("i1"), 100, WHOLE)),
    ("c: bool; x: f32; where(c, x, y)", (FIRST, 0.1, np.arange(3.0))),
    ("x + y", (ONES, ONES)),
    ("x*y", (BRIEF, 2.5)),
    ("x*y", (BRIEF, ONES)),
]


def _series(a: np.ndarray) -> Any:
    if a.dtype == ml_dtypes.bfloat16:
        pytest.skip("pandas has no columns of it")
    return pytest.importorskip("pandas").Series(a.astype(a.dtype.newbyteorder("=")))


def _labelled(a: np.ndarray) -> Any:
    return pytest.importorskip("xarray").DataArray(a)


def _lazy(a: np.ndarray) -> Any:
    return pytest.importorskip("dask.array").from_array(a, chunks=2)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("wrapped", [_series, _labelled, _lazy, np.ma.masked_array, np.matrix])
@pytest.mark.parametrize(("text", "operands"), PROGRAMS)
def test_foreign_arrays_of_any_dtypes_give_the_bits_of_plain_ones(
    text: str, operands: tuple[Any, ...], wrapped: Callable[[np.ndarray], Any]
) -> None:
    k = fl.compile(text)
    plain = k(*operands)
    arrays = [i for i, v in enumerate(operands) if isinstance(v, np.ndarray)]
    for chosen in ({*arrays}, *({i} for i in arrays)):
        given = [wrapped(v) if i in chosen else v for i, v in enumerate(operands)]
        found = k(*given)
        assert type(found) is type(given[min(chosen)])
        assert same_bits(np.asarray(found).reshape(-1), plain)


def test_lazy_arrays_of_mixed_dtypes_give_every_one_of_several_outputs() -> None:
    dask_array = pytest.importorskip("dask.array")
    k = fl.compile("s = (x & 1)*y\nd = x*100000*100000 - y")
    plain = k(WHOLE, ONES)
    found = k(_lazy(WHOLE), ONES)
    assert all(isinstance(part, dask_array.Array) for part in found)
    assert same_bits(found.s.compute(), plain.s) and same_bits(found.d.compute(), plain.d)
    assert found.s.dtype == plain.s.dtype


def test_rows_that_pandas_aligns_may_change_their_dtype() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = pandas.Series(WHOLE, index=[0, 1, 2]), pandas.Series(ONES, index=[1, 2, 3])
    assert np.array_equal(fl.compile("x*2 + y")(x, y), [np.nan, 5, 7, np.nan], equal_nan=True)
    assert fl.compile("x*2 + y")(pandas.Series(WHOLE, dtype="Int32"), ONES).tolist() == [3, 5, 7]


def test_what_plain_arrays_are_refused_other_arrays_are_too() -> None:
    with pytest.raises(TypeRuleError, match="does not accept"):
        fl.compile("(x & 1)*y")(_series(ONES), WHOLE)
    many = fl.compile(" + ".join(f"x{i}" for i in range(70)))
    with pytest.raises(UnsupportedError, match=r"at most 64 operands.*np\.asarray"):
        many(*[np.ma.masked_array(ONES)] * 70)


def test_memory_maps_are_arrays_like_any_other(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "x", "i4", "w+", shape=(3,))
    mapped[:] = WHOLE
    for text, operands in PROGRAMS:
        k = fl.compile(text)
        found = k(*[mapped if v is WHOLE else v for v in operands])
        assert type(found) is np.ndarray and same_bits(found, k(*operands))
    place = np.memmap(tmp_path / "y", "f8", "w+", shape=(3,))
    assert fl.compile("x*2.5")(mapped, out=place) is place
    assert place.tolist() == [2.5, 5.0, 7.5]
    assert fl.compile("sum(x)")(mapped) == 6


# ── what decides is what the libraries are, not how NumPy words its errors ───────────────────────────────────────────


class Tagged:
    """An array type of its own: takes ufuncs of at most ``MOST_OUTPUTS`` outputs, and may convert on the way."""

    MOST_OUTPUTS: int = 1
    CONVERTS_TO: str | None = None
    calls: int = 0

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        Tagged.calls += 1
        if ufunc.nout > self.MOST_OUTPUTS:
            return NotImplemented
        plain = [o.array if isinstance(o, Tagged) else o for o in operands]
        if self.CONVERTS_TO:
            plain = [np.asarray(p, self.CONVERTS_TO) if isinstance(p, np.ndarray) else p for p in plain]
        results = getattr(ufunc, method)(*plain, **options)
        return tuple(map(type(self), results)) if ufunc.nout > 1 else type(self)(results)


class Several(Tagged):
    MOST_OUTPUTS = 9


class Converting(Tagged):
    CONVERTS_TO = "f8"


class Failing(Tagged):
    """Its own work fails with words that NumPy uses for other things."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        Tagged.calls += 1
        raise TypeError(f"ufunc '{ufunc.__name__}': NotImplemented")


class Deaf(Tagged):
    __array_ufunc__ = None  # type: ignore[assignment]  # what the protocol says for "no ufuncs"


@pytest.fixture
def numpy_says_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another wording of the error that no operand takes the call."""
    from numpy._core import _internal

    monkeypatch.setattr(_internal, "array_ufunc_errmsg_formatter", lambda *args, **options: "nobody wants this")


@pytest.mark.usefixtures("numpy_says_something_else")
@pytest.mark.parametrize("kind", [Tagged, Several])
def test_several_outputs_are_asked_for_one_by_one_where_a_type_declines_them(kind: type[Tagged]) -> None:
    k = fl.compile("s = x + y\np = x*y")
    found = k(kind(ONES), 2.5)
    assert type(found.s) is kind and type(found.p) is kind
    assert same_bits(found.s.array, ONES + np.float32(2.5)) and same_bits(found.p.array, ONES * np.float32(2.5))


@pytest.mark.usefixtures("numpy_says_something_else")
def test_lazy_arrays_give_several_outputs_whatever_the_wording() -> None:
    pytest.importorskip("dask.array")
    found = fl.compile("s = x + y\np = x*y")(_lazy(ONES), 2.5)
    assert same_bits(found.s.compute(), ONES + np.float32(2.5))


def test_a_subclass_is_asked_before_its_base() -> None:
    k = fl.compile("s = x + y\np = x*y")
    for operands in ((Tagged(ONES), Several(ONES)), (Several(ONES), Tagged(ONES))):
        assert type(k(*operands).s) is Several


@pytest.mark.parametrize("text", ["x + y", "s = x + y\np = x*y"])
def test_what_fails_in_another_library_is_told_and_not_tried_again(text: str) -> None:
    Tagged.calls = 0
    with pytest.raises(TypeError, match="NotImplemented"):
        fl.compile(text)(Failing(ONES), 2.5)
    assert Tagged.calls == 1


@pytest.mark.parametrize("text", ["x + y", "s = x + y\np = x*y"])
def test_types_that_want_no_ufunc_are_refused_as_numpy_refuses_them(text: str) -> None:
    for operands in ((Deaf(ONES), 2.5), (Tagged(ONES), Deaf(ONES))):
        with pytest.raises(TypeError, match="does not support ufuncs"):
            fl.compile(text)(*operands)


@pytest.mark.parametrize("text", ["x*2 + y", "s = x*2 + y\np = x - y"])
def test_a_type_that_converts_on_the_way_gets_a_loop_of_what_it_has_made(text: str) -> None:
    k = fl.compile(text)
    found = k(Converting(WHOLE), ONES)
    expected = k(WHOLE.astype("f8"), ONES.astype("f8"))
    for result, wanted in zip(found if isinstance(found, tuple) else [found], np.atleast_2d(expected), strict=True):
        assert type(result) is Converting and same_bits(result.array, wanted)
    exact = k(Tagged(WHOLE), ONES)
    first = exact[0] if isinstance(exact, tuple) else exact
    assert same_bits(first.array, WHOLE * 2 + ONES.astype("f8"))


def test_a_program_without_inputs_says_that_it_is_no_ufunc() -> None:
    with pytest.raises(UnsupportedError, match="at least one input"):
        fl.compile("out = 3.5")(out=Tagged(np.zeros(())))
