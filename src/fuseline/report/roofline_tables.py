"""The roofline on a terminal: tables with bars, audits, remarks; for 80 columns and more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fuseline.api.classification import Classification, ShapeResult
from fuseline.errors import printable
from fuseline.machine import rate_unit
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.roofline_audit import print_audits, print_calibration, print_row_audit
from fuseline.report.roofline_notes import (
    bound_explained,
    bound_text,
    kind_text,
    note_text,
    shape_explained,
)
from fuseline.report.roofline_prose import heading, row_name, say, say_pairs, some
from fuseline.roofline.classify import RowResult
from fuseline.roofline.rules import IMPOSSIBLE_RATIO, Note
from fuseline.roofline.tables import TableResult, course_bounds
from fuseline.units import (
    Quantity,
    format_bytes,
    format_number,
    format_percent,
    format_si,
    format_time,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

BAR_CELLS, NARROW_BAR_CELLS = 8, 6
"""Cells of a bar; the second where a terminal of 80 columns has no room for the first beside two verdicts."""
_ROOM_FOR_BARS = 84
WIDE_COLUMNS = 108
DEVICE_COLUMNS = 98
_EXTRA_COLUMNS = 15
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STYLES = {
    "compute": "blue",
    "memory": "green",
    "balanced": "cyan",
    "neither": "yellow",
    "latency": "magenta",
    "small-grid": "magenta",
}
_ALIKE = 2
_NAME_WIDTH = 16
_MOST_SHOWN = 1000


def print_classification(found: Classification, console: Console, lang: str | None = None) -> None:
    """Prints everything that ``classify`` found, in the language asked for."""
    language = resolve_language(lang)
    if found.overview:
        _print_overview(found, console, language)
        return
    for table in found.tables:
        _print_table(table, found, console, language)
    for shape in found.shapes:
        _print_shape(shape, console, language)
    if found.errors:
        heading("errors", console, language)
        for error in found.errors:
            if not error.line:
                say(console, f"{error.name}: {error.message}")
                continue
            name = f" ({error.name})" if error.name else ""
            say(console, text("roofline.bad_row", lang, line=error.line, name=name, message=error.message))
        say(console, text("roofline.bad_rows", language, count=len(found.errors)))
    _print_cautions(console, language)


def _print_overview(found: Classification, console: Console, lang: str) -> None:
    """The answer to a call without arguments: calibration, the six shapes, their sources, and what to do next."""
    say(console, text("roofline.title_overview", lang), style="bold")
    rows = found.tables[0].rows
    heading("calibration", console, lang)
    for row in rows:
        print_calibration(row, console, lang)
    heading("six", console, lang)
    console.print(_rows_table(rows, console.width, lang))
    _print_peaks(rows, console, lang)
    say(console, _rule_text(found, rows, lang))
    heading("sources", console, lang)
    for row in rows:
        says = f" {text('roofline.column.says', lang)}: {bound_text(row.row.says, lang)}" if row.row.says else ""
        quoted = f" ({row.row.says_text})" if row.row.says_text else ""
        rates = ", ".join(_rate_of(row, side) for side in ("compute", "memory"))
        say(console, f"{row.row.name}: {rates}. {row.row.source}.{says}{quoted}")
    if rows[0].device is not None:
        bounds = course_bounds([row.row for row in rows], rows[0].device)
        listed = text("roofline.separator", lang).join(bound_text(bound, lang) for bound in bounds)
        say(console, text("roofline.course_reads", lang, list=listed))
    say(console, _agreement(found.tables[0], lang))
    print_audits(found.tables[0], console, lang)
    _print_remarks(rows, console, lang)
    heading("next", console, lang)
    for key in ("table", "shape", "csv", "chart"):
        say(console, text(f"roofline.next.{key}", lang))
    _print_cautions(console, lang)


def _print_table(table: TableResult, found: Classification, console: Console, lang: str) -> None:
    if table.name == "row":
        row = table.rows[0]
        device = row.device.name if row.device else row.row.device
        title = text("roofline.title_row", lang, name=row_name(row.row, lang), device=device)
    else:
        title = text("roofline.title_table", lang, name=table.name, count=len(table.rows))
    say(console, title, style="bold")
    if not table.rows:
        return
    console.print(_rows_table(table.rows[:_MOST_SHOWN], console.width, lang))
    if len(table.rows) > _MOST_SHOWN:
        say(console, text("roofline.not_shown", lang, count=len(table.rows) - _MOST_SHOWN))
    _print_peaks(table.rows, console, lang)
    if table.name == "row":
        say(console, bound_explained(table.rows[0].bound, lang, found.rule))
    say(console, _rule_text(found, table.rows, lang))
    if any(row.row.says for row in table.rows):
        say(console, _agreement(table, lang))
    if table.name == "row":
        print_calibration(table.rows[0], console, lang)
        print_row_audit(table.rows[0], console, lang)
    print_audits(table, console, lang)
    _print_remarks(table.rows, console, lang)


def _rows_table(rows: Iterable[RowResult], width: int, lang: str) -> Table:
    """One line a row: ratios as bars, verdict, what the source says; rates and device too where there is room."""
    from rich.table import Table

    rows = list(rows)
    others = any(pipe.side == "third" for row in rows for pipe in row.pipes)
    devices = len({row.row.device for row in rows}) > 1 and width >= DEVICE_COLUMNS
    wide = width >= WIDE_COLUMNS + _EXTRA_COLUMNS * (devices + others)
    bar_cells = BAR_CELLS if width >= _ROOM_FOR_BARS else NARROW_BAR_CELLS
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(text("roofline.column.name", lang), overflow="fold", min_width=_NAME_WIDTH)
    if devices:
        table.add_column(text("roofline.column.device", lang), no_wrap=True)
    for side in ("compute", "memory"):
        if wide:
            table.add_column(text(f"roofline.column.{side}_rate", lang), justify="right", no_wrap=True)
        table.add_column(text(f"roofline.column.{side}", lang), no_wrap=True)
    if others and wide:
        table.add_column(text("roofline.column.other", lang), overflow="fold")
    verdicts = [bound_text(row.bound, lang) for row in rows]
    table.add_column(text("roofline.column.bound", lang), no_wrap=True, min_width=_widest(verdicts))
    says = any(row.row.says for row in rows)
    if says:
        said = [bound_text(row.row.says, lang) for row in rows if row.row.says]
        table.add_column(text("roofline.column.says", lang), no_wrap=True, min_width=_widest(said))
    for row in rows:
        cells: list[Text | str] = [printable(row_name(row.row, lang))]
        if devices:
            cells.append(row.device.name if row.device else "–")
        for side in ("compute", "memory"):
            if wide:
                cells.append(_rate_of(row, side))
            cells.append(_bar(row, side, bar_cells))
        if others and wide:
            cells.append(_third_pipes(row))
        cells.append(_bound(row.bound, lang))
        if says:
            cells.append(bound_text(row.row.says, lang) if row.row.says else "–")
        table.add_row(*cells)
    return table


def _widest(texts: Iterable[str]) -> int:
    """Cells that the longest of ``texts`` takes on a terminal."""
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _rate_of(row: RowResult, side: str) -> str:
    pipe = next((pipe for pipe in row.pipes if pipe.side == side), None)
    if pipe is None:
        return "–"
    return ("≈ " if pipe.derived else "") + str(pipe.achieved)


def _bar(row: RowResult, side: str, cells: int) -> Text:
    """A bar of eighths and the percentage; a mixed ratio is marked with ``!``."""
    from rich.text import Text

    pipe = next((pipe for pipe in row.pipes if pipe.side == side), None)
    if pipe is None or pipe.ratio is None:
        return Text("–".ljust(cells + 8))
    value = pipe.ratio.value
    eighths = round(min(max(value, 0.0), 1.0) * cells * 8)
    full, rest = divmod(eighths, 8)
    bar = ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(cells)
    mark = "!" if pipe.ratio.mixed or value > IMPOSSIBLE_RATIO else " "
    style = "blue" if side == "compute" else "green"
    return Text.assemble((bar, style), f"{format_percent(value):>7}{mark}")


def _third_pipes(row: RowResult) -> str:
    found = [p for p in row.pipes if p.side == "third"]
    return ", ".join(f"{p.pipe} {'–' if p.ratio is None else format_percent(p.ratio.value)}" for p in found) or "–"


def _bound(bound: str, lang: str) -> Text:
    from rich.text import Text

    return Text(bound_text(bound, lang), style=_STYLES.get(bound, "red"))


def _print_peaks(rows: Iterable[RowResult], console: Console, lang: str) -> None:
    """The peaks that were divided by, each with the kind of its source."""
    by_device: dict[str, dict[str, Quantity]] = {}
    for row in rows:
        for pipe in row.pipes:
            if pipe.peak is not None and row.device is not None:
                label = f"{pipe.pipe} {pipe.peak.dtype}".strip()
                by_device.setdefault(row.device.name, {})[label] = pipe.peak
    for device, peaks in by_device.items():
        parts = [
            text("roofline.peak", lang, pipe=label, value=str(peak), kind=kind_text(peak.source.kind, lang))
            for label, peak in peaks.items()
        ]
        say(console, text("roofline.peaks", lang, list=f"{device}: {text('roofline.separator', lang).join(parts)}"))


def _rule_text(found: Classification, rows: Iterable[RowResult], lang: str) -> str:
    """The rule's thresholds and the launch floor, as a convention for reading."""
    device = next((row.device for row in rows if row.device is not None), None)
    floor = "–" if device is None else format_time(device.launch_latency.value)
    kind = kind_text("assumed" if device is None else device.launch_latency.source.kind, lang)
    values = {name: format_number(value) for name, value in found.rule.thresholds().items()}
    name = found.rule.name if found.rule.name in ("book", "nsight") else "book"
    return text(f"roofline.rule_{name}", lang, floor=floor, floor_kind=kind, **values)


