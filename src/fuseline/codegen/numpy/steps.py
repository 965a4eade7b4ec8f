"""A graph as a list of NumPy calls: the same steps are printed as text and run.

16-bit floats are computed in float32 and rounded at casts and outputs, so fused and unfused programs agree.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...ir.dtype import DType
from ...ir.graph import Graph
from ...ir.infer import signature
from ...ir.node import Node, const_array
from ...ops import OPERATIONS
from ...passes.rewrite import rewrite
from ...plan.buffers import BufferPlan, assign_buffers
from ..composites import RULES
from . import functions

_DIFFERENT_NAMES = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "neg": "negative", "abs": "absolute", "lt": "less", "le": "less_equal", "eq": "equal",
    "ne": "not_equal", "gt": "greater", "ge": "greater_equal", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "shl": "left_shift", "shr": "right_shift", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "round": "rint",
}  # fmt: skip
_OWN = {"where": "select", "erf": "erf", "erfc": "erfc"}
_REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "max", "min": "min", "any": "any", "all": "all"}


RESERVED = frozenset({"np", "math", "bfloat16", "shape", *_OWN.values(), *keyword.kwlist})
"""What the text calls something of its own, or cannot be a name in it."""


@dataclass(frozen=True, slots=True)
class Step:
    """``target = function(*args, **options)``. An argument is a step's name or a NumPy scalar."""

    target: str
    function: str
    """How the text calls it: ``np.add``, ``select``, ``astype``."""
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()
    out: str = ""
    """The buffer that takes the result; empty for a fresh array."""


@dataclass(frozen=True, slots=True)
class Name:
    """An argument that is another step's target."""

    text: str


