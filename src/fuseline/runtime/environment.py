"""Numbers that a user may state in environment variables; what is no such number counts as not stated."""

from __future__ import annotations

import os

_MOST_DIGITS = 18
THREAD_LIMIT = 1024
"""Threads of a call, at most."""


def stated_count(name: str) -> int | None:
    """The whole number in the variable ``name``, or in the first of its parts between commas; None for anything else.

    OMP_NUM_THREADS lists a number for each level of nesting.
    """
    first = os.environ.get(name, "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and len(first) <= _MOST_DIGITS else None
