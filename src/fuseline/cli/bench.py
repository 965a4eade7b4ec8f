"""``fuseline bench``: a program measured on this host, NumPy, C and the compiled kernel side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from fuseline.api.defaults import RUN_DTYPE
from fuseline.cli.options import (
    MEASURED_N_TEXT,
    JsonOption,
    LangOption,
    OutputsOption,
    ProgramArgument,
    QuickOption,
    RunDtypeOption,
    SizeOption,
)
from fuseline.cli.programs import measured_rows, parse_names, parse_sizes, read_program
from fuseline.report.catalogue import resolve_language


def bench(
    program: ProgramArgument,
    n: Annotated[
        str, typer.Option("--n", metavar="COUNT", help="Elements of each array that is not declared.")
    ] = MEASURED_N_TEXT,
    size: SizeOption = None,
    dtype: RunDtypeOption = RUN_DTYPE,
    threads: Annotated[
        str | None, typer.Option(metavar="COUNTS", help="Thread counts, as 1,4; one and all unless given.")
    ] = None,
    outputs: OutputsOption = None,
    quick: QuickOption = False,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Measure a program on this host: NumPy, fused C loops and the compiled kernel, beside a copy of the same arrays.

    PROGRAM is a formula, a file of one or of a graph, or - for standard input. Arrays hold seeded normals.
    Ctrl-C ends the timing and leaves the rows that have a time by then.
    """
    language = resolve_language(lang)
    source = read_program(program)
    sizes, names = parse_sizes(size), parse_names(outputs)
    rows, status = measured_rows(source, n, dtype, threads, names, sizes, quick, language)
    if as_json:
        from fuseline.report.json_text import print_json

        print_json({"measured": [row.to_dict() for row in rows]})
        return status
    from fuseline.api.program import graph, optimize
    from fuseline.report.explain_document import bench_document
    from fuseline.report.terminal import print_document

    print_document(bench_document(optimize(graph(source, dtype, names)), rows, source, language))
    return status
