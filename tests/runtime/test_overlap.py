"""Which bytes arrays lie on, counted element by element, and where a loop may write although inputs lie there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.array_utils import byte_bounds as numpys_bounds
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from arrays import normal_numbers, same_bits
from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import F32
from fuseline.ir.graph import Graph
from fuseline.runtime import iterate
from fuseline.runtime.loop import Loop
from fuseline.runtime.overlap import SHARED, byte_bounds, holds_result, places
from kernels import loop_of

Array = NDArray[Any]
LENGTH = 400
DTYPES = (np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.float32))


@st.composite
def views(draw: st.DrawFn, memory: Array, shape: tuple[int, ...] | None = None, strided: bool = True) -> Array:
    """A view of ``memory`` (bytes) of any dtype, start and strides, none of them outside it."""
    dtype = draw(st.sampled_from(DTYPES))
    lengths = shape if shape is not None else tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    unit = dtype.itemsize
    if strided:
        strides = [draw(st.integers(-3 * unit, 3 * unit) | st.sampled_from((-12, -4, 0, 4, 12, 16))) for _ in lengths]
    else:
        strides = list(np.empty(lengths, dtype).strides)
    low = sum(min(s * (n - 1), 0) for s, n in zip(strides, lengths, strict=True))
    high = sum(max(s * (n - 1), 0) for s, n in zip(strides, lengths, strict=True)) + unit
    start = draw(st.integers(-low, LENGTH - high))
    typed = np.ndarray((), dtype, memory.data, start)
    return as_strided(typed, lengths, strides)


def bytes_of(a: Array) -> list[set[int]]:
    """The addresses of the bytes of each element."""
    start = a.__array_interface__["data"][0]
    return [
        set(range(at, at + a.itemsize))
        for index in np.ndindex(a.shape)
        for at in [start + sum(i * s for i, s in zip(index, a.strides, strict=True))]
    ]


def direct(output: Array, dtype: np.dtype[Any], inputs: list[Array], outputs: list[Array]) -> bool:
    """Whether a loop writes straight into ``output``, one of ``outputs``."""
    (index,) = (i for i, o in enumerate(outputs) if o is output)
    return places(inputs, outputs)[index] != SHARED and holds_result(output, dtype)


@given(st.data())
def test_bounds_are_the_first_byte_and_the_one_after_the_last(data: st.DataObject) -> None:
    view = data.draw(views(np.zeros(LENGTH, np.uint8), strided=data.draw(st.booleans())))
    assert byte_bounds(view) == numpys_bounds(view)
    every = set().union(*bytes_of(view))
    assert byte_bounds(view) == (min(every), max(every) + 1)


@given(st.data())
def test_a_loop_writes_only_where_no_other_element_lies(data: st.DataObject) -> None:
    """Straight into an output only if its elements share no byte with each other, with another output, or with an input
    that is not the same elements on the same bytes."""
    memory = np.zeros(LENGTH, np.uint8)
    output = data.draw(views(memory, strided=data.draw(st.booleans())))
    around = [data.draw(views(memory)) for _ in range(data.draw(st.integers(0, 2)))]
    same = [output.view()] if data.draw(st.booleans()) else []
    others = [data.draw(views(memory)) for _ in range(data.draw(st.integers(0, 1)))]
    if not direct(output, output.dtype, [*around, *same], [output, *others]):
        return
    elements = bytes_of(output)
    mine = set().union(*elements)
    assert sum(map(len, elements)) == len(mine)
    for other in others:
        assert not mine & set().union(*bytes_of(other))
    for a in around:
        shared = mine & set().union(*bytes_of(a))
        assert not shared or bytes_of(a) == elements


@given(st.data())
def test_outputs_apart_from_everything_are_written_straight_into(data: st.DataObject) -> None:
    """Any slice or transpose of memory of its own, also with a gap of no byte to what lies beside it."""
    dtype = data.draw(st.sampled_from(DTYPES))
    whole = np.zeros((4, 6, 2), dtype)
    before, output, after = whole[: data.draw(st.integers(0, 1))], whole[1:3], whole[3:]
    steps = [slice(None, None, data.draw(st.sampled_from((1, 2, -1, -2)))) for _ in range(3)]
    output = output[tuple(steps)].transpose(data.draw(st.permutations(range(3))))
    others = [a for a in (before, after) if a.size]
    assert direct(output, dtype, [*others, output.view()], [output])
    assert direct(output, dtype, [], [*others, output])
    assert not direct(output, dtype, [whole], [output])
    assert not direct(output, dtype, [], [whole, output])
    swapped = output.view(dtype.newbyteorder())
    assert direct(swapped, dtype, [], [swapped]) == (dtype.itemsize == 1)
    assert not direct(output, np.dtype(np.float64), [], [output])


@functools.cache
def several_results(count: int) -> Loop:
    """The first ``count`` of x*b, x + b and x - b."""
    x, b = (Expr(input_node(name, F32)) for name in "xb")
    results = [("p", (x * b).node), ("s", (x + b).node), ("d", (x - b).node)]
    return loop_of(Graph([x.node, b.node], results[:count]))


def is_done(count: int, n: int, starts: list[int]) -> bool:
    """Whether a prepared call is done for operands of ``n`` items that begin at ``starts``; then as any other call."""
    loop = several_results(count)
    apart = [normal_numbers((n,), seed) for seed in range(2)]
    prepared = iterate.prepare(loop, apart, iterate.run(loop, apart, [None] * count))
    assert prepared is not None
    first = normal_numbers((7 * n,), 3)
    second = first.copy()
    ours, others = ([memory[at : at + n] for at in starts] for memory in (first, second))
    iterate.run(loop, ours[:2], ours[2:])
    done = iterate.run_prepared(prepared, others[:2], others[2:])
    assert same_bits(second, first if done is not None else normal_numbers((7 * n,), 3))
    return done is not None


@given(st.integers(1, 3), st.integers(1, 300), st.data())
def test_a_prepared_call_gives_what_any_call_gives_or_does_nothing(count: int, n: int, data: st.DataObject) -> None:
    """For operands anywhere in one memory: on each other, beside each other, and over parts of each other."""
    place = st.sampled_from(range(0, 6 * n + 1, n)) | st.integers(0, 6 * n)
    starts = [data.draw(place) for _ in range(2 + count)]
    done = is_done(count, n, starts)
    assert done or any(abs(a - b) < n for i, a in enumerate(starts) for b in starts[:i])


@pytest.mark.parametrize("count", [2, 3])
def test_results_over_parts_of_each_other_are_as_if_written_one_after_the_other(count: int) -> None:
    n = 100
    for shift in (-99, -50, -1, 1, 50, 99):
        for position in range(1, count):
            results = [3 * n, *[5 * n] * (count - 1)]
            results[position] = 3 * n + shift
            assert not is_done(count, n, [0, n, *results])
