"""Whatever the modes of the thread that compiles, code is that of the default floating-point environment."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import fuseline as fl
from fuseline.floating_point import in_default_environment

MODES = {
    "x86_64": {"down": 0x400, "up": 0x800, "zero": 0xC00},
    "aarch64": {"up": 1 << 22, "down": 2 << 22, "zero": 3 << 22},
}
"""The arguments of fesetround."""

SCRIPT = """
import ctypes, sys
import numpy as np
mode, flush = int(sys.argv[1]), sys.argv[2] == "flush"
values = [0.3, 1.5, -5.0, 0.9, 40.0, 1e-30, -0.0, 1e-39]
operands = {dtype: np.array(values, dtype) for dtype in ("f4", "f8")}
library = ctypes.CDLL(None)
environment = ctypes.create_string_buffer(64)
library.fegetenv(environment)
library.fesetround(mode)
if flush:  # MXCSR, the last word of glibc's 32 bytes, with FTZ and DAZ
    words = ctypes.cast(environment, ctypes.POINTER(ctypes.c_uint32))
    before = words[7]
    words[7] = before | 0x8040
    library.fesetenv(environment)
import fuseline as fl
from fuseline.ops import OPERATIONS
kernels = []
for name, row in sorted(OPERATIONS.items()):
    if row.exactness == "measured" and row.index_rule == "elementwise" and row.type_rule != "lookup":
        kernels.append((name, fl.compile(f"{name}({', '.join(['x', 'y'][: row.arity])})")))
kernels.append(("subnormal", fl.compile("x + 1e-40 + y")))
kernels.append(("sum", fl.compile("sum(x*1e-38, axis=0)")))
kernels.append(("numbers", fl.compile("0.1*x + 1.0/3.0 - 1e-310*1e300 + 0.7*y")))
def run():
    for name, kernel in kernels:
        for dtype in ("f4", "f8"):
            yield name, kernel(*[operands[dtype], operands[dtype][::-1].copy()][: len(kernel.inputs)])
def shown(result):
    return np.where(np.isnan(result), 0, result).tobytes().hex()
inside = [f"{name} inside {shown(result)}" for name, result in run()]
inside.append(f"a number inside {shown(fl.compile('x*y')(np.full(3, 0.25, 'f4'), 0.3))}")
library.fesetround(0)
if flush:
    words[7] = before
    library.fesetenv(environment)
print(*inside, sep="\\n")
for name, result in run():
    print(name, result.dtype, shown(result))
"""


def results(mode: int, flush: bool = False) -> str:
    """What kernels give in the default environment that were compiled in another."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(mode), "flush" if flush else "keep"],
        env={**os.environ, "FUSELINE_CACHE": "off"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


@pytest.mark.skipif(platform.machine() not in MODES or sys.platform == "darwin", reason="the modes' numbers differ")
def test_code_does_not_depend_on_how_the_thread_rounds_that_compiles_it() -> None:
    expected = results(0)
    assert expected.count("\n") > 60
    for name, mode in MODES[platform.machine()].items():
        assert results(mode) == expected, name


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="MXCSR in glibc's fenv_t")
def test_code_does_not_depend_on_whether_the_thread_flushes_subnormals() -> None:
    assert results(0, flush=True) == results(0)


@pytest.mark.skipif(platform.machine() not in MODES or sys.platform == "darwin", reason="the modes' numbers differ")
def test_the_thread_rounds_as_before_afterwards_even_after_an_error() -> None:
    library, up = ctypes.CDLL(None), MODES[platform.machine()]["up"]
    third = np.float64(1.0) / np.float64(3.0)
    seen = []

    @in_default_environment
    def function() -> None:
        seen.append(np.float64(1.0) / np.float64(3.0))
        raise ZeroDivisionError

    library.fesetround(up)
    try:
        with pytest.raises(ZeroDivisionError):
            function()
        assert library.fegetround() == up
        assert seen[0] == third < np.float64(1.0) / np.float64(3.0)
    finally:
        library.fesetround(0)


@pytest.mark.skipif(platform.machine() not in MODES or sys.platform == "darwin", reason="the modes' numbers differ")
def test_results_are_converted_into_other_outputs_in_the_default_environment() -> None:
    library, up = ctypes.CDLL(None), MODES[platform.machine()]["up"]
    k = fl.compile("s = sum(x, -1)")
    x = np.array([[1 / 3, 1e-3, 7.1]])
    expected = k(x, out=np.empty((1, 1), np.float32)).copy()
    assert expected < k(x)
    library.fesetround(up)
    try:
        for _ in range(3):
            assert k(x, out=np.empty((1, 1), np.float32)) == expected
    finally:
        library.fesetround(0)


@pytest.mark.skipif(platform.machine() not in MODES or sys.platform == "darwin", reason="the flags' numbers differ")
def test_calls_of_reductions_raise_no_flag() -> None:
    library = ctypes.PyDLL(None)
    all_flags = {"x86_64": 0x3D, "aarch64": 0x1F}[platform.machine()]
    k = fl.compile("y = x - max(x, -1); s = sum(x, 0)")
    x = np.ones((8, 100), np.float32)
    for given in (x, x, np.ones((8, 130), np.float32)[:, :100], np.asfortranarray(x), x[::-1]):
        library.feclearexcept(all_flags)
        k(given)
        assert library.fetestexcept(all_flags) == 0
