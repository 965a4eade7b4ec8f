"""Rows from CSV files: columns by name in any order, and every bad row named while the rest is done.

Cells are separated as the header's are: by commas, semicolons or tabs.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fuseline.cost.operands import OperandTypes, parse_operands
from fuseline.cost.shape_cost import ShapeCost
from fuseline.cost.shapes import operation_name
from fuseline.errors import DataFileError, FuselineError, UnitError, nearest
from fuseline.machine.dtypes import rate_unit
from fuseline.machine.files import read_text_file
from fuseline.roofline.rows import MEMORY, SIZE_COLUMNS, Row, latency_from_us, positive, rate_of, row_cost, shape_name
from fuseline.roofline.rules import Note
from fuseline.units import Quantity, parse_count

ONLY_A_HEADER = "only a header, no rows"
_WORD_SIZES = ("kind", "scales", "causal")
_NUMBERS = ("latency_us", "tflops", "tops", "gbps", "waves")
_KNOWN = ("name", "device", "dtype", *SIZE_COLUMNS, *_NUMBERS)
_TEXTS = ("operation", "group", "operands", "table", "says", "says_text", "source", "note")
_SUFFIXES = {"_tflops": (12, "FLOP/s"), "_tops": (12, "OP/s"), "_gbps": (9, "B/s")}
_SEPARATORS = ",;\t"
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+$")

ABSENT = -1
"""Where the cells of a row hold an empty text for the columns that a file does not have."""

MAX_CSV_BYTES = 64 * 2**20
MAX_RECORD_LINES = 20
"""A quoted cell may run over so many lines; a quote that is open for longer is a mistake of its first line."""


@dataclass(frozen=True, slots=True)
class RowError:
    """A row of a file that could not be read: its line, its name where it has one, and why."""

    line: int
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class _Reader:
    """What every row of a file shares: where its columns stand, and what fills empty cells.

    ``sizes`` are the names of sizes and ``size_places`` their columns; ``pipes``, the rates of further pipes, are
    ``(place, column, pipe, places of the unit, unit)``.
    """

    path: str
    places: dict[str, int]
    sizes: tuple[str, ...]
    size_places: tuple[int, ...]
    pipes: tuple[tuple[int, str, str, int, str], ...]
    device: str
    dtype: str

    def cells(self, record: Sequence[str]) -> list[str]:
        """The cells of a record without blanks around them, empty ones where the line is short, and one more.

        The last stands for every column that the file does not have.
        """
        missing = len(self.places) - len(record)
        if missing < 0:
            raise DataFileError(f"{len(record)} cells where the header has {len(self.places)} columns")
        return [*map(str.strip, record), *[""] * (missing + 1)]

    def shortness(self, record: Sequence[str]) -> str:
        """What a line with too few cells adds to what is wrong with it: later columns count as empty."""
        if len(record) >= len(self.places):
            return ""
        return f"; the line has {len(record)} cells where the header has {len(self.places)} columns"

    def row(self, record: Sequence[str], line: int) -> Row:
        """The row of a record; raises what is wrong with it."""
        cells, at = self.cells(record), self.places.get
        operands = cells[at("operands", ABSENT)]
        given = cells[at("dtype", ABSENT)] or self.dtype or operands
        if not given:
            raise UnitError("no dtype: give a dtype column, or --dtype for all rows")
        dtype, spelled = _formats(given)
        written = tuple([cells[place] for place in self.size_places])
        operation, sizes, cost = _shape(cells[at("operation", ABSENT)], dtype, operands or spelled, self.sizes, written)
        latency, waves = cells[at("latency_us", ABSENT)], cells[at("waves", ABSENT)]
        achieved: dict[str, Quantity] = {}  # filled below: what a rate belongs to depends on the rest of the row
        row = Row(
            name=cells[at("name", ABSENT)] or (shape_name(operation, sizes) if sizes else "") or f"line {line}",
            device=cells[at("device", ABSENT)] or self.device,
            dtype=dtype,
            operation=operation,
            operands=operands or spelled,
            sizes=sizes,
            latency_s=latency_from_us(_number(latency, "latency_us")) if latency else None,
            waves=positive(_number(waves, "waves"), "waves", "waves") if waves else None,
            achieved=achieved,
            source=cells[at("source", ABSENT)] or f"{self.path}, line {line}",
            says=cells[at("says", ABSENT)],
            says_text=cells[at("says_text", ABSENT)],
            notes=_remark(cells[at("note", ABSENT)]),
            line=line,
            group=cells[at("group", ABSENT)],
            given_cost=cost,
        )
        for key, rate in self.rates(cells, row):
            if key in achieved:
                raise UnitError(f"the rate of {key} is given twice")
            achieved[key] = rate
        if not achieved and (row.latency_s is None or row.given_cost is None):
            raise UnitError("nothing to classify: give tflops and gbps, or a shape with latency_us")
        return row

    def rates(self, cells: Sequence[str], row: Row) -> Iterator[tuple[str, Quantity]]:
        """The measured rates of a row by what they belong to."""
        for column in ("tflops", "tops"):
            text = cells[self.places.get(column, ABSENT)]
            if text:
                key, unit = row.compute_key, rate_unit(row.compute_dtype)
                yield key, rate_of(key, _number(text, column), 12, unit, row)
        text = cells[self.places.get("gbps", ABSENT)]
        if text:
            yield MEMORY, rate_of(MEMORY, _number(text, "gbps"), 9, "B/s", row)
        for place, column, pipe, places, unit in self.pipes:
            if cells[place]:
                yield pipe, rate_of(pipe, _number(cells[place], column), places, unit, row)


def read_rows(path: str | Path, default_device: str = "", default_dtype: str = "") -> tuple[list[Row], list[RowError]]:
    """The rows of a CSV file and the errors of its bad rows.

    Columns are found by name, in any order: ``name,device,dtype,m,n,k,latency_us,tflops,gbps``; further pipes as
    ``<pipe>_gbps``, ``<pipe>_tflops``, ``<pipe>_tops``. ``default_device`` and ``default_dtype`` fill empty cells.
    Raises ``DataFileError`` where the file itself is unreadable or a column is unknown.
    """
    text = read_text_file(path, MAX_CSV_BYTES)
    return rows_from_text(text, str(path), default_device, default_dtype)


def rows_from_text(
    text: str, path: str, default_device: str = "", default_dtype: str = ""
) -> tuple[list[Row], list[RowError]]:
    """Like ``read_rows``, from text; ``path`` is used in errors and as the source of rows that name none."""
    rows: list[Row] = []
    errors: list[RowError] = []
    reader: _Reader | None = None
    for line, cells in _records(io.StringIO(text, newline="").readlines()):
        if isinstance(cells, csv.Error):
            errors.append(RowError(line, "", f"not CSV: {cells}"))
            continue
        if not any(map(str.strip, cells)):
            continue
        if reader is None:
            reader = _reader(cells, path, default_device, default_dtype)
            continue
        try:
            rows.append(reader.row(cells, line))
        except FuselineError as error:
            place = reader.places.get("name", len(cells))
            errors.append(
                RowError(line, cells[place].strip() if place < len(cells) else "", str(error) + reader.shortness(cells))
            )
    if reader is None:
        raise DataFileError(f"{path}: empty; the first line names the columns")
    if not rows and not errors:
        errors.append(RowError(1, "", ONLY_A_HEADER))
    return rows, errors


def _records(lines: list[str]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Each record with the line it starts on; one that does not read gives its error and costs only its first line."""
    header = next((line for line in lines if line.strip()), "")
    separator = max(_SEPARATORS, key=header.count)
    start = 0
    while start < len(lines):
        reader = csv.reader(lines[start : start + 1], delimiter=separator, strict=True)
        used = 1
        if lines[start].count('"') % 2:  # the cell may go on
            reader = csv.reader(lines[start : start + MAX_RECORD_LINES], delimiter=separator, strict=True)
        try:
            cells: list[str] | csv.Error = next(reader, [])
            used = max(reader.line_num, 1)
        except csv.Error as error:
            cells = error
        yield start + 1, cells
        start += used


