"""Types of operations: the one place where the table's type rules are carried out.

`signature` says in which dtypes an operation computes and what it returns; `tensor_type` adds shapes. Code generators
insert the conversions that a signature implies; until then operands may be of different dtypes, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from fuseline.errors import LimitError, ShapeError, TypeRuleError, shown_number
from fuseline.ir.dtype import BOOL, F16, F32, F64, I8, I64, U64, DType, common_dtype, promote
from fuseline.ir.graph import Graph
from fuseline.ir.node import Attrs, Node, make
from fuseline.ir.size import Shape, broadcast
from fuseline.ir.types import TensorType, TupleType, Type
from fuseline.ops import OPERATIONS, Operation, operation


@dataclass(frozen=True, slots=True)
class Signature:
    """The dtypes an operation's operands are converted to, and the dtype of its result."""

    operands: tuple[DType, ...]
    result: DType


@cache
def signature(op: str, operands: tuple[DType, ...], target: DType | None = None) -> Signature:
    """Resolve ``op`` on operands of these dtypes; ``target`` is the attribute of casts.

    Raises `TypeRuleError` naming the operation and the dtypes where NumPy has no loop for them.
    """
    row = operation(op)
    if row.type_rule == "tuple":
        raise TypeRuleError(f"{op} has several results or operands, each of its own dtype")
    if row.arity != len(operands):
        raise TypeRuleError(f"{op} takes {row.arity} operand{'s' * (row.arity != 1)}, not {len(operands)}")
    match row.type_rule:
        case "cast":
            return Signature(operands, _required(op, target))
        case "bitcast":
            if _required(op, target).bits != operands[0].bits:
                raise TypeRuleError(f"bitcast from {operands[0]} to {target}: the sizes differ")
            return Signature(operands, _required(op, target))
        case "lookup":
            _refuse(row, operands, operands[0].is_integer, "an integer index")
            return Signature(operands, _required(op, target))
        case "select":
            branches = promote(operands[1], operands[2])
            return Signature((BOOL, branches, branches), branches)
    return _by_common(row, operands)


def _by_common(row: Operation, operands: tuple[DType, ...]) -> Signature:
    """Rules that first promote every operand to one dtype."""
    rule = row.type_rule
    if rule == "compare" and {d.kind for d in operands} == {"int", "uint"} and U64 in operands:
        return Signature(operands, BOOL)  # compared exactly, not through f64
    common = common_dtype(operands)
    if common.bits < 8 or (common.is_float and common.bits == 8):
        raise TypeRuleError(f"{row.name} on {common}: narrow formats are storage; cast to f32 first, as in f32(x)")
    compute, result = common, common
    match rule:
        case "arithmetic_no_bool":
            _refuse(row, operands, common is not BOOL, "numbers; for bool use ~ (not), ^ (exclusive or) or a cast")
        case "bool_to_i8":
            compute = result = I8 if common is BOOL else common
        case "divide":
            compute = result = common if common.is_float else F64
        case "float":
            compute = result = common if common.is_float else common_dtype(tuple(map(_floating, operands)))
        case "compare" | "predicate" | "logical" | "reduce_bool":
            result = BOOL
        case "bitwise":
            _refuse(row, operands, not common.is_float, "integers or bool")
        case "shift":
            _refuse(row, operands, not common.is_float, "integers")
            compute = result = I8 if common is BOOL else common
        case "reduce_sum":
            if not common.is_float:
                compute = result = U64 if common.kind == "uint" else I64
        case "reduce_float":
            compute = result = common if common.is_float else F64
    return Signature((compute,) * len(operands), result)


def _floating(d: DType) -> DType:
    """NumPy's choice of a floating loop for an integer or bool operand."""
    return F16 if d.bits == 8 else F32 if d.bits == 16 else F64


def _required(op: str, target: DType | None) -> DType:
    if target is None:
        raise TypeRuleError(f"{op} needs the attribute dtype")
    return target


def _refuse(row: Operation, operands: tuple[DType, ...], allowed: bool, wanted: str) -> None:
    if not allowed:
        given = ", ".join(map(str, operands))
        shown = f"{row.name} ({row.infix})" if row.infix else row.name
        raise TypeRuleError(f"{shown} does not accept {given}; it takes {wanted}")


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def tensor_type(op: str, args: Sequence[TensorType], attrs: Attrs = (), labels: Sequence[str] = ()) -> TensorType:
    """The type of ``op`` applied to tensors of these types; ``labels`` name the operands in errors."""
    result = signature(op, tuple([a.dtype for a in args]), dict(attrs).get("dtype") if attrs else None).result
    if OPERATIONS[op].index_rule == "reduction":
        return TensorType(result, reduced_shape(op, args[0].shape, attrs))
    shapes = {a.shape for a in args}
    if None in shapes:
        shape = None
    else:
        shapes.discard(())
        shape = shapes.pop() if len(shapes) == 1 else broadcast([a.shape or () for a in args], labels)
    for a in args:
        if a.dtype is result and a.shape == shape:
            return a  # an equal object that is there already
    return TensorType(result, shape)


