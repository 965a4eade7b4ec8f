"""The type of a value: a tensor (dtype and shape) or a tuple of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fuseline.ir.dtype import DType
from fuseline.ir.size import Shape, element_count, shape_text


@dataclass(frozen=True, slots=True)
class TensorType:
    """``shape`` is None where it is whatever the caller's arrays broadcast to (a program without declarations)."""

    dtype: DType
    shape: Shape | None = None

    def element_count(self) -> Any:
        """Number of elements, an integer or a `Size`; the shape must be known."""
        assert self.shape is not None
        return element_count(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{shape_text(self.shape)}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """The results of an operation with several; `proj` picks one."""

    items: tuple[TensorType, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


Type = TensorType | TupleType
