"""Printed figures recomputed from the shape: the arithmetic rate from the work, the byte rate under each convention.

The printed column is always kept; what is recomputed stands beside it as a fact, with the convention that
reproduces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fuseline.cost.operands import parse_operands
from fuseline.cost.shape_cost import ShapeCost
from fuseline.machine.dtypes import BITS
from fuseline.roofline.rows import COMPUTE, MEMORY, Row

TOLERANCE = 0.01
"""A recomputed figure reproduces a printed one within 1 % and the rounding of the printed digits."""

IMPLIED_ROWS = "inputs+scales, rows implied by the rate"
"""A convention of grouped products only: the rows of A taken from the printed rate and time, an inference."""


UNIFORM_CHOICE = "everything, experts hit evenly"
"""Of a mixture of experts: all of A, B, scales and D, of as many experts as tokens hit that choose evenly.

The conventions of every operation count the experts that any choice must read.
"""

MOE_STAGES = "both products"
"""Of a mixture of experts: operands and result of both products, without scales, a row for each token and expert.

Every local expert's weights once; the hidden row read, the intermediate one written and read, the bfloat16 result of
each choice written. Shared experts have their weights in the format of the tokens. DeepGEMM counts so in
tests/test_mega_moe.py (@057ca59).
"""

MOE_STAGES_ALONE = "both products, reduction not timed"
"""The same over the time without the final sum over a token's choices, at ``REDUCTION_BYTES_PER_S`` (same file)."""

REDUCTION_BYTES_PER_S = 6.5e12


@dataclass(frozen=True, slots=True)
class AuditLine:
    """The byte rate of a row under one convention, how it compares with the printed one, and the verdict with it."""

    convention: str
    bytes: float
    bytes_per_s: float
    over_printed: float | None
    reproduces: bool
    bound: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """The arithmetic rate recomputed from shape and latency, beside the printed one (``None`` where there is none)."""

    flop: float
    latency_s: float
    flop_per_s: float
    printed_flop_per_s: float | None
    reproduces: bool

    @property
    def over_printed(self) -> float | None:
        """Recomputed over printed, or ``None``."""
        return None if self.printed_flop_per_s is None else self.flop_per_s / self.printed_flop_per_s


def effective_latency_s(row: Row, cost: ShapeCost | None) -> tuple[float | None, bool]:
    """The row's time, and whether it had to be derived from its work and its printed arithmetic rate."""
    if row.latency_s is not None:
        return row.latency_s, False
    rate = row.achieved.get(row.compute_key)
    if rate is None or cost is None or not cost.work:
        return None, False
    return main_work(cost) / rate.value, True


def main_work(cost: ShapeCost) -> float:
    """The work of the operation's main pipe; zero for a copy."""
    return next((float(amount) for amount, _ in cost.work.values()), 0.0)


def calibrate(row: Row, cost: ShapeCost | None) -> Calibration | None:
    """Recomputes the arithmetic rate of ``row``; ``None`` without a shape or a stated latency."""
    if cost is None or row.latency_s is None or not cost.work:
        return None
    flop = main_work(cost)
    rate = flop / row.latency_s
    printed = row.achieved.get(row.compute_key)
    if printed is None:
        return Calibration(flop, row.latency_s, rate, None, False)
    return Calibration(flop, row.latency_s, rate, printed.value, _close(rate, printed.value, 1e12, row.latency_s))


def audit(
    row: Row, cost: ShapeCost | None, latency: float | None, bound_with: Callable[[float], str]
) -> tuple[AuditLine, ...]:
    """The byte rate of ``row`` under every convention, in its effective ``latency``; nothing without a time or shape.

    ``bound_with`` gives the verdict for a byte rate.
    """
    if cost is None or latency is None:
        return ()
    printed = row.achieved.get(MEMORY)
    lines = []
    for convention, count, time in _byte_counts(row, cost, latency):
        rate = count / time
        over = None if printed is None else rate / printed.value
        same = printed is not None and _close(rate, printed.value, 1e9, latency)
        lines.append(AuditLine(convention, count, rate, over, same, bound_with(rate)))
    return tuple(lines)


def _byte_counts(row: Row, cost: ShapeCost, latency: float) -> list[tuple[str, float, float]]:
    """Convention, bytes and the seconds that they are divided by.

    For grouped products also with the number of rows that the printed rate and time imply: the rows of a group vary,
    and a table may state their nominal number while its rates count the actual one. For a mixture of experts also both
    products apart.
    """
    counts = [(name, float(cost.bytes(name)), latency) for name in cost.conventions]
    rate = row.achieved.get(COMPUTE)
    if cost.operation == "grouped-gemm" and rate is not None and row.latency_s is not None:
        factor = rate.value * row.latency_s / main_work(cost)
        extra = [tensor for tensor in cost.tensors if tensor.name == "A"]
        added = (factor - 1) * sum(float(tensor.size_bytes(with_scales=True)) for tensor in extra)
        counts.append((IMPLIED_ROWS, float(cost.bytes("inputs+scales")) + added, latency))
    if cost.operation == "moe":
        counts += _moe_counts(cost, latency)
    return counts


