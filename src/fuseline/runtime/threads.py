"""The pool that large calls are shared out over: how many threads, and native workers that wait for jobs.

The calling thread always works itself and a job is complete when the caller returns, so a pool with no free thread only
means less help. There is no queue in front of a call and no lock for small calls to take; the pool's mutex is held for
a few instructions around each large call. Brief calls take it where they wake threads for a series of calls or go to
sleep themselves. A forked child starts its own workers when it first needs them.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import os
import signal
import time
from collections.abc import Iterator

from fuseline.errors import LimitError
from fuseline.runtime import control_groups, native
from fuseline.runtime.environment import THREAD_LIMIT, stated_count
from fuseline.runtime.image import immortal
from fuseline.runtime.locks import Lock

WAKING_PAYS_NS = 62_500
"""Work of less than this is over before a thread that has to be woken helps much."""
_PATIENCE_PAUSES = 2000
"""How long a free worker looks for the next job before it sleeps: some 20 to 50 microseconds."""

limit_variable: contextvars.ContextVar[int | None] = contextvars.ContextVar("fuseline_thread_limit", default=None)
"""The innermost `limit`; native code reads it."""


@contextlib.contextmanager
def limit(threads: int) -> Iterator[None]:
    """Calls made inside, by this thread or task, use at most ``threads`` threads (the caller's included).

    A thread that is started inside has the limit where Python gives threads the context of their starter, as its
    free-threaded builds do from 3.14 on.
    """
    if not 1 <= threads <= THREAD_LIMIT:
        raise LimitError(f"a thread count is from 1 to {THREAD_LIMIT}, not {threads}")
    token = limit_variable.set(threads)
    try:
        yield
    finally:
        limit_variable.reset(token)


def thread_count() -> int:
    """Threads that a large call uses here: the innermost `limit`, or `available`."""
    stated = limit_variable.get()
    return available() if stated is None else stated


@functools.cache
def available() -> int:
    """``FUSELINE_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the processors this process may use in full.

    That is the affinity mask, cut to the control group's quota (rounded up). Read once a process.
    """
    for name in ("FUSELINE_NUM_THREADS", "OMP_NUM_THREADS"):
        stated = stated_count(name)
        if stated:
            return min(stated, THREAD_LIMIT)
    return min(affinity(), control_groups.processors() or THREAD_LIMIT, THREAD_LIMIT)


def affinity() -> int:
    """Processors this process may run on."""
    mask = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(mask(0)) if mask else os.cpu_count() or 1


_LOCK_BYTES, _LOCKS = 128, 3
"""Of `%pool` in native/pool.ll: a mutex and two conditions, each with room for any system's, and then numbers."""
_PATIENCE, _THREADS, _PROCESS, _PROCESSOR, _PLACING = 2, 3, 4, 5, 6
"""The numbers, by position."""
_PLACING_CALLS = ("sched_getcpu", "sched_getaffinity", "sched_setaffinity")
"""What the C library of Linux has to ask and to say where a thread runs."""
_TAKEN = _PLACING + len(_PLACING_CALLS)
_CLOCK = _TAKEN + 1
_LANE = _CLOCK + 6
_LANE_NUMBERS = 32
_NUMBERS = _LANE + _LANE_NUMBERS
_LINES_BYTES = 128
"""Two cache lines, which some processors fetch together: the pool begins where two do."""


class Pool:
    """Native worker threads around the memory that `%pool` in native/pool.ll describes. Lives as long as its
    process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.worker_count = 0
        self._lock = Lock()
        size_bytes = _LOCKS * _LOCK_BYTES + _NUMBERS * ctypes.sizeof(ctypes.c_int64)
        self._memory = ctypes.create_string_buffer(size_bytes + _LINES_BYTES)
        immortal(self._memory)  # workers look at it until the process is gone
        self.address = -(-ctypes.addressof(self._memory) // _LINES_BYTES) * _LINES_BYTES
        libc = ctypes.CDLL(None)
        mutex, *conditions = (ctypes.c_void_p(self.address + i * _LOCK_BYTES) for i in range(_LOCKS))
        libc.pthread_mutex_init(mutex, None)
        for condition in conditions:
            libc.pthread_cond_init(condition, None)
        self._numbers = (ctypes.c_int64 * _NUMBERS).from_address(self.address + _LOCKS * _LOCK_BYTES)
        self.patience_pauses = _PATIENCE_PAUSES
        self._numbers[_PROCESS] = self.process
        self._numbers[_PROCESSOR], self._numbers[_CLOCK] = -1, time.CLOCK_MONOTONIC
        calls = [ctypes.cast(getattr(libc, name), ctypes.c_void_p) for name in _PLACING_CALLS if hasattr(libc, name)]
        if len(calls) == len(_PLACING_CALLS):
            self._numbers[_PLACING:_TAKEN] = [call.value or 0 for call in calls]

    @property
    def patience_pauses(self) -> int:
        """How long threads look for a job, and callers for the end of theirs, before they sleep."""
        return self._numbers[_PATIENCE]

    @patience_pauses.setter
    def patience_pauses(self, pauses: int) -> None:
        self._numbers[_PATIENCE] = pauses

    def ensure(self, workers: int) -> int:
        """Start threads until there are ``workers``; the number there is, smaller where the system refuses more."""
        if self.worker_count >= workers:
            return self.worker_count
        with self._lock:
            while self.worker_count < workers and self._start():
                self.worker_count += 1
                self._numbers[_THREADS] = self.worker_count
        return self.worker_count

    def _start(self) -> bool:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            # Signals belong to the threads that Python knows. An interrupt may be raised here when the mask is set.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            thread = ctypes.c_void_p()
            entry = ctypes.c_void_p(native.support().exports["fl_worker"])
            libc = ctypes.CDLL(None)
            if libc.pthread_create(ctypes.byref(thread), None, entry, ctypes.c_void_p(self.address)) != 0:
                return False
            libc.pthread_detach(thread)
            return True
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


_pools: list[Pool] = []
"""The newest is this process's; those before it belong to processes that this one was forked from."""
_pools_lock = Lock()
current_place = (ctypes.c_int64 * 1)()
"""Holds the address of the newest pool for native code, which finds its process in it."""


def pool() -> Pool:
    """The pool of this process."""
    if not _pools or _pools[-1].process != os.getpid():
        with _pools_lock:
            if not _pools or _pools[-1].process != os.getpid():
                _pools.append(Pool())
                current_place[0] = _pools[-1].address
    return _pools[-1]
