"""Writing graphs in Python: `Expr` wraps a node and has its operators.

`mathlib` is written with it. A Python number beside an expression becomes a constant of the expression's dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuseline.errors import TypeRuleError
from fuseline.ir.dtype import DType
from fuseline.ir.infer import apply
from fuseline.ir.node import Node, const, const_bits, make
from fuseline.ir.size import Shape
from fuseline.ir.types import TensorType


class Expr:
    """A node with operators. Comparisons give bool expressions; use `where`, never ``if``."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.node.dtype

    def like(self, value: Any) -> Expr:
        """``value`` as a constant of this expression's dtype; an expression is returned unchanged."""
        return value if isinstance(value, Expr) else Expr(const(value, self.dtype))

    def bits(self, pattern: int) -> Expr:
        """The constant of this dtype with the given bit pattern."""
        return Expr(const_bits(pattern, self.dtype))

    def cast(self, target: DType) -> Expr:
        """Converted to ``target``; unchanged where it is that already."""
        return self if self.dtype is target else call("cast", self, dtype=target)

    def bitcast(self, target: DType) -> Expr:
        """The same bits as ``target``."""
        return self if self.dtype is target else call("bitcast", self, dtype=target)

    def lookup(self, table: Sequence[int], target: DType) -> Expr:
        """``table[self]``: bit patterns of ``target``, a power of two of them, indexed modulo their number."""
        if not table or len(table) & (len(table) - 1):
            raise TypeRuleError(f"a lookup table has a power of two entries, not {len(table)}")
        return call("lookup", self, dtype=target, table=tuple(table))

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value; choose with where(condition, a, b)")

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    def __invert__(self) -> Expr:
        return call("invert", self)

    def __add__(self, other: Any) -> Expr:
        return call("add", self, self.like(other))

    def __sub__(self, other: Any) -> Expr:
        return call("sub", self, self.like(other))

    def __mul__(self, other: Any) -> Expr:
        return call("mul", self, self.like(other))

    def __truediv__(self, other: Any) -> Expr:
        return call("div", self, self.like(other))

    def __and__(self, other: Any) -> Expr:
        return call("and", self, self.like(other))

    def __or__(self, other: Any) -> Expr:
        return call("or", self, self.like(other))

    def __xor__(self, other: Any) -> Expr:
        return call("xor", self, self.like(other))

    def __lshift__(self, other: Any) -> Expr:
        return call("shl", self, self.like(other))

    def __rshift__(self, other: Any) -> Expr:
        return call("shr", self, self.like(other))

    def __radd__(self, other: Any) -> Expr:
        return call("add", self.like(other), self)

    def __rsub__(self, other: Any) -> Expr:
        return call("sub", self.like(other), self)

    def __rmul__(self, other: Any) -> Expr:
        return call("mul", self.like(other), self)

    def __rtruediv__(self, other: Any) -> Expr:
        return call("div", self.like(other), self)

    def __rand__(self, other: Any) -> Expr:
        return call("and", self.like(other), self)

    def __ror__(self, other: Any) -> Expr:
        return call("or", self.like(other), self)

    def __rxor__(self, other: Any) -> Expr:
        return call("xor", self.like(other), self)

    def __lt__(self, other: Any) -> Expr:
        return call("lt", self, self.like(other))

    def __le__(self, other: Any) -> Expr:
        return call("le", self, self.like(other))

    def __gt__(self, other: Any) -> Expr:
        return call("gt", self, self.like(other))

    def __ge__(self, other: Any) -> Expr:
        return call("ge", self, self.like(other))

    def __eq__(self, other: Any) -> Expr:  # type: ignore[override]  # an instruction, as of NumPy's arrays
        return call("eq", self, self.like(other))

    def __ne__(self, other: Any) -> Expr:  # type: ignore[override]  # likewise
        return call("ne", self, self.like(other))

    __hash__ = object.__hash__


def call(op: str, *args: Expr, **attrs: Any) -> Expr:
    """``op`` on expressions."""
    return Expr(apply(op, *(a.node for a in args), **attrs))


def fma(a: Expr, b: Any, c: Any) -> Expr:
    """``a*b + c`` rounded once."""
    return call("fma", a, a.like(b), a.like(c))


def where(condition: Expr, a: Any, b: Any) -> Expr:
    """``a`` where the condition holds, else ``b``; at least one of them an expression."""
    kind = a if isinstance(a, Expr) else b
    return call("where", condition, kind.like(a), kind.like(b))


def input_node(name: str, d: DType, shape: Shape | None = None) -> Node:
    """An input called ``name``."""
    return make("input", (), (("name", name),), TensorType(d, shape))
