"""Interning: equal nodes are one object, in every thread; nothing is kept alive; deep graphs are freed."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

from fuseline.ir import Graph, Node, TensorType, apply, const, make, node
from fuseline.ir.build import input_node
from fuseline.ir.dtype import BF16, BOOL, F16, F32, F64, I8, I64, U8
from fuseline.ir.node import const_array, const_bits, literal, literal_value
from fuseline.ir.size import named


def test_equal_parts_give_the_same_object() -> None:
    x = input_node("x", F32, (3, named("T")))
    assert apply("add", x, x) is apply("add", x, x)
    assert input_node("x", F32, (3, named("T"))) is x
    assert apply("sum", x, axes=(0,), keepdims=True) is apply("sum", x, axes=(0,), keepdims=True)


def test_any_different_part_gives_another_object() -> None:
    x, y = input_node("x", F32, (3,)), input_node("y", F32, (3,))
    different = [
        apply("add", x, y), apply("add", y, x), apply("sub", x, y), input_node("x", F64, (3,)), input_node("x", F32),
        input_node("x", F32, ()), input_node("x", F32, (1,)), input_node("x", F32, (3, 1)), make("input", (), x.attrs),
        apply("sum", x, axes=None), apply("sum", x, axes=(0,)), apply("sum", x, axes=(0,), keepdims=True),
    ]  # fmt: skip
    assert len(set(map(id, different))) == len(different)


def test_numbers_are_told_apart_by_their_bits() -> None:
    assert const(0.0, F32) is not const(-0.0, F32)
    assert const(float("nan"), F64) is const(float("nan"), F64)
    assert const(1.0, F32) is not const(1.0, F64)
    assert const(True, BOOL) is not const(1, I8)
    assert literal(1) is not literal(1.0)
    assert literal(True) is not literal(1)
    assert literal(0.0) is not literal(-0.0)


def test_there_is_one_nan_whatever_its_sign() -> None:
    negative = np.copysign(float("nan"), -1.0).item()
    assert literal(negative) is literal(float("nan"))
    for d in (F32, F64, F16, BF16):
        assert const(negative, d) is const(float("nan"), d)


@pytest.mark.parametrize("value", [0, -1, 2**70, True, False, 0.0, -0.0, 1.5, float("inf"), float("nan"), 5e-324])
def test_literals_keep_their_value(value: float) -> None:
    kept = literal_value(literal(value))
    assert type(kept) is type(value)
    assert repr(kept) == repr(value)


@pytest.mark.parametrize(
    ("value", "d", "bits"),
    [
        (1.0, F32, 0x3F800000), (0.1, F32, 0x3DCCCCCD), (0.1, F64, 0x3FB999999999999A), (0.1, F16, 0x3DCCCCCD),
        (0.1, BF16, 0x3DCCCCCD), (1e300, F32, 0x7F800000), (-1e300, F32, 0xFF800000), (1e5, F16, 0x47C35000),
        (-1, I8, 0xFF), (255, U8, 0xFF), (-1, I64, 2**64 - 1), (True, BOOL, 1), (2**63, F64, 0x43E0000000000000),
        (np.float32(0.1), F32, 0x3DCCCCCD), (1e-46, F32, 0), (-1e-46, F32, 0x80000000), (1e-45, F32, 1),
        (3.4028235677973366e38, F32, 0x7F800000), (3.4028235677973362e38, F32, 0x7F7FFFFF),
    ],
)  # fmt: skip
def test_numbers_are_rounded_once_to_the_dtype_they_are_computed_in(value: float, d: object, bits: int) -> None:
    made = const(value, d)  # type: ignore[arg-type]
    assert made.attr("bits") == bits
    assert made is const_bits(bits, d)  # type: ignore[arg-type]
    assert const_array(made).dtype == d.computed.numpy  # type: ignore[attr-defined]


def test_nodes_cannot_be_changed_or_made_otherwise() -> None:
    x = input_node("x", F32)
    with pytest.raises(AttributeError):
        x.op = "const"
    with pytest.raises(TypeError):
        Node()
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    with pytest.raises(TypeError):
        pickle.dumps(x)


def test_threads_get_the_same_objects() -> None:
    made: list[list[int]] = []
    start = threading.Barrier(8)
    kept: list[Node] = []

    def work() -> None:
        start.wait()
        chain = [input_node("shared", F32, (2,))]
        for i in range(1_500):
            chain.append(apply("add", chain[-1], const(float(i % 7), F32)))
        kept.extend(chain)
        made.append([id(n) for n in chain])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 8
    assert all(ids == made[0] for ids in made)


def test_threads_that_drop_and_remake_nodes_stay_consistent() -> None:
    errors: list[str] = []

    def work(seed: int) -> None:
        for i in range(3_000):
            a = apply("add", input_node(f"v{(i + seed) % 5}", F32), input_node(f"v{i % 3}", F32))
            b = apply("add", input_node(f"v{(i + seed) % 5}", F32), input_node(f"v{i % 3}", F32))
            if a is not b:
                errors.append(f"{a!r} is not {b!r}")

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def rows() -> int:
    """How many nodes the table knows after those that are gone have left it."""
    gc.collect()
    node._forget_the_dead()
    return len(node._table)


def test_a_node_may_die_on_another_thread_while_the_table_is_being_changed() -> None:
    """As when the collector runs on the thread that compiles for a handler of signals, which came in between."""
    dropped = [input_node("dies elsewhere", F32)]
    thread = threading.Thread(target=dropped.clear, daemon=True)
    with node._lock:
        thread.start()
        thread.join(timeout=20)
        assert not thread.is_alive()


def test_nodes_are_freed_when_nothing_uses_them() -> None:
    before = rows()
    x = input_node("only here", F32, (7,))
    y = apply("exp", apply("mul", x, const(0.12345, F32)))
    seen = weakref.ref(y)
    assert rows() == before + 4
    del x, y
    assert rows() == before
    assert seen() is None


def test_a_deep_chain_is_hashed_printed_and_freed_without_recursion() -> None:
    before = rows()
    x = input_node("x", F32)
    for _ in range(50_000):
        x = apply("neg", apply("exp", x))
    graph = Graph([input_node("x", F32)], [("out", x)])
    assert isinstance(hash(graph), int)
    assert "100000 instructions" in repr(graph)
    assert repr(x).startswith("<neg")
    assert graph.depth == 100_000
    del x, graph
    assert rows() <= before + 1


def test_a_graph_of_doublings_stays_small() -> None:
    x = input_node("x", F32, (2,))
    for _ in range(60):
        x = apply("add", x, x)
    graph = Graph([input_node("x", F32, (2,))], [("out", x)])
    assert len(graph.nodes) == 60
    assert graph.depth == 60


def test_a_pickled_graph_comes_back_as_the_same_nodes() -> None:
    x = input_node("x", BF16, (2, named("D")))
    y = apply("tanh", apply("mul", x, const(0.1, BF16)))
    graph = Graph([x], [("y", y), ("again", y)], names={y: "y"})
    again = pickle.loads(pickle.dumps(graph))  # noqa: S301
    assert again == graph
    assert again.outputs[0][1] is y


def test_program_order_is_part_of_a_graph() -> None:
    x = input_node("x", F32, (2,))
    a, b = apply("exp", x), apply("log", x)
    out = apply("add", a, b)
    first, second = Graph([x], [("o", out)], [a, b, out]), Graph([x], [("o", out)], [b, a, out])
    assert first != second
    assert first.number[a] == 0
    assert second.number[a] == 1
    assert first.users[x] == (a, b)
    assert first.levels[out] == 2


def test_types_print_as_in_the_text_form() -> None:
    assert str(TensorType(F32, (2, named("T")))) == "f32[2,T]"
    assert str(TensorType(F32)) == "f32[*]"
    assert str(TensorType(F32, ())) == "f32[]"
