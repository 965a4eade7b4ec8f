"""Putting off the search for cyclic garbage while a graph is built.

A collection starts after so many new objects and looks at all that live; a graph is nothing but new objects, all of
which stay and none of which refer back, so that half of the time of building a large one went into such searches.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_builders = 0
_was_enabled = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """No collection inside; afterwards as before. Threads may be inside at the same time."""
    global _builders, _was_enabled
    with _lock:
        if _builders == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _builders += 1
    try:
        yield
    finally:
        with _lock:
            _builders = max(0, _builders - 1)
            if _builders == 0 and _was_enabled:
                gc.enable()


def _start_anew() -> None:
    """In a forked child the other threads, and what they were building, do not exist."""
    global _lock, _builders
    _lock, _builders = threading.Lock(), 0
    if _was_enabled:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
