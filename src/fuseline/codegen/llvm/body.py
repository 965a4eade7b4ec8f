"""The loop body of an elementwise kernel as LLVM text: one loop over whole vectors, all outputs in it.

Each primitive is one instruction on vectors of `lanes` elements. Tails, strides, repeated operands and threads are the
business of the caller (runtime/native/block.ll), so there is one body and every element goes through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuseline.codegen.legalize import legalize
from fuseline.codegen.llvm import instructions, lockstep
from fuseline.codegen.llvm.divider import roots_by_products, without_divisions, write_root
from fuseline.codegen.llvm.order import RareWork, schedule
from fuseline.codegen.llvm.rare import write as write_rare
from fuseline.codegen.llvm.still import Still, before_loop
from fuseline.codegen.llvm.symbols import LANES_SYMBOL, SYMBOL
from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.codegen.llvm.writer import ENTRY_BLOCK, FIRST_BLOCK, Writer
from fuseline.errors import LimitError
from fuseline.ir.dtype import BOOL, DType
from fuseline.ir.graph import Graph
from fuseline.ir.node import Node

_REGISTERS_A_VALUE, _REGISTERS_A_VALUE_IF_SHORT = 2, 4
"""Vectors are this many registers wide: independent chains hide each other's latency, and a pass of the loop costs some
instructions of its own. 64-bit values take twice as many: their functions are longer chains, and gain more from it than
they lose by spills."""
_SHORT_BODY = 32
"""Instructions of a body on operands of at most 32 bits whose vectors are wide. Longer ones gain 2 to 5 % and take
half as long again to compile."""
_SMALLEST_STREAMED_BYTES = 16
_LINE_BYTES, _PREFETCHED_BYTES, _PREFETCHED_BYTES_OF_ONE = 64, 1024, 3072
"""A cache line, and how far ahead lines are asked for: half as far helps half as much, twice as far no more, but for
one operand alone on the processors that `LlvmTarget.prefetches_always` names."""


MAX_INSTRUCTIONS, MAX_OPERANDS = 250_000, 10_000
"""LLVM takes some 25 KiB and 2 ms for an instruction of a long body; with operands its time grows as their square."""


@dataclass(frozen=True, slots=True)
class BodyText:
    """``text`` defines @body(ptr operands, ptr increments, i64 vectors, i64 flags); see runtime/native/block.ll."""

    text: str
    lanes: int
    """Elements of a vector, a power of two."""


def body_text(graph: Graph, target: LlvmTarget, still: Sequence[int] = ()) -> BodyText:
    """The body of ``graph``, expanded to primitives. Operands are the inputs in order, then the outputs.

    Inputs whose positions are in ``still`` have to have increments of 0: what is computed of them alone stands before
    the loop.

    Raises `UnsupportedError` for reductions, functions that are not expanded and dtypes that are only storage, and
    `LimitError` for more than LLVM can take in.
    """
    legal = legalize(graph, native_half=target.has_half_conversion, native_bfloat16=target.has_bfloat16_rounding)
    still_inputs = dict.fromkeys(legal.inputs[i] for i in still)
    is_short = _is_short(legal)
    known = Still(still_inputs)
    legal = without_divisions(legal, target, known)
    roots = roots_by_products(legal, target, known)
    _check_size(legal)
    order = schedule(legal)
    before = before_loop(order, still_inputs)
    in_steps = lockstep.is_chain(legal, order)
    lanes = _lanes(legal, target, in_steps or is_short)
    writer = Writer(target, lanes)
    for index, node in enumerate(legal.inputs):
        if node in still_inputs:
            with writer.before_loop():
                writer.values[node] = _loaded(writer, _repeated(writer, index, node.dtype), node.dtype)
        else:
            stored = f"<{writer.lanes} x {storage_type(node.dtype)}>"
            value = writer.assign(f"load {stored}, ptr %p{index}, align 1")
            writer.values[node] = _loaded(writer, value, node.dtype)
    for position, item in enumerate(order):
        if position in before:
            with writer.before_loop():
                _write(writer, item, roots)
        else:
            _write(writer, item, roots)
            if in_steps and isinstance(item, Node):
                lockstep.step(writer, item)
    results = [(writer.value(node), node.dtype) for node in legal.output_nodes]
    asks = target.prefetches_always or not is_short
    asked = [i for i, node in enumerate(legal.inputs) if node not in still_inputs] if asks else []
    return BodyText(_function(writer, legal.inputs, results, asked), lanes)


def _write(writer: Writer, item: Node | RareWork, roots: frozenset[Node]) -> None:
    if isinstance(item, RareWork):
        write_rare(writer, item)
    elif item in roots:
        writer.values[item] = write_root(writer, item)
    else:
        writer.values[item] = instructions.write(writer, item)


def _check_size(graph: Graph) -> None:
    operands = len(graph.inputs) + len(graph.outputs)
    for count, limit, what in (
        (len(graph.nodes), MAX_INSTRUCTIONS, "instructions"),
        (operands, MAX_OPERANDS, "operands"),
    ):
        if count > limit:
            raise LimitError(
                f"a compiled kernel has at most {limit:,} {what}, and this program has {count:,}; split it, or run its "
                'NumPy text, emit("numpy")'
            )


def _lanes(graph: Graph, target: LlvmTarget, is_short: bool) -> int:
    """As many elements of the widest computed type as fit the registers that a value takes."""
    widest_operand = max((n.dtype.bits for n in (*graph.inputs, *graph.output_nodes)), default=32)
    widest = max([widest_operand, *(n.dtype.bits for n in graph.nodes)])
    registers = _REGISTERS_A_VALUE_IF_SHORT if is_short and widest_operand <= 32 else _REGISTERS_A_VALUE
    return target.vector_bytes * 8 * registers // min(widest, 32)


def _is_short(graph: Graph) -> bool:
    return len(graph.nodes) <= _SHORT_BODY


def storage_type(d: DType) -> str:
    """LLVM's type of an element in memory."""
    if d.is_float and d.bits >= 32:
        return "float" if d.bits == 32 else "double"
    return f"i{d.bits}"


