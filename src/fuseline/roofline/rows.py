"""Rows of measured rates: one kernel at one shape on one machine, with what its source prints and says.

Rows come from the bundled tables, from a user's CSV, or from the command line; all pass the same checks here.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuseline.cost.operands import parse_operands
from fuseline.cost.shapes import ShapeCost, shape_cost
from fuseline.errors import DataFileError, FuselineError, UnitError, nearest
from fuseline.machine.dtypes import rate_unit
from fuseline.roofline.rules import Note
from fuseline.units import Quantity, Source, SourceKind, parse_count

COMPUTE = "compute"
MEMORY = "memory"
"""The two rates that every table has; the device decides which of its pipes and memories they belong to."""

SIZE_COLUMNS = ("m", "n", "k", "groups", "heads", "experts", "topk", "shared", "batch")
_KNOWN = ("name", "device", "dtype", *SIZE_COLUMNS, "latency_us", "tflops", "tops", "gbps", "waves")
_TEXTS = ("operation", "operands", "table", "says", "says_text", "source", "note")
_SUFFIXES = {"_tflops": (1e12, "FLOP/s"), "_tops": (1e12, "OP/s"), "_gbps": (1e9, "B/s")}

MAX_RATE = 1e19
"""Rates above this (ten million TFLOPS or GB/s ×1000) are a mistake of units."""
MAX_LATENCY_S = 1e6
MAX_CSV_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Row:
    """One measured kernel.

    ``achieved`` maps ``compute``, ``memory`` or the name of a pipe, memory or link to the measured rate. ``dtype`` is
    the format that decides the peak, ``operands`` the formats that decide the bytes. ``says`` is the bound that the
    source states, as a bound name, and ``says_text`` in its words; ``line`` is that of its file.
    """

    name: str
    device: str
    dtype: str
    operation: str = "gemm"
    operands: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    latency_s: float | None = None
    waves: float | None = None
    achieved: Mapping[str, Quantity] = field(default_factory=dict)
    source: str = ""
    says: str = ""
    says_text: str = ""
    notes: tuple[Note, ...] = ()
    line: int = 0

    def cost(self) -> ShapeCost | None:
        """Work and bytes of the row's shape, or ``None`` where it states none."""
        size = self.sizes
        if not {"m", "n", "k"} <= size.keys():
            return None
        m, n, k, dtype = size["m"], size["n"], size["k"], self.operands or self.dtype
        if self.operation == "grouped-gemm":
            return shape_cost("grouped-gemm", groups=size.get("groups", 1), m=m, n=n, k=k, dtype=dtype)
        if self.operation == "mqa-logits":
            return shape_cost("mqa-logits", q_len=m, kv_len=n, head_dim=k, heads=size.get("heads", 1), dtype=dtype)
        if self.operation == "moe":
            parts = {name: size[name] for name in ("experts", "topk", "shared") if name in size}
            return shape_cost("moe", tokens=m, intermediate=n, hidden=k, dtype=dtype, **parts)
        return shape_cost("gemm", m=m, n=n, k=k, batch=size.get("batch", 1), dtype=dtype)


def positive(value: float, what: str, unit: str, most: float = MAX_RATE) -> float:
    """``value`` checked as a finite positive number that is not absurd; raises ``UnitError`` naming ``what``."""
    if not math.isfinite(value) or value <= 0:
        raise UnitError(f"{what} must be a positive number, not {value!r}")
    if value > most:
        raise UnitError(f"{what} of {value:.4g} {unit} is absurd: check its unit")
    return value


def measured(value: float, unit: str, machine: str, document: str = "", dtype: str = "") -> Quantity:
    """A measured rate of ``machine``."""
    return Quantity(value, unit, Source(SourceKind.MEASURED, document, machine), dtype)


@dataclass(frozen=True, slots=True)
class RowError:
    """A row of a file that could not be read: its line, its name where it has one, and why."""

    line: int
    name: str
    message: str


def read_rows(path: str | Path, default_device: str = "", default_dtype: str = "") -> tuple[list[Row], list[RowError]]:
    """The rows of a CSV file and the errors of its bad rows.

    Columns are found by name, in any order: ``name,device,dtype,m,n,k,latency_us,tflops,gbps``; further pipes as
    ``<pipe>_gbps``, ``<pipe>_tflops``, ``<pipe>_tops``. ``default_device`` and ``default_dtype`` fill empty cells.
    Raises ``DataFileError`` where the file itself is unreadable or a column is unknown.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_CSV_BYTES + 1)
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_CSV_BYTES:
        raise DataFileError(f"{path}: larger than {MAX_CSV_BYTES // 2**20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: not UTF-8 text") from error
    return rows_from_text(text, str(path), default_device, default_dtype)


def rows_from_text(
    text: str, path: str, default_device: str = "", default_dtype: str = ""
) -> tuple[list[Row], list[RowError]]:
    """Like ``read_rows``, from text; ``path`` is used in errors and as the source of rows that name none."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    errors: list[RowError] = []
    header: list[str] | None = None
    iterator = iter(reader)
    while True:
        try:
            cells = next(iterator)
        except StopIteration:
            break
        except csv.Error as error:
            errors.append(RowError(reader.line_num, "", f"not CSV: {error}"))
            break
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = _header(cells, path)
            continue
        try:
            rows.append(_row(_cells(header, cells), path, reader.line_num, default_device, default_dtype))
        except FuselineError as error:
            name = cells[header.index("name")] if "name" in header and len(cells) > header.index("name") else ""
            errors.append(RowError(reader.line_num, name, str(error)))
    if header is None:
        raise DataFileError(f"{path}: empty; the first line names the columns")
    return rows, errors


