"""Which element of an operand an iteration of a loop nest touches.

An `IndexMap` sends loop indices to operand indices: each operand axis reads one loop (with a step and an offset) or
stays at a constant. Broadcasting, reductions, slices, flips and transposes are all of this kind, and two accesses touch
the same elements in the same iterations exactly when their maps are equal, which is what in-place reuse needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuseline.ir.size import Dim, Shape


@dataclass(frozen=True, slots=True)
class Axis:
    """One operand axis: ``offset + step * loop``; ``loop`` is None for an axis that stays at ``offset``."""

    loop: int | None
    step: int = 1
    offset: Dim = 0

    def __str__(self) -> str:
        if self.loop is None:
            return str(self.offset)
        text = f"i{self.loop}" if self.step == 1 else f"{self.step}*i{self.loop}"
        return text if self.offset == 0 else f"{text}+{self.offset}"


@dataclass(frozen=True, slots=True)
class IndexMap:
    """A map from ``loops`` loop indices to the axes of an operand, outermost first."""

    loops: int
    axes: tuple[Axis, ...]

    def depends_on(self, loop: int) -> bool:
        """Whether the operand's element changes with ``loop``."""
        return any(a.loop == loop for a in self.axes)

    def permuted(self, order: Sequence[int]) -> IndexMap:
        """The access of the operand's transpose: axis ``order[j]`` of the operand becomes axis j."""
        return IndexMap(self.loops, tuple(self.axes[j] for j in order))

    def __str__(self) -> str:
        return "[" + ",".join(map(str, self.axes)) + "]"


def identity(rank: int) -> IndexMap:
    """Loop j addresses axis j."""
    return IndexMap(rank, tuple(Axis(j) for j in range(rank)))


def lie_alike(operand: Shape | None, result: Shape | None) -> bool:
    """Whether an elementwise operation reads of an operand of shape ``operand`` exactly the position that it writes.

    So it is where both have the same axes, but for axes of length 1 before them, which move nothing. Named sizes are
    equal to themselves alone; ``None``, the caller's shape, to itself.
    """
    if operand is None or result is None or operand == result:
        return operand == result
    return _without_leading_ones(operand) == _without_leading_ones(result)


def _without_leading_ones(shape: Shape) -> Shape:
    first = next((j for j, dim in enumerate(shape) if dim != 1), len(shape))
    return shape[first:]


def broadcast_map(operand: Shape, iterated: Shape) -> IndexMap:
    """How an operand of shape ``operand`` is read in loops over ``iterated``, under NumPy's broadcasting."""
    lead = len(iterated) - len(operand)
    axes = []
    for j, dim in enumerate(operand):
        stays = dim == 1 and iterated[lead + j] != 1
        axes.append(Axis(None) if stays else Axis(lead + j))
    return IndexMap(len(iterated), tuple(axes))
