"""Calls whose operands stand still in each run, and the bodies that know of it: which calls take which of how many."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from arrays import normal_numbers as numbers
from arrays import same_bits
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.dtype import F32, F64, DType
from fuseline.ir.graph import Graph
from fuseline.mathlib.expand import expand
from fuseline.runtime import cache, host, iterate
from fuseline.runtime.compile import elementwise_loop
from fuseline.runtime.loop import Loop

Array = NDArray[Any]


def normalising() -> Loop:
    """(x - m)/sqrt(v)."""
    x, m, v = (Expr(input_node(name, F32)) for name in "xmv")
    return elementwise_loop(Graph([x.node, m.node, v.node], [("out", ((x - m) / call("sqrt", v)).node)]))


@pytest.mark.parametrize(
    ("x", "v", "knows"),
    [
        ((3, 600), (3, 1), True),
        ((3, 600), (), True),
        ((3, 600), (600,), False),
        ((3, 600), (3, 600), False),
        ((600, 3), (), True),
        ((9, 512), (9, 1), True),
        ((9, 256), (9, 1), True),
        ((9, 255), (9, 1), False),
        ((100, 30), (100, 1), False),
        ((255,), (), False),
    ],
)
def test_rows_long_enough_are_run_by_a_body_that_knows_what_stands_still(
    x: tuple[int, ...], v: tuple[int, ...], knows: bool
) -> None:
    loop = normalising()
    operands = [numbers(x), np.array(0.25, np.float32), np.asarray(abs(numbers(v, 1)))]
    (result,) = iterate.run(loop, operands, [None])
    assert same_bits(result, (operands[0] - operands[1]) / np.sqrt(operands[2]))
    assert loop.is_compiled != knows
    prepared = iterate.prepare(loop, operands, [result])
    assert prepared is not None
    assert (prepared.loop is not loop) == knows


@pytest.mark.parametrize(("length", "is_one_row"), [(512, True), (511, False), (256, False)])
def test_rows_that_no_body_gains_by_are_run_several_at_once_up_to_a_length(length: int, is_one_row: bool) -> None:
    x, s = numbers((40, length)), numbers((40, 1), 1)
    a, b = (Expr(input_node(name, F32)) for name in "xs")
    loop = elementwise_loop(Graph([a.node, b.node], [("out", (a * b).node)]))
    (result,) = iterate.run(loop, [x, s], [None])
    assert same_bits(result, x * s)
    prepared = iterate.prepare(loop, [x, s], [result])
    assert prepared is not None
    assert prepared.plan.nest.inner == length
    assert bool(prepared.plan.still) == is_one_row


def test_loops_of_as_many_kinds_of_still_operands_as_there_are_stay_few() -> None:
    names = [f"x{i}" for i in range(12)]
    inputs = [Expr(input_node(name, F32)) for name in names]
    total = sum((call("sqrt", x) for x in inputs[1:]), call("sqrt", inputs[0]))
    loop = elementwise_loop(Graph([x.node for x in inputs], [("out", total.node)]))
    made = {id(loop.for_call((i,), False)) for i in range(12)}
    assert len(made) <= 9
    assert loop.for_call((0,), False) is loop.for_call((0,), False)
    assert loop.for_call((), False) is loop


def test_kinds_of_calls_that_gain_nothing_take_no_place_from_those_that_do() -> None:
    names = [f"x{i}" for i in range(12)]
    inputs = [Expr(input_node(name, F32)) for name in names]
    loop = elementwise_loop(Graph([x.node for x in inputs], [("out", sum(inputs[:-1], call("sqrt", inputs[-1])).node)]))
    assert all(loop.for_call((i, j), False) is loop for i, j in itertools.combinations(range(11), 2))
    assert loop.for_call((11,), False) is not loop


@pytest.mark.parametrize(("d", "differs"), [(F32, True), (F64, False)], ids=str)
def test_large_calls_in_float32_divide_where_others_multiply(
    monkeypatch: pytest.MonkeyPatch, d: DType, differs: bool
) -> None:
    slow = replace(host.host_target(), has_slow_divider=True)
    monkeypatch.setattr(host, "host_target", lambda: slow)
    x, s = (Expr(input_node(name, d)) for name in "xs")
    loop = elementwise_loop(Graph([x.node, s.node], [("out", (x / s).node)]))
    small, large = loop.for_call((1,), False), loop.for_call((1,), True)
    assert small is not loop
    assert (large is not small) == differs
    operands = [numbers((5000,)).astype(d.numpy), np.array(3.7, d.numpy)]
    for cache_bytes in (1, 1 << 30):
        monkeypatch.setattr(host, "cache_for_results_bytes", lambda size=cache_bytes: size)
        (result,) = iterate.run(loop, operands, [None])
        assert same_bits(result, operands[0] / operands[1])
    assert small.is_compiled and large.is_compiled and not loop.is_compiled


def test_a_body_that_is_on_disk_is_found_without_expanding_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So a process that has its bodies on disk loads them in a millisecond, for large calls and still operands too."""
    objects = cache.ObjectCache(tmp_path / "objects", 1 << 24)
    monkeypatch.setattr(cache, "object_cache", lambda: objects)
    slow = replace(host.host_target(), has_slow_divider=True)
    monkeypatch.setattr(host, "host_target", lambda: slow)
    expanded: list[Graph] = []

    def counted(graph: Graph) -> Graph:
        expanded.append(graph)
        return expand(graph)

    monkeypatch.setattr("fuseline.runtime.generate.expand", counted)
    x, s = (Expr(input_node(name, F32)) for name in "xs")
    program = Graph([x.node, s.node], [("out", (call("exp", call("sin", x)) / s - 0.625).node)])
    operands = [numbers((5000,)), np.array(3.7, np.float32)]
    results = []
    for cold in (True, False):
        loop = elementwise_loop(program)
        for cache_bytes in (1, 1 << 30):
            monkeypatch.setattr(host, "cache_for_results_bytes", lambda size=cache_bytes: size)
            results += iterate.run(loop, operands, [None])
        assert bool(expanded) == cold
        expanded.clear()
    assert all(same_bits(results[0], r) for r in results)


def test_a_loop_has_parts_that_compute_some_of_its_outputs() -> None:
    x, y = (Expr(input_node(name, F32)) for name in "xy")
    loop = elementwise_loop(
        Graph([x.node, y.node], [("a", (x * 2.0).node), ("b", (x + y).node), ("c", (y - 1.0).node)])
    )
    assert loop.for_outputs((0, 1, 2)) is loop
    part = loop.for_outputs((0, 2))
    assert part is loop.for_outputs((0, 2))
    p, q = numbers((700,)), numbers((700,), 1)
    doubled, lessened = iterate.run(part, [p, q], [None, None])
    assert same_bits(doubled, p * 2)
    assert same_bits(lessened, q - 1)
    assert not loop.is_compiled


def test_large_calls_without_divisions_have_the_body_of_small_ones() -> None:
    x = Expr(input_node("x", F32))
    loop = elementwise_loop(Graph([x.node], [("out", (x * 2.0 + 1.0).node)]))
    assert loop.for_call((), True) is loop
