"""`explain`: what a program does, moves and keeps on a device, without running it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fuseline.api.defaults import EXPLAINED_DEVICE, EXPLAINED_DTYPE, EXPLAINED_SHAPE
from fuseline.api.explanation import Dataflow, Explanation, InArena, Memory, Placed, PlanTraffic, Traffic, value_name
from fuseline.api.program import Source, as_program, bound_sizes, formula_of, refuse_outputs, typed
from fuseline.api.rows import Rows
from fuseline.cost.ledger import (
    Ledger,
    Rates,
    Sizes,
    compute_dtype,
    counted_value,
    make_ledger,
    rates,
    require_countable,
    times,
)
from fuseline.errors import ShapeError, shown_number
from fuseline.ir.binding import bind
from fuseline.ir.build import input_node
from fuseline.ir.dtype import DType
from fuseline.ir.dtype import dtype as dtype_of
from fuseline.ir.garbage import collection_paused
from fuseline.ir.graph import Graph
from fuseline.ir.infer import apply
from fuseline.ir.node import Node
from fuseline.ir.size import Shape
from fuseline.machine.database import device as find_device
from fuseline.machine.device import Device
from fuseline.passes.pipeline import optimize
from fuseline.plan.buffers import BufferPlan, assign_buffers
from fuseline.plan.joint import JointPlan, plan_graph
from fuseline.plan.launch import fused, single_launches
from fuseline.roofline.rules import UNDETERMINED, launches_dominate
from fuseline.units import parse_shape

if TYPE_CHECKING:
    from fuseline.plan.program_order import ProgramOrderArena


def explain(
    source: Source,
    shape: Sequence[int] | int | str | None = None,
    dtype: DType | str = EXPLAINED_DTYPE,
    device: Device | str = EXPLAINED_DEVICE,
    *,
    outputs: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Explanation:
    """Dataflow, traffic and memory of a program.

    Args:
        source: text of a formula or a graph, function, program or graph.
        shape: shape of arrays that the program does not declare; default 4096x14336.
        dtype: dtype of arrays that the program does not declare.
        device: a device or its name (`fuseline device list`).
        outputs: names to return; by default those that no statement reads.
        sizes: values for the named sizes of declared arrays.

    Raises `FormulaError` and its kin for a bad program, `UnknownNameError` for a device or dtype, `ShapeError` for a
    size that is missing.
    """
    default = _shape(shape)
    machine = device if isinstance(device, Device) else find_device(device)
    wanted = dtype_of(dtype)
    with collection_paused():
        shown, g, amounts = prepared(source, shape, wanted, outputs, sizes)
        return Explanation(
            graph=shown,
            bound_graph=g,
            device=machine,
            shape=default,
            dtype=wanted.name,
            sizes=dict(amounts.names),
            dataflow=dataflow(shown, formula_of(source)),
            traffic=traffic(g, machine, amounts),
            memory=memory(g, amounts),
        )


class Prepared(NamedTuple):
    """The optimised graph as it is shown, with its named sizes, the same instructions bound to the lengths that were
    given, which is what plans and ledgers are made of, and those lengths."""

    shown: Graph
    graph: Graph
    sizes: Sizes


def prepared(
    source: Source,
    shape: Sequence[int] | int | str | None,
    dtype: DType,
    outputs: Sequence[str] | None,
    sizes: Mapping[str, int] | None,
) -> Prepared:
    """A program made ready to be planned and counted; arguments and errors are those of `explain`."""
    default = _shape(shape)
    given = refuse_outputs(source, outputs) if isinstance(source, Graph) else as_program(source, outputs)
    bound = bound_sizes(given, sizes)
    shown = optimize(given if isinstance(given, Graph) else typed(given, dtype, default, bound))
    g = bind(shown, bound, default)
    if g is not shown:
        g = optimize(g)  # what was two shapes by name may be one by length
        shown = shown if len(shown.nodes) == len(g.nodes) else g
    return Prepared(shown, g, Sizes(bound, default))


_SHAPE_WANTED = "a shape is non-negative whole numbers, as in 4096x14336"


def _shape(shape: Sequence[int] | int | str | None) -> Shape:
    try:
        dims = EXPLAINED_SHAPE if shape is None else parse_shape(shape) if isinstance(shape, str) else _lengths(shape)
    except TypeError:
        raise ShapeError(f"{_SHAPE_WANTED}; got {shape!r}") from None
    if any(d < 0 for d in dims):
        raise ShapeError(f"{_SHAPE_WANTED}; got {'x'.join(map(shown_number, dims))}")
    require_countable(tuple(dims), math.prod(dims))
    return tuple(dims)


def _lengths(shape: Sequence[int] | int) -> tuple[int, ...]:
    """Lengths as NumPy takes them: one number or several, its own integers too; `TypeError` for anything else."""
    given = shape if isinstance(shape, Iterable) else (shape,)
    return tuple([-1 if isinstance(d, bool) else operator.index(d) for d in given])


# ── dataflow ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def dataflow(g: Graph, source: str) -> Dataflow:
    """The table of instructions of an optimised graph."""
    return Dataflow(source, g)


# ── traffic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def traffic(g: Graph, device: Device, sizes: Sizes) -> Traffic:
    """Unfused against fused on a device."""
    dtypes = [n.dtype for n in (*g.inputs, *g.nodes)]
    main = compute_dtype(dtypes)
    figures = rates(device, main)
    apart, together = make_ledger(single_launches(g), sizes), make_ledger(fused(g).launches, sizes)
    largest = max((*g.output_nodes, *g.inputs, *g.nodes), key=sizes.elements)
    primitive_count, operation_count = primitives(g, sizes)
    intensity = together.flops / together.bytes if together.bytes else 0.0
    fused_side = _plan_traffic(together, figures)
    return Traffic(
        unfused=_plan_traffic(apart, figures),
        fused=fused_side,
        largest_elements=sizes.elements(largest),
        largest_bytes=sizes.bytes_of(largest),
        largest_dtype=largest.dtype.name,
        flops=together.flops,
        primitive_instructions=primitive_count,
        primitive_operations=operation_count,
        arithmetic_intensity_flop_per_byte=intensity,
        ridge_point_flop_per_byte=figures.ridge(figures.matrix_flops_per_s),
        ridge_point_vector_flop_per_byte=figures.ridge(figures.vector_flops_per_s),
        bound=_bound(fused_side),
        launch_dominated=_launch_dominated(fused_side),
        bandwidth=figures.bandwidth_bytes_per_s,
        launch_latency=figures.launch_latency_s,
        matrix_peak=figures.matrix_flops_per_s,
        vector_peak=figures.vector_flops_per_s,
    )


def _plan_traffic(ledger: Ledger, figures: Rates) -> PlanTraffic:
    t = times(ledger, figures)
    return PlanTraffic(
        array_accesses=ledger.array_accesses,
        bytes=ledger.bytes,
        kernels=ledger.kernels,
        bandwidth_time_s=t.bandwidth_time_s,
        compute_time_s=t.compute_time_s,
        launch_time_s=t.launch_time_s,
        total_s=None if t.total_s is None else float(t.total_s),
    )


def _bound(side: PlanTraffic) -> str:
    """Which resource takes longest, the memory or the vector pipe, as `classify` has it of the formula alone.

    Undetermined where the time of the bytes or of the arithmetic is not known.
    """
    if side.bandwidth_time_s is None or side.compute_time_s is None:
        return UNDETERMINED
    return "compute" if side.compute_time_s > side.bandwidth_time_s else "memory"


def _launch_dominated(side: PlanTraffic) -> bool:
    """Whether launching takes longer than all work; False where a part of the work has no known time."""
    if side.total_s is None or side.compute_time_s is None:
        return False
    return bool(launches_dominate(side.total_s - side.launch_time_s, side.launch_time_s))


EXPANDED_WHOLE = 1_000
"""Instructions up to which the fused kernel is expanded as a whole to be counted."""


def primitives(g: Graph, sizes: Sizes) -> tuple[int, int]:
    """Instructions of the fused kernel after functions are expanded to primitives, and how often they run together.

    A large graph is counted by the kinds of its instructions: each kind is expanded once, and what different ones would
    share is counted for each.
    """
    from fuseline.mathlib.expand import expand

    def runs(node: Node) -> int:
        return int(sizes.elements(counted_value(node)))

    if len(g.nodes) <= EXPANDED_WHOLE:
        expanded = expand(g)
        return len(expanded.nodes), sum(map(runs, expanded.nodes))
    counts: dict[tuple[object, ...], int] = {}
    instructions = operations = 0
    for node in g.nodes:
        kind = (node.op, node.attrs, tuple(a.dtype for a in node.args))
        if kind not in counts:
            operands = [input_node(f"x{i}", a.dtype.computed, a.tensor.shape) for i, a in enumerate(node.args)]
            counts[kind] = len(expand(Graph(operands, [("out", apply(node.op, *operands, **dict(node.attrs)))])).nodes)
        instructions += counts[kind]
        operations += counts[kind] * runs(node)
    converted = [n for n in {*g.inputs, *g.output_nodes} if n.dtype.is_storage_float]
    return instructions + len(converted), operations + sum(map(sizes.elements, converted))


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


ARENA_ALIGNMENT_BYTES = 64
"""A cache line, and the alignment that every vector instruction is content with."""


def memory(g: Graph, sizes: Sizes) -> Memory:
    """Buffers of the unfused program, in program order and in the order that needs the fewest bytes, and its arena."""
    from fuseline.plan.order import better_buffers, may_have_better_order, schedule_storages
    from fuseline.plan.program_order import arena_in_program_order
    from fuseline.plan.storage_graph import storage_graph

    size_of = {n: int(sizes.bytes_of(n)) for n in (*g.inputs, *g.nodes)}.__getitem__
    in_order = best = assign_buffers(g, size_of)
    if may_have_better_order(g, size_of, in_order):
        storages = storage_graph(g, size_of, ARENA_ALIGNMENT_BYTES)
        schedule = schedule_storages(storages)
        best = better_buffers(g, size_of, in_order, schedule)
        plan: JointPlan | ProgramOrderArena = plan_graph(storages, schedule=schedule, bounded=True, name="program")
        first = len(g.inputs)
    else:
        plan = arena_in_program_order(in_order, lambda i: value_name(g, g.nodes[i]), ARENA_ALIGNMENT_BYTES, "program")
        first = 0
    placed = _placed(in_order, g)
    return Memory(
        naive_buffers=len(g.nodes),
        naive_bytes=sum(map(size_of, g.nodes)),
        planned_buffers=in_order.buffer_count,
        planned_bytes=in_order.total_bytes,
        best_order_buffers=best.buffer_count,
        best_order_bytes=best.total_bytes,
        most_alive=in_order.most_alive,
        most_alive_best_order=best.most_alive,
        overwriting=sum([a.in_place for a in in_order.assignments]),
        assignment=placed,
        best_order=placed if best is in_order else _placed(best, g),
        placement=plan.arena,
        arena=_in_arena(plan, g, first),
        alive_bytes=plan.peak_bytes,
    )


def _in_arena(plan: JointPlan | ProgramOrderArena, g: Graph, first: int) -> Rows[InArena]:
    """The rows of the arena's table; the value ``first`` of the plan is the first instruction's."""

    def row(number: int) -> InArena:
        s = plan.stored[number]
        value = s.value - first
        return InArena(
            step=s.step,
            number=value,
            name=value_name(g, g.nodes[value]),
            offset=s.offset or 0,
            lower=s.lower,
            upper=s.upper,
            size_bytes=s.size_bytes,
            in_place_of=None if s.over is None else s.over - first,
        )

    return Rows(len(g.nodes), row)


def _placed(plan: BufferPlan, g: Graph) -> Rows[Placed]:
    def row(number: int) -> Placed:
        a = plan.assignments[number]
        return Placed(g.number[a.value], value_name(g, a.value), *a[1:])

    return Rows(len(plan.assignments), row)
