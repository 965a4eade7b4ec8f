"""The text form: one instruction a line, and ``parse_graph(print_graph(g)) == g`` for every graph.

    %x = input bf16[T,D]
    %h = add bf16[T,D] %x, %b
    %3 = mul bf16[T,D] 0.5:bf16, %h
    return out=%3

Values without a name in the source are called by their number. A `repeat` is followed by the lines of its body and
``end``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from fuseline.errors import FuselineError, TextFormError
from fuseline.ir.dtype import BOOL, DType, dtype
from fuseline.ir.garbage import collection_paused
from fuseline.ir.graph import Graph
from fuseline.ir.infer import MAX_NESTING, result_type
from fuseline.ir.literals import number_const
from fuseline.ir.names import check_output_names
from fuseline.ir.node import Attrs, Node, bits_value, const, const_bits, make, number_bits
from fuseline.ir.size import Dim, Shape, Size, named
from fuseline.ir.types import TensorType, TupleType, Type
from fuseline.ops import OPERATIONS

_COMMENTS = re.compile(r"\s*(?:#[^\n]*\s*)*")
_BEGINS = re.compile(r"%|return\s+\w+\s*=")


def is_graph_text(text: str) -> bool:
    """Whether ``text`` is meant as the text form, whose first line no formula begins with."""
    after = _COMMENTS.match(text)
    return _BEGINS.match(text, after.end() if after else 0) is not None


# ── printing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def print_graph(graph: Graph) -> str:
    """The text form of a graph."""
    return "\n".join(_lines(graph, "")) + "\n"


def _lines(graph: Graph, indent: str) -> Iterator[str]:
    operands = _OperandTexts(graph)
    types: dict[int, str] = {}  # by identity: most instructions share their type object with an operand
    for node in graph.inputs:
        yield f"{indent}{operands[node]} = input {node.type}"
    for node in graph.nodes:
        args = ", ".join([operands[a] for a in node.args])
        attrs = _print_attrs(node) if node.attrs else ""
        type_text = types.get(id(node.type)) or types.setdefault(id(node.type), str(node.type))
        yield f"{indent}{operands[node]} = {node.op} {type_text} {args}{attrs}"
        if node.op == "repeat":
            yield from _lines(node.attr("body"), indent + "  ")
            yield f"{indent}end"
    yield f"{indent}return " + ", ".join([f"{name}={operands[n]}" for name, n in graph.outputs])


class _OperandTexts(dict[Node, str]):
    """How an operand is written: a name, or a number with its dtype."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def __missing__(self, node: Node) -> str:
        number = node.op == "const"
        text = f"{const_text(node)}:{node.dtype}" if number else f"%{self._graph.label(node)}"
        self[node] = text
        return text


def const_text(node: Node) -> str:
    """The value of a `const`: the shortest text that reads back as the same bits, else the bits themselves."""
    return _number_text(node.attr("bits"), node.dtype)


@lru_cache(maxsize=1 << 16)
def _number_text(bits: int, d: DType) -> str:
    value = bits_value(bits, d)
    if d is BOOL:
        return "true" if value else "false"
    if d.is_integer:
        return str(value)
    text = str(np.float32(value)) if d.computed.bits == 32 else repr(value)
    return text if number_bits(float(text), d) == bits else f"0x{bits:x}"


def _print_attrs(node: Node) -> str:
    shown = [(k, v) for k, v in node.attrs if k not in ("dtype", "body")]
    return " {" + ", ".join(f"{k}={_print_value(v)}" for k, v in shown) + "}" if shown else ""


def _print_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "[" + " ".join(map(str, value)) + "]"
    return str(value)


# ── parsing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_TENSOR = r"\w+\[[^\]]*\]"
_LINE = re.compile(
    rf"%(?P<name>[\w.]+)\s*=\s*(?P<op>\w+)\s+(?P<type>{_TENSOR}|\({_TENSOR}(?:,\s*{_TENSOR})*\))(?P<rest>.*)\Z"
)
_REST = re.compile(r"(?P<args>[^{]*)(?:\{(?P<attrs>[^}]*)\})?\s*\Z")
_RETURN = re.compile(r"return\b\s*(?P<outputs>.*)\Z")


