"""One primitive, one LLVM instruction on vectors. Nothing here decides about values: `legalize` has done it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import UnsupportedError
from ...ir.dtype import BOOL, F16, F32, F64, DType
from ...ir.node import Node, const_array
from .target import LlvmTarget


@dataclass
class Writer:
    """Collects the text of one function body. ``values`` maps nodes to LLVM operands."""

    target: LlvmTarget
    lanes: int
    values: dict[Node, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    block: str = "loop"
    """The label of the basic block that lines are appended to."""

    @property
    def declarations(self) -> list[str]:
        """Declarations of the intrinsics that were called."""
        return list(self.declared.values())

    def assign(self, instruction: str) -> str:
        """Append ``instruction`` and return the name of its result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def call(self, function: str, result: str, operands: list[tuple[str, str]]) -> str:
        """Call an intrinsic on (type, value) operands."""
        types = ", ".join(kind for kind, _ in operands)
        self.declared[function] = f"declare {result} @{function}({types})"
        given = ", ".join(f"{kind} {value}" for kind, value in operands)
        return self.assign(f"call {result} @{function}({given})")

    def value(self, node: Node) -> str:
        """The LLVM operand of a node: a number in place, or the name of an earlier result."""
        found = self.values.get(node)
        if found is None:
            found = self.values[node] = splat(int(node.attr("bits")), node.dtype)
        return found

    def type(self, d: DType) -> str:
        """The vector type that values of ``d`` are computed in."""
        return f"<{self.lanes} x {self.element_type(d)}>"

    def element_type(self, d: DType) -> str:
        """LLVM's type of a computed element; 16-bit floats that the target cannot convert pass through as bits."""
        if d is F16 and self.target.has_half_conversion:
            return "half"
        return element_type(d)


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


def write(w: Writer, node: Node) -> str:
    """Append the instruction of ``node``; the operand that holds its result."""
    writer = _WRITERS.get(node.op)
    if writer is None:
        raise UnsupportedError(f"no LLVM instruction for {node.op}")
    return writer(w, node)


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────────────

_Instruction = Callable[[Writer, Node], str]


def _plain(float_name: str, signed: str, unsigned: str) -> _Instruction:
    def written(w: Writer, node: Node) -> str:
        d = node.dtype
        name = float_name if d.is_float else unsigned if d.kind == "uint" else signed
        a, b = (w.value(x) for x in node.args)
        return w.assign(f"{name} {w.type(d)} {a}, {b}")

    return written


def _intrinsic(float_name: str, signed: str = "", unsigned: str = "") -> _Instruction:
    def written(w: Writer, node: Node) -> str:
        d = node.dtype
        name = float_name if d.is_float else unsigned if d.kind == "uint" else signed
        suffix = f"v{w.lanes}{'f' if d.is_float else 'i'}{d.bits}"
        return w.call(f"llvm.{name}.{suffix}", w.type(d), [(w.type(d), w.value(a)) for a in node.args])

    return written


def _quotient(float_name: str, signed: str, unsigned: str) -> _Instruction:
    """A division or a remainder.

    Where LLVM's selection of instructions finds every lane of both float operands zero, it takes the result for zero
    too, as it is of a sum or a product (SelectionDAG's SimplifyDemandedVectorElts), and 0/0 is NaN no more. It cannot
    look through a fence, which is no instruction of the processor.
    """
    plain = _plain(float_name, signed, unsigned)

    def written(w: Writer, node: Node) -> str:
        if not node.dtype.is_float or any(a.op == "input" or _is_nonzero(a) for a in node.args):
            return plain(w, node)
        kind, (a, b) = w.type(node.dtype), (w.value(x) for x in node.args)
        opaque = w.call(f"llvm.arithmetic.fence.v{w.lanes}f{node.dtype.bits}", kind, [(kind, b)])
        return w.assign(f"{float_name} {kind} {a}, {opaque}")

    return written


def _is_nonzero(node: Node) -> bool:
    return node.op == "const" and bool(const_array(node) != 0)


def _negate(w: Writer, node: Node) -> str:
    a = w.value(node.args[0])
    kind = w.type(node.dtype)
    return w.assign(f"fneg {kind} {a}" if node.dtype.is_float else f"sub {kind} zeroinitializer, {a}")


def _absolute(w: Writer, node: Node) -> str:
    if node.dtype.is_float:
        return _intrinsic("fabs")(w, node)
    a, kind = w.value(node.args[0]), w.type(node.dtype)
    return w.call(f"llvm.abs.v{w.lanes}i{node.dtype.bits}", kind, [(kind, a), ("i1", "false")])


def _fused(w: Writer, node: Node) -> str:
    if node.dtype.is_float:
        return _intrinsic("fma")(w, node)
    a, b, c = (w.value(x) for x in node.args)
    product = w.assign(f"mul {w.type(node.dtype)} {a}, {b}")
    return w.assign(f"add {w.type(node.dtype)} {product}, {c}")


def _invert(w: Writer, node: Node) -> str:
    ones = "splat (i1 true)" if node.dtype is BOOL else f"splat (i{node.dtype.bits} -1)"
    return w.assign(f"xor {w.type(node.dtype)} {w.value(node.args[0])}, {ones}")


