"""``fuseline plan``: place buffers, or the values of a program, in one arena and say how far from best the answer
is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fuseline.cli.interrupts import INTERRUPTED
from fuseline.cli.options import (
    ChartOption,
    ExplainedDtypeOption,
    ExplainedShapeOption,
    JsonOption,
    LangOption,
    OutputsOption,
    SizeOption,
)
from fuseline.cli.pictures import tell_of
from fuseline.cli.programs import parse_names, parse_sizes, read_text
from fuseline.cli.progress import ProgressLine
from fuseline.errors import InfeasibleError, PlanError

if TYPE_CHECKING:
    from fuseline.plan.arena.types import Incumbent, Instance, PlanResult
    from fuseline.plan.joint import JointPlan

_NO = 1

TimeLimitOption = Annotated[
    str, typer.Option(metavar="TIME", help="End the search after this time (60, 500 ms, 2 min).")
]


def plan(
    source: Annotated[
        str,
        typer.Argument(
            metavar="BUFFERS|PROGRAM",
            help="A file of buffers as CSV (id,lower,upper,size[,alignment,gaps,offset,hint]), or a formula, a file of "
            "one or of a graph, or - for standard input.",
        ),
    ],
    capacity: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Stop as soon as this is enough (1048576, 1 MiB).")
    ] = None,
    time_limit: TimeLimitOption = "60",
    seed: Annotated[int, typer.Option(help="Another seed tries other orders.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Only the quick heuristics, no exact search.")] = False,
    out: Annotated[str | None, typer.Option(metavar="FILE.csv", help="Write the instance with its offsets.")] = None,
    chart: ChartOption = None,
    shape: ExplainedShapeOption = None,
    dtype: ExplainedDtypeOption = None,
    size: SizeOption = None,
    outputs: OutputsOption = None,
    alignment: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Alignment of every buffer of a program (1).")
    ] = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Place buffers with known lifetimes and sizes in one arena, as small as possible, with a proof.

    A lower bound comes first, then quick heuristics until one meets it, then exact search. For a program the order of
    its instructions is chosen first. Ctrl-C gives the best answer so far. The status is 1 where --capacity cannot be or
    was not reached.
    """
    from fuseline.plan.arena.arguments import capacity_in_bytes
    from fuseline.plan.arena.types import Instance
    from fuseline.report.catalogue import resolve_language

    language = resolve_language(lang)
    capacity_bytes = capacity_in_bytes(capacity)
    limit_s = _seconds(time_limit)
    _require_places(chart, out)
    given = _read(source)
    progress = _SearchLine(language)
    asked: dict[str, Any] = {
        "capacity": capacity_bytes,
        "time_limit_s": limit_s,
        "seed": seed,
        "exact": not quick,
        "on_progress": progress.show_search,
    }
    joint = None
    try:
        if isinstance(given, Instance):
            _refuse_for_instance(
                {"--shape": shape, "--dtype": dtype, "--size": size, "--outputs": outputs, "--alignment": alignment}
            )
            result = _placed_buffers(given, asked)
        else:
            joint = _planned_program(given, shape, dtype, outputs, size, alignment, asked)
            result = joint.arena
    except InfeasibleError as error:
        progress.clear()
        print(f"fuseline: {error}", file=sys.stderr)
        return _NO
    finally:
        progress.clear()
    _write(result, out, chart, language)
    _print(result, joint, as_json, language)
    if capacity_bytes is not None and result.peak_bytes > capacity_bytes:
        _complain_not_found(result, joint, capacity_bytes, language)
        return _NO
    return INTERRUPTED if (joint or result).stopped_because == "interrupted" else 0


def _require_places(chart: str | None, out: str | None) -> None:
    """Raise before any work where what was asked for cannot be drawn or written."""
    if chart is not None:
        from fuseline.report.chart_files import require_format

        require_format(chart)
    if out is not None:
        from fuseline.files import require_place

        require_place(out)


def _placed_buffers(instance: Instance, asked: Mapping[str, Any]) -> PlanResult:
    from fuseline.api.planning import plan_buffers

    return plan_buffers(instance, **asked)


