"""What the commands on programs share: reading PROGRAM (a formula, a file or standard input), sizes and names."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from fuseline.cli.interrupts import INTERRUPTED
from fuseline.cli.progress import ProgressLine
from fuseline.errors import DataFileError, LimitError, UnitError

if TYPE_CHECKING:
    from fuseline.api.explanation import Measured


def read_program(argument: str) -> str:
    """The text of the program given as formula, file or ``-``: a formula, or a graph as ``emit --target graph`` writes.

    What names an existing file, or ends in ``.fl``, is a file. Raises `OSError` for a file that cannot be read or does
    not exist and for a directory, `DataFileError` for one that is not UTF-8 text, `LimitError` for one over 16 MiB.
    """
    from fuseline.frontends.formula import MAX_TEXT_BYTES

    return read_text(argument, MAX_TEXT_BYTES)


def read_text(argument: str, most_bytes: int) -> str:
    """The text of a file or of standard input (``-``), or the argument itself where it names neither."""
    if argument == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed; name a file or give a formula", "standard input")
        return _text(sys.stdin.buffer, "standard input", most_bytes)
    if os.path.isdir(argument):
        raise IsADirectoryError(errno.EISDIR, f"this is a directory; name a file in it{_AS_FORMULA}", argument)
    if argument.endswith(".fl") or os.path.exists(argument):
        with open(argument, "rb") as file:
            return _text(file, argument, most_bytes)
    if _means_a_path(argument):
        raise FileNotFoundError(errno.ENOENT, f"there is no such file{_AS_FORMULA}", argument)
    return argument


_AS_FORMULA = " (a formula of these letters is written in parentheses)"
_PATH_BEGINS = re.compile(r"(\.{1,2}|~)?/")
_PATH_CHARACTERS = re.compile(r"[\w./+~-]+")
_NAME_WITH_ENDING = re.compile(r"(?<![\w.])[^\W\d]\w*\.")
_LONGEST_PATH = 4096


def _means_a_path(argument: str) -> bool:
    """Whether text that names no file was meant to: ``./x``, ``a/b.txt``, or ``a/b`` where ``a`` is a directory."""
    if "/" not in argument or len(argument) > _LONGEST_PATH or "\n" in argument:
        return False
    named = _PATH_CHARACTERS.fullmatch(argument) and _NAME_WITH_ENDING.search(argument)
    return bool(_PATH_BEGINS.match(argument) or named or os.path.isdir(os.path.dirname(argument)))


def _text(stream: BinaryIO, name: str, most_bytes: int) -> str:
    content = stream.read(most_bytes + 4)
    if len(content) > most_bytes:
        raise LimitError(_too_long(name, most_bytes))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{name}: not UTF-8 text (byte {error.start})") from None


def _too_long(name: str, most_bytes: int) -> str:
    return f"{name}: it may have at most {most_bytes // 2**20} MiB"


def parse_sizes(pairs: Sequence[str] | None) -> dict[str, int]:
    """``["T=4096", "D=2^14"]`` as a dict; raises `UnitError` for anything else."""
    from fuseline.units import parse_count

    sizes: dict[str, int] = {}
    for pair in pairs or ():
        name, mark, count = pair.partition("=")
        if not mark or not name.strip().isidentifier():
            raise UnitError(f"a size is written NAME=COUNT, as T=4096, not {pair!r}")
        if name.strip() in sizes:
            raise UnitError(f"the size {name.strip()} is given twice")
        sizes[name.strip()] = parse_count(count)
    return sizes


def parse_names(names: str | None) -> list[str] | None:
    """``"y, z"`` as a list; None where nothing is given."""
    if names is None:
        return None
    return [name for name in (part.strip() for part in names.split(",")) if name]


def measured_rows(
    source: str,
    n: str | None,
    dtype: str | None,
    threads: str | None,
    outputs: list[str] | None,
    sizes: dict[str, int],
    quick: bool,
    language: str,
) -> tuple[tuple[Measured, ...], int]:
    """The rows of a program's measurement, and the exit status: an interrupt leaves those that were timed by then.

    On a terminal, standard error names the step that runs.
    """
    from fuseline.api.defaults import MEASURED_N, RUN_DTYPE
    from fuseline.api.measuring import MeasuringInterrupted, measure
    from fuseline.report.catalogue import text
    from fuseline.runtime.environment import THREAD_LIMIT
    from fuseline.units import parse_count

    count = MEASURED_N if n is None else parse_count(n)
    if count < 1:
        raise UnitError("measuring needs at least one element")
    counts = None if threads is None else [parse_count(part) for part in threads.split(",")]
    if counts is not None and not all(1 <= c <= THREAD_LIMIT for c in counts):
        raise UnitError(f"a thread count is from 1 to {THREAD_LIMIT}, not {threads}")
    try:
        with ProgressLine() as line:
            return measure(
                source,
                n=count,
                dtype=dtype or RUN_DTYPE,
                outputs=outputs,
                sizes=sizes or None,
                thread_counts=counts,
                quick=quick,
                progress=lambda step: line.show(f"fuseline: {step} …"),
            ), 0
    except MeasuringInterrupted as interrupt:
        print(f"fuseline: {text('explain.measured.interrupted', language)}", file=sys.stderr)
        return interrupt.rows, INTERRUPTED
