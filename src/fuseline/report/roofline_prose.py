"""Prose of the roofline: sentences as remarks, headings, and lists of rows cut short."""

from __future__ import annotations

import re

from fuseline.excerpts import printable
from fuseline.report.catalogue import text
from fuseline.report.document import Block, Remarks, Section
from fuseline.report.wrapping import NO_BREAK_SPACE
from fuseline.roofline.rows import GIVEN, GIVEN_NAMES, Row

_MANY = 3


def some(names: list[str], lang: str) -> str:
    """The first few names and how many more there are."""
    separator = text("roofline.separator", lang)
    shown = separator.join(names[:_MANY])
    if len(names) > _MANY:
        shown += separator + text("roofline.rows_more", lang, count=len(names) - _MANY)
    return shown


_UNITS = re.compile(r"(?<=\d) (?=%|[kMGTPmnµ]?(?:B/s|B|FLOPS|OPS|FLOP/B|FLOP|OP|s|TFLOPS)(?![A-Za-z]))")


def prose(sentence: str) -> str:
    """A sentence fit to be wrapped: no number is torn from its unit, and nothing in it commands a terminal."""
    return _UNITS.sub(NO_BREAK_SPACE, printable(sentence))


def paragraphs(*sentences: str) -> Remarks:
    """Sentences as remarks, those without words left out."""
    return Remarks(tuple(prose(sentence) for sentence in sentences if sentence))


def headed(key: str, block: Block, lang: str) -> Section:
    """A section under one of the roofline's headings."""
    return Section(text(f"roofline.heading.{key}", lang), (block,))


def row_name(row: Row, lang: str) -> str:
    """The name of a row; one that the command line made up where nobody gave one is in the language of the reader."""
    if row.source == GIVEN and row.name in GIVEN_NAMES:
        return text(f"roofline.given.{row.name}", lang)
    return row.name
