"""What `explain` answers, as data: dataflow, traffic, memory and, where asked for, measurements.

Nothing here formats; `report` renders it, and `Explanation.to_dict` is the stable JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from fuseline.api.rows import Rows
from fuseline.api.shown import Shown
from fuseline.cost.ledger import no_ratio_because
from fuseline.ir.graph import Graph
from fuseline.ir.node import Node
from fuseline.ir.size import Shape, evaluate
from fuseline.ir.text import const_text, print_graph
from fuseline.machine.device import Device
from fuseline.plan.arena.types import PlanResult
from fuseline.plan.joint import PlacedValue, program_arena_to_dict
from fuseline.roofline.rules import UNDETERMINED
from fuseline.units import Quantity


class Instruction(NamedTuple):
    """A row of the dataflow table. ``last_use`` is the number of the last reader, or None for an output."""

    number: int
    name: str
    op: str
    args: tuple[str, ...]
    level: int
    users: int
    last_use: int | None

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON keys; ``last_use`` is ``"output"`` for a value that is returned."""
        row = self._asdict()
        row["args"] = list(self.args)
        if self.last_use is None:
            row["last_use"] = "output"
        return row


@dataclass(frozen=True)
class Dataflow:
    """The optimised graph as a table, with its depth. The text form and the rows are made when they are asked for."""

    source: str
    graph: Graph

    @cached_property
    def text(self) -> str:
        """The text form."""
        return print_graph(self.graph)

    @property
    def instructions(self) -> Sequence[Instruction]:
        """The rows, in program order."""
        return Rows(len(self.graph.nodes), self._row)

    @property
    def depth(self) -> int:
        """Instructions of the longest chain."""
        return self.graph.depth

    @cached_property
    def widest_level(self) -> int:
        """The most instructions on one level: how parallel the graph itself is."""
        return max(Counter(self.graph.levels.values()).values(), default=0)

    @cached_property
    def _outputs(self) -> frozenset[Node]:
        return frozenset(self.graph.output_nodes)

    def __reduce__(self) -> Any:
        return Dataflow, (self.source, self.graph)  # without what was read of it: that holds nodes

    def _row(self, number: int) -> Instruction:
        g = self.graph
        node = g.nodes[number]
        users = g.users[node]
        last = None if node in self._outputs or not users else g.number[users[-1]]
        args = tuple([const_text(a) if a.op == "const" else value_name(g, a) for a in node.args])
        return Instruction(number, value_name(g, node), node.op, args, g.levels[node], len(users), last)


def value_name(g: Graph, node: Node) -> str:
    """The source's name of a value, or its number as ``%3``, which no number of the program looks like."""
    label = g.label(node)
    return f"%{label}" if label.isdecimal() else label


@dataclass(frozen=True, slots=True)
class PlanTraffic:
    """One plan's ledger on the device. Times are lower bounds in seconds, None where no figure predicts them."""

    array_accesses: int
    bytes: int
    kernels: int
    bandwidth_time_s: float | None
    compute_time_s: float | None
    launch_time_s: float
    total_s: float | None

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON keys."""
        names = ("array_accesses", "bytes", "kernels", "bandwidth_time_s", "compute_time_s", "launch_time_s", "total_s")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Unfused against fused, and what bounds the fused program.

    None where the device's figure is not known, or where nothing may be divided by it; ``refused`` says why.
    """

    unfused: PlanTraffic
    fused: PlanTraffic
    largest_elements: int
    """Of the largest value of the program: what its loops run over."""
    largest_bytes: int
    largest_dtype: str
    flops: int
    primitive_instructions: int
    """Instructions of the fused kernel after expansion to primitives."""
    primitive_operations: int
    """These instructions, each as often as its result has elements (a reduction: as its operand has)."""
    arithmetic_intensity_flop_per_byte: float
    ridge_point_flop_per_byte: float | None
    ridge_point_vector_flop_per_byte: float | None
    bound: str
    launch_dominated: bool
    """Whether the launches of the fused program take longer than its work."""
    bandwidth: Quantity | None
    launch_latency: Quantity
    matrix_peak: Quantity | None
    vector_peak: Quantity | None

    @property
    def refused(self) -> dict[str, tuple[str, ...]]:
        """Why figures of the device were not used, by what they are of: ``sparse``, or the kind of their source.

        ``memory`` and ``vector`` predict times; ``matrix`` has a ridge point alone, for which a model's constant does.
        """
        found: dict[str, tuple[str, ...]] = {}
        if self.bandwidth is not None:
            found["memory"] = self.bandwidth.unfit_for_time
        if self.vector_peak is not None:
            found["vector"] = self.vector_peak.unfit_for_time
        if self.matrix_peak is not None:
            found["matrix"] = no_ratio_because(self.matrix_peak)
        return {name: reasons for name, reasons in found.items() if reasons}

    @property
    def traffic_ratio(self) -> float:
        """By how many times fusion reduces the bytes."""
        return self.unfused.bytes / self.fused.bytes if self.fused.bytes else 1.0

    @property
    def flops_per_element(self) -> float:
        """FLOP an element of the largest value."""
        return self.flops / self.largest_elements if self.largest_elements else 0.0


