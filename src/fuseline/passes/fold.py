"""Constant folding: an instruction whose operands are all numbers becomes a number.

Only exact and correctly rounded operations fold, because only their value is the same wherever it is computed; a
transcendental of a number stays an instruction and is computed by the same code as everything else. A 16-bit float
result does not fold either: it is carried unrounded until an output or a cast (SEMANTICS.md P2).
"""

from __future__ import annotations

import numpy as np

from fuseline.ir.interpret import evaluate_node
from fuseline.ir.node import Node, const, const_array
from fuseline.ops import OPERATIONS
from fuseline.passes.rewrite import Rule


def fold(node: Node) -> Node | None:
    """The oracle's own evaluation of an operation with one possible value keeps every bit."""
    if any(a.op != "const" for a in node.args):
        return None
    if node.dtype.is_storage_float or any(a.dtype.is_storage_float for a in node.args):
        return None
    with np.errstate(all="ignore"):
        value = evaluate_node(node, [const_array(a) for a in node.args])
    return const(value, node.dtype)


RULES: dict[str, list[Rule]] = {
    name: [fold] for name, row in OPERATIONS.items() if row.exactness != "measured" and row.index_rule == "elementwise"
}
