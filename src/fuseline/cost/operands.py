"""The number formats of an operation's operands as people write them: ``fp8``, ``fp8xfp4``, ``fp8xfp4->bf16``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from fuseline.errors import UnknownNameError
from fuseline.machine.dtypes import BITS, canonical_dtype

_PATTERN = re.compile(r"\s*([\w]+?)\s*(?:(?:x|×|\*)\s*([\w]+?))?\s*(?:->\s*([\w]+))?\s*$", re.IGNORECASE)
_RESULTS = {"fp8": "bf16", "fp6": "bf16", "fp4": "bf16", "i8": "i32", "i4": "i32", "tf32": "f32"}


@dataclass(frozen=True, slots=True)
class OperandTypes:
    """Formats of the left operand, the right operand and the result of a product."""

    a: str
    b: str
    out: str

    @property
    def compute(self) -> str:
        """The format whose peak the product runs at: the wider one (an FP8 by FP4 product runs at the FP8 rate)."""
        return self.a if BITS[self.a] >= BITS[self.b] else self.b

    def __str__(self) -> str:
        inputs = self.a if self.a == self.b else f"{self.a}x{self.b}"
        return inputs if self.out == result_dtype(self.compute) else f"{inputs}->{self.out}"


def result_dtype(compute: str) -> str:
    """What a product is stored as where nobody says: bf16 for floats of 8 bits and fewer, i32 for integers."""
    return _RESULTS.get(compute, compute)


def parse_operands(text: str | OperandTypes) -> OperandTypes:
    """Reads ``bf16``, ``fp8xfp4`` or ``fp8xfp4->f32``; raises ``UnknownNameError`` naming the unknown format."""
    return text if isinstance(text, OperandTypes) else _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> OperandTypes:
    whole = text.strip().lower()
    try:
        single = canonical_dtype(whole)
    except UnknownNameError as error:
        match = _PATTERN.match(text)
        if match is None or (match[2] is None and match[3] is None):
            raise UnknownNameError(str(error)) from error
        a = canonical_dtype(match[1])
        b = canonical_dtype(match[2]) if match[2] else a
        compute = a if BITS[a] >= BITS[b] else b
        return OperandTypes(a, b, canonical_dtype(match[3]) if match[3] else result_dtype(compute))
    return OperandTypes(single, single, result_dtype(single))