def _agreement(table: TableResult, lang: str) -> str:
    apart = text("roofline.agreement_undetermined", lang, count=table.undetermined) if table.undetermined else ""
    return text(
        "roofline.agreement",
        lang,
        count=len(table.rows),
        stated=table.agreeing + table.disagreeing,
        agree=table.agreeing,
        disagree=table.disagreeing,
        silent=table.silent,
        undetermined=apart,
    )


def _print_remarks(rows: Iterable[RowResult], console: Console, lang: str) -> None:
    """Each distinct remark once, with the rows it is about; after a few that differ in figures only, just the rows."""
    rows = list(rows)
    by_reason: dict[tuple[str, str], dict[str, list[str]]] = {}
    figures: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        for note in row.notes:
            reason, values = _reason(note), repr(note.values)
            same = figures.setdefault(reason, {})
            if values not in same:
                sentences = by_reason.setdefault(reason, {})
                # sentences beyond the first few are not shown: the names below "" stand for them
                sentence = note_text(note, lang) if len(sentences) <= _ALIKE else ""
                known = sentence in sentences or len(sentences) < _ALIKE
                same[values] = sentences.setdefault(sentence if known else "", [])
            same[values].append(row.row.name)
    if not by_reason:
        return
    heading("remarks", console, lang)
    for sentences in by_reason.values():
        for sentence, names in sentences.items():
            if not sentence:
                say(console, text("roofline.more_alike", lang, names=some(names, lang)))
            else:
                say(console, sentence if len(rows) == 1 else f"{some(names, lang)}: {sentence}")


