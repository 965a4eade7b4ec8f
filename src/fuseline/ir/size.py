"""Dimensions of shapes: integers, names, and expressions over them, evaluable on integers and on arrays of them.

The same graph serves one shape and a million: a rule that multiplies sizes multiplies arrays as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fuseline.errors import ShapeError, shown_number

SizeOp = Literal["name", "+", "*", "//", "ceildiv", "max"]


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension that is not a plain integer: a name, or an expression over dimensions. Compare with ``==``."""

    op: SizeOp
    args: tuple[Dim, ...] = ()
    name: str = ""

    def __add__(self, other: Dim) -> Dim:
        return _combine("+", self, other)

    __radd__ = __add__

    def __mul__(self, other: Dim) -> Dim:
        return _combine("*", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return self if other == 1 else Size("//", (self, other))

    def ceildiv(self, other: Dim) -> Dim:
        """The quotient rounded up."""
        return self if other == 1 else Size("ceildiv", (self, other))

    def __str__(self) -> str:
        if self.op == "name":
            return self.name
        if self.op in ("ceildiv", "max"):
            return f"{self.op}({','.join(map(str, self.args))})"
        return "(" + self.op.join(map(str, self.args)) + ")"


Dim = int | Size
Shape = tuple[Dim, ...]


def named(name: str) -> Size:
    """The dimension called ``name``."""
    return Size("name", (), name)


def _combine(op: Literal["+", "*"], a: Dim, b: Dim) -> Dim:
    """Sum or product in a canonical order, constants gathered at the end, so that equal expressions compare equal."""
    neutral = 0 if op == "+" else 1
    parts: list[Dim] = []
    constant = neutral
    for side in (a, b):
        for part in side.args if isinstance(side, Size) and side.op == op else (side,):
            if isinstance(part, int):
                constant = constant + part if op == "+" else constant * part
            else:
                parts.append(part)
    if op == "*" and constant == 0:
        return 0
    parts.sort(key=str)
    if constant != neutral or not parts:
        parts.append(constant)
    return parts[0] if len(parts) == 1 else Size(op, tuple(parts))


def evaluate(dim: Dim, sizes: Mapping[str, Any]) -> Any:
    """The value of ``dim`` where ``sizes`` gives each name an integer or an array of them.

    Raises `ShapeError` naming a size that is not given.
    """
    if isinstance(dim, int):
        return dim
    if dim.op == "name":
        try:
            return sizes[dim.name]
        except KeyError:
            raise ShapeError(sizes_wanted([dim.name])) from None
    values = [evaluate(a, sizes) for a in dim.args]
    result = values[0]
    for v in values[1:]:
        match dim.op:
            case "+":
                result = result + v
            case "*":
                result = result * v
            case "//":
                result = result // v
            case "ceildiv":
                result = -(-result // v)
            case "max":
                result = np.maximum(result, v)
    return result


def sizes_wanted(names: Sequence[str]) -> str:
    """The complaint that these named sizes have no value, for a reader at the command line or in Python."""
    first = names[0]
    return (
        f"give the named size{'s' * (len(names) > 1)} {', '.join(names)}: --size {first}=4096 "
        f'(sizes={{"{first}": 4096}} in Python)'
    )


def element_count(shape: Iterable[Dim]) -> Dim:
    """The product of the dimensions; 1 for a 0-d shape."""
    total: Dim = 1
    for d in shape:
        total = total * d
    return total


def names_in(dim: Dim) -> set[str]:
    """The names a dimension depends on."""
    if isinstance(dim, int):
        return set()
    if dim.op == "name":
        return {dim.name}
    return set().union(*(names_in(a) for a in dim.args))


def broadcast(shapes: Iterable[Shape], labels: Iterable[str] = ()) -> Shape:
    """NumPy's broadcast of shapes, named sizes being equal only to themselves (and to a 1 beside them).

    Raises `ShapeError` naming the operands by ``labels``.
    """
    shapes = list(shapes)
    if len(set(shapes)) == 1:
        return shapes[0]
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        dim: Dim = 1
        for s in shapes:
            if len(s) < -axis or s[axis] == 1 or s[axis] == dim:
                continue
            if dim != 1:
                raise ShapeError(_mismatch(shapes, list(labels)))
            dim = s[axis]
        result.append(dim)
    return tuple(result)


def check_given(declared: Mapping[str, Shape | None], given: Mapping[str, tuple[int, ...]]) -> None:
    """`ShapeError` unless every declared array has its rank, its numbers, and one value for each named size."""
    bound: dict[str, tuple[int, str]] = {}
    for name, shape in declared.items():
        if shape is None:
            continue
        lengths = given[name]
        wanted = ", ".join(map(str, shape))
        if len(lengths) != len(shape):
            raise ShapeError(f"the input {name} is declared [{wanted}]; the array given has shape {lengths}")
        for dim, length in zip(shape, lengths, strict=True):
            if length != length:  # NaN stands for it, as in dask
                raise ShapeError(
                    f"the input {name} is declared [{wanted}]; the array given does not know its lengths: have them "
                    f"computed first (in dask by compute_chunk_sizes())"
                )
            if isinstance(dim, Size):
                first, where = bound.setdefault(str(dim), (length, name))
                if first != length:
                    raise ShapeError(f"the size {dim} is {first} in {where} and {length} in {name}")
            elif dim != length:
                raise ShapeError(f"the input {name} is declared [{wanted}]; the array given has shape {lengths}")


def shape_text(shape: Shape | None) -> str:
    """``T,D`` style; ``*`` for a shape that is not known yet."""
    return "*" if shape is None else ",".join([shown_number(d) if type(d) is int else str(d) for d in shape])


def _mismatch(shapes: list[Shape], labels: list[str]) -> str:
    labels = labels or [f"operand {i + 1}" for i in range(len(shapes))]
    described = " and ".join(f"{label} of shape ({shape_text(s)})" for label, s in zip(labels, shapes, strict=True))
    return f"shapes do not broadcast: {described}"
