"""What an operation does at given sizes, as data: work on each pipe, tensors read and written, bytes by convention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fuseline.errors import UnknownNameError
from fuseline.machine.dtypes import BITS

Sizes: TypeAlias = int | npt.NDArray[np.float64]
"""One size, or an array of them as float64."""

CONVENTIONS = ("inputs", "inputs+output", "inputs+scales", "inputs+scales+output")
"""What is counted as moved: operands alone, with the result, and either with the block scales of narrow formats."""

DEFAULT_CONVENTION = "inputs+output"
"""What is counted where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand or result: how many elements, their format, and the bytes of block scales an element.

    Where the data decide how much is moved, ``elements`` is the least and ``expected`` the usual number.
    """

    name: str
    elements: Sizes
    dtype: str
    output: bool = False
    scale_bytes: float = 0.0
    expected: Sizes | float | None = None

    def size_bytes(self, with_scales: bool = False, expected: bool = False) -> Sizes | float:
        """Bytes of the elements, with those of the scales where asked for and where there are any."""
        elements = self.expected if expected and self.expected is not None else self.elements
        bits = elements * BITS[self.dtype]
        total = bits // 8 if isinstance(bits, int) and bits % 8 == 0 else bits / 8
        if not with_scales or not self.scale_bytes:
            return total
        return total + elements * self.scale_bytes


@dataclass(frozen=True, slots=True)
class ShapeCost:
    """What one operation does at given sizes.

    ``work`` maps a pipe to ``(amount, dtype)``: FLOP, or OP for integer formats. ``tensors`` are what it reads and
    writes.
    """

    operation: str
    sizes: Mapping[str, Sizes]
    work: Mapping[str, tuple[Sizes, str]]
    tensors: tuple[Tensor, ...]
    dtype: str
    layout: str = ""

    @property
    def scales(self) -> str:
        """The layout of the operands' block scales; empty where they have none."""
        return self.layout if any(tensor.scale_bytes for tensor in self.tensors) else ""

    @property
    def flop(self) -> Sizes:
        """All work of all pipes, floating-point and integer alike."""
        total: Sizes = 0
        for amount, _ in self.work.values():
            total = total + amount
        return total

    def bytes(self, convention: str = DEFAULT_CONVENTION, expected: bool = False) -> Sizes | float:
        """Bytes moved under one of ``CONVENTIONS``: the least that must be, or those ``expected``."""
        if convention not in CONVENTIONS:
            raise UnknownNameError(f"unknown convention {convention!r}; use one of {', '.join(CONVENTIONS)}")
        outputs, scales = convention.endswith("+output"), "+scales" in convention
        total: Sizes | float = 0
        for tensor in self.tensors:
            if outputs or not tensor.output:
                total = total + tensor.size_bytes(scales, expected)
        return total

    @property
    def depends_on_data(self) -> bool:
        """Whether more bytes are expected than must be moved, as the experts that tokens choose decide."""
        return any(tensor.expected is not None for tensor in self.tensors)

    @property
    def conventions(self) -> tuple[str, ...]:
        """The conventions that differ for this operation."""
        return CONVENTIONS if any(tensor.scale_bytes for tensor in self.tensors) else CONVENTIONS[:2]