@dataclass(frozen=True)
class NumpyProgram:
    """Steps, the buffers they share (name, dtype), and what is returned (output name, step name)."""

    inputs: tuple[str, ...]
    buffers: tuple[tuple[str, np.dtype[Any]], ...]
    steps: tuple[Step, ...]
    returned: tuple[tuple[str, str], ...]

    def make_buffers(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """New buffers for inputs of these shapes; empty for a program that is not planned."""
        if not self.buffers:
            return {}
        shape = np.broadcast_shapes(*(np.shape(arrays[name]) for name in self.inputs))
        return {name: np.empty(shape, d) for name, d in self.buffers}

    def run(self, arrays: Mapping[str, Any], buffers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The outputs by name. Broadcasting, strides and errors are NumPy's.

        ``buffers`` of an earlier `make_buffers` are written over, and the outputs lie in them.
        """
        values: dict[str, Any] = {name: np.asarray(arrays[name]) for name in self.inputs}
        values.update(self.make_buffers(values) if buffers is None else buffers)
        with np.errstate(all="ignore"):
            for step in self.steps:
                args = [values[a.text] if isinstance(a, Name) else a for a in step.args]
                options = dict(step.options)
                if step.out:
                    options["out"] = values[step.out]
                values[step.target] = _FUNCTIONS[step.function](*args, **options)
        return {name: values[target] for name, target in self.returned}


def _astype(x: Any, dtype: Any) -> Any:
    return np.asarray(x).astype(dtype)


def _numpy_functions() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {"astype": _astype, "np.array": np.array}
    for op in OPERATIONS:
        name = _DIFFERENT_NAMES.get(op, op)
        if op not in _OWN and hasattr(np, name):
            table[f"np.{name}"] = getattr(np, name)
    table.update({name: getattr(functions, name) for name in _OWN.values()})
    return table


_FUNCTIONS = _numpy_functions()


def build_steps(graph: Graph, planned: bool = False, order: tuple[Node, ...] | None = None) -> NumpyProgram:
    """The calls that compute ``graph``; ``planned`` gives their results the buffers of a greedy plan."""
    ready = rewrite(graph, RULES)
    return _Writer(ready, planned, order if ready.nodes == graph.nodes else None).program()


class _Writer:
    def __init__(self, graph: Graph, planned: bool, order: tuple[Node, ...] | None) -> None:
        self.graph = graph
        self.order = order or graph.nodes
        self.plan: BufferPlan | None = _plan(graph, self.order) if planned else None
        self.buffer_of = {a.value: a.buffer for a in self.plan.assignments} if self.plan else {}
        self.names: dict[Node, str] = {}
        self.used: set[str] = set()
        self.widened: dict[tuple[Node, str], str] = {}
        self.steps: list[Step] = []
        self.reserved = RESERVED

    def program(self) -> NumpyProgram:
        for node in self.graph.inputs:
            self.names[node] = self.fresh(self.graph.label(node))
        inputs = tuple(self.names[n] for n in self.graph.inputs)
        for node in self.graph.inputs:
            if node.dtype.is_storage_float:
                self.names[node] = self.append(
                    f"{self.names[node]}_f32", "astype", (Name(self.names[node]),), np.float32
                )
        for node in self.order:
            self.instruction(node)
        returned = self.returned()
        return NumpyProgram(inputs, self.buffers(), tuple(self.steps), returned)

    def buffers(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        if self.plan is None:
            return ()
        dtypes = {a.buffer: a.value.dtype.computed.numpy for a in self.plan.assignments if _buffered(a.value)}
        return tuple((f"buffer{b}", d) for b, d in sorted(dtypes.items()))

    def fresh(self, label: str) -> str:
        base = label if label.isidentifier() else f"t{label.replace('.', '_')}"
        name, n = base, 1
        while name in self.used or name in self.reserved or name.removeprefix("buffer").isdecimal():
            name, n = f"{base}_{n}", n + 1
        self.used.add(name)
        return name

    def append(self, label: str, function: str, args: tuple[Any, ...], dtype: Any = None, out: str = "") -> str:
        options = (("dtype", np.dtype(dtype)),) if dtype is not None else ()
        target = self.fresh(label)
        self.steps.append(Step(target, function, args, options, out))
        return target

    def instruction(self, node: Node) -> None:
        row = OPERATIONS[node.op]
        label = self.graph.label(node)
        if row.type_rule == "cast":
            self.names[node] = self.cast(node, label)
            return
        wanted = signature(node.op, tuple(a.dtype for a in node.args)).operands
        args = tuple(self.argument(a, d) for a, d in zip(node.args, wanted, strict=True))
        if row.index_rule == "reduction":
            options = (("axis", node.attr("axes")), ("keepdims", node.attr("keepdims", False)))
            self.names[node] = self.fresh(label)
            self.steps.append(Step(self.names[node], f"np.{_REDUCTIONS[node.op]}", args, options))
            return
        if row.type_rule == "whole" and not node.dtype.is_float:
            self.names[node] = self.append(label, "np.array", args)
            return
        function = _OWN.get(node.op) or f"np.{_DIFFERENT_NAMES.get(node.op, node.op)}"
        if function not in _FUNCTIONS:
            raise UnsupportedError(f"the NumPy text has no {node.op}: it is written from programs before expansion")
        out = f"buffer{self.buffer_of[node]}" if node in self.buffer_of and _buffered(node) else ""
        self.names[node] = self.append(label, function, args, out=out)

    def cast(self, node: Node, label: str) -> str:
        operand = node.args[0]
        name = self.append(label, "astype", (self.argument(operand, operand.dtype),), node.dtype.numpy)
        if not node.dtype.is_storage_float:
            return name
        return self.append(f"{name}_f32", "astype", (Name(name),), np.float32)

    def argument(self, node: Node, wanted: DType) -> Any:
        """A value as an argument of a call that computes in ``wanted``."""
        if node.op == "const":
            value = const_array(node)
            return value.astype(wanted.computed.numpy)[()] if wanted.is_float else value[()]
        name = self.names[node]
        if node.dtype.computed is wanted.computed:
            return Name(name)
        key = (node, wanted.computed.name)
        if key not in self.widened:
            self.widened[key] = self.append(f"{name}_{wanted.computed}", "astype", (Name(name),), wanted.computed.numpy)
        return Name(self.widened[key])

    def returned(self) -> tuple[tuple[str, str], ...]:
        result, given = [], set()
        for output, node in self.graph.outputs:
            if node.op == "const":
                name = self.append(output, "np.array", (const_array(node).astype(node.dtype.numpy)[()],))
            elif node.dtype.is_storage_float:
                name = self.append(output, "astype", (Name(self.names[node]),), node.dtype.numpy)
            elif node.op == "input" or node in given:
                name = self.append(output, "np.array", (Name(self.names[node]),))
            else:
                name = self.names[node]
            given.add(node)
            result.append((output, name))
        return tuple(result)


def _buffered(node: Node) -> bool:
    """Whether the call that computes this value can write into a buffer."""
    row = OPERATIONS[node.op]
    if row.index_rule != "elementwise" or row.type_rule in ("cast", "bitcast", "lookup") or node.op in ("erf", "erfc"):
        return False
    return row.type_rule != "whole" or node.dtype.is_float


def _plan(graph: Graph, order: tuple[Node, ...]) -> BufferPlan:
    """Buffers of one element each stand for whole arrays; values share one only where their computed dtype is the
    same."""
    return assign_buffers(graph, lambda _: 1, order, class_of=lambda n: (n.dtype.computed, _buffered(n)))
