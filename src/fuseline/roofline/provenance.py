"""What may be divided by what: a ratio needs the same machine, number format and unit, and kinds of source that fit.

A rate measured on a machine over any peak of that machine is a ratio worth reading and is labelled with the kind of the
peak. Everything else is refused with the reason, or, where the caller insists, computed and marked as mixed.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """Why two numbers may not be divided, as a code for the catalogues and an English sentence for errors."""

    code: str
    sentence: str


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
    mine, its = achieved.source.machine, peak.source.machine
    if not mine:
        found.append(Objection("machine-unknown", f"the rate names no machine, the peak is that of {its or 'none'}"))
    elif mine != its:
        sentence = f"the rate was measured on {mine}, the peak is that of {its or 'none'}"
        found.append(Objection("other-machine", sentence))
    if achieved.dtype and peak.dtype and achieved.dtype != peak.dtype:
        found.append(Objection("other-dtype", f"the rate is for {achieved.dtype}, the peak for {peak.dtype}"))
    if achieved.sparse != peak.sparse:
        kinds = ("sparse", "dense") if achieved.sparse else ("dense", "sparse")
        found.append(Objection("sparsity", f"the rate is {kinds[0]}, the peak {kinds[1]}"))
    if peak.source.kind not in PEAK_KINDS:
        found.append(Objection("assumed-peak", "the peak is an assumption, not a figure of the machine"))
    if achieved.source.kind in (SourceKind.MODEL_CONSTANT, SourceKind.DATASHEET, SourceKind.ASSUMED):
        found.append(Objection("not-achieved", f"the numerator is a {achieved.source.kind} figure: nobody achieved it"))
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
    """The value of ``peak`` for predicting a time; a model constant, which nobody measured, is refused."""
    if peak.source.kind in (SourceKind.MODEL_CONSTANT, SourceKind.ASSUMED) and not allow_mixed:
        raise ProvenanceError(
            f"{peak} of {peak.source.machine or 'an unnamed machine'} is a {peak.source.kind}: it can be compared "
            "with, but a time cannot be predicted from it as if it had been measured"
        )
    return peak.value
