"""The search of accuracy.py for large errors: around the worst samples found so far, denser and denser.

Errors above the usual largest come from narrow places, just below a power of two or at the end of a reduction's range,
where every rounding has the same sign once in millions of inputs. Even samples of everything miss them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from accuracy_functions import TWO_ARGUMENTS, Array, second_operand
from accuracy_judge import Judge, Verdict

Place = tuple[float, ...]
FIRST_EXPONENT, LAST_EXPONENT = -30, 10
"""Of the first operands tried."""
CELLS_A_BINADE = 16
ROUNDS = ((32, 0.1), (16, 0.15), (8, 0.25), (4, 0.3))
"""How many of the worst places each round tries, and its share of the samples; the cells before it have the rest."""
BLOCK = 1 << 20


def search(
    name: str, function: Callable[..., Array], dtype: Any, count: int, near: Iterable[Place] = (), seed: int = 0
) -> Verdict:
    """The largest error in about ``count`` samples: in cells of the domain, then around their worst and ``near``.

    0 stands for at most half an ulp: smaller errors have no place to search around, and are not told apart.
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    judge = Judge(name, function)
    known = [(np.inf, place) for place in near]  # tried in each round
    found: dict[int, tuple[float, Place]] = {}

    def try_out(operands: tuple[Array, ...]) -> None:
        error, place = judge.worst_of(operands)
        if place:
            cell = _cell(place[0], dtype)
            found[cell] = max(found.get(cell, (0.0, ())), (error, place))

    share = 1.0 - sum(share for _, share in ROUNDS)
    cells = list(_cells(dtype))
    for first, width in cells:
        try_out(_in_cell(name, dtype, rng, first, width, max(1, int(share * count / len(cells)))))
    for places, share in ROUNDS:
        worst = [*known, *heapq.nlargest(places, found.values())]
        for _, place in worst:
            left = max(1, int(share * count / len(worst)))
            while left > 0:
                try_out(tuple(_around(value, dtype, rng, min(left, BLOCK)) for value in place))
                left -= BLOCK
    verdict = judge.verdict()
    return replace(verdict, searched=verdict.samples)


def joined(broad: Verdict, narrow: Verdict) -> Verdict:
    """Means from the broad samples, errors and failures from both."""
    worse = narrow if narrow.largest_ulp > broad.largest_ulp else broad
    failing = broad if broad.special_failures else narrow
    return replace(
        broad,
        largest_ulp=worse.largest_ulp,
        where=worse.where,
        special_failures=broad.special_failures + narrow.special_failures,
        special_where=failing.special_where,
        searched=broad.searched + narrow.searched,
    )


def _fraction_bits(dtype: Any) -> int:
    return int(np.finfo(dtype).nmant)


def _integers(dtype: Any) -> Any:
    return np.dtype(f"i{np.dtype(dtype).itemsize}")


def _bits(value: float, dtype: Any) -> int:
    return int(np.array(value, dtype).view(_integers(dtype)))


def _cell(value: float, dtype: Any) -> int:
    """Places with the same number count as one: a 64th of a binade."""
    return _bits(value, dtype) >> (_fraction_bits(dtype) - 6)


def _cells(dtype: Any) -> Iterator[tuple[int, int]]:
    """The first bits of each cell and how many numbers it has."""
    width = (1 << _fraction_bits(dtype)) // CELLS_A_BINADE
    for sign in (1.0, -1.0):
        for exponent in range(FIRST_EXPONENT, LAST_EXPONENT + 1):
            first = _bits(sign * 2.0**exponent, dtype)
            yield from ((first + i * width, width) for i in range(CELLS_A_BINADE))


def _in_cell(name: str, dtype: Any, rng: np.random.Generator, first: int, width: int, count: int) -> tuple[Array, ...]:
    x = (first + rng.integers(0, width, count)).astype(_integers(dtype)).view(dtype)
    if name not in TWO_ARGUMENTS:
        return (x,)
    with np.errstate(all="ignore"):
        return x, second_operand(name, x.astype(np.float64), rng, count).astype(dtype)


def _around(value: float, dtype: Any, rng: np.random.Generator, count: int) -> Array:
    """The value itself, and neighbours at distances of any size from 2**-20 of a binade, or one number, to a fourth."""
    bits = _fraction_bits(dtype)
    distance = np.exp2(rng.uniform(max(0, bits - 20), bits - 2, count)) * rng.uniform(-1.0, 1.0, count)
    distance[0] = 0.0
    return (_bits(value, dtype) + np.rint(distance).astype(np.int64)).astype(_integers(dtype)).view(dtype)
