"""The C compiler: found by CC, then by name; its absence and its failures are told apart and told clearly."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

import pytest

from fuseline.errors import CompilerError
from fuseline.runtime import compiler


def fake(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text("#!/bin/sh\n" + script)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path with nothing on it but what the test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path


def test_cc_decides_then_cc_gcc_clang_in_this_order(only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiler.find_c_compiler() is None
    for name in ("clang", "gcc", "cc"):
        file = fake(only, name, "exit 0")
        found = compiler.find_c_compiler()
        assert found is not None and found.command == (str(file),)
    other = fake(only, "other", "exit 0")
    monkeypatch.setenv("CC", f"{other} -m64")
    found = compiler.find_c_compiler()
    assert found is not None and found.command == (str(other), "-m64")


def test_no_compiler_and_a_wrong_cc_name_the_fix(only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompilerError, match="apt install gcc"):
        compiler.c_compiler()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match=r"CC names 'no-such-compiler'.*correct CC or unset it"):
        compiler.find_c_compiler()
    monkeypatch.setenv("CC", '"gcc -O2')
    with pytest.raises(CompilerError, match=r"not a command .*correct CC or unset it"):
        compiler.find_c_compiler()


def test_a_failing_compiler_is_quoted(only: Path) -> None:
    fake(only, "cc", "echo 'kernel.c:1: error: no' >&2; exit 3")
    with pytest.raises(CompilerError, match=r"exit status 3(.|\n)*kernel.c:1: error: no"):
        compiler.c_compiler().compile("int x;")


def test_a_compiler_for_another_machine_is_told_by_its_library(only: Path) -> None:
    script = 'while [ "$1" != -o ]; do shift; done\nPATH=/bin:/usr/bin\necho "not a library" > "$2"'
    fake(only, "cc", script)
    with pytest.raises(CompilerError, match="cannot be loaded"):
        compiler.c_compiler().compile("int x;")


@pytest.mark.skipif(compiler.find_c_compiler() is None, reason="there is no C compiler")
def test_code_is_compiled_strictly_and_loaded() -> None:
    options = compiler.measured_options()
    assert {"-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"} <= set(options)
    source = "float f(float a, float b, float c) { return a*b + c; }\n"
    library = compiler.c_compiler().compile(source)
    function = ctypes.CFUNCTYPE(*[ctypes.c_float] * 4)(library.address("f"))
    one = 1 + 2.0**-12
    assert function(one, one, -(1 + 2.0**-11)) == 0.0  # contracted, it would be 2**-24
    with pytest.raises(CompilerError, match="no function 'g'"):
        library.address("g")
    assert compiler.c_compiler().version()


@pytest.mark.skipif(compiler.find_c_compiler() is None, reason="there is no C compiler")
def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compiler.c_compiler().compile("int f(void) { return 1; }\n", ["-O1"])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("script", "said"), [("exit 3", ""), ("echo; exit 3", ""), ("echo no room >&2; exit 3", "no room")]
)
def test_a_compiler_that_fails_silently_is_not_quoted(only: Path, monkeypatch, script: str, said: str) -> None:
    monkeypatch.setenv("CC", str(fake(only, "silent", script)))
    with pytest.raises(CompilerError, match="exit status 3") as raised:
        compiler.c_compiler().compile("int x;")
    message = str(raised.value)
    assert ("It said:" in message) == bool(said) and ("said nothing" in message) != bool(said)
    assert message.endswith(said) and not message.rstrip().endswith("said:")
