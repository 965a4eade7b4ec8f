"""The last step before text: every conversion written out, so that one operation is one instruction of the target.

The result computes in bool, integers, float32 and float64 only. 16-bit floats appear as operands and results of
`bitcast` alone (and of `cast` where the target converts float16 itself); operands have the dtype their operation
computes in; casts, shifts and remainders only see values for which every machine agrees. The interpreter gives the same
bits for the graph before and after.
"""

from __future__ import annotations

from collections.abc import Callable

from fuseline.errors import UnsupportedError
from fuseline.floating_point import in_default_environment
from fuseline.ir.build import Expr, call, where
from fuseline.ir.dtype import BF16, BOOL, F16, F32, F64, I32, I64, U16, U32, U64, DType
from fuseline.ir.graph import Graph
from fuseline.ir.infer import signature
from fuseline.ir.node import Node, const, const_array, const_bits
from fuseline.mathlib.formats import is_within, where_rarely
from fuseline.ops import OPERATIONS


@in_default_environment
def legalize(
    graph: Graph,
    *,
    native_half: bool = False,
    native_bfloat16: bool = False,
    library: frozenset[str] = frozenset(),
) -> Graph:
    """``graph``, already expanded to primitives, with every conversion explicit.

    ``native_half`` keeps `cast` between float16 and float32 for the target, ``native_bfloat16`` that of float32 to
    bfloat16 for a target that takes subnormals for zeros there; ``library`` names functions that the target calls
    instead of computing them. Values keep their names. Raises `UnsupportedError` for any other operation that is
    not a primitive and for dtypes that only exist in storage plans (float8, 4-bit types).
    """
    lower = _Legalizer(native_half, native_bfloat16, library)
    names: dict[Node, str] = {}
    for node in (*graph.inputs, *graph.output_nodes):
        _check_dtype(node.dtype)
    for node in graph.nodes:
        lower.add(node)
        if node in graph.names and not lower.value(node).node.is_source:
            names.setdefault(lower.value(node).node, graph.names[node])
    outputs = [(name, lower.stored(node).node) for name, node in graph.outputs]
    return Graph(graph.inputs, outputs, names=names)


def _check_dtype(d: DType) -> None:
    if d.is_storage_float and d not in (F16, BF16):
        raise UnsupportedError(f"compiled kernels do not read or write {d}; cast it in the caller, to bf16 or f16")
    if d.bits < 8:
        raise UnsupportedError(f"{d} is a packed type: it can be planned and costed, not run")


class _Legalizer:
    """``carried`` maps nodes to values in computation dtypes (16-bit floats as float32).

    ``unwidened`` has, for each value that was widened from 16 bits, the 16-bit value: rounding it again is that.
    """

    def __init__(self, native_half: bool, native_bfloat16: bool, library: frozenset[str]) -> None:
        self.native_half = native_half
        self.native_bfloat16 = native_bfloat16
        self.library = library
        self.carried: dict[Node, Expr] = {}
        self.unwidened: dict[tuple[Node, DType], Expr] = {}

    def value(self, node: Node) -> Expr:
        """The carried value of an operand."""
        found = self.carried.get(node)
        if found is None:
            found = self._source(node)
            self.carried[node] = found
        return found

    def _source(self, node: Node) -> Expr:
        if node.op == "const":
            if not node.dtype.is_storage_float:
                return Expr(node)
            return Expr(const_bits(node.attr("bits"), F32))  # it is carried as float32 already
        return self.widened(Expr(node))

    def stored(self, node: Node) -> Expr:
        """The value as its own dtype, rounded where that is narrower than what it was computed in."""
        if node.op == "input" or (node.op == "const" and not node.dtype.is_storage_float):
            return Expr(node)
        value = self.value(node)
        return self.narrowed(value, node.dtype) if node.dtype.is_storage_float else value

    def add(self, node: Node) -> None:
        """Lower one instruction whose operands are lowered."""
        row = OPERATIONS[node.op]
        if not row.primitive and node.op not in self.library:
            if row.index_rule == "reduction":
                raise UnsupportedError(
                    f"a reduction ({node.op}) has no C, LLVM or assembly text yet; calls run it in stages, and the "
                    "NumPy text has it"
                )
            raise UnsupportedError(f"{node.op} is not a primitive; expand the graph before generating code")
        match row.type_rule:
            case "cast" if not node.dtype.is_storage_float:
                self.carried[node] = self.convert(self.value(node.args[0]), node.dtype)
            case "cast":
                self._add_stored(node, self.narrowed(self.value(node.args[0]), node.dtype))
            case "bitcast":
                self._add_stored(node, self.stored(node.args[0]).bitcast(node.dtype))
            case "lookup":
                self._add_stored(node, _on(node, [self.value(node.args[0])]))
            case _:
                self.carried[node] = self._operation(node)

    def _add_stored(self, node: Node, value: Expr) -> None:
        _check_dtype(node.dtype)
        self.carried[node] = self.widened(value)

    def _operation(self, node: Node) -> Expr:
        sig = signature(node.op, tuple(a.dtype for a in node.args))
        operands = [self.convert(self.value(a), d.computed) for a, d in zip(node.args, sig.operands, strict=True)]
        special = None if operands[0].dtype.is_float else _SPECIAL.get(node.op)
        return special(operands) if special else _on(node, operands)

    # ── conversions ──────────────────────────────────────────────────────────────────────────────────────────────────

    def convert(self, x: Expr, target: DType) -> Expr:
        """Between computation dtypes."""
        source = x.dtype
        if source is target:
            return x
        if target is BOOL:
            return x != 0
        if source.is_float and target.is_integer:
            return float_to_integer(x, target)
        return x.cast(target)

    def narrowed(self, x: Expr, target: DType) -> Expr:
        """Rounded to a 16-bit float, as that dtype."""
        known = self.unwidened.get((x.node, target))
        if known is not None:
            return known
        if target is BF16:
            single = self.convert(x, F32)
            bits = float32_to_bfloat16_bits(single)
            if self.native_bfloat16:
                bits = where_rarely(is_subnormal(single), bits, single.cast(BF16).bitcast(U16))
            return bits.bitcast(BF16)
        single = round_to_odd_float32(x) if x.dtype is F64 else self.convert(x, F32)
        if self.native_half:
            return single.cast(F16)
        return float32_to_float16_bits(single).bitcast(F16)

    def widened(self, x: Expr) -> Expr:
        """A 16-bit float as float32; anything else unchanged."""
        if x.dtype is BF16:
            wide = (x.bitcast(U16).cast(U32) << 16).bitcast(F32)
        elif x.dtype is F16:
            wide = x.cast(F32) if self.native_half else float16_bits_to_float32(x.bitcast(U16))
        else:
            return x
        self.unwidened[wide.node, x.dtype] = x
        return wide


