"""One primitive, one LLVM instruction on vectors. Nothing here decides about values: `legalize` has done it."""

from __future__ import annotations

from collections.abc import Callable

from fuseline.codegen.legalize import subnormal_test_operand
from fuseline.codegen.llvm import lookup
from fuseline.codegen.llvm.writer import Writer
from fuseline.errors import UnsupportedError
from fuseline.ir.dtype import BF16, BOOL, DType
from fuseline.ir.node import Node, const_array


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


def _intrinsic(float_name: str, signed: str = "", unsigned: str = "", *, in_place: bool = False) -> _Instruction:
    """A call of LLVM's own function; ``in_place`` where it is shorter for a number that LLVM can see."""

    def written(w: Writer, node: Node) -> str:
        d = node.dtype
        name = float_name if d.is_float else unsigned if d.kind == "uint" else signed
        suffix = f"v{w.lanes}{'f' if d.is_float else 'i'}{d.bits}"
        operands = [w.number_in_place(a) if in_place and a.op == "const" else w.value(a) for a in node.args]
        return w.call(f"llvm.{name}.{suffix}", w.type(d), [(w.type(d), a) for a in operands])

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


def _less(w: Writer, node: Node) -> str:
    """A comparison, or the processor's own test for subnormal numbers, which is one instruction instead of three."""
    tested = subnormal_test_operand(node) if w.target.has_bfloat16_rounding else None
    if tested is None:
        return _compare("olt", "slt", "ult")(w, node)
    kind = "<16 x float>"
    answers = [
        w.call("llvm.x86.avx512.fpclass.ps.512", "<16 x i1>", [(kind, piece), ("i32", "32")])
        for piece in w.pieces(w.value(tested), "float", 16)
    ]
    return w.joined(answers, "i1", 16)


def _where(w: Writer, node: Node) -> str:
    condition, a, b = (w.value(x) for x in node.args)
    kind = w.type(node.dtype)
    return w.assign(f"select <{w.lanes} x i1> {condition}, {kind} {a}, {kind} {b}")


def _cast(w: Writer, node: Node) -> str:
    source, target = node.args[0].dtype, node.dtype
    a = w.value(node.args[0])
    if source is target:
        return a
    if target is BF16:
        return _bfloat16(w, a)
    return w.assign(f"{_conversion(source, target)} {w.type(source)} {a} to {w.type(target)}")


def _bfloat16(w: Writer, value: str) -> str:
    """The bits of float32 ``value`` rounded to bfloat16, by AVX-512's instruction; its second operand comes first."""
    kind = "<16 x float>"
    registers = w.pieces(value, "float", 16)
    rounded = []
    for low, high in zip(registers[::2], registers[1::2], strict=True):
        pair = w.call("llvm.x86.avx512bf16.cvtne2ps2bf16.512", "<32 x bfloat>", [(kind, high), (kind, low)])
        rounded.append(w.assign(f"bitcast <32 x bfloat> {pair} to <32 x i16>"))
    return w.joined(rounded, "i16", 32)


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
    "with_sign": _intrinsic("copysign", in_place=True),
    "minimum": _intrinsic("minimum", "smin", "umin", in_place=True),
    "maximum": _intrinsic("maximum", "smax", "umax", in_place=True),
    "and": _plain("", "and", "and"),
    "or": _plain("", "or", "or"),
    "xor": _plain("", "xor", "xor"),
    "invert": _invert,
    "shl": _plain("", "shl", "shl"),
    "shr": _plain("", "ashr", "lshr"),
    "lt": _less,
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
    "lookup": lookup.write,
}
