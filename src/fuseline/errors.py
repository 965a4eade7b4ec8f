"""The error family.

Every error that fuseline raises on purpose is a ``FuselineError`` and also the built-in it refines, so
``except ValueError`` keeps working. A message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable


class FuselineError(Exception):
    """Base of every error raised on purpose by fuseline."""


class FormulaError(FuselineError, SyntaxError):
    """A formula text that is not a program.

    Attributes follow ``SyntaxError``: ``lineno`` and ``offset`` count from 1, ``text`` is the source line.
    """

    def __init__(self, message: str, *, source: str = "", line: int = 0, column: int = 0, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        text = source_line(source, line) if line else None
        super().__init__(message, ("<formula>", line or None, column or None, text))

    def __str__(self) -> str:
        return located(self.message, self.text, self.lineno or 0, self.offset or 0, self.hint)


class TypeRuleError(FuselineError, TypeError):
    """Operand dtypes that the operation does not accept."""


class TraceError(FuselineError, TypeError):
    """A traced Python function that does what cannot be recorded; the message says what to write instead."""


class TraceAttributeError(TraceError, AttributeError):
    """An attribute that a traced value does not have."""


class ShapeError(FuselineError, ValueError):
    """Operand shapes that do not fit the operation or each other."""


class ReadOnlyError(FuselineError, ValueError):
    """An output array that may not be written."""


class LimitError(FuselineError, ValueError):
    """A stated size limit was exceeded."""


class NumberRangeError(FuselineError, OverflowError):
    """A Python number given to a kernel that the dtype of the arrays beside it cannot hold."""


class LiteralError(FuselineError, ArithmeticError, ValueError):
    """A number in a program that its operation or dtype does not admit."""


class VerifyError(FuselineError, ValueError):
    """A graph or plan that breaks its own rules: a defect in whatever made it."""


class TextFormError(FuselineError, ValueError):
    """Text that is not the text form of a graph."""


class UnitError(FuselineError, ValueError):
    """A size, rate or time that cannot be read."""


class DataFileError(FuselineError, ValueError):
    """A data file (devices, rows of measurements) that breaks its format; the message names the file and the place."""


class UsageError(FuselineError, ValueError):
    """Arguments that do not go together, or a question that what it is asked of cannot answer."""


class OutputFileError(FuselineError, OSError):
    """A file that cannot be written; the message names it and says why."""


class UnknownNameError(FuselineError, LookupError):
    """A name that is not in a table; the message offers the nearest ones."""


class ProvenanceError(FuselineError, ValueError):
    """Two numbers that may not be divided by each other."""


class PlanError(FuselineError, ValueError):
    """Buffers, lifetimes or orders that cannot be planned as stated."""


class InfeasibleError(PlanError):
    """A plan that provably does not exist under the stated capacity or offsets."""


class UnsupportedError(FuselineError, NotImplementedError):
    """A valid request that this target or version does not cover."""


class CompilerError(FuselineError, RuntimeError):
    """A compiler or code generator failed."""


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


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The names in ``known``, at most three, that look most like ``name``, best first; empty when none is close."""
    folded = {k.lower(): k for k in known}
    return [folded[m] for m in difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)]
