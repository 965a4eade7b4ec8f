"""Results that print themselves: as the report on a terminal and in text, as tables in a notebook.

Nothing in this room formats; the report room registers how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class View(NamedTuple):
    """How results are shown: as what rich prints, as HTML, and as text."""

    terminal: Callable[[Any], Any]
    html: Callable[[Any], str]
    text: Callable[[Any], str]


_registered: list[View] = []


def register_view(view: View) -> None:
    """Use ``view`` for the printed and HTML forms of every result."""
    _registered[:] = [view]


def _view() -> View:
    if not _registered:  # a result that was unpickled came without the package's public names, which register it
        import fuseline

        _ = fuseline.Explanation  # to read it loads the report
    return _registered[0]


class Shown:
    """A result that a report shows. ``repr`` stays short."""

    __slots__ = ()

    def __str__(self) -> str:
        return _view().text(self)

    def __rich__(self) -> Any:
        return _view().terminal(self)

    def _repr_html_(self) -> str:
        return _view().html(self)
