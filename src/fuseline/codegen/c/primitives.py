"""Every primitive as a C11 expression, with no undefined behaviour and no dependence on flags.

Graphs come from `codegen.legalize`, so shifts, divisions and conversions only see values for which they are defined.
Integers are added and multiplied without a sign, where overflow wraps; what orders signed zeros and moves bits is in
small static functions, of which a text contains those that it calls.
"""

from __future__ import annotations

from fuseline.errors import UnsupportedError
from fuseline.ir.dtype import BOOL, F32, DType
from fuseline.ir.literals import limits
from fuseline.ir.node import Node, const_array, const_bits
from fuseline.ops import OPERATIONS

C_TYPES = {
    "bool": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "uint16_t", "bf16": "uint16_t", "f32": "float", "f64": "double",
}  # fmt: skip
"""Storage of each dtype; 16-bit floats are their bit patterns."""

_LIBM_NAMES = """
exp exp2 expm1 log log2 log10 log1p cbrt pow hypot sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
atanh erf erfc
"""
LIBM = frozenset(_LIBM_NAMES.split())
"""Functions of the C library, called by name where a text asks for them."""

_INFIX = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^"}
_MATH = {name: name for name in ("fma", "sqrt", "floor", "ceil", "trunc", "rint", "fmod")} | {"with_sign": "copysign"}
"""The C functions that are primitives."""


def expression(node: Node, args: list[str], helpers: dict[str, str]) -> str:
    """The C expression of ``node`` on the named operands; functions it calls are added to ``helpers``."""
    d = node.args[0].dtype if OPERATIONS[node.op].type_rule == "compare" else node.dtype
    if node.op in ("cast", "bitcast"):
        return _convert(node, args[0], helpers)
    if node.op == "lookup":
        return _lookup(node, args[0], helpers)
    if node.op == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if d.is_storage_float:
        raise UnsupportedError(f"{node.op} on {d}: 16-bit floats are widened before code is written")
    if d.is_float:
        return _floating(node.op, d, args, helpers)
    if d is BOOL:
        return _boolean(node.op, args)
    return _decided(node, d, args) or _integer(node.op, d, args)


def literal(node: Node) -> str:
    """A constant as C text with exactly its bits."""
    d, value = node.dtype, const_array(node)
    if d is BOOL:
        return "true" if value else "false"
    if d.is_storage_float:
        return f"UINT16_C({node.attr('bits')})"
    if d.is_float:
        number = float(value)
        if number != number or number in (float("inf"), float("-inf")):
            text = "NAN" if number != number else "INFINITY" if number > 0 else "-INFINITY"
            return f"({C_TYPES[d.name]}){text}"
        return number.hex() + ("f" if d is F32 else "")
    number = int(value)
    if number == -(2 ** (d.bits - 1)) and d.kind == "int":
        return f"INT{d.bits}_MIN"
    macro = f"{'UINT' if d.kind == 'uint' else 'INT'}{d.bits}_C"
    return f"{macro}({number})" if number >= 0 else f"(-{macro}({-number}))"


def _suffix(d: DType) -> str:
    return "f" if d is F32 else ""


def _floating(op: str, d: DType, args: list[str], helpers: dict[str, str]) -> str:
    match op:
        case "add" | "sub" | "mul" | "div":
            return f"{args[0]} {OPERATIONS[op].infix} {args[1]}"
        case "neg":
            return f"-{args[0]}"
        case "abs":
            return f"fabs{_suffix(d)}({args[0]})"
        case "minimum" | "maximum":
            return f"{_ordered(op, d, helpers)}({args[0]}, {args[1]})"
    if op in _MATH or op in LIBM:
        return f"{_MATH.get(op, op)}{_suffix(d)}({', '.join(args)})"
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    raise UnsupportedError(f"no C text for {op} on {d}")


def _ordered(op: str, d: DType, helpers: dict[str, str]) -> str:
    """minimum or maximum: NaN from either side, -0 below +0."""
    name, c, sign = f"fl_{op}_{d.name}", C_TYPES[d.name], "<" if op == "minimum" else ">"
    bits = "uint32_t" if d is F32 else "uint64_t"
    as_bits, as_float = _bit_functions(d, helpers)
    merge = "|" if op == "minimum" else "&"
    helpers[name] = (
        f"static inline {c} {name}({c} a, {c} b) {{\n"
        f"    const {bits} tie = {as_bits}(a) {merge} {as_bits}(b);\n"
        f"    const {c} ordered = a {sign} b ? a : (a == b ? {as_float}(tie) : b);\n"
        f"    return a != a ? a : ordered;\n}}\n"
    )
    return name


