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

from ..errors import ShapeError

_SHORT_INNER = 8
"""An innermost axis shorter than this gives way to the longest one."""

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
    spread = [_spread(shape, s, t) for s, t in zip(shapes, strides, strict=True)]
    axes = [
        _Axis(length, tuple(t[a] for t in spread)) for a, length in enumerate(shape) if length != 1
    ]  # stable sort: equal strides keep C order
    offsets = [0] * len(shapes)
    axes = [_forwards(axis, offsets) for axis in axes]
    axes.sort(key=lambda axis: _slowness(axis, inputs), reverse=True)
    axes = _merged(axes)
    if axes and axes[-1].length < _SHORT_INNER:
        longest = max(range(len(axes)), key=lambda i: axes[i].length)
        axes.append(axes.pop(longest))
    inner = axes.pop() if axes else _Axis(1, (0,) * len(shapes))
    return _nest(axes, inner, tuple(offsets))


@dataclass(frozen=True, slots=True)
class _Axis:
    length: int
    strides: Strides


def _spread(shape: Shape, own: Shape, strides: Strides) -> Strides:
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
