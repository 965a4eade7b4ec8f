"""Random programs for every test that needs many: formula text, the same program built without the parser, input types
and arrays over special values.

`programs` is a hypothesis strategy, `seeded_programs` a fast generator for long suites, `operation_programs` every
operation on every dtype. `arrays` has the values and the comparison of results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from arrays import Array, first_difference, random_array, same_bits, special_values
from fuseline.errors import FuselineError
from fuseline.ir.dtype import dtype
from fuseline.ir.graph import Graph
from fuseline.ir.infer import tensor_type
from fuseline.ir.literals import evaluate_literals
from fuseline.ir.node import Node, Number, literal, make
from fuseline.ir.program import Declaration, Program, ValueNames
from fuseline.ir.size import Shape, shape_text
from fuseline.ir.specialise import specialise
from fuseline.ir.types import TensorType
from fuseline.ops import OPERATIONS, Operation

__all__ = [
    "DTYPES", "ELEMENTWISE", "FLOATS", "INTEGERS", "REDUCTIONS", "Options", "RandomProgram", "first_difference",
    "operation_programs", "programs", "random_array", "random_program", "same_bits", "seeded_programs",
    "special_values",
]  # fmt: skip

FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
DTYPES = (*FLOATS, *INTEGERS, "bool")

ELEMENTWISE = tuple(r.name for r in OPERATIONS.values() if r.index_rule == "elementwise" and (r.infix or r.spellings))
REDUCTIONS = tuple(r.name for r in OPERATIONS.values() if r.index_rule == "reduction")


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RandomProgram:
    """One program in its forms. ``program`` was built without the parser and must equal ``parse_formula(text)``."""

    text: str
    program: Program
    types: Mapping[str, TensorType]
    arrays: Mapping[str, Array]

    @property
    def graph(self) -> Graph:
        """The typed graph before any pass, for the shapes of ``arrays``."""
        return specialise(self.program, self.types)

    @property
    def shapeless_graph(self) -> Graph:
        """The typed graph for whatever shapes the caller's arrays broadcast to."""
        return specialise(self.program, {n: TensorType(t.dtype) for n, t in self.types.items()})

    def __repr__(self) -> str:
        types = ", ".join(f"{n}: {t}" for n, t in self.types.items())
        return f"<{types}\n{self.text}>"


@dataclass(frozen=True)
class Options:
    """What random programs are made of."""

    dtypes: tuple[str, ...] = DTYPES
    operations: tuple[str, ...] = ELEMENTWISE
    """Names of operations, casts among them or not; reductions only where they are listed."""
    max_statements: int = 6
    max_depth: int = 3
    max_inputs: int = 4
    one_dtype: bool = False
    """All inputs of one dtype, and no casts."""
    literals: bool = True
    shape: tuple[int, ...] | None = None
    """The shape that the inputs broadcast to; a random small one otherwise."""
    broadcast: bool = True
    """Whether inputs may have smaller shapes than the whole."""
    declarations: bool = True
    any_outputs: bool = False
    """Outputs are inputs, numbers, values that are read inside, and several names of one value as well."""


def random_program(random: Random, options: Options = Options(), **changes: Any) -> RandomProgram:
    """A random program that has a type for its inputs; the same for the same state of ``random``."""
    from dataclasses import replace

    return _Writer(random, replace(options, **changes)).write()


def seeded_programs(count: int, seed: int = 0, options: Options = Options(), **changes: Any) -> Iterator[RandomProgram]:
    """``count`` random programs; program i depends on ``seed`` and i alone."""
    for i in range(count):
        yield random_program(Random(f"{seed}:{i}"), options, **changes)


def programs(options: Options = Options(), **changes: Any) -> st.SearchStrategy[RandomProgram]:
    """The hypothesis strategy of random programs."""
    return st.randoms(use_true_random=False).map(lambda random: random_program(random, options, **changes))


def operation_programs(
    operations: Sequence[str] = ELEMENTWISE, dtypes: Sequence[str] = DTYPES, *, mixed: bool = False
) -> Iterator[RandomProgram]:
    """Every operation on operands of every dtype (every pair of them with ``mixed``), where such a loop exists.

    Operands meet in all combinations of `special_values`; casts go from every dtype to every other.
    """
    for op in operations:
        row = OPERATIONS[op]
        combinations: Sequence[tuple[str, ...]] = [(d,) * row.arity for d in dtypes]
        if op == "where":
            combinations = [("bool", d, d) for d in dtypes]
        if mixed and row.arity == 2:
            combinations = [(a, b) for a in dtypes for b in dtypes]
        for kinds in combinations:
            for target in dtypes if op == "cast" else (None,):
                made = _operation_program(row, kinds, target)
                if made is not None:
                    yield made


