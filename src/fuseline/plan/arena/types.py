"""The vocabulary of arena placement: buffers, instances, placements and results, as plain immutable data.

Time is an abstract integer step. A lifetime is half-open, so a buffer that ends at 5 and one that starts at 5 may share
bytes. Sizes, offsets and alignments are bytes.
"""

from __future__ import annotations

import reprlib
import unicodedata
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from fuseline.errors import LimitError, PlanError
from fuseline.plan.arena.arguments import as_int, is_whole
from fuseline.plan.arena.findings import Bound, Method, named, outcome

MAX_BUFFERS = 1_000_000
MAX_VALUE = 2**62
MAX_TOTAL_BYTES = 2**60
"""All buffers one on the other, so that every offset that a search may try is far from the end of 64-bit integers."""


def filled_up(size_bytes: int, alignment: int) -> int:
    """``size_bytes`` rounded up to a multiple of ``alignment``: what a value takes of a program's arena, and what the
    search of an order counts.
    """
    return -(-size_bytes // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Gap:
    """A part ``[lower, upper)`` of a lifetime during which a buffer needs less than all of its bytes.

    ``window`` is the byte range ``[low, high)`` inside the buffer that stays in use meanwhile; ``None`` means no byte.
    """

    lower: int
    upper: int
    window: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What a buffer occupies during ``[lower, upper)``: its bytes ``[low, high)`` counted from its own offset."""

    lower: int
    upper: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A block of ``size`` bytes that is alive during ``[lower, upper)``.

    ``offset`` fixes the place in the arena; ``hint`` only suggests one. ``alignment`` divides the offset.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    offset: int | None = None
    hint: int | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def lifetime(self) -> int:
        """Number of time steps during which the buffer exists."""
        return self.upper - self.lower

    def problem(self) -> str | None:
        """What makes this buffer impossible, in one sentence, or ``None``."""
        return _type_problem(self) or _id_problem(self.id) or _buffer_problem(self)

    def pieces(self) -> tuple[Piece, ...]:
        """The byte ranges in use over time, in time order, without the parts that a gap frees entirely."""
        if not self.gaps:
            return (Piece(self.lower, self.upper, 0, self.size),)
        pieces: list[Piece] = []
        at = self.lower
        for gap in sorted(self.gaps, key=lambda g: g.lower):
            if at < gap.lower:
                pieces.append(Piece(at, gap.lower, 0, self.size))
            if gap.window is not None and gap.window[0] < gap.window[1]:
                pieces.append(Piece(gap.lower, gap.upper, *gap.window))
            at = gap.upper
        if at < self.upper:
            pieces.append(Piece(at, self.upper, 0, self.size))
        return tuple(pieces)


_NUMBERS = ("lower", "upper", "size", "alignment")
_OPTIONAL_NUMBERS = ("offset", "hint")
_IN_BYTES = ("size", "alignment", "offset")


def _has_plain_types(b: Buffer) -> bool:
    """Whether all is of the very types that the fields state. Says the most common case quickly."""
    return (
        type(b.id) is str
        and type(b.lower) is type(b.upper) is type(b.size) is type(b.alignment) is int
        and (b.offset is None or type(b.offset) is int)
        and (b.hint is None or type(b.hint) is int)
        and b.gaps == ()
    )


def _type_problem(b: Buffer) -> str | None:
    """Which field is of a type that it cannot have, in one sentence, or ``None``."""
    if _has_plain_types(b):
        return None
    if not _is_text(b.id):
        return f"its id is {reprlib.repr(b.id)}, not text"
    for name in (*_NUMBERS, *_OPTIONAL_NUMBERS):
        value = getattr(b, name)
        if not is_whole(value) and not (value is None and name in _OPTIONAL_NUMBERS):
            return f"its {name} is {reprlib.repr(value)}, not a whole number"
    if not _is_sequence(b.gaps):
        return f"its gaps are {reprlib.repr(b.gaps)}, not a tuple of Gap(lower, upper, window)"
    for gap in b.gaps:
        if not _is_gap(gap):
            return f"its gap {reprlib.repr(gap)} is not Gap(lower, upper, window) with whole numbers"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_sequence(value: object) -> bool:
    return isinstance(value, (tuple, list))


def _is_gap(gap: object) -> bool:
    if not isinstance(gap, Gap) or not is_whole(gap.lower) or not is_whole(gap.upper):
        return False
    window: object = gap.window
    return window is None or (isinstance(window, (tuple, list)) and len(window) == 2 and all(map(is_whole, window)))


def _with_plain_types(b: Buffer) -> Buffer:
    """The same buffer in Python's own integers, which NumPy's, for one, are not: those overflow."""
    numbers: dict[str, Any] = {name: as_int(getattr(b, name)) for name in _NUMBERS}
    for name in _OPTIONAL_NUMBERS:
        value = getattr(b, name)
        numbers[name] = None if value is None else as_int(value)
    gaps = tuple(
        Gap(as_int(g.lower), as_int(g.upper), None if g.window is None else (as_int(g.window[0]), as_int(g.window[1])))
        for g in b.gaps
    )
    return replace(b, id=str(b.id), gaps=gaps, **numbers)


def _id_problem(buffer_id: str) -> str | None:
    if not buffer_id:
        return "its id is empty"
    if buffer_id.isprintable():
        return None
    # Nobody can read them, CSV cannot hold all of them, pictures hold none, and a terminal would obey them.
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in buffer_id):
        return "its id has a control character or half of a surrogate pair; an id is text that can be shown"
    return None


def _buffer_problem(b: Buffer) -> str | None:
    past = next((n for n in _IN_BYTES if (getattr(b, n) or 0) > MAX_TOTAL_BYTES), None)
    if past is not None:
        return f"its {past} exceeds 2**60 bytes"
    offset, hint = b.offset or 0, b.hint or 0
    if max(abs(b.lower), abs(b.upper), abs(b.size), abs(b.alignment), abs(offset), abs(hint)) > MAX_VALUE:
        names = (*_NUMBERS, *_OPTIONAL_NUMBERS)
        return f"its {next(n for n in names if abs(getattr(b, n) or 0) > MAX_VALUE)} exceeds 2**62"
    if b.size < 0:
        return f"its size is negative ({b.size})"
    if b.lower >= b.upper:
        kind = "empty" if b.lower == b.upper else "inverted"
        return f"its lifetime [{b.lower}, {b.upper}) is {kind}; the end must come after the start"
    if b.alignment < 1:
        return f"its alignment is {b.alignment}; an alignment is at least 1"
    if b.offset is not None and b.offset < 0:
        return f"its fixed offset is negative ({b.offset})"
    if b.offset is not None and b.offset % b.alignment:
        return f"its fixed offset {b.offset} is not a multiple of its alignment {b.alignment}"
    if b.hint is not None and b.hint < 0:
        return f"its offset hint is negative ({b.hint})"
    return _gap_problem(b) if b.gaps else None


def _gap_problem(b: Buffer) -> str | None:
    at = b.lower
    for gap in sorted(b.gaps, key=lambda g: g.lower):
        if max(abs(n) for n in (gap.lower, gap.upper, *(gap.window or ()))) > MAX_VALUE:
            return "a number of its gaps exceeds 2**62"
        if gap.lower >= gap.upper:
            return f"its gap [{gap.lower}, {gap.upper}) is empty or inverted"
        if gap.lower < at or gap.upper > b.upper:
            return f"its gap [{gap.lower}, {gap.upper}) lies outside its lifetime or overlaps another gap"
        if gap.window is not None and not 0 <= gap.window[0] <= gap.window[1] <= b.size:
            return f"the window {gap.window[0]}:{gap.window[1]} of a gap lies outside its {b.size} bytes"
        at = gap.upper
    return None


@dataclass(frozen=True)
class Instance:
    """Buffers to be placed in one arena. Construction validates: every id once, every buffer possible.

    Whole numbers of other types (NumPy's) become Python's, other sequences a tuple.

    Raises:
        PlanError: a buffer is impossible or an id occurs twice.
        LimitError: more than ``MAX_BUFFERS`` buffers.
    """

    buffers: tuple[Buffer, ...]
    name: str = "instance"

    def __post_init__(self) -> None:
        given: Any = self.buffers
        try:
            buffers = tuple(islice(given, MAX_BUFFERS + 1))
        except TypeError:
            raise PlanError(f"{self.name}: {reprlib.repr(given)} is no sequence of buffers") from None
        if len(buffers) > MAX_BUFFERS:
            raise LimitError(f"{self.name}: more than {MAX_BUFFERS:,} buffers")
        plain = tuple([self._checked(i, buffer) for i, buffer in enumerate(buffers)])
        object.__setattr__(self, "buffers", plain)
        seen: set[str] = set()
        for buffer in plain:
            if buffer.id in seen:
                raise PlanError(f"{self.name}: buffer id {named(buffer.id)} occurs twice; every id must be unique")
            seen.add(buffer.id)
        # Alignment can put as much below a buffer as it is large.
        total = sum(b.size + b.alignment for b in self.buffers)
        total += max((b.offset + b.size for b in self.buffers if b.offset is not None), default=0)
        if total > MAX_TOTAL_BYTES:
            raise PlanError(
                f"{self.name}: sizes, alignments and fixed offsets add up to {total:,} bytes, "
                f"more than 2**60 ({MAX_TOTAL_BYTES:,})"
            )

    def _checked(self, i: int, buffer: object) -> Buffer:
        """``buffer`` in plain types.

        Raises:
            PlanError: it is none, or an impossible one.
        """
        if not isinstance(buffer, Buffer):
            raise PlanError(f"{self.name}: buffer {i} is {reprlib.repr(buffer)}, not a Buffer")
        plain = _has_plain_types(buffer)
        problem = (_id_problem(buffer.id) or _buffer_problem(buffer)) if plain else buffer.problem()
        if problem is not None:
            shown = named(buffer.id) if _is_text(buffer.id) else str(i)
            raise PlanError(f"{self.name}: buffer {shown}: {problem}")
        return buffer if plain else _with_plain_types(buffer)


@dataclass(frozen=True, slots=True)
class Placement:
    """An offset in bytes for every buffer of an instance, in the instance's order, and the arena size they need."""

    offsets: tuple[int, ...]
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Incumbent:
    """What a running search has so far: the best peak and the best bound, both in bytes."""

    seconds: float
    peak_bytes: int
    lower_bound_bytes: int
    stage: str


@dataclass(frozen=True)
class PlanResult:
    """A placement with its proof.

    ``optimal`` is true only where the bound equals the peak. ``gap`` is ``peak / bound - 1``. ``stopped_because`` is
    one of ``optimal``, ``time limit``, ``interrupted``, ``capacity reached``, ``effort spent``.
    """

    instance: Instance
    placement: Placement
    bound: Bound
    seconds: float
    stopped_because: str
    method: Method
    progress: tuple[Incumbent, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        count = len(self.instance.buffers)
        return f"<PlanResult: {count} buffer{'s' * (count != 1)}, {outcome(self.peak_bytes, self.gap)}>"

    @property
    def peak_bytes(self) -> int:
        return self.placement.peak_bytes

    @property
    def lower_bound_bytes(self) -> int:
        return self.bound.size_bytes

    @property
    def optimal(self) -> bool:
        return self.placement.peak_bytes == self.bound.size_bytes

    @property
    def gap(self) -> float:
        return self.peak_bytes / self.lower_bound_bytes - 1.0 if self.lower_bound_bytes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON form."""
        return {
            "peak_bytes": self.peak_bytes,
            "lower_bound_bytes": self.lower_bound_bytes,
            "optimal": self.optimal,
            "gap": self.gap,
            "seconds": self.seconds,
            "stopped_because": self.stopped_because,
            "bound_derivation": self.bound.derivation,
            "bound_reasons": [reason.to_dict() for reason in self.bound.reasons],
            "method": str(self.method),
            "buffers": [
                {"id": b.id, "offset": offset}
                for b, offset in zip(self.instance.buffers, self.placement.offsets, strict=True)
            ],
        }
