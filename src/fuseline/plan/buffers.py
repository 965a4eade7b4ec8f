"""Buffers for a plan of one launch an instruction: greedy reuse with in-place results.

Lifetimes are positions in the order: a value is alive from the instruction that computes it to its last reader, an
output to the end. A result takes the buffer of an operand that dies there when overwriting it is legal, else the
smallest free buffer that is large enough, else a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.node import Node
from ..ops import OPERATIONS

SizeOf = Callable[[Node], int]
ClassOf = Callable[[Node], Hashable]


@dataclass(frozen=True, slots=True)
class Assignment:
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
    position = {n: i for i, n in enumerate(order)}
    last: dict[Node, int | None] = {}
    for node in order:
        last[node] = position[node]
        for arg in node.args:
            last[arg] = position[node]
    for node in graph.output_nodes:
        last[node] = None
    return last


def may_overwrite(node: Node, operand: Node) -> bool:
    """Whether the operation itself allows the result to take the operand's place: element by element, same layout.

    The rest is liveness: nobody reads the operand later, and it is neither an input nor an output.
    """
    if operand.is_source or OPERATIONS[node.op].index_rule != "elementwise":
        return False
    same_shape = operand.tensor.shape == node.tensor.shape
    return same_shape and operand.dtype.bits == node.dtype.bits


def _one_class(_: Node) -> Hashable:
    return None


def assign_buffers(
    graph: Graph, size_of: SizeOf, order: Sequence[Node] | None = None, class_of: ClassOf = _one_class
) -> BufferPlan:
    """Greedy reuse in ``order`` (default: the program's); ``size_of`` gives the bytes of a value.

    Only values of one class share a buffer; by default all are of one, since a buffer is bytes.
    """
    order = tuple(order if order is not None else graph.nodes)
    return _Greedy(graph, size_of, order, class_of).run()


class _Greedy:
    def __init__(self, graph: Graph, size_of: SizeOf, order: tuple[Node, ...], class_of: ClassOf) -> None:
        self.order = order
        self.size_of = size_of
        self.class_of = class_of
        self.last = last_uses(graph, order)
        self.holder: dict[Node, int] = {}
        self.sizes: list[int] = []
        self.classes: list[Hashable] = []
        self.free: list[int] = []
        self.made: list[Assignment] = []

    def run(self) -> BufferPlan:
        alive = most = 0
        last, holder, size_of = self.last, self.holder, self.size_of
        for position, node in enumerate(self.order):
            dying: list[Node] = []
            taken: Node | None = None
            for a in node.args:
                if a in holder and last[a] == position and a not in dying:
                    dying.append(a)
                    if taken is None and self.takes_over(node, a):
                        taken = a
            if taken is None:
                buffer = self.allocate(node)
                alive += 1
                if alive > most:
                    most = alive
            else:
                buffer = holder[taken]
            holder[node] = buffer
            self.made.append(Assignment(node, buffer, taken is not None, position, last[node], size_of(node)))
            alive -= self.release(node, taken, dying, position)
        return BufferPlan(self.order, tuple(self.made), tuple(self.sizes), most)

    def takes_over(self, node: Node, operand: Node) -> bool:
        if not may_overwrite(node, operand):
            return False
        return self.class_of is _one_class or self.class_of(node) == self.class_of(operand)

    def allocate(self, node: Node) -> int:
        size, kind = self.size_of(node), self.class_of(node)
        fitting = [b for b in self.free if self.sizes[b] >= size and self.classes[b] == kind]
        if fitting:
            best = min(fitting, key=lambda b: (self.sizes[b], b))
            self.free.remove(best)
            return best
        self.sizes.append(size)
        self.classes.append(kind)
        return len(self.sizes) - 1

    def release(self, node: Node, taken: Node | None, dying: list[Node], position: int) -> int:
        """Give back what died here; the number of values that ended."""
        ended = 0
        for value in dying:
            buffer = self.holder.pop(value)
            if value is not taken:
                self.free.append(buffer)
                ended += 1
        if self.last[node] == position:
            self.free.append(self.holder[node])
            ended += 1
        return ended
