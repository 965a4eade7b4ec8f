"""What LLVM text is written for: an architecture, its vector width and the few instructions the printer may rely on.

A target never changes a result, only how it is reached: where an instruction is missing the printer writes an exact
substitute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fuseline.errors import UnknownNameError, nearest

Architecture = Literal["x86_64", "aarch64"]


@dataclass(frozen=True, slots=True)
class LlvmTarget:
    """``cpu`` and ``features`` are LLVM's spellings; ``native`` means the processor that compiles."""

    name: str
    architecture: Architecture
    cpu: str
    features: str
    vector_bytes: int
    """Width of the registers the loop body is written for."""
    has_fma: bool
    has_half_conversion: bool
    """Converts float16 to and from float32 in vectors, rounding to nearest even."""
    has_bfloat16_rounding: bool = False
    """Rounds float32 to bfloat16 in vectors, to nearest even, subnormals to zero (AVX512_BF16)."""
    permute: Literal["none", "avx2", "avx512", "bytes"] = "none"
    """Instructions that look up a small table held in registers."""

    loads_numbers: bool = False
    """Numbers come as whole registers from memory, as operands of other instructions where registers run out.
    A broadcast keeps one of Zen 4's two units for permutations busy."""

    prefetches_always: bool = False
    """Short bodies too ask ahead for lines of memory (decision 0035)."""

    has_slow_divider: bool = False
    """Several multiplications and comparisons take less time than a division of as many elements (decision 0037)."""

    @property
    def triple(self) -> str:
        """ELF on every system: fuseline links and loads the object itself."""
        return f"{self.architecture}-unknown-linux-gnu"


_X86_64 = LlvmTarget("x86-64", "x86_64", "x86-64", "", 16, has_fma=False, has_half_conversion=False)
_TARGETS = {
    t.name: t
    for t in (
        _X86_64,
        LlvmTarget("x86-64-v2", "x86_64", "x86-64-v2", "", 16, has_fma=False, has_half_conversion=False),
        LlvmTarget("x86-64-v3", "x86_64", "x86-64-v3", "", 32, True, True, permute="avx2"),
        LlvmTarget("x86-64-v4", "x86_64", "x86-64-v4", "", 64, True, True, permute="avx512", loads_numbers=True),
        LlvmTarget("aarch64", "aarch64", "generic", "", 16, True, True, permute="bytes"),
    )
}


def target(name: str) -> LlvmTarget:
    """The target called ``name``: x86-64, x86-64-v2, x86-64-v3, x86-64-v4 (the psABI's levels) or aarch64."""
    if name not in _TARGETS:
        close = nearest(name, _TARGETS) or list(_TARGETS)
        raise UnknownNameError(f"no code generation target {name!r}; did you mean {', '.join(close)}?")
    return _TARGETS[name]
