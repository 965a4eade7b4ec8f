"""The error family.

Every error that fuseline raises on purpose is a ``FuselineError`` and also the built-in it refines, so
``except ValueError`` keeps working. A message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fuseline.excerpts import located, source_line


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
    """A file that cannot be written; the message names it and says why, and ``errno`` is the system's number for it."""


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


_MOST_SHOWN = 10**20


def shown_number(value: object) -> str:
    """A number as messages call it: by its digits, or by its length, since Python may refuse to write long integers."""
    if isinstance(value, int) and abs(value) >= _MOST_SHOWN:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def named_number(value: object) -> str:
    """`shown_number` where it begins a sentence: "the number 300"."""
    shown = shown_number(value)
    return shown if shown.startswith("a ") else f"the number {shown}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The names in ``known``, at most three, that look most like ``name``, best first; empty when none is close."""
    import difflib  # needed when something has gone wrong

    folded = {k.lower(): k for k in known}
    return [folded[m] for m in difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)]
