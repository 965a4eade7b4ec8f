"""Where in a traced function an operation stands: its line, its column, and the name that its value is assigned to.

Read from the calling frame's position and from the instruction that follows it, both looked up once per code object.
"""

from __future__ import annotations

import dis
import inspect
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_OWN_FILES = frozenset(str(Path(__file__).with_name(name)) for name in ("trace.py", "trace_numpy.py", "frames.py"))


@dataclass(frozen=True, slots=True)
class Place:
    """A location in the function's source (line and column from 1; zeros where unknown) and the names assigned to."""

    location: tuple[int, int]
    targets: tuple[str, ...] = ()

    def target(self, result: int | None = None) -> str:
        """The name that the value, or one of its several results, is assigned to; empty if there is none."""
        index, wanted = (0, 1) if result is None else (result, result + 1)
        unpacked = len(self.targets) > 1
        return self.targets[index] if len(self.targets) >= wanted and unpacked == (result is not None) else ""


_NOWHERE = Place((0, 0))


class SourceBlock:
    """The text of one function and the places of instructions in it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.source = ""
        self.file = ""
        self.first_line = 0
        self._places: dict[CodeType, list[Place]] = {}
        try:
            lines, first = inspect.getsourcelines(function)
            self.file = inspect.unwrap(function).__code__.co_filename
        except (OSError, TypeError, AttributeError, SyntaxError, tokenize.TokenError):
            return  # typed at a prompt, not written in Python, or the file is another one by now
        self.source, self.first_line = "".join(lines), max(first, 1)
        self.line_count = len(lines)

    def origin(self, name: str) -> str:
        """How errors call the function."""
        return f"{name} ({Path(self.file).name}, from line {self.first_line})" if self.source else name

    def place(self, frame: FrameType | None) -> Place:
        """The place of the innermost call that stands in this block; the name only if it made the operation itself."""
        if not self.source:
            return _NOWHERE
        while frame is not None and frame.f_code.co_filename in _OWN_FILES:
            frame = frame.f_back
        direct = frame
        while frame is not None and not self._holds(frame):
            frame = frame.f_back
        if frame is None:
            return _NOWHERE
        found = self._places_of(frame.f_code)[frame.f_lasti // 2]
        return found if frame is direct else Place(found.location)

    def _holds(self, frame: FrameType) -> bool:
        code = frame.f_code
        return code.co_filename == self.file and 0 <= code.co_firstlineno - self.first_line < self.line_count

    def _places_of(self, code: CodeType) -> list[Place]:
        known = self._places.get(code)
        if known is None:
            names = _assigned_names(code)
            known = [
                Place((line - self.first_line + 1, column + 1) if line is not None and column is not None else (0, 0),
                      names.get(2 * i, ()))
                for i, (line, _, column, _) in enumerate(code.co_positions())
            ]  # fmt: skip
            self._places[code] = known
        return known


def _assigned_names(code: CodeType) -> dict[int, tuple[str, ...]]:
    """For each instruction offset whose result goes straight into variables, those variables."""
    names: dict[int, tuple[str, ...]] = {}
    source, wanted, found = 0, 0, []
    previous = 0
    for instruction in dis.get_instructions(code):
        target = _stored_name(instruction)
        if wanted and target:
            found.append(target)
            if len(found) == wanted:
                names[source], wanted = tuple(found), 0
        elif instruction.opname == "UNPACK_SEQUENCE":
            source, wanted, found = previous, int(instruction.arg or 0), []
        else:
            wanted = 0
            if target:
                names[previous] = (target,)
        previous = instruction.offset
    return names


def _stored_name(instruction: dis.Instruction) -> str:
    if not instruction.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL")):
        return ""
    target = instruction.argval if isinstance(instruction.argval, str) else instruction.argval[0]
    return "" if target.startswith("_") else str(target)
