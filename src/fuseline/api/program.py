"""From what a user writes to a graph: texts, functions and graphs are all accepted, and evaluated plainly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuseline.api.defaults import RUN_DTYPE
from fuseline.errors import LimitError, ShapeError, TypeRuleError, shown_number
from fuseline.floating_point import in_default_environment
from fuseline.ir.dtype import DType
from fuseline.ir.dtype import dtype as dtype_of
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import interpret
from fuseline.ir.names import is_name
from fuseline.ir.program import Program, untyped
from fuseline.ir.size import Dim, Shape, Size, named, names_in, sizes_wanted
from fuseline.ir.specialise import input_types, specialise
from fuseline.ir.text import is_graph_text, parse_graph
from fuseline.passes.pipeline import optimize as run_pipeline

Source = str | Program | Graph | Callable[..., Any]
"""A text (a formula, or a graph in its text form), a traced program, a graph, or a Python function of arrays."""


def as_program(source: Source, outputs: Sequence[str] | str | None = None) -> Program:
    """The untyped program of a text, a Python function or a graph.

    A text for ``outputs`` is one name. Raises `FormulaError`, `TextFormError` or `TraceError` for what is not a
    program, `UnknownNameError` for outputs that do not exist and `UsageError` for one that is named twice.
    """
    program = _read(source)
    return program.with_outputs(outputs) if outputs is not None else program


def _read(source: Source) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, Graph):
        return untyped(source)
    if isinstance(source, str):
        return program_of_text(source)
    inner = getattr(source, "program", None)
    if isinstance(inner, Program):
        return inner
    if callable(source):
        from fuseline.frontends.trace import trace

        return trace(source)
    raise TypeRuleError(f"a program is a text, a function or a graph, not {type(source).__name__}")


def program_of_text(text: str) -> Program:
    """The program of a formula, or of a graph in the text form that ``fuseline emit --target graph`` writes.

    Raises `FormulaError` for what is neither, `TextFormError` for a graph that breaks its form and `LimitError` for one
    of more than 16 MiB.
    """
    from fuseline.frontends.formula import MAX_TEXT_BYTES, parse_formula

    if not is_graph_text(text):
        return parse_formula(text)
    if len(text) > MAX_TEXT_BYTES:
        raise LimitError(f"the graph: it may have at most {MAX_TEXT_BYTES // 2**20} MiB")
    return untyped(parse_graph(text))


def formula_of(source: Source) -> str:
    """The formula that ``source`` is; empty where it is none."""
    return source if isinstance(source, str) and not is_graph_text(source) else ""


def refuse_outputs(g: Graph, outputs: Sequence[str] | None) -> Graph:
    """The graph itself; its outputs are chosen already."""
    if outputs is not None:
        raise TypeRuleError(f"a graph has its outputs ({', '.join(g.output_names)}); choose them where it is made")
    return g


def size_names(source: Program | Graph) -> list[str]:
    """The names of sizes that the inputs are declared with."""
    shapes = (
        [d.shape for d in source.inputs] if isinstance(source, Program) else [n.tensor.shape for n in source.inputs]
    )
    return sorted({name for shape in shapes if shape is not None for dim in shape for name in names_in(dim)})


def check_sizes(source: Program | Graph, sizes: Mapping[str, Any], arrays: bool = False) -> None:
    """Refuse a size that no array is declared with, and one that is no length; some may be left open.

    With ``arrays`` a size may be an array of lengths too. Raises `ShapeError`, and `TypeRuleError` for what maps no
    names.
    """
    _check_are_named(sizes)
    needed = size_names(source)
    extra = [name for name in sizes if name not in needed]
    if extra:
        asked = ", ".join(map(str, extra))
        known = f"the sizes are {', '.join(needed)}" if needed else "no array is declared with a named size"
        raise ShapeError(f"no array has a size called {asked}; {known}")
    for name, value in sizes.items():
        if not (arrays and _are_lengths(value)) and not _is_length(value):
            raise ShapeError(f"the size {name} is a whole number from 0 to 2**63 - 1, not {shown_number(value)}")


def _check_are_named(sizes: object) -> None:
    if not isinstance(sizes, Mapping):
        raise TypeRuleError(f"sizes are lengths by name, as {{'T': 4096}}, not {sizes!r:.60}")


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _are_lengths(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.integer)) and value.dtype.kind in "iu" and bool(np.all(value >= 0))


def bound_sizes(source: Program | Graph, sizes: Mapping[str, Any] | None, arrays: bool = False) -> dict[str, Any]:
    """Every named size with its value; raises `ShapeError` for one that is missing and as `check_sizes` does."""
    given = {} if sizes is None else sizes
    _check_are_named(given)
    missing = [name for name in size_names(source) if name not in given]
    if missing:
        raise ShapeError(sizes_wanted(missing))
    check_sizes(source, given, arrays)
    return {name: given[name] for name in size_names(source)}


def graph(
    source: Source,
    dtype: DType | str = RUN_DTYPE,
    outputs: Sequence[str] | None = None,
    shape: Shape | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Graph:
    """The typed graph of a program before any pass.

    Args:
        source: text of a formula or a graph, function or program; a graph that is an object is returned unchanged.
        dtype: dtype of the inputs that the program does not declare.
        outputs: names to return; by default those that no statement reads.
        shape: shape of the inputs that are not declared; None leaves it to the caller's arrays.
        sizes: values for named sizes; those without one stay symbolic.

    A graph's text declares its inputs: ``dtype`` has no say in them, ``shape`` where their shapes are left open.
    """
    if isinstance(source, Graph):
        return refuse_outputs(source, outputs)
    program = as_program(source, outputs)
    check_sizes(program, {} if sizes is None else sizes)
    return specialise(program, input_types(program, dtype_of(dtype), _checked_shape(shape), sizes))


def _checked_shape(shape: object) -> Shape | None:
    """A shape of lengths and sizes as a tuple; NumPy's integers are lengths, and a name is a size."""
    if shape is None:
        return None
    given = shape if isinstance(shape, Sequence) and not isinstance(shape, str | bytes) else (None,)
    dims: list[Dim] = []
    for d in given:
        dim: Any = int(d) if isinstance(d, np.integer) else named(d) if isinstance(d, str) and is_name(d) else d
        if not isinstance(dim, Size) and not _is_length(dim):
            raise ShapeError(f"a shape is a tuple of lengths or sizes, as (4096, 14336), not {shape!r:.60}")
        dims.append(dim)
    return tuple(dims)


