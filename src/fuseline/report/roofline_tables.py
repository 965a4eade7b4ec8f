"""The roofline on a terminal: tables with bars, audits, remarks; for 80 columns and more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fuseline.api.roofline import Classification, ShapeResult
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.roofline_notes import (
    bound_explained,
    bound_text,
    convention_text,
    kind_text,
    note_text,
    shape_explained,
)
from fuseline.report.wrapping import NO_BREAK_SPACE, wrap
from fuseline.roofline.audit import IMPLIED_ROWS, TableAudit
from fuseline.roofline.classify import RowResult
from fuseline.roofline.tables import TableResult, course_bounds
from fuseline.units import (
    Quantity,
    format_bytes,
    format_number,
    format_percent,
    format_quantity,
    format_rate,
    format_si,
    format_time,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

BAR_CELLS = 8
WIDE_COLUMNS = 108
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STYLES = {
    "compute": "blue",
    "memory": "green",
    "balanced": "cyan",
    "neither": "yellow",
    "latency": "magenta",
    "small-grid": "magenta",
}
_MANY = 3
_ALIKE = 2


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
        _heading("errors", console, language)
        for error in found.errors:
            name = f" ({error.name})" if error.name else ""
            _say(console, text("roofline.bad_row", language, line=error.line or "–", name=name, message=error.message))
        _say(console, text("roofline.bad_rows", language, count=len(found.errors)))
    _print_cautions(console, language)


def _print_overview(found: Classification, console: Console, lang: str) -> None:
    """The answer to a call without arguments: calibration, the six shapes, their sources, and what to do next."""
    _say(console, text("roofline.title_overview", lang), style="bold")
    rows = found.tables[0].rows
    _heading("calibration", console, lang)
    for row in rows:
        _print_calibration(row, console, lang)
    _heading("six", console, lang)
    console.print(_rows_table(rows, console.width, lang))
    _print_peaks(rows, console, lang)
    _say(console, _rule_text(found, rows, lang))
    _heading("sources", console, lang)
    for row in rows:
        says = f" {text('roofline.column.says', lang)}: {bound_text(row.row.says, lang)}" if row.row.says else ""
        quoted = f" ({row.row.says_text})" if row.row.says_text else ""
        rates = ", ".join(_rate_of(row, side) for side in ("compute", "memory"))
        _say(console, f"{row.row.name}: {rates}. {row.row.source}.{says}{quoted}")
    if rows[0].device is not None:
        bounds = course_bounds([row.row for row in rows], rows[0].device)
        listed = text("roofline.separator", lang).join(bound_text(bound, lang) for bound in bounds)
        _say(console, text("roofline.course_reads", lang, list=listed))
    _say(console, _agreement(found.tables[0], lang))
    _print_audits(found.tables[0], console, lang)
    _print_remarks(rows, console, lang)
    _heading("next", console, lang)
    for key in ("table", "shape", "csv", "chart"):
        _say(console, text(f"roofline.next.{key}", lang))
    _print_cautions(console, lang)


def _print_table(table: TableResult, found: Classification, console: Console, lang: str) -> None:
    if table.name == "row":
        row = table.rows[0]
        device = row.device.name if row.device else row.row.device
        title = text("roofline.title_row", lang, name=row.row.name, device=device)
    else:
        title = text("roofline.title_table", lang, name=table.name, count=len(table.rows))
    _say(console, title, style="bold")
    if not table.rows:
        return
    console.print(_rows_table(table.rows, console.width, lang))
    _print_peaks(table.rows, console, lang)
    if table.name == "row":
        _say(console, bound_explained(table.rows[0].bound, lang))
    _say(console, _rule_text(found, table.rows, lang))
    if any(row.row.says for row in table.rows):
        _say(console, _agreement(table, lang))
    if table.name == "row":
        _print_calibration(table.rows[0], console, lang)
        _print_row_audit(table.rows[0], console, lang)
    _print_audits(table, console, lang)
    _print_remarks(table.rows, console, lang)


def _rows_table(rows: Iterable[RowResult], width: int, lang: str) -> Table:
    """One line a row: ratios as bars, verdict, what the source says; rates and device too where there is room."""
    from rich.table import Table

    rows = list(rows)
    wide = width >= WIDE_COLUMNS
    others = any(pipe.side == "third" for row in rows for pipe in row.pipes)
    devices = len({row.row.device for row in rows}) > 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(text("roofline.column.name", lang), overflow="fold", ratio=None)
    if devices and wide:
        table.add_column(text("roofline.column.device", lang), overflow="fold")
    for side in ("compute", "memory"):
        if wide:
            table.add_column(text(f"roofline.column.{side}_rate", lang), justify="right", no_wrap=True)
        table.add_column(text(f"roofline.column.{side}", lang), no_wrap=True)
    if others and wide:
        table.add_column(text("roofline.column.other", lang), overflow="fold")
    table.add_column(text("roofline.column.bound", lang))
    says = any(row.row.says for row in rows)
    if says:
        table.add_column(text("roofline.column.says", lang))
    for row in rows:
        cells: list[Text | str] = [row.row.name]
        if devices and wide:
            cells.append(row.device.name if row.device else "–")
        for side in ("compute", "memory"):
            if wide:
                cells.append(_rate_of(row, side))
            cells.append(_bar(row, side))
        if others and wide:
            cells.append(_third_pipes(row))
        cells.append(_bound(row.bound, lang))
        if says:
            cells.append(bound_text(row.row.says, lang) if row.row.says else "–")
        table.add_row(*cells)
    return table


def _rate_of(row: RowResult, side: str) -> str:
    pipe = next((pipe for pipe in row.pipes if pipe.side == side), None)
    if pipe is None:
        return "–"
    return ("≈ " if pipe.derived else "") + str(pipe.achieved)


def _bar(row: RowResult, side: str) -> Text:
    """A bar of eighths and the percentage; a mixed ratio is marked with ``!``."""
    from rich.text import Text

    pipe = next((pipe for pipe in row.pipes if pipe.side == side), None)
    if pipe is None or pipe.ratio is None:
        return Text("–".ljust(BAR_CELLS + 8))
    value = pipe.ratio.value
    eighths = round(min(max(value, 0.0), 1.0) * BAR_CELLS * 8)
    full, rest = divmod(eighths, 8)
    bar = ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(BAR_CELLS)
    mark = "!" if pipe.ratio.mixed or value > 1.02 else " "
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
        _say(console, text("roofline.peaks", lang, list=f"{device}: {text('roofline.separator', lang).join(parts)}"))


def _rule_text(found: Classification, rows: Iterable[RowResult], lang: str) -> str:
    """The rule's thresholds and the launch floor, as a convention for reading."""
    device = next((row.device for row in rows if row.device is not None), None)
    floor = "–" if device is None else format_time(device.launch_latency.value)
    kind = kind_text("assumed" if device is None else device.launch_latency.source.kind, lang)
    values = {name: format_number(value) for name, value in found.rule.thresholds().items()}
    name = found.rule.name if found.rule.name in ("book", "nsight") else "book"
    return text(f"roofline.rule_{name}", lang, floor=floor, floor_kind=kind, **values)


