"""The rules that turn ratios (achieved over peak, one a pipe) into a verdict.

A rule is data: its thresholds are a convention for reading, printed with every answer. The bound is one of
``compute``, ``memory``, ``balanced``, ``neither``, ``latency``, ``small-grid``, or the name of a saturated third pipe;
where the rates do not decide, the verdict is undetermined and says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fuseline.errors import UnitError, UnknownNameError

LATENCY_FACTOR = 2.0
"""A kernel is latency-bound when its time is below this many times the launch floor."""


def launches_dominate(work_s: Any, launch_s: Any) -> Any:
    """Whether launching takes more of the time than the work does, by the limits of both: no measured time is needed.

    The time is at least the sum of both, so this is the same line as that of a measured time.
    """
    return work_s + launch_s < LATENCY_FACTOR * launch_s


UNDETERMINED = "undetermined"
"""Stands for a bound where the rates do not decide one: a side has no ratio, or an impossible one."""

IMPOSSIBLE_RATIO = 1.02
"""Above this a ratio is an error of units, sparsity, clock or byte count, not a speed."""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark as data: a code that the message catalogues know, and what it is about."""

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self, note_text: Callable[[Note], str] | None = None) -> dict[str, Any]:
        """For JSON: code and values, and the sentence where ``note_text`` makes one."""
        told = {"text": note_text(self)} if note_text is not None else {}
        return {"code": self.code, "values": {key: _plain(value) for key, value in self.values.items()}, **told}


