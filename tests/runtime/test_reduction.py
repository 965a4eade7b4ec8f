"""Compiled reductions: the bits of the tree whatever the axes, the layout, the threads and the processor."""

from __future__ import annotations

import ctypes
from itertools import chain, combinations, product
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from arrays import first_difference, same_bits
from fuseline import numerics
from fuseline.codegen.llvm.reduction import (
    MOST_ROWS,
    MOST_VECTORS,
    TILE_BYTES,
    VECTOR_BYTES,
    Reduction,
    reduction_text,
)
from fuseline.codegen.llvm.target import target
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.dtype import F32, F64, I32, DType
from fuseline.ir.interpret import evaluate_node
from fuseline.ir.node import Node
from fuseline.runtime import host, jit, reduction, threads
from fuseline.runtime.image import LoadedImage

Array = NDArray[Any]
OPS = ("sum", "max", "min")
SHAPES = (
    (1,), (7,), (300,), (70_000,), (5, 3), (3, 5), (40, 17), (17, 40), (100, 16), (100, 15), (129, 130), (5000, 33),
    (2, 3, 4), (3, 20, 40), (4, 300, 20), (20, 4100, 18), (2, 70_000, 3), (3, 5, 129), (6, 7, 8, 9), (9000, 130),
)  # fmt: skip


def values(shape: tuple[int, ...], d: DType, seed: int) -> Array:
    """Numbers of many magnitudes, negative zeros among them, and often a NaN."""
    g = np.random.default_rng(seed)
    x = g.standard_normal(shape) * 10 ** g.uniform(-4, 4, shape)
    x[g.random(shape) < 0.2] = -0.0
    if g.random() < 0.3:
        x.flat[g.integers(x.size)] = np.nan
    found: Array = x.astype(d.numpy)
    return found


def node_of(op: str, d: DType, axes: tuple[int, ...], *, keepdims: bool) -> Node:
    return call(op, Expr(input_node("x", d)), axes=axes, keepdims=keepdims).node


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_axes_of_any_layout_give_the_trees_bits(shape: tuple[int, ...]) -> None:
    random = Random(str(shape))
    layouts = (np.ascontiguousarray, np.asfortranarray, lambda a: a[..., ::-1], lambda a: np.repeat(a, 2, 0)[::2])
    every = chain.from_iterable(combinations(range(len(shape)), n) for n in range(1, len(shape) + 1))
    for seed, axes in enumerate(every):
        for d in (F32, F64):
            x = random.choice(layouts)(values(shape, d, seed))
            for op in OPS:
                node = node_of(op, d, axes, keepdims=random.random() < 0.5)
                with np.errstate(all="ignore"):
                    expected = np.asarray(evaluate_node(node, [x]))
                with threads.limit(random.choice((1, 2, 3))):
                    found = reduction.reduced(node, x)
                assert found is not None and found.shape == expected.shape
                assert same_bits(found, expected), (op, axes, d, first_difference(found, expected))


def test_a_sum_of_negative_zeros_is_one() -> None:
    for shape in ((1,), (5,), (1000,), (3, 40)):
        found = reduction.reduced(node_of("sum", F32, (0,), keepdims=False), np.full(shape, -0.0, "f4"))
        assert found is not None and (found == 0).all() and np.signbit(found).all()


def test_what_no_loop_reduces_is_left_to_the_interpreter() -> None:
    whole = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert reduction.reduced(node_of("sum", I32, (0,), keepdims=False), whole) is None
    assert reduction.reduced(node_of("any", F32, (0,), keepdims=False), whole.astype("f4")) is None
    assert reduction.reduced(node_of("sum", F32, (1,), keepdims=False), np.zeros((3, 0), "f4")) is None


class Step(ctypes.Structure):
    """One step's operands."""

    _fields_ = [("start", ctypes.c_void_p), ("extent", ctypes.c_void_p), ("result", ctypes.c_void_p)]


def run_one(image: LoadedImage, start: int, extent: Array, result: int) -> None:
    operands, increments = Step(start, extent.ctypes.data, result), (ctypes.c_int64 * 3)()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kind(image.exports["body"])(ctypes.addressof(operands), ctypes.addressof(increments), 1, 0)


@pytest.mark.parametrize("name", host.target_names())
@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("d", [F32, F64], ids=str)
def test_every_target_gives_the_trees_bits_and_touches_nothing_else(name: str, op: Any, d: DType) -> None:
    chosen, size = target(name), d.bits // 8
    rows, columns = (
        LoadedImage(jit.compile_text(reduction_text(Reduction(op, d, down)), chosen, clean_up=True))
        for down in (False, True)
    )
    lanes = VECTOR_BYTES // size
    for seed, count in enumerate((1, 2, lanes - 1, lanes, lanes + 1, 16 * lanes - 1, 16 * lanes, 16 * lanes + 1, 5000)):
        x = values((count,), d, seed)
        found = np.full(3, 7, d.numpy)
        run_one(rows, x.ctypes.data, np.array([count]), found.ctypes.data + size)
        assert same_bits(found[1:2], tree(op, x)) and found[0] == found[2] == 7
    for seed, (count, width) in enumerate(
        (
            (1, lanes),
            (5, lanes + 3),
            (16, 40),
            (17, 2 * lanes),
            (300, TILE_BYTES // size),
            (MOST_ROWS, lanes + 1),
            (MOST_ROWS - 1, 2 * lanes),
        )
    ):
        x = values((count, width + 2), d, seed)[:, 1:-1]
        found = np.full(width + 2, 7, d.numpy)
        extent = np.array([count, x.strides[0], width])
        run_one(columns, x.ctypes.data, extent, found.ctypes.data + size)
        assert same_bits(found[1:-1], tree(op, x)) and found[0] == found[-1] == 7


def test_reductions_link_on_the_architecture_this_machine_does_not_have() -> None:
    for name in ("aarch64", "x86-64-v4"):
        for op, d, down in product(("sum", "max", "min"), (F32, F64), (False, True)):
            image = jit.compile_text(reduction_text(Reduction(op, d, down)), target(name), clean_up=True)
            assert set(image.exports) == {"body", "lanes"}


def tree(op: str, x: Array) -> Array:
    """The reduction over the first axis."""
    folded = (
        numerics.tree_sum(x, (0,), x.dtype)
        if op == "sum"
        else numerics.fold_axes(getattr(numerics, f"{op}imum"), x, (0,))
    )
    found: Array = folded[0] if x.ndim > 1 else folded
    return found


def test_no_pass_takes_more_than_its_list_of_levels_holds() -> None:
    assert reduction.MOST_ITEMS_A_PASS * F64.bits // 8 <= MOST_VECTORS * VECTOR_BYTES
    for block in (MOST_ROWS, reduction.MOST_ITEMS_A_PASS):
        assert block & (block - 1) == 0, "only blocks of 2**k elements are trees of their own"
