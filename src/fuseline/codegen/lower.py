"""From a program's graph to the graph that text is printed from: functions expanded, conversions explicit."""

from __future__ import annotations

from ..ir.graph import Graph
from ..mathlib.expand import expand
from ..passes.rewrite import rewrite
from .legalize import legalize
from .several_calls import C_RULES


def lower(graph: Graph, *, library: frozenset[str] = frozenset()) -> Graph:
    """Primitives only, or primitives and calls of ``library`` functions where the target's own are wanted.

    With a library, operations that it spells as several calls (sigmoid, silu, …) become those calls.
    """
    ready = rewrite(graph, C_RULES) if library else graph
    return legalize(expand(ready, library), library=library)
