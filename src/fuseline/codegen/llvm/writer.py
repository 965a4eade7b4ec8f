"""The text of one function body in the making: LLVM names of values, the lines, and the numbers it needs."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.ir.dtype import BOOL, F16, F32, F64, DType
from fuseline.ir.node import Node

FIRST_BLOCK, ENTRY_BLOCK = "compute", "entry"
"""The labels of the basic blocks that a pass of the loop computes in first, and of that before the loop."""


@dataclass
class Writer:
    """Collects the text of one function body. ``values`` maps nodes to LLVM operands."""

    target: LlvmTarget
    lanes: int
    values: dict[Node, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    block: str = FIRST_BLOCK
    """The label of the basic block that lines are appended to."""
    lines_before: list[str] = field(default_factory=list)
    block_before: str = ENTRY_BLOCK
    """The same of what stands before the loop."""
    _names: int = 0
    registers: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    """The constants in memory that fill a register each, by their element's type and bits."""
    loaded: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Values of such constants, by block, name and number of lanes."""
    split: dict[tuple[str, str, int], list[str]] = field(default_factory=dict)
    """The pieces that a value was taken apart into, by block, value and the lanes of a piece."""

    @property
    def declarations(self) -> list[str]:
        """Declarations of the intrinsics that were called."""
        return list(self.declared.values())

    @contextmanager
    def before_loop(self) -> Iterator[None]:
        """What is written meanwhile stands before the loop."""
        inside = self.lines, self.block
        self.lines, self.block = self.lines_before, self.block_before
        try:
            yield
        finally:
            self.block_before = self.block
            self.lines, self.block = inside

    def new_name(self) -> int:
        """A number that no value or label has yet."""
        self._names += 1
        return self._names

    def assign(self, instruction: str) -> str:
        """Append ``instruction`` and return the name of its result."""
        name = f"%v{self.new_name()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def call(self, function: str, result: str, operands: list[tuple[str, str]]) -> str:
        """Call an intrinsic on (type, value) operands."""
        types = ", ".join(kind for kind, _ in operands)
        self.declared[function] = f"declare {result} @{function}({types})"
        given = ", ".join(f"{kind} {value}" for kind, value in operands)
        return self.assign(f"call {result} @{function}({given})")

    def prefetch(self) -> str:
        """The name of LLVM's prefetch, declared."""
        name = "llvm.prefetch.p0"
        self.declared[name] = f"declare void @{name}(ptr, i32, i32, i32)"
        return name

    def value(self, node: Node) -> str:
        """The LLVM operand of a node: a number in place or loaded, or the name of an earlier result."""
        found = self.values.get(node)
        if found is not None:
            return found
        bits, d = int(node.attr("bits")), node.dtype
        if bits and self.target.loads_numbers and d in (F32, F64):
            return self.constant((bits,) * (self.target.vector_bytes * 8 // d.bits), d, self.lanes)
        self.values[node] = self.number_in_place(node)
        return self.values[node]

    def number_in_place(self, node: Node) -> str:
        """A constant as a number in the text, which LLVM knows and may keep where it likes."""
        return splat(int(node.attr("bits")), node.dtype)

    def constant(self, entries: tuple[int, ...], d: DType, lanes: int) -> str:
        """A register's ``entries``, given by their bits and loaded from memory, repeated over ``lanes``.

        Loaded once in each basic block, because only then LLVM finds the value where it is used; it moves loads out of
        loops as far as registers last.
        """
        element, count = element_type(d), len(entries)
        name = self.registers.setdefault((element, entries), f"@register{len(self.registers)}")
        place = (self.block, name, lanes)
        if place in self.loaded:
            return self.loaded[place]
        value = self.assign(f"load <{count} x {element}>, ptr {name}, align {count * d.bits // 8}, !invariant.load !2")
        while count < lanes:
            order = ", ".join(f"i32 {i % count}" for i in range(2 * count))
            kind = f"<{count} x {element}>"
            value = self.assign(f"shufflevector {kind} {value}, {kind} poison, <{2 * count} x i32> <{order}>")
            count *= 2
        self.loaded[place] = value
        return value

    def pieces(self, value: str, element: str, lanes: int) -> list[str]:
        """``value``, a whole vector of ``element``, in pieces of ``lanes``; taken apart once in each basic block."""
        place = (self.block, value, lanes)
        if place not in self.split:
            whole, mask = f"<{self.lanes} x {element}>", f"<{lanes} x i32>"
            self.split[place] = [
                self.assign(f"shufflevector {whole} {value}, {whole} poison, {mask} <{_consecutive(start, lanes)}>")
                for start in range(0, self.lanes, lanes)
            ]
        return self.split[place]

    def joined(self, pieces: list[str], element: str, lanes: int) -> str:
        """The vector of ``pieces`` of ``lanes`` each, concatenated pairwise."""
        while len(pieces) > 1:
            kind, order = f"<{lanes} x {element}>", _consecutive(0, 2 * lanes)
            pairs = zip(pieces[::2], pieces[1::2], strict=True)
            pieces = [
                self.assign(f"shufflevector {kind} {a}, {kind} {b}, <{2 * lanes} x i32> <{order}>") for a, b in pairs
            ]
            lanes *= 2
        return pieces[0]

    @property
    def register_definitions(self) -> list[str]:
        """The globals that `constant` loads from."""
        definitions = []
        for (_, entries), name in self.registers.items():
            bits = self.target.vector_bytes * 8 // len(entries)
            numbers = ", ".join(f"i{bits} {entry}" for entry in entries)
            kind = f"[{len(entries)} x i{bits}]"
            definitions.append(
                f"{name} = private unnamed_addr constant {kind} [{numbers}], align {self.target.vector_bytes}"
            )
        return definitions

    def type(self, d: DType) -> str:
        """The vector type that values of ``d`` are computed in."""
        return f"<{self.lanes} x {self.element_type(d)}>"

    def element_type(self, d: DType) -> str:
        """LLVM's type of a computed element; 16-bit floats that the target cannot convert pass through as bits."""
        if d is F16 and self.target.has_half_conversion:
            return "half"
        return element_type(d)


@functools.cache
def _consecutive(start: int, count: int) -> str:
    """The mask of a shuffle that takes ``count`` neighbours."""
    return ", ".join(f"i32 {start + i}" for i in range(count))


def element_type(d: DType) -> str:
    """LLVM's type of a computed bool, integer, float32 or float64; the bits of anything else."""
    if d is BOOL:
        return "i1"
    return {"f64": "double", "f32": "float"}.get(d.name, f"i{d.bits}")


def splat(bits: int, d: DType) -> str:
    """A number, given by its bits, in every lane; floats are written as the bits of the double of equal value."""
    if d is F32 or d is F64:
        value: float = struct.unpack("<f" if d is F32 else "<d", bits.to_bytes(d.bits // 8, "little"))[0]
        (pattern,) = struct.unpack("<Q", struct.pack("<d", value))
        return f"splat ({element_type(d)} 0x{pattern:016X})"
    return f"splat ({element_type(d)} {bits & 1 if d is BOOL else bits})"
