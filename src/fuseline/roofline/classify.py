"""From a row of measured rates to a verdict: ratios over the machine's peaks, the rule, the audit, and what differs.

Nothing here formats text: remarks are ``Note`` codes, refusals keep their reasons, and every ratio knows both numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuseline.cost.shape_cost import DEFAULT_CONVENTION, ShapeCost
from fuseline.machine.device import Device
from fuseline.machine.dtypes import rate_unit
from fuseline.roofline.audit import (
    IMPLIED_ROWS,
    UNIFORM_CHOICE,
    AuditLine,
    Calibration,
    audit,
    calibrate,
    effective_latency_s,
    main_work,
    with_output,
)
from fuseline.roofline.ratios import Denominators, PipeRatio
from fuseline.roofline.rows import COMPUTE, MEMORY, Row
from fuseline.roofline.rules import IMPOSSIBLE_RATIO, UNDETERMINED, BookRule, Note, Reading, Rule, Verdict
from fuseline.roofline.scales import with_scales
from fuseline.units import Quantity, Source, SourceKind


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row with its ratios, verdict, audit and remarks."""

    row: Row
    device: Device | None
    pipes: tuple[PipeRatio, ...]
    verdict: Verdict
    rule: Rule
    audit: tuple[AuditLine, ...] = ()
    calibration: Calibration | None = None
    notes: tuple[Note, ...] = ()

    @property
    def bound(self) -> str:
        """The verdict's bound."""
        return self.verdict.bound

    def ratio(self, side: str) -> float | None:
        """The ratio of the compute or memory side, or ``None``."""
        return next((p.ratio.value for p in self.pipes if p.side == side and p.ratio is not None), None)

    def agrees(self) -> bool | None:
        """Whether the source states the same bound; ``None`` where it states none or the verdict is undetermined."""
        return None if not self.row.says or self.bound == UNDETERMINED else self.row.says == self.bound

    @property
    def unread(self) -> str:
        """Why a rate of the row could not be laid against the machine at all, or an empty string.

        A figure that the machine lacks, or a row without one ratio.
        """
        absent = [p.refused for p in self.pipes if any(o.code in ("no-peak", "given-twice") for o in p.objections)]
        if self.pipes and all(p.ratio is None for p in self.pipes):
            absent = [p.refused for p in self.pipes if p.refused]
        return "; ".join(dict.fromkeys(absent))

    def to_dict(self, note_text: Callable[[Note], str] | None = None) -> dict[str, Any]:
        """The row for JSON: rates and peaks by pipe in SI base units, ratios, bound, source, audit and remarks."""
        return {
            "name": self.row.name,
            "device": self.device.name if self.device else (self.row.device or None),
            "dtype": self.row.dtype,
            "operation": self.row.operation or None,
            "sizes": dict(self.row.sizes),
            "latency_s": self.row.latency_s,
            "achieved": {p.pipe: p.achieved.value for p in self.pipes},
            "peak": {p.pipe: None if p.peak is None else p.peak.value for p in self.pipes},
            "units": {p.pipe: p.achieved.unit for p in self.pipes},
            "peak_source": {p.pipe: p.peak.source.to_dict() for p in self.pipes if p.peak is not None},
            "ratios": {p.pipe: p.ratio.value for p in self.pipes if p.ratio is not None},
            "mixed": [p.pipe for p in self.pipes if p.ratio is not None and p.ratio.mixed],
            "refused": {p.pipe: p.refused for p in self.pipes if p.refused},
            "source": self.row.source,
            "bound": None if self.bound == UNDETERMINED else self.bound,
            "rule": self.rule.name,
            "thresholds": self.rule.thresholds(),
            "source_says": self.row.says or None,
            "source_says_text": self.row.says_text or None,
            "audit": [_audit_dict(line) for line in self.audit],
            "calibration": None if self.calibration is None else _calibration_dict(self.calibration),
            "notes": [note.to_dict(note_text) for note in self.notes],
        }


def _audit_dict(line: AuditLine) -> dict[str, Any]:
    return {
        "convention": line.convention,
        "bytes": line.bytes,
        "bytes_per_s": line.bytes_per_s,
        "reproduces_printed": line.reproduces,
        "bound": None if line.bound == UNDETERMINED else line.bound,
    }


def _calibration_dict(found: Calibration) -> dict[str, Any]:
    return {
        "flop": found.flop,
        "latency_s": found.latency_s,
        "flop_per_s": found.flop_per_s,
        "printed_flop_per_s": found.printed_flop_per_s,
        "reproduces_printed": found.reproduces,
    }


