"""Wrong types for every argument of the public functions are taken, or refused by an error of the family."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.api.roofline import formula_cost
from fuseline.errors import DataFileError, FuselineError, PlanError, ShapeError, TypeRuleError, UnitError, UsageError

TEXT = "y = x + 1; zed = y*2"
GRAPH = fl.graph("y = x + 1")
KERNEL = fl.compile(TEXT)

VALUES = [
    5, 1.5, None, b"x", object(), [1], {"a": 1}, "nonsense", "", np.ones(2), True, -1, float("nan"), [], (), set(),
    2**70, np.float64(2), "\x00", [None], {1: 2}, ("T", 4), 10**400, 1j, ..., int, np.dtype("f4"), "class", ["y", "y"],
]  # fmt: skip

FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "compile": (fl.compile, {"source": TEXT}),
    "fuse": (fl.fuse, {"function": lambda x: x + 1}),
    "graph": (fl.graph, {"source": TEXT}),
    "optimize": (fl.optimize, {"g": GRAPH}),
    "evaluate": (lambda g, arrays: fl.evaluate(g, arrays), {"g": GRAPH, "arrays": {"x": np.ones(2, np.float32)}}),
    "evaluate x": (lambda x: fl.evaluate(GRAPH, x=x), {"x": 1.0}),
    "explain": (fl.explain, {"source": TEXT}),
    "plan_buffers": (fl.plan_buffers, {"buffers": [(0, 1, 4)]}),
    "plan_program": (fl.plan_program, {"source": TEXT}),
    "classify a shape": (fl.classify, {"m": 8, "n": 8, "k": 8}),
    "classify rates": (fl.classify, {"m": 8, "n": 8, "k": 8, "tflops": 1.0, "gbps": 10.0}),
    "device": (fl.device, {"name": "h100-sxm"}),
    "devices": (fl.devices, {}),
    "measure": (fl.measure, {"source": "x + 1", "n": 0}),
    "trim": (fl.trim, {}),
    "emit": (KERNEL.emit, {}),
    "typed_graph": (KERNEL.typed_graph, {"dtypes": (np.dtype("f4"),)}),
    "call": (lambda x, out: KERNEL(x, out=out), {"x": np.ones(2), "out": None}),
    "Buffer": (fl.Buffer, {"id": "a", "lower": 0, "upper": 1, "size": 4}),
    "Instance": (fl.Instance, {"buffers": (fl.Buffer("a", 0, 1, 4),)}),
    "formula_cost": (formula_cost, {"formula": TEXT, "shape": (4,)}),
}
ARGUMENTS = [(name, argument) for name, (f, _) in FUNCTIONS.items() for argument in inspect.signature(f).parameters]


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS, ids="-".join)
def test_what_is_wrong_is_refused_in_words(name: str, argument: str) -> None:
    function, given = FUNCTIONS[name]
    for value in VALUES:
        if "progress" in argument and callable(value):
            continue  # the caller's own function, with errors of its own
        try:
            function(**{**given, argument: value})
        except FuselineError as error:
            assert str(error)
        except MemoryError:
            assert argument == "shape"


@pytest.mark.parametrize("name", [5, b"k", "class", "a b", "", "ﬁ", ["k"]])
def test_a_kernel_has_a_name_that_python_takes(name: Any) -> None:
    with pytest.raises(UsageError, match="name is"):
        fl.compile("x + 1", name=name)
    with pytest.raises(UsageError, match="name is"):
        fl.fuse(lambda x: x + 1, name=name)


def test_arguments_are_named() -> None:
    with pytest.raises(TypeRuleError, match="arrays are given by the names of their inputs"):
        fl.evaluate(GRAPH, [1.0])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="no input is called 1"):
        fl.evaluate(GRAPH, {1: 2.0})  # type: ignore[dict-item]
    with pytest.raises(TypeRuleError, match="dtypes are NumPy dtypes, one for each of x"):
        KERNEL.typed_graph(())
    with pytest.raises(PlanError, match="an alignment is at most"):
        fl.plan_program(TEXT, alignment=2**70)
    with pytest.raises(UnitError, match="device_files must be paths, not None"):
        fl.devices([None])  # type: ignore[list-item]
    with pytest.raises(DataFileError, match="null"):
        fl.devices("\x00")
    with pytest.raises(UnitError, match="shape must be lengths"):
        formula_cost(TEXT, 1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [[2, 3], (np.int64(2), 3), (2, np.uint8(3))])
def test_a_graph_takes_shapes_as_numpy_does(shape: Any) -> None:
    assert fl.graph("y = x + 1", shape=shape) == fl.graph("y = x + 1", shape=(2, 3))


def test_a_name_in_a_shape_is_a_size() -> None:
    assert fl.graph("y = x + 1", shape=("T", 3)) == fl.graph("x: f32[T, 3]; y = x + 1")


def test_programs_of_numbers_have_a_cost() -> None:
    assert [t.name for t in formula_cost("y = 1 + 1; z = x*2", (4,)).tensors] == ["x", "z", "y"]
