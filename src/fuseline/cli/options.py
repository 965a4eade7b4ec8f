"""Options and arguments that several commands take, each in one spelling with one help text."""

from __future__ import annotations

from typing import Annotated

import typer

from fuseline.api.defaults import EXPLAINED_DTYPE, EXPLAINED_SHAPE, MEASURED_N, QUICK_FACTOR

MEASURED_N_TEXT = f"2^{MEASURED_N.bit_length() - 1}"
EXPLAINED_SHAPE_TEXT = "x".join(map(str, EXPLAINED_SHAPE))

ProgramArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROGRAM",
        help="A formula, a file (any existing one, or *.fl) of a formula or graph, or - for standard input.",
    ),
]
SizeOption = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="NAME=COUNT", help="A named size of declared arrays, as T=4096; repeatable."),
]
ExplainedShapeOption = Annotated[
    str | None,
    typer.Option(
        "--shape", metavar="SIZES", help=f"Shape of arrays that are not declared ({EXPLAINED_SHAPE_TEXT} unless given)."
    ),
]
ExplainedDtypeOption = Annotated[
    str | None,
    typer.Option("--dtype", help=f"Dtype of arrays that are not declared ({EXPLAINED_DTYPE} unless given)."),
]
RunDtypeOption = Annotated[str, typer.Option("--dtype", help="Dtype of arrays that are not declared.")]
OutputsOption = Annotated[
    str | None,
    typer.Option("--outputs", metavar="NAMES", help="Names to return, as y,z; else those that nothing reads."),
]
DeviceFilesOption = Annotated[
    list[str] | None,
    typer.Option("--device-file", metavar="FILE", help="A file with further machines; repeatable."),
]
QuickOption = Annotated[bool, typer.Option("--quick", help=f"Measure arrays {QUICK_FACTOR} times smaller.")]
ChartOption = Annotated[
    str | None, typer.Option("--chart", metavar="FILE", help="Draw the arena (.svg, .png or .html).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys and SI units.")]
LangOption = Annotated[
    str | None, typer.Option("--lang", metavar="en|zh", help="Language of the report; the locale's unless given.")
]
