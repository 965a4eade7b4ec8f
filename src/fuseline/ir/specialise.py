"""A program for inputs of certain dtypes and shapes.

It is walked once: numbers fold among themselves, take the dtype of the array they meet, and every instruction gets the
type that NumPy would give it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fuseline.errors import FuselineError, LiteralError, ShapeError
from fuseline.excerpts import located, source_line
from fuseline.floating_point import in_default_environment
from fuseline.ir.call_numbers import Limits
from fuseline.ir.dtype import BOOL, F64, I64, U64, DType, common_dtype
from fuseline.ir.garbage import collection_paused
from fuseline.ir.graph import Graph
from fuseline.ir.infer import signature, tensor_type
from fuseline.ir.literals import default_dtype, evaluate_literals, in_range, limits, meeting_dtype, number_const
from fuseline.ir.node import Attrs, Node, Number, const, literal_value, make
from fuseline.ir.program import Program
from fuseline.ir.size import Shape
from fuseline.ir.types import TensorType
from fuseline.ops import OPERATIONS, Operation, operation


def specialise(program: Program, types: Mapping[str, TensorType]) -> Graph:
    """The typed graph for inputs of these types, before any pass.

    Raises the error of the rule that is broken, with the line, the column and a caret.
    """
    return specialise_for_numbers(program, types, frozenset())[0]


@in_default_environment
def specialise_for_numbers(
    program: Program,
    types: Mapping[str, TensorType],
    numbers: frozenset[str],
    known: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Graph, Limits]:
    """The same where ``numbers`` are inputs that a call gives Python numbers for, typed bool, int64, uint64 or
    float64, and ``known`` are inputs that are numbers of the program for this once, and no inputs of the graph.

    Each operation converts them to the dtype of the arrays beside them, as it does the numbers of the program. With the
    graph come the limits of what is an integer.
    """
    work = _Specialisation(program, types, numbers, known)
    with collection_paused():
        for node in program.nodes:
            try:
                work.values[node] = work.instruction(node)
            except FuselineError as error:
                raise _with_location(error, program, node) from None
        return work.graph(), work.limits


@dataclass(frozen=True, slots=True)
class _WeakNode:
    """A number of a call, or what is computed of such numbers alone, that has met no array."""

    node: Node


_LIKE: dict[DType, Number] = {BOOL: False, I64: 0, U64: 0, F64: 0.0}
"""A Python number of the kind that a dtype stands for."""

Strong = Node | Number
"""A typed node, or a number of the program that has not met an array."""
Value = Strong | _WeakNode


_NODES = {Node}


class _Specialisation:
    def __init__(
        self, program: Program, types: Mapping[str, TensorType], numbers: frozenset[str], known: Mapping[str, int]
    ) -> None:
        self.program = program
        self.values: dict[Node, Any] = {}
        self.inputs: list[Node] = []
        self.nodes: dict[Node, None] = {}
        self.names: dict[Node, str] = {}
        self.source_names = program.names
        self.limits: dict[Node, tuple[int, int]] = {}
        self.types: dict[tuple[object, ...], TensorType] = {}
        """The type of an operation on operands of certain types, by their identity: large programs have few."""
        for declared in program.inputs:
            if declared.name in known:
                self.values[make("input", (), (("name", declared.name),))] = known[declared.name]
                continue
            typed = make("input", (), (("name", declared.name),), types[declared.name])
            value = _WeakNode(typed) if declared.name in numbers else typed
            self.values[make("input", (), (("name", declared.name),))] = value
            self.inputs.append(typed)

    def value(self, node: Node) -> Any:
        """The typed node or number that an untyped node has become; a tuple for several results."""
        known = self.values.get(node)
        if known is None:
            known = self.values[node] = literal_value(node) if node.op == "literal" else node
        return known

    def instruction(self, node: Node) -> Value | tuple[Value, ...]:
        """An operation whose results are operations of their own is taken apart: equal operands are shared anyway."""
        row = operation(node.op)
        if row.parts:
            return tuple(self.single(make(part, node.args, node.attrs), OPERATIONS[part]) for part in row.parts)
        if node.op == "proj":
            picked: Value = self.value(node.args[0])[node.attr("index")]
            return self.called(picked, node) if isinstance(picked, Node) else picked
        return self.single(node, row)

    def single(self, node: Node, row: Operation) -> Value:
        """An operation with one result."""
        operands: list[Any] = list(map(self.values.get, node.args))
        if None in operands:
            operands = list(map(self.value, node.args))
        if {*map(type, operands)} <= _NODES:
            return self.made(node.op, tuple(operands), node.attrs, node)
        if row.type_rule == "cast":
            return self.made(node.op, (self.as_node(operands[0]),), node.attrs, node)
        if any(isinstance(v, _WeakNode) for v in operands):
            return self.of_weak(node, row, operands)
        if row.index_rule == "elementwise" and not any(isinstance(v, Node) for v in operands):
            return evaluate_literals(node.op, operands)
        args = self.met(node.op, operands)
        if row.type_rule == "compare":
            return self.comparison(node, args, operands)
        return self.made(node.op, args, node.attrs, node)

    def of_weak(self, node: Node, row: Operation, operands: Sequence[Value]) -> Value:
        """An operation with operands that are numbers of the call, among numbers or beside arrays."""
        among_numbers = not any(isinstance(v, Node) for v in operands)
        beside = self.meeting(row, operands[1:] if node.op == "where" else operands)
        # Integers are compared by value, and floats among themselves have the widest dtype of their kind already.
        kept = row.type_rule == "compare" if beside.is_integer else among_numbers
        strong = [self.strengthened(v, None if kept else beside) for v in operands]
        if node.op == "where":
            strong[0] = self.strengthened(operands[0], None)
        if beside.is_integer and not kept:
            for untyped, v in zip(node.args, operands, strict=True):
                if isinstance(v, _WeakNode) and v.node.dtype.is_integer:
                    is_exponent = node.op == "pow" and untyped is node.args[1]
                    low, high = limits(beside)
                    self.limit(untyped, max(low, 0) if is_exponent else low, high)
        args = self.met(node.op, strong)
        is_comparison = row.type_rule == "compare"
        made = self.comparison(node, args, strong) if is_comparison else self.made(node.op, args, node.attrs, node)
        if not among_numbers or made.dtype not in _LIKE:
            return made
        if made.dtype.is_integer:
            self.limit(node, *limits(made.dtype))
        return _WeakNode(made)

    def limit(self, untyped: Node, low: int, high: int) -> None:
        """``untyped``, an integer computed of numbers of the call, has to be from ``low`` to ``high``."""
        known_low, known_high = self.limits.get(untyped, (low, high))
        self.limits[untyped] = max(low, known_low), min(high, known_high)

    def strengthened(self, value: Value, d: DType | None) -> Strong:
        """A number of the call as a typed value, converted to ``d`` if that is given; anything else unchanged."""
        if not isinstance(value, _WeakNode):
            return value
        node = value.node
        return node if d is None or node.dtype in (d, BOOL) else self.made("cast", (node,), (("dtype", d),), node)

    def meeting(self, row: Operation, operands: Sequence[Value]) -> DType:
        """The dtype that numbers among ``operands`` take: that of the arrays, or the float in which the operation
        computes on integers."""
        common = self.common(operands)
        if common.is_integer and row.type_rule in ("divide", "float"):
            return signature(row.name, (common,) * row.arity).operands[0]
        return common

    @staticmethod
    def common(values: Sequence[Value]) -> DType:
        """The dtype that arrays have together, and with numbers beside them (NEP 50); a bool has one, as in NumPy."""
        likes = [_LIKE[v.node.dtype] if isinstance(v, _WeakNode) else v for v in values]
        kinds = tuple([BOOL if isinstance(v, bool) else v.dtype for v in likes if isinstance(v, (Node, bool))])
        found: DType | None = common_dtype(kinds) if kinds else None
        for v in likes:
            if not isinstance(v, (Node, bool)):
                found = meeting_dtype(v, found)
        assert found is not None
        return found

    def as_node(self, value: Value) -> Node:
        if isinstance(value, Node):
            return value
        if isinstance(value, _WeakNode):
            return value.node
        return number_const(value, default_dtype(value), "no array is beside it; write it as a float, as in 2.0**63")

    def met(self, op: str, operands: Sequence[Strong]) -> tuple[Node, ...]:
        """Numbers converted to the dtype of the arrays beside them (NEP 50); a bool has a dtype, as in NumPy."""
        if len(operands) == 2:  # nearly always: a float beside an array of floats
            a, b = operands
            if isinstance(a, Node) and isinstance(b, float) and a.dtype.is_float:
                return a, const(b, a.dtype)
            if isinstance(b, Node) and isinstance(a, float) and b.dtype.is_float:
                return const(a, b.dtype), b
        if op == "where":
            condition = operands[0] if isinstance(operands[0], Node) else number_const(bool(operands[0]), BOOL)
            return condition, *self.met("", operands[1:])
        if op == "pow" and isinstance(operands[0], Node) and not isinstance(operands[1], Node):
            self.check_exponent(operands[0].dtype, operands[1])
        given = [number_const(v, BOOL) if isinstance(v, bool) else v for v in operands]
        common = self.meeting(OPERATIONS[op], given) if op else self.common(given)
        clamped = common.is_integer and bool(op) and OPERATIONS[op].type_rule == "compare"
        return tuple([v if isinstance(v, Node) else self.beside(v, common, clamped) for v in given])

    @staticmethod
    def beside(value: Number, d: DType, clamped: bool) -> Node:
        """A number as a constant of the dtype it meets; what is only compared may be out of range."""
        if clamped and not in_range(value, d):
            value = limits(d)[value > 0]
        return number_const(value, d)

    @staticmethod
    def check_exponent(base: DType, exponent: Number) -> None:
        if not base.is_float and isinstance(exponent, int) and exponent < 0:
            raise LiteralError(f"{base} to the power {exponent}: integers have no negative powers; use x**{exponent}.0")

    def comparison(self, node: Node, args: tuple[Node, ...], operands: Sequence[Strong]) -> Node:
        """A number outside the array's integer range still compares as the number it is."""
        outside = [i for i, v in enumerate(operands) if not isinstance(v, Node) and self.outside(v, args[i].dtype)]
        if not outside:
            return self.made(node.op, args, node.attrs, node)
        number = operands[outside[0]]
        assert not isinstance(number, Node)
        left_is_smaller = (number > 0) == (outside[0] == 1)
        truth = {"lt": left_is_smaller, "le": left_is_smaller, "gt": not left_is_smaller, "ge": not left_is_smaller}
        array = args[1 - outside[0]]
        always = truth.get(node.op, node.op == "ne")
        # `x == x` on integers is true everywhere, with the array's shape.
        return self.made("eq" if always else "ne", (array, array), (), node)

    @staticmethod
    def outside(value: Number, d: DType) -> bool:
        return d.is_integer and not in_range(value, d)

    def made(self, op: str, args: tuple[Node, ...], attrs: Attrs, origin: Node) -> Node:
        kind = (op, attrs, *[id(a.type) for a in args])
        type_ = self.types.get(kind)
        if type_ is None:
            type_ = self.types[kind] = self.type_of(op, args, attrs)
        typed = make(op, args, attrs, type_)
        self.nodes[typed] = None
        return self.called(typed, origin) if self.source_names else typed

    def type_of(self, op: str, args: tuple[Node, ...], attrs: Attrs) -> TensorType:
        types = [a.tensor for a in args]
        try:
            return tensor_type(op, types, attrs)
        except ShapeError:
            return tensor_type(op, types, attrs, [self.label(a) for a in args])  # the same error, naming the operands

    def called(self, typed: Node, origin: Node) -> Node:
        """``typed`` by the name of the untyped node it comes from; the first name stays."""
        name = self.source_names.get(origin)
        if name is not None:
            self.names.setdefault(typed, name)
        return typed

    def label(self, node: Node) -> str:
        if node.op == "input":
            return str(node.attr("name"))
        return self.names.get(node) or (f"the result of {node.op}" if node.op != "const" else "a number")

    def graph(self) -> Graph:
        outputs = [(name, self.output(node)) for name, node in self.program.outputs]
        return Graph(self.inputs, outputs, self.nodes, self.names)

    def output(self, node: Node) -> Node:
        try:
            return self.as_node(self.value(node))
        except LiteralError as error:
            raise _with_location(error, self.program, node) from None


def _with_location(error: FuselineError, program: Program, node: Node) -> FuselineError:
    line, column = program.locations.get(node, (0, 0))
    if not line:
        return error
    text = located(str(error), source_line(program.source, line), line, column)
    return type(error)(f"{program.origin}, {text}" if program.origin else text)


def input_types(
    program: Program,
    dtype: DType,
    shape: Shape | None = None,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, TensorType]:
    """Types for every input: declared ones as declared, the others of ``dtype`` and ``shape``; ``sizes`` bind names."""
    result = {}
    for d in program.inputs:
        dims: Any = d.shape if d.shape is not None else shape
        if sizes and dims is not None:
            dims = tuple(sizes.get(str(x), x) for x in dims)
        result[d.name] = TensorType(d.dtype or dtype, dims)
    return result
