"""``fuseline explain``: what a program computes, moves and keeps on a machine, and what this host makes of it."""

from __future__ import annotations

from typing import Annotated

import typer

from fuseline.api.defaults import EXPLAINED_DEVICE, EXPLAINED_DTYPE, RUN_DTYPE
from fuseline.cli.options import (
    MEASURED_N_TEXT,
    ChartOption,
    DeviceFilesOption,
    ExplainedShapeOption,
    JsonOption,
    LangOption,
    OutputsOption,
    ProgramArgument,
    QuickOption,
    SizeOption,
)
from fuseline.cli.pictures import tell_of
from fuseline.cli.programs import measured_rows, parse_names, parse_sizes, read_program
from fuseline.report.catalogue import resolve_language


def explain(
    program: ProgramArgument,
    shape: ExplainedShapeOption = None,
    size: SizeOption = None,
    dtype: Annotated[
        str | None,
        typer.Option(help=f"Dtype of arrays that are not declared ({EXPLAINED_DTYPE}; {RUN_DTYPE} where measured)."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="The machine: see fuseline device list, or host once probed.")
    ] = EXPLAINED_DEVICE,
    device_file: DeviceFilesOption = None,
    outputs: OutputsOption = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure on this host as well.")] = False,
    quick: QuickOption = False,
    n: Annotated[
        str | None, typer.Option("--n", metavar="COUNT", help=f"Elements of each measured array ({MEASURED_N_TEXT}).")
    ] = None,
    chart: ChartOption = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Explain a program: its dataflow, its traffic fused and unfused, the memory it needs, and measurements.

    PROGRAM is a formula such as "h = x + b; out = h*tanh(h)", a file of one or of a graph, or - for standard input. Put
    -- before a formula that begins with a minus. Nothing runs unless --measure (or --quick or --n) is given.
    """
    language = resolve_language(lang)
    source = read_program(program)
    sizes, names = parse_sizes(size), parse_names(outputs)
    from fuseline.api.explaining import explain as explained
    from fuseline.machine.database import device as find_device

    if chart is not None:
        from fuseline.report.chart_files import require_format

        require_format(chart)
    machine = find_device(device, device_file or ())
    found = explained(source, shape, dtype or EXPLAINED_DTYPE, machine, outputs=names, sizes=sizes)
    status = 0
    if measure or quick or n is not None:
        rows, status = measured_rows(source, n, dtype, None, names, sizes, quick, language)
        found = found.with_measurements(rows)
    if chart is not None:
        from fuseline.report.arena_chart import draw_arena

        tell_of(draw_arena(found.memory.placement, chart, language), language)
    if as_json:
        from fuseline.report.json_text import print_json

        print_json(found.to_dict())
        return status
    from fuseline.report.explain_document import explain_document
    from fuseline.report.terminal import print_document

    print_document(explain_document(found, language))
    return status