def _agreement(table: TableResult, lang: str) -> str:
    return text(
        "roofline.agreement",
        lang,
        count=len(table.rows),
        stated=table.agreeing + table.disagreeing,
        agree=table.agreeing,
        disagree=table.disagreeing,
        silent=table.silent,
    )


def _print_calibration(row: RowResult, console: Console, lang: str) -> None:
    """A row's arithmetic rate recomputed from its shape and time, for plain products and logits."""
    found = row.calibration
    kinds = {"gemm": "line", "mqa-logits": "mqa"}
    kind = kinds.get(row.row.operation)
    if found is None or found.printed_flop_per_s is None or found.over_printed is None or kind is None:
        return
    if kind == "mqa" and "prefill" not in row.row.name:
        return
    if found.reproduces:
        verdict = text("roofline.calibration.same", lang)
    else:
        direction = text(f"roofline.calibration.{'above' if found.over_printed > 1 else 'below'}", lang)
        percent = format_percent(abs(found.over_printed - 1), 0)
        verdict = text("roofline.calibration.differs", lang, percent=percent, direction=direction)
    values = {
        "name": row.row.name,
        "flop": format_si(found.flop, "FLOP"),
        "time": format_time(found.latency_s),
        "rate": format_number(found.flop_per_s / 1e12, 3) + " TFLOPS",
        "printed": format_number(found.printed_flop_per_s / 1e12) + " TFLOPS",
        "verdict": verdict,
    }
    if kind == "mqa":
        q, k = row.row.sizes["m"], row.row.sizes["n"]
        share = 1 - (q - 1) / (2 * k)
        values |= {"q": str(q), "k": str(k), "share": format_percent(share)}
    _say(console, text(f"roofline.calibration.{kind}", lang, **values))


def _print_row_audit(row: RowResult, console: Console, lang: str) -> None:
    if not row.audit:
        return
    _say(console, text("roofline.audit.heading_row", lang), style="bold")
    for line in row.audit:
        mark = text("roofline.audit.reproduces", lang) if line.reproduces else ""
        values = {
            "convention": convention_text(line.convention, lang),
            "bytes": format_bytes(line.bytes),
            "rate": format_rate(line.bytes_per_s),
            "mark": mark,
            "bound": bound_text(line.bound, lang),
        }
        _say(console, text("roofline.audit.line", lang, **values))


