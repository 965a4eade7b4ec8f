"""The passes, by name and in order, and how a graph goes through them.

Each pass takes a verified graph and returns a verified graph with the same inputs, outputs and types, and the same
bits. Common subexpressions need no pass: equal nodes are one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuseline.errors import VerifyError
from fuseline.floating_point import in_default_environment
from fuseline.ir.graph import Graph
from fuseline.ir.verify import CHECK, verify
from fuseline.passes import fold, simplify
from fuseline.passes.dce import eliminate_dead_code
from fuseline.passes.rewrite import merge, rewrite


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step from graph to graph."""

    name: str
    run: Callable[[Graph], Graph]


PIPELINE = (
    Pass("rewrite", lambda graph: rewrite(graph, merge(fold.RULES, simplify.RULES))),
    Pass("dce", eliminate_dead_code),
)


@in_default_environment
def optimize(graph: Graph, passes: Sequence[Pass] = PIPELINE, check: bool | None = None) -> Graph:
    """The graph after ``passes``; with ``check`` (default: FUSELINE_CHECK) it is verified before, between and after."""
    check = CHECK if check is None else check
    if check:
        verify(graph)
    for step in passes:
        before = graph
        graph = step.run(graph)
        if check:
            verify(graph)
            _check_interface(step, before, graph)
    return graph


def _check_interface(step: Pass, before: Graph, after: Graph) -> None:
    same = before.inputs == after.inputs and before.output_names == after.output_names
    if not same or before.output_types != after.output_types:
        raise VerifyError(f"the pass {step.name} changed the inputs, the outputs or their types")