def _moe_counts(cost: ShapeCost, latency: float) -> list[tuple[str, float, float]]:
    """Bytes and time of a mixture of experts under its own conventions: a uniform choice, and the products apart."""
    size = {name: float(value) for name, value in cost.sizes.items()}
    types = parse_operands(cost.dtype)
    tokens, hidden, intermediate = size["tokens"], size["hidden"], size["intermediate"]
    token, weight, result = (BITS[name] / 8 for name in (types.a, types.b, "bf16"))
    activations = tokens * (size["topk"] + size["shared"]) * (hidden * (token + result) + 2 * intermediate * token)
    weights = 3 * hidden * intermediate * (size["experts"] * weight + size["shared"] * token)
    reduction = tokens * hidden * result * (1 + size["topk"]) / REDUCTION_BYTES_PER_S
    usual = float(cost.bytes(cost.conventions[-1], expected=True))
    counts = [(UNIFORM_CHOICE, usual, latency), (MOE_STAGES, weights + activations, latency)]
    if latency > reduction:
        counts.append((MOE_STAGES_ALONE, weights + activations, latency - reduction))
    return counts


def _close(found: float, printed: float, printed_unit: float, latency_s: float) -> bool:
    """Whether ``found`` is ``printed`` within the tolerance, half a printed unit, and half a tenth of a microsecond."""
    allowed = TOLERANCE + 0.5 * printed_unit / printed + 0.05e-6 / latency_s
    return abs(found / printed - 1) <= allowed


@dataclass(frozen=True, slots=True)
class TableAudit:
    """How well the conventions explain the printed byte rates of a group of rows.

    ``reproduced`` counts rows by convention; ``explained_by`` lists the conventions that reproduce all of them, closest
    first; ``over_inputs`` is the range of printed bytes over A+B; ``changed`` names rows whose verdict differs with
    the output counted. A table that prints no byte rate has nothing to reproduce: ``printed`` is 0 then, and ``shaped``
    counts the rows that have a shape and a time. ``scales`` is the layout of the block scales, empty where there are
    none.
    """

    group: str
    rows: int
    reproduced: dict[str, int]
    explained_by: tuple[str, ...]
    over_inputs: tuple[float, ...]
    changed: tuple[str, ...]
    printed: int = 0
    scales: str = ""
    shaped: int = 0


def audit_group(group: str, entries: Iterable[tuple[str, str, tuple[AuditLine, ...]]], scales: str = "") -> TableAudit:
    """Summarises ``(row name, verdict as printed, audit lines)`` of a group of rows."""
    entries = list(entries)
    usable = [e for e in entries if e[2] and e[2][0].over_printed is not None]
    shaped = sum(1 for e in entries if e[2])
    if not usable:
        return TableAudit(group, len(entries), {}, (), (), (), shaped=shaped)
    counts: dict[str, int] = {}
    for _, _, lines in usable:
        for line in lines:
            counts[line.convention] = counts.get(line.convention, 0) + line.reproduces
    full = [name for name, count in counts.items() if count == len(usable)]
    ranges = [1 / line.over_printed for _, _, lines in usable for line in lines[:1] if line.over_printed]
    changed = tuple(name for name, bound, lines in usable if with_output(lines).bound != bound)
    return TableAudit(
        group,
        len(usable),
        counts,
        _closest(full, usable),
        (min(ranges), max(ranges)),
        changed,
        len(usable),
        scales if any(line.convention == "inputs+scales" for _, _, lines in usable for line in lines) else "",
        shaped,
    )


def with_output(lines: tuple[AuditLine, ...]) -> AuditLine:
    """The line of the fullest convention: scales where there are any, the result, and the experts that are usual."""
    return [line for line in lines if line.convention.endswith("+output") or line.convention == UNIFORM_CHOICE][-1]


def _closest(full: list[str], usable: list[tuple[str, str, tuple[AuditLine, ...]]]) -> tuple[str, ...]:
    """Conventions that reproduce every row, that with the smallest largest deviation first."""

    def worst(convention: str) -> float:
        lines = [line for _, _, group in usable for line in group if line.convention == convention]
        return max(abs((line.over_printed or 0) - 1) for line in lines)

    return tuple(sorted(full, key=worst))