def _operation_program(row: Operation, kinds: Sequence[str], target: str | None) -> RandomProgram | None:
    names = [f"x{i}" for i in range(row.arity)]
    arrays = {
        name: special_values(kind).reshape([-1 if j == i else 1 for j in range(row.arity)])
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    types = {n: TensorType(dtype(k), arrays[n].shape) for n, k in zip(names, kinds, strict=True)}
    attrs = (("dtype", dtype(target)),) if target else ()
    try:
        tensor_type(row.name, list(types.values()), attrs)
    except FuselineError:
        return None
    node = make(row.name, tuple(make("input", (), (("name", n),)) for n in names), attrs)
    text = f"{target or row.spellings[0]}({', '.join(names)})"
    declared = tuple(Declaration(n) for n in names)
    program = Program(text, declared, (node,), (("out", node),), {node: "out"}, {"out": node}, {node: (1, 1)})
    return RandomProgram(text, program, types, arrays)


# ── writing one program ──────────────────────────────────────────────────────────────────────────────────────────────

_COMPARE, _OR, _XOR, _AND, _SHIFT, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(10)
_LEVELS = {
    "|": _OR, "^": _XOR, "&": _AND, "<<": _SHIFT, ">>": _SHIFT, "+": _SUM, "-": _SUM,
    "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT, "**": _POWER,
}  # fmt: skip
_NUMBERS: tuple[Number, ...] = (
    0, 1, 2, 3, 5, 7, 8, 31, 100, 127, 255, True, False,
    0.0, 0.5, 1.0, 2.0, 1.5, 0.1, 3.25, 1e-3, 1e10, math.inf, math.nan,
)  # fmt: skip
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True, slots=True)
class _Value:
    """A piece of formula text: its precedence, its node, its type (or its number), and the names it reads, in order."""

    text: str
    level: int
    node: Node
    type: TensorType | None
    number: Number | None = None
    reads: tuple[str, ...] = ()

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


