"""From a typed graph to a `Loop`: the one place where code generation, the cache and loading meet."""

from __future__ import annotations

import functools
import struct
from dataclasses import replace

import numpy as np

from fuseline.codegen.llvm import BodyText, body_text, does_without, that_matter
from fuseline.codegen.llvm.body import SYMBOL
from fuseline.codegen.llvm.reduction import Reduction, reduction_text
from fuseline.codegen.llvm.stack import INSIDE_SYMBOL, SIZE_SYMBOL, on_own_stack
from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.floating_point import in_default_environment
from fuseline.ir.dtype import F64
from fuseline.ir.graph import Graph
from fuseline.ops import OPERATIONS
from fuseline.runtime import frame, host, jit, native
from fuseline.runtime.image import Image
from fuseline.runtime.loop import LEAST_ITEM_NS, Body, Loop, Part, Still, Variant


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

    def body() -> Body:
        def compiled() -> Image:
            return jit.compile_text(reduction_text(reduction), target, clean_up=True)

        return Body(native.load_cached(("reduction", repr(reduction)), target, compiled))

    return Loop((d, np.dtype(np.int64)), (d,), body)


_MOST_TO_EXPAND = 128


def _target_of_large_calls(graph: Graph, target: LlvmTarget, still: Still) -> LlvmTarget:
    """Where operands come from memory, divisions of float32 are over before the next ones are there, and the more
    instructions stand beside them, the fewer loads the processor sees ahead."""
    from fuseline.mathlib.expand import expand

    # Only short programs of exact operations do without the divider: no others are worth expanding here.
    is_short = len(graph.nodes) <= _MOST_TO_EXPAND and all(
        OPERATIONS[n.op].exactness != "measured" for n in graph.nodes
    )
    if not target.has_slow_divider or not is_short or any(n.dtype is F64 for n in graph.nodes):
        return target
    return replace(target, has_slow_divider=False) if does_without(expand(graph), target, still) else target


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
    return Body(
        native.load_cached(
            ("elementwise", str(graph), *map(str, still)),
            target,
            lambda: body_image(llvm_text(graph, target, still).text, target),
        )
    )


_LARGEST_FRAME_BYTES = 8 << 10
"""Of the caller's stack for a body; one that needs more gets memory of its own, at a microsecond or two a call. Blocks
and lists take up to some 35 KiB beside it (native/block.ll), and a thread may have 64 KiB."""
_LINES_OF_LARGE_FRAMES = 2_000
"""A text of so many lines may need more: it is compiled once, with what gives it a stack, needed or not."""
_SPARE_STACK_BYTES = 256 << 10
"""For what a body calls, and for handlers of signals."""


def body_image(text: str, target: LlvmTarget) -> Image:
    """The compiled body of LLVM ``text``, with a stack of its own where it keeps much there."""
    if not jit.is_long(text) and text.count("\n") < _LINES_OF_LARGE_FRAMES:
        image = jit.compile_text(text, target)
        if frame.frame_bytes(image, SYMBOL, target.architecture) <= _LARGEST_FRAME_BYTES:
            return image
    image = jit.compile_text(on_own_stack(text, target.architecture), target)
    needed = frame.frame_bytes(image, INSIDE_SYMBOL, target.architecture)
    if needed <= _LARGEST_FRAME_BYTES:
        return image  # its size stays 0: the caller's stack will do
    code = bytearray(image.code)
    struct.pack_into("<Q", code, image.exports[SIZE_SYMBOL], needed + _SPARE_STACK_BYTES)
    return replace(image, code=bytes(code))


@in_default_environment
def llvm_text(graph: Graph, target: LlvmTarget, still: Still = ()) -> BodyText:
    """The LLVM text of ``graph``'s body (optimised, not expanded)."""
    from fuseline.mathlib.expand import expand

    return body_text(expand(graph), target, still)


def assembly_text(graph: Graph, still: Still = ()) -> str:
    """The assembly of ``graph``'s body on this machine, for calls in which these inputs stand still."""
    target = host.host_target()
    return jit.assembly(llvm_text(graph, target, still).text, target)
