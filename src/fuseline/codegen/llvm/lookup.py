"""Small constant tables, looked up in registers where the target permutes them, else by choices or loads."""

from __future__ import annotations

from dataclasses import dataclass

from fuseline.codegen.llvm.writer import Writer, splat
from fuseline.ir.dtype import F32, DType
from fuseline.ir.node import Node


def write(w: Writer, node: Node) -> str:
    """Append the lookup of ``node``; the operand that holds its result."""
    table: tuple[int, ...] = node.attr("table")
    d = node.dtype
    if len(table) == 1:
        return splat(table[0], d)
    within_16_bytes = len(table) * d.bits <= 128 and d.bits == 32
    part = (_SMALL_PERMUTES if within_16_bytes else _PERMUTES).get((w.target.permute, d.bits))
    if part is not None and w.lanes % part.lanes == 0 and len(table) <= part.largest_table:
        index = _index(w, node.args[0], 64 if part.index == "i64" else 32)
        return _of_type(w, d, _by_permutes(w, index, table, part), part.element)
    index = _index(w, node.args[0])
    if w.target.permute == "avx2" and d.bits == 64 and len(table) <= _LARGEST_TABLE_OF_HALVES:
        return _of_type(w, d, _by_halves(w, index, table), "i64")
    if w.target.permute == "bytes" and d.bits >= 32 and len(table) * d.bits <= _LARGEST_BYTE_TABLE_BITS:
        return _of_type(w, d, _by_bytes(w, index, table, d.bits), f"i{d.bits}")
    if w.target.permute == "none" and d.bits == 32 and len(table) <= _LARGEST_CHOICE:
        return _by_choices(w, index, table, d)
    return _of_type(w, d, _by_loads(w, index, table, d.bits), f"i{d.bits}")


def _of_type(w: Writer, d: DType, found: str, element: str) -> str:
    kind = f"<{w.lanes} x {element}>"
    return found if kind == w.type(d) else w.assign(f"bitcast {kind} {found} to {w.type(d)}")


def _index(w: Writer, node: Node, bits: int = 32) -> str:
    """The index as integers of ``bits``; what is beyond the table's length is not cut off yet."""
    a, d = w.value(node), node.dtype
    if d.bits != bits:
        a = w.assign(f"{'trunc' if d.bits > bits else 'zext'} {w.type(d)} {a} to <{w.lanes} x i{bits}>")
    return a


def _within(w: Writer, index: str, entries: int) -> str:
    """The index modulo the table's length."""
    return w.assign(f"and <{w.lanes} x i32> {index}, splat (i32 {entries - 1})")


def _by_choices(w: Writer, index: str, table: tuple[int, ...], d: DType) -> str:
    """Look up by choosing on the bits of the index."""
    kind, chosen = w.type(d), [splat(entry, d) for entry in table]
    for bit in range(len(table).bit_length() - 1):
        picked = w.assign(f"and <{w.lanes} x i32> {index}, splat (i32 {1 << bit})")
        high = w.assign(f"icmp ne <{w.lanes} x i32> {picked}, zeroinitializer")
        pairs = zip(chosen[::2], chosen[1::2], strict=True)
        chosen = [w.assign(f"select <{w.lanes} x i1> {high}, {kind} {b}, {kind} {a}") for a, b in pairs]
    return chosen[0]


_LARGEST_CHOICE, _LARGEST_TABLE_OF_HALVES, _LARGEST_BYTE_TABLE_BITS = 8, 8, 512
"""Entries of the tables that are looked up by choices and by halves, and the size of those looked up by bytes."""


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


_SMALL_PERMUTES = {
    ("avx2", 32): _Permute("llvm.x86.avx.vpermilvar.ps.256", 8, "float", "i32", 4),
    ("avx512", 32): _Permute("llvm.x86.avx512.vpermilvar.ps.512", 16, "float", "i32", 4),
}
"""These pick within each 128 bits: half the work of the others, on tables of four entries that are repeated."""


