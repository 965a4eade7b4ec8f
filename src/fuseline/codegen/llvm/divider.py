"""Quotients and roots without the divider, where it is what a body waits for: the bits of the instructions themselves.

Intel's dividers take a vector of 512 bits in 10 to 26 cycles. Products take less, and comparisons find the elements for
which they might over- or underflow on the way; then the whole vector is divided after all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuseline.codegen.legalize import legalize
from fuseline.codegen.llvm.still import Still
from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.codegen.llvm.writer import Writer, splat
from fuseline.ir.build import Expr
from fuseline.ir.dtype import F32, DType
from fuseline.ir.graph import Graph
from fuseline.ir.node import Node
from fuseline.mathlib.division import by_reciprocal
from fuseline.mathlib.formats import Format, bits_of, format_of
from fuseline.passes import fold
from fuseline.passes.rewrite import rewrite

_FEW_A_QUOTIENT, _FEW_A_ROOT = {32: 8, 64: 12}, {32: 7, 64: 16}
"""By the bits of a float. A body with more instructions for each quotient and root computes these meanwhile."""
_MOST = 16
"""Quotients and roots of a body that are written so: each takes a dozen instructions, a branch and a millisecond to
compile."""


def _divided(graph: Graph, still: Still) -> list[Node]:
    return [n for n in graph.nodes if n.op in ("div", "sqrt") and n.dtype.is_float and n not in still]


def _waits(graph: Graph, divided: Sequence[Node], few: dict[int, int]) -> bool:
    """Whether ``graph``'s body has no more to do than ``few`` instructions for each that the divider takes."""
    some = 0 < len(divided) <= _MOST
    return some and len(graph.nodes) <= len(divided) * few[max(n.dtype.bits for n in divided)]


def without_divisions(graph: Graph, target: LlvmTarget, still: Still) -> Graph:
    """``graph``, legalized, multiplying by reciprocals where divisors stand still and the divider is what binds."""
    if not target.has_slow_divider or not _waits(graph, _divided(graph, still), _FEW_A_QUOTIENT):
        return graph

    def multiplied(node: Node) -> Node | None:
        """The bits are those of the division, by the theorem that `by_reciprocal` names."""
        x, b = node.args
        return by_reciprocal(Expr(x), Expr(b)).node if node.dtype.is_float and b in still and x not in still else None

    found = rewrite(graph, {"div": [multiplied]})
    return graph if found is graph else rewrite(found, fold.RULES)  # reciprocals of numbers


def roots_by_products(graph: Graph, target: LlvmTarget, still: Still) -> frozenset[Node]:
    """The roots of ``graph``, legalized, that `write_root` should write."""
    divided = _divided(graph, still)
    has_estimate = target.permute == "avx512"
    if not (target.has_slow_divider and has_estimate and _waits(graph, divided, _FEW_A_ROOT)):
        return frozenset()
    return frozenset(n for n in divided if n.op == "sqrt")


def does_without(graph: Graph, target: LlvmTarget, still: Iterable[int]) -> bool:
    """Whether the body of ``graph``, expanded, does without the divider somewhere; inputs at ``still`` stand still."""
    legal = legalize(graph)
    known = Still(legal.inputs[i] for i in still)
    return without_divisions(legal, target, known) is not legal or bool(roots_by_products(legal, target, known))


def write_root(w: Writer, node: Node) -> str:
    """The root of ``node``'s operand, from AVX-512's estimate of 1/sqrt(x).

    Goldschmidt's iteration brings g to sqrt(x) and h to 1/(2*sqrt(x)); then g + h*(x - g*g), rounded once, is the
    rounded root (Markstein 1990): the middle between two floats that the root might be on the wrong side of is
    nearer to it than the error of h matters for two arguments alone, and for these it was tried. Zeros and NaN are
    their own roots.
    """
    x, d = w.value(node.args[0]), node.dtype
    f = format_of(Expr(node))
    usual = _is_usual(w, x, f)
    kind = w.type(d)
    plain = w.assign(f"fcmp ueq {kind} {x}, zeroinitializer")
    either = w.assign(f"or <{w.lanes} x i1> {usual}, {plain}")
    common = w.call(f"llvm.vector.reduce.and.v{w.lanes}i1", "i1", [(f"<{w.lanes} x i1>", either)])
    lanes = w.target.vector_bytes * 8 // d.bits
    pieces = [_goldschmidt(w, piece, d, lanes) for piece in w.pieces(x, w.element_type(d), lanes)]
    root = w.joined(pieces, w.element_type(d), lanes)
    result = w.assign(f"select <{w.lanes} x i1> {usual}, {kind} {root}, {kind} {x}")
    before, label = w.block, w.new_name()
    w.lines += [f"  br i1 {common}, label %join{label}, label %rare{label}, !prof !3", f"rare{label}:"]
    w.block = f"rare{label}"
    exact = w.call(f"llvm.sqrt.v{w.lanes}f{d.bits}", kind, [(kind, x)])
    w.lines += [f"  br label %join{label}", f"join{label}:"]
    w.block = f"join{label}"
    return w.assign(f"phi {kind} [ {result}, %{before} ], [ {exact}, %rare{label} ]")


def _is_usual(w: Writer, x: str, f: Format) -> str:
    """Whether x is positive and finite and the square of its root's last place is a number: one comparison of bits."""
    d = f.integer_type
    least, infinity = bits_of(2.0 ** (f.fraction_bits + 2 - f.bias), f), bits_of(float("inf"), f)
    lowest = 1 << (d.bits - 1)
    bits = w.assign(f"bitcast {w.type(f.float_type)} {x} to {w.type(d)}")
    moved = w.assign(f"sub {w.type(d)} {bits}, {splat((least + lowest) % (2 * lowest), d)}")
    return w.assign(f"icmp slt {w.type(d)} {moved}, {splat((infinity - least + lowest) % (2 * lowest), d)}")


def _goldschmidt(w: Writer, x: str, d: DType, lanes: int) -> str:
    """The root of one register of usual numbers."""
    element = w.element_type(d)
    kind = f"<{lanes} x {element}>"
    half = f"splat ({element} 0.5)"

    def fma(a: str, b: str, c: str) -> str:
        return w.call(f"llvm.fma.v{lanes}f{d.bits}", kind, [(kind, a), (kind, b), (kind, c)])

    def negated(a: str) -> str:
        return w.assign(f"fneg {kind} {a}")

    suffix = "ps.512" if d is F32 else "pd.512"
    estimate = [(kind, x), (kind, "zeroinitializer"), (f"i{lanes}", "-1")]
    y = w.call(f"llvm.x86.avx512.rsqrt14.{suffix}", kind, estimate)
    g, h = w.assign(f"fmul {kind} {x}, {y}"), w.assign(f"fmul {kind} {y}, {half}")
    for _ in range(1 if d is F32 else 2):  # 14 bits, 27, 53
        rest = fma(negated(g), h, half)
        g, h = fma(g, rest, g), fma(h, rest, h)
    return fma(fma(negated(g), g, x), h, g)
