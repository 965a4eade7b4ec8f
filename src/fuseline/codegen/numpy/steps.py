"""A graph as a list of NumPy calls: the same steps are printed as text and run.

16-bit floats are computed in float32 and rounded at casts and outputs, so fused and unfused programs agree.
"""

from __future__ import annotations

import functools
import keyword
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from fuseline.codegen.numpy import functions
from fuseline.codegen.several_calls import RULES
from fuseline.errors import UnsupportedError
from fuseline.ir.dtype import DType
from fuseline.ir.graph import Graph
from fuseline.ir.infer import signature
from fuseline.ir.node import Node, const_array
from fuseline.ops import OPERATIONS
from fuseline.passes.rewrite import rewrite

_OWN = {"where": "select", "erf": "erf", "erfc": "erfc"}

_MEMORY = ("arena", "stride", "stride_of", "allocate", "part", "cast")
RESERVED = frozenset({"np", "math", "max", "bfloat16", "shape", *_MEMORY, *_OWN.values(), *keyword.kwlist})
"""What the text calls something of its own, or cannot be a name in it."""


class Writes(StrEnum):
    """How a call can put its result into memory that it is given."""

    NEVER = "never"
    ELEMENTWISE = "elementwise"
    """``out=``, reading each operand only where it writes."""
    CONVERTING = "converting"
    REDUCING = "reducing"


