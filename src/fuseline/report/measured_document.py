"""Measurements as part of a document: a table and bars for each number of threads, and the remarks on them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fuseline.api.explanation import Measured
from fuseline.excerpts import printable
from fuseline.ir.graph import Graph
from fuseline.report.catalogue import text, topic_texts
from fuseline.report.document import Bar, Bars, Block, Cells, Column, Gap, Remarks, Row, Section, Table
from fuseline.report.remarks import Remark, implementation_name, measured_remarks, number, ratio
from fuseline.units import format_percent, format_rate, format_time


def measured_section(rows: Sequence[Measured], graph: Graph, title: str, language: str) -> Section:
    """A table and bars for each number of threads, and what follows from them."""
    blocks: list[Block] = []
    for threads in sorted({r.threads for r in rows}):
        group = [r for r in rows if r.threads == threads]
        blocks += [_measurements(group, threads, language), _speed_bars(group, language)]
    blocks.append(remarks_block(measured_remarks(rows, graph), language))
    return Section(title, tuple(b for b in blocks if not (isinstance(b, Bars) and not b.bars)))


def _measurements(rows: Sequence[Measured], threads: int, language: str) -> Table:
    columns = (
        Column(label_text("measured.implementation", language), flexible=True),
        Column(label_text("measured.time", language), numeric=True),
        Column("±", numeric=True, tone="faint"),
        Column(label_text("measured.speedup", language), numeric=True, tone="strong"),
        Column(label_text("measured.bandwidth", language), numeric=True),
        Column(label_text("measured.limit", language), numeric=True),
        Column(label_text("measured.error", language), numeric=True),
    )
    shown = [_measurement(r, language) for r in rows]
    subject = text("explain.measured.subject", language, n=number(rows[0].n), dtype=rows[0].dtype)
    threads_text = threads_name(threads, language)
    return Table(columns, tuple(shown), f"{threads_text} · {subject}")


def threads_name(threads: int, language: str) -> str:
    """``one thread``, ``4 threads``."""
    key = "one" if threads == 1 else "many"
    return text(f"explain.threads.{key}", language, **({} if threads == 1 else {"count": number(threads)}))


def _measurement(row: Measured, language: str) -> Row:
    name = implementation_name(row.implementation, language)
    if row.median_s is None:
        note = note_text(row.note, language)
        return Gap(text("explain.measured.note", language, implementation=name, note=note) if note else name)
    none = label_text("measured.none", language)
    spread = none if row.spread_s is None else format_percent(row.spread_s / row.median_s, 0)
    speed = none if row.speedup is None else f"{ratio(row.speedup)}×"
    bandwidth = none if row.bytes_per_s is None else format_rate(row.bytes_per_s)
    limit = none if row.fraction_of_limit is None else format_percent(row.fraction_of_limit)
    error = none if row.max_abs_error is None else f"{row.max_abs_error:.1e}"
    return Cells((name, format_time(row.median_s), spread, speed, bandwidth, limit, error))


def note_text(note: str, language: str) -> str:
    """A note of a measurement (English in the data, on one line) in a language, where the catalogue has it."""
    shown = " ".join(printable(note, keep="\n").split())
    for key, words in topic_texts("explain", "en").items():
        if key.startswith("note.") and (found := re.fullmatch(_pattern(words), shown)):
            return text(f"explain.{key}", language, **found.groupdict())
    return shown


def _pattern(words: str) -> str:
    """A regular expression for a catalogue's text with any values in its fields."""
    return re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.*)", re.escape(words))


def _speed_bars(rows: Sequence[Measured], language: str) -> Bars:
    times = [(r, r.median_s) for r in rows if r.median_s is not None]
    slowest = max((t for _, t in times), default=1.0) or 1.0
    return Bars(
        tuple(Bar(implementation_name(r.implementation, language), t / slowest, format_time(t)) for r, t in times)
    )


def label_text(key: str, language: str) -> str:
    """A word of the report by its key in the catalogue, below ``explain``."""
    return text(f"explain.{key}", language)


def remarks_block(found: Sequence[Remark], language: str) -> Remarks:
    """Remarks in a language."""
    return Remarks(tuple(remark.text(language) for remark in found))