def parse_graph(text: str) -> Graph:
    """The graph of a text form; `TextFormError` with the line number for anything else."""
    readers = [_Reader()]
    number = 0
    with collection_paused():
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.split("#", 1)[0].strip()
            if not stripped:
                continue
            try:
                _read_line(readers, stripped)
            except TextFormError as error:
                raise TextFormError(f"line {number}: {error}") from None
            except FuselineError as error:
                raise TextFormError(f"line {number}: {error}") from error
    if len(readers) > 1 or readers[0].outputs is None:
        missing = "a return line" if readers[-1].outputs is None else "the end of a repeated body"
        raise TextFormError(f"line {number + 1}: {missing} is missing")
    return readers[0].graph()


def _read_line(readers: list[_Reader], line: str) -> None:
    """One line for the innermost graph: the body of a `repeat` opens a graph, and ``end`` closes it."""
    reader = readers[-1]
    if line == "end" and len(readers) > 1:
        readers.pop()
        readers[-1].repeated(reader.graph())
        return
    reader.line(line)
    if reader.open_repeat is not None:
        if len(readers) > MAX_NESTING:
            raise TextFormError(f"repeated bodies are nested more than {MAX_NESTING} deep")
        readers.append(_Reader())


class _Reader:
    """The lines of one graph."""

    def __init__(self) -> None:
        self.values: dict[str, Node] = {}
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.defined: set[Node] = set()
        self.names: dict[Node, str] = {}
        self.outputs: list[tuple[str, Node]] | None = None
        self.open_repeat: re.Match[str] | None = None

    def graph(self) -> Graph:
        if self.outputs is None:
            raise TextFormError("the text form ends with a return line, which is missing")
        return Graph(self.inputs, self.outputs, self.nodes, self.names)

    def line(self, text: str) -> None:
        if self.outputs is not None:
            raise TextFormError("nothing follows the return line")
        if found := _RETURN.match(text):
            self.outputs = [self.output(part) for part in _split(found["outputs"])]
            check_output_names([name for name, _ in self.outputs])
        elif found := _LINE.match(text):
            if found["op"] == "repeat":
                self.open_repeat = found
            else:
                self.instruction(found)
        else:
            raise TextFormError(
                f"expected '%name = op dtype[shape] operands' or 'return name=%value', found {text[:60]!r}"
            )

    def repeated(self, body: Graph) -> None:
        """The `repeat` whose body has been read."""
        found, self.open_repeat = self.open_repeat, None
        assert found is not None
        self.instruction(found, body=body)

    def instruction(self, found: re.Match[str], **attrs: object) -> None:
        name, op = found["name"], found["op"]
        if name in self.values:
            raise TextFormError(f"%{name} is defined twice")
        if op not in OPERATIONS or op in ("const", "literal"):
            raise TextFormError(f"no instruction is called {op!r}")
        stated = _parse_type(found["type"])
        if op == "input":
            if not isinstance(stated, TensorType) or found["rest"].strip():
                raise TextFormError(f"an input has one type and nothing after it: %{name}")
            node = make("input", (), (("name", name),), stated)
            self.inputs.append(node)
        else:
            node = self.applied(op, stated, found["rest"], attrs)
            if node in self.defined:
                raise TextFormError(f"%{name} repeats an earlier instruction; equal instructions are one value")
            self.defined.add(node)
            self.nodes.append(node)
            if not name.isdecimal():
                self.names[node] = name
        self.values[name] = node

    def applied(self, op: str, stated: Type, rest: str, attrs: dict[str, object]) -> Node:
        parts = _REST.match(rest)
        if parts is None:
            raise TextFormError(f"cannot read the operands {rest.strip()[:60]!r}")
        args = tuple(self.operand(a) for a in _split(parts["args"]))
        attrs = {**attrs, **dict(_parse_attr(a) for a in _split(parts["attrs"] or ""))}
        if OPERATIONS[op].type_rule in ("cast", "bitcast", "lookup") and isinstance(stated, TensorType):
            attrs["dtype"] = stated.dtype
        pairs: Attrs = tuple(sorted(attrs.items()))
        inferred = result_type(op, [a.type for a in args], pairs)
        if inferred != stated:
            raise TextFormError(f"{op} of these operands is {inferred}, but {stated} is stated")
        return make(op, args, pairs, stated)

    def operand(self, text: str) -> Node:
        if text.startswith("%"):
            try:
                return self.values[text[1:]]
            except KeyError:
                raise TextFormError(f"{text} is not defined above") from None
        value, colon, kind = text.rpartition(":")
        if not colon:
            raise TextFormError(f"{text!r} is neither %value nor number:dtype")
        return _parse_const(value, dtype(kind))

    def output(self, text: str) -> tuple[str, Node]:
        name, equals, value = text.partition("=")
        if not equals:
            raise TextFormError(f"an output is written name=%value, not {text!r}")
        node = self.operand(value.strip())
        if not isinstance(node.type, TensorType):
            raise TextFormError(f"the output {name.strip()} is several results; pick one with proj")
        return name.strip(), node


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _parse_const(text: str, d: DType) -> Node:
    try:
        if text.startswith("0x") and (bits := int(text, 16)) < 2**d.computed.bits:
            return const_bits(bits, d)
        if d is BOOL:
            return const({"true": True, "false": False}[text], d)
        return number_const(int(text), d) if d.is_integer else const(float(text), d)
    except (ValueError, KeyError):
        raise TextFormError(f"{text!r} is not a number of dtype {d}") from None


