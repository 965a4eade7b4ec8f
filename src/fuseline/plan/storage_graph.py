"""A graph of the IR as storages: which bytes each value is, who reads them, and what may overwrite what.

Every instruction is one operation here (an *unfused* program). Positions are compared by shape: under NumPy's
broadcasting an elementwise operand is read exactly where the result is written when both have the same shape, but for
axes of length 1. A graph with named sizes is bound to their lengths first (`ir.binding`): a name may stand for 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fuseline.excerpts import printable
from fuseline.ir.graph import Graph
from fuseline.ir.index_map import lie_alike
from fuseline.ir.node import Node
from fuseline.ops import OPERATIONS
from fuseline.plan.inplace import Operation, Origin, StorageGraph, StoredValue, Use


def storage_graph(graph: Graph, bytes_of: Callable[[Node], int], alignment: int = 1) -> StorageGraph:
    """The storages of ``graph``; ``bytes_of`` gives the stored bytes of a value, ``alignment`` that of every buffer.

    Values are the inputs, then the instructions in program order; numbers need no storage. Operation k is
    ``graph.nodes[k]``.
    """
    outputs = set(graph.output_nodes)
    nodes = (*graph.inputs, *graph.nodes)
    index = {node: i for i, node in enumerate(nodes)}
    names = _unique(printable(graph.label(node)) for node in nodes)
    values = tuple(
        StoredValue(
            name=names[i],
            size_bytes=int(bytes_of(node)),
            element_bytes=-(-node.dtype.bits // 8),
            origin=Origin.INPUT if i < len(graph.inputs) else Origin.COMPUTED,
            output=node in outputs,
            alignment=alignment,
        )
        for node, i in index.items()
    )
    operations = tuple(
        Operation(
            name=names[index[node]],
            results=(index[node],),
            operands=tuple(_use(node, arg, index[arg]) for arg in node.args if arg in index),
        )
        for node in graph.nodes
    )
    return StorageGraph(values, operations)


def _unique(labels: Iterable[str]) -> list[str]:
    """The labels, a repeated one with its number of occurrence (a source may bind a name again).

    A bare number is written ``%3``, which no name of a program looks like.
    """
    seen: dict[str, int] = {}
    unique = []
    for label in labels:
        label = f"%{label}" if label.isdecimal() else label
        seen[label] = seen.get(label, 0) + 1
        unique.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return unique


def _use(node: Node, operand: Node, value: int) -> Use:
    elementwise = OPERATIONS[node.op].index_rule == "elementwise"
    alike = elementwise and lie_alike(operand.tensor.shape, node.tensor.shape)
    return Use(value, may_overwrite=elementwise, same_index=alike)
