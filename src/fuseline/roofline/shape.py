"""A shape alone: what bounds it on a machine at best, before anybody has measured it.

Work over peak and bytes over bandwidth are laid side by side; the longer is the bound and its time a lower limit, not a
prediction. All sizes may be arrays: a million shapes are one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fuseline.cost.shape_cost import DEFAULT_CONVENTION, ShapeCost
from fuseline.errors import FuselineError, ShapeError, UnknownNameError
from fuseline.machine.device import Device, Pipe
from fuseline.machine.dtypes import INTEGERS
from fuseline.roofline.provenance import DENSE_OVER_SPARSE, TIME_FROM_CONSTANT, predictor
from fuseline.roofline.ratios import compute_pipe
from fuseline.roofline.rules import UNDETERMINED, Note, launches_dominate
from fuseline.units import Quantity, SourceKind

RIDGE_MARGIN = 0.10
"""Within this fraction of the ridge point both sides have to be optimised."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PipeTime:
    """The work of a shape on one pipe, the peak that the ridge uses, the peak of the time limit, and that time."""

    pipe: str
    dtype: str
    work: Any
    peak: Quantity
    limit: Quantity
    time_s: Floats


@dataclass(frozen=True, slots=True)
class Expected:
    """Where the data decide how much is moved: the bytes expected, not sure, with their time limit and bounds."""

    bytes: Floats
    time_s: Floats
    bounds: npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class ShapeAnalysis:
    """A shape (or array of shapes) against a machine.

    ``intensity``, ``bound_time_s``, ``near_ridge`` and ``bounds`` count operands and result; ``intensity_inputs`` and
    ``bounds_inputs`` count operands only. Arrays have the shape of the sizes; scalars are 0-d arrays.
    """

    cost: ShapeCost
    device: Device
    memory: str
    bandwidth: Quantity
    bandwidth_limit: Quantity
    pipes: tuple[PipeTime, ...]
    intensity: Floats
    intensity_inputs: Floats
    ridge: float | None
    bounds: npt.NDArray[np.str_]
    bounds_inputs: npt.NDArray[np.str_]
    memory_time_s: Floats
    bound_time_s: Floats
    near_ridge: npt.NDArray[np.bool_]
    launch_dominated: npt.NDArray[np.bool_]
    notes: tuple[Note, ...]
    expected: Expected | None = None

    @property
    def bound(self) -> str:
        """The bound of a single shape; raises ``ShapeError`` for arrays."""
        if self.bounds.size != 1:
            raise ShapeError("several shapes have several bounds: use bounds")
        return str(self.bounds.reshape(-1)[0])


def analyse(cost: ShapeCost, device: Device, peak_kind: str | None = None, allow_mixed: bool = False) -> ShapeAnalysis:
    """Lays ``cost`` against ``device``.

    The ridge point uses the preferred peaks (or those of ``peak_kind``), the time limit the datasheet's, since a limit
    must not be beaten. Raises where the machine has no figure that the shape needs.
    """
    notes: list[Note] = []
    memory = device.main_memory
    bandwidth = memory.find_bandwidth(peak_kind) or memory.bandwidth
    bandwidth_limit = memory.find_bandwidth(SourceKind.DATASHEET) or bandwidth
    pipes = tuple(_pipe_times(cost, device, peak_kind, allow_mixed, notes))
    inputs, full = _array(cost.bytes("inputs")), _array(cost.bytes(DEFAULT_CONVENTION))
    memory_time = full / predictor(bandwidth_limit, allow_mixed)
    main = pipes[0] if pipes else None
    ridge = main.peak.value / bandwidth.value if main else None
    work = _array(next((amount for amount, _ in cost.work.values()), 0))
    intensity = work / np.maximum(full, 1)
    if peak_kind:
        notes += _other_kinds([(memory.name, bandwidth), *((p.pipe, p.peak) for p in pipes)], peak_kind)
    limits = [(memory.name, bandwidth_limit), *((pipe.pipe, pipe.limit) for pipe in pipes)]
    if constants := [name for name, limit in limits if {*limit.unfit_for_time} - {"sparse"}]:
        notes.append(Note("mixed", {"pipes": ", ".join(constants), "objections": (TIME_FROM_CONSTANT,)}))
    unknown = bool(cost.work) and main is None
    near = np.abs(intensity / ridge - 1) <= RIDGE_MARGIN if ridge else np.zeros(full.shape, bool)
    time = _longest(pipes, memory_time)
    expected = None
    if cost.depends_on_data:
        usual = _array(cost.bytes(DEFAULT_CONVENTION, expected=True))
        usual_time = _longest(pipes, usual / predictor(bandwidth_limit, allow_mixed))
        expected = Expected(usual, usual_time, _bounds(pipes, usual / bandwidth.value, unknown))
    dominated = launches_dominate(time, device.launch_latency.value) & (not unknown)
    return ShapeAnalysis(
        cost=cost,
        device=device,
        memory=memory.name,
        bandwidth=bandwidth,
        bandwidth_limit=bandwidth_limit,
        pipes=pipes,
        intensity=intensity,
        intensity_inputs=work / np.maximum(inputs, 1),
        ridge=ridge,
        bounds=_bounds(pipes, full / bandwidth.value, unknown),
        bounds_inputs=_bounds(pipes, inputs / bandwidth.value, unknown),
        memory_time_s=memory_time,
        bound_time_s=time,
        near_ridge=near,
        launch_dominated=dominated,
        notes=tuple(notes + _remarks(near, dominated, bandwidth, bandwidth_limit, device)),
        expected=expected,
    )


