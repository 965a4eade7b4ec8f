"""Compiled code on disk: one file an entry, named by the digest of everything the code depends on.

There is no index. An entry is written to a temporary name and renamed, carries its own checksum, and is believed only
from a directory and a file that belong to this user and that nobody else may write. Whatever goes wrong on the disk
costs a compilation, never an answer: reads report a miss, writes report False, and `last_problem` says why.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from fuseline.folders import cache_folder, caching_allowed, is_private
from fuseline.runtime.environment import stated_count

_SUFFIX = ".flc"
_TEMPORARY_SUFFIX = ".tmp"
_DEFAULT_LIMIT_BYTES = 256 << 20
_STALE_TEMPORARY_S = 3600.0
_TOUCH_AFTER_S = 3600.0
_WRITES_BETWEEN_SWEEPS = 64
_DIGEST_BYTES = 32
_HOW_TO_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Nothing that could make the reader wait, as a pipe does, before it is seen to be no file."""


class ObjectCache:
    """A directory of entries. ``directory`` None means that there is no cache: every read is a miss.

    ``limit_bytes`` bounds the directory: the write that passes it removes the entries used longest ago. Keys are
    lower-case hexadecimal digests, see `key`. Safe from many threads and processes.
    """

    def __init__(self, directory: Path | None, limit_bytes: int = _DEFAULT_LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        self.last_problem = ""
        """Why the last read or write did not work; empty when nothing went wrong."""
        self._on_trial: set[str] | None = None
        """Keys of what was written in `on_trial`; None outside of it."""
        self._writes = 0
        self._room_bytes = -1
        """Bytes that may be written until entries are counted again; what other processes write is not in it."""

    def get(self, key: str) -> bytes | None:
        """The entry called ``key``, or None when there is none that can be trusted."""
        if self.directory is None:
            return None
        try:
            with _opened(self.directory, create=False) as folder:
                return self._read(folder, key)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.last_problem = f"cannot read {self.directory}: {error}"
            return None

    def put(self, key: str, content: bytes) -> bool:
        """Store ``content``; False when the directory does not allow it."""
        if self.directory is None:
            return False
        size_bytes = _DIGEST_BYTES + len(content)
        if size_bytes > self.limit_bytes:
            self.last_problem = f"an entry of {size_bytes} bytes is larger than the bound of {self.limit_bytes}"
            return False
        try:
            with _opened(self.directory, create=True) as folder:
                _write(folder, key, _digest(key, content) + content)
                self._room_bytes -= size_bytes
                if self._room_bytes < 0 or self._writes % _WRITES_BETWEEN_SWEEPS == 0:
                    self._room_bytes = _sweep(folder, self.limit_bytes)
        except OSError as error:
            self.last_problem = f"cannot write {self.directory}: {error}"
            return False
        self._writes += 1
        if self._on_trial is not None:
            self._on_trial.add(key)
        return True

    @contextlib.contextmanager
    def on_trial(self) -> Iterator[None]:
        """At its end, what this process wrote into the cache within it is removed again, with folders made for that."""
        made = (
            [] if self.directory is None else [p for p in (self.directory, *self.directory.parents) if not p.exists()]
        )
        self._on_trial = written = set[str]()
        try:
            yield
        finally:
            self._on_trial = None
            with contextlib.suppress(OSError):
                if self.directory is not None and written:
                    with _opened(self.directory, create=False) as folder:
                        for key in written:
                            _remove(folder, key + _SUFFIX)
                for path in made:  # the innermost first; one that others have put something into stays
                    path.rmdir()

    def size_bytes(self) -> int:
        """Bytes of all entries together."""
        if self.directory is None:
            return 0
        try:
            with _opened(self.directory, create=False) as folder:
                return sum(size for _, size, _ in _entries(folder))
        except OSError:
            return 0

    def clear(self) -> int:
        """Remove every entry; the number removed."""
        if self.directory is None:
            return 0
        try:
            with _opened(self.directory, create=False) as folder:
                return sum(_remove(folder, name) for _, _, name in _entries(folder))
        except OSError as error:
            self.last_problem = f"cannot clear {self.directory}: {error}"
            return 0

    def _read(self, folder: int, key: str) -> bytes | None:
        file = os.open(key + _SUFFIX, _HOW_TO_READ, dir_fd=folder)
        with open(file, "rb", buffering=0) as stream:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode) or not is_private(facts):
                self.last_problem = f"{key}{_SUFFIX} is not a file that only this user may write; ignored"
                return None
            if facts.st_size > self.limit_bytes:
                self.last_problem = f"{key}{_SUFFIX} is larger than all entries may be; ignored"
                return None
            data = stream.read(facts.st_size)
            if time.time() - facts.st_mtime > _TOUCH_AFTER_S:
                with contextlib.suppress(OSError):  # a read-only cache still serves
                    os.utime(file)
        content = data[_DIGEST_BYTES:]
        if len(data) < _DIGEST_BYTES or _digest(key, content) != data[:_DIGEST_BYTES]:
            self.last_problem = f"{key}{_SUFFIX} is damaged; ignored"
            return None
        return content


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + content).digest()


