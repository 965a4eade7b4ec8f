"""What compiled code was made by: a digest of fuseline's sources and of the compiler, part of every cache key."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fuseline.runtime.cache import ObjectCache, key, object_cache

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SOURCES, _VERSIONS, _LIBRARIES = (".py", ".ll", ".lark"), ("_version.py",), (".so", ".dylib", ".dll")
_ROOMS_WITHOUT_CODE = ("__pycache__", "cli", "report", "llm", "roofline")


@functools.cache
def generator_fingerprint() -> str:
    """A digest of everything that turns a program into code: fuseline's files, and LLVM's library by its version."""
    found = importlib.util.find_spec("llvmlite")
    compiler = [Path(p) for p in (found.submodule_search_locations or ())] if found else []
    package = Path(__file__).parent.parent
    if package.is_dir():
        return fingerprint(package, compiler, object_cache())
    from importlib import resources

    return packed_fingerprint(resources.files(package.name), compiler)


def fingerprint(package: Path, compiler: Iterable[Path], objects: ObjectCache) -> str:
    """The digest of the package's sources and of the compiler's version and libraries' sizes.

    Files are read once for each state that the file system tells apart; what they came to is kept in ``objects``.
    """
    files = {name: package / name for name in _files(package, _SOURCES)}
    versions, libraries = _compiler_files(compiler)
    state = key("sources", *map(_state, (*libraries, *files.values(), *versions)))
    known = objects.get(state)
    if known is None:
        known = _digest(files, versions, libraries).encode()
        objects.put(state, known)
    return known.decode()


def packed_fingerprint(package: Traversable, compiler: Iterable[Path]) -> str:
    """`fingerprint` of a package that was imported from an archive, whose files are read in every process."""
    versions, libraries = _compiler_files(compiler)
    return _digest(dict(sorted(_packed_files(package, "").items())), versions, libraries)


def _compiler_files(compiler: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The compiler's files that say its version, and its libraries."""
    folders = list(compiler)

    def found(suffixes: tuple[str, ...]) -> list[Path]:
        return [folder / name for folder in folders for name in _files(folder, suffixes)]

    return found(_VERSIONS), found(_LIBRARIES)


def _digest(files: dict[str, Path] | dict[str, Traversable], versions: list[Path], libraries: list[Path]) -> str:
    sizes = [f"{path.name} {path.stat().st_size}" for path in libraries]
    contents = [part for name, file in files.items() for part in (name, file.read_bytes())]
    return key(*sizes, *contents, *(path.read_bytes() for path in versions))


def _files(top: Path, suffixes: tuple[str, ...]) -> list[str]:
    """The files below ``top`` that end so, without the rooms that generate no code."""
    names = []
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(f for f in folders if f not in _ROOMS_WITHOUT_CODE)
        names += [os.path.relpath(os.path.join(folder, name), top) for name in sorted(files) if name.endswith(suffixes)]
    return names


def _packed_files(top: Traversable, prefix: str) -> dict[str, Traversable]:
    """The sources below ``top`` by name, without the rooms that generate no code."""
    found: dict[str, Traversable] = {}
    for entry in top.iterdir():
        if entry.is_dir():
            if entry.name not in _ROOMS_WITHOUT_CODE:
                found |= _packed_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SOURCES):
            found[prefix + entry.name] = entry
    return found


def _state(path: Path) -> str:
    """What changes with a file's content; the time of the last change of status cannot be set back."""
    status = os.stat(path)
    return f"{path.name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
