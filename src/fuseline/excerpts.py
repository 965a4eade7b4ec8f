"""Text that is not trusted, as a terminal shows it: a source line with a caret, and characters that show nothing."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\r\n|\n|\r")


def line_starts(source: str) -> list[int]:
    """The offsets at which the lines of ``source`` begin."""
    return [0, *(found.end() for found in _LINE_END.finditer(source))]


def source_line(source: str, line: int) -> str:
    """The ``line``-th line (from 1) of ``source`` without its newline, or an empty string."""
    start = 0
    for _ in range(line - 1):
        end = _LINE_END.search(source, start)
        if end is None:
            return ""
        start = end.end()
    end = _LINE_END.search(source, start)
    return source[start:] if end is None else source[start : end.start()]


_CONTEXT_COLUMNS = 70
_TAB_STOP = " "
"""A tab is shown as one space, so that the caret's line and the source line agree on every terminal."""


def columns_of(character: str) -> int:
    """Columns that one character takes in a terminal: two for a wide one, none for a combining mark."""
    if character.isascii():
        return 1
    import unicodedata  # seldom needed

    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def printable(text: str, keep: str = "") -> str:
    """``text`` with control, direction and other characters that show nothing written as escapes, but for ``keep``.

    Source text is not trusted: an escape sequence would command the terminal, and a change of direction would show
    another program than the one that runs (Unicode Technical Report 36).
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def located(message: str, text: str | None, line: int, column: int, hint: str = "") -> str:
    """``message`` followed by the source line and a caret under ``column`` (from 1); long lines are cut around it.

    The column in the words counts characters, as editors do; the caret stands where a terminal shows the character.
    """
    said = printable(message, keep="\n")
    parts = [said if not line else f"line {line}, column {column}: {said}"]
    if text is not None and column:
        parts += _excerpt(text.rstrip("\r"), column - 1)
    if hint:
        parts.append(printable(hint, keep="\n"))
    return "\n".join(parts)


def _excerpt(text: str, position: int) -> tuple[str, str]:
    """The part of a line around a character, within the context's columns, and the line with the caret under it."""
    reach = slice(max(0, position - _CONTEXT_COLUMNS), position + _CONTEXT_COLUMNS)
    shown = [_TAB_STOP if c == "\t" else printable(c) for c in text[reach]]
    widths = [sum(map(columns_of, s)) for s in shown]
    at = min(position - reach.start, len(shown))
    past_the_end = position - reach.start - at
    start, end = at, at
    whole = len(shown) == len(text) and sum(widths) <= _CONTEXT_COLUMNS
    before = sum(widths) if whole else _CONTEXT_COLUMNS // 2
    while start > 0 and sum(widths[start - 1 : at]) <= before:
        start -= 1
    while end < len(shown) and sum(widths[start : end + 1]) <= _CONTEXT_COLUMNS:
        end += 1
    lead = "…" if reach.start + start > 0 else ""
    tail = "…" if reach.start + end < len(text) else ""
    on_the_letter = at < len(widths) and widths[at] == 0 and at > start  # a mark stands over the letter before it
    indent = len(lead) + sum(widths[start:at]) + past_the_end - on_the_letter
    return f"  {lead}{''.join(shown[start:end])}{tail}", "  " + " " * indent + "^"