@contextlib.contextmanager
def _opened(directory: Path, *, create: bool) -> Iterator[int]:
    """A descriptor of the directory, which belongs to this user and is open to nobody else (mode 0700)."""
    if create:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(folder)
        if facts.st_uid != os.geteuid():
            raise PermissionError(
                f"it belongs to user {facts.st_uid}, not to {os.geteuid()}; code there is not trusted"
            )
        if facts.st_mode & 0o077:
            os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def _write(folder: int, key: str, data: bytes) -> None:
    temporary = f"{key[:16]}-{os.getpid()}-{os.urandom(6).hex()}{_TEMPORARY_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(file, "wb", buffering=0) as stream:
            rest = memoryview(data)
            while rest:
                rest = rest[stream.write(rest) :]
        os.replace(temporary, key + _SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _remove(folder, temporary)
        raise


def _entries(folder: int) -> list[tuple[float, int, str]]:
    """(time of last use, size in bytes, name) of every entry, oldest first. Forgotten temporary files are removed."""
    found = []
    with os.scandir(folder) as items:
        for item in items:
            try:
                facts = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # another process removed it
            if item.name.endswith(_SUFFIX):
                found.append((facts.st_mtime, facts.st_size, item.name))
            elif item.name.endswith(_TEMPORARY_SUFFIX) and time.time() - facts.st_mtime > _STALE_TEMPORARY_S:
                _remove(folder, item.name)
    return sorted(found)


def _sweep(folder: int, limit_bytes: int) -> int:
    """Remove the entries used longest ago until the others keep the bound; the bytes that are left to it."""
    entries = _entries(folder)
    excess = sum(size for _, size, _ in entries) - limit_bytes
    for _, size, name in entries:
        if excess <= 0:
            break
        excess -= size * _remove(folder, name)
    return -excess


def _remove(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return False  # gone already, or not removable: the caller counts only what it removed
    return True


def key(*parts: str | bytes) -> str:
    """The digest of ``parts`` in order; their lengths count, so that no two lists of parts look alike."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def default_directory() -> Path | None:
    """``objects`` in the folder for caches; None where ``FUSELINE_CACHE`` says off."""
    return cache_folder() / "objects" if caching_allowed() else None


def default_limit_bytes() -> int:
    """``FUSELINE_CACHE_BYTES``, or 256 MiB."""
    stated = stated_count("FUSELINE_CACHE_BYTES")
    return _DEFAULT_LIMIT_BYTES if stated is None else stated


@functools.cache
def object_cache() -> ObjectCache:
    """The cache of this process, as the environment describes it when it is first used."""
    return ObjectCache(default_directory(), default_limit_bytes())