def _parse_attr(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise TextFormError(f"an attribute is written key=value, not {text!r}")
    if value.startswith("[") and value.endswith("]"):
        return key, tuple(_parse_scalar(v) for v in value[1:-1].split())
    return key, _parse_scalar(value)


def _parse_scalar(text: str) -> object:
    known: dict[str, object] = {"true": True, "false": False, "none": None}
    if text in known:
        return known[text]
    try:
        return int(text)
    except ValueError:
        return text


def _parse_type(text: str) -> Type:
    """``f32[T,D]``, or several in parentheses."""
    items = tuple(
        TensorType(dtype(t["dtype"]), parse_shape_text(t["shape"]))
        for t in re.finditer(r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]", text)
    )
    return TupleType(items) if text.startswith("(") else items[0]


MAX_SIZE_NESTING = 50


def parse_shape_text(text: str) -> Shape | None:
    """The shape of ``T,D`` or ``*`` (unknown) or nothing (0-d)."""
    if text.strip() == "*":
        return None
    if not text.strip():
        return ()
    tokens = _dim_tokens(text)
    dims = [_parse_sum(tokens)]
    while tokens.take(","):
        dims.append(_parse_sum(tokens))
    if tokens.current:
        raise TextFormError(f"cannot read the shape [{text}] at {tokens.current!r}")
    return tuple(dims)


class _DimTokens:
    """The tokens of a shape with one token of lookahead and a bound on nesting."""

    def __init__(self, tokens: Iterator[str]) -> None:
        self._tokens = tokens
        self._depth = 0
        self.current = next(tokens, "")

    @contextmanager
    def nested(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_SIZE_NESTING:
            raise TextFormError(f"a size with more than {MAX_SIZE_NESTING} parentheses in each other")
        yield
        self._depth -= 1

    def take(self, token: str) -> bool:
        if self.current != token:
            return False
        self.current = next(self._tokens, "")
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise TextFormError(f"expected {token!r} in a shape, found {self.current or 'its end'!r}")


def _dim_tokens(text: str) -> _DimTokens:
    return _DimTokens(t for t in re.findall(r"\d+|[^\W\d]\w*|//|[-+*(),]|\S", text))


def _parse_sum(tokens: _DimTokens) -> Dim:
    total = _parse_product(tokens)
    while tokens.take("+"):
        total = total + _parse_product(tokens)
    return total


def _parse_product(tokens: _DimTokens) -> Dim:
    result = _parse_dim(tokens)
    while True:
        if tokens.take("*"):
            result = result * _parse_dim(tokens)
        elif tokens.take("//"):
            divisor = _parse_dim(tokens)
            result = _quotient(result, divisor)
        else:
            return result


def _quotient(a: Dim, b: Dim) -> Dim:
    if b == 0:
        raise TextFormError("a size divided by zero")
    if isinstance(a, int):
        return a // b if isinstance(b, int) else Size("//", (a, b))
    return a // b


def _parse_dim(tokens: _DimTokens) -> Dim:
    word = tokens.current
    if word.isdecimal():
        tokens.take(word)
        return int(word)
    if tokens.take("("):
        with tokens.nested():
            inner = _parse_sum(tokens)
        tokens.expect(")")
        return inner
    if not word.isidentifier():
        raise TextFormError(f"expected a size, found {word or 'nothing'!r}")
    tokens.take(word)
    if word in ("ceildiv", "max") and tokens.take("("):
        with tokens.nested():
            args = [_parse_sum(tokens)]
            while tokens.take(","):
                args.append(_parse_sum(tokens))
        tokens.expect(")")
        if word == "ceildiv" and (len(args) != 2 or args[1] == 0):
            raise TextFormError("ceildiv takes a size and a divisor that is not zero")
        return Size("ceildiv" if word == "ceildiv" else "max", tuple(args))
    return named(word)
