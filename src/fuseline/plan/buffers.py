"""Buffers for a plan of one launch an instruction: greedy reuse with in-place results.

Lifetimes are positions in the order: a value is alive from the instruction that computes it to its last reader, an
output to the end. A result takes the buffer of an operand that dies there when overwriting it is legal, else the
smallest free buffer that is large enough, else a new one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fuseline.ir.graph import Graph
from fuseline.ir.index_map import lie_alike
from fuseline.ir.node import Node
from fuseline.ops import OPERATIONS

SizeOf = Callable[[Node], int]


class Assignment(NamedTuple):
    """Where one value lives. ``last`` is the position of its last reader; None for an output, which lives on."""

    value: Node
    buffer: int
    in_place: bool
    first: int
    last: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """The buffers of an order. ``most_alive`` is the largest number of values alive at once, an in-place result and the
    operand it overwrites counting once."""

    order: tuple[Node, ...]
    assignments: tuple[Assignment, ...]
    buffer_sizes_bytes: tuple[int, ...]
    most_alive: int

    @property
    def buffer_count(self) -> int:
        """How many buffers there are."""
        return len(self.buffer_sizes_bytes)

    @property
    def total_bytes(self) -> int:
        """Their sizes together."""
        return sum(self.buffer_sizes_bytes)


def last_uses(graph: Graph, order: Sequence[Node]) -> dict[Node, int | None]:
    """The position in ``order`` of each value's last reader; None for an output, its own position for a dead value."""
    last: dict[Node, int | None] = {}
    for position, node in enumerate(order):
        last[node] = position
        for arg in node.args:
            last[arg] = position
    for node in graph.output_nodes:
        last[node] = None
    return last


def may_overwrite(node: Node, operand: Node) -> bool:
    """Whether the operation itself allows the result to take the operand's place: element by element, same layout.

    The rest is liveness: nobody reads the operand later, and it is neither an input nor an output.
    """
    if operand.is_source or OPERATIONS[node.op].index_rule != "elementwise":
        return False
    if operand.type is node.type:
        return True
    return operand.dtype.bits == node.dtype.bits and lie_alike(operand.tensor.shape, node.tensor.shape)


def assign_buffers(graph: Graph, size_of: SizeOf, order: Sequence[Node] | None = None) -> BufferPlan:
    """Greedy reuse in ``order`` (default: the program's); ``size_of`` gives the bytes of a value."""
    order = tuple(order if order is not None else graph.nodes)
    return _Greedy(graph, size_of, order).run()


class _Greedy:
    def __init__(self, graph: Graph, size_of: SizeOf, order: tuple[Node, ...]) -> None:
        self.order = order
        self.size_of = size_of
        self.last = last_uses(graph, order)
        self.holder: dict[Node, int] = {}
        """The buffers of the values that are alive."""
        self.sizes: list[int] = []
        self.free: list[tuple[int, int]] = []
        """Size and number of every free buffer, sorted."""

    def run(self) -> BufferPlan:
        made: list[Assignment] = []
        alive = most = 0
        last, holder, size_of = self.last, self.holder, self.size_of
        for position, node in enumerate(self.order):
            # An operand may stand there twice; it dies once.
            operands = node.args if len(node.args) == 1 else dict.fromkeys(node.args)
            dying = [a for a in operands if a in holder and last[a] == position]
            taken = next((a for a in dying if may_overwrite(node, a)), None)
            size = size_of(node)
            if taken is None:
                buffer = self.allocate(size)
                alive += 1
                most = max(most, alive)
            else:
                buffer = holder.pop(taken)
            made.append(Assignment(node, buffer, taken is not None, position, last[node], size))
            for value in dying:
                if value is not taken:
                    self.release(holder.pop(value))
                    alive -= 1
            if last[node] == position:  # nobody reads it
                self.release(buffer)
                alive -= 1
            else:
                holder[node] = buffer
        return BufferPlan(self.order, tuple(made), tuple(self.sizes), most)

    def allocate(self, size: int) -> int:
        """The smallest free buffer that is large enough, or a new one."""
        best = bisect_left(self.free, (size, 0))
        if best < len(self.free):
            return self.free.pop(best)[1]
        self.sizes.append(size)
        return len(self.sizes) - 1

    def release(self, buffer: int) -> None:
        insort(self.free, (self.sizes[buffer], buffer))
