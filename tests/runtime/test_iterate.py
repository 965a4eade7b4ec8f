"""Whole calls: any layout, any overlap, any number of operands, and the bits never depend on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import fuseline
from arrays import normal_numbers as numbers
from arrays import same_bits
from fuseline.errors import ReadOnlyError, ShapeError, TypeRuleError
from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import F32, I8, DType
from fuseline.ir.graph import Graph
from fuseline.runtime import host, iterate, nest, threads
from fuseline.runtime.loop import Loop
from kernels import loop_of, multiply_add
from watched_bodies import Pass, watched

Array = NDArray[Any]


def run(*inputs: Any, out: Array | None = None) -> Array:
    """x*b + r over the float32 inputs."""
    arrays = [np.asarray(a, np.float32) for a in inputs]
    (result,) = iterate.run(multiply_add(), arrays, [out], ("x", "b", "r", "out"))
    return result


# ── layouts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...]) -> Array:
    """A float32 array that broadcasts to ``shape``: some axes missing or 1, in any order, steps and directions."""
    own = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in shape[draw(st.integers(0, len(shape))) :])
    order = draw(st.permutations(range(len(own))))
    steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in own]
    room = [own[a] * abs(steps[a]) for a in order]
    offset = draw(st.integers(0, 3))
    memory = numbers((offset + math.prod(room),), draw(st.integers(0, 99)))[offset:].reshape(room)
    return memory.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)][tuple(slice(n) for n in own)]


@st.composite
def calls(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Array]]:
    shape = tuple(draw(st.lists(st.integers(0, 40), max_size=4)))
    return shape, [draw(views(shape)) for _ in range(3)]


@given(calls(), st.integers(1, 3))
def test_any_views_of_any_shapes_give_what_numpy_gives(call: tuple[tuple[int, ...], list[Array]], count: int) -> None:
    x, b, r = call[1]
    with threads.limit(count):
        assert same_bits(run(x, b, r), np.asarray(x * b + r))


@given(calls())
def test_a_strided_output_is_filled_and_nothing_beside_it_is_touched(call: tuple[tuple[int, ...], list[Array]]) -> None:
    x, b, r = call[1]
    expected = np.asarray(x * b + r)
    memory = np.full(tuple(2 * n + 1 for n in expected.shape), 7, np.float32)
    place = memory[(*(slice(1, None, 2) for _ in expected.shape), ...)]
    run(x, b, r, out=place)
    assert same_bits(place, expected)
    place[...] = 7
    assert np.all(memory == 7)


@given(
    st.integers(0, 2**32), st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, 2, -1, -3]), st.integers(1, 40)
)
def test_overlapping_output_is_as_if_all_inputs_were_read_first(
    seed: int, start: int, shift: int, step: int, n: int
) -> None:
    memory = numbers((300,), seed)
    source = slice(start, start + n)
    places = range(start + shift, start + shift + 3 * n, abs(step))[:n]
    work = memory.copy()
    target = work[places.start : places[-1] + 1 : abs(step)][:: 1 if step > 0 else -1]
    expected = memory[source] * memory[source] + memory[10 : 10 + n]
    run(work[source], work[source], work[10 : 10 + n], out=target)
    assert same_bits(target, expected)


def test_a_matrix_may_be_computed_into_its_own_transpose() -> None:
    a = numbers((70, 70))
    work = a.copy()
    run(work, work.T, work[0], out=work.T)
    assert same_bits(work.T, a * a.T + a[0])


@pytest.mark.parametrize("n", [100, 100_000])
def test_two_outputs_may_overlap_each_other(n: int) -> None:
    x, y = (Expr(input_node(name, F32)) for name in "xy")
    loop = loop_of(Graph([x.node, y.node], [("s", (x + y).node), ("p", (x * y).node)]))
    a, b = numbers((n,), 1), numbers((n,), 2)
    work = np.zeros(n + 1, np.float32)
    iterate.run(loop, [a, b], [work[:-1], work[1:]])
    assert work[0] == a[0] + b[0] and same_bits(work[1:], a * b)


def test_unaligned_and_offset_operands_work() -> None:
    raw = np.zeros(4 * 5000 + 64, np.uint8)
    x = numbers((5000,))
    for offset in (1, 2, 3, 5, 17):
        unaligned = raw[offset : offset + 20000].view(np.float32)
        unaligned[:] = x
        out = np.zeros(4 * 5000 + 64, np.uint8)[offset : offset + 20000].view(np.float32)
        assert same_bits(run(unaligned, unaligned, x, out=out), x * x + x)


def test_an_output_in_another_byte_order_or_wider_is_converted() -> None:
    x = numbers((500,))
    for dtype in (">f4", "f8"):
        out = np.zeros(500, dtype)
        run(x, x, x, out=out)
        assert np.array_equal(out, (x * x + x).astype(dtype))


def test_a_new_result_is_laid_out_like_the_input_of_its_shape() -> None:
    a = numbers((60, 70, 3))
    assert run(a, 2, 1).flags.c_contiguous
    assert run(a.T, 2, 1).flags.f_contiguous
    moved = a.transpose(1, 2, 0)
    assert run(moved, 2, 1).strides == (moved * 2).strides


# ── length, threads, streaming ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "shape, seed", [((3_000_001,), 1), ((1731, 1733), 2), ((1_000_003, 3), 3), ((7, 9, 11, 13, 50), 4)]
)
def test_bits_do_not_depend_on_threads_or_streaming(
    shape: tuple[int, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, b, r = numbers(shape, seed), numbers(shape[-1:], seed + 1), numbers((*shape[:-1], 1), seed + 2)
    expected = x * b + r
    for count in (1, 2, 3, 7):
        for cache_bytes in (1, 1 << 40):
            monkeypatch.setattr(host, "cache_for_results_bytes", lambda size=cache_bytes: size)
            for offset in (0, 1, 3):
                out = np.zeros(expected.size + 16, np.float32)[offset : offset + expected.size].reshape(shape)
                with threads.limit(count):
                    assert same_bits(run(x, b, r, out=out), expected), (count, cache_bytes, offset)


@pytest.mark.parametrize("streaming", [False, True])
def test_ends_of_a_vector_touch_nothing_beside_an_output(streaming: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterate, "_is_large", lambda operands: streaming)
    for n in (1, 5, 31, 32, 33, 63, 64, 65, 100, 257):
        x, b = numbers((3, n), 1), numbers((n,), 2)
        for offset in range(17):
            guarded = np.full(3 * n + 32, 7, np.float32)
            out = guarded[offset : offset + 3 * n].reshape(3, n)
            run(x, b, x, out=out)
            assert same_bits(out, x * b + x)
            assert (guarded[:offset] == 7).all() and (guarded[offset + 3 * n :] == 7).all()


@pytest.mark.parametrize("n", [1, 33, 65, 1000, 1001, 40_007])
def test_in_place_elements_are_computed_once(n: int) -> None:
    for streaming in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(iterate, "_is_large", lambda operands, s=streaming: s)
            x, b = numbers((n,), 1), numbers((n,), 2)
            expected = x * b + x
            run(x, b, x, out=x)
            assert same_bits(x, expected)


@pytest.mark.parametrize("count", [2, 3, 7, 70])
def test_threads_that_take_from_each_other_compute_no_element_twice(count: int) -> None:
    x, b = numbers((1001, 2003), 1), numbers((2003,), 2)
    expected = x.copy()
    with threads.limit(count):
        for _ in range(20):
            expected = expected * b + expected
            run(x, b, x, out=x)
            assert same_bits(x, expected)


@pytest.mark.parametrize("n", [1, 40, 63, 64, 65, 191, 500])
def test_stores_past_the_caches_end_where_the_output_ends(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterate, "_is_large", lambda operands: True)
    x = np.arange(3 * n, dtype=np.int8).reshape(3, n)
    b = np.array([[1], [2], [3]], np.int8)
    for offset in range(70):
        guarded = np.full(3 * n + 80, 77, np.int8)
        out = guarded[offset : offset + 3 * n].reshape(3, n)
        iterate.run(sum_of_bytes(), [x, b], [out])
        assert np.array_equal(out, x + b)
        assert (guarded[:offset] == 77).all() and (guarded[offset + 3 * n :] == 77).all()


@pytest.mark.parametrize("n", [20, 100, 513, 1500])
def test_stores_past_the_caches_leave_gaps_between_rows_alone(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterate, "_is_large", lambda operands: True)
    x, b = numbers((9, n), 1), numbers((n,), 2)
    for gap in (1, 3, 16):
        guarded = np.full((9, n + gap), 7, np.float32)
        out = guarded[:, :n]
        run(x, b, x, out=out)
        assert same_bits(np.ascontiguousarray(out), x * b + x) and (guarded[:, n:] == 7).all()


def test_streaming_stores_of_narrow_and_mixed_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cache_for_results_bytes", lambda: 1)
    x, y = (Expr(input_node(name, F32)) for name in "xy")
    results = [("less", x < y), ("narrow", (x * y).cast(I8)), ("wide", x - y)]
    loop = loop_of(Graph([x.node, y.node], [(name, r.node) for name, r in results]))
    a, b = numbers((100_003,), 1), numbers((100_003,), 2)
    less, narrow, wide = iterate.run(loop, [a, b], [None] * 3)
    assert same_bits(less, a < b) and same_bits(narrow, (a * b).astype(np.int8)) and same_bits(wide, a - b)


def sum_of_bytes(d: DType = I8) -> Any:
    x, y = (Expr(input_node(name, d)) for name in "xy")
    return loop_of(Graph([x.node, y.node], [("s", (x + y).node)]))


def test_strides_beyond_two_gigabytes_reach_the_right_elements() -> None:
    far = (1 << 31) + 4096
    memory = np.zeros(2 * far + 1, np.int8)  # pages that are not touched take no memory
    memory[[0, far, 2 * far]] = 1, 2, 3
    wide = as_strided(memory, (3, 70), (far, 0))
    backwards = as_strided(memory[2 * far :], (3, 70), (-far, 0))
    (found,) = iterate.run(sum_of_bytes(), [wide, backwards], [None])
    assert found.tolist() == [[4] * 70, [4] * 70, [4] * 70]
    (column,) = iterate.run(sum_of_bytes(), [as_strided(memory, (3,), (far,)), np.array(1, np.int8)], [None])
    assert column.tolist() == [2, 3, 4]


@pytest.mark.long
def test_results_of_more_than_two_thousand_million_elements() -> None:
    n = (1 << 31) + 77
    x = as_strided(np.array([5], np.int8), (n,), (0,))
    y = as_strided(np.array([1, 2], np.int8)[1:], (n,), (0,))
    (found,) = iterate.run(sum_of_bytes(), [x, y], [None])
    assert found[0] == found[-1] == found[1 << 30] == 7 and not np.any(found[-100_000:] != 7)


# ── shapes and refusals ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (1, 0, 3), ()])
def test_empty_and_zero_dimensional_calls(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    found = run(x, 2, 3)
    assert found.shape == shape and np.all(found == 5)


def test_any_number_of_operands() -> None:
    names = [f"a{i}" for i in range(300)]
    nodes = [Expr(input_node(n, F32)) for n in names]
    total = nodes[0]
    for x in nodes[1:]:
        total = total + x
    loop = loop_of(Graph([x.node for x in nodes], [("s", total.node)]))
    arrays = [np.full((1, 50) if i % 3 else (40, 1), i, np.float32) for i in range(300)]
    (found,) = iterate.run(loop, arrays, [None])
    assert found.shape == (40, 50) and np.all(found == sum(range(300)))
    (strided,) = iterate.run(loop, [np.repeat(a, 2, axis=1)[:, ::2] for a in arrays], [None])
    assert same_bits(strided, found)


def test_refusals_name_the_operands_and_their_shapes() -> None:
    x = numbers((2, 3))
    with pytest.raises(ShapeError, match=r"x of shape \(2, 3\) and r of shape \(4,\)"):
        run(x, 1, np.ones(4))
    with pytest.raises(ShapeError, match=r"'out' has shape \(3,\), the result has shape \(2, 3\)"):
        run(x, 1, 1, out=np.empty(3, np.float32))
    with pytest.raises(TypeRuleError, match="'out' has dtype int32"):
        run(x, 1, 1, out=np.empty((2, 3), np.int32))
    frozen = np.empty((2, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ReadOnlyError, match="'out' is read-only"):
        run(x, 1, 1, out=frozen)


# ── the nest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def nest_of(shape: tuple[int, ...], *arrays: Array) -> nest.Nest:
    return nest.plan(shape, tuple(a.shape for a in arrays), tuple(a.strides for a in arrays), len(arrays) - 1)


def test_contiguous_arrays_of_any_rank_are_one_loop() -> None:
    a = np.zeros((3, 4, 5, 6))
    assert nest_of(a.shape, a, a).inner == 360
    assert nest_of(a.T.shape, a.T, a.T).outer_shape == ()
    flipped = a[::-1, ::-1, ::-1, ::-1]
    assert nest_of(a.shape, flipped, flipped).inner == 360


def test_a_broadcast_row_leaves_two_loops_and_a_scalar_none() -> None:
    a = np.zeros((3, 4, 50))
    assert (nest_of(a.shape, a, a[0, 0], a).outer_shape, nest_of(a.shape, a, np.zeros(()), a).outer_shape) == (
        (12,),
        (),
    )


def test_a_short_innermost_axis_gives_way_to_a_long_one() -> None:
    pixels, scale = np.zeros((10_007, 3)), np.zeros(3)
    n = nest_of(pixels.shape, pixels, scale, pixels)
    assert (n.outer_shape, n.inner) == ((3,), 10_007)


def test_a_transposed_operand_is_visited_in_blocks() -> None:
    a = np.zeros((300, 640), np.float32)
    b = np.zeros((640, 300), np.float32).T
    n = nest_of(a.shape, a, b, a)
    assert (n.outer_shape, n.inner) == ((10, 300), 64)
    assert nest_of(a.shape, a, a, a).outer_shape == () and nest_of((300, 641), a[:, :1], b[:, :1], a[:, :1]).inner != 64


@pytest.mark.parametrize(
    "shape", [(300, 640), (640, 300), (250, 1000), (211, 257), (3, 320, 200), (320, 3, 640), (256, 512, 5)]
)
def test_every_order_of_axes_of_large_arrays_gives_what_numpy_gives(shape: tuple[int, ...]) -> None:
    a = numbers(shape)
    for order in itertools.permutations(range(len(shape))):
        turned = np.empty([shape[axis] for axis in order], np.float32).transpose(np.argsort(order))
        turned[...] = numbers(shape, 1)
        for flip in (1, -1):
            other = turned[::flip]
            assert same_bits(run(a, other, turned), a * other + turned)
            place = np.empty_like(other)
            assert same_bits(run(a, other, a, out=place), a * other + a)


@pytest.mark.parametrize("rows, n", [(1, 40), (1, 257), (1, 5_003), (7, 33), (3, 1_000)])
def test_results_that_never_begin_a_line_together_go_past_the_caches(
    rows: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iterate, "_is_large", lambda operands: True)
    loop = two_results()
    a, b = numbers((rows, n), 1), numbers((n,), 2)
    for first, second in [(0, 1), (1, 0), (3, 7), (16, 5), (15, 16)]:
        for odd_bytes in (0, 2):
            memory = [np.full(4 * (rows * n + 40) + odd_bytes, 77, np.uint8)[odd_bytes:] for _ in range(2)]
            places = [
                m.view(np.float32)[start : start + rows * n].reshape(rows, n)
                for m, start in zip(memory, (first, second), strict=True)
            ]
            iterate.run(loop, [a, b], places)
            for m, place, start, expected in zip(memory, places, (first, second), (a + b, a * b), strict=True):
                assert same_bits(place, expected)
                assert (m[: 4 * start] == 77).all() and (m[4 * (start + rows * n) :] == 77).all()


# ── how a call uses its body ─────────────────────────────────────────────────────────────────────────────────────────


def passes_of(loop: Loop, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Pass]:
    """What a run of ``loop`` calls its body with."""
    with watched(loop, len(inputs), outputs) as found, threads.limit(1):
        iterate.run(loop, list(inputs), list(outputs))
    return found


def two_results() -> Loop:
    """x + y and x*y."""
    x, y = (Expr(input_node(name, F32)) for name in "xy")
    return loop_of(Graph([x.node, y.node], [("sum", (x + y).node), ("product", (x * y).node)]))


def places(*offsets: int, count: int = 100_000) -> list[Array]:
    """Float32 arrays that begin ``offsets`` items behind a 64-byte border."""
    memory = [np.zeros(count + 64, np.float32) for _ in offsets]
    starts = [-m.ctypes.data % 64 // 4 + offset for m, offset in zip(memory, offsets, strict=True)]
    return [m[start : start + count] for m, start in zip(memory, starts, strict=True)]


def test_large_calls_store_whole_lines_past_the_caches_and_small_ones_through_them() -> None:
    loop, a = two_results(), numbers((100_000,), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "cache_for_results_bytes", lambda: 1 << 20)
        large = passes_of(loop, [a, a], places(3, 3))
        small = passes_of(loop, [a[:9], a[:9]], places(3, 3, count=9))
        patch.setattr(host, "cache_for_results_bytes", lambda: 4 << 20)
        near = passes_of(loop, [a, a], places(3, 3))
    past = sum(vectors for vectors, flags, direct in large if flags & 1 and flags & 4 and direct)
    assert past > 0.99 * sum(vectors for vectors, _, _ in large)
    assert not any(flags & 5 for _, flags, _ in (*small, *near))


def test_results_that_never_begin_a_line_together_are_computed_aside_by_blocks() -> None:
    loop, a = two_results(), numbers((100_000,), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterate, "_is_large", lambda operands: True)
        found = passes_of(loop, [a, a], places(3, 4))
    assert not any(direct or flags & 1 for _, flags, direct in found)
    assert max(vectors for vectors, _, _ in found) > 1 and found[0][1] & 4


def test_large_calls_in_place_ask_ahead_and_store_through_the_caches() -> None:
    loop, a = multiply_add(), numbers((100_000,), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterate, "_is_large", lambda operands: True)
        found = passes_of(loop, [a, a, a], [a])
    assert all(flags == 4 for vectors, flags, direct in found if direct)
    assert any(direct for _, _, direct in found)


@pytest.mark.parametrize(
    "vendor, caches, expected",
    [
        ("GenuineIntel", {1: 48 << 10, 2: 2 << 20, 3: 480 << 20}, 2 << 20),
        ("GenuineIntel", {1: 48 << 10, 2: 2 << 20, 3: 36 << 20}, 36 << 20),
        ("AuthenticAMD", {1: 32 << 10, 2: 1 << 20, 3: 96 << 20}, 96 << 20),
        ("", {}, 32 << 20),
    ],
)
def test_only_a_large_last_level_cache_of_intels_counts_as_memory(
    vendor: str, caches: dict[int, int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.sys, "platform", "linux")
    monkeypatch.setattr(host, "processor", lambda: host.Processor("", frozenset(), vendor))
    monkeypatch.setattr(host.system_files, "data_caches", lambda: caches)
    monkeypatch.setattr(host, "last_level_cache_bytes", host.last_level_cache_bytes.__wrapped__)
    monkeypatch.setattr(host, "cache_for_results_bytes", host.cache_for_results_bytes.__wrapped__)
    assert host.cache_for_results_bytes() == expected
    last = max(caches.values(), default=expected)
    for sharers, caches_of_five in ((1, 5), (2, 2), (8, 1)):
        monkeypatch.setattr(host.system_files, "sharers", lambda level, count=sharers: count if level == 2 else 0)
        assert host.caches_of_threads_bytes(1) == expected
        assert host.caches_of_threads_bytes(5) == (expected if expected == last else caches_of_five * expected)


def test_a_shape_that_does_not_fit_is_that_of_the_output_which_has_it() -> None:
    k, x, wrong = fuseline.compile("p = x + 1; q = x*2; s = x - 1"), np.ones(3, np.float32), np.ones(4, np.float32)
    for place, name in enumerate("pqs"):
        with pytest.raises(ShapeError, match=rf"x of shape \(3,\) and {name} of shape \(4,\)"):
            k(x, out=tuple(wrong if i == place else None for i in range(3)))
