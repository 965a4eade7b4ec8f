"""From a typed graph to a `Loop`: the one place where code generation, the cache and loading meet."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from fuseline.codegen.llvm.still import that_matter
from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.ir.graph import Graph
from fuseline.ops import OPERATIONS
from fuseline.runtime import host, native
from fuseline.runtime.image import Image
from fuseline.runtime.loop import LEAST_ITEM_NS, Body, Loop, Part, Still, Variant

if TYPE_CHECKING:
    from fuseline.codegen.llvm.reduction import Reduction

# fuseline.runtime.generate, and with it the code generator, is imported by what needs a body that is not in the cache.


def elementwise_loop(graph: Graph) -> Loop:
    """The loop of an elementwise ``graph`` (optimised, not expanded). Nothing is compiled until the loop is needed.

    Raises `UnsupportedError` for dtypes that compiled loops do not read or write.
    """
    target = host.host_target()
    variants: dict[tuple[Still, LlvmTarget], Loop] = {}

    def variant(still: Still, is_large: bool) -> Loop | None:
        chosen = _target_of_large_calls(graph, target, still) if is_large else target
        matter = that_matter(graph, chosen, still)
        if not matter and chosen is target:
            return None
        key = matter, chosen
        if key not in variants:
            variants[key] = _loop(graph, chosen, matter)
        return variants[key]

    def part(positions: tuple[int, ...]) -> Loop:
        return elementwise_loop(Graph(graph.inputs, [graph.outputs[i] for i in positions]))

    return _loop(graph, target, (), variant, part)


@functools.cache
def reducing_loop(reduction: Reduction) -> Loop:
    """The loop of a reduction; its operands are those of `reduction_text`."""
    target, d = host.host_target(), reduction.dtype.numpy

    def compiled() -> Image:
        from fuseline.codegen.llvm.reduction import reduction_text
        from fuseline.runtime import jit

        return jit.compile_text(reduction_text(reduction), target, clean_up=True)

    def body() -> Body:
        return Body(native.load_cached(("reduction", repr(reduction)), target, compiled))

    return Loop((d, np.dtype(np.int64)), (d,), body)


def _target_of_large_calls(graph: Graph, target: LlvmTarget, still: Still) -> LlvmTarget:
    if not target.has_slow_divider:
        return target
    from fuseline.runtime.generate import target_of_large_calls

    return target_of_large_calls(graph, target, still)


def _loop(
    graph: Graph, target: LlvmTarget, still: Still, variant: Variant | None = None, part: Part | None = None
) -> Loop:
    return Loop(
        tuple(node.dtype.numpy for node in graph.inputs),
        tuple(node.dtype.numpy for node in graph.output_nodes),
        lambda: _body(graph, target, still),
        _item_ns(graph),
        variant,
        part,
    )


_EXACT_NS, _MEASURED_NS = 0.02, 0.4
"""An exact operation and a function on one element of four bytes, about what an AVX2 processor takes."""


def _item_ns(graph: Graph) -> float:
    """A rough guess, good enough to tell a call that is worth sharing out from one that is over before help comes."""
    total = 0.0
    for node in graph.nodes:
        cost = _MEASURED_NS if OPERATIONS[node.op].exactness == "measured" else _EXACT_NS
        total += cost * max(1.0, node.dtype.computed.bits / 32)
    return max(total, LEAST_ITEM_NS)


def _body(graph: Graph, target: LlvmTarget, still: Still) -> Body:
    def compiled() -> Image:
        from fuseline.runtime.generate import body_image, llvm_text

        return body_image(llvm_text(graph, target, still).text, target)

    return Body(native.load_cached(("elementwise", str(graph), *map(str, still)), target, compiled))
