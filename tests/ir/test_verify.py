"""Every rule of a well-formed graph is planted broken, and `verify` says which one it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from fuseline.errors import LimitError, VerifyError
from fuseline.ir import Graph, Node, TensorType, apply, const, make, verify
from fuseline.ir.build import input_node
from fuseline.ir.dtype import BOOL, F32, F64, I8
from fuseline.ir.infer import MAX_NESTING
from fuseline.ir.node import literal
from programs import ELEMENTWISE, REDUCTIONS, RandomProgram, programs

X, Y = input_node("x", F32, (3,)), input_node("y", F32, (3,))
SUM = apply("add", X, Y)
EXP = apply("exp", SUM)
EXP_X = apply("exp", X)


def _not_interned() -> Node:
    copy = object.__new__(Node)
    for part in ("op", "args", "attrs", "type"):
        object.__setattr__(copy, part, getattr(SUM, part))
    return copy


BROKEN: dict[str, tuple[Callable[[], Graph], str]] = {
    "an instruction among the inputs": (lambda: Graph([X, Y, SUM], [("o", EXP)], [EXP]), "listed as an input"),
    "an input twice": (lambda: Graph([X, Y, X], [("o", SUM)], [SUM]), "listed twice"),
    "two inputs of one name": (lambda: Graph([X, input_node("x", F64)], [("o", X)], []), "two inputs have one name"),
    "an input among the instructions": (lambda: Graph([X], [("o", X)], [Y]), "not an instruction"),
    "a number among the instructions": (lambda: Graph([X], [("o", X)], [const(1, F32)]), "not an instruction"),
    "an unknown operation": (lambda: _one(make("frob", (X,), (), X.type)), "not an instruction"),
    "an instruction twice": (lambda: Graph([X, Y], [("o", SUM)], [SUM, SUM]), "stands twice"),
    "a user before its operand": (lambda: Graph([X, Y], [("o", EXP)], [EXP, SUM]), "before it is computed"),
    "a missing operand": (lambda: Graph([X, Y], [("o", EXP)], [EXP]), "before it is computed"),
    "an operand that is no input": (lambda: Graph([X], [("o", SUM)], [SUM]), "before it is computed"),
    "an untyped instruction": (lambda: _one(make("exp", (X,))), "has no type"),
    "an untyped number": (lambda: _one(make("add", (X, literal(1)), (), X.type)), "before it is computed"),
    "a wrong dtype": (lambda: _one(make("exp", (X,), (), TensorType(F64, (3,)))), "its operands give f32[3]"),
    "a wrong shape": (lambda: _one(make("exp", (X,), (), TensorType(F32, (4,)))), "its operands give f32[3]"),
    "a wrong number of operands": (lambda: _one(make("add", (X,), (), X.type)), "2 operands"),
    "operands that do not broadcast": (
        lambda: Graph([X, W4], [("o", BAD_SHAPES)], [BAD_SHAPES]), "do not broadcast",
    ),
    "a dtype the operation refuses": (lambda: _one(make("and", (X, X), (), X.type)), "does not accept f32"),
    "a cast without a target": (lambda: _one(make("cast", (X,), (), X.type)), "attribute dtype"),
    "an axis out of range": (
        lambda: _one(make("sum", (X,), (("axes", (1,)), ("keepdims", False)), TensorType(F32, ()))), "axis 1",
    ),
    "a node that is not interned": (lambda: _one(_not_interned(), X, Y), "not interned"),
    "an output that is not computed": (lambda: Graph([X, Y], [("o", SUM)], []), "the output o is not computed"),
    "two values of one name": (
        lambda: Graph([X, Y], [("o", EXP)], [SUM, EXP], {SUM: "v", EXP: "v"}), "two values have one name",
    ),
    "a value with the name of an input": (lambda: Graph([X, Y], [("o", SUM)], [SUM], {SUM: "x"}), "one name"),
    "several results as an output": (lambda: _one(apply("divmod", X, X)), "several results"),
    "a tuple where a tensor is wanted": (
        lambda: Graph([X], [("o", X)], [PAIR, make("exp", (PAIR,), (), X.type)]), "several results",
    ),
    "a projection of a tensor": (lambda: _one(make("proj", (X,), (("index", 0),), X.type)), "several results"),
    "a projection out of range": (
        lambda: Graph([X], [("o", X)], [PAIR, make("proj", (PAIR,), (("index", 2),), X.type)]), "index from 0 to 1",
    ),
    "a projection before the first": (
        lambda: Graph([X], [("o", X)], [PAIR, make("proj", (PAIR,), (("index", -1),), X.type)]), "index from 0 to 1",
    ),
    "a projection without an index": (
        lambda: Graph([X], [("o", X)], [PAIR, make("proj", (PAIR,), (), X.type)]), "index from 0 to 1, not None",
    ),
    "an attribute of another kind": (
        lambda: _one(make("sum", (X,), (("axes", (0.5,)), ("keepdims", False)), TensorType(F32, ()))),
        "the attribute axes cannot be",
    ),
    "an attribute that the operation does not have": (
        lambda: _one(make("exp", (X,), (("axes", (0,)),), X.type)), "exp has no attribute axes; it has none",
    ),
    "a bit cast to another size": (
        lambda: _one(make("bitcast", (X,), (("dtype", F64),), TensorType(F64, (3,)))), "the sizes differ",
    ),
    "a repetition a negative number of times": (
        lambda: _one(make("repeat", (X,), (("body", Graph([X], [("o", X)])), ("count", -1)), PAIR.type)), "and a count",
    ),
    "a repetition without a body": (lambda: _one(make("repeat", (X,), (("count", 2),), PAIR.type)), "needs a body"),
    "a repetition of a broken body": (lambda: _repeat(Graph([X], [("o", X)], [Y])), "not an instruction"),
    "a body that changes the type it carries": (
        lambda: _repeat(Graph([X], [("o", apply("cast", X, dtype=I8))])), "not what its first inputs take",
    ),
    "a body of other operands": (lambda: _repeat(Graph([X, Y], [("o", X)])), "the body takes"),
}  # fmt: skip
W4 = input_node("w", F32, (4,))
BAD_SHAPES = make("add", (X, W4), (), X.type)
PAIR = apply("divmod", X, X)


def _one(node: Node, *inputs: Node) -> Graph:
    return Graph(inputs or [X], [("o", node)], [node])


def _repeat(body: Graph) -> Graph:
    whole = make("repeat", (X,), (("body", body), ("count", 2)), apply("repeat", X, body=IDENTITY, count=2).type)
    return Graph([X], [("o", X)], [whole])


IDENTITY = Graph([X], [("x", X)])


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_named(rule: str) -> None:
    broken, says = BROKEN[rule]
    with pytest.raises(VerifyError) as caught:
        verify(broken())
    assert says in str(caught.value)


@given(programs(operations=(*ELEMENTWISE, *REDUCTIONS)))
def test_every_specialised_program_is_well_formed(made: RandomProgram) -> None:
    assert verify(made.graph) == made.graph
    verify(made.shapeless_graph)


def test_well_formed_graphs_of_every_kind_pass() -> None:
    whole = apply("repeat", X, Y, body=Graph([X, Y], [("x", SUM)]), count=0)
    part = apply("proj", whole, index=0)
    for graph in (
        Graph([], [("one", const(1, F32))]),
        Graph([X], [("x", X), ("also", X)]),
        Graph([X, Y], [("o", part)]),
        Graph([X], [("o", apply("where", const(True, BOOL), X, const(0, F32)))]),
    ):
        assert verify(graph) is graph


def test_bodies_may_contain_bodies_up_to_a_limit() -> None:
    graph = Graph([X], [("o", EXP_X)])
    for _ in range(MAX_NESTING):
        repeated = apply("proj", apply("repeat", X, body=graph, count=2), index=0)
        graph = verify(Graph([X], [("o", repeated)]))
    with pytest.raises(LimitError, match=f"nested more than {MAX_NESTING} deep"):
        apply("repeat", X, body=graph, count=2)
