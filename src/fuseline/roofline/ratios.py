"""Rates of a row over the peaks of a machine: which pipe or memory a rate belongs to, its peak, and whether it may.

What does not depend on the rate's value (the peak, its kind, the objections) is looked up once for each machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fuseline.errors import FuselineError
from fuseline.machine.device import Device, Memory, Pipe
from fuseline.roofline.provenance import Objection, Ratio, divide, objections
from fuseline.roofline.rows import COMPUTE, MEMORY, Row
from fuseline.roofline.rules import Note
from fuseline.units import Quantity

NO_MACHINE = Objection("no-device", "the row names no device")
GIVEN_TWICE = Objection("given-twice", "the rate of this pipe is given twice")
UNKNOWN_MACHINE = Objection("no-machine", "the source names no known machine")


@dataclass(frozen=True, slots=True)
class PipeRatio:
    """One rate of a row against the machine: ``side`` is ``compute``, ``memory`` or ``third``.

    ``ratio`` is ``None`` where it may not be formed; ``objections`` then say why. ``derived`` marks a rate that was
    recomputed from shape and time because the source prints none.
    """

    pipe: str
    side: str
    achieved: Quantity
    peak: Quantity | None
    ratio: Ratio | None
    objections: tuple[Objection, ...] = ()
    derived: bool = False

    @property
    def refused(self) -> str:
        """Why there is no ratio, in one sentence; empty where there is one."""
        return "" if self.ratio is not None else "; ".join(reason.sentence for reason in self.objections)


@dataclass(frozen=True, slots=True)
class _Denominator:
    """What every rate of one kind is laid against: the pipe, the side, the peak, and the reasons against it."""

    pipe: str
    side: str
    peak: Quantity | None
    objections: tuple[Objection, ...]
    refused: bool

    def ratio(self, rate: Quantity, derived: bool) -> PipeRatio:
        """``rate`` over this denominator."""
        ratio = None
        if self.peak is not None and not self.refused:
            ratio = Ratio(rate.value / self.peak.value, str(self.peak.source.kind), self.objections)
        return PipeRatio(self.pipe, self.side, rate, self.peak, ratio, self.objections, derived)


@dataclass(slots=True)
class Denominators:
    """The peaks of one machine (``None`` where a row names none that is known) for rates of any row.

    ``peak_kind`` is the kind of peak asked for, ``allow_mixed`` lets ratios be formed that do not belong together.
    """

    device: Device | None
    peak_kind: str | None = None
    allow_mixed: bool = False
    _found: dict[tuple[object, ...], _Denominator] = field(default_factory=dict)
    _missing: dict[tuple[str, ...], list[Note]] = field(default_factory=dict)

    def ratios(self, achieved: Mapping[str, Quantity], row: Row, derived: frozenset[str]) -> tuple[PipeRatio, ...]:
        """Every rate over its peak; of two names of one pipe (``memory`` and ``hbm``) the second gets no ratio.

        ``derived`` holds the sides whose rates were recomputed.
        """
        found: dict[str, PipeRatio] = {}
        twice: list[PipeRatio] = []
        for key, rate in achieved.items():
            one = self.ratio(key, rate, row, (COMPUTE if key == row.compute_key else key) in derived)
            if found.setdefault(one.pipe, one) is not one:
                twice.append(PipeRatio(one.pipe, "third", rate, one.peak, None, (GIVEN_TWICE,)))
        return (*found.values(), *twice)

    def ratio(self, key: str, rate: Quantity, row: Row, derived: bool) -> PipeRatio:
        """``rate``, which ``row`` calls ``key``, over its peak, or why there is no ratio."""
        alone = COMPUTE not in row.achieved and "matrix" not in row.achieved
        source = rate.source
        kind = (key, rate.unit, rate.dtype, rate.sparse, source.kind, source.machine, row.dtype, alone, not row.device)
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = self._find(key, rate, row, alone)
        return found.ratio(rate, derived)

    def _find(self, key: str, rate: Quantity, row: Row, alone: bool) -> _Denominator:
        name, side = _locate(key, row.dtype, self.device, alone)
        if self.device is None:
            reason = UNKNOWN_MACHINE if row.device else NO_MACHINE
            return _Denominator(name, side, None, (reason,), refused=True)
        try:
            peak = _peak(name, rate, row.dtype, self.device, self.peak_kind)
        except FuselineError as error:
            missing = Objection("no-peak", str(error), {"detail": str(error)})
            return _Denominator(name, side, None, (missing,), refused=True)
        reasons = tuple(objections(rate, peak))
        if reasons and not self.allow_mixed:
            return _Denominator(name, side, peak, reasons, refused=True)
        divide(rate, peak, self.allow_mixed)  # units that do not fit are an error, not a ratio
        return _Denominator(name, side, peak, reasons, refused=False)

    def missing_pipes(self, pipes: tuple[PipeRatio, ...]) -> list[Note]:
        """For *neither*: which of the machine's pipes have no figure here, and what the profiler calls them."""
        if self.device is None:
            return []
        given = tuple(pipe.pipe for pipe in pipes if pipe.ratio is not None)
        if given not in self._missing:
            parts: tuple[Pipe | Memory, ...] = (*self.device.pipes, *self.device.memories)
            absent = {part.name: part.profiler_names for part in parts if part.name not in given}
            names = ", ".join(f"{name} ({' + '.join(known)})" if known else name for name, known in absent.items())
            self._missing[given] = [Note("missing-pipes", {"pipes": names})] if absent else []
        return self._missing[given]


def _locate(key: str, dtype: str, device: Device | None, alone: bool) -> tuple[str, str]:
    """The name of the pipe or memory that a rate belongs to, and its side.

    ``alone`` says that no other rate of the row is one of arithmetic on the main pipe.
    """
    if key == COMPUTE:
        return compute_pipe(device, dtype), COMPUTE
    main = device.memories[0].name if device and device.memories else "memory"
    if key in (MEMORY, "main", main):
        return main, MEMORY
    return key, COMPUTE if key == "matrix" or (key == "vector" and alone) else "third"


def compute_pipe(device: Device | None, dtype: str) -> str:
    """The pipe that does arithmetic in ``dtype``: the matrix pipe, or the vector pipe where only that has a figure."""
    if device is None:
        return "matrix"
    matrix, vector = device.find_pipe("matrix"), device.find_pipe("vector")
    if (matrix is None or matrix.find(dtype) is None) and vector is not None and vector.find(dtype) is not None:
        return "vector"
    return "matrix"


def _peak(name: str, rate: Quantity, dtype: str, device: Device, kind: str | None) -> Quantity:
    """The peak that ``rate`` of a row in ``dtype`` is laid against.

    Where the machine lacks the kind asked for it is the preferred figure, and the row gets a remark that says so.
    """
    if rate.unit == "B/s":
        memory = device.find_memory(name)
        if memory is not None:
            return memory.find_bandwidth(kind) or memory.bandwidth
        link = next((link for link in device.links if link.name == name or name == "link"), None)
        if link is not None and link.bandwidth_per_direction is not None:
            return link.bandwidth_per_direction
        pipe = device.pipe(name)
        return pipe.find("", kind=kind) or pipe.peak()
    pipe = device.pipe(name)
    # on a further pipe the arithmetic beside a matrix product is in float32
    wanted = rate.dtype or (dtype if name == "matrix" else "f32")
    return pipe.find(wanted, kind=kind) or pipe.peak(wanted)
