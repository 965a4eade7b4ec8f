"""The entry point: exit statuses, where messages go, and what is not imported."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import typer

from fuseline import errors
from fuseline.cli import main as entry

HEAVY = ("numpy", "lark", "rich", "llvmlite", "altair", "ortools", "numba", "ml_dtypes")


def fuseline(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    settings: dict[str, object] = {"capture_output": True, "text": True, "check": False, "env": environment}
    return subprocess.run([sys.executable, "-m", "fuseline", *arguments], **(settings | options))  # type: ignore[call-overload]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., int | None]], int]:
    """Runs a function as if it were the command ``trial``, returning the exit status."""

    def run(body: Callable[..., int | None], *arguments: str) -> int:
        module = ModuleType("fuseline.cli.trial")
        module.trial = body  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "fuseline.cli.trial", module)
        monkeypatch.setattr(entry, "COMMANDS", {"trial": "A command for this test."})
        return entry.run(["trial", *arguments])

    return run


def failing(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


def test_done_is_0_and_a_returned_status_is_the_exit_status(command) -> None:
    assert command(lambda: None) == 0
    assert command(lambda: 0) == 0
    assert command(lambda: 1) == 1


def test_every_fuseline_error_prints_its_message_and_is_2(command, capsys) -> None:
    for error in (errors.ShapeError("the shapes differ"), errors.FormulaError("no", source="a+", line=1, column=3)):
        assert command(failing(error)) == 2
        streams = capsys.readouterr()
        assert str(error) in streams.err
        assert "Traceback" not in streams.err
        assert streams.out == ""


def test_an_unreadable_file_is_bad_input_that_names_the_file(command, capsys, tmp_path) -> None:
    missing = tmp_path / "missing.fl"
    assert command(lambda: missing.read_text()) == 2
    assert f"{missing}: No such file or directory" in capsys.readouterr().err


def test_a_defect_is_reported_in_full_and_is_not_an_answer(command, capsys) -> None:
    assert command(failing(ZeroDivisionError("oh"))) == 70
    assert "ZeroDivisionError: oh" in capsys.readouterr().err


def test_an_interrupt_is_130_without_a_traceback(command, capsys) -> None:
    assert command(failing(KeyboardInterrupt())) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_that_python_wrapped_is_an_interrupt(command, capsys) -> None:
    wrapped = RuntimeError("Error calling __set_name__ on 'f'")
    wrapped.__cause__ = KeyboardInterrupt()
    assert command(failing(wrapped)) == 130
    during = ValueError("half an import")
    during.__context__ = wrapped
    assert command(failing(during)) == 130
    assert "Traceback" not in capsys.readouterr().err


INTERRUPTING = """
import os, signal, sys
from fuseline.cli import main
from types import ModuleType

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell starts with it ignored

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
    print("went on")
    return 0

def answered():
    try:
        interrupt()
    except KeyboardInterrupt:
        print("so far")
        return 3

sys.argv = ["fuseline", "trial"]
main.COMMANDS = {"trial": "A command for this test."}
sys.modules["fuseline.cli.trial"] = ModuleType("fuseline.cli.trial")
sys.modules["fuseline.cli.trial"].trial = answered
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(
    ("way", "status", "said"),
    [
        ("main.run = interrupt", 130, ""),  # before a command begins
        ("signal.signal(signal.SIGINT, signal.SIG_IGN); main.run = interrupt", 0, "went on\n"),  # as under nohup
        ("", 3, "so far\n"),  # a command may answer
    ],
)
def test_an_interrupt_at_any_time_ends_without_a_traceback(way: str, status: int, said: str) -> None:
    code = f"{INTERRUPTING}\n{way}\nmain.main()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, said, "")


def test_wrong_options_are_2(command, capsys) -> None:
    assert command(lambda: None, "--no-such-option") == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_a_command_with_commands_of_its_own_keeps_their_statuses(monkeypatch) -> None:
    app = typer.Typer()
    app.command("yes")(lambda: None)
    app.command("no")(lambda: 1)
    module = ModuleType("fuseline.cli.trial")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fuseline.cli.trial", module)
    monkeypatch.setattr(entry, "COMMANDS", {"trial": "Commands for this test."})
    assert entry.run(["trial", "yes"]) == 0
    assert entry.run(["trial", "no"]) == 1


def test_unknown_command_is_2_and_named() -> None:
    done = fuseline("explan")
    assert done.returncode == 2
    assert "explan" in done.stderr


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--json"]])
def test_a_closed_pipe_ends_quietly(arguments: list[str], unbuffered: bool) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})
    done = fuseline(*arguments, stdout=writing, stderr=subprocess.PIPE, capture_output=False, env=environment)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_does_not_fit_is_reported() -> None:
    with open("/dev/full", "w") as full:
        done = fuseline("doctor", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 74
    assert "could not be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["emit", "x+1", "--target", "c", "-o"], ["plan", "x+1", "--quick", "--out"]])
def test_a_file_that_does_not_fit_is_an_output_that_could_not_be_written(arguments, capsys, tmp_path) -> None:
    assert entry.run([*arguments, "/dev/full"]) == 74
    assert "/dev/full: cannot be written: No space left" in capsys.readouterr().err
    assert entry.run([*arguments, str(tmp_path / "missing" / "x")]) == 2  # nobody could write there


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("command", ["explain x+1", "explain x+1 --json", "classify --m 1", "--help", "device list"])
def test_a_closed_output_is_an_output_that_could_not_be_written(command: str) -> None:
    done = in_a_shell(f"{command} >&-")
    assert done.returncode == 74
    assert done.stderr.count("could not be written") == 1
    assert "Traceback" not in done.stderr
    assert in_a_shell(f"{command} >&- 2>&- <&-").returncode == 74


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_closed_streams_change_nothing_else(tmp_path: Path) -> None:
    """A file may not take the place of a closed stream, and what writes no output needs none."""
    file = tmp_path / "x.c"
    assert in_a_shell(f"emit x+1 --target c -o {file} >&-").returncode == 0
    assert "Bad file" not in file.read_text()
    wrong = in_a_shell("explain x+ 2>&-")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert in_a_shell("explain x+ >&-").returncode == 2


def in_a_shell(command: str) -> subprocess.CompletedProcess[str]:
    """``fuseline`` with redirections that only a shell can make."""
    line = f"{shlex.quote(sys.executable)} -m fuseline {command}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)


def test_a_terminal_without_unicode_gets_an_answer() -> None:
    done = fuseline("doctor", "--lang", "zh", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode in (0, 1)
    assert done.stderr == ""
    assert "Python" in done.stdout


def test_version_is_printed() -> None:
    from fuseline import __version__

    assert fuseline("--version").stdout == f"fuseline {__version__}\n"


def test_help_lists_every_command_and_imports_none_of_them() -> None:
    script = (
        "import sys, json\nfrom fuseline.cli.main import run\nrun(['--help'])\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr))
    assert not loaded.intersection(HEAVY)
    for name, summary in entry.COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert summary.split()[0] in done.stdout
        assert f"fuseline.cli.{name}" not in loaded


@pytest.mark.parametrize("name", list(entry.COMMANDS))
def test_every_command_answers_help(name: str) -> None:
    done = fuseline(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Usage: fuseline {name}" in done.stdout


def test_importing_the_entry_point_loads_nothing_that_takes_time() -> None:
    script = "import sys\nimport fuseline.cli.main\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()).intersection((*HEAVY, "typer"))
