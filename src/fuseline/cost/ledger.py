"""The ledger: what the launches of a plan move and compute, and how long that takes a device at least.

Traffic is whole arrays: a launch reads each distinct array operand once and writes each result that leaves it once.
Work is the textbook count, one FLOP an instruction and element. Sizes may be integers or arrays of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fuseline.errors import LimitError, UnknownNameError, UnsupportedError
from fuseline.ir.dtype import F32, DType
from fuseline.ir.node import Node
from fuseline.ir.size import Dim, Shape, element_count, evaluate, shape_text
from fuseline.ir.types import TensorType
from fuseline.machine.device import Device
from fuseline.ops import OPERATIONS
from fuseline.plan.launch import Launch
from fuseline.units import Quantity, SourceKind

Amount = Any
"""An integer, or an array of them where sizes are arrays."""


@dataclass(frozen=True)
class Sizes:
    """What the names in shapes stand for, and the shape of values whose shape is the caller's."""

    names: Mapping[str, Any]
    default: Shape | None = None
    _counted: dict[int, tuple[Amount, Amount, TensorType]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Elements and bytes by the identity of a type, which is kept alive: large graphs have few types."""

    def elements(self, node: Node) -> Amount:
        """Elements of a value."""
        known = self._counted.get(id(node.type))
        return known[0] if known is not None else self._count(node)[0]

    def bytes_of(self, node: Node) -> Amount:
        """Bytes of a value as it is stored."""
        known = self._counted.get(id(node.type))
        return known[1] if known is not None else self._count(node)[1]

    def _count(self, node: Node) -> tuple[Amount, Amount, TensorType]:
        tensor = node.tensor
        shape = tensor.shape if tensor.shape is not None else self.default
        if shape is None:
            raise UnknownNameError("the arrays have no shape; give one")
        count = require_countable(shape, evaluate_count(shape, self.names))
        known = self._counted[id(tensor)] = (count, tensor.dtype.size_bytes(count), tensor)
        return known


def require_countable(shape: Shape, count: Amount) -> Amount:
    """``count``, the elements of ``shape``. Arrays of counts are the caller's matter: they are 64-bit numbers to begin
    with.

    Raises:
        LimitError: 2**63 elements or more.
    """
    if isinstance(count, int) and count >= 2**63:
        raise LimitError(f"an array of shape [{shape_text(shape)}] has 2**63 elements or more")
    return count


def evaluate_count(shape: Shape, names: Mapping[str, Any]) -> Amount:
    """Elements of a shape for these sizes."""
    total: Dim = element_count(shape)
    return evaluate(total, names)


class Line(NamedTuple):
    """``launches`` launches of the same cost; amounts are those of one."""

    launches: int
    array_accesses: int
    """Whole arrays read or written."""
    bytes: Amount
    flops: Amount


@dataclass(frozen=True)
class Ledger:
    """All launches of a plan, with their sums."""

    lines: tuple[Line, ...]

    @property
    def kernels(self) -> int:
        """Number of launches."""
        return sum([line.launches for line in self.lines])

    @cached_property
    def array_accesses(self) -> int:
        """Whole arrays read or written by all launches."""
        return sum([line.launches * line.array_accesses for line in self.lines])

    @cached_property
    def bytes(self) -> Amount:
        """Bytes moved by all launches."""
        return sum([line.launches * line.bytes for line in self.lines])

    @cached_property
    def flops(self) -> Amount:
        """Work of all launches."""
        return sum([line.launches * line.flops for line in self.lines])


def make_ledger(launches: Iterable[Launch], sizes: Sizes) -> Ledger:
    """What the launches of a plan move and compute.

    Large programs have many instructions and few kinds of them, so that their launches share lines.
    """
    lines: list[Line] = []
    alike: dict[tuple[object, ...], list[Any]] = {}  # a launch of each kind, and how many there are
    for launch in launches:
        nodes, reads, writes = launch
        if len(nodes) > 1:
            lines.append(_line(launch, sizes))
            continue
        computed: tuple[object, ...] = ()
        if nodes:
            node = nodes[0]
            computed = (node.op, id(node.type), *[id(a.type) for a in node.args])
        kind = (*computed, None, *[id(n.type) for n in reads], None, *[id(n.type) for n in writes])
        entry = alike.get(kind)
        if entry is None:
            alike[kind] = [launch, 1]
        else:
            entry[1] += 1
    return Ledger((*lines, *[_line(launch, sizes, count) for launch, count in alike.values()]))


def _line(launch: Launch, sizes: Sizes, count: int = 1) -> Line:
    moved = sum([sizes.bytes_of(n) for n in (*launch.reads, *launch.writes)])
    work = sum([flops_of(n, sizes.elements) for n in launch.nodes])
    return Line(count, len(launch.reads) + len(launch.writes), moved, work)


def flops_of(node: Node, elements: Callable[[Node], Amount]) -> Amount:
    """Textbook work of one instruction: a FLOP an element of its result, of its operand for a reduction."""
    return OPERATIONS[node.op].flops_per_element * elements(counted_value(node))


def counted_value(node: Node) -> Node:
    """The value whose elements say how often an instruction is carried out: a reduction's operand, else its result."""
    return node.args[0] if OPERATIONS[node.op].index_rule == "reduction" else node


@dataclass(frozen=True)
class Rates:
    """The figures of a device that a ledger is divided by."""

    bandwidth_bytes_per_s: Quantity | None
    vector_flops_per_s: Quantity | None
    matrix_flops_per_s: Quantity | None
    launch_latency_s: Quantity

    def ridge(self, peak: Quantity | None) -> float | None:
        """FLOP/B at which a pipe and the memory take equally long; None where no ratio of the two means anything."""
        bandwidth = self.bandwidth_bytes_per_s
        if peak is None or bandwidth is None or no_ratio_because(peak) or no_ratio_because(bandwidth):
            return None
        return peak.value / bandwidth.value


def no_ratio_because(figure: Quantity) -> tuple[str, ...]:
    """Why a ridge point may not rest on ``figure``; a model's constant may be compared with, but predicts no time."""
    return tuple([reason for reason in figure.unfit_for_time if reason != SourceKind.MODEL_CONSTANT])


def rates(device: Device, dtype: DType) -> Rates:
    """The rates of ``device`` for elementwise work on ``dtype``: 16-bit floats compute as float32 on the vector
    pipe."""
    vector = _peak(device, "vector", dtype.computed)
    matrix = _peak(device, "matrix", dtype)
    bandwidth = device.main_memory.find_bandwidth() if device.memories else None
    return Rates(bandwidth, vector, matrix, device.launch_latency)


def _peak(device: Device, pipe: str, dtype: DType) -> Quantity | None:
    found = device.find_pipe(pipe)
    try:
        return found.find(dtype.name) if found is not None else None
    except (UnknownNameError, UnsupportedError):
        return None


def compute_dtype(dtypes: Iterable[DType]) -> DType:
    """The dtype whose rates bound a program: the widest float, or where nothing is a float the widest integer."""
    found = list(dtypes)
    floats = [d for d in found if d.is_float]
    integers = [d for d in found if d.is_integer]
    return max(floats or integers or [F32], key=lambda d: d.bits)


@dataclass(frozen=True)
class Times:
    """Lower bounds on the time of a ledger, in seconds: of its bytes, of its arithmetic, of its launches, and of all.

    Launches run one after another: the total adds, launch by launch, the longer of bytes and arithmetic, and the cost
    of launching. None where the device has no figure that predicts a time; the total is that of what is known, and
    None where the bytes have no time.
    """

    bandwidth_time_s: Any
    compute_time_s: Any
    launch_time_s: Any
    total_s: Any


def _longer(a: Any, b: Any) -> Any:
    both_numbers = a.__class__ is float and b.__class__ is float
    return max(a, b) if both_numbers else np.maximum(a, b)


def times(ledger: Ledger, device_rates: Rates) -> Times:
    """How long the ledger takes at least at these rates, by those of them from which a time may be predicted."""
    bandwidth, vector = device_rates.bandwidth_bytes_per_s, device_rates.vector_flops_per_s
    known = vector is not None and not vector.unfit_for_time
    rate = vector.value if vector is not None and known else math.inf
    launches = ledger.kernels * device_rates.launch_latency_s.value
    compute = ledger.flops / rate if known or not np.any(ledger.flops) else None
    if bandwidth is None or bandwidth.unfit_for_time:
        return Times(None, compute, launches, None)
    per_s = bandwidth.value
    work = sum([line.launches * _longer(line.bytes / per_s, line.flops / rate) for line in ledger.lines])
    return Times(ledger.bytes / per_s, compute, launches, work + launches)
