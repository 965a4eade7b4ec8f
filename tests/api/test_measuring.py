"""Measuring answers with the rows it promises; no time is judged."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.api import measuring
from fuseline.errors import LimitError
from fuseline.runtime import threads
from fuseline.runtime.compiler import find_c_compiler
from fuseline.runtime.measure import Interrupted, Timing

COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"


@pytest.fixture(scope="module")
def rows():
    return fl.measure(COURSE, n=1 << 21, quick=True, thread_counts=(1, 2))


def test_every_implementation_has_a_row(rows):
    alone = [r.implementation for r in rows if r.threads == 1]
    assert alone == ["numpy", "numpy-planned", "c-libm", "c-own", "jit"]


def test_rows_carry_their_figures_or_say_why_not(rows):
    for r in rows:
        if r.median_s is None:
            assert r.note
            assert find_c_compiler() is None
            continue
        assert r.median_s > 0
        assert r.spread_s >= 0
        assert 0 < r.max_abs_error < 1e-5
        assert r.fraction_of_limit > 0
        assert r.bytes_per_s == pytest.approx(bytes_of(r) / r.median_s)


def bytes_of(row) -> int:
    accesses = 28 if row.implementation.startswith("numpy") else 4
    return accesses * 4 * row.n


@pytest.mark.parametrize(
    ("text", "outputs", "unfused", "fused"),
    [
        ("a = x; b = x + 1", ["a", "b"], 4, 3),
        ("y = x + b; z = x", ["y", "z"], 5, 4),
        ("a = x; b = x", ["a", "b"], 4, 3),
    ],
)
def test_rows_are_credited_with_the_arrays_that_they_move(text, outputs, unfused, fused):
    found = fl.measure(text, n=1 << 18, outputs=outputs, quick=True, thread_counts=(1,))
    for r in found:
        if r.median_s is not None:
            arrays = unfused if r.implementation.startswith("numpy") else fused
            assert r.bytes_per_s == pytest.approx(arrays * 4 * r.n / r.median_s)


def test_the_copy_limit_moves_the_arrays_of_the_fused_program(monkeypatch):
    moved = set()

    def copy_limit(inputs, outputs, *_, **options):
        moved.add((len(inputs), len(outputs)))
        return real(inputs, outputs, *_, **options)

    real = measuring.copy_limit
    monkeypatch.setattr(measuring, "copy_limit", copy_limit)
    fl.measure("x: f32[64]; q: f32[64]; a = x; b = x + 1", outputs=["a", "b"], quick=True, thread_counts=(1,))
    assert moved == {(1, 2)}, "nothing reads q"


def test_the_first_row_is_the_measure_of_speed(rows):
    assert rows[0].speedup == 1.0


def test_without_a_c_compiler_the_c_rows_say_so(monkeypatch):
    monkeypatch.setattr("fuseline.api.measuring.find_c_compiler", lambda: None)
    rows = fl.measure("y = x + 1", n=64, quick=True, thread_counts=(1,))
    silent = [r for r in rows if r.median_s is None]
    assert [r.implementation for r in silent] == ["c-libm", "c-own"]
    assert all("no C compiler" in r.note for r in silent)


def test_reductions_and_declared_sizes_are_measured():
    rows = fl.measure(
        "x: f32[T, D]; b: f32[D]; y = exp(x + b)", sizes={"T": 16, "D": 8}, quick=True, thread_counts=(1,)
    )
    assert all(r.max_abs_error is None or r.max_abs_error < 1e-4 for r in rows if r.median_s)
    softmax = "x: f32[T, D]; m = max(x, -1); e = exp(x - m); y = e/sum(e, -1)"
    rows = fl.measure(softmax, sizes={"T": 16, "D": 8}, quick=True, thread_counts=(1,))
    assert [r.implementation for r in rows if r.median_s] == ["numpy", "numpy-planned", "jit"]
    assert all(r.fraction_of_limit is None for r in rows), "a copy that reduces is no copy"


@pytest.mark.parametrize("text", ["sum(x)", "max(x, 0)", "sum(x, keepdims=True)", "any(x > 0)", "x/sum(x)"])
def test_reduced_results_are_measured(text):
    rows = fl.measure(text, n=4096, quick=True, thread_counts=(1,))
    timed = {r.implementation: r for r in rows if r.median_s}
    assert list(timed) == ["numpy", "numpy-planned", "jit"]
    assert {r.n for r in rows} == {256}
    assert all(r.max_abs_error < 1e-4 for r in timed.values())


def test_arrays_of_a_few_bytes_have_no_copy_limit():
    assert all(r.fraction_of_limit is None for r in fl.measure("x + 1", n=16, quick=True, thread_counts=(1,)))


@pytest.mark.parametrize("text", ["b: f32[1]; x + b", "b: f32[256]; x*b", "b: f32[N]; x*b", "s: f32[]; x*s"])
def test_declared_arrays_beside_others_are_read_within_their_bounds(text):
    rows = fl.measure(text, n=4096, sizes={"N": 256} if "N" in text else {}, quick=True, thread_counts=(1, 2))
    assert {r.implementation for r in rows if r.median_s} >= {"numpy", "numpy-planned", "jit"}
    assert all(r.max_abs_error < 1e-6 for r in rows if r.median_s)


def test_rows_are_named_by_the_dtype_of_the_arrays():
    assert {r.dtype for r in fl.measure("x: i64[8]; x + 1", quick=True, thread_counts=(1,))} == {"i64"}
    assert {r.dtype for r in fl.measure("y = 3", quick=True, thread_counts=(1,))} == {"i64"}


def test_arrays_beyond_the_memory_are_refused():
    with pytest.raises(LimitError, match="this machine has"):
        fl.measure("x + 1", n=1 << 45)


@pytest.mark.parametrize("command", ['"', "/nonexistent/compiler"])
def test_a_wrong_cc_costs_the_c_rows_alone(monkeypatch, command):
    monkeypatch.setenv("CC", command)
    rows = fl.measure("y = x + 1", n=64, quick=True, thread_counts=(1,))
    silent = [r for r in rows if r.median_s is None]
    assert [r.implementation for r in silent] == ["c-libm", "c-own"]
    assert all("CC" in r.note for r in silent)


def test_a_row_that_fails_leaves_the_others_their_times():
    rows = fl.measure("x: f8e4m3[64]; f32(x)*2", quick=True, thread_counts=(1,))
    timed = [r.implementation for r in rows if r.median_s]
    assert timed[:2] == ["numpy", "numpy-planned"]
    assert [r.note for r in rows if r.implementation == "jit"] == [
        "compiled kernels do not read or write f8e4m3; cast it in the caller, to bf16 or f16"
    ]
    assert all(r.fraction_of_limit is None for r in rows)


def test_arrays_are_seeded_and_of_the_dtype_asked_for() -> None:
    for name in ("f4", "f8", "i1", "?"):
        a, b = (measuring._seeded_array((100, 3), np.dtype(name), 5) for _ in range(2))
        assert a.dtype == np.dtype(name) and np.array_equal(a, b) and len(np.unique(a)) > 1


def test_a_defect_of_ours_is_no_note_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr(measuring, "errors_against_float64", broken)
    with pytest.raises(TypeError, match="a defect"):
        measuring.measure("x + b", n=100)


def test_no_thread_outlives_a_measurement() -> None:
    before = threading.active_count()
    measuring.measure("x + b", n=1000, thread_counts=[2], quick=True)
    assert threading.active_count() == before


def test_rows_are_the_calls_that_a_user_makes_and_nothing_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python runs around the calls is in every row's time: of arrays of a thousand elements it would be most."""
    frames: list[list[str]] = []

    def interleaved(candidates, **options):
        for call in candidates.values():
            call()
            entered: list[str] = []
            before = sys.getprofile()
            sys.setprofile(_recorder(entered))
            try:
                call()
            finally:
                sys.setprofile(before)
            frames.append(entered)
        return real(candidates, **options)

    real = measuring.interleaved
    monkeypatch.setattr(measuring, "interleaved", interleaved)
    rows = fl.measure(COURSE, n=1000, quick=True, thread_counts=(1,))
    python_frames = {r.implementation: found for r, found in zip((r for r in rows if r.median_s), frames, strict=False)}
    assert python_frames["jit"] == []
    assert len(python_frames["numpy"]) == len(python_frames["numpy-planned"]) == 1