def _plain(value: Any) -> Any:
    """A value of a remark for JSON: objections by their codes and values."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (str, bool, int, float)) or value is None:
        return str(value) if isinstance(value, str) else value
    return {"code": value.code, "values": dict(value.values)}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule is given: ratios of both sides and of further pipes, and what is known of the launch."""

    compute: float | None
    memory: float | None
    third: Mapping[str, float] = field(default_factory=dict)
    time_s: float | None = None
    launch_floor_s: float | None = None
    waves: float | None = None
    floor_assumed: bool = False
    unusable: Mapping[str, str] = field(default_factory=dict)
    """Why a side whose rate is known has no ratio here: ``impossible`` or ``refused``, by side."""

    def with_memory(self, memory: float | None) -> Reading:
        """This reading with another ratio of the memory side."""
        return Reading(
            self.compute,
            memory,
            self.third,
            self.time_s,
            self.launch_floor_s,
            self.waves,
            self.floor_assumed,
            self.unusable,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The bound and the remarks that go with it."""

    bound: str
    notes: tuple[Note, ...] = ()


class Rule(Protocol):
    """A way of reading ratios."""

    @property
    def name(self) -> str: ...

    def thresholds(self) -> dict[str, float]: ...

    def judge(self, reading: Reading) -> Verdict: ...


def _latency(reading: Reading) -> Verdict | None:
    """*latency* where the time is below twice the launch floor; the ratios then say little."""
    if reading.time_s is None or reading.launch_floor_s is None:
        return None
    limit = LATENCY_FACTOR * reading.launch_floor_s
    if reading.time_s >= limit:
        return None
    values = {"time_s": reading.time_s, "floor_s": reading.launch_floor_s, "factor": LATENCY_FACTOR}
    code = "near-assumed-floor" if reading.floor_assumed else "near-launch-floor"
    return Verdict("latency", (Note(code, values),))


@dataclass(frozen=True, slots=True)
class BookRule:
    """Saturated from 0.85, involved from 0.45, the other side out of the way below 0.20.

    *compute* or *memory* where that side is saturated and the other below ``other``; *balanced* where both are
    involved; else a saturated third pipe by its name; else *neither*, or undetermined where a side has no ratio. A
    third pipe that is saturated beside one of the first three is remarked on.
    """

    saturated: float = 0.85
    involved: float = 0.45
    other: float = 0.20
    name: str = "book"

    def thresholds(self) -> dict[str, float]:
        """The three thresholds by name."""
        return {"saturated": self.saturated, "involved": self.involved, "other": self.other}

    def judge(self, reading: Reading) -> Verdict:
        """The verdict on one reading."""
        near = _latency(reading)
        if near is not None:
            return near
        compute, memory = reading.compute, reading.memory
        third = _saturated_third(reading.third, self.saturated)
        beside = (Note("third-pipe-saturated", {"pipe": third}),) if third else ()
        if compute is not None and memory is not None:
            if compute >= self.saturated and memory < self.other:
                return Verdict("compute", beside)
            if memory >= self.saturated and compute < self.other:
                return Verdict("memory", beside)
            if min(compute, memory) >= self.involved:
                return Verdict("balanced", beside)
        if third:
            return Verdict(third)
        notes = self._saturated(reading)
        if compute is None or memory is None:
            return Verdict(UNDETERMINED, notes or _missing_sides(reading))
        return Verdict("neither", notes)

    def _saturated(self, reading: Reading) -> tuple[Note, ...]:
        """A remark for each side that is saturated although the verdict is not its own."""
        sides = (
            ("compute", reading.compute, "memory", reading.memory),
            ("memory", reading.memory, "compute", reading.compute),
        )
        return tuple(
            Note("side-saturated", {"side": name, "ratio": mine, "other": other, "other_ratio": its})
            for name, mine, other, its in sides
            if mine is not None and mine >= self.saturated
        )


@dataclass(frozen=True, slots=True)
class NsightRule:
    """The bottleneck rule of NVIDIA Nsight Compute's speed-of-light section, on percentages.

    Both below 60: *latency*, or *small-grid* where there is less than one wave; within 10 points: *balanced*; else the
    higher side. Above 80 the tool only speaks of high throughput; here the bound is still named.
    """

    latency_percent: float = 60.0
    high_percent: float = 80.0
    balance_points: float = 10.0
    name: str = "nsight"

    def thresholds(self) -> dict[str, float]:
        """The three thresholds by name, in percent."""
        return {
            "latency_percent": self.latency_percent,
            "high_percent": self.high_percent,
            "balance_points": self.balance_points,
        }

    def judge(self, reading: Reading) -> Verdict:
        """The verdict on one reading."""
        near = _latency(reading)
        if near is not None:
            return near
        if reading.compute is None or reading.memory is None:
            return Verdict(UNDETERMINED, _missing_sides(reading))
        compute, memory = 100 * reading.compute, 100 * reading.memory
        if max(compute, memory) < self.latency_percent:
            small = reading.waves is not None and reading.waves < 1
            return Verdict("small-grid" if small else "latency", (Note("below-latency-threshold"),))
        notes = (Note("high-throughput"),) if max(compute, memory) > self.high_percent else ()
        if abs(compute - memory) < self.balance_points:
            return Verdict("balanced", notes)
        return Verdict("compute" if compute > memory else "memory", notes)


def _missing_sides(reading: Reading) -> tuple[Note, ...]:
    """What is missing for a verdict, one remark for each side without a ratio: its rate is flawed, or absent."""
    sides = (("compute", reading.compute), ("memory", reading.memory))
    return tuple(
        Note(f"side-{reading.unusable.get(name, 'missing')}", {"side": name}) for name, value in sides if value is None
    )


def _saturated_third(third: Mapping[str, float], saturated: float) -> str:
    """The most used third pipe where it is saturated, or an empty string."""
    if not third:
        return ""
    name = max(third, key=lambda pipe: third[pipe])
    return name if third[name] >= saturated else ""


RULES: dict[str, Rule] = {"book": BookRule(), "nsight": NsightRule()}
"""The rules by the name that people choose them with."""


def rule_named(name: str | Rule) -> Rule:
    """The rule ``name``, or a rule object as it is; raises ``UnknownNameError``."""
    if not isinstance(name, str):
        if not callable(getattr(name, "judge", None)):
            raise UnknownNameError(f"a rule is one of {', '.join(RULES)} or has judge(reading), not {name!r:.60}")
        return name
    if name not in RULES:
        raise UnknownNameError(f"unknown rule {name!r}; choose one of {', '.join(RULES)}")
    return RULES[name]


def chosen_rule(
    name: str, saturated: float | None = None, involved: float | None = None, other: float | None = None
) -> Rule:
    """The rule ``name``, the book rule with the thresholds that are given; raises ``UnitError`` for bad ones."""
    rule = rule_named(name)
    if saturated is None and involved is None and other is None:
        return rule
    if not isinstance(rule, BookRule):
        raise UnitError(f"thresholds belong to the book rule, not to {name}")
    changed = BookRule(
        saturated=rule.saturated if saturated is None else saturated,
        involved=rule.involved if involved is None else involved,
        other=rule.other if other is None else other,
    )
    if not 0 < changed.other <= changed.involved <= changed.saturated <= 1:
        raise UnitError("thresholds must satisfy 0 < other <= involved <= saturated <= 1")
    return changed