def _reason(note: Note) -> tuple[str, str]:
    """What a remark says apart from its figures: only remarks that are equal in this may stand for each other."""
    return note.code, repr([(key, value) for key, value in note.values.items() if not isinstance(value, float)])


def _print_shape(shape: ShapeResult, console: Console, lang: str) -> None:
    found = shape.analysis
    title = text("roofline.title_shape", lang, name=shape.name, dtype=found.cost.dtype, device=found.device.name)
    say(console, title, style="bold")
    if found.bounds.ndim:
        say(console, _several(shape, lang))
        return
    layout = found.cost.scales
    scales = text(f"roofline.shape.scales_{layout}", lang) if layout else ""
    labelled = [
        (text(f"roofline.shape.{label}", lang, scales=scales), value) for label, value in _shape_lines(shape, lang)
    ]
    say_pairs(console, labelled)
    if not found.near_ridge.all():
        say(console, shape_explained(found.bound, lang))
    for note in found.notes:
        say(console, note_text(note, lang))


def _several(shape: ShapeResult, lang: str) -> str:
    import numpy as np

    names, counts = np.unique(shape.analysis.bounds, return_counts=True)
    listed = ", ".join(
        text("roofline.shape.several_count", lang, bound=bound_text(str(n), lang), count=int(c))
        for n, c in zip(names, counts, strict=True)
    )
    return text("roofline.shape.several", lang, count=shape.analysis.bounds.size, counts=listed)


