"""float32 functions by pieces: the argument's cell picks a polynomial's coefficients from tables of four or eight.

Such a table is one permutation with AVX2, AVX-512 and NEON, so that a cell costs no more than one polynomial for the
whole range would, and needs neither a division nor a second branch.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    a = abs(x)
    y = at_most(a, limit)
    cell = fma(y, scale, offset).bitcast(I32) >> place
    t = y - pick(cell, _table(name, "NODES"), first)
    terms = [pick(cell, row, first) for row in _rows(name)]
    # Heads are 0 in the first cell, where t + t*p keeps every bit of t; in the others they are larger than t.
    heads = pick(cell, _table(name, "HEADS"), first)
    return with_sign_of(fma(t, polynomial(t, terms), where(t > heads, t, heads)), x)


def pick(cell: Expr, values: Sequence[float], first: int = 0) -> Expr:
    """The value of each element's cell; as many low bits of ``cell`` count as there are values, from ``first`` on."""
    bits = np.array(values, np.float32).view(np.uint32)
    return cell.lookup(tuple(int(b) for b in np.roll(bits, first)), F32)


def _rows(name: str) -> Sequence[Sequence[float]]:
    values: Sequence[Sequence[float]] = getattr(coefficients, f"{name}_F32_TERMS")
    return values


def _table(name: str, part: str) -> Sequence[float]:
    values: Sequence[float] = getattr(coefficients, f"{name}_F32_{part}")
    return values
