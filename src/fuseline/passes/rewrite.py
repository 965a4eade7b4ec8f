"""The rewriter: applies local rules over a graph, operands first, without recursion.

A rule takes an instruction whose operands are already rewritten and returns an equal value or None. Its docstring
states why every bit is kept. Rules are data: a mapping from an operation's name to the rules tried on it, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fuseline.ir.graph import Graph
from fuseline.ir.node import Node, make

Rule = Callable[[Node], Node | None]
Rules = Mapping[str, Sequence[Rule]]


def merge(*tables: Rules) -> dict[str, list[Rule]]:
    """One table out of several; earlier tables' rules are tried first."""
    merged: dict[str, list[Rule]] = {}
    for table in tables:
        for op, rules in table.items():
            merged.setdefault(op, []).extend(rules)
    return merged


def rewrite(graph: Graph, rules: Rules) -> Graph:
    """The graph after trying ``rules`` on every instruction until none applies to it."""
    replaced: dict[Node, Node] = {}
    order: dict[Node, None] = {}
    names: dict[Node, str] = {}
    for node in graph.nodes:
        current = _with_operands(node, replaced) if replaced else node
        tried = rules.get(current.op)
        if tried:
            current = _to_fixpoint(current, rules)
        if current is node:  # its operands are as they were, too
            order[node] = None
        else:
            replaced[node] = current
            if current.is_source:
                continue
            _append(current, order)
        if node in graph.names:
            names.setdefault(current, graph.names[node])
    if not replaced:
        return graph
    outputs = [(name, replaced.get(n, n)) for name, n in graph.outputs]
    return Graph(graph.inputs, outputs, order, names)


def _with_operands(node: Node, replaced: Mapping[Node, Node]) -> Node:
    args = tuple([replaced.get(a, a) for a in node.args])
    return node if args == node.args else make(node.op, args, node.attrs, node.type)


def _to_fixpoint(node: Node, rules: Rules) -> Node:
    while True:
        for rule in rules.get(node.op, ()):
            better = rule(node)
            if better is not None and better is not node:
                node = better
                break
        else:
            return node


def _append(node: Node, order: dict[Node, None]) -> None:
    """Add ``node`` and whatever new instructions a rule built below it, operands first."""
    stack = [node]
    while stack:
        top = stack[-1]
        waiting = [] if top in order else [a for a in top.args if a not in order and not a.is_source]
        if waiting:
            stack.extend(reversed(waiting))
        else:
            order.setdefault(top)
            stack.pop()
