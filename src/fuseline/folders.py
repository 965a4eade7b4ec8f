"""Where fuseline keeps files of its own: one folder a user, for measured hosts and compiled code."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``FUSELINE_CACHE_DIR``, or the folder for caches that the platform gives this user."""
    chosen = os.environ.get("FUSELINE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("fuseline", appauthor=False))
