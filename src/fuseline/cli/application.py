"""The typer application: options common to all commands, and the one command that is wanted."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any

import typer

from fuseline._version import __version__
from fuseline.cli.interrupts import raise_again


def application(arguments: Sequence[str], commands: Mapping[str, str]) -> typer.Typer:
    """The application of ``commands``, names and summaries; one that ``arguments`` do not name is never imported."""
    app = typer.Typer(
        help="Write a tensor program once; see what bounds it, plan it, and run it at that bound.",
        rich_markup_mode=None,  # plain text: help needs no import of rich
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_general_options)
    for name, summary in commands.items():
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
        raise_again()
        status = command(*args, **kwargs)
        if status:
            raise typer.Exit(status)

    return leaving
