"""What a program can be written as; quick to import, so that ``--help`` can tell."""

from __future__ import annotations

from typing import Literal, get_args

EmitTarget = Literal["numpy", "numpy-planned", "c", "llvm", "asm", "graph", "nest"]
"""NumPy calls, NumPy calls in one allocation, C11, LLVM IR, assembly of this machine's body, the graph in its text
form, and the loops of each launch."""

EMIT_TARGETS: tuple[EmitTarget, ...] = get_args(EmitTarget)

Functions = Literal["own", "libm"]
"""Whose exp and tanh a C text uses: fuseline's, expanded into it, or the C library's, called by name."""
