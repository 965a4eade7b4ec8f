"""C11 text: for reading, for embedding, and for comparing the C library's functions with our own."""

from __future__ import annotations

from fuseline.codegen.c.primitives import LIBM
from fuseline.codegen.c.text import CText, emit_c
from fuseline.codegen.lower import lower
from fuseline.codegen.targets import Functions
from fuseline.ir.graph import Graph


def emit_program(graph: Graph, name: str = "kernel", functions: Functions = "own", note: str = "") -> CText:
    """The C text of a program's graph; ``note`` goes into its opening comment."""
    return emit_c(lower(graph, library=LIBM if functions == "libm" else frozenset()), name, note)


__all__ = ["LIBM", "CText", "Functions", "emit_program"]
