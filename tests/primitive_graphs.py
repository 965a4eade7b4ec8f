"""Graphs that hold every primitive on every dtype that it takes, for the tests of code generation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from fuseline.errors import TypeRuleError
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.dtype import DTYPES, F32, F64, I8, U16, U64, DType
from fuseline.ir.graph import Graph
from fuseline.ops import OPERATIONS

NAMES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
COMPUTED = tuple(DTYPES[name] for name in NAMES)
PRIMITIVES = tuple(
    row.name for row in OPERATIONS.values() if row.primitive and row.index_rule == "elementwise" and row.arity > 0
)
TABLE_LENGTHS = (1, 2, 4, 8, 16, 32, 64)


def operands(*dtypes: DType) -> list[Expr]:
    """Inputs called x, y, z of these dtypes."""
    return [Expr(input_node("xyz"[i], d)) for i, d in enumerate(dtypes)]


def graph_of(inputs: list[Expr], results: list[Expr]) -> Graph:
    """The graph with outputs called r0, r1 …"""
    return Graph([x.node for x in inputs], [(f"r{i}", r.node) for i, r in enumerate(results)])


def applied(op: str, inputs: list[Expr], **attrs: object) -> Expr | None:
    """``op`` on the inputs, or None where it does not take their dtypes."""
    try:
        return call(op, *inputs, **attrs)
    except TypeRuleError:
        return None


def conversions() -> Iterator[Graph]:
    """For each dtype, casts to every dtype and reinterpretations as every dtype of the same size."""
    for d in COMPUTED:
        inputs = operands(d)
        kinds = [(op, target) for op in ("cast", "bitcast") for target in COMPUTED]
        results = [r for op, target in kinds if (r := applied(op, inputs, dtype=target)) is not None]
        yield graph_of(inputs, results)


def tables() -> Iterator[Graph]:
    """Tables of every length and entry size, indexed by a narrow, an ordinary and a wide integer."""
    for d in (I8, U16, DTYPES["i32"], U64):
        inputs = operands(d)
        results = []
        for entry in (F32, F64, DTYPES["bf16"]):
            top = 1 << (entry.bits - 2)
            results += [inputs[0].lookup([(top + 977 * i) % (2 * top) for i in range(n)], entry) for n in TABLE_LENGTHS]
        # Some targets look up halves of 64-bit entries, and those that are all zero not at all.
        results += [inputs[0].lookup([i * unit for i in range(8)], F64) for unit in (1, 1 << 32)]
        yield graph_of(inputs, results)


def arithmetic(*, mixed: bool) -> Iterator[Graph]:
    """For each dtype (or pair of dtypes), every primitive that takes such operands."""
    others = [op for op in PRIMITIVES if op not in ("cast", "bitcast", "lookup", "where")]
    pairs = itertools.product(COMPUTED, COMPUTED) if mixed else ((d, d) for d in COMPUTED)
    for a, b in pairs:
        inputs = operands(a, b, a)
        results = [r for op in others if (r := applied(op, inputs[: OPERATIONS[op].arity])) is not None]
        condition = applied("lt", inputs[:2])
        choice = applied("where", [condition, *inputs[:2]]) if condition is not None else None
        yield graph_of(inputs, results if choice is None else [*results, choice])


def all_graphs(*, mixed: bool = False) -> Iterator[Graph]:
    """Every graph of this module."""
    yield from conversions()
    yield from tables()
    yield from arithmetic(mixed=mixed)
