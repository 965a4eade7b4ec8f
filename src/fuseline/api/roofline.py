"""``device``, ``devices`` and ``classify``: what the command line and notebooks call for machines and verdicts.

``classify`` takes measured rates, a file or table of them, or a shape alone, and returns data; ``report`` renders it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fuseline import machine
from fuseline.cost.operands import parse_operands
from fuseline.cost.shapes import OPERATIONS, ShapeCost, operation_name, shape_cost
from fuseline.errors import FuselineError, ProvenanceError, ShapeError, UnitError, UnknownNameError
from fuseline.ir.garbage import collection_paused
from fuseline.machine import Device, rate_unit
from fuseline.roofline.arguments import check_kind, check_sources, check_types, dtype_name, one_number, paths
from fuseline.roofline.classify import Options, RowResult, classify_row
from fuseline.roofline.efficiency import Estimate, estimate
from fuseline.roofline.lookup import Lookup
from fuseline.roofline.row_files import RowError, read_rows
from fuseline.roofline.rows import GIVEN, GIVEN_NAMES, MEMORY, Row, latency_from_us, positive, rate_of, with_achieved
from fuseline.roofline.rules import UNDETERMINED, BookRule, Note, Rule, chosen_rule, rule_named
from fuseline.roofline.shape import ShapeAnalysis, analyse
from fuseline.roofline.tables import TABLES, TableResult, bundled_rows, classify_table, group_of
from fuseline.units import Quantity, parse_rate

DEFAULT_DEVICE = "ascend-950dt"
DEFAULT_DTYPE = "fp8"
DEFAULT_N = 7168
DEFAULT_K = 16384
_PRODUCTS = ("gemm", "grouped-gemm", "batched-gemm")
"""What ``classify`` takes where only ``m`` is given: the shape and machine of the course."""

DeviceFiles = Iterable[str | Path]


def device(name: str, device_files: DeviceFiles = ()) -> Device:
    """The machine ``name``: its pipes, memories, links and launch latency, each figure with its source.

    Raises ``UnknownNameError`` with the nearest names, ``DataFileError`` for a device file that breaks its format.
    """
    check_types(name=(name, str, "the name of a machine"))
    return machine.device("" if name is None else name, paths(device_files))


def devices(device_files: DeviceFiles = ()) -> tuple[Device, ...]:
    """All known machines, sorted by vendor and name."""
    return machine.devices(paths(device_files))


def probe(*, again: bool = False, quick: bool = False) -> Device:
    """This host measured as a machine called ``host``: bandwidths, fma rates, the cost of a call.

    The measurement is kept with its date and returned at once the next time, unless ``again`` is asked for.
    """
    from fuseline.runtime.probe import probe as measure

    return measure(again=again, quick=quick)


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """A shape without measurements: the analysis and, where kernels like it were measured, an estimate."""

    name: str
    analysis: ShapeAnalysis
    estimate: Estimate | None

    def to_dict(self, note_text: Callable[[Note], str] | None = None) -> dict[str, Any]:
        """The shape as a row for JSON: no rates were achieved, so ``achieved`` and ``ratios`` are empty."""
        render = note_text or (lambda note: note.code)
        found = self.analysis
        cost = found.cost
        shape = {
            "flop": _plain(cost.flop),
            "bytes": {name: _plain(cost.bytes(name)) for name in cost.conventions},
            "arithmetic_intensity_flop_per_byte": _plain(found.intensity),
            "arithmetic_intensity_inputs_flop_per_byte": _plain(found.intensity_inputs),
            "ridge_point_flop_per_byte": found.ridge,
            "near_ridge": _plain(found.near_ridge),
            "bound_inputs": _bound(found.bounds_inputs),
            "bound_time_s": _plain(found.bound_time_s),
            "memory_time_s": _plain(found.memory_time_s),
            "pipe_time_s": {pipe.pipe: _plain(pipe.time_s) for pipe in found.pipes},
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
            "notes": [render(note) for note in found.notes],
        }


def _plain(value: Any) -> Any:
    """Arrays as lists, NumPy scalars as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _bound(bounds: Any) -> Any:
    """Bounds for JSON: ``None`` where there is no verdict."""
    return None if bounds.size and np.all(bounds == UNDETERMINED) else bounds.tolist()


def _estimate_dict(found: Estimate) -> dict[str, Any]:
    known = found.efficiency
    return {
        "time_s": found.time_s,
        "shortest_s": found.shortest_s,
        "longest_s": found.longest_s,
        "efficiency": known.median,
        "samples": known.samples,
        "basis": known.basis,
        "comparable": found.comparable,
    }