def _longest(pipes: tuple[PipeTime, ...], memory_s: Floats) -> Floats:
    """The time of whichever side takes longest."""
    return np.maximum(memory_s, np.max([p.time_s for p in pipes], axis=0)) if pipes else memory_s


def _array(value: Any) -> Floats:
    return np.asarray(value, dtype=np.float64)


def _pipe_times(
    cost: ShapeCost, device: Device, kind: str | None, allow_mixed: bool, notes: list[Note]
) -> list[PipeTime]:
    """The pipes that the work runs on, the operation's main one first.

    Unknown side pipes become remarks, and so does a vector pipe without a figure for the format; a product needs the
    peak that it runs at.
    """
    found: list[PipeTime] = []
    for name, (work, dtype) in cost.work.items():
        try:
            pipe, peak, used = _pipe_for(name, dtype, device, kind, notes)
        except FuselineError as error:
            if found:
                notes.append(Note("side-pipe-unknown", {"pipe": name, "reason": str(error)}))
                continue
            if name == "vector" and isinstance(error, UnknownNameError) and device.find_pipe(name) is not None:
                notes.append(Note("compute-unknown", {"pipe": name, "dtype": dtype, "device": device.name}))
                break
            raise
        if peak.sparse:
            predictor(peak, allow_mixed)
            notes.append(Note("mixed", {"pipes": pipe.name, "objections": (DENSE_OVER_SPARSE,)}))
        limit = pipe.find(used, kind=SourceKind.DATASHEET) or peak
        time = _array(work) / predictor(limit, allow_mixed)
        found.append(PipeTime(pipe.name, used, work, peak, limit, time))
    return found


def _pipe_for(name: str, dtype: str, device: Device, kind: str | None, notes: list[Note]) -> tuple[Pipe, Quantity, str]:
    """The pipe for work that belongs on ``name``; what the matrix pipe does not do may be done on the vector pipe."""
    pipe = device.find_pipe(name)
    used = dtype
    if pipe is None and name == "matrix":
        pipe = device.pipe("vector")
        used = dtype if pipe.find(dtype) is not None or dtype in INTEGERS else "f32"
        notes.append(Note("no-matrix-pipe", {"device": device.name, "dtype": used}))
    if pipe is None:
        pipe = device.pipe(name)
    if name == "matrix" and pipe.name == name and compute_pipe(device, dtype) != name:
        pipe = device.pipe(compute_pipe(device, dtype))
        notes.append(Note("not-on-matrix-pipe", {"device": device.name, "dtype": dtype, "pipe": pipe.name}))
    return pipe, pipe.find(used, kind=kind) or pipe.peak(used), used


def _bounds(pipes: tuple[PipeTime, ...], memory_s: Floats, unknown: bool) -> npt.NDArray[np.str_]:
    """*memory*, *compute* for the operation's main pipe, or the name of another pipe: whichever takes longest.

    Undetermined where the time of the arithmetic is ``unknown``.
    """
    if unknown:
        return np.full(memory_s.shape, UNDETERMINED)
    names = ["memory"] + ["compute" if index == 0 else pipe.pipe for index, pipe in enumerate(pipes)]
    times = [memory_s] + [_array(pipe.work) / pipe.peak.value for pipe in pipes]
    longest = times[0]
    index: npt.NDArray[np.intp] = np.zeros(longest.shape, np.intp)
    for position, time in enumerate(times[1:], start=1):
        later = time > longest
        index = np.where(later, position, index)
        longest = np.where(later, time, longest)
    return np.take(np.asarray(names), index)


def _remarks(
    near: npt.NDArray[np.bool_], dominated: npt.NDArray[np.bool_], bandwidth: Quantity, limit: Quantity, device: Device
) -> list[Note]:
    notes: list[Note] = []
    if near.size == 1 and near.all():
        notes.append(Note("near-ridge", {"margin": RIDGE_MARGIN}))
    if dominated.size == 1 and dominated.all():
        floor = device.launch_latency
        code = "launch-dominated-assumed" if floor.source.kind == SourceKind.ASSUMED else "launch-dominated"
        notes.append(Note(code, {"floor_s": floor.value}))
    if limit.value != bandwidth.value:
        values = {"used": bandwidth.value, "kind": str(bandwidth.source.kind), "limit": limit.value}
        notes.append(Note("limit-uses-datasheet", values))
    return notes


def _other_kinds(figures: list[tuple[str, Quantity]], wanted: str) -> list[Note]:
    """Remarks about figures of another kind than the one asked for, which the machine lacks."""
    return [
        Note("kind-absent", {"pipes": name, "wanted": wanted, "kind": str(peak.source.kind)})
        for name, peak in figures
        if peak.source.kind != wanted
    ]