def _repeated(writer: Writer, index: int, d: DType) -> str:
    """The one element of a still operand in every lane, in a way that LLVM sees it: it keeps one register of these."""
    kind, stored = storage_type(d), f"<{writer.lanes} x {storage_type(d)}>"
    element = writer.assign(f"load {kind}, ptr %s{index}, align 1")
    first = writer.assign(f"insertelement {stored} poison, {kind} {element}, i64 0")
    return writer.assign(f"shufflevector {stored} {first}, {stored} poison, <{writer.lanes} x i32> zeroinitializer")


def _loaded(writer: Writer, value: str, d: DType) -> str:
    """``value``, as it is stored, in the form that is computed with."""
    stored = f"<{writer.lanes} x {storage_type(d)}>"
    if d is BOOL:
        return writer.assign(f"icmp ne {stored} {value}, zeroinitializer")
    if d.name == "f16" and writer.target.has_half_conversion:
        return writer.assign(f"bitcast {stored} {value} to <{writer.lanes} x half>")
    return value


def _storable(writer: Writer, value: str, d: DType) -> str:
    if d is BOOL:
        return writer.assign(f"zext <{writer.lanes} x i1> {value} to <{writer.lanes} x i8>")
    if d.name == "f16" and writer.target.has_half_conversion:
        return writer.assign(f"bitcast <{writer.lanes} x half> {value} to <{writer.lanes} x i16>")
    return value


