"""Locks that a forked child finds free: the thread that held one may not exist there."""

from __future__ import annotations

import os
import weakref
from _thread import RLock


class Lock(RLock):  # type: ignore[misc]  # a base class in every CPython, whatever its stub says
    """A re-entrant lock for use with ``with``; free in a forked child.

    ``with`` takes and frees it in C: a method of ours would be a place for an interrupt between the lock and the
    statement that frees it. (Python 3.14 itself leaves such a place, at every ``with`` statement, for all locks.)
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        _known.add(self)


_known: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_known):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # what the standard library does with its own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
