"""What is done when code is not in the cache: from a typed graph to LLVM text, and from text to a compiled body.

A process whose kernels are all in the cache never imports this module, nor most of the code generator.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from fuseline.codegen.llvm.body import BodyText, body_text
from fuseline.codegen.llvm.divider import does_without
from fuseline.codegen.llvm.stack import on_own_stack
from fuseline.codegen.llvm.symbols import INSIDE_SYMBOL, SIZE_SYMBOL, SYMBOL
from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.floating_point import in_default_environment
from fuseline.ir.dtype import F64
from fuseline.ir.graph import Graph
from fuseline.mathlib.expand import expand
from fuseline.ops import OPERATIONS
from fuseline.runtime import frame, host, jit
from fuseline.runtime.image import Image
from fuseline.runtime.loop import Still

_MOST_TO_EXPAND = 128


def target_of_large_calls(graph: Graph, target: LlvmTarget, still: Still) -> LlvmTarget:
    """Where operands come from memory, divisions of float32 are over before the next ones are there, and the more
    instructions stand beside them, the fewer loads the processor sees ahead."""
    # Only short programs of exact operations do without the divider: no others are worth expanding here.
    is_short = len(graph.nodes) <= _MOST_TO_EXPAND and all(
        OPERATIONS[n.op].exactness != "measured" for n in graph.nodes
    )
    if not target.has_slow_divider or not is_short or any(n.dtype is F64 for n in graph.nodes):
        return target
    return replace(target, has_slow_divider=False) if does_without(expand(graph), target, still) else target


@in_default_environment
def llvm_text(graph: Graph, target: LlvmTarget, still: Still = ()) -> BodyText:
    """The LLVM text of ``graph``'s body (optimised, not expanded)."""
    return body_text(expand(graph), target, still)


def assembly_text(graph: Graph, still: Still = ()) -> str:
    """The assembly of ``graph``'s body on this machine, for calls in which these inputs stand still."""
    target = host.host_target()
    return jit.assembly(llvm_text(graph, target, still).text, target)


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
