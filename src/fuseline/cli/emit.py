"""``fuseline emit``: a program as text for another language or tool."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fuseline.api.defaults import RUN_DTYPE
from fuseline.cli.options import OutputsOption, ProgramArgument, RunDtypeOption, SizeOption
from fuseline.cli.programs import parse_names, parse_sizes, read_program
from fuseline.errors import UnsupportedError
from fuseline.files import require_place, write_atomically

if TYPE_CHECKING:
    from fuseline.ir.graph import Graph


class Target(StrEnum):
    """What a program can be written as."""

    NUMPY = "numpy"
    NUMPY_PLANNED = "numpy-planned"
    C = "c"
    LLVM = "llvm"
    ASM = "asm"
    GRAPH = "graph"
    NEST = "nest"


class Functions(StrEnum):
    """Whose exp and tanh the C text uses."""

    OWN = "own"
    LIBM = "libm"


def emit(
    program: ProgramArgument,
    target: Annotated[
        Target, typer.Option(help="NumPy text, C11, LLVM IR, assembly of this host, the graph, or its loops.")
    ],
    dtype: RunDtypeOption = RUN_DTYPE,
    shape: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Shape of arrays that are not declared; any unless given.")
    ] = None,
    size: SizeOption = None,
    outputs: OutputsOption = None,
    name: Annotated[str, typer.Option(help="Name of the function.")] = "kernel",
    functions: Annotated[
        Functions, typer.Option(help="In C: our functions written out, or calls of the C library.")
    ] = Functions.OWN,
    header: Annotated[bool, typer.Option("--header", help="The header of the C text instead.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of standard output.")
    ] = None,
) -> None:
    """Write a program as text: NumPy calls, C11, LLVM IR, assembly, its graph or its loops.

    PROGRAM is a formula, a file of one or of a graph, or - for standard input.
    """
    from fuseline.api.program import graph, optimize
    from fuseline.ir.garbage import collection_paused
    from fuseline.units import parse_shape

    if output is not None and output != "-":
        require_place(output)
    dims = None if shape is None else parse_shape(shape)
    source = read_program(program)
    with collection_paused():
        found = optimize(graph(source, dtype, parse_names(outputs), dims, parse_sizes(size) or None))
    if header and target is not Target.C:
        raise UnsupportedError(f"--header belongs to --target c, not {target.value}")
    if functions is not Functions.OWN and target is not Target.C:
        raise UnsupportedError(f"--functions {functions.value} belongs to --target c, not {target.value}")
    match target:
        case Target.GRAPH:
            text = str(found)
        case Target.NEST:
            text = _nests(found)
        case Target.C:
            text = _c(found, _identifier(name), functions, source, header)
        case _:
            from fuseline.api.emitting import emit_text

            text = emit_text(found, target.value, _identifier(name))
    _write(text if text.endswith("\n") else text + "\n", output)


def _identifier(name: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        raise UnsupportedError(f"a function is called by letters, digits and _, not {name!r}")
    return name


def _nests(found: Graph) -> str:
    """The loops of each launch; a program of several launches numbers them."""
    from fuseline.ops import OPERATIONS
    from fuseline.plan.launch import fused
    from fuseline.plan.loopnest import nest_text

    launches = fused(found).launches
    texts = [nest_text(found, launch.nest) for launch in launches]
    if len(texts) == 1:
        return texts[0]
    reduced = [n.args[0] for n in found.nodes if OPERATIONS[n.op].index_rule == "reduction"]
    open_shapes = any(n.tensor.shape is None for n in reduced)
    note = "# the axes of the reductions are not known, so they share no loops; give --shape\n" if open_shapes else ""
    return note + "\n".join(f"launch {number}:\n{text}" for number, text in enumerate(texts))


def _c(found: Graph, name: str, functions: Functions, note: str, header: bool) -> str:
    from fuseline.codegen.c import emit_program

    text = emit_program(found, name, functions.value, note=note.strip())
    return text.header if header else text.source


def _write(text: str, path: str | None) -> None:
    if path is None or path == "-":
        print(text, end="")
    else:
        write_atomically(path, text.encode())
