"""JSON for people and programs: keys one a line, each row of a list on a line of its own, and strictly JSON.

A number that JSON cannot express (NaN, infinities) becomes null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any


def json_lines(value: Any, indent: str = "") -> Iterator[str]:
    """The lines of ``value``; nesting is as deep as the data's own keys."""
    inner = indent + "  "
    if isinstance(value, Mapping) and value and any(isinstance(v, (Mapping, list)) for v in value.values()):
        yield "{"
        last = len(value) - 1
        for j, (key, entry) in enumerate(value.items()):
            lines = list(json_lines(entry, inner))
            lines[0] = f"{inner}{json.dumps(str(key), ensure_ascii=False)}: {lines[0]}"
            lines[-1] += "," if j < last else ""
            yield from lines
        yield indent + "}"
    elif isinstance(value, list) and value and all(isinstance(v, (Mapping, list)) for v in value):
        yield "["
        last = len(value) - 1
        yield from (f"{inner}{_one_line(entry)}{',' if j < last else ''}" for j, entry in enumerate(value))
        yield indent + "]"
    else:
        yield _one_line(value)


def _one_line(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def print_json(value: Any) -> None:
    """Print to standard output."""
    print("\n".join(json_lines(value)))
