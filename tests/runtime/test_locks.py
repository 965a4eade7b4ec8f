"""Locks: free after an interrupt wherever it comes, and free in a forked child."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from fuseline.runtime.locks import Lock

INTERRUPTED = """
import random, signal, threading
from fuseline.runtime.locks import Lock

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
lock = Lock()
for interrupts in range(500):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, 6e-5))
        while True:
            with lock:
                pass
    except KeyboardInterrupt:
        pass
    free = []
    other = threading.Thread(target=lambda: free.append(lock.acquire(blocking=False)) or lock.release())
    other.start()
    other.join()
    assert free == [True], f"held after {interrupts} interrupts"
"""


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="Python 3.14 takes interrupts between any lock and the statement that frees it"
)
def test_an_interrupt_never_leaves_a_lock_held() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_thread_may_take_its_lock_again() -> None:
    lock = Lock()
    with lock, lock:
        found: list[bool] = []
        other = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
        other.start()
        other.join()
    assert found == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this machine")
def test_a_forked_child_finds_a_lock_free_that_another_thread_held() -> None:
    lock, held, finish = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            finish.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(30)
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    _, status = os.waitpid(child, 0)
    finish.set()
    other.join()
    assert os.waitstatus_to_exitcode(status) == 0
