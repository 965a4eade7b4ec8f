"""float32 functions by pieces: the argument's cell picks a polynomial's coefficients from tables of four or eight.

Such a table is one permutation with AVX2, AVX-512 and NEON, so that a cell costs no more than one polynomial for the
whole range would, and needs neither a division nor a second branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.build import Expr, fma, where
from ..ir.dtype import F32, I32
from . import coefficients
from .formats import at_most, polynomial, with_sign_of


def odd_by_pieces(x: Expr, name: str, limit: float, scale: float, offset: float, place: int, first: int) -> Expr:
    """The odd float32 function of the tables ``name``, which is constant from ``limit`` on.

    The cell is the bits of |x|*scale + offset from ``place`` up, as many as the tables' length needs; the first cell
    has number ``first``.
    """
    y = at_most(abs(x), limit)
    cell = fma(y, scale, offset).bitcast(I32) >> place
    return with_sign_of(by_pieces(y, cell, (name,), first), x)


def by_pieces(y: Expr, cell: Expr, names: Sequence[str], first: int) -> Expr:
    """The polynomial of each element's cell at ``y``; the cells of ``names`` follow each other."""
    t = y - pick(cell, _joined(names, "NODES"), first)
    terms = [pick(cell, row, first) for row in zip(*(_joined(names, "TERMS")), strict=True)]
    # Heads are 0 in the first cell, where t + t*p keeps every bit of t; in the others they are larger than t.
    heads = pick(cell, _joined(names, "HEADS"), first)
    return fma(t, polynomial(t, terms), where(t > heads, t, heads))


def pick(cell: Expr, values: Sequence[float], first: int = 0) -> Expr:
    """The value of each element's cell; as many low bits of ``cell`` count as there are values, from ``first`` on."""
    bits = np.array(values, np.float32).view(np.uint32)
    return cell.lookup(tuple(int(b) for b in np.roll(bits, first)), F32)


def _joined(names: Sequence[str], part: str) -> tuple[Any, ...]:
    """One part of several functions' tables; terms cell by cell."""
    tables = [getattr(coefficients, f"{name}_F32_{part}") for name in names]
    return tuple(entry for table in tables for entry in (zip(*table, strict=True) if part == "TERMS" else table))
