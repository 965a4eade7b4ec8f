"""Compiled loops of small graphs of primitives, for the tests of the runtime and of code generation."""

from __future__ import annotations

import functools

from fuseline.codegen.llvm.body import body_text
from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import F32, DType
from fuseline.ir.graph import Graph
from fuseline.runtime import host
from fuseline.runtime.generate import body_image
from fuseline.runtime.image import LoadedImage
from fuseline.runtime.loop import Body, Loop, Still, Variant


def loop_of(graph: Graph, target: LlvmTarget | None = None) -> Loop:
    """A loop of a graph that holds only primitives, compiled past the cache; a body for any still inputs."""
    chosen = target or host.host_target()
    inputs, outputs = (tuple(n.dtype.numpy for n in nodes) for nodes in (graph.inputs, graph.output_nodes))

    def knowing(still: Still, variant: Variant | None = None) -> Loop:
        def compile_body() -> Body:
            return Body(LoadedImage(body_image(body_text(graph, chosen, still).text, chosen)))

        return Loop(inputs, outputs, compile_body, variant=variant)

    return knowing((), lambda still, is_large: knowing(still) if still else None)


def multiply_add_graph(d: DType = F32) -> Graph:
    """out = x*b + r."""
    x, b, r = (Expr(input_node(name, d)) for name in "xbr")
    return Graph([x.node, b.node, r.node], [("out", (x * b + r).node)])


@functools.cache
def multiply_add(d: DType = F32) -> Loop:
    """The loop of `multiply_add_graph`, compiled once."""
    return loop_of(multiply_add_graph(d))
