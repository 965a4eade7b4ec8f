"""The C compiler of this machine, if there is one: found, run on generated text, its result loaded.

Nothing in fuseline needs it; with one, the C text can be measured beside the other back ends.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fuseline.errors import CompilerError

CANDIDATES = ("cc", "gcc", "clang")
_STRICT = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_TIME_LIMIT_S = 300.0
_SHOWN_LINES = 8


def measured_options() -> tuple[str, ...]:
    """Options of measured code: optimised for this machine; no contraction, no errno, otherwise strict arithmetic."""
    tuning = "-mcpu=native" if sys.platform == "darwin" and platform.machine() == "arm64" else "-march=native"
    return ("-O3", tuning, *_STRICT)


@dataclass(frozen=True, slots=True)
class CCompiler:
    """``command`` starts the compiler: the program and what the user put behind it in ``CC``."""

    command: tuple[str, ...]

    def version(self) -> str:
        """The first line of its version text."""
        lines = _run([*self.command, "--version"]).splitlines()
        return lines[0] if lines else self.command[0]

    def compile(self, source: str, options: Sequence[str] | None = None) -> SharedLibrary:
        """Compile C ``source`` into a shared library and load it; `measured_options` unless others are given.

        Raises `CompilerError` with the compiler's own first lines.
        """
        chosen = measured_options() if options is None else tuple(options)
        with tempfile.TemporaryDirectory(prefix="fuseline-") as folder:
            text, library = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
            text.write_text(source, encoding="utf-8")
            _run([*self.command, "-std=c11", *chosen, "-fPIC", "-shared", "-o", str(library), str(text), "-lm"])
            return SharedLibrary(_load(library))


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """A loaded library. Its file is gone already; the code stays for the life of the process."""

    handle: ctypes.CDLL

    def address(self, function: str) -> int:
        """Address of a function of the library."""
        try:
            return ctypes.cast(getattr(self.handle, function), ctypes.c_void_p).value or 0
        except AttributeError:
            raise CompilerError(f"the compiled C text has no function {function!r}") from None


def find_c_compiler() -> CCompiler | None:
    """The compiler that ``CC`` names, else the first of cc, gcc and clang on the path; None where there is none.

    Raises `CompilerError` when ``CC`` is set to something that cannot be run.
    """
    try:
        stated = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise CompilerError(
            f"CC is {os.environ['CC']!r}, which is not a command ({error}); correct CC or unset it"
        ) from None
    if stated:
        if shutil.which(stated[0]) is None:
            raise CompilerError(f"CC names {stated[0]!r}, which cannot be run; correct CC or unset it")
        return CCompiler(tuple(stated))
    found = next((path for name in CANDIDATES if (path := shutil.which(name))), None)
    return CCompiler((found,)) if found else None


def c_compiler() -> CCompiler:
    """`find_c_compiler`, or a `CompilerError` that says how to get one."""
    found = find_c_compiler()
    if found is None:
        raise CompilerError(
            "there is no C compiler: none of cc, gcc, clang is on the path and CC is not set. "
            "On Debian or Ubuntu: apt install gcc; on macOS: xcode-select --install"
        )
    return found


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIME_LIMIT_S, check=False
        )
    except OSError as error:
        raise CompilerError(f"the C compiler {command[0]!r} cannot be run: {error}; set CC to another") from error
    except subprocess.TimeoutExpired as error:
        raise CompilerError(f"the C compiler {command[0]!r} took longer than {_TIME_LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        said = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[:_SHOWN_LINES])
        raise CompilerError(
            f"{shlex.join(command[:1])} failed with exit status {done.returncode}"
            f"{'' if said else ' and said nothing'}; "
            "set CC to another compiler" + (f". It said:\n{said}" if said else "")
        )
    return done.stdout


def _load(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise CompilerError(
            f"the compiled library cannot be loaded: {error}; is CC a compiler for {platform.machine()}, "
            f"and may code be loaded from {library.parent.parent} (see TMPDIR)?"
        ) from error