def _function(writer: Writer, inputs: Sequence[Node], results: list[tuple[str, DType]], asked: Sequence[int]) -> str:
    stored = [(_storable(writer, value, d), storage_type(d), d.bits // 8) for value, d in results]
    operands = range(len(inputs) + len(results))
    lines = [
        f"define void @{SYMBOL}(ptr %operands, ptr %increments, i64 %vectors, i64 %flags) #0 {{",
        f"{ENTRY_BLOCK}:",
    ]
    for i in operands:
        lines += [
            f"  %a{i} = getelementptr ptr, ptr %operands, i64 {i}",
            f"  %s{i} = load ptr, ptr %a{i}, align 8",
            f"  %b{i} = getelementptr i64, ptr %increments, i64 {i}",
            f"  %d{i} = load i64, ptr %b{i}, align 8",
        ]
    lines += ["  %past = and i64 %flags, 1", "  %streaming = icmp ne i64 %past, 0"]
    if asked:
        lines += ["  %ahead = and i64 %flags, 4", "  %asking = icmp ne i64 %ahead, 0"]
    lines += [*writer.lines_before, "  br label %loop", "loop:"]
    lines.append(f"  %n = phi i64 [ 0, %{writer.block_before} ], [ %m, %next ]")
    lines += [f"  %p{i} = phi ptr [ %s{i}, %{writer.block_before} ], [ %q{i}, %next ]" for i in operands]
    if asked:
        lines += [f"  br i1 %asking, label %ask, label %{FIRST_BLOCK}", "ask:"]
        is_far = len(asked) == 1 and writer.target.prefetches_always
        for i in asked:
            lines += _asked_for(writer, i, inputs[i].dtype, _PREFETCHED_BYTES_OF_ONE if is_far else _PREFETCHED_BYTES)
    lines += [f"  br label %{FIRST_BLOCK}", f"{FIRST_BLOCK}:", *writer.lines]
    lines += ["  br i1 %streaming, label %past_caches, label %into_caches", "past_caches:"]
    lines += [
        f"  store <{writer.lanes} x {kind}> {value}, ptr %p{len(inputs) + i}, {_streamed(writer.lanes * size)}"
        for i, (value, kind, size) in enumerate(stored)
    ]
    lines += ["  br label %next", "into_caches:"]
    lines += [
        f"  store <{writer.lanes} x {kind}> {value}, ptr %p{len(inputs) + i}, align 1"
        for i, (value, kind, _) in enumerate(stored)
    ]
    lines += ["  br label %next", "next:"]
    lines += [f"  %q{i} = getelementptr i8, ptr %p{i}, i64 %d{i}" for i in operands]
    lines += [
        "  %m = add i64 %n, 1",
        "  %more = icmp slt i64 %m, %vectors",
        "  br i1 %more, label %loop, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    attributes = 'attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }'
    tail = [*writer.declarations, attributes, *_METADATA]
    # Whoever loads compiled code from a cache has to know its vectors' length.
    writer.globals.append(f"@{LANES_SYMBOL} = constant i64 {writer.lanes}")
    return "\n".join([*writer.globals, *writer.register_definitions, *lines, "", *tail, ""])


_METADATA = (
    "!0 = !{i32 1}",
    '!1 = !{!"branch_weights", i32 1, i32 1000}',
    "!2 = !{}",
    '!3 = !{!"branch_weights", i32 1000, i32 1}',
)


def _asked_for(writer: Writer, index: int, d: DType, distance_bytes: int) -> list[str]:
    """Prefetches of what operand ``index`` is read from a few passes later.

    A body that computes much fills the processor's queues, and the loads that would find the next lines missing wait
    behind them; in a short body they would only take turns of other loads, but on the processors that the target names.
    Calls whose operands come from memory ask.
    """
    lines = []
    function = writer.prefetch()
    for start in range(0, writer.lanes * d.bits // 8, _LINE_BYTES):
        at = f"%ahead{index}_{start}"
        lines.append(f"  {at} = getelementptr i8, ptr %p{index}, i64 {distance_bytes + start}")
        lines.append(f"  call void @{function}(ptr {at}, i32 0, i32 3, i32 1)")
    return lines


def _streamed(vector_bytes: int) -> str:
    if vector_bytes < _SMALLEST_STREAMED_BYTES:
        return "align 1"
    return f"align {min(vector_bytes, 64)}, !nontemporal !0"
