"""From what a user writes to a graph: texts, functions and graphs are all accepted, and evaluated plainly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError, TypeRuleError
from ..floating_point import default_environment
from ..ir.dtype import DType
from ..ir.dtype import dtype as dtype_of
from ..ir.graph import Graph
from ..ir.interpret import interpret
from ..ir.program import Program, input_types, specialise
from ..ir.size import Shape
from ..passes.pipeline import optimize as run_pipeline

Source = str | Program | Graph | Callable[..., Any]
"""A formula, a traced program, a graph, or a Python function of arrays."""


def as_program(source: Source, outputs: Sequence[str] | None = None) -> Program:
    """The untyped program of a formula text or a Python function.

    Raises `FormulaError` or `TraceError` for what is not a program, `UnknownNameError` for outputs that do not exist.
    """
    program = _read(source)
    return program.with_outputs(list(outputs)) if outputs is not None else program


def _read(source: Source) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, str):
        from ..frontends.formula import parse_formula

        return parse_formula(source)
    inner = getattr(source, "program", None)
    if isinstance(inner, Program):
        return inner
    if callable(source):
        from ..frontends.trace import trace

        return trace(source)
    raise TypeRuleError(f"a program is a formula text, a function or a graph, not {type(source).__name__}")


def refuse_outputs(g: Graph, outputs: Sequence[str] | None) -> Graph:
    """The graph itself; its outputs are chosen already."""
    if outputs is not None:
        raise TypeRuleError(f"a graph has its outputs ({', '.join(g.output_names)}); choose them where it is made")
    return g


def graph(
    source: Source,
    dtype: DType | str = "f32",
    outputs: Sequence[str] | None = None,
    shape: Shape | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Graph:
    """The typed graph of a program before any pass.

    Args:
        source: formula text, function or program; a graph is returned unchanged.
        dtype: dtype of the inputs that the program does not declare.
        outputs: names to return; by default those that no statement reads.
        shape: shape of the inputs that are not declared; None leaves it to the caller's arrays.
        sizes: values for named sizes; without them the graph stays symbolic.
    """
    if isinstance(source, Graph):
        return refuse_outputs(source, outputs)
    program = as_program(source, outputs)
    return specialise(program, input_types(program, dtype_of(dtype), shape, sizes))


def optimize(g: Graph) -> Graph:
    """The graph after every pass; the same bits by construction (SEMANTICS: strict by default)."""
    return run_pipeline(g)


@default_environment()
def evaluate(g: Graph, arrays: Mapping[str, Any] | None = None, **named: Any) -> Any:
    """The outputs of a graph by the interpreter, the plain and slow definition of what it means.

    Arrays are given by input name and converted to the input's dtype where that loses nothing. One output is returned
    as an array, several as a dict by name.
    """
    given = {**(arrays or {}), **named}
    unknown = [n for n in given if n not in g.input_names]
    if unknown:
        raise ShapeError(
            f"no input is called {', '.join(unknown)}; the inputs are {', '.join(g.input_names) or 'none'}"
        )
    feeds = {}
    for node in g.inputs:
        name = node.attr("name")
        if name in given:
            feeds[name] = _as_dtype(name, given[name], node.dtype)
    outputs = interpret(g, feeds)
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def _as_dtype(name: str, value: Any, d: DType) -> Any:
    array = np.asarray(value)
    if array.dtype == d.numpy:
        return array
    plain_number = isinstance(value, (bool, int, float))
    if not plain_number and not np.can_cast(array.dtype, d.numpy, "safe"):
        raise TypeRuleError(f"the input {name} is {d}; an array of {array.dtype} would lose digits; convert it first")
    return array.astype(d.numpy)
