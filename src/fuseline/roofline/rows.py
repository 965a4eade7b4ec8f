"""Rows of measured rates: one kernel at one shape on one machine, with what its source prints and says.

Rows come from the bundled tables, from a user's CSV, or from the command line; all pass the same checks here.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fuseline.cost.operands import OperandTypes, parse_operands
from fuseline.cost.shapes import (
    OPERATIONS,
    VECTOR_OPERATIONS,
    ShapeCost,
    operation_name,
    operation_sizes,
    shape_cost,
    vector_dtype,
)
from fuseline.errors import DataFileError, FuselineError, UnitError, nearest
from fuseline.machine.dtypes import rate_unit
from fuseline.roofline.rules import Note
from fuseline.units import Quantity, Source, SourceKind, parse_count

COMPUTE = "compute"
MEMORY = "memory"
"""The two rates that every table has; the device decides which of its pipes and memories they belong to."""

_WORD_SIZES = ("kind", "scales", "causal")
SIZE_COLUMNS = tuple(
    dict.fromkeys(("m", "n", "k", *(name for operation in OPERATIONS for name in operation_sizes(operation)[1])))
)
"""The columns of a file that are sizes: those of every operation."""

_PRODUCT_SIZES = {
    "mqa-logits": {"m": "q_len", "n": "kv_len", "k": "head_dim"},
    "moe": {"m": "tokens", "n": "intermediate", "k": "hidden"},
}
"""What m, n and k mean for operations that tables list as products."""

_KNOWN = ("name", "device", "dtype", *SIZE_COLUMNS, "latency_us", "tflops", "tops", "gbps", "waves")
_TEXTS = ("operation", "group", "operands", "table", "says", "says_text", "source", "note")
_SUFFIXES = {"_tflops": (1e12, "FLOP/s"), "_tops": (1e12, "OP/s"), "_gbps": (1e9, "B/s")}

MAX_RATE = 1e19
"""Rates above this (ten million TFLOPS or GB/s ×1000) are a mistake of units."""
MAX_LATENCY_S = 1e6
MAX_CSV_BYTES = 64 * 2**20
MAX_RECORD_LINES = 20
"""A quoted cell may run over so many lines; a quote that is open for longer is a mistake of its first line."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured kernel.

    ``achieved`` maps ``compute``, ``memory`` or the name of a pipe, memory or link to the measured rate. ``dtype`` is
    the format that decides the peak, ``operands`` the formats that decide the bytes. ``says`` is the bound that the
    source states, as a bound name, and ``says_text`` in its words; ``line`` is that of its file, ``group`` the table of
    the source that the row stands in. ``given_cost`` is the cost where it is known already or no rule
    describes the shape.
    """

    name: str
    device: str
    dtype: str
    operation: str = "gemm"
    operands: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    latency_s: float | None = None
    waves: float | None = None
    achieved: Mapping[str, Quantity] = field(default_factory=dict)
    source: str = ""
    says: str = ""
    says_text: str = ""
    notes: tuple[Note, ...] = ()
    line: int = 0
    group: str = ""
    given_cost: ShapeCost | None = None

    @property
    def compute_key(self) -> str:
        """What the row's arithmetic rate is called: that of the pipe on which its operation runs."""
        return "vector" if self.operation in VECTOR_OPERATIONS else COMPUTE

    @property
    def compute_dtype(self) -> str:
        """The format of the row's arithmetic: float32 where its own is only storage for the vector pipe."""
        if self.given_cost is not None:
            return next((dtype for _, dtype in self.given_cost.work.values()), self.dtype)
        return vector_dtype(self.dtype) if self.operation in VECTOR_OPERATIONS else self.dtype

    def cost(self) -> ShapeCost | None:
        """Work and bytes of the row's shape by the rule of its operation, or ``None`` where it states too few sizes.

        Raises for a size that the operation does not have.
        """
        if self.given_cost is not None:
            return self.given_cost
        if not self.sizes:
            return None
        meaning = _PRODUCT_SIZES.get(self.operation, {})
        size = {meaning.get(name, name): value for name, value in self.sizes.items()}
        needed, known = operation_sizes(self.operation)
        if set(size) <= set(known) and not set(needed) <= set(size):
            return None
        single = self.operation in VECTOR_OPERATIONS
        return shape_cost(self.operation, **size, dtype=self.dtype if single else self.operands or self.dtype)


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
    rows: list[Row] = []
    errors: list[RowError] = []
    header: list[str] | None = None
    for line, cells in _records(io.StringIO(text, newline="").readlines()):
        if isinstance(cells, csv.Error):
            errors.append(RowError(line, "", f"not CSV: {cells}"))
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = _header(cells, path)
            continue
        try:
            rows.append(_row(_cells(header, cells), path, line, default_device, default_dtype))
        except FuselineError as error:
            name = cells[header.index("name")] if "name" in header and len(cells) > header.index("name") else ""
            errors.append(RowError(line, name, str(error)))
    if header is None:
        raise DataFileError(f"{path}: empty; the first line names the columns")
    if not rows and not errors:
        errors.append(RowError(1, "", "only a header, no rows"))
    return rows, errors