@dataclass(frozen=True, slots=True)
class Classification:
    """What ``classify`` found: tables of rows, shapes, and the rows of a file that could not be read.

    ``overview`` marks the answer to a call without arguments.
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
        """The bound of the only row or shape; raises ``UnknownNameError`` where there are several."""
        found = [row.bound for row in self.rows] + [shape.analysis.bound for shape in self.shapes]
        if len(found) != 1:
            raise UnknownNameError(f"{len(found)} rows have no single bound: use rows or shapes")
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


def classify(
    *,
    m: Any = None,
    n: Any = None,
    k: Any = None,
    dtype: str | None = None,
    device: str | Device | None = None,
    operation: str = "gemm",
    sizes: Mapping[str, Any] | None = None,
    latency_us: float | None = None,
    latency_s: float | None = None,
    tflops: float | None = None,
    gbps: float | None = None,
    pipes: Mapping[str, str | Quantity] | None = None,
    waves: float | None = None,
    name: str = "",
    measured_on: str | None = None,
    csv: str | Path | None = None,
    table: str | None = None,
    rows: Iterable[Row] | None = None,
    cost: ShapeCost | None = None,
    rule: str | Rule = "book",
    peaks: str | None = None,
    allow_mixed: bool = False,
    device_files: DeviceFiles = (),
) -> Classification:
    """What bounds a kernel: from measured rates, from a table or CSV file of them, or from a shape alone.

    With ``tflops``, ``gbps``, ``pipes`` (rates as text, ``{"fix": "6.6 TB/s"}``) or a latency, the rates are laid
    against the peaks of ``device`` and read by ``rule`` (``book``, ``nsight`` or a rule object). With sizes alone
    (``m n k``, or ``sizes`` of another ``operation``; arrays are fine) the shape is laid against the machine. ``table``
    is one of the bundled tables, ``csv`` a file, ``cost`` a cost of your own. Without arguments: the six rows of the
    course.

    ``measured_on`` names the machine of the rates where it is not ``device``; dividing over another's peak is refused
    unless ``allow_mixed``. ``peaks`` asks for ``datasheet``, ``achievable`` or ``effective`` figures.

    Raises ``UnitError`` for rates that are not positive or absurd, ``UnknownNameError`` for unknown names,
    ``ProvenanceError`` where no ratio may be formed.
    """
    check_types(
        device=(device, (str, Device), "a name or a Device"),
        operation=(operation, str, "a name as 'gemm'"),
        sizes=(sizes, Mapping, "a mapping of names to sizes"),
        pipes=(pipes, Mapping, "a mapping of pipes to rates"),
        name=(name, str, "a text"),
        measured_on=(measured_on, str, "the name of a machine"),
        cost=(cost, ShapeCost, "a ShapeCost, as formula_cost gives"),
        csv=(csv, (str, Path), "a path"),
    )
    dtype, operation = dtype_name(dtype), operation or ""
    chosen = rule_named(rule)
    check_kind(peaks)
    check_sources(
        csv,
        rows,
        table,
        cost,
        size_given=any(v is not None for v in (m, n, k)) or bool(sizes),
        rates_given=(any(value is not None for value in (latency_us, latency_s, tflops, gbps, waves)) or bool(pipes)),
    )
    options = Options(chosen, peaks, allow_mixed)
    lookup = Lookup(paths(device_files))
    given = _resolve(device, lookup)
    size = dict(sizes or {}) | {key: value for key, value in (("m", m), ("n", n), ("k", k)) if value is not None}
    if latency_us is not None and latency_s is not None:
        raise UnitError("latency_us and latency_s are the same time twice: give one of them")
    if latency_us is not None:
        latency_s = latency_from_us(one_number("latency_us", latency_us))
    elif latency_s is not None:
        latency_s = latency_from_us(one_number("latency_s", latency_s) * 1e6)
    if csv is not None:
        with collection_paused():
            found, errors = read_rows(csv, given.name if given else "", dtype or "")
            return _classify_rows(str(csv), found, errors, given, lookup, options)
    if rows is not None:
        rows = list(rows)
        for row in rows:
            check_types(rows=(row, Row, "Row objects"))
        return _classify_rows("rows", rows, [], given, lookup, options)
    if table is not None:
        return _classify_rows(table, list(bundled_rows(table)), [], given, lookup, options)
    measured = any(value is not None for value in (latency_s, tflops, gbps)) or bool(pipes)
    if not measured and not size and cost is None:
        return _overview(given, lookup, options)
    target = given or machine.device(DEFAULT_DEVICE, lookup.device_files)
    if not measured:
        shape = cost if cost is not None else _shape(operation, size, dtype)
        return Classification(chosen, shapes=(_shape_result(name, shape, target, options),))
    row = _single_row(name, target, dtype, operation_name(operation), size, latency_s, waves, cost)
    owner = machine.device(measured_on, lookup.device_files).name if measured_on else target.name
    row = with_achieved(replace(row, device=owner), _given_rates(row, tflops, gbps, pipes))
    if row.cost() is None and not row.achieved:
        raise UnitError(
            "a latency needs a shape (m, n, k, or all sizes of the operation) or rates (tflops, gbps) beside it"
        )
    result = classify_row(row, target, owner, options)
    _refuse_empty(result)
    return Classification(chosen, (TableResult("row", (result,), ()),), errors=tuple(_unread([result])))


def formula_cost(
    formula: str,
    shape: str | tuple[int, ...] | None = None,
    dtype: str = "bf16",
    sizes: Mapping[str, Any] | None = None,
) -> ShapeCost:
    """The cost of a formula as one fused kernel, for ``classify(cost=…)``.

    Each input is read once and each output written once; a FLOP is one an instruction and element, on the vector pipe
    in float32 (float64 where anything is). ``sizes`` gives named sizes of declared arrays, numbers or arrays of them.
    """
    from fuseline.api.program import graph, optimize
    from fuseline.cost.ledger import Sizes, compute_dtype, make_ledger
    from fuseline.cost.shapes import Tensor
    from fuseline.ir.dtype import dtype as dtype_of
    from fuseline.plan.launch import fused
    from fuseline.units import parse_shape

    default = None if shape is None else parse_shape(shape)
    g = optimize(graph(formula, dtype_of(dtype), None, default))
    amounts = Sizes(sizes or {}, default)
    launches = fused(g).launches
    ledger = make_ledger(launches, amounts)
    computed = compute_dtype([node.dtype for node in (*g.inputs, *g.nodes)])
    tensors = []
    for launch in launches:
        for nodes, output in ((launch.reads, False), (launch.writes, True)):
            tensors += [Tensor(g.label(n), amounts.elements(n), n.dtype.name, output) for n in nodes]
    work = {"vector": (ledger.flops, computed.computed.name)}
    named = dict(sizes or {}) | {f"axis{i}": size for i, size in enumerate(default or ())}
    return ShapeCost("formula", named, work, tuple(tensors), dtype)


def _resolve(device: str | Device | None, lookup: Lookup) -> Device | None:
    return machine.device(device, lookup.device_files) if isinstance(device, str) else device


def _overview(given: Device | None, lookup: Lookup, options: Options) -> Classification:
    """The six rows of the course, with the byte audit of the whole tables that they are taken from."""
    found = _classify_rows("course", list(bundled_rows("course")), [], given, lookup, options)
    whole = _classify_rows("ascend", list(bundled_rows("ascend")), [], given, lookup, options)
    groups = {group_of(row.row) for row in found.rows}
    audits = tuple(a for a in whole.tables[0].audits if a.group.split(",", maxsplit=1)[0] in groups)
    return replace(found, tables=(replace(found.tables[0], audits=audits),), overview=True)


def _shape(operation: str, size: Mapping[str, Any], dtype: str | None) -> ShapeCost:
    """The cost of the shape asked for; a product completes what is missing with the course's sizes."""
    filled = dict(size)
    if operation_name(operation) in _PRODUCTS:
        filled = {"n": DEFAULT_N, "k": DEFAULT_K} | filled
        if "m" not in filled:
            raise ShapeError(f"{operation} needs m, its rows: give --m (m=… in Python)")
    if "dtype" not in filled and (dtype or operation == "gemm"):
        filled["dtype"] = dtype or DEFAULT_DTYPE
    return shape_cost(operation, **filled)


