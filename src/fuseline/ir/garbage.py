"""Putting off the search for cyclic garbage while a graph is built.

A collection starts after so many new objects and looks at all that live; a graph is nothing but new objects, all of
which stay and none of which refer back, so that half of the time of building a large one went into such searches.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager


class _Builder:
    """Somebody who builds a graph. It is gone with the frame that made it, whatever an interrupt leaves out."""

    __slots__ = ("__weakref__",)


_lock = threading.RLock()  # a handler of signals may build a graph while its thread is in here
_builders: set[weakref.ref[_Builder]] = set()
"""Without callbacks: these would be places for interrupts to be lost in."""
_is_paused = False
"""Whether collections are off because of the builders."""


@contextmanager
def collection_paused() -> Iterator[None]:
    """No collection inside; afterwards as before. Threads may be inside at the same time."""
    builder = _Builder()
    try:
        with _lock:
            _builders.add(weakref.ref(builder))
            _settle()
        yield
    finally:
        with _lock:
            _builders.discard(weakref.ref(builder))
            _settle()


def _settle() -> None:
    """Collections off while there are builders, and on again where they were before."""
    global _is_paused
    _builders.difference_update([b for b in _builders if b() is None])
    if _builders and not _is_paused and gc.isenabled():
        _is_paused = True
        gc.disable()
    elif _is_paused and not _builders:
        gc.enable()
        _is_paused = False


def _start_anew() -> None:
    """In a forked child the other threads, and what they were building, do not exist."""
    global _lock
    _lock = threading.RLock()
    _builders.clear()
    _settle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
