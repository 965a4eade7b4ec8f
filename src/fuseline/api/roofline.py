"""``device``, ``devices`` and ``classify``: what the command line and notebooks call for machines and verdicts.

``classify`` takes measured rates, a file or table of them, or a shape alone, and returns data; ``report`` renders it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fuseline import machine
from fuseline.api.classification import Classification, ShapeResult
from fuseline.api.defaults import (
    CLASSIFIED_DEVICE,
    CLASSIFIED_DTYPE,
    CLASSIFIED_K,
    CLASSIFIED_N,
    CLASSIFIED_OPERATION,
    EXPLAINED_DTYPE,
)
from fuseline.cost.operands import parse_operands
from fuseline.cost.shape_cost import ShapeCost, Tensor
from fuseline.cost.shapes import OPERATIONS, operation_name, operation_sizes, shape_cost
from fuseline.errors import FuselineError, ProvenanceError, ShapeError, UnitError, UsageError
from fuseline.ir.garbage import collection_paused
from fuseline.machine import Device, rate_unit
from fuseline.roofline.arguments import (
    check_kind,
    check_together,
    check_types,
    dtype_name,
    is_given,
    one_number,
    paths,
)
from fuseline.roofline.classify import Options, RowResult, classify_row
from fuseline.roofline.efficiency import estimate
from fuseline.roofline.lookup import Lookup
from fuseline.roofline.row_files import RowError, read_rows
from fuseline.roofline.rows import (
    GIVEN,
    GIVEN_NAMES,
    MEMORY,
    PRODUCTS,
    Row,
    latency_from_us,
    positive,
    rate_of,
    shape_name,
    with_achieved,
)
from fuseline.roofline.rules import BookRule, Rule, chosen_rule, rule_named
from fuseline.roofline.scales import scale_layout
from fuseline.roofline.shape import analyse
from fuseline.roofline.tables import TABLES, TableResult, bundled_rows, classify_table, group_of
from fuseline.units import Quantity, parse_rate, parse_shape, shifted

if TYPE_CHECKING:
    from fuseline.api.program import Source
    from fuseline.ir.node import Node

DeviceFiles = Iterable[str | Path]


def device(name: str, device_files: DeviceFiles = ()) -> Device:
    """The machine ``name``: its pipes, memories, links and launch latency, each figure with its source.

    Raises ``UnknownNameError`` with the nearest names, ``DataFileError`` for a device file that breaks its format.
    """
    return machine.device(name, paths(device_files))


def devices(device_files: DeviceFiles = ()) -> tuple[Device, ...]:
    """All known machines, sorted by vendor and name."""
    return machine.devices(paths(device_files))


def probe(*, again: bool = False, quick: bool = False) -> Device:
    """This host measured as a machine called ``host``: bandwidths, fma rates, the cost of a call.

    The measurement is kept with its date and returned at once the next time, unless ``again`` is asked for.
    """
    from fuseline.runtime.probe import probe as measure

    return measure(again=again, quick=quick)


def classify(
    *,
    m: Any = None,
    n: Any = None,
    k: Any = None,
    dtype: str | None = None,
    device: str | Device | None = None,
    operation: str | None = None,
    sizes: Mapping[str, Any] | None = None,
    latency_us: float | None = None,
    latency_s: float | None = None,
    tflops: float | None = None,
    gbps: float | None = None,
    pipes: Mapping[str, str | Quantity] | None = None,
    waves: float | None = None,
    name: str | None = None,
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
    is one of the bundled tables, ``csv`` a file, ``cost`` a cost of your own. Where nothing names a kernel: the six
    rows of the course.

    ``measured_on`` names the machine of the rates where it is not ``device``; dividing over another's peak is refused
    unless ``allow_mixed``. ``peaks`` asks for ``datasheet``, ``achievable`` or ``effective`` figures.

    Raises ``UnitError`` for rates that are not positive or absurd, ``UnknownNameError`` for unknown names,
    ``UsageError`` for arguments that do not go together, ``ProvenanceError`` where no ratio may be formed.
    """
    check_types(
        device=(device, (str, Device), "a name or a Device"),
        operation=(operation, str, "a name as 'gemm'"),
        sizes=(sizes, Mapping, "a mapping of names to sizes"),
        peaks=(peaks, str, "a kind of peak, as 'datasheet'"),
        allow_mixed=(allow_mixed, (bool, np.bool_), "True or False"),
        pipes=(pipes, Mapping, "a mapping of pipes to rates"),
        name=(name, str, "a text"),
        measured_on=(measured_on, str, "the name of a machine"),
        cost=(cost, ShapeCost, "a ShapeCost, as formula_cost gives"),
        csv=(csv, (str, Path), "a path"),
    )
    for key in sizes or ():
        check_types(sizes=(key, str, "called by names"))
    dtype = dtype_name(dtype)
    chosen = rule_named(rule)
    check_kind(peaks)
    size = dict(sizes or {}) | {key: value for key, value in (("m", m), ("n", n), ("k", k)) if value is not None}
    wanted = {"operation": operation, "dtype": dtype, "name": name}
    rates = {"latency_us": latency_us, "latency_s": latency_s, "tflops": tflops, "gbps": gbps, "pipes": pipes}
    of_rates = {"waves": waves, "measured_on": measured_on}
    whole = {"csv": csv, "rows": rows, "table": table}
    check_together(whole, cost, size, rates, of_rates, wanted)
    if waves is not None and isinstance(chosen, BookRule):
        raise UsageError("waves decide nothing under the book rule: leave them out, or choose the nsight rule")
    if dtype and cost is None:
        parse_operands(dtype)  # raises for a format that does not exist
    options = Options(chosen, peaks, allow_mixed)
    lookup = Lookup(paths(device_files))
    given = _resolve(device, lookup)
    if any(value is not None for value in whole.values()):
        return _classify_whole(csv, rows, table, dtype, given, lookup, options)
    if cost is None and not is_given(size, rates, wanted):
        return _overview(given, lookup, options)
    target = given or machine.device(CLASSIFIED_DEVICE, lookup.device_files)
    operation = operation_name(operation or CLASSIFIED_OPERATION)
    if not is_given(rates):
        shape = cost if cost is not None else _shape(operation, size, dtype, target)
        return Classification(chosen, shapes=(_shape_result(name or "", shape, target, options),))
    row = _single_row(name or "", target, dtype, operation, size, _latency_s(latency_us, latency_s), waves, cost)
    owner = machine.device(measured_on, lookup.device_files).name if measured_on else target.name
    row = with_achieved(replace(row, device=owner), _given_rates(row, tflops, gbps, pipes))
    return _classify_single(row, target, owner, options)


