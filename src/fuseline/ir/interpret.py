"""The oracle: evaluates any graph node by node with NumPy, slowly and plainly.

16-bit floats are carried as float32 between operations; explicit casts and outputs round (SEMANTICS.md P2). Exact
operations have our own semantics (`numerics`), so an expanded graph's result here is what every back end must give, bit
for bit. Transcendental operations that are still whole are evaluated in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuseline import numerics as nm
from fuseline.errors import ShapeError, TypeRuleError
from fuseline.floating_point import in_default_environment
from fuseline.ir.dtype import DType
from fuseline.ir.graph import Graph
from fuseline.ir.infer import apply, normal_axes, signature
from fuseline.ir.node import Node, const_array
from fuseline.ir.size import broadcast, check_given
from fuseline.ops import OPERATIONS

Array = nm.Array


@in_default_environment
def interpret(graph: Graph, arrays: Mapping[str, Any]) -> dict[str, Array]:
    """The outputs, by name, for input arrays by name; each array already of its input's dtype.

    Raises `ShapeError` for a missing input and for shapes that do not fit, `TypeRuleError` for another dtype.
    """
    given = {node.attr("name"): _input(node, arrays) for node in graph.inputs}
    check_given({n.attr("name"): n.tensor.shape for n in graph.inputs}, {name: a.shape for name, a in given.items()})
    inputs = [_carried(given[node.attr("name")], node.dtype) for node in graph.inputs]
    with np.errstate(all="ignore"):
        results = _run(graph, inputs)
        return {name: _stored(r, n.dtype) for (name, n), r in zip(graph.outputs, results, strict=True)}


def _run(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs as they are carried between operations."""
    values: dict[Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    last_use = _last_uses(graph)
    for position, node in enumerate(graph.nodes):
        operands = [_value(a, values) for a in node.args]
        _check_broadcast(graph, node, operands)
        values[node] = _evaluate_tuple(node, operands) if node.op in _TUPLES else evaluate_node(node, operands)
        for dead in last_use.get(position, ()):
            del values[dead]
    return [_value(n, values) for n in graph.output_nodes]


def _check_broadcast(graph: Graph, node: Node, operands: Sequence[Any]) -> None:
    """`ShapeError` with the operands' names; what is typed without shapes has not been checked before."""
    if OPERATIONS[node.op].index_rule == "elementwise" and node.op not in _TUPLES and node.tensor.shape is None:
        labels = [a.op if a.op == "const" else graph.label(a) for a in node.args]
        broadcast([np.shape(v) for v in operands], labels)


_TUPLES = frozenset(row.name for row in OPERATIONS.values() if row.type_rule == "tuple")


def _evaluate_tuple(node: Node, operands: list[Any]) -> Any:
    """An operation with several results, as a tuple, or one of them."""
    if node.op == "proj":
        return operands[0][node.attr("index")]
    if node.op == "repeat":
        body: Graph = node.attr("body")
        carried = operands[: len(body.outputs)]
        for _ in range(node.attr("count")):
            carried = _run(body, [*carried, *operands[len(carried) :]])
        return tuple(carried)
    return tuple(evaluate_node(apply(part, *node.args), operands) for part in OPERATIONS[node.op].parts)


def _last_uses(graph: Graph) -> dict[int, list[Node]]:
    """Which values are read for the last time by each instruction, so that a long program keeps few arrays alive."""
    last = {a: i for i, n in enumerate(graph.nodes) for a in n.args if not a.is_source}
    for node in graph.output_nodes:
        last.pop(node, None)
    dead: dict[int, list[Node]] = {}
    for node, position in last.items():
        dead.setdefault(position, []).append(node)
    return dead


def _input(node: Node, arrays: Mapping[str, Any]) -> Array:
    name = node.attr("name")
    if name not in arrays:
        raise ShapeError(f"the input {name} is missing; given: {', '.join(arrays) or 'none'}")
    array = np.asarray(arrays[name])
    if array.dtype != node.dtype.numpy:
        raise TypeRuleError(f"the input {name} is {node.dtype} in this graph; the array given is {array.dtype}")
    return array


def _value(node: Node, values: Mapping[Node, Any]) -> Any:
    return _carried(const_array(node), node.dtype) if node.op == "const" else values[node]


def _carried(array: Array, d: DType) -> Array:
    return array.astype(np.float32) if d.is_storage_float else array


def _stored(array: Array, d: DType) -> Array:
    return nm.cast(array, d.numpy) if array.dtype != d.numpy else np.array(array)


def evaluate_node(node: Node, operands: list[Array]) -> Array:
    """One instruction on carried arrays."""
    row = OPERATIONS[node.op]
    target: DType | None = node.attr("dtype")
    if row.type_rule == "cast":
        assert target is not None
        return _carried(_stored(operands[0], target), target)
    if row.type_rule == "bitcast":
        assert target is not None
        return _carried(nm.bitcast(_stored(operands[0], node.args[0].dtype), target.numpy), target)
    if row.type_rule == "lookup":
        assert target is not None
        return _carried(nm.lookup(operands[0], _table(node, target)), target)
    sig = signature(node.op, tuple(a.dtype for a in node.args))
    converted = [_converted(v, d) for v, d in zip(operands, sig.operands, strict=True)]
    if row.index_rule == "reduction":
        return _reduce(node, converted[0], sig.result)
    assert row.meaning is not None
    result = np.asarray(row.meaning(*converted))
    return result if row.type_rule != "whole" else result.astype(sig.result.computed.numpy)


def _converted(array: Array, d: DType) -> Array:
    wanted = d.computed.numpy
    return array if array.dtype == wanted else nm.cast(array, wanted)


def _table(node: Node, d: DType) -> Array:
    raw = b"".join(int(bits).to_bytes(d.bits // 8, "little") for bits in node.attr("table"))
    return np.frombuffer(raw, d.numpy.newbyteorder("<")).astype(d.numpy)


def _reduce(node: Node, x: Array, result: DType) -> Array:
    axes = normal_axes(node.op, node.attr("axes"), x.ndim)
    computed = result.computed.numpy
    if node.op in ("sum", "mean"):
        kept = nm.tree_sum(x, axes, computed)
        if node.op == "mean":
            kept = kept / np.asarray(np.prod([x.shape[a] for a in axes], dtype=np.int64)).astype(computed)
    else:
        kept = _fold(node.op, x, axes)
    return (
        kept
        if node.attr("keepdims", False)
        else np.asarray(kept.reshape([d for j, d in enumerate(x.shape) if j not in axes]))
    )


def _fold(op: str, x: Array, axes: tuple[int, ...]) -> Array:
    empty = any(x.shape[a] == 0 for a in axes)
    if op in ("any", "all"):
        x = x.astype(np.bool_)
        if empty:
            return np.full(tuple(1 if j in axes else d for j, d in enumerate(x.shape)), op == "all")
    elif empty:
        raise ShapeError(f"{op} of an empty axis has no value; the shape is {x.shape}")
    meaning = OPERATIONS[op].meaning
    assert meaning is not None
    return nm.fold_axes(meaning, x, axes)
