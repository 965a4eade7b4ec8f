"""Timing takes turns and tells its spread; the copy limit touches every byte that a kernel would."""

from __future__ import annotations

import contextlib
import functools
import platform
import re
from types import SimpleNamespace

import numpy as np
import pytest

import fuseline as fl
from fuseline.cli.main import run
from fuseline.codegen.llvm.target import target
from fuseline.errors import CompilerError, LimitError, UnsupportedError
from fuseline.runtime import cpuid, host, image, measure
from fuseline.runtime.copy_limit import copy_limit


def test_candidates_take_turns_and_the_order_rotates() -> None:
    calls: list[str] = []
    candidates = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    timings = measure.interleaved(candidates, repetitions=6, shortest_sample_s=0)
    turns = ["".join(calls[-18:][i : i + 3]) for i in range(0, 18, 3)]
    assert turns == ["abc", "bca", "cab", "abc", "bca", "cab"]
    assert all(t.samples == 6 and t.calls_a_sample == 1 for t in timings.values())


def test_a_timing_has_median_spread_and_best_of_its_samples() -> None:
    timing = measure._timing([4.0, 1.0, 3.0, 2.0, 5.0], 7)
    assert (timing.median_s, timing.spread_s, timing.best_s) == (3.0, 2.0, 1.0)


def test_short_calls_are_repeated_and_long_series_end_in_time() -> None:
    import time

    count = [0]

    def quick() -> None:
        count[0] += 1

    timings = measure.interleaved({"quick": quick, "slow": lambda: time.sleep(0.03)}, repetitions=50, time_limit_s=0.2)
    assert timings["quick"].calls_a_sample > 50
    assert 3 <= timings["slow"].samples < 50
    with pytest.raises(LimitError):
        measure.interleaved({"quick": quick}, repetitions=2)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("past_caches", [False, True])
def test_the_copy_limit_reads_every_input_and_writes_every_output(threads: int, past_caches: bool) -> None:
    generator = np.random.default_rng(0)
    n = 50_000
    a = generator.standard_normal(n).astype(np.float32)
    b = generator.integers(-100, 100, (4, 1), np.int8)
    first, second = np.zeros((4, n), np.float32), np.zeros((4, n), np.int64)
    copy_limit([a, b], [first, second], threads, past_caches=past_caches)
    bits = a.view(np.uint32).astype(np.uint64) ^ b.astype(np.uint64)
    assert np.array_equal(second.view(np.uint64), bits)
    assert np.array_equal(first.view(np.uint32), bits.astype(np.uint32))


def test_the_host_knows_its_caches_memory_and_targets() -> None:
    assert 1 << 18 <= host.last_level_cache_bytes() <= 1 << 31
    assert host.physical_memory_bytes() > 1 << 28
    assert host.host_target().architecture in host.target_names()[0].replace("-", "_")
    assert len(host.identity()) == 16 and host.processor().flags


def test_where_no_kernel_can_run_the_advice_can_be_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "target_names", list)
    with pytest.raises(UnsupportedError) as unknown:
        host.host_target()
    monkeypatch.setattr(image.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(mprotect=lambda *_: -1))
    with pytest.raises(CompilerError) as forbidden:
        image._make_executable(0, 4096)
    monkeypatch.undo()
    for advice in (str(unknown.value), str(forbidden.value)):
        (target,) = re.findall(r'kernel\.emit\("(\w+)"\)', advice)
        assert "def kernel(" in fl.compile("x + 1", name="kernel").emit(target)
        assert run(["emit", "x + 1", *re.findall(r"--target \w+", advice)[0].split()]) == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")
def test_the_level_is_one_that_this_very_process_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpuid.flags() == cpuid.NAMES & host.processor().flags  # on a machine that nothing stands before
    names = host.target_names()
    without = {"x86-64-v4": "avx512f", "x86-64-v3": "avx2", "x86-64-v2": "sse4_2"}
    for level in reversed(names[1:]):
        known = cpuid.flags() - {without[level]}
        monkeypatch.setattr(cpuid, "flags", functools.partial(frozenset, known))
        assert level not in host.target_names()
        assert host.host_target().vector_bytes <= target(names[names.index(level) - 1]).vector_bytes


def test_what_samples_are_taken_in_is_entered_before_the_clock_starts() -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def setting():
        events.append("in")
        yield
        events.append("out")

    candidates = {"a": lambda: events.append("a"), "b": lambda: events.append("b")}
    measure.interleaved(candidates, repetitions=3, shortest_sample_s=0, within={"a": setting})
    assert events.count("in") == 4
    inside = False
    for event in events:
        inside = event == "in" or (inside and event != "out")
        assert event not in ("a", "b") or inside == (event == "a")


def test_an_interrupt_leaves_the_timings_so_far() -> None:
    taken: list[str] = []

    def call(name: str) -> None:
        taken.append(name)
        if len(taken) == interrupted_at:
            raise KeyboardInterrupt

    candidates = {name: (lambda name=name: call(name)) for name in "ab"}
    warmed = 4  # each is called to warm up and once to be sized
    for samples in range(8):
        taken.clear()
        interrupted_at = warmed + samples + 1
        with pytest.raises(KeyboardInterrupt) as caught:
            measure.interleaved(candidates, repetitions=6, shortest_sample_s=0)
        found = caught.value.timings if isinstance(caught.value, measure.Interrupted) else {}
        assert sum(timing.samples for timing in found.values()) == samples
        assert all(timing.median_s >= timing.best_s > 0 and timing.spread_s >= 0 for timing in found.values())
