"""A named size is the length that it is given: plans and counts are those of the literal shapes."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.api.explaining import prepared
from fuseline.errors import ShapeError
from fuseline.ir.dtype import F32
from fuseline.ir.index_map import lie_alike

NAMES = ("T", "D", "H")


def random_program(rng: Random) -> tuple[str, dict[str, int]]:
    """A program over named sizes of which some are 1, and some equal; its shapes need not fit."""
    sizes = {name: rng.choice([1, 1, 2, 3, 3]) for name in NAMES}
    lines = []
    values = []
    for i in range(rng.randint(1, 4)):
        dims = [rng.choice([*NAMES[:2], NAMES[2], "1"]) if rng.random() < 0.5 else NAMES[j] for j in range(2)]
        dims = dims[rng.randint(0, 2) :] if rng.random() < 0.4 else dims
        lines.append(f"v{i}: f32[{','.join(dims)}]")
        values.append(f"v{i}")
    for i in range(rng.randint(1, 7)):
        a, b, c = (rng.choice(values[-4:]) for _ in range(3))
        text = rng.choice(
            [f"exp({a})", f"{a} + {b}", f"{a} - {b}", f"{a} * 2", f"where({a} > 0, {b}, {c})", f"minimum({a}, {b})"] * 2
            + [f"f64({a})", f"sum({a}, -1, keepdims=True)", f"sum({a})"]
        )
        lines.append(f"t{i} = {text}")
        values.append(f"t{i}")
    return "\n".join(lines), sizes


def literal(text: str, sizes: dict[str, int]) -> str:
    return "\n".join(
        re.sub(r"\b[TDH]\b", lambda m: str(sizes[m[0]]), line) if "[" in line else line for line in text.splitlines()
    )


def answers(text: str, sizes: dict[str, int] | None) -> Any:
    """What plan and explain say, but for times; a refusal as its kind."""
    try:
        plan = fl.plan_program(text, sizes=sizes)
        told = fl.explain(text, sizes=sizes).to_dict()
    except ShapeError:
        return "shapes do not fit"
    numbers = (plan.arena.peak_bytes, plan.lower_bound_bytes, plan.optimal, plan.order, plan.overwrites)
    return numbers, told["memory"], told["traffic"], told["instructions"], told["flop_count"]


def test_named_sizes_are_planned_and_counted_as_the_lengths_that_they_are() -> None:
    fitting = 0
    for seed in range(400):
        text, sizes = random_program(Random(seed))
        used = {name: n for name, n in sizes.items() if re.search(rf"\[[^]]*\b{name}\b", text)}
        named = answers(text, used)
        assert named == answers(literal(text, sizes), None), (text, used)
        fitting += named != "shapes do not fit"
    assert fitting > 200


@pytest.mark.parametrize(
    ("text", "sizes", "peak"),
    [
        ("x: f32[T,D]; b: f32[1,D]; h = exp(b); y = h + x; out = y*2", {"T": 1, "D": 4096}, 16384),
        ("v0: f32[]; v1: f32[1,D]; v2: f32[T,1]; t0=v0-v2; t1=t0+v1; t2=t1*2", {"T": 300, "D": 1}, 1200),
        ("x: f32[5]; y: f32[1,5]; h = exp(x); out = h + y", {}, 20),
        ("x: f32[]; y: f32[1,1]; h = exp(x); out = h + y", {}, 4),
    ],
)
def test_a_result_takes_an_operand_that_lies_alike(text: str, sizes: dict[str, int], peak: int) -> None:
    plan = fl.plan_program(text, sizes=sizes)
    assert (plan.arena.peak_bytes, plan.optimal) == (peak, True)
    memory = fl.explain(text, sizes=sizes).memory
    assert (memory.planned_buffers, memory.best_order_buffers) == (1, 1)


@pytest.mark.parametrize("operand", [(), (1,), (5,), (1, 5), (3, 1), (3, 5), (1, 1, 5), (2, 3, 5), (0,), (1, 0)])
@pytest.mark.parametrize("other", [(), (5,), (1, 5), (3, 5), (2, 3, 5), (1, 1, 1), (2, 1, 1), (1, 3, 5)])
def test_lying_alike_is_reading_the_position_that_is_written(operand: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Judged by NumPy: the element that each position of the result reads, against the position itself."""
    try:
        result = np.broadcast_shapes(operand, other)
    except ValueError:
        return
    read = np.broadcast_to(np.arange(int(np.prod(operand))).reshape(operand), result)
    same = read.size == np.prod(operand) and bool((read.ravel() == np.arange(read.size)).all())
    if 0 not in result:
        assert lie_alike(operand, result) == same


def test_the_program_is_shown_with_its_names_and_counted_by_its_lengths() -> None:
    e = fl.explain("x: f32[T,D]; b: f32[D]; out = x*b", sizes={"T": 1, "D": 8})
    assert "f32[T,D]" in e.dataflow.text
    assert [n.tensor.shape for n in e.bound_graph.inputs] == [(1, 8), (8,)]


def test_a_graph_of_open_shapes_is_bound_to_the_shape_that_is_given() -> None:
    g = fl.graph("s = sum(x, 1, keepdims=True); out = exp(s)")
    made = prepared(g, (1, 6), F32, None, None)
    assert [n.tensor.shape for n in made.graph.nodes] == [(1, 1), (1, 1)]
    assert fl.plan_program(g, (1, 6)).arena.peak_bytes == 4


def test_the_planned_numpy_text_writes_over_what_lies_alike() -> None:
    from fuseline.codegen.numpy.steps import build_steps

    text = "x: f32[5]; y: f32[1,5]; h = exp(x); g = h + y; k = where(g > 2, g, h); out = k*2"
    planned = build_steps(fl.optimize(fl.graph(text)), planned=True)
    x, y = np.linspace(-1, 1, 5, dtype=np.float32), np.linspace(0, 3, 5, dtype=np.float32)[None]
    h = np.exp(x)
    g = h + y
    np.testing.assert_array_equal(planned.run({"x": x, "y": y})["out"], np.where(g > 2, g, h) * 2)
