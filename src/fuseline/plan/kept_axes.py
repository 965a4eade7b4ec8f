"""The same program with reductions that keep their axes, to see what dropping them costs."""

from __future__ import annotations

from collections.abc import Mapping

from fuseline.ir.graph import Graph
from fuseline.ir.infer import apply, normal_axes
from fuseline.ir.node import Node
from fuseline.plan.loopnest import is_reduction

Places = tuple[int, ...]
"""For each axis of a value, how far from the last one it lies once axes are kept."""


def drops_axes(node: Node) -> bool:
    """Whether this is a reduction whose result lacks the axes that it reduces."""
    return is_reduction(node) and not node.attr("keepdims", False)


def with_kept_axes(graph: Graph) -> Graph | None:
    """``graph`` with every reduced axis kept at length 1.

    None where no reduction drops one, where a shape is the caller's, and where values would then meet in another way,
    as a sum over rows does that is added to a vector.
    """
    shapes = [n.tensor.shape for n in (*graph.inputs, *graph.nodes)]
    if None in shapes or not any(map(drops_axes, graph.nodes)):
        return None
    kept: dict[Node, Node] = {n: n for n in graph.inputs}
    places: dict[Node, Places] = {n: tuple(range(_rank(n)))[::-1] for n in graph.inputs}
    for node in graph.nodes:
        operands = [kept.get(a, a) for a in node.args]
        attrs = dict(node.attrs)
        if is_reduction(node):
            (read,) = node.args
            axes = normal_axes(node.op, attrs["axes"], _rank(read))
            rank = _rank(operands[0])
            attrs |= {"axes": tuple([rank - 1 - places[read][axis] for axis in axes]), "keepdims": True}
            stay = node.attr("keepdims", False)
            found: Places | None = tuple([p for axis, p in enumerate(places[read]) if stay or axis not in axes])
        else:
            found = _meeting(node, places)
        if found is None:
            return None
        places[node] = found
        kept[node] = apply(node.op, *operands, **attrs)
    return Graph(graph.inputs, [(name, kept.get(n, n)) for name, n in graph.outputs])


def _meeting(node: Node, places: Mapping[Node, Places]) -> Places | None:
    """Where the axes of an elementwise result lie; None where its operands do not agree on that.

    An operand's axis of length 1 repeats, so it meets the others wherever it lies.
    """
    found: list[int] = []
    for from_last in range(_rank(node)):
        longer: dict[int, None] = {}
        single: dict[int, None] = {}
        for a in node.args:
            axis = _rank(a) - 1 - from_last
            if a in places and axis >= 0:
                shape = a.tensor.shape or ()  # with the axes that its rank says
                (single if shape[axis] == 1 else longer)[places[a][axis]] = None
        if len(longer) > 1:
            return None
        found.append(next(iter(longer or single)))
    return tuple(found[::-1]) if len(set(found)) == len(found) else None


def _rank(node: Node) -> int:
    return len(node.tensor.shape or ())
