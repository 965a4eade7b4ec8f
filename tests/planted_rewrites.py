"""Unsound rewrites, each of which a real compiler has shipped, to be planted into the passes one at a time.

The tests of sound rewriting must notice every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fuseline.ir.infer import apply
from fuseline.ir.node import Node, const, const_array
from fuseline.passes import simplify
from fuseline.passes.rewrite import Rule


def _number(node: Node) -> float | None:
    return float(const_array(node)) if node.op == "const" else None


def _constant(node: Node, value: float) -> Node | None:
    """``value`` in the shape of ``node``: only a scalar constant exists, so it is broadcast by a harmless choice."""
    made = const(value, node.dtype)
    whole = apply("where", apply("eq", node.args[0], node.args[0]), made, made)
    return whole if whole.type == node.type else None


def _kept(node: Node, other: Node) -> Node | None:
    return other if other.type == node.type else None


def times_zero(node: Node) -> Node | None:
    return _constant(node, 0.0) if 0.0 in map(_number, node.args) and node.dtype.is_float else None


def minus_itself(node: Node) -> Node | None:
    return _constant(node, 0.0) if node.args[0] is node.args[1] and node.dtype.is_float else None


def over_itself(node: Node) -> Node | None:
    return _constant(node, 1.0) if node.args[0] is node.args[1] and node.dtype.is_float else None


def plus_zero(node: Node) -> Node | None:
    for number, other in (node.args, node.args[::-1]):
        if _number(number) == 0 and node.dtype.is_float:
            return _kept(node, other)
    return None


def zero_minus(node: Node) -> Node | None:
    return apply("neg", node.args[1]) if _number(node.args[0]) == 0 and node.args[1].type == node.type else None


def reciprocal(node: Node) -> Node | None:
    c = _number(node.args[1])
    if not c or node.args[1].dtype is not node.dtype or abs(c) in (0.25, 0.5, 2.0):
        return None
    return apply("mul", node.args[0], const(1.0 / c, node.dtype))


def add_then_subtract(node: Node) -> Node | None:
    inner = node.args[0]
    if inner.op == "add" and node.args[1] in inner.args and node.dtype.is_float:
        return _kept(node, inner.args[1 - inner.args.index(node.args[1])])
    return None


def multiply_then_divide(node: Node) -> Node | None:
    inner = node.args[0]
    if inner.op == "mul" and node.args[1] in inner.args and node.dtype.is_float:
        return _kept(node, inner.args[1 - inner.args.index(node.args[1])])
    return None


def exp_of_log(node: Node) -> Node | None:
    return _kept(node, node.args[0].args[0]) if node.args[0].op == "log" else None


def equals_itself(node: Node) -> Node | None:
    a, b = node.args
    if a is not b or not a.dtype.is_float:
        return None
    return apply("ge", apply("abs", apply("where", apply("lt", a, a), a, const(1.0, a.dtype))), const(0.0, a.dtype))


def cube(node: Node) -> Node | None:
    x = node.args[0]
    if _number(node.args[1]) != 3 or x.type != node.type or not node.dtype.is_float:
        return None
    return apply("mul", apply("mul", x, x), x)


def square_root(node: Node) -> Node | None:
    return apply("sqrt", node.args[0]) if _number(node.args[1]) == 0.5 and node.args[0].type == node.type else None


def contraction(node: Node) -> Node | None:
    for product, other in (node.args, node.args[::-1]):
        if product.op == "mul" and node.dtype.is_float and product.type == node.type:
            return apply("fma", *product.args, other)
    return None


def reassociation(node: Node) -> Node | None:
    inner = node.args[0]
    if inner.op != node.op or not node.dtype.is_float or inner.args[0].type != node.type:
        return None
    result = apply(node.op, inner.args[0], apply(node.op, inner.args[1], node.args[1]))
    return result if result is not node else None


def distribution(node: Node) -> Node | None:
    a, b = node.args
    if a.op == b.op == "mul" and node.dtype.is_float and a.args[1] is b.args[1]:
        return apply("mul", apply("add", a.args[0], b.args[0]), a.args[1])
    return None


def minimum_by_comparison(node: Node) -> Node | None:
    a, b = node.args
    return apply("where", apply("lt", a, b), a, b) if a is not b and node.dtype.is_float else None


def recast(node: Node) -> Node | None:
    return _kept(node, node.args[0]) if node.dtype.is_storage_float else None


PLANTS: dict[str, tuple[str, Rule]] = {
    "x*0 -> 0": ("mul", times_zero),
    "x-x -> 0": ("sub", minus_itself),
    "x/x -> 1": ("div", over_itself),
    "x+0.0 -> x": ("add", plus_zero),
    "0.0-x -> -x": ("sub", zero_minus),
    "x/c -> x*(1/c)": ("div", reciprocal),
    "(a+b)-a -> b": ("sub", add_then_subtract),
    "(a*b)/b -> a": ("div", multiply_then_divide),
    "exp(log x) -> x": ("exp", exp_of_log),
    "x==x -> true": ("eq", equals_itself),
    "x**3 -> x*x*x": ("pow", cube),
    "x**0.5 -> sqrt(x)": ("pow", square_root),
    "a*b+c -> fma(a,b,c)": ("add", contraction),
    "(a+b)+c -> a+(b+c)": ("add", reassociation),
    "(a*b)*c -> a*(b*c)": ("mul", reassociation),
    "a*c+b*c -> (a+b)*c": ("add", distribution),
    "min(a,b) -> a<b ? a : b": ("minimum", minimum_by_comparison),
    "bf16(a+b) -> a+b": ("cast", recast),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The passes with the unsound rule called ``name`` among their own."""
    op, rule = PLANTS[name]
    rules = simplify._TABLE.setdefault(op, [])
    rules.append(rule)
    try:
        yield
    finally:
        rules.remove(rule)
