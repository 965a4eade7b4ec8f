"""The documentation of the language says what the table says, and its examples are programs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from fuseline.api.program import evaluate, graph
from fuseline.errors import LiteralError, TypeRuleError
from fuseline.frontends.formula import parse_formula
from fuseline.frontends.trace import trace

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")


def test_the_page_of_operations_is_the_table() -> None:
    spec = importlib.util.spec_from_file_location("document_operations", ROOT / "tools" / "document_operations.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    written = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert written == tool.page(), "run python tools/document_operations.py"


def test_the_formula_of_the_page_is_the_function_of_the_page() -> None:
    (formula,) = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    (function,) = re.findall(r"```python\n.*?@fl.fuse\n(.*?)```", PAGE, re.DOTALL)
    scope: dict[str, object] = {"np": pytest.importorskip("numpy")}
    exec(function, scope)
    parsed, traced = parse_formula(formula), trace(scope["layer"])  # type: ignore[arg-type]
    assert [d.name for d in parsed.inputs] == [d.name for d in traced.inputs] == ["x", "b", "r"]
    assert [n.op for n in parsed.nodes].count("tanh") == [n.op for n in traced.nodes].count("tanh") == 1
    assert [n for n, _ in parsed.outputs] == [n for n, _ in traced.outputs] == ["out"]


def test_numbers_out_of_range_are_refused_and_compared_as_the_page_says() -> None:
    assert "integers out of the arrays' range" in PAGE
    x = np.array([1, -7], np.int8)
    for program in (
        "x + 300",
        "where(x > 0, 300, x)",
        "where(x > 0, x, 300)",
        "where(x > 300, 300, x)",
        "clip(x, -300, 300)",
    ):
        with pytest.raises(LiteralError, match="does not fit i8"):
            graph(program, "i8")
    for program, value in (("x < 300", True), ("x == 300", False), ("x > -2**70", True)):
        result = evaluate(graph(program, "i8"), x=x)
        assert result.dtype == bool and np.broadcast_to(result, x.shape).tolist() == [value, value]
    if np.lib.NumpyVersion(np.__version__) >= "2.5.0":  # what NumPy makes of it
        with pytest.raises(OverflowError):
            np.where(x > 0, 300, x)
    else:
        assert np.where(x > 0, 300, x).tolist() == [44, -7]


def test_relu_and_not_of_bool_are_as_the_page_says() -> None:
    with pytest.raises(TypeRuleError, match="relu does not accept bool"):
        graph("relu(x)", "bool")
    result = evaluate(graph("x + ~True"), x=np.float32([1.5]))
    assert result.tolist() == [1.5]


def test_a_plus_before_bool_is_what_the_page_says() -> None:
    assert "`+x` of bool | `x` | refused" in PAGE
    x = np.array([True, False])
    with pytest.raises(TypeError):
        np.positive(x)
    for made in (graph("+x", "bool"), graph(lambda x: +x, "bool")):
        assert np.array_equal(evaluate(made, x=x), x)
