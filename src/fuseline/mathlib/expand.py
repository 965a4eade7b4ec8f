"""`expand`: a typed graph rewritten into primitives, the only operations that code generators know.

Functions become their graphs from this package; composite operations become a few primitives. Every conversion that
the table's type rules imply is written as a cast, and 16-bit floats are carried as float32 between operations, so that
only outputs and explicit casts round (SEMANTICS.md P2). Reductions stay: the loop nest prints them.
"""

from __future__ import annotations

from fuseline.floating_point import in_default_environment
from fuseline.ir.build import Expr
from fuseline.ir.dtype import BOOL, F32, DType
from fuseline.ir.graph import Graph
from fuseline.ir.infer import apply, signature
from fuseline.ir.node import Node, const_bits, make
from fuseline.ir.types import TensorType
from fuseline.mathlib.composites import COMPOSITES
from fuseline.mathlib.functions import FUNCTIONS
from fuseline.ops import OPERATIONS


@in_default_environment
def expand(graph: Graph, library: frozenset[str] = frozenset()) -> Graph:
    """``graph`` with the same inputs, output names and types, made of primitives and reductions.

    ``library`` names functions that stay whole because the target calls them instead of computing them.

    The interpreter gives the same bits for both graphs where only exact operations are involved; the expanded one is
    the bit oracle of every back end.
    """
    carried: dict[Node, Expr] = {}
    for node in graph.nodes:
        carried[node] = _instruction(node, [_operand(a, carried) for a in node.args], library)
    outputs = [(name, _stored(node, carried)) for name, node in graph.outputs]
    result = Graph(graph.inputs, outputs)
    return result.replaced(names=_names(graph, carried, result))


def _operand(node: Node, carried: dict[Node, Expr]) -> Expr:
    found = carried.get(node)
    if found is None:
        found = carried[node] = _source(node)
    return found


def _source(node: Node) -> Expr:
    if not node.dtype.is_storage_float:
        return Expr(node)
    if node.op == "const":
        return Expr(const_bits(node.attr("bits"), F32))  # it is carried as float32 already
    return Expr(node).cast(F32)


def _stored(node: Node, carried: dict[Node, Expr]) -> Node:
    """The value in its own dtype: 16-bit results are rounded here."""
    if node.op == "input" or (node.op == "const" and not node.dtype.is_storage_float):
        return node
    return _operand(node, carried).cast(node.dtype).node


def _instruction(node: Node, operands: list[Expr], library: frozenset[str]) -> Expr:
    row = OPERATIONS[node.op]
    if row.type_rule == "cast":
        return _widened(convert(operands[0], node.dtype))
    if row.type_rule == "bitcast":
        source = node.args[0]
        bits = Expr(source) if source.op == "input" else operands[0].cast(source.dtype)
        return _widened(bits.bitcast(node.dtype))
    if row.type_rule == "lookup":
        return _widened(Expr(apply("lookup", operands[0].node, **dict(node.attrs))))
    sig = signature(node.op, tuple(a.dtype for a in node.args))
    converted = [convert(x, d.computed) for x, d in zip(operands, sig.operands, strict=True)]
    function = FUNCTIONS.get(node.op) if converted[0].dtype.is_float else None
    function = function or COMPOSITES.get(node.op)
    if function is not None and node.op not in library:
        return function(*converted)
    # Conversions keep shapes, so the result has the shape that was inferred before.
    result = TensorType(sig.result.computed, node.tensor.shape)
    return Expr(make(node.op, tuple([x.node for x in converted]), node.attrs, result))


def convert(x: Expr, target: DType) -> Expr:
    """``x`` as ``target``; to bool by comparing with zero, which is what a cast to bool means."""
    return x != 0 if target is BOOL and x.dtype is not BOOL else x.cast(target)


def _widened(x: Expr) -> Expr:
    return x.cast(F32) if x.dtype.is_storage_float else x


def _names(graph: Graph, carried: dict[Node, Expr], result: Graph) -> dict[Node, str]:
    """Names of the source for values that still exist, each name and each value once."""
    kept = set(result.nodes)
    names: dict[Node, str] = {}
    for node, name in graph.names.items():
        new = carried[node].node if node in carried else node
        if new in kept and new not in names:
            names[new] = name
    return names
