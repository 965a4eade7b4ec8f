"""What callers pass to the planner, as exact Python numbers: a wrong type is told in words,
and nothing is rounded.
"""

from __future__ import annotations

import math
import operator
import reprlib
from numbers import Real
from typing import SupportsIndex, TypeGuard

from fuseline.errors import PlanError
from fuseline.units import parse_bytes


def is_whole(value: object) -> TypeGuard[SupportsIndex]:
    """Whether ``value`` is a whole number of some type (Python's or NumPy's) but no truth value and no text."""
    if type(value) is int:
        return True
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def as_int(value: SupportsIndex) -> int:
    """A whole number of any type as Python's own, which no addition overflows."""
    return int(operator.index(value))


def whole_number(value: object, what: str) -> int:
    """``value`` as an exact integer; ``what`` names it in the error.

    Raises:
        PlanError: a float, a text, a truth value or nothing.
    """
    if not is_whole(value):
        raise PlanError(f"{what} must be a whole number, not {reprlib.repr(value)}")
    return as_int(value)


def require_time_limit_s(value: object) -> float:
    """A positive number of seconds.

    Raises:
        PlanError: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise PlanError(f"the time limit must be a number of seconds, not {reprlib.repr(value)}")
    try:
        seconds = float(value)
    except OverflowError:  # more than any float: no limit
        seconds = math.inf if value == abs(value) else -math.inf
    if not seconds > 0:
        raise PlanError(f"the time limit must be positive, not {seconds}")
    return seconds


def capacity_in_bytes(capacity: object) -> int | None:
    """A capacity given as bytes or as text such as ``"1.2 GiB"``, whose fraction of a byte is of no use to anybody.

    Raises:
        UnitError: text that is no size.
        PlanError: another type, or a negative number.
    """
    if capacity is None:
        return None
    if isinstance(capacity, str):
        return parse_bytes(capacity, floor=True)
    if not is_whole(capacity):
        raise PlanError(
            f"a capacity is a whole number of bytes or text such as '1.2 GiB', not {reprlib.repr(capacity)}"
        )
    found = as_int(capacity)
    if found < 0:
        raise PlanError("a capacity cannot be negative")
    return found


_MAX_ALIGNMENT_BYTES = 2**60
"""What all buffers of an instance may have together."""


def require_alignment(alignment: object) -> int:
    """An alignment in bytes, from 1 to 2**60.

    Raises:
        PlanError: anything else.
    """
    found = whole_number(alignment, "an alignment")
    if found < 1:
        raise PlanError("an alignment is at least 1 byte; 1 means that every offset will do")
    if found > _MAX_ALIGNMENT_BYTES:
        raise PlanError("an alignment is at most 2**60 bytes")
    return found
