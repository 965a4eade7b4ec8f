"""Rows of a table that are made when they are asked for: a large program has a hundred thousand, of which a terminal
shows the first and the last few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Rows(Sequence[T]):
    """``count`` rows, of which ``make`` gives each by its number. Equal to any sequence of equal rows.

    They pickle as the rows themselves: what makes them reads nodes, which mean nothing without their graph.
    """

    __slots__ = ("_count", "_make")

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        numbers = range(self._count)[index]
        return self._make(numbers) if isinstance(numbers, int) else tuple(map(self._make, numbers))

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._count))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows | tuple | list):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return made_rows, (tuple(self),)

    def __repr__(self) -> str:
        return f"<{self._count} rows>"


def made_rows(rows: tuple[T, ...]) -> Rows[T]:
    """Rows that are there already."""
    return Rows(len(rows), rows.__getitem__)
