"""Recycled memory: reused only when nobody can see it any more, bounded, and given back on request."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fuseline.api.kernel import compile
from fuseline.runtime import recycle

F32 = np.dtype(np.float32)
SHAPE = (600, 700)


def idle_bytes() -> int:
    """What the store keeps for later calls."""
    return recycle._store()[recycle._IDLE]


@pytest.fixture(autouse=True)
def nothing_idle() -> Iterator[None]:
    recycle.trim()
    yield
    recycle.trim()


def test_memory_comes_back_when_the_last_view_of_it_dies() -> None:
    first = recycle.empty(SHAPE, F32)
    address, view = first.ctypes.data, first[5:, ::2].T
    del first
    gc.collect()
    other = recycle.empty(SHAPE, F32)
    assert other.ctypes.data != address and idle_bytes() == 0
    del view
    gc.collect()
    assert idle_bytes() > 0
    assert recycle.empty(SHAPE, F32).ctypes.data == address


def test_results_are_writable_of_the_layout_asked_for_and_begin_with_a_page() -> None:
    for axes in (None, (1, 0), (0, 1)):
        a = recycle.empty(SHAPE, F32, axes)
        assert a.shape == SHAPE and a.flags.writeable and a.ctypes.data % 4096 == 0
        assert a.flags.f_contiguous if axes == (1, 0) else a.flags.c_contiguous
        a[...] = 1


def test_a_block_serves_a_request_of_nearly_its_size_and_no_other() -> None:
    block = recycle.empty((1 << 20,), F32)
    address = block.ctypes.data
    del block
    assert recycle.empty((1 << 21,), F32).ctypes.data != address
    assert recycle.empty((1 << 19,), F32).ctypes.data != address
    assert recycle.empty(((1 << 20) - 1000,), F32).ctypes.data == address


def test_idle_memory_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recycle, "bound_bytes", lambda: 10 << 20)
    arrays = [recycle.empty(((2 + i) << 18,), F32) for i in range(6)]
    del arrays[:]
    gc.collect()
    assert 0 < idle_bytes() <= 10 << 20


def test_trim_returns_everything_that_is_idle_and_nothing_in_use() -> None:
    kept, dropped = recycle.empty(SHAPE, F32), recycle.empty(SHAPE, F32)
    kept[...] = 3
    del dropped
    gc.collect()
    assert recycle.trim() >= 600 * 700 * 4 and idle_bytes() == 0 and recycle.trim() == 0
    assert np.all(kept == 3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted as Linux counts it")
@pytest.mark.parametrize("way", ["first call", "prepared call", "larger than the bound"])
def test_a_result_may_have_the_memory_that_lies_idle(way: str) -> None:
    code = f"""
import resource
import numpy as np
from fuseline.api.kernel import compile
from fuseline.runtime import recycle
k = compile("x*2 + 1")
wide = np.broadcast_to(np.float32(1), 25 << 20)
for _ in range(3 * ({way!r} == "prepared call")):
    k(wide)
recycle.trim()
results = [k(np.ones((16 + 8*i) << 20, np.float32)) for i in range(4)]
del results
assert recycle._store()[recycle._IDLE] > 400 << 20
if {way!r} == "larger than the bound":
    recycle.bound_bytes = lambda: 64 << 20
status = open("/proc/self/status").read().split()
used_bytes = int(status[status.index("VmSize:") + 1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (32 << 20), -1))
assert k(wide)[-1] == 3
"""
    environment = {**os.environ, "FUSELINE_NUM_THREADS": "1", "FUSELINE_RECYCLE_BYTES": str(1 << 30)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted as Linux counts it")
@pytest.mark.parametrize("text", ["s = sum(x, 0)", "y = x; s = sum(x)"])
def test_what_reductions_copy_may_have_the_memory_that_lies_idle(text: str) -> None:
    code = f"""
import resource
import numpy as np
import fuseline as fl
from fuseline.runtime import recycle
k, fill = fl.compile({text!r}), fl.compile("x*2 + 1")
x = np.ones((4096, 8192), np.float32)[:, ::2]
wanted = k(x)
recycle.trim()
results = [fill(np.ones((16 + 8*i) << 20, np.float32)) for i in range(4)]
del results
assert recycle._store()[recycle._IDLE] > 400 << 20
status = open("/proc/self/status").read().split()
used_bytes = int(status[status.index("VmSize:") + 1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (24 << 20), -1))
found = k(x)
for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, wanted))):
    assert np.array_equal(a, b)
"""
    environment = {**os.environ, "FUSELINE_NUM_THREADS": "1", "FUSELINE_RECYCLE_BYTES": str(1 << 30)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def test_the_store_can_be_turned_off() -> None:
    code = (
        "import numpy as np; from fuseline.runtime import recycle; "
        "a = recycle.empty((1 << 20,), np.dtype('f4')); assert a.base is None; del a; "
        "print(recycle._store()[recycle._IDLE])"
    )
    environment = {**os.environ, "FUSELINE_RECYCLE_BYTES": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_small_arrays_are_numpys_own() -> None:
    assert recycle.empty((10, 10), F32).base is None


def test_threads_never_share_a_block() -> None:
    def work(seed: int) -> bool:
        for _ in range(40):
            a = recycle.empty(SHAPE, F32)
            a[...] = seed
            if not np.all(a == seed):
                return False
        return True

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(work, range(8)))


def test_repeated_calls_take_memory_of_results_that_nobody_sees() -> None:
    kernel = compile("s = x + y\np = x*y")
    x = np.ones(SHAPE, np.float32)
    kernel(x, x)
    kernel(x, x)
    held = kernel(x, x)
    s, p = kernel(x, x)
    addresses = {s.ctypes.data, p.ctypes.data}
    assert not addresses & {a.ctypes.data for a in held}
    part = s[3:]
    del s, p
    again = kernel(x, x)
    assert addresses_of(again) & addresses and part.ctypes.data - 3 * 700 * 4 not in addresses_of(again)
    assert (part == 2).all() and (held.p == 1).all()


def addresses_of(results: tuple[np.ndarray[Any, Any], ...]) -> set[int]:
    return {r.ctypes.data for r in results}