def _header(cells: list[str], path: str) -> list[str]:
    header = [cell.strip().lower() for cell in cells]
    for column in header:
        if column in _KNOWN or column in _TEXTS or any(column.endswith(s) and column != s for s in _SUFFIXES):
            continue
        close = nearest(column, (*_KNOWN, *_TEXTS))
        hint = f"did you mean {close[0]!r}?" if close else "extra pipes are written <pipe>_gbps or <pipe>_tflops"
        raise DataFileError(f"{path}: unknown column {column!r}; {hint}")
    twice = {column for column in header if header.count(column) > 1}
    if twice:
        raise DataFileError(f"{path}: the column {min(twice)!r} appears twice")
    return header


def _cells(header: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) > len(header):
        raise DataFileError(f"{len(cells)} cells where the header has {len(header)} columns")
    return {column: cell.strip() for column, cell in zip(header, cells, strict=False) if cell.strip()}


def _row(cell: Mapping[str, str], path: str, line: int, default_device: str, default_dtype: str) -> Row:
    operands = cell.get("operands", "")
    given = cell.get("dtype", default_dtype or operands)
    if not given:
        raise UnitError("no dtype: give a dtype column, or --dtype for all rows")
    types = parse_operands(given)
    sizes = {name: parse_count(cell[name]) for name in SIZE_COLUMNS if name in cell}
    latency = cell.get("latency_us")
    waves = cell.get("waves")
    row = Row(
        name=cell.get("name") or _shape_name(sizes) or f"line {line}",
        device=cell.get("device", default_device),
        dtype=types.compute,
        operation=cell.get("operation", "gemm"),
        operands=operands or str(types),
        sizes=sizes,
        latency_s=None if latency is None else latency_from_us(_number(latency, "latency_us")),
        waves=None if waves is None else positive(_number(waves, "waves"), "waves", "waves"),
        source=cell.get("source", f"{path}, line {line}"),
        says=cell.get("says", ""),
        says_text=cell.get("says_text", ""),
        notes=_remark(cell.get("note", "")),
        line=line,
    )
    achieved = dict(_rates(cell, row))
    if not achieved and (row.latency_s is None or row.cost() is None):
        raise UnitError("nothing to classify: give tflops and gbps, or a shape with latency_us")
    row.cost()
    return with_achieved(row, achieved)


def _remark(text: str) -> tuple[Note, ...]:
    """A row's own remark: a text of its source, or after ``@`` the code of one that the catalogues know."""
    if not text:
        return ()
    return (Note(text[1:]),) if text.startswith("@row-") else (Note("of-source", {"text": text}),)


def with_achieved(row: Row, achieved: Mapping[str, Quantity]) -> Row:
    """``row`` with its rates replaced."""
    from dataclasses import replace

    return replace(row, achieved=dict(achieved))


def latency_from_us(latency_us: float) -> float:
    """Seconds from microseconds, checked."""
    return positive(latency_us, "latency_us", "us", MAX_LATENCY_S * 1e6) / 1e6


def rate_of(pipe: str, value: float, factor: float, unit: str, row: Row) -> Quantity:
    """A measured rate of ``pipe`` for ``row``, checked; ``value`` is in the unit that ``factor`` converts from."""
    positive(value, f"the rate of {pipe}", unit, MAX_RATE / factor)
    checked = value * factor
    dtype = row.dtype if unit != "B/s" and pipe in (COMPUTE, "matrix") else ""
    return measured(checked, unit, row.device, row.source, dtype)


def _rates(cell: Mapping[str, str], row: Row) -> Iterable[tuple[str, Quantity]]:
    for column in ("tflops", "tops"):
        if column in cell:
            yield COMPUTE, rate_of(COMPUTE, _number(cell[column], column), 1e12, rate_unit(row.dtype), row)
    if "gbps" in cell:
        yield MEMORY, rate_of(MEMORY, _number(cell["gbps"], "gbps"), 1e9, "B/s", row)
    for column, value in cell.items():
        for suffix, (factor, unit) in _SUFFIXES.items():
            if column.endswith(suffix) and column not in _KNOWN:
                pipe = column.removesuffix(suffix).replace("_", "-")
                yield pipe, rate_of(pipe, _number(value, column), factor, unit, row)


def _number(text: str, column: str) -> float:
    try:
        return float(text.replace("_", "").replace(",", ""))
    except ValueError as error:
        raise UnitError(f"{column} is not a number: {text[:40]!r}") from error


def _shape_name(sizes: Mapping[str, int]) -> str:
    parts = [str(sizes[name]) for name in ("groups", "m", "n", "k") if name in sizes]
    return "x".join(parts)
