"""Threads: how many there are, that they never change an answer, and that forks and crowds do them no harm."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng  # loaded before any fork: a child must not wait for a parent's import

from arrays import same_bits
from fuseline.api.kernel import compile
from fuseline.errors import LimitError
from fuseline.runtime import iterate, threads
from kernels import multiply_add

LARGE = 400_000


def large_call(seed: int) -> tuple[Any, Any]:
    generator = default_rng(seed)
    x, b, r = (generator.standard_normal(LARGE).astype(np.float32) for _ in range(3))
    (found,) = iterate.run(multiply_add(), [x, b, r], [None])
    return found, x * b + r


# ── how many ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def count_in_a_process(**environment: str) -> int:
    code = "from fuseline.runtime import threads; print(threads.available())"
    clean = {k: v for k, v in os.environ.items() if k not in ("FUSELINE_NUM_THREADS", "OMP_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], env={**clean, **environment}, capture_output=True, check=True)
    return int(done.stdout)


def test_the_environment_decides_before_the_machine() -> None:
    assert count_in_a_process(FUSELINE_NUM_THREADS="3", OMP_NUM_THREADS="5") == 3
    assert count_in_a_process(OMP_NUM_THREADS="5,2") == 5
    for nonsense in ("0", "", "²", "9" * 5000, "-3", "1.5", "many"):
        found = count_in_a_process(FUSELINE_NUM_THREADS=nonsense, OMP_NUM_THREADS=nonsense)
        assert 1 <= found <= threads.affinity()


def test_a_limit_holds_inside_its_block_and_its_thread_only() -> None:
    before = threads.thread_count()
    with threads.limit(5):
        with threads.limit(2):
            assert threads.thread_count() == 2
        assert threads.thread_count() == 5
        with ThreadPoolExecutor(1) as executor:
            inherited = getattr(sys.flags, "thread_inherit_context", 0)
            assert executor.submit(threads.thread_count).result() == (5 if inherited else before)
    assert threads.thread_count() == before
    for wrong in (0, -1, threads.THREAD_LIMIT + 1):
        with pytest.raises(LimitError), threads.limit(wrong):
            pass


# ── crowds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_large_calls_from_many_threads_at_once_are_all_right() -> None:
    def work(seed: int) -> bool:
        with threads.limit(3):
            return all(same_bits(*large_call(seed * 100 + i)) for i in range(8))

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(work, range(8)))


def test_small_calls_of_many_kernels_from_many_threads_are_all_right() -> None:
    kernels = [compile(f"out = x * {i} + y") for i in range(6)]
    wrong: list[int] = []

    def work(seed: int) -> None:
        generator = default_rng(seed)
        for turn in range(300):
            i = (seed + turn) % len(kernels)
            x, y = (generator.standard_normal(1 + turn % 90).astype("f4" if turn % 3 else "f8") for _ in range(2))
            if not same_bits(kernels[i](x, y), x * x.dtype.type(i) + y):
                wrong.append(i)

    crowd = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join()
    assert not wrong


BRIEF = 40_000
"""Elements of a call that is shared with threads that are awake, and wakes none unless it is one of a series."""


def brief_calls(kernel: Any, seed: int, count: int) -> bool:
    """Whether calls in a row give what they should, each on what the one before it has left."""
    generator = default_rng(seed)
    x, b = (generator.random(BRIEF, np.float32) * np.float32(size) for size in (1.0, 0.01))
    for _ in range(count):
        expected = x * b + x
        kernel(x, b, out=x)
        if not same_bits(x, expected):
            return False
    return True


def test_brief_calls_from_many_threads_compute_every_element_once() -> None:
    k = compile("out = x * b + x")

    def work(seed: int) -> bool:
        with threads.limit(1 + seed % 3):
            return brief_calls(k, seed, 200)

    with ThreadPoolExecutor(6) as executor:
        assert all(executor.map(work, range(6)))


def shared_brief_calls(kernel: Any, thread_count: int, rounds: int) -> int:
    """Of brief calls in a row, which give what they should, how many parts other threads had taken of the last ones."""
    parts = 0
    with threads.limit(thread_count):
        for seed in range(rounds):
            assert brief_calls(kernel, seed, 50)
            word = threads.pool()._numbers[threads._LANE]  # of the lane for brief calls, see native/pool.ll
            taken, finished = word & 0xFFFFFF, word >> 24 & 0xFFFFFF
            assert word >= 0 and taken == finished and taken < 1 << thread_count - 1
            parts += taken.bit_count()
    return parts


BUSY_MACHINE_S = 120
"""Seconds in which a machine that does much else lets two threads of ours run at the same time at least once."""


@pytest.mark.skipif(threads.affinity() < 2, reason="no other processor is awake")
@pytest.mark.parametrize("thread_count", [2, 3, 6])
def test_threads_that_are_awake_take_parts_of_brief_calls(thread_count: int) -> None:
    k, end = compile("out = x * b + x"), time.monotonic() + BUSY_MACHINE_S
    parts = shared_brief_calls(k, thread_count, 400)
    while not parts and time.monotonic() < end:
        parts = shared_brief_calls(k, thread_count, 100)
    assert parts


@pytest.mark.skipif(threads.affinity() < 2, reason="no other processor is awake")
def test_a_caller_that_sleeps_until_its_helpers_have_finished_is_woken() -> None:
    pool, k = threads.pool(), compile("out = x * b + x")
    usual, end = pool.patience_pauses, time.monotonic() + BUSY_MACHINE_S
    parts_of_sleepers: list[int] = []

    def work() -> None:
        while not any(parts_of_sleepers) and time.monotonic() < end:
            pool.patience_pauses = 10_000_000  # of the threads that begin to wait now, for a tenth of a second or more
            shared_brief_calls(k, 3, 50)
            pool.patience_pauses = 0  # of callers: they do not look for the end even once
            parts_of_sleepers.append(shared_brief_calls(k, 3, 100))

    caller = threading.Thread(target=work, daemon=True)
    try:
        caller.start()
        caller.join(2 * BUSY_MACHINE_S)
        assert not caller.is_alive(), "nobody woke the caller"
        assert any(parts_of_sleepers)
    finally:
        pool.patience_pauses = usual


def test_many_threads_may_ask_for_the_first_compilation_together() -> None:
    k = compile("out = (x + 3) * y - 0.125")
    gate = threading.Barrier(8)
    x = np.linspace(0, 1, 77, dtype=np.float32)

    def work(_: int) -> Any:
        gate.wait()
        return k(x, x)

    with ThreadPoolExecutor(8) as executor:
        results = list(executor.map(work, range(8)))
    assert all(same_bits(r, (x + np.float32(3)) * x - np.float32(0.125)) for r in results)


def test_a_process_may_end_right_after_a_large_call() -> None:
    code = """
