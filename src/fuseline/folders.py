"""Where fuseline keeps files of its own: one folder a user, for measured hosts and compiled code."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # a system without it
    fcntl = None


def cache_folder() -> Path:
    """``FUSELINE_CACHE_DIR``, or the folder for caches that the platform gives this user."""
    chosen = os.environ.get("FUSELINE_CACHE_DIR")
    if chosen:
        return Path(os.path.expanduser(chosen))
    import platformdirs

    return Path(platformdirs.user_cache_dir("fuseline", appauthor=False))


def caching_allowed() -> bool:
    """Whether compiled code may be kept for later processes: not where ``FUSELINE_CACHE`` says off."""
    return os.environ.get("FUSELINE_CACHE", "").strip().lower() not in ("off", "0", "no", "false")


def is_private(facts: os.stat_result) -> bool:
    """Whether the file or folder with these facts belongs to this user and nobody else may write to it."""
    mine = not hasattr(os, "geteuid") or facts.st_uid == os.geteuid()
    return mine and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Hold the lock that the file ``path`` stands for, and tell whether it was to be had: somebody else may hold it.

    The system frees it when its process ends, in whatever way. Where there are no such locks everybody has it.

    Raises:
        OSError: the file cannot be made.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        yield _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True
