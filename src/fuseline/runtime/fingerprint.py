"""What compiled code was made by: a digest of fuseline's sources and of the compiler, part of every cache key."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path

from fuseline.runtime.cache import ObjectCache, key, object_cache


@functools.cache
def generator_fingerprint() -> str:
    """A digest of everything that turns a program into code: fuseline's files, and LLVM's library by its version."""
    found = importlib.util.find_spec("llvmlite")
    compiler = [Path(p) for p in (found.submodule_search_locations or ())] if found else []
    return fingerprint(Path(__file__).parent.parent, compiler, object_cache())


def fingerprint(package: Path, compiler: Iterable[Path], objects: ObjectCache) -> str:
    """The digest of the package's sources and of the compiler's version and libraries' sizes.

    Files are read once for each state that the file system tells apart; what they came to is kept in ``objects``.
    """
    files = [(package, name) for name in _files(package, (".py", ".ll", ".lark"))]
    libraries = []
    for folder in compiler:
        files += [(folder, name) for name in _files(folder, ("_version.py",))]
        libraries += [folder / name for name in _files(folder, (".so", ".dylib", ".dll"))]
    state = key("sources", *map(_state, (*libraries, *(folder / name for folder, name in files))))
    known = objects.get(state)
    if known is None:
        sizes = [f"{path.name} {path.stat().st_size}" for path in libraries]
        known = key(*sizes, *(part for folder, name in files for part in (name, (folder / name).read_bytes()))).encode()
        objects.put(state, known)
    return known.decode()


def _files(top: Path, suffixes: tuple[str, ...]) -> list[str]:
    """The files below ``top`` that end so, without the rooms that generate no code."""
    names = []
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(f for f in folders if f not in ("__pycache__", "cli", "report", "llm", "roofline"))
        names += [os.path.relpath(os.path.join(folder, name), top) for name in sorted(files) if name.endswith(suffixes)]
    return names


def _state(path: Path) -> str:
    """What changes with a file's content; the time of the last change of status cannot be set back."""
    status = os.stat(path)
    return f"{path.name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
