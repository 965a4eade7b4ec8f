"""A hot loop that numba compiles in a moment, for tests of how compiled code is kept."""

from __future__ import annotations


def double(n: int) -> int:
    """Twice ``n``."""
    return n + n
