"""Python numbers among the operands of a call: what they, and what is computed of them alone, may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuseline.errors import NumberRangeError, shown_number
from fuseline.ir.literals import evaluate_literals
from fuseline.ir.node import Node, Number, literal_value
from fuseline.ops import OPERATIONS

Limits = Mapping[Node, tuple[int, int]]
"""For nodes of an untyped program that are integers, the smallest and the largest value that can be gone on with."""


def check_limits(limits: Limits, names: Sequence[str], operands: Sequence[Any]) -> None:
    """`NumberRangeError` where the numbers among the ``operands``, given for inputs of these names, lead beyond the
    limits."""
    if not limits:
        return
    given = dict(zip(names, operands, strict=True))
    values: dict[Node, Number] = {}
    for node, (low, high) in limits.items():
        value = _value(node, given, values)
        if not low <= value <= high:
            raise NumberRangeError(
                f"{_shown(node)} is {shown_number(value)}, and the integers that it meets take {low} … {high}; "
                "give NumPy's scalar of a wider dtype, as in np.int64(1)"
            )


def _value(node: Node, given: Mapping[str, Any], values: dict[Node, Number]) -> Number:
    """A number of the call, or what the program computes of such numbers."""
    waiting = [node]
    while waiting:
        current = waiting[-1]
        missing = [a for a in current.args if a not in values]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if current.op == "input":
            values[current] = given[current.attr("name")]
        elif current.op == "literal":
            values[current] = literal_value(current)
        elif OPERATIONS[current.op].index_rule == "reduction":
            values[current] = +values[current.args[0]]  # an integer, so no mean
        else:
            values[current] = evaluate_literals(current.op, [values[a] for a in current.args])
    return values[node]


def _shown(node: Node) -> str:
    return f"the input {node.attr('name')}" if node.op == "input" else f"a number computed by {node.op}"