def _on(node: Node, operands: list[Expr]) -> Expr:
    """The instruction on these operands: itself where they are its own."""
    if all(x.node is a for x, a in zip(operands, node.args, strict=True)):
        return Expr(node)
    return call(node.op, *operands, **dict(node.attrs))


# ── 16-bit floats by integer operations ──────────────────────────────────────────────────────────────────────────────


def float32_to_bfloat16_bits(x: Expr) -> Expr:
    """To nearest, ties to even; subnormals kept; a NaN stays one, of all ones, which costs least to write."""
    bits = x.bitcast(U32)
    last = (bits >> 16) & 1
    return (where(x != x, 0xFFFFFFFF, bits + 0x7FFF + last) >> 16).cast(U16)


def is_subnormal(x: Expr) -> Expr:
    """Of a float32: neither zero nor normal. Doubling its bits drops the sign."""
    bits = x.bitcast(I32)
    return is_within(bits + bits, 2, 1 << 24)


def subnormal_test_operand(node: Node) -> Node | None:
    """The float32 that ``node`` asks of whether it is subnormal, if that is what it does."""
    operand = node
    for _ in range(4):
        if not operand.args:
            return None
        operand = operand.args[0]
    return operand if operand.dtype is F32 and is_subnormal(Expr(operand)).node is node else None


def float16_bits_to_float32(h: Expr) -> Expr:
    """Exact. The magnitude's bits, moved to float32's places, are 2**112 too small, subnormals included."""
    wide = h.cast(U32)
    magnitude = (wide & 0x7FFF) << 13
    scaled = magnitude.bitcast(F32) * 2.0**112
    special = (magnitude | 0x7F800000).bitcast(F32)
    unsigned = where((wide & 0x7FFF) >= 0x7C00, special, scaled)
    return (unsigned.bitcast(U32) | ((wide & 0x8000) << 16)).bitcast(F32)


def float32_to_float16_bits(x: Expr) -> Expr:
    """To nearest, ties to even; subnormals kept; a NaN stays a quiet NaN."""
    bits = x.bitcast(U32)
    sign = (bits >> 16) & 0x8000
    magnitude = bits & 0x7FFFFFFF
    # Normal results: move the exponent's bias and round the 13 bits that go; a carry into the exponent is right, even
    # to infinity.
    normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13
    # Subnormal results: adding 0.5 puts the result's last place at the end of the significand, rounded by the addition.
    subnormal = (magnitude.bitcast(F32) + 0.5).bitcast(U32) - 0x3F000000
    finite = where(magnitude < 0x38800000, subnormal, normal)
    large = where(magnitude > 0x7F800000, magnitude.like(0x7E00), 0x7C00)
    return (where(magnitude >= 0x47800000, large, finite) | sign).cast(U16)


def round_to_odd_float32(x: Expr) -> Expr:
    """A float64 as float32 with an inexact result's last bit set, so that rounding it again to 16 bits rounds once."""
    nearest = x.cast(F32)
    back = nearest.cast(F64)
    bits = nearest.bitcast(U32)
    away = abs(back) > abs(x)
    toward_zero = where(away, bits - 1, bits)
    odd = (toward_zero | 1).bitcast(F32)
    return where((back == x) | (x != x), nearest, odd)


