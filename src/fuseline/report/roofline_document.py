"""What `classify` found as a document: tables with bars, audits, remarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuseline.api.classification import Classification, ShapeResult
from fuseline.excerpts import printable
from fuseline.machine import rate_unit
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.document import Block, Cell, Cells, Column, Document, Gap, Remarks, Section, Share, Table
from fuseline.report.roofline_audit import calibration_text, row_audit, table_audits
from fuseline.report.roofline_notes import (
    bound_explained,
    bound_text,
    kind_text,
    note_text,
    shape_explained,
)
from fuseline.report.roofline_prose import headed, paragraphs, prose, row_name, some
from fuseline.roofline.classify import RowResult
from fuseline.roofline.row_files import ONLY_A_HEADER
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

_ALIKE = 2
_MOST_SHOWN = 1000


def classification_document(found: Classification, lang: str | None = None) -> Document:
    """Everything that ``classify`` found, in the language asked for."""
    language = resolve_language(lang)
    cautions = [text(f"roofline.caution.{key}", language) for key in ("ridge", "predict")]
    last = [headed("cautions", paragraphs(*cautions), language)]
    if found.overview:
        return Document(text("roofline.title_overview", language), (*_overview(found, language), *last), language)
    parts = [_table_part(table, found, language) for table in found.tables]
    parts += [_shape_part(shape, language) for shape in found.shapes]
    sections: list[Section] = []
    for number, (title, blocks, further) in enumerate(parts):
        sections += [Section(title if number else "", blocks), *further]
    if found.errors:
        sections.append(headed("errors", _errors(found, language), language))
    return Document(printable(parts[0][0]), (*sections, *last), language)


_Part = tuple[str, tuple[Block, ...], list[Section]]
"""The title of a table or shape, what stands under it, and the sections that follow."""


def _errors(found: Classification, lang: str) -> Remarks:
    lines = []
    for error in found.errors:
        if not error.line:
            lines.append(f"{error.name}: {error.message}")
            continue
        name = f" ({error.name})" if error.name else ""
        lines.append(text("roofline.bad_row", lang, line=error.line, name=name, message=error.message))
    bad = sum(error.message != ONLY_A_HEADER for error in found.errors)
    return paragraphs(*lines, text("roofline.bad_rows", lang, count=bad) if bad else "")


def _overview(found: Classification, lang: str) -> list[Section]:
    """The answer to a call that names no kernel: calibration, the six shapes, their sources, and what to do next."""
    table = found.tables[0]
    rows = table.rows
    sources = []
    for row in rows:
        says = f" {text('roofline.column.says', lang)}: {bound_text(row.row.says, lang)}" if row.row.says else ""
        quoted = f" ({row.row.says_text})" if row.row.says_text else ""
        rates = ", ".join(_rate_of(row, side) for side in ("compute", "memory"))
        sources.append(f"{row.row.name}: {rates}. {row.row.source}.{says}{quoted}")
    if rows[0].device is not None:
        bounds = course_bounds([row.row for row in rows], rows[0].device)
        listed = text("roofline.separator", lang).join(bound_text(bound, lang) for bound in bounds)
        sources.append(text("roofline.course_reads", lang, list=listed))
    sources.append(_agreement(table, lang))
    six = (_rows_table(rows, lang), paragraphs(*_peaks(rows, lang), _rule_text(found, rows, lang)))
    steps = [text(f"roofline.next.{key}", lang) for key in ("table", "shape", "csv", "chart")]
    return [
        headed("calibration", paragraphs(*(calibration_text(row, lang) for row in rows)), lang),
        Section(text("roofline.heading.six", lang), six),
        headed("sources", paragraphs(*sources), lang),
        *table_audits(table, lang),
        *_remarks(rows, lang),
        headed("next", paragraphs(*steps), lang),
    ]


def _table_part(table: TableResult, found: Classification, lang: str) -> _Part:
    single = table.name == "row"
    first = table.rows[0] if table.rows else None
    if single and first is not None:
        device = first.device.name if first.device else first.row.device
        title = text("roofline.title_row", lang, name=row_name(first.row, lang), device=device)
        if first.device and first.row.device not in ("", first.device.name):
            about = {"device": first.row.device, "peaks": first.device.name}
            title = text("roofline.title_mixed", lang, name=row_name(first.row, lang), **about)
    else:
        title = text("roofline.title_table", lang, name=table.name, count=len(table.rows))
    if first is None:
        return title, (), []
    told = _peaks(table.rows, lang)
    if single:
        told.append(bound_explained(first.bound, lang, found.rule))
    told.append(_rule_text(found, table.rows, lang))
    if any(row.row.says for row in table.rows):
        told.append(_agreement(table, lang))
    further = []
    if single:
        told.append(calibration_text(first, lang))
        further += row_audit(first, lang)
    further += [*table_audits(table, lang), *_remarks(table.rows, lang)]
    return title, (_rows_table(table.rows, lang), paragraphs(*told)), further


def _rows_table(rows: Sequence[RowResult], lang: str) -> Table:
    """One line a row: ratios as bars, verdict, what the source says; rates and device too where there is room."""
    others = any(pipe.side == "third" for row in rows for pipe in row.pipes)
    devices = len({row.row.device for row in rows}) > 1
    says = any(row.row.says for row in rows)
    columns = [Column(text("roofline.column.name", lang), folding=True)]
    columns += [Column(text("roofline.column.device", lang), spare=1)] * devices
    for side in ("compute", "memory"):
        columns.append(Column(text(f"roofline.column.{side}_rate", lang), numeric=True, spare=2))
        columns.append(Column(text(f"roofline.column.{side}", lang)))
    columns += [Column(text("roofline.column.other", lang), spare=2)] * others
    columns.append(Column(text("roofline.column.bound", lang), tone="strong"))
    columns += [Column(text("roofline.column.says", lang))] * says
    lines: list[Cells | Gap] = []
    for row in rows[:_MOST_SHOWN]:
        cells: list[Cell] = [printable(row_name(row.row, lang))]
        cells += [row.device.name if row.device else "–"] * devices
        for side in ("compute", "memory"):
            cells += [_rate_of(row, side), _share(row, side)]
        cells += [_third_pipes(row)] * others
        cells.append(bound_text(row.bound, lang))
        cells += [bound_text(row.row.says, lang) if row.row.says else "–"] * says
        lines.append(Cells(tuple(cells)))
    if len(rows) > _MOST_SHOWN:
        lines.append(Gap(text("roofline.not_shown", lang, count=len(rows) - _MOST_SHOWN)))
    return Table(tuple(columns), tuple(lines))


def _rate_of(row: RowResult, side: str) -> str:
    pipe = next((pipe for pipe in row.pipes if pipe.side == side), None)
    if pipe is None:
        return "–"
    return ("≈ " if pipe.derived else "") + str(pipe.achieved)


def _share(row: RowResult, side: str) -> Cell:
    """A bar and the percentage; a mixed or impossible ratio is marked with ``!``."""
    pipe = next((pipe for pipe in row.pipes if pipe.side == side), None)
    if pipe is None or pipe.ratio is None:
        return "–"
    value = pipe.ratio.value
    mark = "!" if pipe.ratio.mixed or value > IMPOSSIBLE_RATIO else " "
    return Share(value, f"{format_percent(value)}{mark}")


def _third_pipes(row: RowResult) -> str:
    found = [p for p in row.pipes if p.side == "third"]
    return ", ".join(f"{p.pipe} {'–' if p.ratio is None else format_percent(p.ratio.value)}" for p in found) or "–"


def _peaks(rows: Iterable[RowResult], lang: str) -> list[str]:
    """The peaks that were divided by, each with the kind of its source; a sentence a machine."""
    by_device: dict[str, dict[str, Quantity]] = {}
    for row in rows:
        for pipe in row.pipes:
            if pipe.peak is not None and row.device is not None:
                label = f"{pipe.pipe} {pipe.peak.dtype}".strip()
                by_device.setdefault(row.device.name, {})[label] = pipe.peak
    found = []
    for device, peaks in by_device.items():
        parts = [
            text("roofline.peak", lang, pipe=label, value=str(peak), kind=kind_text(peak.source.kind, lang))
            for label, peak in peaks.items()
        ]
        listed = f"{device}: {text('roofline.separator', lang).join(parts)}"
        found.append(text("roofline.peaks", lang, list=listed))
    return found


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


def _remarks(rows: Iterable[RowResult], lang: str) -> list[Section]:
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
    told = []
    for sentences in by_reason.values():
        for sentence, names in sentences.items():
            if not sentence:
                told.append(text("roofline.more_alike", lang, names=some(names, lang)))
            else:
                told.append(sentence if len(rows) == 1 else f"{some(names, lang)}: {sentence}")
    return [headed("remarks", paragraphs(*told), lang)] if told else []


def _reason(note: Note) -> tuple[str, str]:
    """What a remark says apart from its figures: only remarks that are equal in this may stand for each other."""
    return note.code, repr([(key, value) for key, value in note.values.items() if not isinstance(value, float)])


def _shape_part(shape: ShapeResult, lang: str) -> _Part:
    found = shape.analysis
    title = text("roofline.title_shape", lang, name=shape.name, dtype=found.cost.dtype, device=found.device.name)
    if found.bounds.ndim:
        return title, (paragraphs(_several(shape, lang)),), []
    layout = found.cost.scales
    scales = text(f"roofline.shape.scales_{layout}", lang) if layout else ""
    lines = [
        Cells((text(f"roofline.shape.{label}", lang, scales=scales), prose(value)))
        for label, value in _shape_lines(shape, lang)
    ]
    told = [] if found.near_ridge.all() else [shape_explained(found.bound, lang)]
    told += [note_text(note, lang) for note in found.notes]
    table = Table((Column("", folding=True, tone="strong"), Column("", folding=True)), tuple(lines))
    return title, (table, paragraphs(*told)), []


def _several(shape: ShapeResult, lang: str) -> str:
    import numpy as np

    names, counts = np.unique(shape.analysis.bounds, return_counts=True)
    listed = text("roofline.separator", lang).join(
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
    if found.expected is not None:
        usual = found.expected
        values = {"bytes": format_bytes(float(usual.bytes)), "time": format_time(float(usual.time_s))}
        bound = bound_text(str(usual.bounds.reshape(-1)[0]), lang)
        lines.append(("expected", text("roofline.shape.expected_value", lang, bound=bound, **values)))
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
    return text(
        f"roofline.shape.estimate_{found.rests_on.name.lower()}",
        lang,
        time=format_time(found.time_s, 3),
        shortest=format_time(found.shortest_s, 3),
        longest=format_time(found.longest_s, 3),
        efficiency=format_percent(found.efficiency, 0),
        samples=found.samples,
        basis=found.basis,
    )