def _reader(cells: list[str], path: str, device: str, dtype: str) -> _Reader:
    """How the rows under a header are read; raises ``DataFileError`` for an unknown or repeated column."""
    header = [cell.strip().lower() for cell in cells]
    pipes = []
    for place, column in enumerate(header):
        if column in _KNOWN or column in _TEXTS:
            continue
        suffix = next((s for s in _SUFFIXES if column.endswith(s) and column != s), "")
        if not suffix:
            close = nearest(column, (*_KNOWN, *_TEXTS))
            hint = f"did you mean {close[0]!r}?" if close else "extra pipes are written <pipe>_gbps or <pipe>_tflops"
            raise DataFileError(f"{path}: unknown column {column!r}; {hint}")
        pipes.append((place, column, column.removesuffix(suffix).replace("_", "-"), *_SUFFIXES[suffix]))
    twice = {column for column in header if header.count(column) > 1}
    if twice:
        raise DataFileError(f"{path}: the column {min(twice)!r} appears twice")
    places = {column: place for place, column in enumerate(header)}
    sizes = tuple(name for name in SIZE_COLUMNS if name in places)
    return _Reader(path, places, sizes, tuple(places[name] for name in sizes), tuple(pipes), device, dtype)


@lru_cache(maxsize=4096)
def _shape(
    given: str, dtype: str, operands: str, names: tuple[str, ...], written: tuple[str, ...]
) -> tuple[str, Mapping[str, Any], ShapeCost | None]:
    """Operation, sizes and cost of the cells of a row; files lay the same shapes on many machines and settings."""
    sizes = {name: _size(name, text) for name, text in zip(names, written, strict=True) if text}
    operation = _operation(given, sizes)
    return operation, sizes, row_cost(operation, sizes, dtype, operands)


def _operation(given: str, sizes: Iterable[str]) -> str:
    """The operation of a row; a shape that names none is a product, and rates without a shape are of none."""
    if given:
        return operation_name(given)
    return ("grouped-gemm" if "groups" in sizes else "gemm") if sizes else ""


@lru_cache(maxsize=1024)
def _formats(text: str) -> tuple[str, str]:
    """The format that decides the peak, and all formats as they are spelled; files repeat them in every row."""
    types: OperandTypes = parse_operands(text)
    return types.compute, str(types)


def _size(name: str, text: str) -> Any:
    if name not in _WORD_SIZES:
        if text.isascii() and text.isdigit() and len(text) < 18:
            return int(text)
        try:
            return parse_count(text)
        except UnitError as error:
            raise UnitError(f"{name}: {error}") from error
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


def _number(text: str, column: str) -> float:
    if "," in text:
        if not _THOUSANDS.match(text):
            raise UnitError(f"{column} has a comma that could be a decimal point: {text[:40]!r}; write 1234.5")
        text = text.replace(",", "")
    try:
        return float(text)
    except ValueError as error:
        raise UnitError(f"{column} is not a number: {text[:40]!r}") from error
