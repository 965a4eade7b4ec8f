"""The intermediate representation: types, interned nodes, graphs, their text form, rules and oracle."""

from .dtype import DType, dtype, promote
from .graph import Graph
from .index_map import IndexMap
from .infer import apply, signature, tensor_type
from .interpret import interpret
from .node import Node, const, make
from .size import Size, named
from .text import parse_graph, print_graph
from .types import TensorType, TupleType
from .verify import verify

__all__ = [
    "DType", "Graph", "IndexMap", "Node", "Size", "TensorType", "TupleType",
    "apply", "const", "dtype", "interpret", "make", "named", "parse_graph", "print_graph", "promote", "signature",
    "tensor_type", "verify",
]  # fmt: skip
