"""From a program's graph to the graph that text is printed from: functions expanded, conversions explicit."""

from __future__ import annotations

from fuseline.codegen.legalize import legalize
from fuseline.codegen.several_calls import C_RULES
from fuseline.ir.graph import Graph
from fuseline.mathlib.expand import expand
from fuseline.passes.rewrite import rewrite


def lower(graph: Graph, *, library: frozenset[str] = frozenset()) -> Graph:
    """Primitives only, or primitives and calls of ``library`` functions where the target's own are wanted.

    With a library, operations that it spells as several calls (sigmoid, silu, …) become those calls.
    """
    ready = rewrite(graph, C_RULES) if library else graph
    return legalize(expand(ready, library), library=library)
