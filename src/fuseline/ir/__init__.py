"""The intermediate representation: types, interned nodes, graphs, their text form, rules and oracle."""

from fuseline.ir.dtype import DType, dtype, promote
from fuseline.ir.graph import Graph
from fuseline.ir.index_map import IndexMap
from fuseline.ir.infer import apply, signature, tensor_type
from fuseline.ir.interpret import interpret
from fuseline.ir.node import Node, const, make
from fuseline.ir.size import Size, named
from fuseline.ir.text import parse_graph, print_graph
from fuseline.ir.types import TensorType, TupleType
from fuseline.ir.verify import verify

__all__ = [
    "DType", "Graph", "IndexMap", "Node", "Size", "TensorType", "TupleType",
    "apply", "const", "dtype", "interpret", "make", "named", "parse_graph", "print_graph", "promote", "signature",
    "tensor_type", "verify",
]  # fmt: skip
