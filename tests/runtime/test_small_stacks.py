"""Threads with 64 KiB of stack run every kernel: it is what some systems and programs give them."""

from __future__ import annotations

import subprocess
import sys

import pytest

SMALL_STACKS = """
import ctypes, mmap, sys
import numpy as np
import fuseline as fl

GUARD_BYTES = 4 << 20  # a frame may be larger than the page that systems leave below a stack
STACK_BYTES = (64 if sys.version_info < (3, 14) else 128) << 10
libc = ctypes.CDLL(None)
memory = mmap.mmap(-1, GUARD_BYTES + STACK_BYTES)
begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(GUARD_BYTES), 0) == 0

def on_small_stack(call):
    found = []
    entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: found.append(call()))
    attributes, thread = (ctypes.c_char * 256)(), ctypes.c_ulong()
    place = ctypes.c_void_p(begin + GUARD_BYTES)
    assert libc.pthread_attr_init(attributes) == 0
    assert libc.pthread_attr_setstack(attributes, place, ctypes.c_size_t(STACK_BYTES)) == 0
    assert libc.pthread_create(ctypes.byref(thread), attributes, entry, None) == 0
    libc.pthread_join(thread, None)
    return found[0]

def layouts(count, dtype):
    # lines, items, rows, rows past the caches
    yield [np.full(1000, 0.25, dtype)] * count
    yield [np.full(3000, 0.25, dtype)[::3]] * count
    yield [np.full((40, 38), 0.25, dtype)[:, ::2]] * count
    yield [np.full((40, 40), 0.25, dtype).T if i % 2 else np.full((40, 40), 0.25, dtype) for i in range(count)]
    yield [np.full(100_001, 0.25, dtype)[1:]] * count

def check(kernel, operands, small):
    expected = kernel(*operands)
    assert np.array_equal(on_small_stack(lambda: small(*operands)), expected)

form, dtype, *counts = sys.argv[1:]
for count in map(int, counts):
    terms = " + ".join(form.format(i) for i in range(count))
    kernel = fl.compile(f"out = {terms}")
    for operands in layouts(len(kernel.inputs), dtype):
        check(kernel, operands, kernel)
        if len(kernel.inputs) < 64:
            check(kernel, operands, kernel.ufunc)
    if form == "x{0}":
        for axis in (-1, 0, None):
            summed = fl.compile(f"out = sum({terms}{'' if axis is None else f', {axis}'})*2; m = max(x0)")
            for operands in layouts(len(kernel.inputs), dtype):
                if operands[0].ndim == 2 or axis != 0:
                    expected, got = summed(*operands), on_small_stack(lambda: summed(*operands))
                    assert all(map(np.array_equal, got, expected))
print("the same")
"""


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("counts", [("1", "2", "4", "9", "10", "11"), ("20", "36", "48", "56", "63", "80")])
def test_sums_of_operands_need_no_more_than_64_kib_of_stack(counts: tuple[str, ...], dtype: str) -> None:
    run("x{0}", dtype, *counts)


@pytest.mark.parametrize(
    ("form", "dtype", "count"), [("log1p(x{0})", "f8", "36"), ("x{0}//y", "f4", "36"), ("atan(x{0})", "f8", "20")]
)
def test_values_that_wait_need_no_more_than_64_kib_of_stack(form: str, dtype: str, count: str) -> None:
    run(form, dtype, count)


def run(*arguments: str) -> None:
    command = [sys.executable, "-c", SMALL_STACKS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "the same\n", (done.returncode, done.stderr[-2000:])
