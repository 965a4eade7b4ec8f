"""Calibration and byte audit on a terminal: what was recomputed beside what the source prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuseline.report.catalogue import text
from fuseline.report.roofline_notes import bound_text, convention_text
from fuseline.report.roofline_prose import heading, row_name, say, some
from fuseline.roofline.audit import IMPLIED_ROWS, TOLERANCE, TableAudit
from fuseline.roofline.classify import RowResult
from fuseline.roofline.tables import TableResult
from fuseline.units import format_bytes, format_number, format_percent, format_rate, format_si, format_time

if TYPE_CHECKING:
    from rich.console import Console


def print_calibration(row: RowResult, console: Console, lang: str) -> None:
    """A row's arithmetic rate recomputed from its shape and time, as a fact beside the printed one."""
    found = row.calibration
    kinds = {"gemm": "line", "grouped-gemm": "grouped", "mqa-logits": "logits"}
    kind = kinds.get(row.row.operation, "work")
    if found is None or found.printed_flop_per_s is None or found.over_printed is None:
        return
    causal = _causal_share(row) if kind == "logits" else None
    if causal is not None and abs(causal * found.over_printed - 1) <= TOLERANCE:
        kind = "mqa"
    if found.reproduces:
        verdict = text("roofline.calibration.same", lang)
    else:
        direction = text(f"roofline.calibration.{'above' if found.over_printed > 1 else 'below'}", lang)
        percent = format_percent(abs(found.over_printed - 1), 0)
        verdict = text("roofline.calibration.differs", lang, percent=percent, direction=direction)
    values = {
        "name": row_name(row.row, lang),
        "flop": format_si(found.flop, "FLOP"),
        "time": format_time(found.latency_s),
        "rate": format_number(found.flop_per_s / 1e12, 3) + " TFLOPS",
        "printed": format_number(found.printed_flop_per_s / 1e12) + " TFLOPS",
        "verdict": verdict,
    }
    if kind == "mqa":
        q, k = _logits_sizes(row)
        values |= {"q": str(q), "k": str(k), "share": format_percent(causal or 0.0)}
    say(console, text(f"roofline.calibration.{kind}", lang, **values))


def _logits_sizes(row: RowResult) -> tuple[int, int]:
    """Queries and positions of a row of logits, under either of the names that sizes go by."""
    sizes = row.row.sizes
    return sizes.get("m", sizes.get("q_len")), sizes.get("n", sizes.get("kv_len"))


def _causal_share(row: RowResult) -> float:
    """The share of pairs that a causal mask over the last positions leaves."""
    queries, positions = _logits_sizes(row)
    return 1 - (queries - 1) / (2 * positions)


def print_row_audit(row: RowResult, console: Console, lang: str) -> None:
    if not row.audit:
        return
    say(console, text("roofline.audit.heading_row", lang), style="bold")
    for line in row.audit:
        mark = text("roofline.audit.reproduces", lang) if line.reproduces else ""
        values = {
            "convention": convention_text(line.convention, lang),
            "bytes": format_bytes(line.bytes),
            "rate": format_rate(line.bytes_per_s),
            "mark": mark,
            "bound": bound_text(line.bound, lang),
        }
        say(console, text("roofline.audit.line", lang, **values))


def print_audits(table: TableResult, console: Console, lang: str) -> None:
    if not table.audits:
        return
    heading("audit", console, lang)
    for found in table.audits:
        say(console, _audit_text(found, lang))
    layouts: dict[str, list[str]] = {}
    for found in table.audits:
        if found.scales:
            layouts.setdefault(found.scales, []).append(found.group)
    for layout, groups in layouts.items():
        say(console, text(f"roofline.audit.scales_{layout}", lang, groups=some(groups, lang)))


def _audit_text(found: TableAudit, lang: str) -> str:
    if not found.printed:
        return text("roofline.audit.nothing", lang, group=found.group, rows=found.rows)
    low, high = (format_number(value, 3) for value in found.over_inputs)
    values = {"group": found.group, "rows": found.rows, "range": low if low == high else f"{low}–{high}"}
    if found.explained_by and found.explained_by[0] == IMPLIED_ROWS:
        line = text("roofline.audit.implied", lang, **values)
    elif found.explained_by:
        names = " / ".join(convention_text(name, lang) for name in found.explained_by)
        key = "explained_one" if found.rows == 1 else "explained"
        line = text(f"roofline.audit.{key}", lang, conventions=names, **values)
    elif found.rows == 1:
        line = text("roofline.audit.unexplained_one", lang, **values)
    else:
        best = max(found.reproduced, key=lambda name: found.reproduced[name])
        counts = {"convention": convention_text(best, lang), "count": found.reproduced[best], "rows": found.rows}
        line = text("roofline.audit.unexplained", lang, best=text("roofline.audit.best", lang, **counts), **values)
    if not found.changed:
        return line
    key = "no_output" if found.explained_by and not found.explained_by[0].endswith("output") else "changed"
    return f"{line} {text(f'roofline.audit.{key}', lang, names=some(list(found.changed), lang))}"