def _print_audits(table: TableResult, console: Console, lang: str) -> None:
    if not table.audits:
        return
    _heading("audit", console, lang)
    for found in table.audits:
        _say(console, _audit_text(found, lang))
    _say(console, text("roofline.audit.conventions_note", lang))


def _audit_text(found: TableAudit, lang: str) -> str:
    low, high = (format_number(value, 3) for value in found.over_inputs)
    values = {"group": found.group, "rows": found.rows, "range": low if low == high else f"{low}–{high}"}
    if found.explained_by and found.explained_by[0] == IMPLIED_ROWS:
        line = text("roofline.audit.implied", lang, **values)
    elif found.explained_by:
        names = " / ".join(convention_text(name, lang) for name in found.explained_by)
        line = text("roofline.audit.explained", lang, conventions=names, **values)
    elif found.rows == 1:
        line = text("roofline.audit.unexplained_one", lang, **values)
    else:
        best = max(found.reproduced, key=lambda name: found.reproduced[name])
        counts = {"convention": convention_text(best, lang), "count": found.reproduced[best], "rows": found.rows}
        line = text("roofline.audit.unexplained", lang, best=text("roofline.audit.best", lang, **counts), **values)
    if not found.changed:
        return line
    key = "no_output" if found.explained_by and not found.explained_by[0].endswith("output") else "changed"
    return f"{line} {text(f'roofline.audit.{key}', lang, names=_some(list(found.changed), lang))}"


def _print_remarks(rows: Iterable[RowResult], console: Console, lang: str) -> None:
    """Each distinct remark once, with the rows it is about; after a few that differ in figures only, just the rows."""
    rows = list(rows)
    by_code: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for note in row.notes:
            by_code.setdefault(note.code, {}).setdefault(note_text(note, lang), []).append(row.row.name)
    if not by_code:
        return
    _heading("remarks", console, lang)
    for sentences in by_code.values():
        entries = list(sentences.items())
        for sentence, names in entries[:_ALIKE]:
            _say(console, sentence if len(rows) == 1 else f"{_some(names, lang)}: {sentence}")
        others = [name for _, names in entries[_ALIKE:] for name in names]
        if others:
            _say(console, text("roofline.more_alike", lang, names=_some(others, lang)))


def _some(names: list[str], lang: str) -> str:
    """The first few names and how many more there are."""
    separator = text("roofline.separator", lang)
    shown = separator.join(names[:_MANY])
    if len(names) > _MANY:
        shown += separator + text("roofline.rows_more", lang, count=len(names) - _MANY)
    return shown


def _print_shape(shape: ShapeResult, console: Console, lang: str) -> None:
    from rich.table import Table

    found = shape.analysis
    title = text("roofline.title_shape", lang, name=shape.name, dtype=found.cost.dtype, device=found.device.name)
    _say(console, title, style="bold")
    if found.bounds.size != 1:
        _say(console, _several(shape, lang))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, value in _shape_lines(shape, lang):
        table.add_row(text(f"roofline.shape.{label}", lang), value)
    console.print(table)
    if not found.near_ridge.all():
        _say(console, shape_explained(found.bound, lang))
    for note in found.notes:
        _say(console, note_text(note, lang))


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
    inputs = format_quantity(float(found.intensity_inputs), "FLOP/B")
    intensity = format_quantity(float(found.intensity), "FLOP/B")
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
        return text("roofline.shape.ridge_none", lang)
    peak = found.pipes[0].peak
    return text(
        "roofline.shape.ridge_value",
        lang,
        value=format_quantity(found.ridge, "FLOP/B"),
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
        "roofline.shape.estimate_value",
        lang,
        time=format_time(found.time_s, 3),
        shortest=format_time(found.shortest_s, 3),
        longest=format_time(found.longest_s, 3),
        efficiency=format_percent(known.median, 0),
        samples=known.samples,
        basis=known.basis,
    )


def _print_cautions(console: Console, lang: str) -> None:
    _heading("cautions", console, lang)
    for key in ("ridge", "predict"):
        _say(console, text(f"roofline.caution.{key}", lang))


_UNITS = re.compile(r"(?<=\d) (?=%|[kMGTPmnµ]?(?:B/s|B|FLOPS|OPS|FLOP/B|FLOP|OP|s|TFLOPS)(?![A-Za-z]))")


def _say(console: Console, sentence: str, style: str = "") -> None:
    """Prints prose in lines of the console's width, no number torn from its unit."""
    from rich.text import Text

    for line in wrap(_UNITS.sub(NO_BREAK_SPACE, sentence), console.width) or [""]:
        console.print(Text(line, style=style), soft_wrap=True)


def _heading(key: str, console: Console, lang: str) -> None:
    console.print()
    _say(console, text(f"roofline.heading.{key}", lang), style="bold")
