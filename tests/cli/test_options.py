"""Options that several commands take mean the same and say the same in each."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
import typer

from fuseline.cli.application import application
from fuseline.cli.main import COMMANDS


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        group = typer.main.get_command(application([name], COMMANDS))
        command = group.commands[name]
        inner = getattr(command, "commands", None)
        yield from ([(name, command)] if inner is None else [(f"{name} {n}", c) for n, c in inner.items()])


@pytest.mark.parametrize("option", ["--lang", "--json", "--device-file", "--outputs"])
def test_a_shared_option_has_one_help_text_and_one_form(option: str) -> None:
    told: dict[tuple[object, ...], list[str]] = {}
    for name, command in commands():
        for parameter in command.params:
            if option in parameter.opts:
                told.setdefault((parameter.help, parameter.metavar, parameter.multiple), []).append(name)
    assert len(told) == 1, told
    assert len(next(iter(told.values()))) > 1


@pytest.mark.parametrize("option", ["--lang", "--json"])
def test_every_command_speaks_both_languages_and_json(option: str) -> None:
    assert [name for name, c in commands() if not any(option in p.opts for p in c.params)] == []