def _default_dtype(operation: str) -> str:
    """What ``operation`` computes in where nobody says: fp8 for products as in the course, else its own default."""
    default = inspect.signature(OPERATIONS[operation]).parameters["dtype"].default
    return DEFAULT_DTYPE if operation == "gemm" else str(default)


def _shape_result(name: str, cost: ShapeCost, target: Device, options: Options) -> ShapeResult:
    analysis = analyse(cost, target, options.peak_kind, options.allow_mixed)
    single = analysis.bounds.ndim == 0
    found = None
    if single:
        main = analysis.pipes[0].dtype if analysis.pipes else cost.dtype
        found = estimate(target.name, cost.operation, main, analysis.bound, float(analysis.bound_time_s))
    label = name or f"{cost.operation} {'x'.join(str(v) for v in cost.sizes.values() if isinstance(v, int) and v != 1)}"
    return ShapeResult(label.strip(), analysis, found)


def _single_row(
    name: str,
    target: Device,
    dtype: str | None,
    operation: str,
    size: Mapping[str, Any],
    latency_s: float | None,
    waves: float | None,
    cost: ShapeCost | None,
) -> Row:
    """The row that the arguments describe, without rates."""
    filled = {key: value for key, value in size.items() if key != "dtype"}
    for key, value in filled.items():
        if isinstance(value, (list, tuple, np.ndarray)):
            raise UnitError(f"{key} is an array of sizes, but a rate or a latency belongs to one shape")
        if not isinstance(value, (str, bool)) and (not isinstance(value, (int, np.integer)) or value < 1):
            raise UnitError(f"{key} must be a positive whole number, not {value!r}")
    types = parse_operands(dtype or size.get("dtype") or (cost.dtype if cost else _default_dtype(operation)))
    if waves is not None:
        positive(one_number("waves", waves), "waves", "waves")
    if filled and operation in _PRODUCTS:
        filled = {"n": DEFAULT_N, "k": DEFAULT_K} | filled
    order = ("groups", "batch", "m", "n", "k")
    filled = {key: filled[key] for key in (*order, *filled) if key in filled}
    label = name or "x".join(str(value) for value in filled.values()) or GIVEN_NAMES[cost is not None]
    if not name and filled and operation not in _PRODUCTS:
        label = f"{operation} {label}"
    return Row(
        name=label,
        device=target.name,
        dtype=types.compute,
        operation="formula" if cost is not None else operation,
        operands=str(types),
        given_cost=cost,
        sizes=filled,
        latency_s=latency_s,
        waves=waves,
        source=GIVEN,
    )


