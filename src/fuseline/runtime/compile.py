"""From a typed graph to a `Loop`: the one place where code generation, the cache and loading meet."""

from __future__ import annotations

from ..codegen.llvm import BodyText, body_text
from ..codegen.llvm.target import LlvmTarget
from ..ir.graph import Graph
from . import host, jit, native
from .loop import Body, Loop


def elementwise_loop(graph: Graph, target: LlvmTarget | None = None) -> Loop:
    """The loop of an elementwise ``graph`` (optimised, not expanded). Nothing is compiled until the loop is needed.

    ``target`` is this machine's unless another that it can run is given. Raises `UnsupportedError` for dtypes that
    compiled loops do not read or write.
    """
    chosen = target or host.host_target()
    return Loop(
        tuple(node.dtype.numpy for node in graph.inputs),
        tuple(node.dtype.numpy for node in graph.output_nodes),
        lambda: _body(graph, chosen),
    )


def _body(graph: Graph, target: LlvmTarget) -> Body:
    return Body(native.load_cached(("elementwise", str(graph)), target, lambda: llvm_text(graph, target).text))


def llvm_text(graph: Graph, target: LlvmTarget | None = None) -> BodyText:
    """The LLVM text of ``graph``'s body (optimised, not expanded)."""
    from ..mathlib.expand import expand

    return body_text(expand(graph), target or host.host_target())


def assembly_text(graph: Graph, target: LlvmTarget | None = None) -> str:
    """The assembly of ``graph``'s body."""
    chosen = target or host.host_target()
    return jit.assembly(llvm_text(graph, chosen).text, chosen)
