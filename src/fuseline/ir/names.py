"""What inputs and outputs may be called, wherever a program comes from: calls take and return them by these names."""

from __future__ import annotations

import keyword
import unicodedata
from collections import Counter
from collections.abc import Sequence

from fuseline.errors import UsageError


def is_name(text: object) -> bool:
    """Whether Python reads this name as it stands, and as one: it reads ``ﬁ`` as ``fi``, which would not be found."""
    if not isinstance(text, str) or not text.isidentifier() or keyword.iskeyword(text):
        return False
    return text.isascii() or unicodedata.normalize("NFKC", text) == text


def is_output_name(text: object) -> bool:
    """Whether ``text`` may be a field of the named tuple that several results are."""
    return is_name(text) and not str(text).startswith("_")


def check_output_names(names: Sequence[str]) -> None:
    """`UsageError` unless each of the ``names`` may be an output's and no two are equal."""
    for name in names:
        if not is_output_name(name):
            raise UsageError(f"{name!r} cannot be the name of an output, a field of a named tuple")
    if len({*names}) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise UsageError(f"two outputs are called {twice[0]}; give each a name of its own")