def typed(program: Program, dtype: DType, shape: Shape | None, sizes: Mapping[str, int]) -> Graph:
    """The graph with its named sizes left as names, unless shapes meet in it that only their values reconcile."""
    declared = {d.shape is not None for d in program.inputs}
    try:
        return graph(program, dtype, None, shape, sizes if len(declared) > 1 else None)
    except ShapeError:  # names that differ may be one length
        return graph(program, dtype, None, shape, sizes)


def _as_graph(g: object, function: str) -> Graph:
    """The graph; dtypes are chosen where one is made, so what has none yet is refused."""
    if isinstance(g, Graph):
        return g
    raise TypeRuleError(
        f"{function} takes a graph, not {type(g).__name__}; make one of a formula, function or kernel first, as in "
        f'fuseline.{function}(fuseline.graph("x + 1", dtype="f32"){", …" if function == "evaluate" else ""})'
    )


def optimize(g: Graph) -> Graph:
    """The graph after every pass; the same bits by construction (SEMANTICS: strict by default).

    Raises `TypeRuleError` for anything but a graph.
    """
    return run_pipeline(_as_graph(g, "optimize"))


@in_default_environment
def evaluate(g: Graph, arrays: Mapping[str, Any] | None = None, **named_arrays: Any) -> Any:
    """The outputs of a graph by the interpreter, the plain and slow definition of what it means.

    Arrays are given by input name and converted to the input's dtype where that loses nothing; a Python number takes
    the dtype as it does in a kernel. One output is returned as an array, several as a dict by name.

    Raises `TypeRuleError` for anything but a graph and for what would lose something, `NumberRangeError` for a number
    that the dtype cannot hold and `ShapeError` for shapes that do not fit declarations or each other.
    """
    g = _as_graph(g, "evaluate")
    if arrays is not None and not isinstance(arrays, Mapping):
        raise TypeRuleError(f"arrays are given by the names of their inputs, as {{'x': x}}, not {arrays!r:.60}")
    given = {**(arrays or {}), **named_arrays}
    unknown = [n for n in given if n not in g.input_names]
    if unknown:
        raise ShapeError(
            f"no input is called {', '.join(map(str, unknown))}; the inputs are {', '.join(g.input_names) or 'none'}"
        )
    feeds = {}
    for node in g.inputs:
        name = node.attr("name")
        if name in given:
            feeds[name] = _as_dtype(name, given[name], node.dtype)
    outputs = interpret(g, feeds)
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def _as_dtype(name: str, value: Any, d: DType) -> Any:
    if type(value) in (bool, int, float):
        from fuseline.runtime.operands import as_arrays

        return as_arrays([value], [name], [d])[0][0]
    if isinstance(value, np.ma.MaskedArray):
        raise TypeRuleError(f"the input {name} is a masked array, whose mask would be lost; fill it first")
    array = np.asarray(value)
    if array.dtype == d.numpy:
        return array
    if not np.can_cast(array.dtype, d.numpy, "safe") or (d.is_float and not _are_exact_in_float64(array)):
        raise TypeRuleError(f"the input {name} is {d}; an array of {array.dtype} would lose digits; convert it first")
    return array.astype(d.numpy)


def _are_exact_in_float64(array: np.ndarray[Any, Any]) -> bool:
    """False for 64-bit integers of which float64 has not every digit, though NumPy calls that cast safe."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or not array.size:
        return True
    return int(array.max()) <= 2**53 and int(array.min()) >= -(2**53)