# ── choice and conversion ────────────────────────────────────────────────────────────────────────────────────────────


def _compare(float_name: str, signed: str, unsigned: str) -> _Instruction:
    def written(w: Writer, node: Node) -> str:
        d = node.args[0].dtype
        a, b = (w.value(x) for x in node.args)
        if d.is_float:
            return w.assign(f"fcmp {float_name} {w.type(d)} {a}, {b}")
        return w.assign(f"icmp {signed if d.kind == 'int' else unsigned} {w.type(d)} {a}, {b}")

    return written


def _where(w: Writer, node: Node) -> str:
    condition, a, b = (w.value(x) for x in node.args)
    kind = w.type(node.dtype)
    return w.assign(f"select <{w.lanes} x i1> {condition}, {kind} {a}, {kind} {b}")


def _cast(w: Writer, node: Node) -> str:
    source, target = node.args[0].dtype, node.dtype
    a = w.value(node.args[0])
    if source is target:
        return a
    return w.assign(f"{_conversion(source, target)} {w.type(source)} {a} to {w.type(target)}")


def _conversion(source: DType, target: DType) -> str:
    source_bits = 1 if source is BOOL else source.bits
    if source.is_float and target.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi" if target.kind == "int" else "fptoui"
    if target.is_float:
        return "sitofp" if source.kind == "int" else "uitofp"
    if target.bits == source_bits:
        return "bitcast"
    if target.bits < source_bits:
        return "trunc"
    return "sext" if source.kind == "int" else "zext"


def _bitcast(w: Writer, node: Node) -> str:
    source, target = w.type(node.args[0].dtype), w.type(node.dtype)
    a = w.value(node.args[0])
    if BOOL in (node.dtype, node.args[0].dtype):
        return _bitcast_bool(w, node, a)
    return a if source == target else w.assign(f"bitcast {source} {a} to {target}")


def _bitcast_bool(w: Writer, node: Node, a: str) -> str:
    if node.dtype is node.args[0].dtype:
        return a
    if node.dtype is BOOL:
        return w.assign(f"icmp ne {w.type(node.args[0].dtype)} {a}, zeroinitializer")
    return w.assign(f"zext <{w.lanes} x i1> {a} to {w.type(node.dtype)}")


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lookup(w: Writer, node: Node) -> str:
    table: tuple[int, ...] = node.attr("table")
    d = node.dtype
    index = _index(w, node.args[0])
    if len(table) == 1:
        return splat(table[0], d)
    small = len(table) <= _SMALL_TABLE and d.bits == 32
    if small and w.target.permute == "none":
        return _by_choices(w, index, table, d)
    part = (_SMALL_PERMUTES if small else _PERMUTES).get((w.target.permute, d.bits))
    if part is not None and w.lanes % part.lanes == 0 and len(table) <= part.largest_table:
        bits = _by_permutes(w, index, table, part)
    else:
        bits = _by_loads(w, index, table, d.bits)
    kind = f"<{w.lanes} x i{d.bits}>"
    return bits if kind == w.type(d) else w.assign(f"bitcast {kind} {bits} to {w.type(d)}")


def _index(w: Writer, node: Node) -> str:
    """The index as 32-bit integers; what is beyond the table's length is not cut off yet."""
    a, d = w.value(node), node.dtype
    if d.bits != 32:
        a = w.assign(f"{'trunc' if d.bits > 32 else 'zext'} {w.type(d)} {a} to <{w.lanes} x i32>")
    return a


def _within(w: Writer, index: str, entries: int) -> str:
    """The index modulo the table's length."""
    return w.assign(f"and <{w.lanes} x i32> {index}, splat (i32 {entries - 1})")


def _by_choices(w: Writer, index: str, table: tuple[int, ...], d: DType) -> str:
    """Look up in a table of two or four entries by choosing on the bits of the index."""
    kind, chosen = w.type(d), [splat(entry, d) for entry in table]
    for bit in range(len(table).bit_length() - 1):
        picked = w.assign(f"and <{w.lanes} x i32> {index}, splat (i32 {1 << bit})")
        high = w.assign(f"icmp ne <{w.lanes} x i32> {picked}, zeroinitializer")
        pairs = zip(chosen[::2], chosen[1::2], strict=True)
        chosen = [w.assign(f"select <{w.lanes} x i1> {high}, {kind} {b}, {kind} {a}") for a, b in pairs]
    return chosen[0]


@dataclass(frozen=True, slots=True)
class _Permute:
    """An instruction that picks ``lanes`` elements from a register of as many, by the low bits of the index."""

    intrinsic: str
    lanes: int
    element: str
    index: str
    largest_table: int


_PERMUTES = {
    ("avx2", 32): _Permute("llvm.x86.avx2.permps", 8, "float", "i32", 32),
    ("avx512", 32): _Permute("llvm.x86.avx512.permvar.sf.512", 16, "float", "i32", 64),
    ("avx512", 64): _Permute("llvm.x86.avx512.permvar.df.512", 8, "double", "i64", 32),
}


