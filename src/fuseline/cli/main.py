"""The entry point: runs the command that is named and turns what happens into an exit status.

Whatever is imported takes time in which an interrupt would end in a traceback, so nothing but what Python itself has
loaded is imported before `main` has taken care of interrupts.

0 done, 1 the answer is no, 2 bad input, 70 a defect in fuseline, 74 the output could not be written, 130 interrupted,
141 nobody reads the output any more.
"""

from __future__ import annotations

import errno
import gc
import os
import sys

TYPE_CHECKING = False  # as in typing, which need not be imported for it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

DONE = 0
BAD_INPUT = 2
DEFECT = 70
OUTPUT_LOST = 74
BROKEN_PIPE = 141

COMMANDS = {
    "explain": "Explain a program: dataflow, traffic, memory, and measurements.",
    "bench": "Measure a program on this machine.",
    "emit": "Write a program as NumPy, C, LLVM or other text.",
    "classify": "Say which resource bounds a kernel or a shape on a machine.",
    "plan": "Place buffers in one arena and prove how small.",
    "device": "Machines: list, show, compare them, or measure this host.",
    "doctor": "Check what fuseline finds on this machine.",
}
"""The commands and what ``fuseline --help`` says of each, in the order in which it lists them."""


_OBJECTS_BEFORE_A_COLLECTION = 1_000_000


def main() -> NoReturn:
    """Run the command line of this process and leave it with the exit status."""
    from fuseline.cli.interrupts import leave_at_once

    leave_at_once()
    # A short command would spend a seventh of its time on collections that find nothing: imports make no garbage.
    gc.set_threshold(_OBJECTS_BEFORE_A_COLLECTION)
    status = run(sys.argv[1:])
    leave_at_once()
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run the command that ``arguments`` name, reporting its errors on stderr, and return the exit status."""
    from fuseline.cli.interrupts import INTERRUPTED
    from fuseline.errors import FuselineError

    _stand_in_for_closed_streams()
    _tolerate_narrow_encodings()
    try:
        status = _call(arguments)
    except FuselineError as error:
        status = _complain(str(error), OUTPUT_LOST if _is_lost(error) else BAD_INPUT)
    except OSError as error:
        status = _explain_system_error(error)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - reported in full, under a status that cannot be taken for an answer
        status = INTERRUPTED if _began_with_an_interrupt(error) else _report_defect()
    return _flush(status)


def _began_with_an_interrupt(error: BaseException) -> bool:
    """Whether an interrupt is what ``error`` was raised for: Python wraps one that comes in as a class is made."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return any(isinstance(cause, KeyboardInterrupt) for cause in causes)


def _call(arguments: Sequence[str]) -> int:
    """Let typer read ``arguments`` and call the command; the status that either asks for."""
    try:
        from fuseline.cli.application import application

        application(arguments, COMMANDS)(args=list(arguments), prog_name="fuseline")
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):
            return BROKEN_PIPE
        return leaving.code if isinstance(leaving.code, int) else DONE
    return DONE


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a device answers that takes no more: nothing that the user wrote is wrong."""


def _is_lost(error: Exception) -> bool:
    """Whether an output did not fit, and not its name was wrong."""
    from fuseline.errors import OutputFileError

    return isinstance(error, OutputFileError) and error.errno in _FULL


def _complain(message: str, status: int) -> int:
    print(f"fuseline: {message}", file=sys.stderr)
    return status


def _explain_system_error(error: OSError) -> int:
    """A file that cannot be used is bad input; a full disk or a lost terminal under the output is nobody's mistake."""
    if error.filename is not None:
        return _complain(f"{error.filename}: {error.strerror}", BAD_INPUT)
    if error.errno in (*_FULL, errno.EBADF):
        return _complain(f"the output could not be written: {error.strerror}", OUTPUT_LOST)
    return _report_defect()


def _report_defect() -> int:
    """A crash is told apart from an answer of no, whose status is that of an uncaught exception."""
    import traceback

    traceback.print_exc()
    return _complain("this is a defect in fuseline; please report it with the lines above", DEFECT)


def _stand_in_for_closed_streams() -> None:
    """Give the process the streams that it was started without (``>&-``), so that no file takes their places.

    What is written to such an output fails as it does on a full disk; errors have nowhere to go and are dropped.
    """
    for number, name, mode in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is not None or _is_open(number):
            continue
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _tolerate_narrow_encodings() -> None:
    """A terminal that cannot show × or 中 shows a question mark instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _flush(status: int) -> int:
    """Write out what is buffered; where nobody reads it or it does not fit, drop it and return the status for that."""
    if sys.stdout is None:
        return status
    try:
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        status = BROKEN_PIPE
    except OSError as error:
        status = status if status == OUTPUT_LOST else _explain_system_error(error)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    return status
