"""Where the system has no memory left, calls that need some compute in what was set aside, on any thread's stack."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fuseline.runtime import reserve

NO_MALLOC = """
import ctypes, sys, threading
import numpy as np
import fuseline as fl
from fuseline.runtime import host, image, iterate, jit, native, reserve, threads
from fuseline.runtime.image import LoadedImage
target = host.host_target()
nothing = LoadedImage(jit.compile_text("define ptr @nothing(i64 %n) { ret ptr null }", target))
image.own_symbols["malloc"] = lambda: nothing.exports["nothing"]
small_stack = (64 if sys.version_info < (3, 14) else 128) << 10

def on_a_small_stack(work, count=1):
    found = []
    threading.stack_size(small_stack)
    started = [threading.Thread(target=lambda: found.append(work())) for _ in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert len(found) == count
    return found

def is_given_back():
    return list(reserve._record)[::3] == [0, 0]
"""

LARGE_FRAME = """
count = 3000
lines = [f"t{i} = x*{i}.5 + y" for i in range(count)] + ["s0 = t0"]
lines += [f"s{i + 1} = s{i}*0.5 + t{i}*t{i * 7919 % count}" for i in range(count)] + [f"out = s{count}"]
kernel = fl.compile("; ".join(lines), outputs=["out"])
x = np.linspace(0.0, 1.0, 1000, dtype=np.float32)
terms = [x * np.float32(i + 0.5) + x for i in range(count)]
expected = terms[0]
for i in range(count):
    expected = expected * np.float32(0.5) + terms[i] * terms[i * 7919 % count]
kernel.specialisation((x.dtype, x.dtype)).loop.body()
results = on_a_small_stack(lambda: kernel(x, x))
results += on_a_small_stack(lambda: kernel(x[::-1], x[::-1])[::-1])
results += on_a_small_stack(lambda: kernel.ufunc(x, x))
results += on_a_small_stack(lambda: [kernel(x, x) for _ in range(20)][-1], 4)  # in turns
assert all(r.tobytes() == expected.tobytes() for r in results)
large = np.tile(x, 40)
with threads.limit(3):
    assert kernel(large, large).tobytes() == np.tile(expected, 40).tobytes()
"""

MANY_OPERANDS = """
pairs = 1000
kernel = fl.compile("; ".join(f"o{i} = x{2*i} + x{2*i + 1}" for i in range(pairs)))
few = fl.compile(" + ".join(f"x{i}" for i in range(40)))
x = np.arange(50, dtype=np.float32)

def all_layouts():
    right = []
    for past_caches in (False, True):
        iterate._is_large = lambda operands: past_caches
        for shape in ((50,), (7, 5), (3, 50)):
            for dtype in (np.float32, np.int8):
                y = np.resize(x, shape).astype(dtype)
                for given in (y, y[..., ::2], y.T):
                    results = kernel(*[given] * (2 * pairs))
                    right.append(all(np.array_equal(r, given + given) for r in results))
                    right.append(np.array_equal(few(*[given] * 40), given * dtype(40)))
    return all(right)

all_layouts()  # compiles
assert on_a_small_stack(all_layouts) == [True]
rows = [np.ones((300, 40), np.float32)[:, ::2] for _ in range(40)]
expected = np.full((300, 20), 40, np.float32).tobytes()
with threads.limit(4):
    assert all(r.tobytes() == expected for r in on_a_small_stack(lambda: few(*rows), 3))
"""

FORKED = """
import os
names = [f"x{i}" for i in range(200)]
kernel = fl.compile(" + ".join(names))
x = np.arange(300, dtype=np.float32)[::3]
assert kernel(*[x] * 200).tolist() == (x * 200).tolist()
reserve._record[0], reserve._record[3] = 12345, 64  # as if a thread had it that the child lacks
child = os.fork()
if child == 0:
    os._exit(0 if kernel(*[x] * 200).tolist() == (x * 200).tolist() and is_given_back() else 1)
reserve._record[0] = reserve._record[3] = 0
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.parametrize("program", [LARGE_FRAME, MANY_OPERANDS, FORKED])
def test_calls_need_no_memory_that_was_not_set_aside(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NO_MALLOC + program + "\nassert is_given_back()\nprint('the same')"],
        env={**os.environ, "FUSELINE_RECYCLE_BYTES": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "the same\n", (done.returncode, done.stderr[-2000:])


NO_ROOM = """
import resource
import numpy as np
import fuseline as fl
from fuseline.runtime import native, reserve
native.support()
k = fl.compile("x*2")
reserve.ensure(1 << 21)
before = list(reserve._record)
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
try:
    reserve.ensure(1 << 33)
except MemoryError as error:
    assert "8,589,934,592 bytes" in str(error), error
    assert list(reserve._record) == before and k(np.ones(3)).tolist() == [2, 2, 2]
    print("refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to this limit")
def test_what_cannot_be_set_aside_is_a_memory_error_before_anything_runs() -> None:
    done = subprocess.run([sys.executable, "-c", NO_ROOM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "refused\n", (done.returncode, done.stderr[-2000:])


def test_what_is_set_aside_grows_and_never_shrinks() -> None:
    size_bytes = reserve._record[reserve._BYTES]
    reserve.ensure(1)
    assert reserve._record[reserve._BYTES] >= size_bytes
    reserve.ensure(size_bytes + 1)
    assert reserve._record[reserve._BYTES] > size_bytes
    assert reserve.needed_bytes(10_000, 64, 1 << 24) > reserve.needed_bytes(3, 16, 0) >= 1 << 20