@dataclass(slots=True)
class _Writer:
    random: Random
    options: Options
    types: dict[str, TensorType] = field(default_factory=dict)
    declared: dict[str, Declaration] = field(default_factory=dict)
    appeared: dict[str, Declaration] = field(default_factory=dict)
    bound: dict[str, _Value] = field(default_factory=dict)
    unread: dict[str, bool] = field(default_factory=dict)
    nodes: dict[Node, tuple[int, int]] = field(default_factory=dict)
    names: ValueNames = field(default_factory=ValueNames)

    def write(self) -> RandomProgram:
        lines = self.inputs()
        self.appeared.update(self.declared)
        wanted = self.random.randint(1, self.options.max_statements)
        for number in range(wanted):
            if self.options.any_outputs and self.random.random() < 0.4:
                value = self.leaf()
            else:
                value = self.expression(self.random.randint(1, self.options.max_depth))
            for name in value.reads:
                if name in self.bound:
                    self.unread[name] = False
                elif name not in self.appeared:
                    self.appeared[name] = Declaration(name)
            bare = number == wanted - 1 and self.random.random() < 0.3
            name = "out" if bare else self.new_name()
            self.names.give(value.node, name, self.appeared)
            self.bound[name] = _Value(name, _ATOM, value.node, value.type, value.number, (name,))
            self.unread[name] = True
            lines.append(value.text if bare else f"{name} = {value.text}")
        text = self.join(lines)
        bindings = {n: v.node for n, v in self.bound.items()}
        wanted_names = [n for n, unread in self.unread.items() if unread]
        if self.options.any_outputs:
            wanted_names = self.random.sample(list(bindings), self.random.randint(1, len(bindings)))
        outputs = tuple((n, bindings[n]) for n in wanted_names)
        inputs = tuple(self.appeared.values())
        program = Program(text, inputs, tuple(self.nodes), outputs, self.names.of, bindings, self.nodes)
        types = {d.name: self.types[d.name] for d in inputs}
        generator = np.random.default_rng(self.random.getrandbits(64))
        arrays = {n: random_array(generator, t.dtype, t.shape or ()) for n, t in types.items()}  # type: ignore[arg-type]
        return RandomProgram(text, program, types, arrays)

    # ── inputs and statements ──

    def inputs(self) -> list[str]:
        """Choose the inputs; the declarations of some of them."""
        whole = self.options.shape if self.options.shape is not None else self.random_shape()
        kinds = self.options.dtypes
        if self.options.one_dtype:
            kinds = (self.random.choice(kinds),)
        lines = []
        for i in range(self.random.randint(1, self.options.max_inputs)):
            name, d, shape = f"x{i}", dtype(self.random.choice(kinds)), self.part_of(whole)
            self.types[name] = TensorType(d, shape)
            choice = self.random.randrange(8)
            if self.options.declarations and choice < 2:
                stated = shape if choice == 0 and shape else None
                self.declared[name] = Declaration(name, d, stated)
                lines.append(f"{name}: {d}" + (f"[{shape_text(stated)}]" if stated else ""))
        return lines

    def random_shape(self) -> tuple[int, ...]:
        rank = self.random.choice((0, 1, 1, 2, 2, 3))
        return tuple(
            self.random.choice((1, 2, 3, 4, 5, 9, 0) if self.random.random() < 0.3 else (2, 3, 5)) for _ in range(rank)
        )

    def part_of(self, whole: tuple[int, ...]) -> Shape:
        """A shape that broadcasts to ``whole``."""
        if not self.options.broadcast or self.random.random() < 0.6:
            return whole
        kept = whole[self.random.randint(0, len(whole)) :]
        return tuple(1 if self.random.random() < 0.3 else n for n in kept)

    def new_name(self) -> str:
        if self.bound and self.random.random() < 0.15:
            return self.random.choice(list(self.bound))
        return f"v{len(self.bound)}"

    def join(self, lines: Sequence[str]) -> str:
        text = ""
        for line in lines:
            ends = ("\n", "; ", ";\n", "  # note: ; (\n", "\n\n", " ;; ") if self.random.random() < 0.3 else ("\n",)
            text += line + self.random.choice(ends)
        return text

    # ── expressions ──

    def expression(self, depth: int) -> _Value:
        if depth <= 0:
            return self.leaf()
        for _ in range(6):
            before = len(self.nodes)
            value = self.instruction(depth)
            if value is not None:
                return self.parenthesised(value)
            while len(self.nodes) > before:
                self.nodes.popitem()
        return self.leaf(array=True)

    def parenthesised(self, value: _Value) -> _Value:
        if self.random.random() < 0.9:
            return value
        gap = self.random.choice(("", " ", "\n", " # )\n"))
        return _Value(f"({gap}{value.text}{gap})", _ATOM, value.node, value.type, value.number, value.reads)

    def leaf(self, array: bool = False) -> _Value:
        if not array and self.options.literals and self.random.random() < 0.3:
            return self.number()
        names = [*self.types, *self.bound]
        name = self.random.choice(names[-8:] if self.random.random() < 0.5 else names)
        if name in self.bound:
            known = self.bound[name]
            return known if known.type is not None or not array else self.input_leaf()
        return self.input_leaf(name)

    def input_leaf(self, name: str | None = None) -> _Value:
        name = name or self.random.choice(list(self.types))
        return _Value(name, _ATOM, make("input", (), (("name", name),)), self.types[name], None, (name,))

    def number(self) -> _Value:
        value: Number = self.random.choice(
            (
                0,
                1,
                2,
                3,
                5,
                7,
                8,
                31,
                100,
                0.0,
                0.5,
                1.0,
                2.0,
                1.5,
                0.1,
                3.25,
                1e-3,
                1e10,
                127,
                255,
                math.inf,
                math.nan,
                True,
                False,
            )
        )
        text = str(value) if isinstance(value, bool | int) or not math.isfinite(value) else repr(value)
        if self.random.random() < 0.2 and not isinstance(value, bool):
            return _Value(f"-{text}", _UNARY, literal(-value), None, -value)
        return _Value(text, _ATOM, literal(value), None, value)

    def instruction(self, depth: int) -> _Value | None:
        op = self.random.choice(self.options.operations)
        if not OPERATIONS[op].infix and self.random.random() < 0.4:  # arithmetic is written more often than functions
            op = self.random.choice(self.options.operations)
        row = OPERATIONS[op]
        if op == "cast":
            return None if self.options.one_dtype else self.cast(depth)
        if row.index_rule == "reduction":
            return self.reduction(row, depth)
        if op in _COMPARISONS and self.random.random() < 0.15:
            return self.chain(depth)
        operands = [self.expression(self.random.randint(0, depth - 1)) for _ in range(row.arity)]
        return self.applied(row, operands)

    def applied(self, row: Operation, operands: Sequence[_Value]) -> _Value | None:
        known = self.result(row.name, operands)
        if known is None:
            return None
        node = self.made(row.name, tuple(v.node for v in operands))
        text, level = self.written(row, operands)
        return _Value(text, level, node, *known, tuple(n for v in operands for n in v.reads))

    def result(self, op: str, operands: Sequence[_Value]) -> tuple[TensorType | None, Number | None] | None:
        """The type or the number of ``op`` on these operands; None where it has neither."""
        numbers = [v.number for v in operands if v.number is not None]
        try:
            if len(numbers) == len(operands):
                if self.random.random() < 0.7:
                    return None
                number = evaluate_literals(op, numbers)
                small = not isinstance(number, int) or abs(number) < 2**31
                return (None, number) if small else None
            if not numbers:
                return tensor_type(op, [v.type for v in operands if v.type is not None]), None
            return _type_beside_numbers(
                op, tuple(v.type if v.number is None else literal(v.number) for v in operands)
            ), None
        except FuselineError:
            return None

    def made(self, op: str, args: tuple[Node, ...], attrs: tuple[tuple[str, Any], ...] = ()) -> Node:
        node = make(op, args, attrs)
        self.nodes.setdefault(node, (1, 1))
        return node

    def written(self, row: Operation, operands: Sequence[_Value]) -> tuple[str, int]:
        """Text and precedence: an operator where there is one, else (or sometimes) a function."""
        random = self.random
        if row.name in _COMPARISONS and random.random() < 0.9:
            left, right = (v.at(_OR) for v in operands)
            return f"{left} {row.infix} {right}", _COMPARE
        if row.infix in _LEVELS and (not row.spellings or random.random() < 0.85):
            level = _LEVELS[row.infix]
            left_level, right_level = (_ATOM, _UNARY) if level == _POWER else (level, level + 1)
            space = random.choice((" ", ""))
            return f"{operands[0].at(left_level)}{space}{row.infix}{space}{operands[1].at(right_level)}", level
        signed_number = row.name == "neg" and operands[0].number is not None  # a sign would be part of the number
        if row.name in ("neg", "invert") and not signed_number and random.random() < 0.85:
            return f"{'-' if row.name == 'neg' else '~'}{operands[0].at(_UNARY)}", _UNARY
        return f"{random.choice(row.spellings)}({', '.join(v.at(_COMPARE) for v in operands)})", _ATOM

    def cast(self, depth: int) -> _Value | None:
        inner = self.expression(self.random.randint(0, depth - 1))
        if inner.type is None:
            return None
        d = dtype(self.random.choice(self.options.dtypes))
        node = self.made("cast", (inner.node,), (("dtype", d),))
        spelling = self.random.choice((d.name, d.numpy_name))
        return _Value(f"{spelling}({inner.text})", _ATOM, node, TensorType(d, inner.type.shape), None, inner.reads)

    def reduction(self, row: Operation, depth: int) -> _Value | None:
        inner = self.expression(self.random.randint(0, depth - 1))
        if inner.type is None:
            return None
        axis = self.random.choice((None, 0, -1, 1))
        keep = self.random.choice((None, True, False))
        attrs = (("axes", None if axis is None else (axis,)), ("keepdims", axis is not None if keep is None else keep))
        try:
            type_ = tensor_type(row.name, [inner.type], attrs)
        except FuselineError:
            return None
        node = self.made(row.name, (inner.node,), attrs)
        options = "" if axis is None else self.random.choice((f", {axis}", f", axis={axis}"))
        options += "" if keep is None else f", keepdims={keep}"
        text = f"{self.random.choice(row.spellings)}({inner.text}{options})"
        return _Value(text, _ATOM, node, type_, None, inner.reads)

    def chain(self, depth: int) -> _Value | None:
        """``a < b <= c``: each comparison after its operands, then the conjunction."""
        signs = [OPERATIONS[self.random.choice(_COMPARISONS)] for _ in range(self.random.randint(2, 3))]
        first = self.expression(self.random.randint(0, depth - 1))
        text, reads, last, whole = first.at(_OR), first.reads, first, None
        for row in signs:
            following = self.expression(self.random.randint(0, depth - 1))
            known = self.result(row.name, (last, following))
            if known is None:
                return None
            step = _Value("", _ATOM, self.made(row.name, (last.node, following.node)), *known)
            if whole is not None:
                known = self.result("and", (whole, step))
                if known is None:
                    return None
                step = _Value("", _ATOM, self.made("and", (whole.node, step.node)), *known)
            text, reads = f"{text} {row.infix} {following.at(_OR)}", reads + following.reads
            last, whole = following, step
        assert whole is not None
        return _Value(text, _COMPARE, whole.node, whole.type, whole.number, reads)


@cache
def _type_beside_numbers(op: str, operands: tuple[TensorType | Node, ...]) -> TensorType:
    """The type of an operation on arrays and literals, as the product's own specialisation gives it."""
    types = {f"x{i}": v for i, v in enumerate(operands) if isinstance(v, TensorType)}
    args = tuple(v if isinstance(v, Node) else make("input", (), (("name", f"x{i}"),)) for i, v in enumerate(operands))
    node = make(op, args)
    program = Program("", tuple(map(Declaration, types)), (node,), (("out", node),))
    return specialise(program, types).output_nodes[0].tensor