def _recorder(into: list[str]):
    def record(frame, event, _):
        if event == "call":
            into.append(frame.f_code.co_name)

    return record


def test_a_row_keeps_its_number_of_threads_while_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def interleaved(candidates, *, within, **options):
        for key in candidates:
            if isinstance(key, int):
                with within[key]():
                    counts.append(threads.thread_count())
        return real(candidates, within=within, **options)

    real = measuring.interleaved
    monkeypatch.setattr(measuring, "interleaved", interleaved)
    rows = fl.measure("x + 1", n=1000, quick=True, thread_counts=(1, 3))
    assert counts == [r.threads for r in rows if r.median_s]


def test_results_beside_each_other_are_all_measured() -> None:
    for text in ("a = x + 1; b = x*y", "a = sum(x); b = x/a", "a = x + 1; c = 3", "s: f32[1]; a = x + s; b = s*2"):
        rows = fl.measure(text, n=512, quick=True, thread_counts=(1,))
        assert next(r for r in rows if r.implementation == "jit").max_abs_error is not None


def test_an_interrupt_leaves_the_rows_that_have_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def interleaved(candidates, **options):
        raise Interrupted({0: Timing(1e-3, 0.0, 1e-3, 1, 1), 1: Timing(2e-3, 1e-4, 1e-3, 2, 1)})

    monkeypatch.setattr(measuring, "interleaved", interleaved)
    with pytest.raises(KeyboardInterrupt) as caught:
        fl.measure(COURSE, n=1 << 12, thread_counts=(1,))
    rows = caught.value.rows
    assert [(r.median_s, r.spread_s) for r in rows[:2]] == [(1e-3, None), (2e-3, 1e-4)]
    assert rows[1].speedup == 0.5
    assert all(r.median_s is None and r.note for r in rows[2:])
    assert rows[-1].note == measuring.NOT_TIMED


@pytest.mark.parametrize("counts", [lambda: iter((1, 2)), lambda: np.array([1, 2]), lambda: [2, 1, 1]])
def test_thread_counts_may_come_in_anything_that_is_gone_through(counts: Callable[[], Any]) -> None:
    rows = fl.measure("y = x + 1", n=64, quick=True, thread_counts=counts())
    assert {r.threads for r in rows if r.implementation == "jit"} == {1, 2}
