"""What `classify` answers with: tables of rows, shapes, and the rows that could not be read; as data and for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuseline.api.shown import Shown
from fuseline.errors import UsageError
from fuseline.roofline.classify import RowResult
from fuseline.roofline.efficiency import Estimate
from fuseline.roofline.row_files import RowError
from fuseline.roofline.rules import UNDETERMINED, Note, Rule
from fuseline.roofline.shape import Expected, ShapeAnalysis
from fuseline.roofline.tables import TableResult


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """A shape without measurements: the analysis and, where kernels like it were measured, an estimate."""

    name: str
    analysis: ShapeAnalysis
    estimate: Estimate | None

    def to_dict(self, note_text: Callable[[Note], str] | None = None) -> dict[str, Any]:
        """The shape as a row for JSON: no rates were achieved, so ``achieved`` and ``ratios`` are empty."""
        found = self.analysis
        cost = found.cost
        shape = {
            "flop": _plain(cost.flop),
            "bytes": {name: _plain(cost.bytes(name)) for name in cost.conventions},
            "arithmetic_intensity_flop_per_byte": _plain(found.intensity),
            "arithmetic_intensity_inputs_flop_per_byte": _plain(found.intensity_inputs),
            "ridge_point_flop_per_byte": found.ridge,
            "near_ridge": _plain(found.near_ridge),
            "launch_dominated": _plain(found.launch_dominated),
            "bound_inputs": _bound(found.bounds_inputs),
            "bound_time_s": _plain(found.bound_time_s),
            "memory_time_s": _plain(found.memory_time_s),
            "pipe_time_s": {pipe.pipe: _plain(pipe.time_s) for pipe in found.pipes},
            "expected": None if found.expected is None else _expected_dict(found.expected),
            "estimate": None if self.estimate is None else _estimate_dict(self.estimate),
        }
        peaks = {pipe.pipe: pipe.peak for pipe in found.pipes} | {found.memory: found.bandwidth}
        return {
            "name": self.name,
            "device": found.device.name,
            "dtype": cost.dtype,
            "operation": cost.operation,
            "sizes": {name: _plain(value) for name, value in cost.sizes.items()},
            "latency_s": None,
            "achieved": {},
            "peak": {name: peak.value for name, peak in peaks.items()},
            "units": {name: peak.unit for name, peak in peaks.items()},
            "peak_source": {name: peak.source.to_dict() for name, peak in peaks.items()},
            "ratios": {},
            "source": "shape alone",
            "bound": _bound(found.bounds),
            "rule": "roofline",
            "source_says": None,
            "audit": [],
            "shape": shape,
            "notes": [note.to_dict(note_text) for note in found.notes],
        }


def _plain(value: Any) -> Any:
    """Arrays as lists, NumPy scalars as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _bound(bounds: Any) -> Any:
    """Bounds for JSON: ``None`` where there is no verdict."""
    return None if bounds.size and np.all(bounds == UNDETERMINED) else bounds.tolist()


def _expected_dict(found: Expected) -> dict[str, Any]:
    return {
        "bytes": _plain(found.bytes),
        "bound_time_s": _plain(found.time_s),
        "bound": _bound(found.bounds),
    }


def _estimate_dict(found: Estimate) -> dict[str, Any]:
    return {
        "time_s": found.time_s,
        "shortest_s": found.shortest_s,
        "longest_s": found.longest_s,
        "efficiency": found.efficiency,
        "samples": found.samples,
        "basis": found.basis,
        "rests_on": found.rests_on.value,
        "comparable": found.comparable,
    }


@dataclass(frozen=True, slots=True, repr=False)
class Classification(Shown):
    """What ``classify`` found: tables of rows, shapes, and the rows of a file that could not be read. Printed, it is
    the report; a notebook shows it as tables.

    ``overview`` marks the answer to a call that names no kernel.
    """

    rule: Rule
    tables: tuple[TableResult, ...] = ()
    shapes: tuple[ShapeResult, ...] = ()
    errors: tuple[RowError, ...] = ()
    overview: bool = False

    @property
    def rows(self) -> tuple[RowResult, ...]:
        """The rows of all tables."""
        return tuple(row for table in self.tables for row in table.rows)

    @property
    def bound(self) -> str:
        """The bound of the only row or shape; raises ``UsageError`` where there are several, or none."""
        found = [row.bound for row in self.rows] + [shape.analysis.bound for shape in self.shapes]
        if len(found) != 1:
            raise UsageError(f"{len(found)} rows have no single bound: use rows or shapes")
        return found[0]

    def to_dict(self, note_text: Callable[[Note], str] | None = None) -> dict[str, Any]:
        """For JSON: rows, agreement with the sources, audit by table, and errors; SI base units."""
        rows = [row.to_dict(note_text) for row in self.rows] + [shape.to_dict(note_text) for shape in self.shapes]
        return {
            "rule": {"name": self.rule.name, "thresholds": self.rule.thresholds()},
            "rows": rows,
            "agreement": {
                table.name: {
                    "agree": table.agreeing,
                    "disagree": table.disagreeing,
                    "silent": table.silent,
                    "undetermined": table.undetermined,
                }
                for table in self.tables
            },
            "audit": [
                {
                    "group": found.group,
                    "rows": found.rows,
                    "reproduced": dict(found.reproduced),
                    "explained_by": list(found.explained_by),
                    "printed_over_inputs": list(found.over_inputs),
                    "bound_changes_with_output": list(found.changed),
                    "rows_with_printed_bytes_per_s": found.printed,
                    "scales": found.scales or None,
                }
                for table in self.tables
                for found in table.audits
            ],
            "errors": [{"line": e.line, "name": e.name, "message": e.message} for e in self.errors],
        }

    def __repr__(self) -> str:
        counts = {"row": len(self.rows), "shape": sum(shape.analysis.bounds.size for shape in self.shapes)}
        told = [f"{count:,} {what}{'s' * (count != 1)}" for what, count in counts.items() if count]
        return f"<Classification: {', '.join(told) or 'nothing'}, {self.rule.name} rule>"
