"""Random programs written as Python functions trace to the nodes that the same formula parses to."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

from fuseline.frontends.formula import parse_formula
from fuseline.frontends.trace import trace
from fuseline.ir.node import Node, literal_value
from fuseline.ir.program import Program
from fuseline.ops import OPERATIONS
from programs import ELEMENTWISE, REDUCTIONS, RandomProgram, programs, seeded_programs

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
NUMPYS = tuple(
    op for op in (*ELEMENTWISE, *REDUCTIONS)
    if op == "cast" or any(hasattr(np, s) for s in OPERATIONS[op].spellings)
)  # fmt: skip


def _written(node: Node, names: Mapping[Node, str]) -> str:
    """One instruction as Python."""
    row = OPERATIONS[node.op]
    args = [repr(literal_value(a)) if a.op == "literal" else names[a] for a in node.args]
    if node.op == "cast":
        return f"{args[0]}.astype({node.attr('dtype').name!r})"
    if row.index_rule == "reduction":
        axes = node.attr("axes")
        axis = axes[0] if axes is not None else None
        return f"np.{row.name}({args[0]}, axis={axis}, keepdims={node.attr('keepdims')})"
    # Python turns `3 < x` round, so a comparison with its number in front is written as a call.
    if row.infix and not (node.op in COMPARISONS and node.args[0].op == "literal"):
        return f"({args[0]}) {row.infix} ({args[1]})"
    if node.op in ("neg", "invert", "abs"):
        return {"neg": "-({})", "invert": "~({})", "abs": "abs({})"}[node.op].format(args[0])
    spelling = next(s for s in row.spellings if hasattr(np, s))
    return f"np.{spelling}({', '.join(args)})"


def function_of(program: Program) -> Callable[..., Any]:
    """A Python function that does what the program says, an instruction a line."""
    names: dict[Node, str] = {}
    lines = []
    for i, node in enumerate(program.nodes):
        lines += [f"    t{i} = {_written(node, {**_inputs(program), **names})}"]
        names[node] = f"t{i}"
    known = {**_inputs(program), **names}
    returned = ", ".join(f"{name!r}: {known[node]}" for name, node in program.outputs)
    parameters = ", ".join(d.name for d in program.inputs)
    scope: dict[str, Any] = {"np": np, "inf": np.inf, "nan": np.nan}
    exec("\n".join([f"def f({parameters}):", *lines, f"    return {{{returned}}}"]), scope)
    made: Callable[..., Any] = scope["f"]
    return made


def _inputs(program: Program) -> dict[Node, str]:
    from fuseline.ir import make

    return {make("input", (), (("name", d.name),)): d.name for d in program.inputs}


def _traceable(made: RandomProgram) -> bool:
    """Whether every instruction has a traced operand: what Python computes of numbers alone is never seen."""
    program = made.program
    on_numbers = any(all(a.op == "literal" for a in n.args) for n in program.nodes)
    return not on_numbers and not any(n.op == "literal" for _, n in program.outputs)


def agrees(made: RandomProgram) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = trace(function_of(made.program))
    parsed = parse_formula(made.text)
    assert traced.nodes == parsed.nodes
    assert traced.outputs == parsed.outputs
    assert [d.name for d in traced.inputs] == [d.name for d in parsed.inputs]


@given(programs(operations=NUMPYS, declarations=False))
def test_a_random_program_traces_to_the_nodes_it_parses_to(made: RandomProgram) -> None:
    assume(_traceable(made))
    agrees(made)


@pytest.mark.long
def test_many_random_programs_trace_to_the_nodes_they_parse_to() -> None:
    tried = 0
    for made in seeded_programs(10_000, seed=31, operations=NUMPYS, declarations=False):
        if _traceable(made):
            agrees(made)
            tried += 1
    assert tried > 3_000