@dataclass(frozen=True, slots=True)
class Options:
    """How rows are classified: the rule, the kind of peak asked for, and whether mixed ratios are shown."""

    rule: Rule = field(default_factory=BookRule)
    peak_kind: str | None = None
    allow_mixed: bool = False


def classify_row(
    row: Row,
    device: Device | None,
    measured_on: str | None = None,
    options: Options | None = None,
    denominators: Denominators | None = None,
) -> RowResult:
    """The verdict on ``row`` against ``device`` (``None`` where the row names none that is known).

    ``measured_on`` is the canonical name of the machine that the rates were measured on; it is ``device``'s where it is
    not given. Rates that may not be divided are kept with the reason, and the verdict is made from the rest.
    ``denominators`` are the machine's under the same options, kept from row to row.
    """
    options = options or Options()
    owner = measured_on if measured_on is not None else (device.name if device else "")
    row = with_scales(_owned(row, owner), device)
    cost = row.cost()
    latency, derived_latency = effective_latency_s(row, cost)
    achieved, derived = _with_derived(row, owner, cost, latency)
    against = denominators or Denominators(device, options.peak_kind, options.allow_mixed)
    pipes = against.ratios(achieved, row, derived)
    usable = None if _impossible(pipes) else latency
    at_home = device is not None and owner == device.name  # a launch floor says nothing about another machine
    reading = _reading(pipes, row, device if at_home else None, cost, usable)
    verdict = options.rule.judge(reading)
    memory_side = next((p for p in pipes if p.side == MEMORY and p.ratio is not None), None)

    def bound_with(bytes_per_s: float) -> str:
        if memory_side is None or memory_side.ratio is None:
            return verdict.bound if reading.memory is None else options.rule.judge(reading.with_memory(None)).bound
        ratio = memory_side.ratio.value * (bytes_per_s / memory_side.achieved.value)
        possible = _possible(ratio)
        judged = reading.with_memory(possible) if possible is not None else replace(reading, memory=None, time_s=None)
        return options.rule.judge(judged).bound

    lines = audit(row, cost, latency, bound_with)
    calibration = calibrate(row, cost)
    result = RowResult(row, device, pipes, verdict, options.rule, lines, calibration)
    notes = _notes(result, derived, derived_latency, against)
    return RowResult(row, device, pipes, verdict, options.rule, lines, calibration, notes)


def _owned(row: Row, owner: str) -> Row:
    """``row`` with its rates attributed to the machine they were measured on."""
    if all(rate.source.machine == owner for rate in row.achieved.values()):
        return row
    achieved = {key: replace(rate, source=replace(rate.source, machine=owner)) for key, rate in row.achieved.items()}
    return replace(row, achieved=achieved)


def _with_derived(
    row: Row, owner: str, cost: ShapeCost | None, latency: float | None
) -> tuple[Mapping[str, Quantity], frozenset[str]]:
    """The row's rates, and those of the two sides that its shape and time give where the source prints none."""
    key = row.compute_key
    wants_compute = cost is not None and bool(cost.work) and key not in row.achieved and "matrix" not in row.achieved
    if cost is None or latency is None or not (wants_compute or MEMORY not in row.achieved):
        return row.achieved, frozenset()
    achieved = dict(row.achieved)
    added: set[str] = set()
    source = Source(SourceKind.DERIVED, "recomputed from shape and time", owner)
    if wants_compute:
        dtype = row.compute_dtype
        achieved[key] = Quantity(main_work(cost) / latency, rate_unit(dtype), source, dtype)
        added.add(COMPUTE)
    if MEMORY not in achieved:
        achieved[MEMORY] = Quantity(float(cost.bytes(DEFAULT_CONVENTION)) / latency, "B/s", source)
        added.add(MEMORY)
    return achieved, frozenset(added)


def _possible(ratio: float) -> float | None:
    """``ratio``, or ``None`` where it is impossible: no verdict may rest on an error of units or counts."""
    return ratio if ratio <= IMPOSSIBLE_RATIO else None


def _impossible(pipes: tuple[PipeRatio, ...]) -> bool:
    """Whether a main side's ratio is impossible; then the time that goes with it, given or derived, decides nothing."""
    return any(p.side in (COMPUTE, MEMORY) and p.ratio is not None and p.ratio.value > IMPOSSIBLE_RATIO for p in pipes)