_SMALL_TABLE = 4
_SMALL_PERMUTES = {
    ("avx2", 32): _Permute("llvm.x86.avx.vpermilvar.ps.256", 8, "float", "i32", _SMALL_TABLE),
    ("avx512", 32): _Permute("llvm.x86.avx512.vpermilvar.ps.512", 16, "float", "i32", _SMALL_TABLE),
}
"""These pick within each 128 bits: half the work of the others, on tables of four entries that are repeated."""


def _by_permutes(w: Writer, index: str, table: tuple[int, ...], p: _Permute) -> str:
    """Look up in registers: each part of the table is permuted, and higher index bits choose among the results."""
    bits = 32 if p.element == "float" else 64
    if p.lanes < len(table):
        index = _within(w, index, len(table))
    if p.index == "i64":
        index = w.assign(f"zext <{w.lanes} x i32> {index} to <{w.lanes} x i64>")
    padded = table * max(p.lanes // len(table), 1)
    parts = [padded[i : i + p.lanes] for i in range(0, len(padded), p.lanes)]
    pieces = []
    for start in range(0, w.lanes, p.lanes):
        picked = ", ".join(f"i32 {start + i}" for i in range(p.lanes))
        whole = f"<{w.lanes} x {p.index}>"
        piece = w.assign(f"shufflevector {whole} {index}, {whole} poison, <{p.lanes} x i32> <{picked}>")
        pieces.append(_piece_lookup(w, piece, parts, p, bits))
    return _joined(w, pieces, p.lanes, bits)


def _piece_lookup(w: Writer, index: str, parts: list[tuple[int, ...]], p: _Permute, bits: int) -> str:
    element, indices, raw = (f"<{p.lanes} x {t}>" for t in (p.element, p.index, f"i{bits}"))
    chosen = []
    for part in parts:
        numbers = ", ".join(f"i{bits} {entry}" for entry in part)
        source = w.assign(f"bitcast {raw} <{numbers}> to {element}")
        found = w.call(p.intrinsic, element, [(element, source), (indices, index)])
        chosen.append(w.assign(f"bitcast {element} {found} to {raw}"))
    step = p.lanes
    while len(chosen) > 1:
        bit = w.assign(f"and {indices} {index}, splat ({p.index} {step})")
        high = w.assign(f"icmp ne {indices} {bit}, zeroinitializer")
        pairs = zip(chosen[::2], chosen[1::2], strict=True)
        chosen = [w.assign(f"select <{p.lanes} x i1> {high}, {raw} {b}, {raw} {a}") for a, b in pairs]
        step *= 2
    return chosen[0]


def _joined(w: Writer, pieces: list[str], lanes: int, bits: int) -> str:
    """Concatenate vectors pairwise."""
    while len(pieces) > 1:
        order = ", ".join(f"i32 {i}" for i in range(2 * lanes))
        kind = f"<{lanes} x i{bits}>"
        pieces = [
            w.assign(f"shufflevector {kind} {a}, {kind} {b}, <{2 * lanes} x i32> <{order}>")
            for a, b in zip(pieces[::2], pieces[1::2], strict=True)
        ]
        lanes *= 2
    return pieces[0]


def _by_loads(w: Writer, index: str, table: tuple[int, ...], bits: int) -> str:
    """Look up element by element in memory."""
    index = _within(w, index, len(table))
    name = f"@table{len(w.globals)}"
    entries = ", ".join(f"i{bits} {entry}" for entry in table)
    w.globals.append(f"{name} = private unnamed_addr constant [{len(table)} x i{bits}] [{entries}], align 64")
    result = "poison"
    for lane in range(w.lanes):
        i = w.assign(f"extractelement <{w.lanes} x i32> {index}, i64 {lane}")
        at = w.assign(f"getelementptr i{bits}, ptr {name}, i32 {i}")
        entry = w.assign(f"load i{bits}, ptr {at}, align {bits // 8}")
        result = w.assign(f"insertelement <{w.lanes} x i{bits}> {result}, i{bits} {entry}, i64 {lane}")
    return result


_WRITERS: dict[str, _Instruction] = {
    "add": _plain("fadd", "add", "add"),
    "sub": _plain("fsub", "sub", "sub"),
    "mul": _plain("fmul", "mul", "mul"),
    "div": _quotient("fdiv", "", ""),
    "fmod": _quotient("frem", "srem", "urem"),
    "quotient": _plain("", "sdiv", "udiv"),
    "fma": _fused,
    "neg": _negate,
    "abs": _absolute,
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "rint": _intrinsic("nearbyint"),
    "with_sign": _intrinsic("copysign"),
    "minimum": _intrinsic("minimum", "smin", "umin"),
    "maximum": _intrinsic("maximum", "smax", "umax"),
    "and": _plain("", "and", "and"),
    "or": _plain("", "or", "or"),
    "xor": _plain("", "xor", "xor"),
    "invert": _invert,
    "shl": _plain("", "shl", "shl"),
    "shr": _plain("", "ashr", "lshr"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
    "lookup": _lookup,
}