def _by_permutes(w: Writer, index: str, table: tuple[int, ...], p: _Permute) -> str:
    """Look up in registers: each part of the table is permuted, and higher index bits choose among the results."""
    padded = table * max(p.lanes // len(table), 1)
    sources = [_source(w, padded[i : i + p.lanes], p) for i in range(0, len(padded), p.lanes)]
    pieces = [_piece_lookup(w, piece, sources, p) for piece in w.pieces(index, p.index, p.lanes)]
    return w.joined(pieces, p.element, p.lanes)


def _source(w: Writer, entries: tuple[int, ...], p: _Permute) -> str:
    """A register's worth of a table."""
    bits = 32 if p.element == "float" else 64
    if w.target.loads_numbers and bits == 32:
        return w.constant(entries, F32, p.lanes)
    numbers = ", ".join([f"i{bits} {entry}" for entry in entries])
    return f"bitcast (<{p.lanes} x i{bits}> <{numbers}> to <{p.lanes} x {p.element}>)"


def _piece_lookup(w: Writer, index: str, sources: list[str], p: _Permute) -> str:
    element, indices = f"<{p.lanes} x {p.element}>", f"<{p.lanes} x {p.index}>"
    chosen = [w.call(p.intrinsic, element, [(element, source), (indices, index)]) for source in sources]
    step = p.lanes
    while len(chosen) > 1:
        bit = w.assign(f"and {indices} {index}, splat ({p.index} {step})")
        high = w.assign(f"icmp ne {indices} {bit}, zeroinitializer")
        pairs = zip(chosen[::2], chosen[1::2], strict=True)
        chosen = [w.assign(f"select <{p.lanes} x i1> {high}, {element} {b}, {element} {a}") for a, b in pairs]
        step *= 2
    return chosen[0]


def _by_halves(w: Writer, index: str, table: tuple[int, ...]) -> str:
    """Look up 64-bit entries by AVX2's permutation of 32-bit lanes: their upper halves, and their lower ones if any
    is not zero."""
    lanes = 4
    padded = table * (2 * lanes // len(table))
    halves = [tuple(entry >> shift & _LOW_HALF for entry in padded) for shift in (0, 32)]
    pieces = []
    for piece in w.pieces(index, "i32", lanes):
        twice = w.assign(f"shufflevector <4 x i32> {piece}, <4 x i32> poison, <8 x i32> <{_doubled(lanes)}>")
        low, high = (_permuted(w, twice, half) if any(half) else "zeroinitializer" for half in halves)
        order = ", ".join(f"i32 {lane + 8 * (lane % 2)}" for lane in range(2 * lanes))
        found = w.assign(f"shufflevector <8 x float> {low}, <8 x float> {high}, <8 x i32> <{order}>")
        pieces.append(w.assign(f"bitcast <8 x float> {found} to <4 x i64>"))
    return w.joined(pieces, "i64", lanes)


def _permuted(w: Writer, index: str, words: tuple[int, ...]) -> str:
    source = f"bitcast (<8 x i32> <{', '.join(f'i32 {word}' for word in words)}> to <8 x float>)"
    return w.call("llvm.x86.avx2.permps", "<8 x float>", [("<8 x float>", source), ("<8 x i32>", index)])


_LOW_HALF = 0xFFFFFFFF


def _doubled(lanes: int) -> str:
    return ", ".join(f"i32 {lane}, i32 {lane}" for lane in range(lanes))


def _by_bytes(w: Writer, index: str, table: tuple[int, ...], bits: int) -> str:
    """Look up by NEON's permutation of bytes, in one register, two or four."""
    item_bytes = bits // 8
    lanes = 16 // item_bytes
    count = max(len(table), lanes)
    padded = table * (count // len(table))
    sources = [_bytes_of(padded[i : i + lanes], item_bytes) for i in range(0, count, lanes)]
    function = f"llvm.aarch64.neon.tbl{len(sources)}.v16i8"
    # An index becomes the place of its entry's first byte in each byte, to which the places within an entry are added.
    within = ", ".join(f"i32 {0x03020100 + 0x04040404 * word}" for _ in range(lanes) for word in range(item_bytes // 4))
    pieces = []
    for piece in w.pieces(index, "i32", lanes):
        if item_bytes == 8:
            piece = w.assign(f"shufflevector <2 x i32> {piece}, <2 x i32> poison, <4 x i32> <{_doubled(lanes)}>")
        low = w.assign(f"and <4 x i32> {piece}, splat (i32 {count - 1})")
        first = w.assign(f"shl <4 x i32> {low}, splat (i32 {item_bytes.bit_length() - 1})")
        spread = w.assign(f"mul <4 x i32> {first}, splat (i32 {0x01010101})")
        each = w.assign(f"or <4 x i32> {spread}, <{within}>")
        each = w.assign(f"bitcast <4 x i32> {each} to <16 x i8>")
        found = w.call(function, "<16 x i8>", [("<16 x i8>", s) for s in (*sources, each)])
        pieces.append(w.assign(f"bitcast <16 x i8> {found} to <{lanes} x i{bits}>"))
    return w.joined(pieces, f"i{bits}", lanes)


def _bytes_of(words: tuple[int, ...], word_bytes: int) -> str:
    """The bytes of ``words``, lowest first, as a constant."""
    numbers = [w >> (8 * place) & 255 for w in words for place in range(word_bytes)]
    return "<" + ", ".join(f"i8 {n}" for n in numbers) + ">"


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