def _classify_whole(
    csv: str | Path | None,
    rows: Iterable[Row] | None,
    table: str | None,
    dtype: str | None,
    given: Device | None,
    lookup: Lookup,
    options: Options,
) -> Classification:
    """The rows of a file, of a caller or of a bundled table: the one of the three that is not None."""
    if csv is not None:
        with collection_paused():
            found, errors = read_rows(csv, given.name if given else "", dtype or "")
            return _classify_rows(str(csv), found, errors, given, lookup, options)
    if rows is not None:
        rows = list(rows)
        for row in rows:
            check_types(rows=(row, Row, "Row objects"))
        return _classify_rows("rows", rows, [], given, lookup, options)
    assert table is not None
    return _classify_rows(table, list(bundled_rows(table)), [], given, lookup, options)


def _classify_single(row: Row, target: Device, owner: str, options: Options) -> Classification:
    """One row with rates of the machine ``owner``, over the peaks of ``target``."""
    if row.cost() is None and not row.achieved:
        raise UnitError(
            "a latency needs a shape (m, n, k, or all sizes of the operation) or rates (tflops, gbps) beside it"
        )
    result = classify_row(row, target, owner, options)
    _refuse_empty(result)
    return Classification(options.rule, (TableResult("row", (result,), ()),), errors=tuple(_unread([result])))


def _latency_s(latency_us: float | None, latency_s: float | None) -> float | None:
    """The one latency that was given, in seconds."""
    if latency_us is not None:
        return latency_from_us(one_number("latency_us", latency_us))
    return None if latency_s is None else latency_from_us(shifted(one_number("latency_s", latency_s), 6))


