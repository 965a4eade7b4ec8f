"""Calibration and byte audit: what was recomputed beside what the source prints."""

from __future__ import annotations

from fuseline.report.catalogue import text
from fuseline.report.document import Section
from fuseline.report.roofline_notes import bound_text, convention_text
from fuseline.report.roofline_prose import headed, paragraphs, row_name, some
from fuseline.roofline.audit import IMPLIED_ROWS, TOLERANCE, TableAudit
from fuseline.roofline.classify import RowResult
from fuseline.roofline.tables import TableResult
from fuseline.units import format_bytes, format_number, format_percent, format_rate, format_si, format_time


def calibration_text(row: RowResult, lang: str) -> str:
    """A row's arithmetic rate recomputed from its shape and time, as a fact beside the printed one; empty without."""
    found = row.calibration
    kinds = {"gemm": "line", "grouped-gemm": "grouped", "mqa-logits": "logits"}
    kind = kinds.get(row.row.operation, "work")
    if found is None or found.printed_flop_per_s is None or found.over_printed is None:
        return ""
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
    return text(f"roofline.calibration.{kind}", lang, **values)


def _logits_sizes(row: RowResult) -> tuple[int, int]:
    """Queries and positions of a row of logits, under either of the names that sizes go by."""
    sizes = row.row.sizes
    return sizes.get("m", sizes.get("q_len")), sizes.get("n", sizes.get("kv_len"))


def _causal_share(row: RowResult) -> float:
    """The share of pairs that a causal mask over the last positions leaves."""
    queries, positions = _logits_sizes(row)
    return 1 - (queries - 1) / (2 * positions)


def row_audit(row: RowResult, lang: str) -> list[Section]:
    """The byte conventions that a row was tried with."""
    lines = []
    for line in row.audit:
        mark = text("roofline.audit.reproduces", lang) if line.reproduces else ""
        values = {
            "convention": convention_text(line.convention, lang),
            "bytes": format_bytes(line.bytes),
            "rate": format_rate(line.bytes_per_s),
            "mark": mark,
            "bound": bound_text(line.bound, lang),
        }
        lines.append(text("roofline.audit.line", lang, **values))
    return [Section(text("roofline.audit.heading_row", lang), (paragraphs(*lines),))] if lines else []


def table_audits(table: TableResult, lang: str) -> list[Section]:
    """What the bytes that a table prints were found to be, a group of rows each."""
    lines = [_audit_text(found, lang) for found in table.audits]
    layouts: dict[str, list[str]] = {}
    for found in table.audits:
        if found.scales:
            layouts.setdefault(found.scales, []).append(found.group)
    for layout, groups in layouts.items():
        lines.append(text(f"roofline.audit.scales_{layout}", lang, groups=some(groups, lang)))
    return [headed("audit", paragraphs(*lines), lang)] if lines else []


def _audit_text(found: TableAudit, lang: str) -> str:
    if not found.printed:
        key = {0: "nothing_shaped", found.rows: "nothing_printed"}.get(found.shaped, "nothing")
        return text(f"roofline.audit.{key}", lang, group=found.group, rows=found.rows)
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
