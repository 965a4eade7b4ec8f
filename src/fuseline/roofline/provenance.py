"""What may be divided by what: a ratio needs the same machine, number format and unit, and kinds of source that fit.

A rate measured on a machine over any peak of that machine is a ratio worth reading and is labelled with the kind of the
peak. Everything else is refused with the reason, or, where the caller insists, computed and marked as mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fuseline.errors import ProvenanceError, UnitError
from fuseline.units import Quantity, SourceKind

PEAK_KINDS = frozenset(
    {
        SourceKind.DATASHEET,
        SourceKind.ACHIEVABLE,
        SourceKind.EFFECTIVE,
        SourceKind.MEASURED,
        SourceKind.DERIVED,
        SourceKind.MODEL_CONSTANT,
    }
)
"""Kinds of denominator that a measured rate may be laid against; an assumption is none."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why two numbers may not be divided: a code with values for the catalogues, and the sentence for errors."""

    code: str
    sentence: str
    values: Mapping[str, str] = field(default_factory=dict)


TIME_FROM_CONSTANT = Objection(
    "time-from-constant", "the time is predicted from a figure that nobody measured or printed"
)
DENSE_OVER_SPARSE = Objection("dense-over-sparse", "the rate is dense, the peak counts skipped zeros")


@dataclass(frozen=True, slots=True)
class Ratio:
    """``value`` = achieved ÷ peak, the kind of the peak, and the objections that were overridden (mixed where any)."""

    value: float
    kind: str
    objections: tuple[Objection, ...] = ()

    @property
    def mixed(self) -> bool:
        """Whether the two numbers do not belong together."""
        return bool(self.objections)


def objections(achieved: Quantity, peak: Quantity) -> list[Objection]:
    """Every reason why ``achieved`` may not be divided by ``peak``; empty when it may."""
    found: list[Objection] = []
    mine, its = achieved.source.machine, peak.source.machine or "none"
    machines = {"mine": mine, "its": its}
    if not mine:
        sentence = f"the rate names no machine, the peak is that of {its}"
        found.append(Objection("machine-unknown", sentence, {"its": its}))
    elif mine != its:
        sentence = f"the rate was measured on {mine}, the peak is that of {its}"
        found.append(Objection("other-machine", sentence, machines))
    if achieved.dtype and peak.dtype and achieved.dtype != peak.dtype:
        sentence = f"the rate is for {achieved.dtype}, the peak for {peak.dtype}"
        found.append(Objection("other-dtype", sentence, {"mine": achieved.dtype, "its": peak.dtype}))
    if achieved.sparse != peak.sparse:
        if achieved.sparse:
            found.append(Objection("sparse-over-dense", "the rate counts skipped zeros, the peak is dense"))
        else:
            found.append(DENSE_OVER_SPARSE)
    if peak.source.kind not in PEAK_KINDS:
        found.append(Objection("assumed-peak", "the peak is an assumption, not a figure of the machine"))
    if achieved.source.kind in (SourceKind.MODEL_CONSTANT, SourceKind.DATASHEET, SourceKind.ASSUMED):
        kind = str(achieved.source.kind)
        sentence = f"the numerator is a {kind} figure: nobody achieved it"
        found.append(Objection("not-achieved", sentence, {"kind": kind}))
    return found


def divide(achieved: Quantity, peak: Quantity, allow_mixed: bool = False) -> Ratio:
    """``achieved ÷ peak``.

    Raises ``UnitError`` for different units and ``ProvenanceError`` with every reason where the two may not be divided;
    with ``allow_mixed`` the ratio comes back marked as mixed instead.
    """
    if achieved.unit != peak.unit:
        raise UnitError(f"cannot divide {achieved} by {peak}: {achieved.unit} over {peak.unit}")
    if peak.value <= 0:
        raise UnitError(f"a peak must be positive, not {peak.value!r} {peak.unit}")
    reasons = objections(achieved, peak)
    if reasons and not allow_mixed:
        raise ProvenanceError(
            f"{achieved} may not be divided by {peak}: {'; '.join(reason.sentence for reason in reasons)}"
        )
    return Ratio(achieved.value / peak.value, str(peak.source.kind), tuple(reasons))


def predictor(peak: Quantity, allow_mixed: bool = False) -> float:
    """The value of ``peak`` for predicting a time; one that is unfit for it is refused unless ``allow_mixed``."""
    if allow_mixed or not peak.unfit_for_time:
        return peak.value
    figure = f"{peak} of {peak.source.machine or 'an unnamed machine'}"
    if peak.sparse:
        raise ProvenanceError(f"{figure} is a sparse peak: it counts skipped zeros as work, and the shape is dense")
    kind = "an assumption" if peak.source.kind == SourceKind.ASSUMED else "a model constant"
    raise ProvenanceError(
        f"{figure} is {kind}: it can be compared with, but a time cannot be predicted from it as if it had been "
        "measured"
    )