class Step(NamedTuple):
    """``target = function(*args, **options)``, an array of ``dtype``; ``shape`` is None where only the run tells."""

    target: str
    function: str
    """How the text calls it: ``np.add``, ``select``, ``astype``."""
    args: tuple[Any, ...]
    """A step's or input's name, or a NumPy scalar."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    options: tuple[tuple[str, Any], ...] = ()
    writes: Writes = Writes.NEVER
    out: str = ""
    """The place that takes the result; empty for a fresh array."""

    @property
    def operands(self) -> list[str]:
        """The names among the arguments."""
        return [a.text for a in self.args if isinstance(a, Name)]


@dataclass(frozen=True, slots=True)
class Name:
    """An argument that is another step's target."""

    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """Memory for results: the bytes of ``memory`` from ``start`` as an array; an array of its own without ``memory``.

    ``shape`` is one of numbers, or of the names of inputs that are broadcast together; then ``start`` counts in strides
    of the program.
    """

    name: str
    memory: str
    start: int
    shape: tuple[int | str, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class NumpyProgram:
    """Steps, the places that take their results, and what is returned (output name, step name).

    ``arena_size`` is that of the one block in which places lie that are no outputs: in bytes, or in strides where
    shapes are known only at run time.
    """

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    returned: tuple[tuple[str, str], ...]
    places: tuple[Place, ...] = ()
    arena_size: int = 0

    @property
    def shapes(self) -> tuple[tuple[int | str, ...], ...]:
        """The sets of inputs that shapes of places are made of; none where shapes are numbers."""
        return tuple(dict.fromkeys(p.shape for p in self.places if any(isinstance(d, str) for d in p.shape)))

    def make_buffers(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """New memory for inputs of these shapes, by place; empty for a program that is not planned."""
        shapes = {names: np.broadcast_shapes(*(np.shape(arrays[str(n)]) for n in names)) for names in self.shapes}
        largest = max((math.prod(shape) for shape in shapes.values()), default=0)
        stride = functions.stride_of(largest) if shapes else 1
        made: dict[str, Any] = {"arena": functions.allocate(self.arena_size * stride)}
        for p in self.places:
            shape = shapes.get(p.shape, p.shape)
            if p.memory:
                made[p.name] = functions.part(made[p.memory], p.start * stride, shape, p.dtype)
            else:
                made[p.name] = np.empty(shape, p.dtype)
        del made["arena"]
        return made

    def run(self, arrays: Mapping[str, Any], buffers: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The outputs by name. Broadcasting, strides and errors are NumPy's.

        ``buffers`` of an earlier `make_buffers` are written over, and the outputs lie in them.
        """
        with np.errstate(all="ignore"):
            results = self.bound(arrays, buffers)()
        return dict(zip((name for name, _ in self.returned), results, strict=True))

    def bound(self, arrays: Mapping[str, Any], buffers: Mapping[str, Any] | None = None) -> Callable[[], Sequence[Any]]:
        """The calls on these arrays as a function of no arguments, which returns the outputs in order.

        Everything is looked up here, so that it takes as long as the body of the emitted text does. Whoever calls it
        sets NumPy's error state.
        """
        given = {name: np.asarray(arrays[name]) for name in self.inputs}
        given.update(self.make_buffers(given) if buffers is None else buffers)
        constants = [a for step in self.steps for a in step.args if not isinstance(a, Name)]
        first = [*given.values(), *constants]
        place = {name: i for i, name in enumerate(given)}
        next_constant = len(given)
        calls: list[tuple[Callable[..., Any], Callable[[Any], Any]]] = []
        for number, step in enumerate(self.steps):
            operands = []
            for a in step.args:
                if isinstance(a, Name):
                    operands.append(place[a.text])
                else:
                    operands.append(next_constant)
                    next_constant += 1
            calls.append((_bound_call(step, given), _getter(operands)))
            place[step.target] = len(first) + number
        returned = _getter([place[target] for _, target in self.returned])

        def run() -> Sequence[Any]:
            values = first.copy()
            append = values.append
            for call, operands_in in calls:
                append(call(*operands_in(values)))
            found: Sequence[Any] = returned(values)
            return found

        return run


def _bound_call(step: Step, given: Mapping[str, Any]) -> Callable[..., Any]:
    """What a step calls, with its options and its place."""
    if step.function == "astype":
        return operator.methodcaller("astype", *dict(step.options).values())
    options = dict(step.options)
    if step.out:
        options["out"] = given[step.out]
    function = _FUNCTIONS[step.function]
    return functools.partial(function, **options) if options else function


def _getter(positions: Sequence[int]) -> Callable[[Any], Any]:
    """What takes these positions out of a list, as a sequence."""
    if len(positions) == 1:  # of one position `itemgetter` makes no sequence
        return operator.itemgetter(slice(positions[0], positions[0] + 1))
    return operator.itemgetter(*positions) if positions else lambda _: ()


def _numpy_functions() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {"np.array": np.array, "cast": functions.cast}
    for row in OPERATIONS.values():
        name = row.numpy_name
        if row.name not in _OWN and name is not None:
            table[f"np.{name}"] = getattr(np, name)
    table.update({name: getattr(functions, name) for name in _OWN.values()})
    return table


_FUNCTIONS = _numpy_functions()


def build_steps(graph: Graph, planned: bool = False) -> NumpyProgram:
    """The calls that compute ``graph``, in its order.

    ``planned`` puts their results into one arena and into the outputs, and runs them in the order of least memory.
    """
    program = _Writer(rewrite(graph, RULES)).program()
    if not planned:
        return program
    from fuseline.codegen.numpy.memory import plan_memory

    return plan_memory(program)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[Node, str] = {}
        self.used: set[str] = set()
        self.widened: dict[tuple[Node, str], str] = {}
        self.rounded: dict[Node, str] = {}
        self.steps: list[Step] = []
        self.calls: dict[tuple[object, ...], _Call] = {}
        """By operation and dtypes: large programs have few kinds of instructions."""

    def program(self) -> NumpyProgram:
        for node in self.graph.inputs:
            self.names[node] = self.fresh(self.graph.label(node))
        inputs = tuple(self.names[n] for n in self.graph.inputs)
        for node in self.graph.inputs:
            if node.dtype.is_storage_float:
                self.names[node] = self.convert(f"{self.names[node]}_f32", Name(self.names[node]), np.float32, node)
        for node in self.graph.nodes:
            self.instruction(node)
        returned = self.returned()
        return NumpyProgram(inputs, tuple(self.steps), returned)

    def fresh(self, label: str) -> str:
        base = label if label.isidentifier() else f"t{label.replace('.', '_')}"
        name, n = base, 1
        while name in self.used or name in RESERVED or _NUMBERED.fullmatch(name):
            name, n = f"{base}_{n}", n + 1
        self.used.add(name)
        return name

    def append(
        self,
        label: str,
        function: str,
        args: tuple[Any, ...],
        node: Node,
        dtype: Any = None,
        options: tuple[tuple[str, Any], ...] = (),
        writes: Writes = Writes.NEVER,
    ) -> str:
        target = self.fresh(label)
        kind = node.dtype.computed.numpy if dtype is None else np.dtype(dtype)
        self.steps.append(Step(target, function, args, kind, _known_shape(node), options, writes))
        return target

    def convert(self, label: str, arg: Any, dtype: Any, node: Node) -> str:
        """A step that converts ``arg``, which has the shape of ``node``."""
        options = (("dtype", np.dtype(dtype)),)
        return self.append(label, "astype", (arg,), node, dtype, options, Writes.CONVERTING)

    def instruction(self, node: Node) -> None:
        label = self.graph.label(node)
        if OPERATIONS[node.op].type_rule == "cast":
            self.names[node] = self.cast(node, label)
            return
        kind = (node.op, node.attrs, *[a.dtype for a in node.args])
        call = self.calls.get(kind) or self.calls.setdefault(kind, _call(node))
        args = tuple(map(self.argument, node.args, call.operands))
        self.names[node] = self.append(label, call.function, args, node, None, call.options, call.writes)

    def cast(self, node: Node, label: str) -> str:
        operand = node.args[0]
        if operand.op != "const" and operand.dtype.is_storage_float and operand.dtype.computed is node.dtype:
            return self.names[operand]  # widened already
        name = self.convert(label, self.argument(operand, operand.dtype), node.dtype.numpy, node)
        if not node.dtype.is_storage_float:
            return name
        self.rounded[node] = name
        return self.convert(f"{name}_f32", Name(name), np.float32, node) if self.graph.users[node] else name

    def argument(self, node: Node, wanted: DType) -> Any:
        """A value as an argument of a call that computes in ``wanted``."""
        if node.op == "const":
            value = const_array(node)
            return value.astype(wanted.computed.numpy, copy=False)[()] if wanted.is_float else value[()]
        name = self.names[node]
        if node.dtype.computed is wanted.computed:
            return Name(name)
        key = (node, wanted.computed.name)
        if key not in self.widened:
            label = f"{name}_{wanted.computed}"
            self.widened[key] = self.convert(label, Name(name), wanted.computed.numpy, node)
        return Name(self.widened[key])

    def returned(self) -> tuple[tuple[str, str], ...]:
        result, given = [], set()
        for output, node in self.graph.outputs:
            if node.op == "const":
                value = const_array(node).astype(node.dtype.numpy)[()]
                name = self.append(output, "np.array", (value,), node, node.dtype.numpy)
            elif node in self.rounded and node not in given:
                name = self.rounded[node]
            elif node.dtype.is_storage_float:
                options = (("dtype", np.dtype(node.dtype.numpy)),)
                args = (Name(self.names[node]),)
                name = self.append(output, "astype", args, node, node.dtype.numpy, options)
            elif node.op == "input" or node in given:
                name = self.append(output, "np.array", (Name(self.names[node]),), node)
            else:
                name = self.names[node]
            given.add(node)
            result.append((output, name))
        return tuple(result)


_NUMBERED = re.compile(r"(buffer|shape)\d+")


def _known_shape(node: Node) -> tuple[int, ...] | None:
    """The shape of a value where all of it is known before the run."""
    shape = node.tensor.shape
    if shape is None:
        return None
    known = tuple([d for d in shape if isinstance(d, int)])
    return known if len(known) == len(shape) else None


@dataclass(frozen=True, slots=True)
class _Call:
    """How an operation is called on operands of certain dtypes: the dtypes that they are converted to first."""

    function: str
    operands: tuple[DType, ...]
    writes: Writes
    options: tuple[tuple[str, Any], ...] = ()


def _call(node: Node) -> _Call:
    row = OPERATIONS[node.op]
    wanted = signature(node.op, tuple(a.dtype for a in node.args)).operands
    if row.index_rule == "reduction":
        options = (("axis", node.attr("axes")), ("keepdims", node.attr("keepdims", False)))
        # NumPy adds up integers in its own dtype; only what has the result's dtype may go where it is told.
        writes = Writes.REDUCING if wanted[0].computed is node.dtype.computed else Writes.NEVER
        if not node.dtype.is_float and node.op in ("sum", "mean"):
            writes = Writes.NEVER
        return _Call(f"np.{row.numpy_name}", wanted, writes, options)
    if row.type_rule == "whole" and not node.dtype.is_float:
        return _Call("np.array", wanted, Writes.NEVER)
    function = _OWN.get(node.op) or f"np.{row.numpy_name}"
    if function not in _FUNCTIONS:
        raise UnsupportedError(f"the NumPy text has no {node.op}: it is written from programs before expansion")
    return _Call(function, wanted, Writes.ELEMENTWISE if _writes_elementwise(node) else Writes.NEVER)


def _writes_elementwise(node: Node) -> bool:
    """Whether the call that computes this value can write it into memory that it is given."""
    row = OPERATIONS[node.op]
    if row.index_rule != "elementwise" or row.type_rule in ("cast", "bitcast", "lookup") or node.op in ("erf", "erfc"):
        return False
    return row.type_rule != "whole" or node.dtype.is_float
