"""From a typed graph to a `Loop`: the one place where code generation, the cache and loading meet."""

from __future__ import annotations

from ..codegen.llvm import BodyText, body_text
from ..codegen.llvm.target import LlvmTarget
from ..floating_point import default_environment
from ..ir.graph import Graph
from ..ops import OPERATIONS
from . import host, jit, native
from .loop import LEAST_ITEM_NS, Body, Loop


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
        _item_ns(graph),
    )


_EXACT_NS, _MEASURED_NS = 0.02, 0.4
"""An exact operation and a function on one element of four bytes, as docs/benchmarks.md has them for AVX2."""


def _item_ns(graph: Graph) -> float:
    """A rough guess, good enough to tell a call that is worth sharing out from one that is over before help comes."""
    total = 0.0
    for node in graph.nodes:
        cost = _MEASURED_NS if OPERATIONS[node.op].exactness == "measured" else _EXACT_NS
        total += cost * max(1.0, node.dtype.computed.bits / 32)
    return max(total, LEAST_ITEM_NS)


def _body(graph: Graph, target: LlvmTarget) -> Body:
    return Body(native.load_cached(("elementwise", str(graph)), target, lambda: llvm_text(graph, target).text))


@default_environment()
def llvm_text(graph: Graph, target: LlvmTarget | None = None) -> BodyText:
    """The LLVM text of ``graph``'s body (optimised, not expanded)."""
    from ..mathlib.expand import expand

    return body_text(expand(graph), target or host.host_target())


def assembly_text(graph: Graph, target: LlvmTarget | None = None) -> str:
    """The assembly of ``graph``'s body."""
    chosen = target or host.host_target()
    return jit.assembly(llvm_text(graph, chosen).text, chosen)
