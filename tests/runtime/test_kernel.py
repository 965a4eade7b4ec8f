"""Kernels as users call them, on good days and bad ones."""

from __future__ import annotations

import ctypes
import gc
import inspect
import mmap
import os
import pickle
import platform
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from arrays import same_bits
from fuseline.api.kernel import compile, fuse
from fuseline.errors import ShapeError, TypeRuleError
from fuseline.runtime import host, jit
from process_facts import code_bytes, mappings, resident_kib

SIZES = (1, 1000, 100_000)


def numbers(n: int, dtype: str = "f4", seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(n).astype(dtype)


@pytest.fixture(scope="module")
def affine() -> Any:
    return compile("out = x*b + r")


@pytest.fixture(scope="module")
def pair() -> Any:
    return compile("s = x + y\np = x*y")


# ── calling ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", SIZES)
def test_by_position_by_name_and_with_out_are_the_same_call(affine: Any, n: int) -> None:
    x, b, r = (numbers(n, seed=i) for i in range(3))
    expected = x * b + r
    out = np.empty_like(x)
    assert same_bits(affine(x, b, r), expected)
    assert same_bits(affine(x, r=r, b=b), expected)
    assert affine(x=x, b=b, r=r, out=out) is out and same_bits(out, expected)
    assert affine(x, b, r, out=(out,)) is out
    assert affine(x, b, r, out=None) is not out


@pytest.mark.parametrize("n", SIZES)
def test_several_outputs_are_a_named_tuple_and_out_takes_a_place_or_none_for_each(pair: Any, n: int) -> None:
    x, y = numbers(n), numbers(n, seed=1)
    for found in (pair(x, y), pair(x, y), pair(y=y, x=x)):
        assert found._fields == ("s", "p")
        assert same_bits(found.s, x + y) and same_bits(found.p, x * y)
    place = np.empty_like(x)
    found = pair(x, y, out=(None, place))
    assert found.p is place and same_bits(place, x * y) and same_bits(found.s, x + y)


@pytest.mark.parametrize("n", SIZES)
def test_dtypes_of_each_call_decide_even_when_they_change_between_calls(affine: Any, n: int) -> None:
    for dtypes in ("ddd", "fff", "fdf", "fff", "ddd", "ddf", "fff"):
        x, b, r = (numbers(n, d, i) for i, d in enumerate(dtypes))
        assert same_bits(affine(x, b, r), x * b + r), dtypes


@pytest.mark.parametrize("n", SIZES)
def test_python_numbers_lists_and_scalars_follow_numpy(affine: Any, n: int) -> None:
    x = numbers(n)
    assert same_bits(affine(x, 2, 0.5), x * 2 + np.float32(0.5))
    assert same_bits(affine(x, np.float64(2), 1), x * np.float64(2) + 1)
    assert same_bits(affine([1.0, 2.0], 3, 4), np.array([7.0, 10.0]))
    assert affine(2.0, 3.0, 4.0) == 10.0
    with pytest.raises(OverflowError):
        affine(np.ones(n, np.int8), 300, np.ones(n, np.int8))


def test_python_numbers_in_repeated_small_calls_take_the_arrays_dtype_or_decide_it() -> None:
    k = compile("out = x*b + r")
    for dtype in ("f4", "i2", "f8", "i2", "f4", "?"):
        x = numbers(9, "f4").astype(dtype)
        for _ in range(3):
            for b, r in ((x, x), (2, x), (x, 3), (2.5, x), (x, True), (2, 2.5)):
                expected = x * b + r
                assert same_bits(k(x, b, r), expected), (dtype, b, r)
    with pytest.raises(OverflowError):
        k(np.ones(3, np.int8), 300, 1)
    with pytest.raises(OverflowError):
        k(np.ones(3, np.int8), 300, 1)


@pytest.mark.parametrize("n", SIZES)
def test_byte_swapped_inputs_are_converted(affine: Any, n: int) -> None:
    x = numbers(n)
    assert same_bits(affine(x.astype(">f4"), x, x), x * x + x)


def test_a_zero_dimensional_call_returns_a_scalar_as_numpy_does(affine: Any) -> None:
    found = affine(np.array(2.0), np.array(3.0), np.array(1.0))
    assert isinstance(found, np.float64) and found == 7
    many = compile("out = " + " + ".join(f"a{i}" for i in range(70)))
    assert isinstance(many(*[np.float32(1)] * 70), np.float32)


def test_broadcasting_small_against_large(affine: Any) -> None:
    column, row = numbers(900)[:, None], numbers(800, seed=1)
    assert same_bits(affine(column, row, 1.0), column * row + np.float32(1))
    assert same_bits(affine(column[:3], row[:2], 1.0), column[:3] * row[:2] + np.float32(1))


def test_refusals_say_what_is_wrong(affine: Any, pair: Any) -> None:
    x = numbers(5)
    cases: list[tuple[Any, Any, str]] = [
        (lambda: affine(x, x), TypeRuleError, "the input r is missing"),
        (lambda: affine(x, x, x, x), TypeRuleError, "4 operands are given; its inputs are x, b, r"),
        (lambda: affine(x, x, x, x=x), TypeRuleError, "x is given twice"),
        (lambda: affine(x, x, z=x), TypeRuleError, "there is no input z"),
        (lambda: affine(x, x, numbers(4)), ShapeError, r"x of shape \(5,\) and r of shape \(4,\)"),
        (lambda: affine(x, x, "text"), TypeRuleError, "the input r has dtype"),
        (lambda: affine(x, x, x, out=[1, 2]), TypeRuleError, "output 'out' must be an array, not list"),
        (lambda: pair(x, x, out=x), ShapeError, "out has 1 array and kernel has 2 outputs: s, p"),
        (lambda: affine(x.astype(np.complex64), x, x), TypeRuleError, "complex64"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


def test_small_calls_neither_leak_nor_overwrite_anything(affine: Any, pair: Any) -> None:
    x, y = numbers(200), numbers(200, seed=1)
    single = np.dtype(np.float32)
    for kernel, operands in ((affine, (x, y, x)), (pair, (x, y))):
        first = kernel(*operands)
        gc.collect()
        before = [sys.getrefcount(o) for o in (*operands, single, kernel)]
        kept = [kernel(*operands) for _ in range(1000)]
        pointers = {np.asarray(k[0] if isinstance(k, tuple) else k).ctypes.data for k in kept}
        assert len(pointers) == 1000
        assert all(same_bits(np.asarray(k), np.asarray(first)) for k in kept)
        del kept
        for _ in range(1000):
            kernel(*operands)
        after = [sys.getrefcount(o) for o in (*operands, single, kernel)]
        assert all(a - b < 20 for a, b in zip(after, before, strict=True)), (before, after)
        assert isinstance(first, tuple) or (first.base is None and first.flags.owndata and first.flags.c_contiguous)


@pytest.mark.parametrize("shape", [(0,), (1,), (5, 1), (2, 3, 4), (0, 3), (1024,), (1025,), (32, 32), (33, 32)])
def test_repeated_small_calls_have_the_operands_shape(affine: Any, pair: Any, shape: tuple[int, ...]) -> None:
    x = numbers(int(np.prod(shape))).reshape(shape)
    for operand in (x, np.asfortranarray(x), x[::-1], x.astype(np.float64)):
        for _ in range(3):
            assert same_bits(affine(operand, operand, operand), operand * operand + operand)
            both = pair(operand, operand)
            assert same_bits(both.s, operand + operand) and same_bits(both.p, operand * operand)


@pytest.mark.parametrize("n", [1, 9, 200, 1024])
def test_repeated_small_calls_with_out_write_it_once_and_right_whatever_it_overlaps(affine: Any, n: int) -> None:
    x, b = numbers(n), numbers(n, seed=1)
    expected = x * b + x
    for _ in range(3):
        out = np.zeros(n, np.float32)
        count = sys.getrefcount(out)
        assert affine(x, b, x, out=out) is out and same_bits(out, expected)
        for _ in range(5):
            affine(x, b, x, out=out)
        assert sys.getrefcount(out) <= count + 1  # what the assertion above keeps
        place = x.copy()
        assert affine(place, b, place, out=place) is place and same_bits(place, expected)
        memory = np.concatenate([x, x[:1]])
        affine(memory[:-1], b, memory[:-1], out=memory[1:])
        assert same_bits(memory[1:], expected)
        spread = np.zeros((n, 2), np.float32)
        affine(x, b, x, out=spread[:, 0])
        assert same_bits(spread[:, 0], expected) and not spread[:, 1].any()
        wide = np.zeros(n)
        affine(x, b, x, out=wide)
        assert same_bits(wide, expected.astype(np.float64))
        assert same_bits(affine(x, b, x, out=np.zeros((3, n), np.float32)), np.tile(expected, (3, 1)))
        frozen = np.zeros(n, np.float32)
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            affine(x, b, x, out=frozen)
        with pytest.raises(ValueError, match="out"):
            affine(x, b, x, out=np.zeros(n - 1, np.float32) if n > 1 else np.zeros((), np.float32))


def test_its_signature_can_be_looked_at(affine: Any) -> None:
    assert str(inspect.signature(affine)) == "(x, b, r, *, out=None)"
    assert callable(affine) and "out" in (affine.__call__.__doc__ or "")


def test_nothing_of_the_caller_is_kept_alive(affine: Any) -> None:
    class Tracked(np.ndarray):
        pass

    for n in SIZES:
        x, out = numbers(n).view(Tracked), np.empty(n, np.float32).view(Tracked)
        plain = numbers(n)
        gone = [weakref.ref(a) for a in (x, out, plain)]
        affine(x, plain, 1.0)
        affine(plain, plain, plain, out=out)
        del x, out, plain
        gc.collect()
        assert [g() for g in gone] == [None] * 3


def test_a_kernel_is_pickled_as_its_program(affine: Any, tmp_path: Path) -> None:
    x = numbers(50)
    again = pickle.loads(pickle.dumps(affine))  # noqa: S301 - our own bytes
    assert same_bits(again(x, x, x), affine(x, x, x)) and again.inputs == affine.inputs
    (tmp_path / "kernel").write_bytes(pickle.dumps(affine))
    code = "import pickle, sys, numpy; print(pickle.load(open(sys.argv[1], 'rb'))(numpy.float32(2), 3, 4))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "kernel")], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == 10


@fuse
def documented(x: Any) -> Any:
    """Twice the operand, and one more."""
    return x * 2 + 1


def test_the_documentation_of_a_fused_function_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(documented))  # noqa: S301 - our own bytes
    assert again.__doc__ == documented.__doc__ == "Twice the operand, and one more."
    assert again(1.0) == 3


# ── bad days ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thousand_kernels_in_one_process_leave_nothing_behind() -> None:
    x = numbers(40)

    def some(count: int) -> int:
        """So many kernels, at most a hundred of them alive, old ones dropped ten at a time; the code that was there at
        most after a collection."""
        alive, most = [], 0
        for i in range(count):
            factor = i % 100  # the code of equal programs comes from the cache, and each kernel loads its own
            alive.append(compile(f"out = x*{factor} + {factor}"))
            assert same_bits(alive[-1](x), x * np.float32(factor) + np.float32(factor))
            if len(alive) == 100:
                del alive[:10]
            if i % 250 == 249:
                gc.collect()
                most = max(most, code_bytes())
        alive.clear()
        gc.collect()
        return most

    some(150)
    code, ranges, memory = code_bytes(), mappings(), resident_kib()
    assert code + 90 * mmap.PAGESIZE <= some(1000) <= code + 100 * 2 * mmap.PAGESIZE
    assert code_bytes() == code
    assert mappings() < ranges + 30
    assert resident_kib() - memory < 20_000


@pytest.mark.long
def test_a_thousand_kernels_alive_at_once_all_answer_and_go() -> None:
    x = numbers(40)
    assert same_bits(compile("out = x + 1")(x), x + np.float32(1))
    gc.collect()
    code, ranges, memory = code_bytes(), mappings(), resident_kib()
    kernels = [compile(f"out = x*{i} + {i}") for i in range(1000)]
    for turn in range(2):
        for i, kernel in enumerate(kernels):
            assert same_bits(kernel(x), x * np.float32(i) + np.float32(i)), turn
    assert code + 1000 * mmap.PAGESIZE <= code_bytes() <= code + 2000 * mmap.PAGESIZE
    assert resident_kib() - memory < 60_000
    del kernels, kernel
    gc.collect()
    assert code_bytes() == code
    assert mappings() < ranges + 30
    assert resident_kib() - memory < 60_000


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from fuseline.api.kernel import compile, fuse
from numpy.lib.stride_tricks import as_strided
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell starts with it ignored
what = sys.argv[1]
if what == "call":
    k = compile("out = x + y")
    k(np.ones(3, np.int8), np.ones(3, np.int8))
    big = as_strided(np.ones(1, np.int8), (1 << 40,), (0,))
    work = lambda: k(big[: 1 << 31], big[: 1 << 31])
    delay = 0.2
else:
    terms = " + ".join(f"x*{i}" for i in range(3000))
    k = compile("out = " + terms)
    work = lambda: k(np.ones(3, np.float32))
    delay = 0.5
stopped = threading.Event()

def press():
    time.sleep(delay)
    while not stopped.is_set():  # again, as a person does: Python drops one that falls into a finalizer
        os.kill(os.getpid(), signal.SIGINT)
        stopped.wait(2.0)

threading.Thread(target=press).start()
try:
    work()
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    stopped.set()
    print("interrupted", flush=True)
k2 = compile("out = x + 1")
assert k2(np.ones(3, np.float32)).tolist() == [2, 2, 2]
print("alive")
"""


@pytest.mark.parametrize("what", ["call", "compile"])
def test_ctrl_c_during_a_call_and_during_a_compilation_is_an_ordinary_interrupt(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, what],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "FUSELINE_CACHE": "off"},
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.split() == ["interrupted", "alive"]


def test_a_plainer_processor_gives_the_same_bits(tmp_path: Path) -> None:
    code = """
import sys, numpy as np
from fuseline.api.kernel import compile, fuse
x = np.random.default_rng(0).standard_normal(3000).astype(np.float32) * 8
k = compile("out = fma(x, x, 0.1) * floor(x) / (x*x + 1) + where(x > 0, maximum(x, 0.25), sqrt(-x))")
y = k(x)
h = compile("out = f16(x)*y")(x.astype(np.float16), x)
np.save(sys.argv[1], np.concatenate([y, h.astype(np.float32)]))
"""
    results = []
    for i, name in enumerate(["native", "x86-64"] if os.uname().machine == "x86_64" else ["native", "aarch64"]):
        environment = {**os.environ, "FUSELINE_TARGET": name}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / f"{i}.npy")], env=environment, check=True)
        results.append(np.load(tmp_path / f"{i}.npy"))
    assert same_bits(*results)


def test_assembly_of_this_machine_can_be_read(affine: Any) -> None:
    assert "body" in affine.emit("asm") and "define void @body" in affine.emit("llvm")
    assert "ret" in jit.assembly(affine.emit("llvm"), host.host_target())


def test_python_numbers_take_the_dtype_of_arrays_of_ml_dtypes() -> None:
    kernel, x = compile("x*y"), np.ones(3, ml_dtypes.bfloat16)
    for number in (2.0, 2, True, 0.1):
        result = kernel(x, number)
        assert result.dtype == ml_dtypes.bfloat16
        assert result.tobytes() == kernel(x, np.array(number, ml_dtypes.bfloat16)).tobytes()
    assert compile("x: bf16; s: bf16; y = x*s")(x, 2.0).dtype == ml_dtypes.bfloat16


def test_a_call_without_axes_returns_scalars_every_time() -> None:
    single, several = compile("x*2"), compile("a = x*2; b = x + 1")
    for value in (np.float32(3), np.array(3, np.float32)):
        for _ in range(4):
            assert type(single(value)) is np.float32
            assert [type(r) for r in several(value)] == [np.float32] * 2


def test_numbers_are_converted_in_the_default_environment_however_many_calls_there_were() -> None:
    library, upward = ctypes.CDLL(None), {"x86_64": 0x800, "aarch64": 0x400000}.get(platform.machine())
    if upward is None:
        pytest.skip("the number of the rounding mode is not known here")
    kernel = compile("x + y")
    library.fesetround(upward)
    try:
        results = {float(kernel(np.zeros(n, np.float32), 16777217)[0]) for n in range(1030, 1100)}
    finally:
        library.fesetround(0)
    assert results == {16777216.0}
