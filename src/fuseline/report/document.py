"""What a report says, before it is known where it is shown: sections of tables, facts, bars, code and remarks.

Texts in it are finished (language and units chosen); `terminal` and `html` only lay it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Tone = Literal["plain", "faint", "strong"]


@dataclass(frozen=True, slots=True)
class Column:
    """``numeric`` cells are aligned to the right and never cut. Where the table is wider than there is room, a
    ``spare`` columns are left out, those of the highest number first, a ``flexible`` one is cut and a ``folding`` one
    continued on further lines.
    """

    heading: str
    numeric: bool = False
    flexible: bool = False
    folding: bool = False
    spare: int = 0
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Gap:
    """A row in which a text stands for what is left out or missing."""

    text: str


@dataclass(frozen=True, slots=True)
class Share:
    """A cell with a short bar of ``fraction`` (0 to 1) and its value."""

    fraction: float
    value: str


Cell = str | Share


@dataclass(frozen=True, slots=True)
class Cells:
    """An ordinary row."""

    cells: tuple[Cell, ...]


Row = Cells | Gap


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a heading row, and a title where several tables follow each other."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """``value`` is short and never cut; ``note`` says where it comes from."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Labelled values, one a line."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of ``fraction`` (0 to 1) of the available width, with its value."""

    label: str
    fraction: float
    value: str


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars on one scale."""

    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines shown as they are: ``fold`` continues long ones on the next line, otherwise they are cut."""

    lines: tuple[str, ...]
    title: str = ""
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Remarks:
    """Paragraphs."""

    paragraphs: tuple[str, ...]


Block = Table | Facts | Bars | Code | Remarks


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report; without a title where it is the only one, or the first."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report in one language."""

    title: str
    sections: tuple[Section, ...]
    language: str


T = TypeVar("T")


def head_and_tail(items: Sequence[T], head: int, tail: int) -> tuple[Sequence[T], int, Sequence[T]]:
    """The first and the last items and how many stand between them; everything is first where it nearly fits."""
    hidden = len(items) - head - tail
    if hidden <= 1:
        return items, 0, items[:0]
    return items[:head], hidden, items[len(items) - tail :]
