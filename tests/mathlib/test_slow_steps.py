"""No step of a function has a subnormal result where arguments are merely large: some processors take a hundred cycles
for one, and -inf and -1e9 are ordinary data of exponentials and gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fuseline.codegen.llvm.order import RareWork, schedule
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import evaluate_node
from fuseline.ir.node import Node, const_array
from fuseline.mathlib.expand import expand
from mathlib_evaluation import operation_graph

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "fma", "cast", "sqrt"})
ORDINARY = [-1.0, -12.0, -50.0, -90.0, -95.0, -102.0, -120.0, -690.0, -715.0, -744.0, -760.0, -1e4, -1e9, -np.inf, 0.0]
"""And the same with the other sign."""


def slow_steps(graph: Graph, operands: Sequence[Any]) -> list[str]:
    """The operations with subnormal results that a body computes, in the order in which it does."""
    values: dict[Node, Any] = dict(zip(graph.inputs, operands, strict=True))
    slow: list[str] = []

    def value(node: Node) -> Any:
        return const_array(node) if node.op == "const" else values[node]

    def run(items: Sequence[Node | RareWork]) -> None:
        for item in items:
            if isinstance(item, RareWork):
                if value(item.choices[0].args[0]).any():
                    run([*item.instructions, *item.choices])
                else:
                    values.update({c: value(c.args[2]) for c in item.choices})
            elif not item.is_source:
                result = values[item] = evaluate_node(item, [value(a) for a in item.args])
                if item.op in ARITHMETIC and item.dtype.is_float and 0 < abs(result) < np.finfo(result.dtype).tiny:
                    slow.append(item.op)

    with np.errstate(all="ignore"):
        run(schedule(graph))
    return slow


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "exp2",
        "expm1",
        "sigmoid",
        "softplus",
        "silu",
        "gelu",
        "gelu_tanh",
        "erf",
        "erfc",
        "tanh",
        "log1p",
        "cosh",
    ],
)
def test_large_arguments_take_no_slow_steps(name: str, dtype: str) -> None:
    graph = expand(operation_graph(name, dtype))
    for magnitude in ORDINARY:
        for x in (magnitude, -magnitude):
            assert slow_steps(graph, [np.array(x, graph.inputs[0].dtype.numpy)]) == [], x


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_logarithms_far_apart_are_added_without_slow_steps(dtype: str) -> None:
    graph = expand(operation_graph("logaddexp", dtype, dtype))
    for a in (-1e5, -700.0, -1.5, 0.75, 40.0, 1e4):
        for distance in (0.0, 30.0, 70.0, 100.0, 140.0, 400.0, 740.0, 1e4, np.inf):
            operands = [np.array(v, graph.inputs[0].dtype.numpy) for v in (a, a - distance)]
            assert slow_steps(graph, operands) == [], (a, distance)
            assert slow_steps(graph, operands[::-1]) == [], (a, distance)
