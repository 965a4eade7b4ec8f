"""Values that are the same for every element of a run, because their operands are: computed once, before its loop.

Which inputs stand still is known of a call, from its strides; numbers of the program always do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuseline.codegen.llvm.order import RareWork
from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.ir.graph import Graph
from fuseline.ir.node import Node
from fuseline.ops import OPERATIONS

_DEAR = frozenset({"div", "reciprocal", "floordiv", "mod", "fmod", "sqrt"})


class Still:
    """A set of nodes: ``inputs`` that stand still, numbers, and whatever is computed of these alone."""

    def __init__(self, inputs: Iterable[Node]) -> None:
        self._known: dict[Node, bool] = dict.fromkeys(inputs, True)

    def __contains__(self, node: Node) -> bool:
        stack = [node]
        while stack:
            top = stack[-1]
            waiting = [] if top.is_source else [a for a in top.args if a not in self._known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if top not in self._known:
                self._known[top] = top.op == "const" or (not top.is_source and all(self._known[a] for a in top.args))
        return self._known[node]


def that_matter(graph: Graph, target: LlvmTarget, still: Iterable[int]) -> tuple[int, ...]:
    """Those of the ``still`` inputs, by position, that something dear is computed of alone: a body that knows them is
    faster. ``graph`` is not expanded."""
    positions = {graph.inputs[i]: i for i in still}
    known = Still(positions)
    stack = [saved for n in graph.nodes if (saved := _saved(n, target, known)) is not None] if positions else []
    needed: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += node.args
    return tuple([i for node, i in positions.items() if node in needed])


def _saved(node: Node, target: LlvmTarget, still: Still) -> Node | None:
    """What of ``node`` a body saves much by computing it once: the instruction itself, or its divisor."""
    if node in still:
        is_dear = node.op in _DEAR or OPERATIONS[node.op].exactness == "measured"
        return node if is_dear and not node.is_source else None
    divides = node.op == "div" and target.has_slow_divider and node.dtype.computed.is_float
    return node.args[1] if divides and node.args[1] in still else None


def before_loop(order: Sequence[Node | RareWork], inputs: Iterable[Node]) -> set[int]:
    """The positions in ``order`` of what reads nothing but still ``inputs``, numbers and other such results."""
    known = set(inputs)
    found: set[int] = set()
    for position, item in enumerate(order):
        members = tuple(item.nodes()) if isinstance(item, RareWork) else (item,)
        operands = {a for n in members for a in n.args if a.op != "const"}.difference(members)
        if operands <= known:
            known.update(members)
            found.add(position)
    return found