import numpy as np
from fuseline.api.kernel import compile
from fuseline.runtime import threads
x = np.ones(1 << 18, np.float32)
with threads.limit(4):
    for _ in range(5):
        y = compile("out = x*2 + 1")(x)
assert y[0] == y[-1] == 3
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (done.returncode, done.stderr)


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_a_child(queue: Any, seed: int) -> None:
    with threads.limit(3):
        queue.put(same_bits(*large_call(seed)) and same_bits(*large_call(seed + 1)))


def test_a_forked_child_computes_with_its_own_threads() -> None:
    with threads.limit(3):
        assert same_bits(*large_call(0))
        fork = multiprocessing.get_context("fork")
        queue = fork.Queue()
        children = [fork.Process(target=_in_a_child, args=(queue, seed)) for seed in range(3)]
        for child in children:
            child.start()
        answers = [queue.get(timeout=60) for _ in children]
        for child in children:
            child.join(60)
        assert answers == [True] * 3 and all(child.exitcode == 0 for child in children)
        assert same_bits(*large_call(9))


def _brief_calls_in_a_child(queue: Any, kernel: Any, seed: int) -> None:
    with threads.limit(2):
        queue.put(
            brief_calls(kernel, seed, 100) and same_bits(*large_call(seed)) and brief_calls(kernel, seed + 1, 100)
        )


def test_a_child_forked_between_brief_calls_goes_on_with_them() -> None:
    k = compile("out = x * b + x")
    fork = multiprocessing.get_context("fork")
    with threads.limit(2):
        for seed in range(5):
            assert brief_calls(k, seed, 100)  # threads are awake when the process forks
            queue = fork.Queue()
            child = fork.Process(target=_brief_calls_in_a_child, args=(queue, k, seed))
            child.start()
            assert brief_calls(k, seed, 100) and queue.get(timeout=60)
            child.join(60)
            assert child.exitcode == 0


