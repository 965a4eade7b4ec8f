"""Where fuseline keeps files of its own: one folder a user, for measured hosts and compiled code."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_folder() -> Path:
    """``FUSELINE_CACHE_DIR``, or the folder for caches that the platform gives this user."""
    chosen = os.environ.get("FUSELINE_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("fuseline", appauthor=False))


def caching_allowed() -> bool:
    """Whether compiled code may be kept for later processes: not where ``FUSELINE_CACHE`` says off."""
    return os.environ.get("FUSELINE_CACHE", "").strip().lower() not in ("off", "0", "no", "false")


def is_private(facts: os.stat_result) -> bool:
    """Whether the file or folder with these facts belongs to this user and nobody else may write to it."""
    mine = not hasattr(os, "geteuid") or facts.st_uid == os.geteuid()
    return mine and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