# ── operations whose plain instruction is not defined for every integer or bool ──────────────────────────────────────


def float_to_integer(x: Expr, target: DType) -> Expr:
    """Truncated; what does not fit is fixed as `numerics.float_to_integer` says."""
    through = I64 if target in (U32, I64, U64) else I32
    limit = 2.0 ** (through.bits - 1)
    whole = call("trunc", x)
    fits = (whole >= -limit) & (whole < limit)
    lowest = Expr(const(-(2 ** (through.bits - 1)), through))
    result = where(fits, where(fits, whole, 0.0).cast(through), lowest)
    if target is not U64:
        return result.cast(target)
    upper = (whole >= limit) & (whole < 2 * limit)
    high = where(upper, whole - limit, 0.0).cast(I64).cast(U64) + 2**63
    return where(upper, high, result.cast(U64))


def _shift(op: str) -> Callable[[list[Expr]], Expr]:
    def lowered(operands: list[Expr]) -> Expr:
        a, count = operands
        width = a.dtype.bits
        if count.node.op == "const" and 0 <= int(const_array(count.node)) < width:
            return call(op, a, count)
        in_range = count < width if count.dtype.kind == "uint" else (count >= 0) & (count < width)
        if op == "shr" and a.dtype.kind == "int":
            return call(op, a, where(in_range, count, width - 1))
        return where(in_range, call(op, a, where(in_range, count, 0)), 0)

    return lowered


def _fmod(operands: list[Expr]) -> Expr:
    a, b = operands
    trivial = (b == 0) | (b == -1) if a.dtype.kind == "int" else b == 0
    b = where(trivial, 1, b)  # by 1 the remainder is 0, which is NumPy's value for these divisors
    if not _divides_as_float(b):
        return call("fmod", a, b)
    return a - _nonzero_quotient(a, b) * b


def _divides_as_float(b: Expr) -> bool:
    """Whether integers are divided as floats: vectors of integers cannot be divided, but for constants by products."""
    return b.dtype.bits <= 32 and b.node.op != "const"


def _nonzero_quotient(a: Expr, b: Expr) -> Expr:
    """a/b toward zero, where b is not 0 and the quotient fits.

    A quotient that is no integer is at least 1/|a| of itself away from one, and a float's rounding is less than that.
    """
    if not _divides_as_float(b):
        return call("quotient", a, b)
    wide = F32 if b.dtype.bits <= 16 else F64
    return call("trunc", a.cast(wide) / b.cast(wide)).cast(b.dtype)


def _quotient(operands: list[Expr]) -> Expr:
    a, b = operands
    if a.dtype is BOOL:
        return a & b
    if a.dtype.kind == "uint":
        return where(b == 0, 0, _nonzero_quotient(a, where(b == 0, 1, b)))
    trivial = (b == 0) | (b == -1)
    # The most negative value divided by -1 wraps to itself, as its negation does.
    by_minus_one = where(b == 0, 0, -a)
    return where(trivial, by_minus_one, _nonzero_quotient(a, where(trivial, 1, b)))


def _for_bool(op: str, bool_op: str) -> Callable[[list[Expr]], Expr]:
    def lowered(operands: list[Expr]) -> Expr:
        return call(bool_op if operands[0].dtype is BOOL else op, *operands)

    return lowered


def _unchanged(operands: list[Expr]) -> Expr:
    return operands[0]


def _absolute(operands: list[Expr]) -> Expr:
    d = operands[0].dtype
    return operands[0] if d is BOOL or d.kind == "uint" else abs(operands[0])


def _compare(op: str) -> Callable[[list[Expr]], Expr]:
    """Signed against unsigned 64-bit integers are compared by value: a negative number is below every unsigned one."""
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}[op]
    when_negative = op in ("lt", "le", "ne")

    def lowered(operands: list[Expr]) -> Expr:
        a, b = operands
        if a.dtype is b.dtype:
            return call(op, a, b)
        if a.dtype.kind == "uint":
            return _compare(mirrored)([b, a])
        negative = a < 0
        unsigned = call(op, a.cast(U64), b.cast(U64))
        return negative | unsigned if when_negative else ~negative & unsigned

    return lowered


_SPECIAL: dict[str, Callable[[list[Expr]], Expr]] = {
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "fmod": _fmod,
    "quotient": _quotient,
    "add": _for_bool("add", "or"),
    "mul": _for_bool("mul", "and"),
    "minimum": _for_bool("minimum", "and"),
    "maximum": _for_bool("maximum", "or"),
    "abs": _absolute,
    **dict.fromkeys(("floor", "ceil", "trunc"), _unchanged),
    **{op: _compare(op) for op in ("lt", "le", "gt", "ge", "eq", "ne")},
}
