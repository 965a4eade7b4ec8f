"""The rules of a well-formed graph, checked independently of whatever built it."""

from __future__ import annotations

import os

from fuseline.errors import FuselineError, VerifyError
from fuseline.ir.graph import Graph
from fuseline.ir.infer import result_type
from fuseline.ir.node import Node, make
from fuseline.ir.types import TensorType
from fuseline.ops import OPERATIONS

CHECK = os.environ.get("FUSELINE_CHECK", "") not in ("", "0")
"""Whether graphs are verified between passes in production too."""


def verify(graph: Graph) -> Graph:
    """The graph itself, or `VerifyError` saying which rule is broken and where."""
    known: set[Node] = set()
    for node in graph.inputs:
        _check(node.op == "input", f"{node!r} is listed as an input")
        _check(node not in known, f"the input {node.attr('name')} is listed twice")
        known.add(node)
    _check(len(set(graph.input_names)) == len(graph.inputs), "two inputs have one name")
    for position, node in enumerate(graph.nodes):
        where = f"instruction {position} ({node.op})"
        _check(node.op in OPERATIONS and not node.is_source, f"{where}: not an instruction")
        _check(node not in known, f"{where}: stands twice")
        for arg in node.args:
            _check(arg in known or arg.op == "const", f"{where}: reads {arg!r} before it is computed")
        _check_type(node, where)
        known.add(node)
    for name, node in graph.outputs:
        _check(node in known or node.op == "const", f"the output {name} is not computed")
        _check(isinstance(node.type, TensorType), f"the output {name} is several results, or has no type")
    labels = [graph.label(n) for n in (*graph.inputs, *graph.nodes)]
    _check(len(set(labels)) == len(labels), "two values have one name")
    return graph


def _check_type(node: Node, where: str) -> None:
    _check(node.type is not None, f"{where}: has no type")
    _check(all(a.type is not None for a in node.args), f"{where}: an operand has no type")
    try:
        inferred = result_type(node.op, [a.type for a in node.args], node.attrs)
        if node.op == "repeat":
            verify(node.attr("body"))
    except FuselineError as error:
        raise VerifyError(f"{where}: {error}") from error
    _check(inferred == node.type, f"{where}: states {node.type}, its operands give {inferred}")
    _check(make(node.op, node.args, node.attrs, node.type) is node, f"{where}: is not interned")


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyError(message)
