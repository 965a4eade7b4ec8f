"""``fuseline classify``: what bounds a kernel, from measured rates, a table, a CSV file, or a shape alone."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from fuseline.errors import UnitError

_RATES = "Measured rates"
_SHAPE = "Shape"
_READING = "Reading"
_OUTPUT = "Output"


def classify(
    m: Annotated[
        str | None,
        typer.Option("--m", help="Rows of the product; sizes may be written 4096, 2^12, 4Ki.", rich_help_panel=_SHAPE),
    ] = None,
    n: Annotated[
        str | None, typer.Option("--n", help="Columns of the product (7168 unless given).", rich_help_panel=_SHAPE)
    ] = None,
    k: Annotated[
        str | None, typer.Option("--k", help="Length of the sums (16384 unless given).", rich_help_panel=_SHAPE)
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Number format: bf16, fp8, fp8xfp4, fp8->f32, … (fp8 unless given).", rich_help_panel=_SHAPE),
    ] = None,
    op: Annotated[
        str,
        typer.Option(
            "--op",
            help="Operation: gemm, grouped-gemm, attention-prefill, mla-decode, norm, copy, …",
            rich_help_panel=_SHAPE,
        ),
    ] = "gemm",
    size: Annotated[
        list[str] | None,
        typer.Option("--size", help="A further size, NAME=VALUE, as groups=8 or kv_len=4096.", rich_help_panel=_SHAPE),
    ] = None,
    formula: Annotated[
        str | None, typer.Option(help="An elementwise formula as the shape; needs --shape.", rich_help_panel=_SHAPE)
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option("--shape", help="Shape of the formula's arrays, as 4096x14336.", rich_help_panel=_SHAPE),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="The machine whose peaks are divided by (ascend-950dt unless given).", rich_help_panel=_READING
        ),
    ] = None,
    device_file: Annotated[
        list[str] | None, typer.Option(help="A file with further machines.", rich_help_panel=_READING)
    ] = None,
    latency_us: Annotated[
        float | None, typer.Option(help="Measured time in microseconds.", rich_help_panel=_RATES)
    ] = None,
    tflops: Annotated[
        float | None,
        typer.Option(help="Measured arithmetic rate in TFLOPS (TOPS for integers).", rich_help_panel=_RATES),
    ] = None,
    gbps: Annotated[float | None, typer.Option(help="Measured byte rate in GB/s.", rich_help_panel=_RATES)] = None,
    pipe: Annotated[
        list[str] | None,
        typer.Option("--pipe", help="Rate of a further pipe, NAME=RATE, as fix=6.6TB/s.", rich_help_panel=_RATES),
    ] = None,
    waves: Annotated[
        float | None, typer.Option(help="Waves of the launch, for the Nsight rule.", rich_help_panel=_RATES)
    ] = None,
    measured_on: Annotated[
        str | None,
        typer.Option(help="The machine that the rates were measured on, where it is another.", rich_help_panel=_RATES),
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option(
            help="A CSV file of rows (name,device,dtype,m,n,k,latency_us,tflops,gbps,<pipe>_gbps).",
            rich_help_panel=_RATES,
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="A bundled table: ascend, deepgemm or course.", rich_help_panel=_RATES)
    ] = None,
    rule: Annotated[str, typer.Option(help="How ratios are read: book or nsight.", rich_help_panel=_READING)] = "book",
    saturated: Annotated[
        float | None, typer.Option(help="Threshold of the book rule (0.85).", rich_help_panel=_READING)
    ] = None,
    involved: Annotated[
        float | None, typer.Option(help="Threshold of the book rule (0.45).", rich_help_panel=_READING)
    ] = None,
    other: Annotated[
        float | None, typer.Option(help="Threshold of the book rule (0.20).", rich_help_panel=_READING)
    ] = None,
    peaks: Annotated[
        str | None, typer.Option(help="Which peaks: datasheet, achievable or effective.", rich_help_panel=_READING)
    ] = None,
    allow_mixed: Annotated[
        bool,
        typer.Option(
            "--allow-mixed", help="Show ratios that do not belong together, marked.", rich_help_panel=_READING
        ),
    ] = False,
    chart: Annotated[
        str | None, typer.Option(help="Write a chart: FILE.svg, .png or .html.", rich_help_panel=_OUTPUT)
    ] = None,
    chart_kind: Annotated[
        str, typer.Option(help="roofline, or ratios for the plane of the two ratios.", rich_help_panel=_OUTPUT)
    ] = "roofline",
    also_device: Annotated[
        list[str] | None, typer.Option(help="Draw the roofs of this machine too.", rich_help_panel=_OUTPUT)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with stable keys and SI units.", rich_help_panel=_OUTPUT)
    ] = False,
    lang: Annotated[
        str | None, typer.Option(help="Language, en or zh; the locale's unless given.", rich_help_panel=_OUTPUT)
    ] = None,
) -> int:
    """Say what bounds a kernel: achieved rates over the peaks of the machine, with the source of every number.

    Without arguments it shows the six shapes of the course. The exit status is 2 where a row could not be read.
    """
    from fuseline.api import roofline as api
    from fuseline.report.catalogue import resolve_language

    language = resolve_language(lang)
    sizes = {name: _count(value, f"--{name}") for name, value in (("m", m), ("n", n), ("k", k)) if value is not None}
    sizes |= {name: _size(value, f"--size {name}") for name, value in _pairs(size, "--size")}
    files = tuple(device_file or ())
    if chart is not None:
        from fuseline.report.roofline_charts import require_chart

        require_chart(chart, chart_kind)
    cost = None
    if formula is not None:
        cost = api.formula_cost(formula, shape, dtype or "bf16")
        device = device or "h100-sxm"
    found = api.classify(
        dtype=dtype,
        device=device,
        operation=op,
        sizes=sizes,
        latency_us=latency_us,
        tflops=tflops,
        gbps=gbps,
        pipes=dict(_pairs(pipe, "--pipe")),
        waves=waves,
        measured_on=measured_on,
        csv=csv,
        table=table,
        cost=cost,
        rule=api.chosen_rule(rule, saturated, involved, other),
        peaks=peaks,
        allow_mixed=allow_mixed,
        device_files=files,
    )
    if chart is not None:
        _draw(found, chart, chart_kind, [api.device(name, files) for name in also_device or ()], language)
    if as_json:
        _print_json(found, language)
    else:
        _print_text(found, language)
    return 2 if found.errors else 0


def _pairs(entries: list[str] | None, option: str) -> list[tuple[str, str]]:
    """``NAME=VALUE`` entries split; raises ``UnitError`` for one without an equals sign."""
    found = []
    for entry in entries or ():
        name, equals, value = entry.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UnitError(f"{option} needs NAME=VALUE, not {entry!r}")
        found.append((name.strip().replace("-", "_") if option == "--size" else name.strip(), value.strip()))
    return found


def _size(text: str, option: str) -> Any:
    """A size that is a count, or the word it is (``kind=layer``, ``causal=false``)."""
    if text in ("true", "false"):
        return text == "true"
    return _count(text, option) if text[0].isdigit() or text[0] in "+-." else text


def _count(text: str, option: str) -> int:
    """A count; raises ``UnitError`` naming the option that it was given to."""
    from fuseline.units import parse_count

    try:
        return parse_count(text)
    except UnitError as error:
        raise UnitError(f"{option}: {error}") from error


def _print_json(found: Any, language: str) -> None:
    from fuseline.report.roofline_notes import note_text

    print(json.dumps(found.to_dict(lambda note: note_text(note, language)), indent=2, ensure_ascii=False))


def _print_text(found: Any, language: str) -> None:
    from rich.console import Console

    from fuseline.report.roofline_tables import print_classification

    print_classification(found, Console(markup=False, highlight=False, emoji=False), language)


def _draw(found: Any, path: str, kind: str, devices: list[Any], language: str) -> None:
    from fuseline.report.catalogue import text
    from fuseline.report.roofline_charts import draw

    drawn = draw(found, path, kind, devices, language)
    if drawn != language:
        print(text("roofline.chart.no_font", language), file=sys.stderr)