def reduced_shape(op: str, shape: Shape | None, attrs: Attrs) -> Shape | None:
    """The shape after reducing ``axes`` (None means all); ``keepdims`` leaves each as 1."""
    given = dict(attrs)
    axes, keep = given.get("axes"), given.get("keepdims", False)
    if shape is None:
        return () if axes is None and not keep else None
    reduced = normal_axes(op, axes, len(shape))
    if op in ("max", "min") and any(shape[a] == 0 for a in reduced):
        raise ShapeError(f"{op} of an empty axis has no value; the shape is ({','.join(map(str, shape))})")
    if keep:
        return tuple(1 if j in reduced else d for j, d in enumerate(shape))
    return tuple(d for j, d in enumerate(shape) if j not in reduced)


def normal_axes(op: str, axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from 0, sorted; `ShapeError` for one that is out of range or named twice."""
    if axes is None:
        return tuple(range(rank))
    result = []
    for a in axes:
        if not -rank <= a < rank:
            raise ShapeError(f"{op} over axis {shown_number(a)}: the operand has {rank} axes")
        result.append(a % rank)
    if len(set(result)) < len(result):
        raise ShapeError(f"{op} names an axis twice: {axes}")
    return tuple(sorted(result))


# ── several results ──────────────────────────────────────────────────────────────────────────────────────────────────

MAX_NESTING = 64
"""How deep repeated bodies may contain repeated bodies."""


def result_type(op: str, args: Sequence[Type | None], attrs: Attrs = (), labels: Sequence[str] = ()) -> Type:
    """The type of ``op`` on operands of these types, tuples among them."""
    row = operation(op)
    if attrs:
        _check_attributes(row, attrs)
    if op == "proj":
        return _projected(args, attrs)
    tensors = [a for a in args if isinstance(a, TensorType)]
    if len(tensors) < len(args):
        raise TypeRuleError(f"{op} takes tensors; pick one of several results with proj")
    if op == "repeat":
        return _repeated(tensors, attrs)
    if row.parts:
        return TupleType(tuple(tensor_type(part, tensors, attrs, labels) for part in row.parts))
    return tensor_type(op, tensors, attrs, labels)


def _is_integers(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in value)


_ATTRIBUTES: Mapping[str, Callable[[object], bool]] = {
    "dtype": lambda value: isinstance(value, DType),
    "table": _is_integers,
    "axes": lambda value: value is None or _is_integers(value),
    "keepdims": lambda value: isinstance(value, bool),
    "rare": lambda value: isinstance(value, bool),
    "index": lambda value: isinstance(value, int),
    "count": lambda value: isinstance(value, int),
    "body": lambda value: isinstance(value, Graph),
}
"""Whether a value may stand for an attribute."""


def _attribute_names(row: Operation) -> tuple[str, ...]:
    if row.index_rule == "reduction":
        return ("axes", "keepdims")
    by_name = {"proj": ("index",), "repeat": ("body", "count"), "where": ("rare",), "lookup": ("dtype", "table")}
    return by_name.get(row.name) or (("dtype",) if row.type_rule in ("cast", "bitcast") else ())


def _check_attributes(row: Operation, attrs: Attrs) -> None:
    allowed = _attribute_names(row)
    for key, value in attrs:
        if key not in allowed:
            raise TypeRuleError(f"{row.name} has no attribute {key}; it has {', '.join(allowed) or 'none'}")
        if not _ATTRIBUTES[key](value):
            raise TypeRuleError(f"{row.name}: the attribute {key} cannot be {value!r}")


def _projected(args: Sequence[Type | None], attrs: Attrs) -> Type:
    index = dict(attrs).get("index")
    if len(args) != 1 or not isinstance(args[0], TupleType):
        raise TypeRuleError("proj takes the tuple of an operation with several results")
    items = args[0].items
    if not isinstance(index, int) or not 0 <= index < len(items):
        raise TypeRuleError(f"proj needs an index from 0 to {len(items) - 1}, not {index}")
    return items[index]


def _repeated(args: Sequence[TensorType], attrs: Attrs) -> Type:
    """The carried values: as many as the body has outputs, the first of its inputs; the other inputs never change."""
    given = dict(attrs)
    body, count = given.get("body"), given.get("count")
    if not isinstance(body, Graph) or not isinstance(count, int) or count < 0:
        raise TypeRuleError("repeat needs a body, which is a graph, and a count, a whole number")
    if nesting(body) > MAX_NESTING:
        raise LimitError(f"repeated bodies are nested more than {MAX_NESTING} deep")
    wanted, produced = tuple(n.tensor for n in body.inputs), body.output_types
    if tuple(args) != wanted:
        raise TypeRuleError(f"repeat: the body takes ({_listed(wanted)}), the operands are ({_listed(args)})")
    if not produced or produced != wanted[: len(produced)]:
        raise TypeRuleError(
            f"repeat: the body gives ({_listed(produced)}), which is not what its first inputs take ({_listed(wanted)})"
        )
    return TupleType(produced)


def nesting(graph: Graph) -> int:
    """How many graphs stand in each other, this one included."""
    level, current = 0, [graph]
    while current and level <= MAX_NESTING:
        bodies = [n.attr("body") for g in current for n in g.nodes if n.op == "repeat"]
        level, current = level + 1, list(dict.fromkeys(bodies))
    return level


def _listed(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))


def apply(op: str, *args: Node, labels: Sequence[str] = (), **attrs: object) -> Node:
    """The typed node of ``op`` on typed nodes."""
    pairs = tuple(sorted(attrs.items()))
    return make(op, args, pairs, result_type(op, [a.type for a in args], pairs, labels))
