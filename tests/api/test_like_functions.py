"""Kernels look like the functions that they are of, and take ``out=...`` as NumPy's ufuncs do."""

from __future__ import annotations

import functools
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import fuseline as fl

SCALE = np.float32([2.0])


def affine(x: Any, b: Any) -> Any:
    """x*2 + b."""
    return x * 2.0 + b


def total(x: Any) -> Any:
    return np.sum(x)


def scaled(x: Any) -> Any:
    return x * SCALE


@pytest.mark.parametrize("function", [affine, total, scaled])
def test_a_fused_function_has_what_functools_wraps_would_give_it(function: Any) -> None:
    kernel = fl.fuse(function)
    for name in ("__name__", "__qualname__", "__module__"):
        assert getattr(kernel, name) == getattr(function, name)
    assert kernel.__wrapped__ is function and inspect.unwrap(kernel) is function
    if function.__doc__:
        assert kernel.__doc__ == function.__doc__
    assert list(inspect.signature(kernel).parameters)[-1] == "out"  # the kernel's own
    again = pickle.loads(pickle.dumps(kernel))  # noqa: S301 - our own bytes
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(again, name) == getattr(kernel, name)

    @functools.wraps(kernel)
    def around(*args: Any) -> Any:
        return kernel(*args)

    assert around.__name__ == function.__name__ and around.__wrapped__ is kernel


def test_a_kernel_is_called_by_its_name() -> None:
    assert fl.compile("x + 1").__name__ == "kernel"
    named = fl.compile("x + 1", name="plus_one")
    assert named.__name__ == named.__qualname__ == named.ufunc.__name__ == "plus_one"
    assert fl.fuse(affine, name="other").__name__ == "other"
    assert fl.fuse(lambda x: x + 1).__name__ == "<lambda>"
    assert fl.compile(named).name == "plus_one"


@pytest.mark.parametrize(
    "kernel", [fl.compile("x*2"), fl.compile("sum(x*2)"), fl.fuse(scaled), fl.compile("p=-x; q=3")]
)
def test_an_ellipsis_for_out_gives_arrays_where_scalars_would_come(kernel: Any) -> None:
    for x in (1.5, np.float32(1.5), np.ones(()), np.ones(5), np.ones((2, 3)), np.ones(5)):
        for _ in range(3):  # calls like earlier ones go other ways
            plain, given = kernel(x), kernel(x, out=...)
            pairs = zip(plain, given, strict=True) if len(kernel.outputs) > 1 else [(plain, given)]
            for expected, found in pairs:
                assert isinstance(found, np.ndarray)
                assert found.dtype == expected.dtype and np.array_equal(found, expected)
            assert isinstance(kernel(x=x, out=...), tuple if len(kernel.outputs) > 1 else np.ndarray)
    with pytest.raises(TypeError, match="must be an array"):
        kernel(1.5, out=(...,) * len(kernel.outputs))


def test_an_ellipsis_for_out_while_a_function_is_traced_asks_for_nothing() -> None:
    inner = fl.compile("x*2")
    assert fl.fuse(lambda x: inner(x, out=...) + 1)(1.0) == 3.0