class Placed(NamedTuple):
    """A row of the buffer table."""

    number: int
    name: str
    buffer: int
    in_place: bool
    first: int
    last: int | None
    size_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON keys."""
        row = self._asdict()
        if self.last is None:
            row["last"] = "output"
        return row


class InArena(NamedTuple):
    """A row of the arena's table: instruction ``number`` runs at ``step``, its value lies at ``offset`` during steps
    ``[lower, upper)``, where ``in_place_of`` (a number) says so in the place of that value.
    """

    step: int
    number: int
    name: str
    offset: int
    lower: int
    upper: int
    size_bytes: int
    in_place_of: int | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Buffers of the unfused program: one an instruction, reused in program order, and in the best order found; and
    ``placement``, order and offsets in one arena, whose values are the rows of ``arena``; ``alive_bytes`` is the most
    that is alive in it at once, sizes filled up to their alignments.
    """

    naive_buffers: int
    naive_bytes: int
    planned_buffers: int
    planned_bytes: int
    best_order_buffers: int
    best_order_bytes: int
    most_alive: int
    most_alive_best_order: int
    overwriting: int
    """Results in program order that take an operand's place."""
    assignment: Sequence[Placed]
    best_order: Sequence[Placed]
    placement: PlanResult
    arena: Sequence[InArena]
    alive_bytes: int

    def arena_dict(self) -> dict[str, Any]:
        """The stable JSON form of the arena: nothing in it depends on the machine or the moment."""
        names: dict[int, str] = {}
        buffers: dict[int, str] = {}
        values: list[PlacedValue] = []
        for row in self.arena:
            names[row.number] = row.name
            over = None if row.in_place_of is None else names[row.in_place_of]
            buffers[row.number] = row.name if row.in_place_of is None else buffers[row.in_place_of]
            place = (row.step, row.offset, row.lower, row.upper, row.size_bytes)
            values.append(PlacedValue(row.name, *place, buffers[row.number], over))
        found = program_arena_to_dict(self.placement, values)
        del found["seconds"]
        return {**found, "alive_bytes": self.alive_bytes}


NUMPY, PLANNED, C_LIBM, C_OWN, JIT = "numpy", "numpy-planned", "c-libm", "c-own", "jit"
"""The implementations that are measured: NumPy one operation at a time, with planned buffers, C over the C library's
functions and over our own, and the compiled kernel."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One implementation timed on this host. ``bytes_per_s`` is by the row's own traffic model."""

    implementation: str
    threads: int
    n: int
    dtype: str
    median_s: float | None
    spread_s: float | None = None
    bytes_per_s: float | None = None
    max_abs_error: float | None = None
    fraction_of_limit: float | None = None
    speedup: float | None = None
    """Against the first row with the same threads."""
    note: str = ""
    """Why there is no time."""

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON keys."""
        names = ("implementation", "threads", "n", "dtype", "median_s", "spread_s", "bytes_per_s", "max_abs_error")
        row = {name: getattr(self, name) for name in names}
        return {**row, "fraction_of_limit": self.fraction_of_limit, "speedup": self.speedup, "note": self.note}


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The four answers about one program on one device. Printed, it is the report; a notebook shows it as tables."""

    graph: Graph
    bound_graph: Graph
    """``graph`` for the lengths that were given, instruction by instruction: what is planned and counted."""
    device: Device
    shape: Shape | None
    dtype: str
    sizes: Mapping[str, int]
    dataflow: Dataflow
    traffic: Traffic
    memory: Memory
    measured: tuple[Measured, ...] = field(default=())

    def result_shape(self) -> list[int] | None:
        """Shape of the first output, its named sizes replaced by their values; None where nobody gave one."""
        known = self.graph.output_nodes[0].tensor.shape
        shape = known if known is not None else self.shape
        return None if shape is None else [int(evaluate(d, self.sizes)) for d in shape]

    def with_measurements(self, rows: tuple[Measured, ...]) -> Explanation:
        """The same explanation with a fourth section."""
        return replace(self, measured=rows)

    def to_dict(self) -> dict[str, Any]:
        """The stable JSON form: SI units in the key names."""
        t, m = self.traffic, self.memory
        assignment = [p.to_dict() for p in m.assignment]
        return {
            "device": self.device.name,
            "dtype": ",".join(dict.fromkeys(n.dtype.name for n in self.graph.inputs)) or self.dtype,
            "shape": self.result_shape(),
            "sizes": dict(self.sizes),
            "instruction_count": len(self.dataflow.instructions),
            "depth": self.dataflow.depth,
            "instructions": [i.to_dict() for i in self.dataflow.instructions],
            "traffic": {"unfused": t.unfused.to_dict(), "fused": t.fused.to_dict(), "traffic_ratio": t.traffic_ratio},
            "flop_count": t.flops,
            "primitive_instruction_count": t.primitive_instructions,
            "arithmetic_intensity_flop_per_byte": t.arithmetic_intensity_flop_per_byte,
            "ridge_point_flop_per_byte": t.ridge_point_flop_per_byte,
            "ridge_point_vector_flop_per_byte": t.ridge_point_vector_flop_per_byte,
            "bound": None if t.bound == UNDETERMINED else t.bound,
            "launch_dominated": t.launch_dominated,
            "refused": {name: list(reasons) for name, reasons in t.refused.items()},
            "launch_latency_s": t.launch_latency.to_dict(),
            "bandwidth_bytes_per_s": None if t.bandwidth is None else t.bandwidth.to_dict(),
            "memory": {
                "naive_buffers": m.naive_buffers,
                "planned_buffers": m.planned_buffers,
                "best_order_buffers": m.best_order_buffers,
                "naive_bytes": m.naive_bytes,
                "buffer_bytes": m.planned_bytes,
                "best_order_bytes": m.best_order_bytes,
                "most_alive": m.most_alive,
                "assignment": assignment,
                "best_order": assignment if m.best_order is m.assignment else [p.to_dict() for p in m.best_order],
                "arena": m.arena_dict(),
            },
            "measured": [row.to_dict() for row in self.measured],
        }

    def __repr__(self) -> str:
        count = len(self.dataflow.instructions)
        return f"<Explanation: {count} instruction{'s' * (count != 1)}, {self.dtype}, {self.device.title}>"
