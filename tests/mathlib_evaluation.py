"""Evaluating one operation by the oracle, whole or expanded to primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuseline.ir.build import input_node
from fuseline.ir.dtype import dtype
from fuseline.ir.graph import Graph
from fuseline.ir.infer import apply
from fuseline.ir.interpret import interpret
from fuseline.mathlib.expand import expand


def operation_graph(op: str, *dtypes: Any) -> Graph:
    """A graph of one operation on inputs x0, x1, …"""
    inputs = [input_node(f"x{i}", dtype(d)) for i, d in enumerate(dtypes)]
    return Graph(inputs, [("out", apply(op, *inputs))])


def expanded_value(op: str, *operands: Any) -> np.ndarray[Any, Any]:
    """The operation on arrays, through its expansion."""
    arrays = [np.atleast_1d(v) for v in operands]
    graph = expand(operation_graph(op, *(a.dtype for a in arrays)))
    return interpret(graph, {f"x{i}": a for i, a in enumerate(arrays)})["out"]


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where two arrays hold the same bits, or both NaN."""
    unsigned = f"u{a.dtype.itemsize}"
    equal = a.view(unsigned) == b.view(unsigned)
    return equal if a.dtype.kind in "biu" else equal | ((a != a) & (b != b))
