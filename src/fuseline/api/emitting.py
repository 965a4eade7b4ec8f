"""A program as text for other compilers: NumPy calls, C, LLVM IR, or the assembly of this machine's body."""

from __future__ import annotations

from typing import Literal

from fuseline.errors import UnknownNameError
from fuseline.floating_point import in_default_environment
from fuseline.ir.graph import Graph
from fuseline.runtime.compile import assembly_text, llvm_text
from fuseline.runtime.host import host_target

EmitTarget = Literal["numpy", "numpy-planned", "c", "llvm", "asm"]


@in_default_environment
def emit_text(graph: Graph, target: str, name: str) -> str:
    """The text of an optimised graph in one of the targets."""
    match target:
        case "numpy" | "numpy-planned":
            from fuseline.codegen.numpy import emit_numpy

            return emit_numpy(graph, name, planned=target == "numpy-planned")
        case "c":
            from fuseline.codegen.c import emit_program

            return emit_program(graph, name, note=f"{name}\n\n{graph}").source
        case "llvm":
            return llvm_text(graph, host_target()).text
        case "asm":
            return assembly_text(graph)
    raise UnknownNameError(f"no target is called {target!r}; there are numpy, numpy-planned, c, llvm and asm")