def _planned_program(
    program: str,
    shape: str | None,
    dtype: str | None,
    outputs: str | None,
    size: list[str] | None,
    alignment: str | None,
    asked: Mapping[str, Any],
) -> JointPlan:
    from fuseline.api.planning import plan_program
    from fuseline.units import parse_bytes

    return plan_program(
        program,
        shape,
        dtype,
        outputs=parse_names(outputs),
        sizes=parse_sizes(size),
        alignment=1 if alignment is None else parse_bytes(alignment),
        **asked,
    )


def _read(argument: str) -> Instance | str:
    """Buffers or a program, told apart by the ending ``.csv`` and by how the text begins."""
    from fuseline.plan.arena.instance_csv import MAX_FILE_BYTES, is_instance_text, parse_csv, read_csv

    if argument.lower().endswith(".csv"):
        return read_csv(argument)
    text = read_text(argument, MAX_FILE_BYTES)
    if is_instance_text(text):
        where = "standard input" if argument == "-" else "CSV" if text is argument else argument
        return parse_csv(text, os.path.basename(where) if os.path.isfile(where) else where, where)
    return text


def _refuse_for_instance(options: Mapping[str, object]) -> None:
    """Raise where an option was given that a CSV file leaves nothing to do for."""
    given = [name for name, value in options.items() if value not in (None, [])]
    if given:
        column = "; the column alignment of the file says it for each buffer" if "--alignment" in given else ""
        raise PlanError(f"{', '.join(given)}: only for programs, not for buffers in a CSV file{column}")


def _seconds(time_limit: str) -> float:
    """A time limit with or without a unit, in seconds."""
    from fuseline.units import parse_time_s

    try:
        seconds = float(time_limit)
    except ValueError:
        seconds = parse_time_s(time_limit)
    if not 0 < seconds < 1e9:
        raise PlanError(f"the time limit must be a positive number of seconds, not {time_limit!r}")
    return seconds


def _write(result: PlanResult, out: str | None, chart: str | None, language: str) -> None:
    if out is not None:
        from fuseline.plan.arena.instance_csv import write_csv

        write_csv(out, result.instance, result.placement)
    if chart is not None:
        from fuseline.report.arena_chart import draw_arena

        tell_of(draw_arena(result, chart, language), language)


def _print(result: PlanResult, joint: JointPlan | None, as_json: bool, language: str) -> None:
    if as_json:
        from fuseline.report.json_text import print_json

        print_json(result.to_dict() if joint is None else joint.to_dict())
        return
    from fuseline.report.arena_document import arena_document, joint_document
    from fuseline.report.terminal import print_document

    print_document(arena_document(result, language) if joint is None else joint_document(joint, language))


def _complain_not_found(result: PlanResult, joint: JointPlan | None, capacity_bytes: int, language: str) -> None:
    from fuseline.report.arena_document import reason_text
    from fuseline.report.catalogue import text

    if joint is not None and result.lower_bound_bytes > capacity_bytes:
        found = {"peak": f"{result.peak_bytes:,}", "capacity": f"{capacity_bytes:,}"}
        print(f"fuseline: {text('planner.order.not_reached', language, **found)}", file=sys.stderr)
        return
    stopped = reason_text((joint or result).stopped_because, language)
    message = text("planner.not_found", language, capacity=f"{capacity_bytes:,}", stopped=stopped)
    print(f"fuseline: {message}", file=sys.stderr)


class _SearchLine(ProgressLine):
    """How far the search is, in the language of the report."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def show_search(self, now: Incumbent) -> None:
        """Say how far the search is."""
        if not self.on or not now.peak_bytes:
            return
        from fuseline.report.catalogue import text
        from fuseline.units import format_percent

        self.show(
            text(
                "planner.progress",
                self._language,
                stage=text(f"planner.stage.{now.stage.replace(' ', '_')}", self._language),
                peak=f"{now.peak_bytes:,}",
                bound=f"{now.lower_bound_bytes:,}",
                gap=format_percent(now.peak_bytes / max(1, now.lower_bound_bytes) - 1, 2),
                seconds=f"{now.seconds:.1f}",
            )
        )
