"""NumPy's protocol for array types of other libraries, `__array_ufunc__`, asked one operand at a time (NEP 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def answer(ufunc: np.ufunc, operands: Sequence[Any]) -> Any:
    """What ``ufunc(*operands)`` is, or NotImplemented where every operand with a say in it declines.

    NumPy raises TypeError for the latter, which is also what a library raises whose own work fails.
    """
    deciding = _deciding(operands)
    if not deciding or any(type(o).__array_ufunc__ is None for o in deciding):
        return ufunc(*operands)
    for operand in deciding:
        found = type(operand).__array_ufunc__(operand, ufunc, "__call__", *operands)
        if found is not NotImplemented:
            return found
    return NotImplemented


def _deciding(operands: Sequence[Any]) -> list[Any]:
    """The operands whose types decide, one of each type in NumPy's order: from the left, but subclasses first."""
    found: list[Any] = []
    for operand in operands:
        kind = type(operand)
        method = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
        if method is np.ndarray.__array_ufunc__ or any(type(o) is kind for o in found):
            continue
        place = next((i for i, o in enumerate(found) if issubclass(kind, type(o))), len(found))
        found.insert(place, operand)
    return found
