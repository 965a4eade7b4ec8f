"""Prose of the roofline on a terminal: wrapped sentences, headings, and lists of rows cut short."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fuseline.errors import printable
from fuseline.report.catalogue import text
from fuseline.report.wrapping import NO_BREAK_SPACE, wrap

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


def heading(key: str, console: Console, lang: str) -> None:
    console.print()
    say(console, text(f"roofline.heading.{key}", lang), style="bold")
