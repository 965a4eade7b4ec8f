"""``fuseline classify``: what bounds a kernel, from measured rates, a table, a CSV file, or a shape alone."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fuseline.api.defaults import (
    CLASSIFIED_DEVICE,
    CLASSIFIED_DTYPE,
    CLASSIFIED_K,
    CLASSIFIED_N,
    CLASSIFIED_OPERATION,
    EXPLAINED_DEVICE,
    EXPLAINED_DTYPE,
)
from fuseline.cli.options import DeviceFilesOption, JsonOption, LangOption
from fuseline.cli.pictures import tell_of
from fuseline.cli.programs import read_program
from fuseline.errors import UnitError, UsageError
from fuseline.roofline.rules import BookRule

_BOOK = BookRule()
_DEVICES = f"{CLASSIFIED_DEVICE} unless given; {EXPLAINED_DEVICE} for a formula"
_DTYPES = f"{CLASSIFIED_DTYPE} unless given; {EXPLAINED_DTYPE} for a formula"

_Rate = float | None
_Word = str | None
_Words = list[str] | None


def classify(
    m: Annotated[_Word, typer.Option("--m", help="Rows of the product; sizes may be written 4096, 2^12, 4Ki.")] = None,
    n: Annotated[_Word, typer.Option("--n", help=f"Columns of the product ({CLASSIFIED_N} unless given).")] = None,
    k: Annotated[_Word, typer.Option("--k", help=f"Length of the sums ({CLASSIFIED_K} unless given).")] = None,
    dtype: Annotated[_Word, typer.Option(help=f"Number format: bf16, fp8, fp8xfp4, fp8->f32, … ({_DTYPES}).")] = None,
    op: Annotated[
        _Word,
        typer.Option(
            help="Operation: gemm, grouped-gemm, attention-prefill, mla-decode, norm, copy, … "
            f"({CLASSIFIED_OPERATION} unless given)."
        ),
    ] = None,
    size: Annotated[
        _Words,
        typer.Option(
            "--size", metavar="NAME=VALUE", help="A further size of the operation or formula, as groups=8; repeatable."
        ),
    ] = None,
    formula: Annotated[_Word, typer.Option(help="A formula or graph, its file, or - as the kernel.")] = None,
    shape: Annotated[
        _Word,
        typer.Option(
            metavar="SIZES",
            help="Shape of the formula's arrays that are not declared, as 4096x14336.",
        ),
    ] = None,
    device: Annotated[_Word, typer.Option(help=f"The machine whose peaks are divided by ({_DEVICES}).")] = None,
    device_file: DeviceFilesOption = None,
    latency_us: Annotated[_Rate, typer.Option(help="Measured time in microseconds.")] = None,
    tflops: Annotated[_Rate, typer.Option(help="Measured arithmetic rate in TFLOPS (TOPS for integers).")] = None,
    gbps: Annotated[_Rate, typer.Option(help="Measured byte rate in GB/s.")] = None,
    pipe: Annotated[
        _Words, typer.Option("--pipe", metavar="NAME=RATE", help="Rate of a further pipe, as fix=6.6TB/s; repeatable.")
    ] = None,
    waves: Annotated[_Rate, typer.Option(help="Waves of the launch, for the Nsight rule.")] = None,
    measured_on: Annotated[
        _Word, typer.Option(help="The machine that the rates were measured on, where it is another.")
    ] = None,
    csv: Annotated[
        _Word,
        typer.Option(
            metavar="FILE", help="A CSV file of rows (name,device,dtype,m,n,k,latency_us,tflops,gbps,<pipe>_gbps)."
        ),
    ] = None,
    table: Annotated[_Word, typer.Option(help="A bundled table: ascend, deepgemm or course.")] = None,
    rule: Annotated[str, typer.Option(help="How ratios are read: book or nsight.")] = _BOOK.name,
    saturated: Annotated[_Rate, typer.Option(help=f"Threshold of the book rule ({_BOOK.saturated:.2f}).")] = None,
    involved: Annotated[_Rate, typer.Option(help=f"Threshold of the book rule ({_BOOK.involved:.2f}).")] = None,
    other: Annotated[_Rate, typer.Option(help=f"Threshold of the book rule ({_BOOK.other:.2f}).")] = None,
    peaks: Annotated[_Word, typer.Option(help="Which peaks: datasheet, achievable or effective.")] = None,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Show ratios that do not belong together, marked.")
    ] = False,
    chart: Annotated[_Word, typer.Option(metavar="FILE", help="Write a chart (.svg, .png or .html).")] = None,
    chart_kind: Annotated[
        _Word, typer.Option(help="roofline (unless given), or ratios for the plane of the two ratios.")
    ] = None,
    also_device: Annotated[_Words, typer.Option(help="Draw the roofs of this machine too; repeatable.")] = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Say what bounds a kernel: achieved rates over the peaks of the machine, with the source of every number.

    Where no option names a kernel it shows the six shapes of the course. The exit status is 2 where a row could not be
    read.
    """
    from fuseline.api import roofline as api
    from fuseline.report.catalogue import resolve_language

    language = resolve_language(lang)
    _refuse_without({"--shape": shape}, "--formula", formula)
    _refuse_without({"--chart-kind": chart_kind, "--also-device": also_device}, "--chart", chart)
    files = tuple(device_file or ())
    also = [api.device(name, files) for name in also_device or ()]
    kind = None if chart is None else _required_kind(chart, chart_kind)
    sizes = _sizes(m, n, k, size)
    cost = None
    if formula is not None:
        cost = api.formula_cost(read_program(formula), shape, dtype or EXPLAINED_DTYPE, sizes)
        sizes, device = {}, device or EXPLAINED_DEVICE
    found = api.classify(
        dtype=dtype,
        device=device,
        operation=op,
        sizes=sizes,
        latency_us=latency_us,
        tflops=tflops,
        gbps=gbps,
        pipes=_pairs(pipe, "--pipe"),
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
    if chart is not None and kind is not None:
        _draw(found, chart, kind, also, language)
    _print(found, as_json, language)
    return 2 if found.errors else 0


def _required_kind(chart: str, kind: str | None) -> str:
    """The kind of chart, the first one unless one is named, once it is sure that it can be drawn and written."""
    from fuseline.report.roofline_charts import KINDS, require_chart

    kind = kind or KINDS[0]
    require_chart(chart, kind)
    return kind


def _refuse_without(options: dict[str, object], wanted: str, value: object) -> None:
    """Raise where an option was given that has no meaning without another one."""
    given = [name for name, option in options.items() if option not in (None, [])]
    if value is None and given:
        raise UsageError(f"{', '.join(given)}: only beside {wanted}")


def _sizes(m: str | None, n: str | None, k: str | None, size: list[str] | None) -> dict[str, Any]:
    """The sizes of all options by name."""
    sizes = {name: _count(value, f"--{name}") for name, value in (("m", m), ("n", n), ("k", k)) if value is not None}
    for name, value in _pairs(size, "--size").items():
        if name in sizes:
            raise UsageError(f"the size {name} is given twice")
        sizes[name] = _size(value, f"--size {name}")
    return sizes


def _pairs(entries: list[str] | None, option: str) -> dict[str, str]:
    """``NAME=VALUE`` entries split.

    Raises `UnitError` for one without an equals sign, `UsageError` for a name that comes twice.
    """
    found: dict[str, str] = {}
    for entry in entries or ():
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not name or not value:
            raise UnitError(f"{option} needs NAME=VALUE, not {entry!r}")
        if option == "--size":
            name = name.replace("-", "_")
        if name in found:
            raise UsageError(f"{option} {name} is given twice")
        found[name] = value
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


def _print(found: Any, as_json: bool, language: str) -> None:
    if as_json:
        from fuseline.report.json_text import print_json
        from fuseline.report.roofline_notes import note_text

        print_json(found.to_dict(lambda note: note_text(note, language)))
        return
    from fuseline.report.roofline_document import classification_document
    from fuseline.report.terminal import print_document

    print_document(classification_document(found, language))


def _draw(found: Any, path: str, kind: str, devices: list[Any], language: str) -> None:
    from fuseline.report.roofline_charts import draw

    tell_of(draw(found, path, kind, devices, language), language)