def _reading(
    pipes: tuple[PipeRatio, ...], row: Row, device: Device | None, cost: ShapeCost | None, latency: float | None
) -> Reading:
    """What the rule is given: only ratios that are possible; a shape without work uses none of the compute peak."""
    sides: dict[str, float] = {}
    third: dict[str, float] = {}
    unusable: dict[str, str] = {}
    for pipe in pipes:
        if pipe.ratio is None or _possible(pipe.ratio.value) is None:
            unusable[pipe.side] = "refused" if pipe.ratio is None else "impossible"
            continue
        if pipe.side == "third":
            third[pipe.pipe] = pipe.ratio.value
        else:
            sides[pipe.side] = max(pipe.ratio.value, sides.get(pipe.side, 0.0))
    if cost is not None and not cost.work:
        sides.setdefault(COMPUTE, 0.0)
    floor = device.launch_latency if device else None
    return Reading(
        sides.get(COMPUTE),
        sides.get(MEMORY),
        third,
        latency,
        None if floor is None else floor.value,
        row.waves,
        floor is not None and floor.source.kind == SourceKind.ASSUMED,
        unusable,
    )


def _notes(
    result: RowResult, derived: frozenset[str], derived_latency: bool, against: Denominators
) -> tuple[Note, ...]:
    """Every remark that the row deserves, most important first."""
    row = result.row
    notes = [
        Note("impossible-ratio", {"pipe": p.pipe, "ratio": p.ratio.value})
        for p in result.pipes
        if p.ratio is not None and p.ratio.value > IMPOSSIBLE_RATIO
    ]
    notes += _refusals(result)
    notes += _other_kinds(result.pipes, against.peak_kind)
    notes += result.verdict.notes
    if result.bound == "neither":
        notes += against.missing_pipes(result.pipes)
    if result.agrees() is False:
        notes.append(Note("source-differs", {"says": row.says, "text": row.says_text, "bound": result.bound}))
    notes += _recomputed(result, derived, derived_latency)
    return tuple(notes) + row.notes


def _other_kinds(pipes: tuple[PipeRatio, ...], wanted: str | None) -> list[Note]:
    """One remark for each kind of peak that stands in for the one asked for, which the machine lacks."""
    if wanted is None:
        return []
    kinds: dict[str, list[str]] = {}
    for pipe in pipes:
        if pipe.peak is not None and pipe.peak.source.kind != wanted:
            kinds.setdefault(str(pipe.peak.source.kind), []).append(pipe.pipe)
    return [
        Note("kind-absent", {"pipes": ", ".join(dict.fromkeys(names)), "wanted": wanted, "kind": kind})
        for kind, names in kinds.items()
    ]


def _refusals(result: RowResult) -> list[Note]:
    """One remark for the rates that were refused for the same reasons, one for those shown although mixed."""
    groups: dict[tuple[str, str], list[PipeRatio]] = {}
    for pipe in result.pipes:
        if pipe.objections:
            reasons = "; ".join(reason.sentence for reason in pipe.objections)
            groups.setdefault(("mixed" if pipe.ratio else "refused", reasons), []).append(pipe)
    return [
        Note(code, {"pipes": ", ".join(dict.fromkeys(p.pipe for p in pipes)), "objections": pipes[0].objections})
        for (code, _), pipes in groups.items()
    ]


def _uncertain(lines: tuple[AuditLine, ...]) -> bool:
    """Whether the byte rate rests on the least that must be moved, and the usual amount would leave a verdict."""
    return any(line.convention == UNIFORM_CHOICE and line.bound != UNDETERMINED for line in lines)


def _recomputed(result: RowResult, derived: frozenset[str], derived_latency: bool) -> list[Note]:
    """Remarks from calibration and audit, and about figures that had to be derived."""
    notes: list[Note] = []
    if derived_latency:
        notes.append(Note("derived-latency"))
    for side in sorted(derived):
        notes.append(Note(f"derived-{side}", {"convention": DEFAULT_CONVENTION}))
    found = result.calibration
    if found is not None and found.printed_flop_per_s is not None and not found.reproduces:
        rates = {"recomputed": found.flop_per_s, "printed": found.printed_flop_per_s, "over": found.over_printed}
        notes.append(Note("rate-not-reproduced", rates))
    printed = [line for line in result.audit if line.over_printed is not None]
    if printed and not any(line.reproduces for line in printed):
        notes.append(Note("bytes-not-reproduced"))
    elif printed and all(line.convention == IMPLIED_ROWS for line in printed if line.reproduces):
        notes.append(Note("bytes-by-implied-rows", {"over": 1 / (printed[0].over_printed or 1)}))
    elif (printed or _uncertain(result.audit)) and (last := with_output(result.audit)).bound != result.bound:
        about = {"bytes_per_s": last.bytes_per_s, "convention": last.convention, "bound": last.bound}
        notes.append(Note("bound-changes-with-output", about))
    return notes
