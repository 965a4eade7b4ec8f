"""The vocabulary of arena placement: buffers, instances, placements and results, as plain immutable data.

Time is an abstract integer step. A lifetime is half-open, so a buffer that ends at 5 and one that starts at 5 may share
bytes. Sizes, offsets and alignments are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fuseline.errors import PlanError

MAX_BUFFERS = 1_000_000
MAX_VALUE = 2**62
MAX_TOTAL_BYTES = 2**60
"""All buffers one on the other, so that every offset that a search may try is far from the end of 64-bit integers."""


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
        return _buffer_problem(self)

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


def _buffer_problem(b: Buffer) -> str | None:
    if not b.id:
        return "its id is empty"
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
    largest = max(abs(b.lower), abs(b.upper), b.size + (b.offset or 0), b.alignment)
    if largest > MAX_VALUE:
        return f"a value of it exceeds 2**62 ({largest})"
    return _gap_problem(b) if b.gaps else None


def _gap_problem(b: Buffer) -> str | None:
    at = b.lower
    for gap in sorted(b.gaps, key=lambda g: g.lower):
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

    Raises:
        PlanError: a buffer is impossible, an id occurs twice, or there are more than ``MAX_BUFFERS``.
    """

    buffers: tuple[Buffer, ...]
    name: str = "instance"

    def __post_init__(self) -> None:
        if len(self.buffers) > MAX_BUFFERS:
            raise PlanError(f"{self.name}: {len(self.buffers):,} buffers exceed the limit of {MAX_BUFFERS:,}")
        seen: set[str] = set()
        for buffer in self.buffers:
            if buffer.id in seen:
                raise PlanError(f"{self.name}: buffer id {buffer.id!r} occurs twice; every id must be unique")
            seen.add(buffer.id)
            problem = _buffer_problem(buffer)
            if problem is not None:
                raise PlanError(f"{self.name}: buffer {buffer.id!r}: {problem}")
        # Alignment can put as much below a buffer as it is large.
        total = sum(b.size + b.alignment for b in self.buffers)
        total += max((b.offset + b.size for b in self.buffers if b.offset is not None), default=0)
        if total > MAX_TOTAL_BYTES:
            raise PlanError(
                f"{self.name}: sizes, alignments and fixed offsets add up to {total:,} bytes, "
                f"more than 2**60 ({MAX_TOTAL_BYTES:,})"
            )


@dataclass(frozen=True, slots=True)
class Placement:
    """An offset in bytes for every buffer of an instance, in the instance's order, and the arena size they need."""

    offsets: tuple[int, ...]
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of bytes below which no arena can be, and how that is known."""

    size_bytes: int
    method: str
    derivation: str


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
    method: str
    progress: tuple[Incumbent, ...] = field(default=(), repr=False)

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
            "method": self.method,
            "buffers": [
                {"id": b.id, "offset": offset}
                for b, offset in zip(self.instance.buffers, self.placement.offsets, strict=True)
            ],
        }
