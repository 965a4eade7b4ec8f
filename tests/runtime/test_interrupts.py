"""Interrupts from the keyboard and handlers of signals, wherever they come: no crash, no hang, nothing left changed.

Each program runs in a process of its own, which has to end by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from fuseline.runtime.loop import Body, Loop
from kernels import loop_of, multiply_add_graph

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")

BEGIN = """
import gc, random, signal, time
import numpy as np
import fuseline as fl
x = np.ones(3, np.float32)
fl.compile("x + 1")(x)
def interrupted_after(seconds, work):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)  # one may fall into a finalizer, which Python drops
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False
signal.signal(signal.SIGALRM, signal.default_int_handler)
end = time.monotonic() + 3
"""


def run(text: str, *, before: str = "") -> str:
    """Run ``before``, the common beginning and ``text`` in a process of their own; what it prints."""
    environment = {**os.environ, "FUSELINE_CACHE": "off", "PYTHONFAULTHANDLER": "1"}
    program = before + BEGIN + text
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_an_interrupted_compilation_leaves_a_process_that_goes_on() -> None:
    count = run("""
count = 0
while time.monotonic() < end:
    k = fl.compile("x*y + 1")
    count += interrupted_after(random.uniform(5e-4, 6e-3), lambda: k(x, x))
assert fl.compile("x*y + 1")(x, x).tolist() == [2, 2, 2]
print(count)
""")
    assert int(count) > 0


def test_interrupted_calls_of_many_shapes_leave_a_process_that_goes_on() -> None:
    count = run("""
count, arrays = 0, [np.ones(n, np.float32) for n in range(1500, 1540)]
while time.monotonic() < end:
    k = fl.compile("x*y + 1")
    for a in arrays:
        count += interrupted_after(random.uniform(2e-5, 1.2e-4), lambda: (k(a, a), k(a, a)))
print(count)
""")
    assert int(count) > 0


def test_an_interrupt_while_a_call_is_prepared_leaves_no_hole_in_the_table() -> None:
    run("""
from fuseline.runtime import fastcall
address, armed = fastcall._Record.address, [True]
def once(record):
    if armed:
        armed.clear()
        raise KeyboardInterrupt
    return address.fget(record)
fastcall._Record.address = property(once)
k = fl.compile("x*y + 1")
for n in range(1500, 1530):
    a = np.ones(n, np.float32)
    try:
        assert (k(a, a) == 2).all()
    except KeyboardInterrupt:
        pass
assert not armed
""")


def test_an_interrupt_when_code_is_published_frees_nothing_that_is_called() -> None:
    run("""
import sys
from fuseline.runtime import native
publish, armed = native.publish, [True]
def once(*given):
    publish(*given)
    if armed and sys._getframe(1).f_code.co_name == "body":
        armed.clear()
        raise KeyboardInterrupt
native.publish = once
k = fl.compile("x*y + 1")
try:
    k(x, x)
except KeyboardInterrupt:
    gc.collect()
assert not armed and k(x, x).tolist() == [2, 2, 2]
""")


def test_a_handler_of_signals_may_compile_and_call() -> None:
    run("""
count = 0
def handler(*_):
    global count
    fl.compile(f"x*{count} + 1")(x)
    count += 1
    if time.monotonic() < end:
        signal.setitimer(signal.ITIMER_REAL, 5e-3)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 1e-3)
while time.monotonic() < end:
    fl.compile("x*y + 2")(x, x)
signal.setitimer(signal.ITIMER_REAL, 0)
assert count > 0
""")


def test_interrupts_leave_the_collector_and_the_rounding_mode_as_they_were() -> None:
    count = run("""
import ctypes
library = ctypes.CDLL(None)
up = {"x86_64": 0x800, "AMD64": 0x800}.get(__import__("platform").machine(), 0x400000)
library.fesetround(up)
count = 0
def forever():
    while True:
        fl.compile("x*y + 1")
while time.monotonic() < end:
    count += interrupted_after(random.uniform(1e-5, 3e-4), forever)
    assert library.fegetround() == up
library.fesetround(0)
fl.compile("x + 1")
assert gc.isenabled()
print(count)
""")
    assert int(count) > 0


def test_a_kernel_called_while_it_is_compiled_keeps_the_code_that_came_first() -> None:
    """As by a handler of signals; another thread may be running that code when the compilation it came into ends."""
    graph = multiply_add_graph()
    made: list[Body] = []
    inner: list[Body] = []

    def compile_body() -> Body:
        if not made:
            made.append(loop_of(graph).body())
            inner.append(loop.body())
        return loop_of(graph).body()

    loop = Loop((np.dtype(np.float32),) * 3, (np.dtype(np.float32),), compile_body)
    assert loop.body() is inner[0] is loop.body()


@pytest.mark.parametrize("when", ["before", "after_in_parent", "after_in_child"])
def test_a_handler_of_forks_may_compile_and_call(when: str) -> None:
    run(
        before=f"import os; os.register_at_fork({when}=lambda: late(x))\n",
        text="""
late = fl.compile("x*3 + 1")
child = os.fork()
if not child:
    os._exit(0 if late(x).tolist() == [4, 4, 4] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert late(x).tolist() == [4, 4, 4]
""",
    )


def test_a_finalizer_that_compiles_when_the_interpreter_ends_during_a_compilation_does_not_wait_for_ever() -> None:
    run("""
import threading
from fuseline.runtime import jit
late = fl.compile("x*3 + 1")
class Last:
    def __init__(self):
        self.me = self
    def __del__(self):
        late(x)
Last.kept = Last()
started = threading.Event()
def hold():
    jit._compiling.acquire()
    started.set()
    time.sleep(1000)
threading.Thread(target=hold, daemon=True).start()
started.wait()
""")
