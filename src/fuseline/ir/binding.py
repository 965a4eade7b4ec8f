"""A graph for the lengths that were given: named sizes replaced by their values, unknown shapes by the one given.

Whether two values lie alike, broadcast or fit in each other's place is a question of lengths. A name that stands for 1
broadcasts as a 1 does, and two names may be one length, so what decides such things looks at the bound graph.
"""

from __future__ import annotations

from collections.abc import Mapping

from fuseline.ir.graph import Graph
from fuseline.ir.infer import result_type
from fuseline.ir.node import Attrs, Node, make
from fuseline.ir.size import Shape, evaluate
from fuseline.ir.types import TensorType, Type


def bind(graph: Graph, sizes: Mapping[str, int], default: Shape | None = None) -> Graph:
    """``graph`` with the lengths ``sizes`` of its named sizes, and inputs whose shape is the caller's of shape
    ``default``; inputs, instructions, outputs and names keep their order. The graph itself where nothing is open.

    Raises `ShapeError` where the lengths do not fit each other, and for a named size without one.
    """
    if all(_is_bound(node.tensor, default) for node in graph.inputs):
        return graph
    bound: dict[Node, Node] = {n: make(n.op, n.args, n.attrs, _bound(n.tensor, sizes, default)) for n in graph.inputs}
    types: dict[tuple[object, ...], Type] = {}  # of an operation on operands of certain types: few in a large graph
    for node in graph.nodes:
        args = tuple([bound.get(a, a) for a in node.args])
        attrs = _bound_attrs(node.attrs, sizes, default)
        kind = (node.op, attrs, *[id(a.type) for a in args])
        type_ = types.get(kind)
        if type_ is None:
            labels = [graph.label(a) if a.op != "const" else "a number" for a in node.args]
            type_ = types[kind] = result_type(node.op, [a.type for a in args], attrs, labels)
        bound[node] = make(node.op, args, attrs, type_)
    return Graph(
        [bound[n] for n in graph.inputs],
        [(name, bound.get(n, n)) for name, n in graph.outputs],
        dict.fromkeys([bound[n] for n in graph.nodes]),
        {bound[n]: name for n, name in graph.names.items() if n in bound},
    )


def _is_bound(tensor: TensorType, default: Shape | None) -> bool:
    shape = tensor.shape
    return default is None if shape is None else all(isinstance(d, int) for d in shape)


def _bound(tensor: TensorType, sizes: Mapping[str, int], default: Shape | None) -> TensorType:
    shape = tensor.shape if tensor.shape is not None else default
    if shape is None:
        return tensor
    return TensorType(tensor.dtype, tuple([int(evaluate(d, sizes)) for d in shape]))


def _bound_attrs(attrs: Attrs, sizes: Mapping[str, int], default: Shape | None) -> Attrs:
    """The attributes, bodies of repetitions bound as well."""
    if not any(isinstance(value, Graph) for _, value in attrs):
        return attrs
    return tuple([(key, bind(v, sizes, default) if isinstance(v, Graph) else v) for key, v in attrs])