def _compile_in_a_child(queue: Any, kernel: Any, number: int) -> None:
    x = np.linspace(0, 1, 50)
    own = compile(f"out = x * {number}.25 + 1")(x)
    queue.put(same_bits(own, x * (number + 0.25) + 1) and same_bits(kernel(x), x * 3 + 1))


def test_forks_while_other_threads_are_compiling() -> None:
    stop = threading.Event()
    newest: list[Any] = [compile("out = x * 3 + 1")]

    def busy() -> None:
        i = 0
        while not stop.is_set():
            i += 1
            newest[0] = compile("out = x * 3 + 1")
            newest[0](np.ones(3, "f8" if i % 2 else "f4"))
            compile(f"out = exp(x) * {i} + log(x)")(np.ones(3))

    crowd = [threading.Thread(target=busy) for _ in range(2)]
    for t in crowd:
        t.start()
    try:
        fork = multiprocessing.get_context("fork")
        for number in range(8):
            queue = fork.SimpleQueue()
            child = fork.Process(target=_compile_in_a_child, args=(queue, newest[0], number))
            child.start()
            child.join(60)
            assert child.exitcode == 0 and queue.get()
    finally:
        stop.set()
        for t in crowd:
            t.join()


def test_forks_while_other_threads_are_inside_large_calls() -> None:
    stop = threading.Event()
    wrong: list[bool] = []

    def busy() -> None:
        with threads.limit(3):
            while not stop.is_set():
                if not same_bits(*large_call(1)):
                    wrong.append(True)

    crowd = [threading.Thread(target=busy) for _ in range(2)]
    for t in crowd:
        t.start()
    try:
        fork = multiprocessing.get_context("fork")
        for seed in range(6):
            queue = fork.SimpleQueue()
            child = fork.Process(target=_in_a_child, args=(queue, seed))
            child.start()
            child.join(60)
            assert child.exitcode == 0 and queue.get()
    finally:
        stop.set()
        for t in crowd:
            t.join()
    assert not wrong


# ── where ────────────────────────────────────────────────────────────────────────────────────────────────────────────

PLACED = """
import os, time
import numpy as np
from fuseline.api.kernel import compile
from fuseline.runtime import threads

def tasks():
    return {int(t) for t in os.listdir("/proc/self/task")}

may = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {may[0]})  # threads of the pool inherit it: there is nowhere for them to go
kernel, x = compile("x*y + 1"), np.arange(1 << 20, dtype=np.float32)
expected, before = x * x + np.float32(1), tasks()
with threads.limit(3):
    for _ in range(20):
        assert (kernel(x, x) == expected).all()
    workers = tasks() - before
    assert len(workers) == 2 and all(os.sched_getaffinity(t) == {may[0]} for t in workers)
    for t in workers:
        os.sched_setaffinity(t, may)
    for place in (may[0], may[-1], may[0]):
        os.sched_setaffinity(0, {place})
        for pause in (0, 0, 0.001, 0.01) * 10:
            time.sleep(pause)
            assert (kernel(x, x) == expected).all()
        for t in workers:
            allowed = os.sched_getaffinity(t)
            assert allowed and allowed <= set(may) and len(allowed) >= len(may) - 1
    # Somebody restricts the whole process: whatever a thread avoided before, it stays where it is told.
    for only in (may[-1], may[0]):
        for t in tasks():
            os.sched_setaffinity(t, {only})
        for pause in (0, 0, 0.001, 0.01) * 10:
            time.sleep(pause)
            assert (kernel(x, x) == expected).all()
        assert all(os.sched_getaffinity(t) == {only} for t in workers)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be placed on this system")
def test_threads_of_the_pool_stay_where_they_may_run_when_they_make_room_for_the_caller() -> None:
    done = subprocess.run([sys.executable, "-c", PLACED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_while_a_thread_starts_leaves_no_signal_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    really = signal.pthread_sigmask

    def interrupted(how: int, mask: Any) -> Any:
        was = really(how, mask)
        if signal.SIGINT in mask:  # as CPython does for a signal that came just before
            raise KeyboardInterrupt
        return was

    monkeypatch.setattr(signal, "pthread_sigmask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads.Pool().ensure(1)
    monkeypatch.undo()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
