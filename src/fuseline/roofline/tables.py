"""The bundled tables: published kernel performance, row by row with its source, classified and audited.

``ascend`` is the 43 rows of DeepGEMM-Ascend, ``deepgemm`` the 64 of DeepGEMM and FlashMLA (H800, B200 and others: each
row with its own machine), ``course`` the six rows that a teaching example picks from the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from fuseline.errors import UnknownNameError
from fuseline.machine.device import Device
from fuseline.roofline.audit import TableAudit, audit_group
from fuseline.roofline.classify import Options, RowResult, classify_row
from fuseline.roofline.ratios import Denominators
from fuseline.roofline.row_files import rows_from_text
from fuseline.roofline.rows import COMPUTE, MEMORY, Row
from fuseline.roofline.rules import BookRule, Note, Reading
from fuseline.roofline.scales import scale_layout

TABLES = ("ascend", "deepgemm", "course")
"""The names of the bundled tables."""

COURSE_ROWS = (
    "inference FP8 4096x7168x16384",
    "m-grouped FP8xFP4 G8 4096x4096x4096",
    "inference FP8 128x7168x16384",
    "MQA logits prefill FP8 Q4096 K8192",
    "MQA logits decode FP8 Q256 K8192",
    "HC prenorm 8192x24x28672",
)
"""The six shapes of the course, in its order."""

COURSE_PEAK_DTYPE = "fp8"
"""The course divides every arithmetic rate by the FP8 peak of this device, whatever the row's own format is."""


@cache
def bundled_rows(table: str) -> tuple[Row, ...]:
    """The rows of a bundled table; raises ``UnknownNameError``."""
    if table not in TABLES:
        raise UnknownNameError(f"unknown table {table!r}; choose one of {', '.join(TABLES)}")
    if table == "course":
        known = {row.name: row for row in bundled_rows("ascend")}
        return tuple(known[name] for name in COURSE_ROWS)
    path = resources.files("fuseline.roofline") / "data" / f"{table}.csv"
    rows, errors = rows_from_text(path.read_text(encoding="utf-8"), f"{table}.csv")
    if errors:
        raise UnknownNameError(f"{table}.csv, line {errors[0].line}: {errors[0].message}")
    return tuple(rows)


def course_bounds(rows: Iterable[Row], device: Device) -> tuple[str, ...]:
    """What the course reads of its rows: all rates over one arithmetic peak and the effective bandwidth."""
    bandwidth = device.main_memory.bandwidth.value
    found = []
    for row in rows:
        reading = Reading(course_ratio(row, device), row.achieved[MEMORY].value / bandwidth)
        found.append(BookRule().judge(reading).bound)
    return tuple(found)


def course_ratio(row: Row, device: Device) -> float:
    """What the course reads for the compute side of ``row``: its rate over the FP8 peak."""
    return row.achieved[COMPUTE].value / device.pipe("matrix").peak(COURSE_PEAK_DTYPE).value


@dataclass(frozen=True, slots=True)
class TableResult:
    """A table with its verdicts, how they compare with what the sources say, and its byte audit by group."""

    name: str
    rows: tuple[RowResult, ...]
    audits: tuple[TableAudit, ...]

    @property
    def agreeing(self) -> int:
        """Rows whose source states the bound that the rule finds."""
        return sum(row.agrees() is True for row in self.rows)

    @property
    def disagreeing(self) -> int:
        """Rows whose source states another bound."""
        return sum(row.agrees() is False for row in self.rows)

    @property
    def silent(self) -> int:
        """Rows whose source states no bound."""
        return sum(not row.row.says for row in self.rows)

    @property
    def undetermined(self) -> int:
        """Rows whose source states a bound, but whose rates decide none."""
        return sum(bool(row.row.says) and row.agrees() is None for row in self.rows)


def group_of(row: Row) -> str:
    """The table that a row belongs to in its source: what its audit is summarised by."""
    if row.group:
        return row.group
    formats = (row.operands.split("->", maxsplit=1)[0] or row.dtype).upper().replace("X", "x")
    return f"{row.operation} {formats}".strip()


def classify_table(
    name: str, rows: tuple[Row, ...], devices: Mapping[str, Device], options: Options | None = None
) -> TableResult:
    """Classifies ``rows`` against their own machines; ``devices`` maps the names that rows give to known machines."""
    options = options or Options()
    against = {name: Denominators(device, options.peak_kind, options.allow_mixed) for name, device in devices.items()}
    results = tuple(
        classify_row(row, devices.get(row.device), options=options, denominators=against.get(row.device))
        for row in rows
    )
    if name == "course":
        results = tuple(_with_course_note(result) for result in results)
    groups: dict[tuple[str, str], list[RowResult]] = {}
    for result in results:
        machine = result.row.device if result.device is None else result.device.name
        groups.setdefault((machine, group_of(result.row)), []).append(result)
    audits = []
    for (device, group), members in groups.items():
        label = f"{group}, {device}" if device else group
        scales = str(members[0].row.sizes.get("scales", scale_layout(members[0].device)))
        audits.append(audit_group(label, [(r.row.name, r.bound, r.audit) for r in members], scales))
    return TableResult(name, results, tuple(audits))


def _with_course_note(result: RowResult) -> RowResult:
    """Adds what the course reads where it divides by the peak of another number format."""
    if result.device is None or result.row.dtype == COURSE_PEAK_DTYPE:
        return result
    ratio = course_ratio(result.row, result.device)
    values = {"course": ratio, "own": result.ratio(COMPUTE), "dtype": result.row.dtype}
    return replace(result, notes=(Note("course-peak", values), *result.notes))
