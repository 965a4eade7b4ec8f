"""Prose of the roofline on a terminal: wrapped sentences, headings, and lists of rows cut short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from fuseline.errors import printable
from fuseline.report.catalogue import text
from fuseline.report.wrapping import NO_BREAK_SPACE, width_of, wrap
from fuseline.roofline.rows import GIVEN, GIVEN_NAMES, Row

if TYPE_CHECKING:
    from rich.console import Console

_MANY = 3


def some(names: list[str], lang: str) -> str:
    """The first few names and how many more there are."""
    separator = text("roofline.separator", lang)
    shown = separator.join(names[:_MANY])
    if len(names) > _MANY:
        shown += separator + text("roofline.rows_more", lang, count=len(names) - _MANY)
    return shown


_UNITS = re.compile(r"(?<=\d) (?=%|[kMGTPmnµ]?(?:B/s|B|FLOPS|OPS|FLOP/B|FLOP|OP|s|TFLOPS)(?![A-Za-z]))")


def say(console: Console, sentence: str, style: str = "") -> None:
    """Prints prose in lines of the console's width, no number torn from its unit."""
    from rich.text import Text

    for line in wrap(_UNITS.sub(NO_BREAK_SPACE, printable(sentence)), console.width) or [""]:
        console.print(Text(line, style=style), soft_wrap=True)


def row_name(row: Row, lang: str) -> str:
    """The name of a row; one that the command line made up where nobody gave one is in the language of the reader."""
    if row.source == GIVEN and row.name in GIVEN_NAMES:
        return text(f"roofline.given.{row.name}", lang)
    return row.name


def say_pairs(console: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Labels in bold with their values beside them, both wrapped, no number torn from its unit."""
    from rich.text import Text

    width = min(max(width_of(label) for label, _ in pairs), console.width * 2 // 5)
    for label, value in pairs:
        left = wrap(label, width)
        right = wrap(_UNITS.sub(NO_BREAK_SPACE, printable(value)), console.width - width - 2)
        for one, two in zip_longest(left, right, fillvalue=""):
            console.print(
                Text(one + " " * (width - width_of(one) + 2), style="bold") + Text(two, style=""), soft_wrap=True
            )


def heading(key: str, console: Console, lang: str) -> None:
    console.print()
    say(console, text(f"roofline.heading.{key}", lang), style="bold")
