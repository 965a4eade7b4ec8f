"""``fuseline emit``: a program as text for another language or tool."""

from __future__ import annotations

from typing import Annotated

import typer

from fuseline.api.defaults import RUN_DTYPE
from fuseline.cli.options import JsonOption, LangOption, OutputsOption, ProgramArgument, RunDtypeOption, SizeOption
from fuseline.cli.programs import parse_names, parse_sizes, read_program
from fuseline.codegen.targets import EmitTarget, Functions
from fuseline.errors import UnsupportedError
from fuseline.files import require_place, write_atomically


def emit(
    program: ProgramArgument,
    target: Annotated[
        EmitTarget,
        typer.Option(
            help="NumPy text, also in one allocation, C11, LLVM IR, assembly of this host, the graph, or its loops."
        ),
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
    ] = "own",
    header: Annotated[bool, typer.Option("--header", help="The header of the C text instead.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of standard output.")
    ] = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Write a program as text: NumPy calls, C11, LLVM IR, assembly, its graph or its loops.

    PROGRAM is a formula, a file of one or of a graph, or - for standard input. Texts are for compilers, in English;
    --lang is for what is said of the loops.
    """
    from fuseline.api.emitting import emit_text
    from fuseline.api.program import graph, optimize
    from fuseline.ir.garbage import collection_paused
    from fuseline.report.catalogue import resolve_language, text
    from fuseline.units import parse_shape

    language = resolve_language(lang)
    if output is not None and output != "-":
        require_place(output)
    dims = None if shape is None else parse_shape(shape)
    source = read_program(program)
    with collection_paused():
        found = optimize(graph(source, dtype, parse_names(outputs), dims, parse_sizes(size) or None))
    _require_identifier(name)
    emitted = emit_text(found, target, name, functions=functions, header=header, note=source.strip())
    written = emitted.text
    if emitted.axes_unknown:
        written = f"# {text('emit.axes_unknown', language)}\n{written}"
    if as_json:
        from fuseline.report.json_text import json_lines

        facts = {"target": target, "name": name, "inputs": found.input_names, "outputs": found.output_names}
        written = "\n".join(json_lines({**facts, "header": header, "text": written}))
    _write(written if written.endswith("\n") else written + "\n", output)


def _require_identifier(name: str) -> None:
    if not (name.isidentifier() and name.isascii()):
        raise UnsupportedError(f"a function is called by letters, digits and _, not {name!r}")


def _write(text: str, path: str | None) -> None:
    if path is None or path == "-":
        print(text, end="")
    else:
        write_atomically(path, text.encode())
