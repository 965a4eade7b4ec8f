"""Sizes are whole-number expressions: their value is Python's, whatever form they are kept in, and so are the elements
that broadcasting reads."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuseline.errors import ShapeError
from fuseline.ir.index_map import IndexMap, broadcast_map
from fuseline.ir.size import Dim, Size, element_count, evaluate, named, names_in
from fuseline.ir.text import parse_shape_text

NAMES = ("T", "D", "E")
Case = tuple[Dim, str]
"""A size, and the same as Python text."""


def combined(children: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    def sum_of(a: Case, b: Case) -> Case:
        return a[0] + b[0], f"({a[1]} + {b[1]})"

    def product_of(a: Case, b: Case) -> Case:
        return a[0] * b[0], f"({a[1]} * {b[1]})"

    def quotient_of(a: Case, by: int) -> Case:
        return a[0] // by, f"({a[1]} // {by})"

    def rounded_up(a: Case, by: int) -> Case:
        up = a[0].ceildiv(by) if isinstance(a[0], Size) else -(-a[0] // by)
        return up, f"(-(-{a[1]} // {by}))"

    def larger_of(a: Case, b: Case) -> Case:
        return Size("max", (a[0], b[0])), f"max({a[1]}, {b[1]})"

    by = st.integers(1, 5)
    return st.one_of(
        st.builds(sum_of, children, children),
        st.builds(product_of, children, children),
        st.builds(quotient_of, children, by),
        st.builds(rounded_up, children, by),
        st.builds(larger_of, children, children),
    )


leaves = st.one_of(
    st.sampled_from(NAMES).map(lambda name: (named(name), name)), st.integers(0, 9).map(lambda n: (n, str(n)))
)
cases = st.recursive(leaves, combined, max_leaves=8)


def by_python(text: str, sizes: Mapping[str, int]) -> int:
    return int(eval(text, {"max": max}, dict(sizes)))  # noqa: S307


@given(cases, st.tuples(*[st.integers(0, 20)] * 3))
def test_a_size_has_pythons_value(case: Case, values: tuple[int, ...]) -> None:
    dim, text = case
    sizes = dict(zip(NAMES, values, strict=True))
    wanted = by_python(text, sizes)
    assert int(evaluate(dim, sizes)) == wanted
    assert int(evaluate(element_count((dim, 3, dim)), sizes)) == 3 * wanted * wanted
    together = evaluate(dim, {name: np.array([value, value + 1, 7]) for name, value in sizes.items()})
    later = by_python(text, {name: value + 1 for name, value in sizes.items()})
    sevens = by_python(text, dict.fromkeys(NAMES, 7))
    assert np.broadcast_to(together, 3).tolist() == [wanted, later, sevens]


@given(cases)
def test_a_size_is_written_and_read_back_and_names_what_it_depends_on(case: Case) -> None:
    dim, text = case
    assert parse_shape_text(str(dim)) == (dim,)
    assert names_in(dim) <= {name for name in NAMES if name in text}
    for name in names_in(dim):
        with pytest.raises(ShapeError, match="give the named size"):
            evaluate(dim, {other: 1 for other in NAMES if other != name})


@given(st.permutations([named("T"), named("D"), named("T"), 2, 3]))
def test_sums_and_products_are_equal_in_any_order(parts: list[Any]) -> None:
    added: Dim = 0
    multiplied: Dim = 1
    for part in parts:
        added, multiplied = added + part, multiplied * part
    assert added == named("D") + named("T") + named("T") + 5
    assert multiplied == 6 * named("D") * named("T") * named("T")
    assert multiplied * 0 == 0


def read(array: Any, index: tuple[int, ...], map_: IndexMap) -> Any:
    """The element that ``map_`` reads in the turn ``index`` of the loops."""
    at = [0 if axis.loop is None else axis.step * index[axis.loop] for axis in map_.axes]
    return array[tuple(a + int(str(axis.offset)) for a, axis in zip(at, map_.axes, strict=True))]


@given(st.lists(st.integers(1, 3), max_size=3), st.data())
def test_an_operand_is_read_where_numpys_broadcasting_reads_it(iterated: list[int], data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, len(iterated)))
    shape = tuple(data.draw(st.sampled_from((1, length))) for length in iterated[len(iterated) - rank :])
    array = np.arange(int(np.prod(shape))).reshape(shape)
    wanted = np.broadcast_to(array, iterated)
    found = broadcast_map(shape, tuple(iterated))
    for index in itertools.product(*map(range, iterated)):
        assert read(array, index, found) == wanted[index]
    for loop, length in enumerate(iterated):
        axis = loop - (len(iterated) - rank)
        assert found.depends_on(loop) == (axis >= 0 and (shape[axis] > 1 or length == 1))
