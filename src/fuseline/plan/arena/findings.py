"""How an answer was found and why a bound holds: as data, with plain English for JSON and messages.

Reports word the same data in their own languages, by the name of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fuseline.units import format_bytes

_LONGEST_SHOWN_ID = 60


def named(buffer_id: str) -> str:
    """An id as messages show it: quoted, with escapes, and cut where it would fill the screen."""
    return repr(buffer_id if len(buffer_id) <= _LONGEST_SHOWN_ID else buffer_id[: _LONGEST_SHOWN_ID - 1] + "…")


class Strategy(StrEnum):
    """What places buffers; the value is its English name, with the order where it follows one."""

    NONE = ""
    WHOLE_BUFFERS = "reuse of whole buffers"
    VALLEY_FILLING = "valley filling by {order}"
    FIRST_FIT = "first fit by {order}"
    BEST_FIT = "best fit by {order}"
    BEST_FIT_IN_TIME = "best fit in time"
    BEST_FIT_BACKWARDS = "best fit backwards in time"
    SQUEAKY_WHEEL = "valley filling, squeaky wheel"
    SHORT_SEARCH = "short search"
    ALL_OFFSETS = "all offsets"
    GROWING_PARTS = "exact search, part by part"
    EXACT_SEARCH = "exact search"


class Order(StrEnum):
    """By what buffers are sorted; the value is its English name."""

    NONE = ""
    HINT = "hint"
    SIZE = "size"
    SIZE_LONG_FIRST = "size, long first"
    SIZE_SHORT_FIRST = "size, short first"
    SIZE_EARLY_FIRST = "size, early first"
    SIZE_LATE_FIRST = "size, late first"
    LIFETIME = "lifetime"
    LIFETIME_ALIGNMENT = "lifetime, then alignment"
    LIFETIME_LATE_FIRST = "lifetime, late first"
    AREA = "area"
    AREA_LONG_FIRST = "area, long first"
    ALIGNMENT = "alignment"
    START = "start"
    END = "end"
    BREADTH = "breadth"
    BREADTH_LONG_FIRST = "breadth, long first"
    CONFLICT_WEIGHT = "conflict weight"
    CONFLICT_AREA = "conflict area"


@dataclass(frozen=True, slots=True)
class Method:
    """What found an answer. False where there is none yet; ``str`` gives its English name."""

    strategy: Strategy = Strategy.NONE
    order: Order = Order.NONE

    def __bool__(self) -> bool:
        return self.strategy is not Strategy.NONE

    def __str__(self) -> str:
        return self.strategy.value.format(order=self.order.value)


class Ground(StrEnum):
    """Kinds of arguments for a bound; the value is the English sentence, with the facts of a `Reason` as fields."""

    NO_BUFFERS = "there are no buffers"
    NO_BYTES = "no buffer ever uses a byte"
    ONE_BUFFER = "buffer {id} alone is {exactly} long"
    FIXED_BUFFER = "buffer {id} alone is fixed at {offset_bytes:,} and {exactly} long"
    LIVE_SUM = "at t={time} {size} are live ({buffers}, {exactly})"
    ALIGNED_SUM = "at t={time} {size} are live, filled up to their alignments ({buffers}, {exactly})"
    STACK = "at t={time} {buffers} need {size} one on the other, in the best order for their alignments ({exactly})"
    REFUTED = "above that, every way to fill a smaller arena was refuted ({walked} searched)"
    ORDERS_SEARCHED = "every order keeps {size} alive at some step ({exactly}; all orders were searched)"
    LARGEST_OPERATION = (
        "every order keeps {size} alive at some step ({exactly}; at its largest operation or at its end)"
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """One argument for a bound: its kind and the numbers that it speaks of, as ``(name, value)``.

    Names are ``time``, ``count`` (of buffers), ``size_bytes``, ``offset_bytes``, ``id`` and ``nodes``.
    """

    ground: Ground
    facts: tuple[tuple[str, int | str], ...] = ()

    def words(self) -> dict[str, Any]:
        """The facts as fields of a sentence: also ``size`` with a unit, and the id as messages show it."""
        fields: dict[str, Any] = dict(self.facts)
        if "size_bytes" in fields:
            fields["size"] = format_bytes(fields["size_bytes"], binary=True)
            fields["exactly"] = f"{fields['size_bytes']:,} byte{'s' * (fields['size_bytes'] != 1)}"
        if "id" in fields:
            fields["id"] = named(fields["id"])
        return fields

    def __str__(self) -> str:
        fields = self.words()
        if "count" in fields:
            fields["buffers"] = f"{fields['count']:,} buffer{'s' * (fields['count'] != 1)}"
        if "nodes" in fields:
            fields["walked"] = f"{fields['nodes']:,} node{'s' * (fields['nodes'] != 1)}"
        return self.ground.value.format(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Its stable JSON form."""
        return {"kind": self.ground.name.lower(), **dict(self.facts)}


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of bytes below which no arena can be, and the arguments for it, each raising the one before."""

    size_bytes: int
    reasons: tuple[Reason, ...]

    @property
    def derivation(self) -> str:
        """How that is known, in English."""
        return "; ".join(map(str, self.reasons))


def outcome(peak_bytes: int, gap: float) -> str:
    """A result in a few words: ``16 MiB, optimal`` or ``16 MiB, at most 2.38 % above the least``."""
    proof = f"at most {100 * gap:.2f} % above the least" if gap else "optimal"
    return f"{format_bytes(peak_bytes, binary=True)}, {proof}"
