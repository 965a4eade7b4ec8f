"""Files that are either whole or not there."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from fuseline.errors import OutputFileError

_OPEN_STREAMS = re.compile(r"/dev|/proc/.*")
"""Folders whose names stand for what some process has open, as ``/dev/stdout`` does."""


def require_place(path: str | os.PathLike[str]) -> None:
    """Make sure before long work that a file can be written under ``path``, as far as that can be known.

    Raises:
        OutputFileError: no name, a dash, a folder, or a folder that does not exist or may not be written to.
    """
    name = os.fspath(path)
    if name == "-":
        raise OutputFileError("'-' is no file to write to here; name one (./- where it is called that)")
    if not name or "\0" in name:
        raise OutputFileError(f"the name of a file is needed to write to, not {name!r}")
    try:
        if _is_replaced(name, _status(name)):
            folder = os.path.dirname(os.path.realpath(name))
            if not os.access(folder, os.W_OK | os.X_OK):
                os.stat(folder)  # says it more exactly where the folder is missing
                raise PermissionError(0, f"its folder {folder} may not be written to")
    except OSError as error:
        raise _failure(name, error) from error


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """``data`` under ``path``, a name that the user gave, by way of a temporary file beside it and a rename.

    Links are followed, and a file that exists keeps its mode. What is no regular file (a pipe, a device) cannot be
    replaced and is written to.

    Raises:
        OutputFileError: the folder does not exist, is full, or may not be written to.
    """
    name = os.fspath(path)
    require_place(name)
    try:
        status = _status(name)
        if _is_replaced(name, status):
            _replace(Path(os.path.realpath(name)), data, None if status is None else stat.S_IMODE(status.st_mode))
        else:
            with open(name, "wb", buffering=0) as stream:
                _write_all(stream.fileno(), data)
    except OSError as error:
        raise _failure(name, error) from error


def write_private(path: Path, data: bytes) -> None:
    """``data`` under ``path``, a name of our own, as a file that this user alone may read and write.

    Its folder is made where it is missing. Whatever stood there, a link or a file of another mode, is replaced.

    Raises:
        OutputFileError: the folder cannot be made, is full, or may not be written to.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, data, 0o600)
    except OSError as error:
        raise _failure(str(path), error) from error


def _status(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except FileNotFoundError:
        return None


def _is_replaced(name: str, status: os.stat_result | None) -> bool:
    """Whether a new file takes the place of ``name``, and not its bytes the way into what is there."""
    if status is None:
        return True
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(0, "it is a folder; name a file in it")
    if not stat.S_ISREG(status.st_mode):
        return False
    if not os.access(name, os.W_OK):
        raise PermissionError(0, "it is there already and may not be written to")
    return not _OPEN_STREAMS.fullmatch(os.path.realpath(os.path.dirname(name) or "."))


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(6)}.tmp"
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())  # else a power failure could leave the new name with nothing in it
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _failure(name: str, error: OSError) -> OutputFileError:
    failure = OutputFileError(f"{name}: cannot be written: {error.strerror or error}")
    failure.errno = error.errno  # tells a full disk from a name that nothing can be written under
    return failure