def _records(lines: list[str]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Each record with the line it starts on; one that does not read gives its error and costs only its first line."""
    start = 0
    while start < len(lines):
        reader = csv.reader(lines[start : start + 1], strict=True)
        used = 1
        if lines[start].count('"') % 2:  # the cell may go on
            reader = csv.reader(lines[start : start + MAX_RECORD_LINES], strict=True)
        try:
            cells: list[str] | csv.Error = next(reader, [])
            used = max(reader.line_num, 1)
        except csv.Error as error:
            cells = error
        yield start + 1, cells
        start += used


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
    types = _operands(given)
    sizes = {name: _size(name, cell[name]) for name in SIZE_COLUMNS if name in cell}
    latency = cell.get("latency_us")
    waves = cell.get("waves")
    row = Row(
        name=cell.get("name") or _shape_name(cell.get("operation", ""), sizes) or f"line {line}",
        device=cell.get("device", default_device),
        dtype=types.compute,
        operation=_operation(cell.get("operation", ""), sizes),
        operands=operands or str(types),
        sizes=sizes,
        latency_s=None if latency is None else latency_from_us(_number(latency, "latency_us")),
        waves=None if waves is None else positive(_number(waves, "waves"), "waves", "waves"),
        source=cell.get("source", f"{path}, line {line}"),
        says=cell.get("says", ""),
        says_text=cell.get("says_text", ""),
        notes=_remark(cell.get("note", "")),
        line=line,
        group=cell.get("group", ""),
    )
    achieved = dict(_rates(cell, row))
    cost = row.cost()
    if not achieved and (row.latency_s is None or cost is None):
        raise UnitError("nothing to classify: give tflops and gbps, or a shape with latency_us")
    return replace(row, achieved=achieved, given_cost=cost)


def _operation(given: str, sizes: Mapping[str, Any]) -> str:
    """The operation of a row; a shape that names none is a product, and rates without a shape are of none."""
    if given:
        return operation_name(given)
    return ("grouped-gemm" if "groups" in sizes else "gemm") if sizes else ""


@lru_cache(maxsize=1024)
def _operands(text: str) -> OperandTypes:
    """``parse_operands``, once for each spelling: files repeat them in every row."""
    return parse_operands(text)


def _size(name: str, text: str) -> Any:
    if name not in _WORD_SIZES:
        return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else parse_count(text)
    if name != "causal":
        return text
    if text.lower() not in ("true", "false"):
        raise UnitError(f"causal is true or false, not {text[:40]!r}")
    return text.lower() == "true"


def _remark(text: str) -> tuple[Note, ...]:
    """A row's own remark: a text of its source, or after ``@`` the code of one that the catalogues know."""
    if not text:
        return ()
    return (Note(text[1:]),) if text.startswith("@row-") else (Note("of-source", {"text": text}),)


def with_achieved(row: Row, achieved: Mapping[str, Quantity]) -> Row:
    """``row`` with its rates replaced."""
    return replace(row, achieved=dict(achieved))


def latency_from_us(latency_us: float) -> float:
    """Seconds from microseconds, checked."""
    return positive(latency_us, "latency_us", "us", MAX_LATENCY_S * 1e6) / 1e6


def rate_of(pipe: str, value: float, factor: float, unit: str, row: Row) -> Quantity:
    """A measured rate of ``pipe`` for ``row``, checked; ``value`` is in the unit that ``factor`` converts from."""
    positive(value, f"the rate of {pipe}", unit, MAX_RATE / factor)
    checked = value * factor
    if unit == "B/s" or pipe not in (COMPUTE, "matrix", row.compute_key):
        dtype = ""
    else:
        dtype = row.compute_dtype if pipe == row.compute_key else row.dtype
    return measured(checked, unit, row.device, row.source, dtype)


def _rates(cell: Mapping[str, str], row: Row) -> Iterable[tuple[str, Quantity]]:
    for column in ("tflops", "tops"):
        if column in cell:
            rate = _number(cell[column], column)
            yield row.compute_key, rate_of(row.compute_key, rate, 1e12, rate_unit(row.compute_dtype), row)
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


def _shape_name(operation: str, sizes: Mapping[str, Any]) -> str:
    product = [str(sizes[name]) for name in ("groups", "m", "n", "k") if name in sizes]
    return "x".join(product) or f"{operation} {'x'.join(str(size) for size in sizes.values())}".strip()
