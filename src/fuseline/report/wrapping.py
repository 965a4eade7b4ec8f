"""Breaking prose into lines, in Latin and Chinese text alike, without tearing a number from its unit.

Lines break at spaces and around Chinese characters, never at a no-break space, before closing or after opening
punctuation.
"""

from __future__ import annotations

from fuseline.excerpts import columns_of

NO_BREAK_SPACE = "\u00a0"

_CLOSING = "，。；：！？、）」』》”’…,.;:!?)]}%"
_OPENING = "（「『《“‘([{"


def unbroken(figure: str) -> str:
    """``figure`` (a number and its unit) with spaces at which no line breaks."""
    return figure.replace(" ", NO_BREAK_SPACE)


def width_of(text: str) -> int:
    """Columns that ``text`` takes in a terminal: two for a wide character, none for a combining one."""
    return sum(columns_of(c) for c in text)


def wrap(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns, but for single words that are wider."""
    lines: list[str] = []
    line = ""
    pending = ""
    for piece in _pieces(text):
        if piece == " ":
            pending = " " if line else ""
        elif line and width_of(line) + len(pending) + width_of(piece) > width:
            lines.append(line)
            line, pending = piece, ""
        else:
            line, pending = line + pending + piece, ""
    if line:
        lines.append(line)
    return [shown.replace(NO_BREAK_SPACE, " ") for shown in lines]


def _pieces(text: str) -> list[str]:
    """Spaces and the parts between which a line may break."""
    pieces: list[str] = []
    for c in " ".join(text.split(" ")):
        if c == " ":
            if pieces and pieces[-1] != " ":
                pieces.append(c)
        elif pieces and _sticks(pieces[-1], c):
            pieces[-1] += c
        else:
            pieces.append(c)
    return pieces


def _sticks(before: str, c: str) -> bool:
    """Whether no line may end between the part ``before`` and the character after it."""
    if before == " ":
        return False
    last = before[-1]
    if c in _CLOSING or last in _OPENING:
        return True
    return columns_of(c) < 2 and columns_of(last) < 2


def cut(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns, its end replaced by … where it does not fit."""
    if len(text) <= width and width_of(text) <= width:
        return text
    kept, taken = [], 0
    for c in text[: width + 1]:
        taken += width_of(c)
        if taken > width - 1:
            break
        kept.append(c)
    return "".join(kept) + "…"