def _bit_functions(d: DType, helpers: dict[str, str]) -> tuple[str, str]:
    """The names of functions from a float to its bits and back."""
    c, bits = C_TYPES[d.name], f"uint{d.bits}_t"
    there, back = f"fl_bits_{d.name}", f"fl_from_bits_{d.name}"
    for name, source, target in ((there, c, bits), (back, bits, c)):
        helpers[name] = (
            f"static inline {target} {name}({source} x) {{\n"
            f"    {target} y;\n    memcpy(&y, &x, sizeof y);\n    return y;\n}}\n"
        )
    return there, back


def _boolean(op: str, args: list[str]) -> str:
    match op:  # compilers warn of an order between bools where one is a number: it is always or never so
        case "invert":
            return f"!{args[0]}"
        case "lt" | "le":
            return f"!{args[0]} {'&' if op == 'lt' else '|'} {args[1]}"
        case "gt" | "ge":
            return f"{args[0]} {'&' if op == 'gt' else '|'} !{args[1]}"
    if op not in _INFIX:
        raise UnsupportedError(f"no C text for {op} on bool")
    return f"{args[0]} {_INFIX[op]} {args[1]}"


def _decided(node: Node, d: DType, args: list[str]) -> str:
    """What is compared with the least or the greatest integer and has one answer, of which compilers warn; else "".

    The other operand is named all the same: it may be all that a parameter is read for.
    """
    for answers, number, text, other in zip(_DECIDED.get(node.op, ()), node.args, args, reversed(args), strict=False):
        if number.op != "const" or int(const_array(number)) not in limits(d):
            continue
        answer = answers[limits(d).index(int(const_array(number)))]
        if answer == "other":
            return other
        if answer:
            return f"((void){other}, {text if answer == 'number' else answer})"
    return ""


_DECIDED = {
    "lt": (("", "false"), ("false", "")),
    "le": (("true", ""), ("", "true")),
    "gt": (("false", ""), ("", "false")),
    "ge": (("", "true"), ("true", "")),
    "minimum": (("number", "other"), ("number", "other")),
    "maximum": (("other", "number"), ("other", "number")),
}
"""For a number on the left and one on the right: the result where it is the least integer, and where the greatest."""


def _integer(op: str, d: DType, args: list[str]) -> str:
    c = C_TYPES[d.name]
    # Unsigned arithmetic of at least 32 bits wraps; narrower types would be promoted to signed int first.
    u = f"uint{max(32, d.bits)}_t"
    match op:
        case "add" | "sub" | "mul":
            return f"({c})(({u}){args[0]} {OPERATIONS[op].infix} ({u}){args[1]})"
        case "fma":
            return f"({c})(({u}){args[0]} * ({u}){args[1]} + ({u}){args[2]})"
        case "neg":
            return f"({c})(0u - ({u}){args[0]})"
        case "abs":
            return f"{args[0]} < 0 ? ({c})(0u - ({u}){args[0]}) : {args[0]}"
        case "invert":
            return f"({c})~{args[0]}"
        case "minimum" | "maximum":
            return f"{args[0]} {'<' if op == 'minimum' else '>'} {args[1]} ? {args[0]} : {args[1]}"
        case "and" | "or" | "xor":
            return f"({c})({args[0]} {_INFIX[op]} {args[1]})"
        case "shl":
            return f"({c})(({u}){args[0]} << {args[1]})"
        case "shr":
            return f"({c})({args[0]} >> {args[1]})"
        case "fmod" | "quotient":
            return f"({c})({args[0]} {'%' if op == 'fmod' else '/'} {args[1]})"
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    raise UnsupportedError(f"no C text for {op} on {d}")


def _convert(node: Node, arg: str, helpers: dict[str, str]) -> str:
    source, target = node.args[0].dtype, node.dtype
    c = C_TYPES[target.name]
    if node.op == "bitcast":
        if source.is_float and not source.is_storage_float:
            return f"({c}){_bit_functions(source, helpers)[0]}({arg})"
        if target.is_float and not target.is_storage_float:
            return f"{_bit_functions(target, helpers)[1]}((uint{target.bits}_t){arg})"
        return f"({c}){arg}"
    if source.is_storage_float or target.is_storage_float:
        raise UnsupportedError(f"a cast from {source} to {target}: 16-bit floats are widened before code is written")
    return f"({c}){arg}"


def _lookup(node: Node, arg: str, helpers: dict[str, str]) -> str:
    table: tuple[int, ...] = node.attr("table")
    d = node.dtype
    numbers = ", ".join(literal(const_bits(bits, d)) for bits in table)
    known = [k for k in helpers if k.startswith("fl_table_")]
    text = f"[{len(table)}] = {{{numbers}}};\n"
    name = next(
        (k for k in known if helpers[k].endswith(text) and C_TYPES[d.name] in helpers[k]), f"fl_table_{len(known)}"
    )
    helpers[name] = f"static const {C_TYPES[d.name]} {name}{text}"
    return f"{name}[(uint32_t){arg} & {len(table) - 1}u]"
