"""Functions by pieces: the argument's cell picks a polynomial's coefficients from tables of four or eight.

Such a table is one permutation with AVX2, AVX-512 and NEON, so that a cell costs no more than one polynomial for the
whole range would, and needs neither a division nor a second branch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from fuseline.ir.build import Expr, fma, where
from fuseline.ir.dtype import F32, F64, I32, I64
from fuseline.mathlib.formats import (
    DOUBLE,
    Format,
    at_most,
    format_of,
    polynomial,
    polynomial_with_last_steps,
    with_sign_of,
)


def odd_by_pieces(x: Expr, name: str, limit: float, scale: float, offset: float, place: int, first: int) -> Expr:
    """The odd float32 function of the tables ``name``, which is constant from ``limit`` on.

    The cell is the bits of |x|*scale + offset from ``place`` up, as many as the tables' length needs; the first cell
    has number ``first``.
    """
    y = at_most(abs(x), limit)
    cell = fma(y, scale, offset).bitcast(I32) >> place
    head, t, terms = piece(y, (name,), cell, first, starts_at_zero=True)
    return with_sign_of(fma(t, polynomial(t, terms), head), x)


def odd_by_uneven_pieces(x: Expr, name: str, limit: float, slope: float, bend: float) -> Expr:
    """The odd float64 function of the tables ``name``, which is constant from ``limit`` on.

    The cell of y = |x| is the integer nearest to slope*y - bend*y*y: cells grow with y.
    """
    y = at_most(abs(x), limit)
    cell = fma(y, fma(y, -bend, slope), 1.5 * 2.0**DOUBLE.fraction_bits).bitcast(I64)
    head, t, terms = piece(y, (name,), cell, starts_at_zero=True)
    return with_sign_of(fma(t, polynomial(t, terms), head), x)


def piece(
    y: Expr, names: Sequence[str], cell: Expr, first: int = 0, *, starts_at_zero: bool = False
) -> tuple[Expr, Expr, list[Expr]]:
    """(head, t, terms): at ``y`` in its ``cell`` the function is head + t*p(t).

    The cells of the tables ``names`` follow each other.
    """
    f = format_of(y)
    t = y - pick(cell, _joined(names, f, "NODES"), first)
    terms = [pick(cell, row, first) for row in zip(*_joined(names, f, "TERMS"), strict=True)]
    head = pick(cell, _joined(names, f, "HEADS"), first)
    if starts_at_zero:
        # Heads are 0 in the first cell, where t + t*p keeps every bit of t; in the others they are larger than t.
        head = where(t > head, t, head)
    return head, t, terms


def piece_in_two_parts(
    y: Expr, name: str, cell: Expr, first: int, *, starts_at_zero: bool = False
) -> tuple[Expr, Expr]:
    """The function's value and what it was rounded by."""
    head, t, terms = piece(y, (name,), cell, first, starts_at_zero=starts_at_zero)
    slope = polynomial_with_last_steps(t, terms)
    value = fma(t, slope, head)
    return value, fma(t, slope, head - value)


def pick(cell: Expr, values: Sequence[float], first: int = 0) -> Expr:
    """The value of each element's cell, a float of the width of ``cell``; as many low bits of it count as there are
    values, from ``first`` on."""
    is_single = cell.dtype is I32
    floats, words = (f"<{len(values)}{kind}" for kind in ("fI" if is_single else "dQ"))
    table = struct.unpack(words, struct.pack(floats, *values))
    start = -first % len(table)
    return cell.lookup((*table[start:], *table[:start]), F32 if is_single else F64)


def _joined(names: Sequence[str], f: Format, part: str) -> tuple[Any, ...]:
    """One part of several functions' tables; terms cell by cell."""
    tables = [f.table(name, part) for name in names]
    return tuple(entry for table in tables for entry in (zip(*table, strict=True) if part == "TERMS" else table))
