"""From the shapes and strides of a call's operands to the loop nest that visits them: pure arithmetic, remembered.

Axes are ordered by the result's strides, axes that every operand steps through evenly are merged, and the innermost
one is chosen long enough to be worth a vector loop.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fuseline.errors import ShapeError

_SHORT_INNER = 8
"""An innermost axis shorter than this gives way to the longest one."""

_BLOCK_LENGTHS = (64, 96, 80, 128, 112, 48, 32)
"""Lengths that short rows are cut to, the best first: whole vectors of the usual numbers of lanes."""
_FEWEST_ROWS = 16

Shape = tuple[int, ...]
Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops over ``outer_shape`` (slowest first) around ``inner`` items. Strides are in bytes, one an operand."""

    outer_shape: Shape
    outer_strides: tuple[Strides, ...]
    """For each outer axis, the stride of each operand."""
    inner: int
    inner_strides: Strides
    offsets: Strides
    """Bytes from each operand's first element to where its loop starts (reversed axes run forwards)."""
    native_shape: ctypes.Array[ctypes.c_int64]
    native_outer_strides: ctypes.Array[ctypes.c_int64]
    native_inner_strides: ctypes.Array[ctypes.c_int64]

    @property
    def rows(self) -> int:
        """How often the inner loop runs."""
        return math.prod(self.outer_shape)

    @property
    def items(self) -> int:
        """Elements of the result."""
        return self.rows * self.inner


def broadcast_shape(shapes: Sequence[Shape], names: Sequence[str] = ()) -> Shape:
    """The common shape of any number of operands; `ShapeError` names the two that do not fit."""
    result: list[int] = [1] * max(map(len, shapes), default=0)
    source = [0] * len(result)
    for index, shape in enumerate(shapes):
        for axis in range(1, len(shape) + 1):
            length = shape[-axis]
            if length == 1 or length == result[-axis]:
                continue
            if result[-axis] != 1:
                raise ShapeError(_misfit(shapes, names, source[-axis], index, axis))
            result[-axis] = length
            source[-axis] = index
    return tuple(result)


def _misfit(shapes: Sequence[Shape], names: Sequence[str], first: int, second: int, axis: int) -> str:
    def called(i: int) -> str:
        return f"{names[i] if i < len(names) else f'operand {i}'} of shape {shapes[i]}"

    return (
        f"{called(first)} and {called(second)} do not broadcast: axis -{axis} has lengths "
        f"{shapes[first][-axis]} and {shapes[second][-axis]}, which are neither equal nor 1"
    )


@functools.lru_cache(maxsize=1024)
def plan(shape: Shape, shapes: tuple[Shape, ...], strides: tuple[Strides, ...], inputs: int) -> Nest:
    """The nest over ``shape`` for operands of ``shapes`` and ``strides`` that broadcast to it; outputs come last."""
    spreads = [spread(shape, s, t) for s, t in zip(shapes, strides, strict=True)]
    axes = [
        _Axis(length, tuple(t[a] for t in spreads)) for a, length in enumerate(shape) if length != 1
    ]  # stable sort: equal strides keep C order
    offsets = [0] * len(shapes)
    axes = [_forwards(axis, offsets) for axis in axes]
    axes.sort(key=lambda axis: _slowness(axis, inputs), reverse=True)
    axes = _merged(axes)
    if axes and axes[-1].length < _SHORT_INNER:
        longest = max(range(len(axes)), key=lambda i: axes[i].length)
        axes.append(axes.pop(longest))
    inner = axes.pop() if axes else _Axis(1, (0,) * len(shapes))
    return _nest(*_blocked(axes, inner), tuple(offsets))


@dataclass(frozen=True, slots=True)
class _Axis:
    length: int
    strides: Strides


def spread(shape: Shape, own: Shape, strides: Strides) -> Strides:
    """Strides over ``shape``: 0 along axes that the operand is repeated along."""
    missing = len(shape) - len(own)
    return (0,) * missing + tuple(0 if own[a] == 1 else strides[a] for a in range(len(own)))


def _forwards(axis: _Axis, offsets: list[int]) -> _Axis:
    """The axis reversed where no operand runs forwards along it."""
    if max(axis.strides) > 0 or min(axis.strides) == 0:
        return axis
    for i, stride in enumerate(axis.strides):
        offsets[i] += stride * (axis.length - 1)
    return _Axis(axis.length, tuple(-s for s in axis.strides))


def _slowness(axis: _Axis, inputs: int) -> tuple[int, ...]:
    """Outputs decide, then inputs."""
    return tuple(abs(s) for s in axis.strides[inputs:] + axis.strides[:inputs])


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """Neighbouring axes joined where every operand steps from the end of one into the next of the other."""
    merged: list[_Axis] = []
    for axis in axes:
        if merged and all(o == i * axis.length for o, i in zip(merged[-1].strides, axis.strides, strict=True)):
            merged[-1] = _Axis(merged[-1].length * axis.length, axis.strides)
        else:
            merged.append(axis)
    return merged


def _blocked(outer: list[_Axis], inner: _Axis) -> tuple[list[_Axis], _Axis]:
    """The nest with its inner loop cut into short rows where an operand runs faster along another axis, as a transpose.

    Several short rows are one block of work (native/rows.ll), into which such an operand is packed line by line.
    """
    crossing = [
        (abs(axis.strides[operand]), position)
        for operand, along in enumerate(inner.strides)
        for position, axis in enumerate(outer)
        if axis.length >= _FEWEST_ROWS and 0 < abs(axis.strides[operand]) < abs(along)
    ]
    length = _block_length(inner.length) if crossing else 0
    if not length:
        return outer, inner
    rows = outer[min(crossing)[1]]
    blocks = _Axis(inner.length // length, tuple(s * length for s in inner.strides))
    others = [axis for axis in outer if axis is not rows]
    return [*others, blocks, rows], _Axis(length, inner.strides)


def _block_length(length: int) -> int:
    """A length of short rows that divides ``length``; 0 where there is none."""
    if length < 2 * max(_BLOCK_LENGTHS):
        return 0
    return next((n for n in _BLOCK_LENGTHS if length % n == 0), 0)


def _nest(outer: list[_Axis], inner: _Axis, offsets: Strides) -> Nest:
    flat = [stride for axis in outer for stride in axis.strides]
    return Nest(
        outer_shape=tuple(axis.length for axis in outer),
        outer_strides=tuple(axis.strides for axis in outer),
        inner=inner.length,
        inner_strides=inner.strides,
        offsets=offsets,
        native_shape=(ctypes.c_int64 * len(outer))(*[axis.length for axis in outer]),
        native_outer_strides=(ctypes.c_int64 * len(flat))(*flat),
        native_inner_strides=(ctypes.c_int64 * len(inner.strides))(*inner.strides),
    )
