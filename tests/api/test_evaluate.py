"""`evaluate` takes what loses nothing, and names what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.errors import FuselineError, NumberRangeError, ShapeError, TypeRuleError
from fuseline.ir import interpret


@pytest.mark.parametrize(
    ("declared", "value"),
    [("i8", 300), ("i8", -129), ("u8", -1), ("i64", 2**63), ("f32", 10**400), ("f64", -(10**400)), ("bf16", 10**400)],
)
def test_a_number_that_its_input_does_not_hold_is_refused_by_name(declared: str, value: int) -> None:
    with pytest.raises(NumberRangeError, match=r"\bx\b"):
        fl.evaluate(fl.graph(f"x: {declared}; x + x"), x=value)


@pytest.mark.parametrize(
    ("declared", "value"), [("i8", 3.5), ("i8", 3.0), ("bool", 2), ("bool", 1.0), ("u64", float("nan"))]
)
def test_a_number_of_a_wider_kind_is_refused_by_name(declared: str, value: float) -> None:
    with pytest.raises(TypeRuleError, match=r"\bx\b"):
        fl.evaluate(fl.graph(f"x: {declared}; f32(x)"), x=value)


def test_numbers_are_those_that_kernels_take() -> None:
    for declared in ("bool", "i8", "u8", "i64", "f16", "bf16", "f32", "f64"):
        for value in (True, 0, 1, 100, 127, 128, -1, 2**53 + 1, 0.1, float("inf"), 10**30):
            text = f"x: {declared}; y = where(x == x, x, x)"
            outcomes: list[Any] = []
            for ask in (lambda t, v: fl.compile(t)(v), lambda t, v: fl.evaluate(fl.graph(t), x=v)):
                try:
                    with np.errstate(over="ignore"):
                        outcomes.append(np.asarray(ask(text, value)).astype(np.float64).item())
                except FuselineError as error:
                    outcomes.append(type(error))
            assert outcomes[0] == outcomes[1], (declared, value)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("i8", np.int64(3)),
        ("i8", [1, 2]),
        ("f32", np.float64(0.1)),
        ("f32", np.arange(3)),
        ("f64", np.array([2**53 + 1])),
        ("f64", np.uint64(2**64 - 1)),
        ("f64", 2j),
        ("f64", "1"),
        ("f64", [10**400]),
        ("f64", np.ma.masked_array([1.0, 2.0], [True, False])),
    ],
)
def test_arrays_that_would_lose_something_are_refused_by_name(declared: str, value: Any) -> None:
    with pytest.raises(TypeRuleError, match=r"\bx\b"):
        fl.evaluate(fl.graph(f"x: {declared}; x + x"), x=value)


def test_arrays_that_lose_nothing_are_converted() -> None:
    for declared, value in [
        ("i32", np.arange(3, dtype=np.int8)),
        ("f64", np.array([2**53, -(2**53)])),
        ("f64", [1, 2]),
        ("f64", np.array([], np.int64)),
        ("f32", np.arange(3, dtype=">f4")),
        ("i8", [True, False]),
    ]:
        expected = np.asarray(value) * 1
        assert np.array_equal(fl.evaluate(fl.graph(f"x: {declared}; x*1"), x=value), expected), declared


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x: f32[4]; x + 1", {"x": (3,)}),
        ("x: f32[4]; x + 1", {"x": (1, 4)}),
        ("x: f32[4]; x + 1", {"x": ()}),
        ("x: f32[]; x + 1", {"x": (1,)}),
        ("x: f32[T,D]; b: f32[D]; x + b", {"x": (2, 4), "b": (3,)}),
        ("x: f32[T,D]; b: f32[D]; x + b", {"x": (2, 4), "b": (1,)}),
        ("x: f32[T,T]; x + 1", {"x": (2, 3)}),
        ("x: f32[T,D]; b: f32[D]; y = sum(x); z = b", {"x": (2, 4), "b": (3,)}),
    ],
)
def test_shapes_against_declarations_are_refused_as_kernels_refuse_them(text: str, shapes: dict[str, Any]) -> None:
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ShapeError) as kernels:
        fl.compile(text)(**arrays)
    with pytest.raises(ShapeError) as evaluates:
        fl.evaluate(fl.graph(text), arrays)
    with pytest.raises(ShapeError):
        interpret(fl.graph(text), arrays)
    assert str(evaluates.value) == str(kernels.value)


def test_a_graph_made_for_a_shape_takes_no_other() -> None:
    g = fl.graph("x + y", shape=(4,))
    assert fl.evaluate(g, x=np.ones(4, np.float32), y=np.ones(4, np.float32)).shape == (4,)
    with pytest.raises(ShapeError, match=r"\by\b"):
        fl.evaluate(g, x=np.ones(4, np.float32), y=np.ones(3, np.float32))


@pytest.mark.parametrize("text", ["x + y", "h = x*2; h + y", "where(x > 0, y, x)", "fma(x, y, x)", "sum(x, 0) + y"])
def test_shapes_that_do_not_broadcast_are_refused_with_their_operands(text: str) -> None:
    arrays = {"x": np.ones((2, 3), np.float32), "y": np.ones((2, 4), np.float32)}
    with pytest.raises(ShapeError, match=r"\by of shape \(2,4\)"):
        fl.evaluate(fl.graph(text), arrays)


@pytest.mark.parametrize(
    "given", ["x + 1", fl.compile("x + 1"), lambda x: x + 1, None, 3], ids=lambda g: type(g).__name__
)
def test_what_is_no_graph_is_refused_with_how_to_make_one(given: object) -> None:
    for function in (fl.evaluate, fl.optimize):
        with pytest.raises(
            TypeRuleError, match=rf"{function.__name__} takes a graph, not {type(given).__name__}; .*graph\("
        ):
            function(given)  # type: ignore[arg-type]