def _shape_lines(shape: ShapeResult, lang: str) -> list[tuple[str, str]]:
    """Label and value of each line about a single shape."""
    found = shape.analysis
    cost = found.cost
    lines: list[tuple[str, str]] = []
    if not found.pipes:
        for name, (amount, dtype) in cost.work.items():
            flop = format_si(float(amount), rate_unit(dtype).removesuffix("/s"))
            lines.append(("work", text("roofline.shape.work_unknown", lang, flop=flop, pipe=name, dtype=dtype)))
    for pipe in found.pipes:
        unit = "OP" if pipe.peak.unit == "OP/s" else "FLOP"
        value = text(
            "roofline.shape.work_value", lang, flop=format_si(float(pipe.work), unit), pipe=pipe.pipe, dtype=pipe.dtype
        )
        lines.append(("work", value))
    lines.append(("bytes_inputs", format_bytes(float(cost.bytes("inputs")))))
    lines.append(("bytes_output", format_bytes(float(cost.bytes("inputs+output")))))
    if "inputs+scales+output" in cost.conventions:
        lines.append(("bytes_scales", format_bytes(float(cost.bytes("inputs+scales+output")))))
    integers = any(rate_unit(dtype) == "OP/s" for _, dtype in cost.work.values())
    unit = "OP/B" if integers else "FLOP/B"
    inputs, intensity = (f"{format_number(float(v))} {unit}" for v in (found.intensity_inputs, found.intensity))
    lines.append(("intensity", text("roofline.shape.intensity_value", lang, value=intensity, inputs=inputs)))
    lines.append(("ridge", _ridge(shape, lang)))
    bounds = [bound_text(str(b.reshape(-1)[0]), lang) for b in (found.bounds, found.bounds_inputs)]
    lines.append(("verdict", text("roofline.shape.verdict_value", lang, bound=bounds[0], inputs=bounds[1])))
    times = [(pipe.pipe, float(pipe.time_s)) for pipe in found.pipes] + [(found.memory, float(found.memory_time_s))]
    listed = [text("roofline.shape.time_pipe", lang, pipe=name, time=format_time(time)) for name, time in times]
    lines.append(("times", text("roofline.separator", lang).join(listed)))
    limit = text("roofline.shape.bound_time_value", lang, time=format_time(float(found.bound_time_s)))
    lines.append(("bound_time", limit))
    lines.append(("estimate", _estimate(shape, lang)))
    return lines


def _ridge(shape: ShapeResult, lang: str) -> str:
    found = shape.analysis
    if found.ridge is None:
        return text(f"roofline.shape.ridge_{'unknown' if found.cost.work else 'none'}", lang)
    peak = found.pipes[0].peak
    return text(
        "roofline.shape.ridge_value",
        lang,
        value=f"{format_number(found.ridge)} {'OP/B' if peak.unit == 'OP/s' else 'FLOP/B'}",
        peak=str(peak),
        peak_kind=kind_text(peak.source.kind, lang),
        bandwidth=str(found.bandwidth),
        bandwidth_kind=kind_text(found.bandwidth.source.kind, lang),
    )


def _estimate(shape: ShapeResult, lang: str) -> str:
    found = shape.estimate
    if found is None:
        return text("roofline.shape.estimate_none", lang)
    known = found.efficiency
    return text(
        f"roofline.shape.estimate_{'value' if found.comparable else 'pooled'}",
        lang,
        time=format_time(found.time_s, 3),
        shortest=format_time(found.shortest_s, 3),
        longest=format_time(found.longest_s, 3),
        efficiency=format_percent(known.median, 0),
        low=format_percent(known.low, 0),
        high=format_percent(known.high, 0),
        samples=known.samples,
        basis=known.basis,
    )


def _print_cautions(console: Console, lang: str) -> None:
    heading("cautions", console, lang)
    for key in ("ridge", "predict"):
        say(console, text(f"roofline.caution.{key}", lang))