def _given_rates(
    row: Row, tflops: float | None, gbps: float | None, pipes: Mapping[str, str | Quantity] | None
) -> dict[str, Quantity]:
    achieved: dict[str, Quantity] = {}
    if tflops is not None:
        unit = rate_unit(row.compute_dtype)
        achieved[row.compute_key] = rate_of(row.compute_key, one_number("tflops", tflops), 1e12, unit, row)
    if gbps is not None:
        achieved[MEMORY] = rate_of(MEMORY, one_number("gbps", gbps), 1e9, "B/s", row)
    for pipe, rate in (pipes or {}).items():
        if pipe in achieved:
            raise UnitError(f"the rate of {pipe} is given twice")
        if isinstance(rate, Quantity):
            achieved[pipe] = rate
            continue
        check_types(pipes=(rate, str, f"rates as text with a unit ({pipe})"))
        value, unit = parse_rate("" if rate is None else rate)
        if unit == "Hz":
            raise UnitError(f"the rate of {pipe} must be in B/s, FLOPS or OPS, not {rate!r}")
        achieved[pipe] = rate_of(pipe, value, 1.0, unit, row)
    return achieved


def _refuse_empty(result: RowResult) -> None:
    """Raises where not one ratio could be formed, with the reasons."""
    if any(pipe.ratio is not None for pipe in result.pipes):
        return
    reasons = "; ".join(dict.fromkeys(pipe.refused for pipe in result.pipes if pipe.refused))
    raise ProvenanceError(f"no ratio may be formed: {reasons}")


def _classify_rows(
    name: str, rows: list[Row], errors: list[RowError], given: Device | None, lookup: Lookup, options: Options
) -> Classification:
    """Classifies many rows; a row whose machine is named but unknown becomes an error of its own."""
    kept: list[Row] = []
    bundled = name in TABLES
    for row in rows:
        lookup.find(row.device)
        if not row.device and not bundled:
            errors.append(RowError(row.line, row.name, "no device: give a device column, or --device for all rows"))
        elif row.device in lookup.failed and not bundled:
            errors.append(RowError(row.line, row.name, lookup.failed[row.device]))
        else:
            kept.append(row)
    if given is None:
        table = classify_table(name, tuple(kept), lookup.known, options)
        errors += [] if bundled else _unread(table.rows)
        return Classification(options.rule, (table,), errors=_in_order(errors))
    results = []
    for row in kept:
        owner = lookup.find(row.device)
        try:
            results.append(classify_row(row, given, owner.name if owner else row.device, options))
        except FuselineError as error:
            errors.append(RowError(row.line, row.name, str(error)))
    errors += [] if bundled else _unread(results)
    return Classification(options.rule, (TableResult(name, tuple(results), ()),), errors=_in_order(errors))


def _in_order(errors: list[RowError]) -> tuple[RowError, ...]:
    """Errors in the order of their lines, whether reading or judging found them."""
    return tuple(sorted(errors, key=lambda error: error.line))


def _unread(rows: Iterable[RowResult]) -> list[RowError]:
    """Rows with a rate that the machine has no peak for, or without one ratio: named with the reason."""
    return [RowError(row.row.line, row.row.name, row.unread) for row in rows if row.unread]


__all__ = [
    "DEFAULT_DEVICE",
    "BookRule",
    "Classification",
    "Row",
    "ShapeResult",
    "chosen_rule",
    "classify",
    "device",
    "devices",
    "formula_cost",
    "probe",
]
