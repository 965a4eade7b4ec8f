"""Calls that are like an earlier one run without Python; they give what the first gave, and refuse what it would."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import threading
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from arrays import same_bits
from fuseline.api.kernel import compile
from fuseline.errors import NumberRangeError, ReadOnlyError, ShapeError
from fuseline.runtime import fastcall, host, threads
from fuseline.runtime.loop import ASKS, STREAMING
from watched_bodies import watched

Array = NDArray[Any]
REPEATS = 4
SHAPES = ((3,), (2000,), (40, 70), (6, 5, 50), (8, 1, 300), (70_000,), (300, 1000))


def numbers(*shape: int, seed: int = 0, dtype: str = "f4") -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 10).astype(dtype)


def layout(shape: tuple[int, ...], random: Random) -> Any:
    """A function that makes arrays of one shape (which broadcasts to ``shape``) and one set of strides."""
    own = tuple(1 if random.random() < 0.25 else n for n in shape[random.choice((0, 0, 0, len(shape) - 1)) :])
    order = random.sample(range(len(own)), len(own))
    steps = [random.choice((1, 1, 1, 2, -1)) for _ in own]

    def make(seed: int) -> Array:
        room = [own[axis] * abs(step) for axis, step in zip(order, steps, strict=True)]
        a = numbers(*room, seed=seed)[tuple(slice(None, None, step) for step in steps)]
        view: Array = a.transpose(np.argsort(order))
        return view

    return make


def python_calls(call: Any) -> int:
    """How many Python functions a call goes through."""
    found = []
    sys.setprofile(lambda frame, event, _: found.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(found) - (len(found) > 0 and found[0] == "<lambda>")


@pytest.mark.parametrize("shape", SHAPES)
def test_repeated_calls_of_any_layout_give_what_numpy_gives(shape: tuple[int, ...]) -> None:
    for seed in range(6):
        random = Random(f"{shape} {seed}")
        kernel = compile("s = x*y\np = x + r")
        makers = [layout(shape, random) for _ in range(3)]
        for repeat in range(REPEATS):
            x, y, r = (make(10 * repeat + i) for i, make in enumerate(makers))
            s, p = kernel(x, y, r)
            assert same_bits(s, x * y) and same_bits(p, x + r)
            places = (np.empty_like(s), np.full_like(p, np.nan))
            out = kernel(x, y, r, out=places)
            assert out.s is places[0] and out.p is places[1]
            assert same_bits(out.s, x * y) and same_bits(out.p, x + r)


def test_repeated_calls_of_changing_dtypes_run_no_python_either() -> None:
    kernel = compile("out = x*y + 1")
    wide = [numbers(3000, dtype="f8"), numbers(3000, seed=1, dtype="f8")]
    narrow = [a.astype("f4") for a in wide]
    whole = [np.arange(3000, dtype="i4"), np.arange(3000, dtype="i4")[::-1]]
    calls: list[Any] = [
        lambda: kernel(*wide),
        lambda: kernel(*narrow),
        lambda: kernel(narrow[0], 2.5),
        lambda: kernel(*whole),
        lambda: kernel(whole[0], 3),
        lambda: kernel(narrow[0], wide[1]),
    ]
    expected = [
        wide[0] * wide[1] + 1, narrow[0] * narrow[1] + 1, narrow[0] * np.float32(2.5) + 1, whole[0] * whole[1] + 1,
        whole[0] * 3 + 1, narrow[0] * wide[1] + 1,
    ]  # fmt: skip
    for _ in range(REPEATS):
        for call, wanted in zip(calls, expected, strict=True):
            found = call()
            assert found.dtype == wanted.dtype and same_bits(found, wanted)
    assert [python_calls(call) for call in calls] == [0] * len(calls)


def test_a_repeated_call_runs_no_python() -> None:
    kernel, two = compile("out = x*y + 0.5"), compile("a = x + y\nb = x - y")
    x, y = numbers(20, 500), numbers(500, seed=1)
    out, places = np.empty_like(x), (np.empty_like(x), np.empty_like(x))
    calls: list[Any] = [
        lambda: kernel(x, y),
        lambda: kernel(x, y, out=out),
        lambda: kernel(x.T, 2.5),
        lambda: kernel(x[::-1], x[:, ::-1]),
        lambda: two(x, y),
        lambda: two(x, y, out=places),
    ]
    for call in calls:
        for _ in range(3):
            call()
        assert python_calls(call) == 0
        with threads.limit(1):
            call()
        assert python_calls(call) == 0


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.float64(2)], ids=repr)
def test_outputs_of_numbers_alone_stay_numbers_after_many_other_calls(number: Any) -> None:
    kernel = compile("p = a + b\nr = a*2")
    x = numbers(6)
    for n in range(1, 60):
        y = numbers(n, seed=n)
        p, r = kernel(number, y)
        assert np.shape(p) == (n,) and np.shape(r) == () and r == 4 and same_bits(p, (number + y).astype(p.dtype))
        kernel(y, number)
    with pytest.raises(ShapeError, match="shape"):
        kernel(number, x, out=(np.empty_like(x), np.empty_like(x)))
    assert kernel(number, x, out=(np.empty_like(x), np.empty((), "f4" if type(number) is not np.float64 else "f8")))


@pytest.mark.parametrize("n", [50, 3000, 200_000])
def test_repeated_calls_into_overlapping_places_are_as_if_all_had_been_read_first(n: int) -> None:
    kernel, two = compile("out = x*y + 1"), compile("a = x + y\nb = x - y")
    for repeat in range(REPEATS):
        for shift in (0, 1, -1, 7, n):
            memory = numbers(3 * n, seed=repeat)
            x, y, out = memory[n : 2 * n], numbers(n, seed=9), memory[n + shift : 2 * n + shift]
            expected = x * y + 1
            assert kernel(x, y, out=out) is out
            assert same_bits(out, expected)
            memory = numbers(3 * n, seed=repeat)
            x, a, b = memory[n : 2 * n], memory[n : 2 * n], memory[n + shift : 2 * n + shift]
            if abs(shift) < n and shift:
                b = memory[2 * n :]
            sums, differences = x + y, x - y
            two(x, y, out=(a, b))
            assert same_bits(b, differences)
            assert b is a or same_bits(a, sums) or np.shares_memory(a, b)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "i8", "u8", "f2"])
def test_python_numbers_in_repeated_calls_become_what_numpy_makes_of_them(dtype: str) -> None:
    kernel = compile("out = x + y")
    x = (np.arange(3000) % 50).astype(dtype)
    given: list[Any] = [1, -3, 100, 2**24 + 1, 2**31, 2**53 + 1, -(2**63), 2**64 - 1, 2**70, True]
    given += [0.1, -0.0, 1e300, 3.4028235677973366e38, 3.4028234e38, float("nan"), float("inf"), 1e-46]
    for _ in range(REPEATS):
        for value in given:
            if isinstance(value, float) and x.dtype.kind != "f":
                continue
            try:
                with np.errstate(over="ignore"):
                    operand = np.asarray(value, x.dtype)
            except OverflowError:
                with pytest.raises(NumberRangeError):
                    kernel(x, value)
                continue
            with np.errstate(over="ignore"):
                wanted = (x.astype("f4") + operand.astype("f4")).astype(dtype) if dtype == "f2" else x + operand
                found = kernel(x, value)
            assert found.dtype == x.dtype and same_bits(found, wanted), value


def test_what_is_refused_is_refused_each_time() -> None:
    kernel = compile("x: f32[n]; y: f32[n]; out = x*y")
    plain = compile("out = x*y")
    x, y = numbers(4000), numbers(4000, seed=1)
    locked = np.empty_like(x)
    locked.flags.writeable = False
    for _ in range(REPEATS):
        assert same_bits(kernel(x, y), x * y)
        with pytest.raises(ShapeError):
            kernel(x, y[:1])
        with pytest.raises(ShapeError):
            kernel(x[:5], y[:4])
        for k in (kernel, plain):
            with pytest.raises(ReadOnlyError):
                k(x, y, out=locked)
            with pytest.raises(ShapeError):
                k(x, y, out=np.empty(3, np.float32))
        assert plain(x, y, out=np.empty(4000)).dtype == np.float64


def test_more_kinds_of_calls_than_are_remembered() -> None:
    kernel = compile("out = x*2 + y")
    for _ in range(3):
        for n in range(2000, 2000 + 3 * fastcall._PREPARED_CALLS):
            x = numbers(2, n, seed=n)
            assert same_bits(kernel(x, x[1]), x * 2 + x[1])


def test_the_limit_of_threads_holds_in_repeated_calls() -> None:
    kernel = compile("out = exp(x)*y")
    x, y = numbers(500_000), numbers(500_000, seed=1)
    with threads.limit(1):
        expected = kernel(x, y)
    for _ in range(REPEATS):
        for count in (1, 2, 3, 500):
            with threads.limit(count):
                assert same_bits(kernel(x, y), expected)
        assert same_bits(kernel(x, y), expected)


def test_repeated_calls_leak_nothing_and_keep_nothing_alive() -> None:
    kernel, two = compile("out = x*y"), compile("a = x + y\nb = x - y")
    x, y = numbers(30, 900), numbers(900, seed=1)
    out, places = np.empty_like(x), (np.empty_like(x), np.empty_like(x))
    base = numbers(30 * 900 + 1)
    behind, ahead = base[:-1].reshape(30, 900), base[1:].reshape(30, 900)
    held: list[Any] = [x, y, out, *places, x.dtype, kernel, two, base]

    def calls() -> None:
        for _ in range(50):
            kernel(x, y), kernel(x, 0.5), kernel(x, y, out=out), two(x, y), two(x, y, out=places)
            # Like a prepared call until its outputs or numbers are looked at.
            kernel(behind, y, out=ahead), kernel(x, 2**30 + 1), two(x, y, out=(places[0], ahead))

    calls()
    for k in (kernel, two):
        held += [r for r in k._fast._records if r is not None] if k._fast is not None else []
    before = [sys.getrefcount(h) for h in held]
    calls()
    assert [sys.getrefcount(h) for h in held] == before


def test_many_threads_repeat_calls_of_their_own_shapes() -> None:
    kernel = compile("out = x*y + exp(y)")
    wrong: list[int] = []

    def work(number: int) -> None:
        shapes = [(number + 2, 3000 + number), (40_000 + number,), (5, 2)]
        operands = [(numbers(*s, seed=number), numbers(*s[-1:], seed=number + 1)) for s in shapes]
        expected = [kernel(x, y) for x, y in operands]
        for _ in range(60):
            for (x, y), wanted in zip(operands, expected, strict=True):
                if not same_bits(kernel(x, y), wanted):
                    wrong.append(number)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def _repeat_in_a_child(queue: Any, kernel: Any, x: Array, expected: Array) -> None:
    with threads.limit(3):
        queue.put(all(same_bits(kernel(x), expected) for _ in range(3)))


def test_a_forked_child_repeats_its_parents_call_with_threads_of_its_own() -> None:
    kernel, x = compile("out = exp(x) + 1"), numbers(800_000)
    fork = multiprocessing.get_context("fork")
    with threads.limit(3):
        expected = [kernel(x) for _ in range(3)][-1]
        queue = fork.Queue()
        child = fork.Process(target=_repeat_in_a_child, args=(queue, kernel, x, expected))
        child.start()
        assert queue.get(timeout=60)
        child.join(60)
        assert child.exitcode == 0 and same_bits(kernel(x), expected)


def test_operands_by_name_and_numbers_in_front_are_calls_like_any_other() -> None:
    kernel = compile("out = a*x + b")
    x, b = numbers(3000), numbers(3000, seed=1)
    expected = np.float32(2.5) * x + b
    for _ in range(REPEATS):
        assert same_bits(kernel(2.5, x, b), expected)
        assert same_bits(kernel(a=2.5, x=x, b=b), expected)
        assert same_bits(kernel(2.5, b=b, x=x, out=np.empty_like(x)), expected)
        assert same_bits(kernel(3, x, 1), np.float32(3) * x + np.float32(1))
        assert kernel(1.0, 2.0, 3) == 5.0
    assert python_calls(lambda: kernel(2.5, x, b)) == 0
    fast = kernel._fast
    assert fast is None or len(fast._places) == 2


@pytest.mark.parametrize("row", [(40,), (40, 1)])
def test_results_are_laid_out_alike_in_first_and_repeated_calls(row: tuple[int, ...]) -> None:
    kernel, repeated = compile("out = y + x"), np.broadcast_to(numbers(40).reshape(row), (40, 40))
    for x in (numbers(1600).reshape(40, 40), np.asfortranarray(numbers(1600).reshape(40, 40))):
        wanted = np.add(repeated, x).flags
        for _ in range(REPEATS):
            found = kernel(repeated, x).flags
            assert (found.c_contiguous, found.f_contiguous) == (wanted.c_contiguous, wanted.f_contiguous)


def test_calls_of_one_kind_are_remembered_once() -> None:
    kernel = compile("out = x*y")
    x, y = numbers(3000), numbers(3000, seed=1)
    for _ in range(3 * fastcall._PREPARED_CALLS):
        kernel(x, y, out=x[:])
        kernel(np.float32(2), y)
        kernel(y=y, x=x)
    assert kernel._fast is None or len(kernel._fast._places) == 2


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u4", "?"])
def test_scalars_of_numpy_in_repeated_calls_are_arrays_without_axes(dtype: str) -> None:
    kernel = compile("out = where(x > y, x, y)" if dtype == "?" else "out = x + y")
    x = (np.arange(2000) % 2).astype(dtype)
    for repeat in range(2 * REPEATS):
        for scalar in (x.dtype.type(repeat), x.dtype.type(1)):
            wanted = np.maximum(x, scalar) if dtype == "?" else x + scalar
            assert same_bits(kernel(x, scalar), wanted)
            assert same_bits(kernel(scalar, x), wanted)
            assert same_bits(kernel(x, scalar, out=np.empty_like(x)), wanted)
            assert same_bits(kernel(x, np.asarray(scalar)), wanted)
        wide = np.float64(0.1)  # not a number that takes the array's dtype
        if dtype == "f4":
            assert kernel(x, wide).dtype == np.float64 and same_bits(kernel(x, wide), x + wide)
    scalar = x.dtype.type(1)
    assert python_calls(lambda: kernel(x, scalar)) == 0


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "u1", "?"])
def test_arrays_that_came_through_pickle_are_like_any_other(dtype: str) -> None:
    kernel, x = compile("where(x == y, x, y)"), (numbers(40, 30, seed=1) > 0).astype(dtype)
    copies = [pickle.loads(pickle.dumps(a)) for a in (x, x[:, ::2], x[0], x[:3].copy())]  # noqa: S301 our own
    swapped = np.ones((40, 30), ">f4")
    assert all(c.dtype is not x.dtype for c in copies)
    for copy in copies:
        place = np.empty_like(copy)
        for call in (lambda: kernel(copy, copy), lambda: kernel(copy, copy, out=place), lambda: kernel(x[0, :1], copy)):  # noqa: B023
            for _ in range(REPEATS):
                found = call()
            assert python_calls(call) == 0
            assert found.dtype == x.dtype and found.shape == copy.shape
            assert kernel(swapped, swapped).dtype == np.float32
        assert same_bits(copy, place) and same_bits(copy, kernel(copy, copy))


@pytest.mark.parametrize("shape", [(1,), (511,), (512,), (700,), (32768,), (70_000,), (64, 1024), (2, 600), (65, 513)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("places", ["fresh first", "out first", "numbers"])
def test_repeated_calls_with_operands_that_stand_still(shape: tuple[int, ...], dtype: str, places: str) -> None:
    kernel = compile("out = (x - m)/sqrt(v + 1)")
    x = numbers(*shape, dtype=dtype)
    for own in ((), (*shape[:-1], 1), shape):
        m, v = numbers(*own, seed=1, dtype=dtype), abs(numbers(*own, seed=2, dtype=dtype))
        given: list[Any] = [x, m, v] if places != "numbers" else [x, 0.25, 3]
        converted = [np.asarray(a, dtype) for a in given]
        expected = (x - converted[1]) / np.sqrt(converted[2] + np.dtype(dtype).type(1))
        out = np.empty(shape, dtype)
        for repeat in range(REPEATS):
            fresh = (repeat + (places == "out first")) % 2 == 0
            assert same_bits(kernel(*given) if fresh else kernel(*given, out=out), expected)


@pytest.mark.parametrize("near_bytes, may_stay", [(1 << 30, True), (1 << 20, False)])
def test_what_a_call_writes_again_stays_in_the_caches_that_hold_all_of_it(
    near_bytes: int, may_stay: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "cache_for_results_bytes", lambda: 1 << 16)
    monkeypatch.setattr(host, "caches_of_threads_bytes", lambda count: near_bytes)
    kernel = compile("out = x*y + 0.5")
    x, y = numbers(200_000), numbers(200_000, seed=1)
    expected = x * y + np.float32(0.5)
    places = [np.empty_like(x) for _ in range(2)]
    for out in places * 2:
        kernel(x, y, out=out)
    assert python_calls(lambda: kernel(x, y, out=places[0])) == 0
    for out, is_again in ((places[1], False), (places[1], True), (places[1], True), (places[0], False)):
        out[:] = 0
        with watched(kernel.specialisation((x.dtype, y.dtype)).loop, 2, [out]) as passes:
            kernel(x, y, out=out)
        assert same_bits(out, expected)
        past = {flags & STREAMING for vectors, flags, direct in passes if direct and vectors > 1}
        assert past == {0 if is_again and may_stay else STREAMING}
        assert all(flags & ASKS for vectors, flags, direct in passes if direct and vectors > 1)


@pytest.mark.parametrize("text, n, gives_up", [
    ("x + y", 20_000, False), ("x + y", 500_000, True), ("exp(sin(x))*y", 1000, False), ("exp(sin(x))*y", 20_000, True),
])  # fmt: skip
def test_the_interpreters_lock_is_given_up_for_work_that_is_worth_it(text: str, n: int, gives_up: bool) -> None:
    kernel, x, y = compile(f"out = {text}"), numbers(n), numbers(n, seed=1)
    for _ in range(2):
        kernel(x, y)
    assert kernel._fast is not None
    (record,) = [r for r in kernel._fast._records if r is not None]
    assert bool(record._fields[fastcall._RELEASES]) is gives_up
