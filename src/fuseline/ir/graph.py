"""A program as a value: inputs, instructions in program order, named outputs.

The order of `Graph.nodes` is the order of the source and the only thing interning loses, so it is kept here. Names
belong to the graph as well: two programs may call the same node differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from fuseline.errors import LimitError
from fuseline.ir.names import check_output_names
from fuseline.ir.node import Node
from fuseline.ir.types import TensorType

MAX_NODES = 1_000_000


class Graph:
    """An immutable dataflow graph.

    ``inputs`` are input nodes in call order; ``nodes`` the instructions (neither inputs nor numbers), operands before
    their users; ``outputs`` (name, node) pairs; ``names`` the source's names of values.

    Raises `UsageError` for outputs that no named tuple could hold, or that share a name, and `LimitError` for more than
    1,000,000 instructions.
    """

    __slots__ = ("__dict__", "inputs", "names", "nodes", "outputs")

    def __init__(
        self,
        inputs: Iterable[Node],
        outputs: Iterable[tuple[str, Node]],
        nodes: Iterable[Node] | None = None,
        names: Mapping[Node, str] | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.nodes = tuple(nodes) if nodes is not None else tuple(instructions([n for _, n in self.outputs]))
        self.names: Mapping[Node, str] = MappingProxyType(dict(names or {}))
        check_output_names(self.output_names)
        if len(self.nodes) > MAX_NODES:
            raise LimitError(f"the graph has {len(self.nodes):,} instructions; the limit is {MAX_NODES:,}")

    @property
    def output_nodes(self) -> tuple[Node, ...]:
        """The output values."""
        return tuple(node for _, node in self.outputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(name for name, _ in self.outputs)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(node.attr("name") for node in self.inputs)

    @cached_property
    def number(self) -> Mapping[Node, int]:
        """The position of each instruction, from 0."""
        return {node: i for i, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> Mapping[Node, tuple[Node, ...]]:
        """The distinct instructions that read each value, in program order."""
        readers: dict[Node, list[Node]] = {n: [] for n in (*self.inputs, *self.nodes)}
        for node in self.nodes:
            for arg in dict.fromkeys(node.args):
                if arg in readers:
                    readers[arg].append(node)
                else:
                    readers[arg] = [node]
        return {n: tuple(r) for n, r in readers.items()}

    @cached_property
    def levels(self) -> Mapping[Node, int]:
        """The longest chain of instructions that ends in each one, counted from 1."""
        level: dict[Node, int] = {}
        for node in self.nodes:
            level[node] = 1 + max([level.get(a, 0) for a in node.args], default=0)
        return level

    @property
    def depth(self) -> int:
        """The longest dependency chain; 0 for a graph without instructions."""
        return max(self.levels.values(), default=0)

    def label(self, node: Node) -> str:
        """The name of a value: the source's, or its number."""
        if node.op == "input":
            return str(node.attr("name"))
        return self.names.get(node) or str(self.number[node])

    def replaced(self, **parts: Any) -> Graph:
        """A copy with some parts exchanged."""
        current = {"inputs": self.inputs, "outputs": self.outputs, "nodes": self.nodes, "names": self.names}
        return Graph(**{**current, **parts})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        same = self.inputs == other.inputs and self.outputs == other.outputs and self.nodes == other.nodes
        return same and self.names == other.names

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs, self.nodes))

    def __str__(self) -> str:
        from fuseline.ir.text import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        counted = {"input": len(self.inputs), "instruction": len(self.nodes)}
        counts = ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counted.items())
        return f"<Graph: {counts}, outputs {', '.join(self.output_names)}>"

    def __reduce__(self) -> Any:
        from fuseline.ir.text import parse_graph

        return parse_graph, (str(self),)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the outputs."""
        return tuple(n.tensor for n in self.output_nodes)


def instructions(roots: Sequence[Node]) -> list[Node]:
    """The instructions that the roots need, operands first, each once; depth-first from the left, without recursion."""
    return [n for n in topological(roots) if not n.is_source]


def topological(roots: Iterable[Node]) -> list[Node]:
    """Every node that the roots need, sources too, operands first."""
    order: list[Node] = []
    seen: set[Node] = set()
    opened: list[Node] = []  # whose operands are being visited; None on the stack closes the last of them
    stack: list[Node | None] = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:
            order.append(opened.pop())
        elif node not in seen:
            seen.add(node)
            if node.args:
                opened.append(node)
                stack.append(None)
                stack += [a for a in reversed(node.args) if a not in seen]
            else:
                order.append(node)
    return order
