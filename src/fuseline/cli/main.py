"""The entry point: finds the command, loads that one alone, and turns what happens into an exit status.

0 done, 1 the answer is no, 2 bad input, 70 a defect in fuseline, 74 the output could not be written, 130 interrupted,
141 nobody reads the output any more.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Annotated, Any, NoReturn

import typer

from fuseline._version import __version__
from fuseline.errors import FuselineError

DONE = 0
BAD_INPUT = 2
DEFECT = 70
OUTPUT_LOST = 74
INTERRUPTED = 130
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


def main() -> NoReturn:
    """Run the command line of this process and leave it with the exit status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command that ``arguments`` name, reporting its errors on stderr, and return the exit status."""
    _tolerate_narrow_encodings()
    try:
        status = _call(arguments)
    except FuselineError as error:
        status = _complain(str(error), BAD_INPUT)
    except OSError as error:
        status = _explain_system_error(error)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except Exception:  # noqa: BLE001 - reported in full, under a status that cannot be taken for an answer
        status = _report_defect()
    return _flush() or status


def _call(arguments: Sequence[str]) -> int:
    """Let typer read ``arguments`` and call the command; the status that either asks for."""
    try:
        _application(arguments)(args=list(arguments), prog_name="fuseline")
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):
            return BROKEN_PIPE
        return leaving.code if isinstance(leaving.code, int) else DONE
    return DONE


def _application(arguments: Sequence[str]) -> typer.Typer:
    """The typer application; a command that ``arguments`` do not name is only a name and a summary, never imported."""
    app = typer.Typer(
        help="Write a tensor program once; see what bounds it, plan it, and run it at that bound.",
        rich_markup_mode=None,  # plain text: help needs no import of rich
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_general_options)
    for name, summary in COMMANDS.items():
        if name in arguments:
            _add(app, name, summary, importlib.import_module(f"fuseline.cli.{name}"))
        else:
            app.command(name, help=summary)(_not_loaded)
    return app


def _add(app: typer.Typer, name: str, summary: str, module: ModuleType) -> None:
    """Add the command of ``module``: its function ``name``, or its typer application ``app`` of several commands."""
    if hasattr(module, "app"):
        for command in module.app.registered_commands:
            command.callback = _leaving_with_status(command.callback)
        app.add_typer(module.app, name=name, short_help=summary)
    else:
        app.command(name, short_help=summary)(_leaving_with_status(getattr(module, name)))


def _not_loaded() -> None:
    """Stands for a command that the arguments do not name."""


def _general_options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"fuseline {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def _leaving_with_status(command: Callable[..., int | None]) -> Callable[..., None]:
    """``command`` under its own signature, its returned status made the exit status."""

    @functools.wraps(command)
    def leaving(*args: Any, **kwargs: Any) -> None:
        status = command(*args, **kwargs)
        if status:
            raise typer.Exit(status)

    return leaving


def _complain(message: str, status: int) -> int:
    print(f"fuseline: {message}", file=sys.stderr)
    return status


def _explain_system_error(error: OSError) -> int:
    """A file that cannot be used is bad input; a full disk or a lost terminal under the output is nobody's mistake."""
    if error.filename is not None:
        return _complain(f"{error.filename}: {error.strerror}", BAD_INPUT)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return _complain(f"the output could not be written: {error.strerror}", OUTPUT_LOST)
    return _report_defect()


def _report_defect() -> int:
    """A crash is told apart from an answer of no, whose status is that of an uncaught exception."""
    traceback.print_exc()
    return _complain("this is a defect in fuseline; please report it with the lines above", DEFECT)


def _tolerate_narrow_encodings() -> None:
    """A terminal that cannot show × or 中 shows a question mark instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _flush() -> int:
    """Write out what is buffered; where nobody reads it or it does not fit, drop it and return the status for that."""
    if sys.stdout is None:
        return DONE
    try:
        sys.stdout.flush()
        return DONE
    except BrokenPipeError:
        status = BROKEN_PIPE
    except OSError as error:
        status = _explain_system_error(error)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    return status
