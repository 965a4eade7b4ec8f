"""Dead code: instructions that no output depends on. Inputs stay, because they are the program's signature."""

from __future__ import annotations

from fuseline.ir.graph import Graph


def eliminate_dead_code(graph: Graph) -> Graph:
    """The graph without unused instructions, the others in their order."""
    needed = set(graph.output_nodes)
    for node in reversed(graph.nodes):  # users before their operands
        if node in needed:
            needed.update(node.args)
    nodes = [n for n in graph.nodes if n in needed]
    if len(nodes) == len(graph.nodes):
        return graph
    names = {n: name for n, name in graph.names.items() if n in needed}
    return Graph(graph.inputs, graph.outputs, nodes, names)
