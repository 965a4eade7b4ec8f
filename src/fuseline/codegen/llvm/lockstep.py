"""Bodies that are one long chain, as a polynomial is: the registers of a vector advance through it together.

LLVM orders instructions so that few values wait, which runs the chain of one register after that of another. Each step
then waits for the one before it, and the queues of the processor are too short to find the next register's. Where few
values are alive, all registers of a vector take a step before any takes the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuseline.codegen.llvm.writer import Writer
from fuseline.ir.graph import Graph
from fuseline.ir.node import Node

_LONG_CHAIN = 8
_FEW_VALUES = 3
"""So that four registers of each leave some for constants where there are 16."""
_STEPS = frozenset({"add", "sub", "mul", "div", "fma", "neg", "abs", "sqrt"})
_REGISTER_CLASSES = {"x86_64": "x", "aarch64": "w"}


def is_chain(graph: Graph, order: Sequence[object]) -> bool:
    """Whether ``graph``'s instructions, in ``order``, are a long chain of float arithmetic with few values alive."""
    nodes = [node for node in order if isinstance(node, Node)]
    if len(nodes) < _LONG_CHAIN or len(nodes) != len(order):
        return False
    dtype = nodes[0].dtype
    if any(n.op not in _STEPS or n.dtype is not dtype for n in nodes) or not dtype.is_float:
        return False
    return _depth(nodes) >= _LONG_CHAIN and _most_alive(graph, nodes) <= _FEW_VALUES


def _depth(nodes: Sequence[Node]) -> int:
    depth: dict[Node, int] = {}
    for node in nodes:
        depth[node] = 1 + max((depth.get(a, 0) for a in node.args), default=0)
    return max(depth.values())


def _most_alive(graph: Graph, nodes: Sequence[Node]) -> int:
    """Values that are alive together at most: inputs from the start, results until their last use."""
    last_use = {a: i for i, node in enumerate(nodes) for a in node.args if a.op != "const"}
    last_use |= dict.fromkeys(graph.output_nodes, len(nodes))
    alive = most = len([n for n in graph.inputs if n in last_use])
    for i, node in enumerate(nodes):
        alive -= sum(last_use.get(a) == i for a in set(node.args))
        alive += 1
        most = max(most, alive)
    return most


def step(w: Writer, node: Node) -> None:
    """Make every register of ``node``'s value wait for all of them, by an instruction that the processor never sees."""
    element, value = w.element_type(node.dtype), w.values[node]
    lanes = w.target.vector_bytes * 8 // node.dtype.bits
    register = f"<{lanes} x {element}>"
    pieces = w.pieces(value, element, lanes)
    # AVX-512 has twice as many registers as the class that instructions without it can name.
    kind = "v" if w.target.permute == "avx512" else _REGISTER_CLASSES[w.target.architecture]
    constraints = ",".join([f"={kind}"] * len(pieces) + [str(i) for i in range(len(pieces))])
    results = "{ " + ", ".join([register] * len(pieces)) + " }"
    given = ", ".join(f"{register} {p}" for p in pieces)
    together = w.assign(f'call {results} asm "", "{constraints}"({given})')
    pieces = [w.assign(f"extractvalue {results} {together}, {i}") for i in range(len(pieces))]
    w.values[node] = w.joined(pieces, element, lanes)