def formula_cost(
    formula: Source,
    shape: str | tuple[int, ...] | None = None,
    dtype: str = EXPLAINED_DTYPE,
    sizes: Mapping[str, Any] | None = None,
) -> ShapeCost:
    """The cost of a program as one fused kernel, for ``classify(cost=…)``.

    Each input is read once and each output written once; a FLOP is one an instruction and element, on the vector pipe
    in float32 (float64 where anything is). ``sizes`` gives named sizes of declared arrays, numbers or arrays of them.

    Raises `FormulaError` and its kin for a bad formula, `ShapeError` for a size that is missing or is none.
    """
    from fuseline.api.program import as_program, bound_sizes, optimize, typed
    from fuseline.cost.ledger import Sizes, compute_dtype, make_ledger
    from fuseline.ir.binding import bind
    from fuseline.ir.dtype import dtype as dtype_of
    from fuseline.plan.launch import fused

    check_types(shape=(shape, (str, int, tuple, list), "lengths, as (4096, 14336) or '4096x14336'"))
    default = None if shape is None else parse_shape(shape)
    program = as_program(formula)
    bound = bound_sizes(program, sizes, arrays=True)
    lengths = {n: v for n, v in bound.items() if isinstance(v, int)}
    g = optimize(typed(program, dtype_of(dtype), default, lengths))
    if len(lengths) == len(bound):  # as `explain` counts; arrays of lengths are counted by name
        g = optimize(bind(g, lengths, default))
    amounts = Sizes(bound, default)
    launches = fused(g).launches
    ledger = make_ledger(launches, amounts)
    computed = compute_dtype([node.dtype for node in (*g.inputs, *g.nodes)])
    numbers = {node: name for name, node in g.outputs if node.op == "const"}

    def called(node: Node) -> str:
        return numbers[node] if node in numbers else g.label(node)

    tensors = []
    for launch in launches:
        for nodes, output in ((launch.reads, False), (launch.writes, True)):
            tensors += [Tensor(called(n), amounts.elements(n), n.dtype.name, output) for n in nodes]
    work = {"vector": (ledger.flops, computed.computed.name)}
    open_shape = () if default is None or all(d.shape is not None for d in program.inputs) else default
    named = bound | {f"axis{i}": size for i, size in enumerate(open_shape)}
    stored = {node.dtype.name for node in g.inputs}
    return ShapeCost("formula", named, work, tuple(tensors), *stored if len(stored) == 1 else (dtype,))


def _resolve(device: str | Device | None, lookup: Lookup) -> Device | None:
    return machine.device(device, lookup.device_files) if isinstance(device, str) else device


def _overview(given: Device | None, lookup: Lookup, options: Options) -> Classification:
    """The six rows of the course, with the byte audit of the whole tables that they are taken from."""
    found = _classify_rows("course", list(bundled_rows("course")), [], given, lookup, options)
    whole = _classify_rows("ascend", list(bundled_rows("ascend")), [], given, lookup, options)
    groups = {group_of(row.row) for row in found.rows}
    audits = tuple(a for a in whole.tables[0].audits if a.group.split(",", maxsplit=1)[0] in groups)
    return replace(found, tables=(replace(found.tables[0], audits=audits),), overview=True)


def _shape(operation: str, size: Mapping[str, Any], dtype: str | None, target: Device) -> ShapeCost:
    """The cost of the shape asked for; a product completes what is missing with the course's sizes.

    Block scales are those of the machine unless they are given.
    """
    filled = dict(size)
    if operation_name(operation) in PRODUCTS:
        filled = {"n": CLASSIFIED_N, "k": CLASSIFIED_K} | filled
        if "m" not in filled:
            raise ShapeError(f"{operation} needs m, its rows: give --m (m=… in Python)")
    if "dtype" not in filled and (dtype or operation == CLASSIFIED_OPERATION):
        filled["dtype"] = dtype or CLASSIFIED_DTYPE
    if "scales" in operation_sizes(operation)[1]:
        filled.setdefault("scales", scale_layout(target))
    return shape_cost(operation, **filled)


def _default_dtype(operation: str) -> str:
    """What ``operation`` computes in where nobody says: fp8 for products as in the course, else its own default."""
    default = inspect.signature(OPERATIONS[operation]).parameters["dtype"].default
    return CLASSIFIED_DTYPE if operation == CLASSIFIED_OPERATION else str(default)


def _shape_result(name: str, cost: ShapeCost, target: Device, options: Options) -> ShapeResult:
    analysis = analyse(cost, target, options.peak_kind, options.allow_mixed)
    single = analysis.bounds.ndim == 0
    found = None
    if single:
        main = analysis.pipes[0].dtype if analysis.pipes else cost.dtype
        compute = max((float(pipe.time_s) for pipe in analysis.pipes), default=0.0)
        if analysis.pipes or not cost.work:  # work without a time leaves the limit open
            found = estimate(target.name, cost.operation, main, float(analysis.memory_time_s), compute)
    return ShapeResult(name or shape_name(cost.operation, cost.sizes), analysis, found)


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
    if filled and operation in PRODUCTS:
        filled = {"n": CLASSIFIED_N, "k": CLASSIFIED_K} | filled
    return Row(
        name=name or (shape_name(operation, filled) if filled else GIVEN_NAMES[cost is not None]),
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
        achieved[row.compute_key] = rate_of(row.compute_key, one_number("tflops", tflops), 12, unit, row)
    if gbps is not None:
        achieved[MEMORY] = rate_of(MEMORY, one_number("gbps", gbps), 9, "B/s", row)
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
        achieved[pipe] = rate_of(pipe, value, 0, unit, row)
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
