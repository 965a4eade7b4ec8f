"""The MiniMalloc CSV form of an instance: ``id,lower,upper,size`` and optional ``alignment,gaps,offset,hint``.

``start`` and ``begin`` are other names of ``lower``, ``end`` is an inclusive ``upper`` (it moves the gaps' ends too),
``buffer`` and ``buffer_id`` of ``id``. A gap is written ``3-5`` or, where bytes ``[0, 2)`` stay in use, ``3-5@0:2``;
several are separated by blanks. Cells are separated as the header's are: by commas, semicolons or tabs. Format:
https://github.com/google/minimalloc (Apache-2.0).
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import overload

from fuseline.errors import LimitError, PlanError
from fuseline.files import write_atomically
from fuseline.plan.arena.findings import named
from fuseline.plan.arena.types import MAX_BUFFERS, Buffer, Gap, Instance, Placement

MAX_FILE_BYTES = 64 * 2**20
_ALIASES = {"begin": "lower", "start": "lower", "end": "upper", "buffer": "id", "buffer_id": "id"}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_GAP = re.compile(r"(-?[0-9]+)-(-?[0-9]+)(?:@([0-9]+):([0-9]+))?")
_SEPARATORS = (",", ";", "\t")
_REQUIRED = ("id", "lower", "upper", "size")
_KNOWN = frozenset((*_REQUIRED, "alignment", "gaps", "offset", "hint"))


def is_instance_text(text: str) -> bool:
    """Whether ``text`` is meant as buffers: its first line lists columns of which two are required ones."""
    line = next((line for line in io.StringIO(text) if line.strip()), "")
    cells = [cell.strip().strip('"').lower() for cell in line.split(_separator(text))]
    return "=" not in line and len({_ALIASES.get(cell, cell) for cell in cells}.intersection(_REQUIRED)) >= 2


def read_csv(path: str | os.PathLike[str]) -> Instance:
    """The instance in a CSV file.

    Raises:
        PlanError: a line that is not a possible buffer; the message names the file and the line.
        LimitError: a file of more than 64 MiB.
    """
    where = os.fspath(path)
    if not where or "\0" in where:
        raise PlanError(f"the name of a CSV file is needed, not {where!r}")
    try:
        with open(where, "rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            # What has no size of its own (a pipe, a device) may have no end either.
            content = b"" if size_bytes > MAX_FILE_BYTES else file.read(MAX_FILE_BYTES + 1)
        if max(size_bytes, len(content)) > MAX_FILE_BYTES:
            found = f"{size_bytes / 2**20:,.0f} MiB exceed" if size_bytes else "its bytes exceed"
            raise LimitError(f"{where}: {found} the limit of {MAX_FILE_BYTES // 2**20} MiB for an instance file")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanError(f"{where}: not a text file (byte {error.start} is not UTF-8)") from error
    except OSError as error:
        raise PlanError(f"{where}: cannot be read: {error.strerror or error}") from error
    return parse_csv(text, name=Path(where).name, where=where)


def parse_csv(text: str, name: str = "instance", where: str = "CSV") -> Instance:
    """The instance in CSV text; ``where`` starts every error message."""
    rows = csv.reader(io.StringIO(text, newline=None), delimiter=_separator(text))
    buffers: list[Buffer] = []
    lines: dict[str, int] = {}
    columns: dict[str, int] | None = None
    inclusive = 0
    try:
        for row in rows:
            if not row or not any(cell.strip() for cell in row):
                continue
            if columns is None:
                columns, inclusive = _header(row, where)
                continue
            buffer = _buffer(row, columns, inclusive, f"{where}, line {rows.line_num}")
            if buffer.id in lines:
                used = f"was already used on line {lines[buffer.id]}"
                raise PlanError(f"{where}, line {rows.line_num}: buffer id {named(buffer.id)} {used}")
            lines[buffer.id] = rows.line_num
            buffers.append(buffer)
            if len(buffers) > MAX_BUFFERS:
                raise LimitError(f"{where}: more than {MAX_BUFFERS:,} buffers")
    except csv.Error as error:
        raise PlanError(f"{where}, line {rows.line_num}: not CSV: {error}") from error
    if columns is None:
        raise PlanError(f"{where}: the file is empty; the first line must be a header such as id,lower,upper,size")
    return Instance(tuple(buffers), name)


def _separator(text: str) -> str:
    """What separates the cells of the first line that has any."""
    header = next((line for line in io.StringIO(text) if line.strip()), "")
    return max(_SEPARATORS, key=header.count)


def _header(row: Sequence[str], where: str) -> tuple[dict[str, int], int]:
    raw = [cell.strip().lower() for cell in row]
    names = [_ALIASES.get(cell, cell) for cell in raw]
    columns = {name: i for i, name in enumerate(names)}
    if len(columns) != len(names):
        raise PlanError(f"{where}, line 1: a column occurs twice in the header {','.join(raw)!r}")
    missing = [name for name in _REQUIRED if name not in columns]
    if missing:
        wanted = "a header looks like id,lower,upper,size[,alignment,gaps,offset]"
        raise PlanError(f"{where}, line 1: no column {' and no column '.join(missing)}; {wanted}")
    unknown = sorted(set(names) - _KNOWN)
    if unknown:
        raise PlanError(f"{where}, line 1: unknown column {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}")
    return columns, 1 if "end" in raw else 0


def _buffer(row: Sequence[str], columns: dict[str, int], inclusive: int, where: str) -> Buffer:
    if len(row) != len(columns):
        raise PlanError(f"{where}: {len(row)} fields where the header has {len(columns)}")
    cell = {name: row[i].strip() for name, i in columns.items()}
    buffer = Buffer(
        id=cell["id"],
        lower=_integer(cell["lower"], "lower", where),
        upper=_integer(cell["upper"], "upper", where) + inclusive,
        size=_integer(cell["size"], "size", where),
        alignment=_optional(cell, "alignment", where, default=1),
        offset=_optional(cell, "offset", where),
        hint=_optional(cell, "hint", where),
        gaps=tuple(_gap(text, inclusive, where) for text in cell.get("gaps", "").split()),
    )
    problem = buffer.problem()
    if problem is not None:
        raise PlanError(f"{where}: buffer {named(buffer.id)}: {problem}")
    return buffer


def _integer(text: str, column: str, where: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise PlanError(f"{where}: {text[:40]!r} in column {column} is not a whole number of at most 19 digits")
    return int(text)


@overload
def _optional(cell: dict[str, str], column: str, where: str, default: int) -> int: ...
@overload
def _optional(cell: dict[str, str], column: str, where: str, default: None = None) -> int | None: ...
def _optional(cell: dict[str, str], column: str, where: str, default: int | None = None) -> int | None:
    text = cell.get(column, "")
    return _integer(text, column, where) if text else default


def _gap(text: str, inclusive: int, where: str) -> Gap:
    match = _GAP.fullmatch(text)
    if match is None:
        raise PlanError(f"{where}: {text[:40]!r} is not a gap; write 3-5 or 3-5@0:2")
    lower, upper, low, high = match.groups()
    window = None if low is None else (_integer(low, "gaps", where), _integer(high, "gaps", where))
    return Gap(_integer(lower, "gaps", where), _integer(upper, "gaps", where) + inclusive, window)


def format_csv(instance: Instance, placement: Placement | None = None) -> str:
    """The instance as CSV text, with the column ``offset`` where there is a placement (or a fixed offset)."""
    buffers = instance.buffers
    offsets: Sequence[int | None] = placement.offsets if placement is not None else [b.offset for b in buffers]
    optional: list[tuple[str, Sequence[object]]] = []
    if any(b.alignment != 1 for b in buffers):
        optional.append(("alignment", [b.alignment for b in buffers]))
    if any(b.gaps for b in buffers):
        optional.append(("gaps", [" ".join(map(_gap_text, b.gaps)) for b in buffers]))
    if any(b.hint is not None for b in buffers):
        optional.append(("hint", ["" if b.hint is None else b.hint for b in buffers]))
    if placement is not None or any(offset is not None for offset in offsets):
        optional.append(("offset", ["" if offset is None else offset for offset in offsets]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_REQUIRED, *(name for name, _ in optional)])
    for i, b in enumerate(buffers):
        writer.writerow([b.id, b.lower, b.upper, b.size, *(column[i] for _, column in optional)])
    return out.getvalue()


def _gap_text(gap: Gap) -> str:
    window = "" if gap.window is None else f"@{gap.window[0]}:{gap.window[1]}"
    return f"{gap.lower}-{gap.upper}{window}"


def write_csv(path: str | os.PathLike[str], instance: Instance, placement: Placement | None = None) -> None:
    """Write the instance (with its ``offset`` column) so that ``path`` is either whole or untouched.

    Raises:
        OutputFileError: the file cannot be written.
    """
    write_atomically(path, format_csv(instance, placement).encode())
