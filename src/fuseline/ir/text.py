"""The text form: one instruction a line, and ``parse_graph(print_graph(g)) == g`` for every graph.

    %x = input bf16[T,D]
    %h = add bf16[T,D] %x, %b
    %3 = mul bf16[T,D] 0.5:bf16, %h
    return out=%3

Values without a name in the source are called by their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ..errors import FuselineError, TextFormError
from ..ops import OPERATIONS
from .dtype import BOOL, DType, dtype
from .graph import Graph
from .infer import tensor_type
from .node import Attrs, Node, const, const_array, const_bits, make
from .size import Dim, Shape, Size, named
from .types import TensorType

# ── printing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def print_graph(graph: Graph) -> str:
    """The text form of a graph."""
    lines = [f"%{graph.label(n)} = input {n.type}" for n in graph.inputs]
    lines += [print_instruction(graph, n) for n in graph.nodes]
    lines.append("return " + ", ".join(f"{name}={operand_text(graph, n)}" for name, n in graph.outputs))
    return "\n".join(lines) + "\n"


def print_instruction(graph: Graph, node: Node) -> str:
    """One line of the text form."""
    args = ", ".join(operand_text(graph, a) for a in node.args)
    attrs = _print_attrs(node)
    return f"%{graph.label(node)} = {node.op} {node.type} {args}{attrs}"


def operand_text(graph: Graph, node: Node) -> str:
    """How an operand is written: a name, or a number with its dtype."""
    return f"{const_text(node)}:{node.dtype}" if node.op == "const" else f"%{graph.label(node)}"


def const_text(node: Node) -> str:
    """The value of a `const`: the shortest text that reads back as the same bits, else the bits themselves."""
    value = const_array(node)
    if node.dtype is BOOL:
        return "true" if value else "false"
    if node.dtype.is_integer:
        return str(int(value))
    text = str(np.float32(value)) if node.dtype.bits == 32 else repr(float(value))
    return text if const(float(text), node.dtype) is node else f"0x{node.attr('bits'):x}"


def _print_attrs(node: Node) -> str:
    shown = [(k, v) for k, v in node.attrs if k != "dtype"]
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

_LINE = re.compile(r"%(?P<name>[\w.]+)\s*=\s*(?P<op>\w+)\s+(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?P<rest>.*)\Z")
_REST = re.compile(r"(?P<args>[^{]*)(?:\{(?P<attrs>[^}]*)\})?\s*\Z")
_RETURN = re.compile(r"return\b\s*(?P<outputs>.*)\Z")


def parse_graph(text: str) -> Graph:
    """The graph of a text form; `TextFormError` with the line number for anything else."""
    reader = _Reader()
    number = 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.split("#", 1)[0].strip()
        if not stripped:
            continue
        try:
            reader.line(stripped)
        except TextFormError as error:
            raise TextFormError(f"line {number}: {error}") from None
        except FuselineError as error:
            raise TextFormError(f"line {number}: {error}") from error
    if reader.outputs is None:
        raise TextFormError(f"line {number + 1}: the text form ends with a return line, which is missing")
    return Graph(reader.inputs, reader.outputs, reader.nodes, reader.names)


class _Reader:
    def __init__(self) -> None:
        self.values: dict[str, Node] = {}
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.defined: set[Node] = set()
        self.names: dict[Node, str] = {}
        self.outputs: list[tuple[str, Node]] | None = None

    def line(self, text: str) -> None:
        if self.outputs is not None:
            raise TextFormError("nothing follows the return line")
        if found := _RETURN.match(text):
            self.outputs = [self.output(part) for part in _split(found["outputs"])]
        elif found := _LINE.match(text):
            self.instruction(found)
        else:
            raise TextFormError(
                f"expected '%name = op dtype[shape] operands' or 'return name=%value', found {text[:60]!r}"
            )

    def instruction(self, found: re.Match[str]) -> None:
        name, op = found["name"], found["op"]
        if name in self.values:
            raise TextFormError(f"%{name} is defined twice")
        if op not in OPERATIONS or op in ("const", "literal"):
            raise TextFormError(f"no instruction is called {op!r}")
        stated = TensorType(dtype(found["dtype"]), parse_shape_text(found["shape"]))
        if op == "input":
            node = make("input", (), (("name", name),), stated)
            self.inputs.append(node)
        else:
            node = self.applied(op, stated, found["rest"])
            if node in self.defined:
                raise TextFormError(f"%{name} repeats an earlier instruction; equal instructions are one value")
            self.defined.add(node)
            self.nodes.append(node)
            if not name.isdecimal():
                self.names[node] = name
        self.values[name] = node

    def applied(self, op: str, stated: TensorType, rest: str) -> Node:
        parts = _REST.match(rest)
        if parts is None:
            raise TextFormError(f"cannot read the operands {rest.strip()[:60]!r}")
        args = tuple(self.operand(a) for a in _split(parts["args"]))
        attrs = dict(_parse_attr(a) for a in _split(parts["attrs"] or ""))
        if OPERATIONS[op].type_rule in ("cast", "bitcast", "lookup"):
            attrs["dtype"] = stated.dtype
        pairs: Attrs = tuple(sorted(attrs.items()))
        inferred = tensor_type(op, [a.tensor for a in args], pairs)
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
        return name.strip(), self.operand(value.strip())


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _parse_const(text: str, d: DType) -> Node:
    try:
        if text.startswith("0x"):
            return const_bits(int(text, 16), d)
        if d is BOOL:
            return const({"true": True, "false": False}[text], d)
        return const(int(text) if d.is_integer else float(text), d)
    except (ValueError, KeyError, OverflowError):
        raise TextFormError(f"{text!r} is not a number of dtype {d}") from None


def _parse_attr(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise TextFormError(f"an attribute is written key=value, not {text!r}")
    if value.startswith("["):
        return key, tuple(_parse_scalar(v) for v in value.strip("[]").split())
    return key, _parse_scalar(value)


def _parse_scalar(text: str) -> object:
    known: dict[str, object] = {"true": True, "false": False, "none": None}
    if text in known:
        return known[text]
    try:
        return int(text)
    except ValueError:
        return text


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
        self.depth = 0
        self.current = next(tokens, "")

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
    if isinstance(a, int):
        return a // b if isinstance(b, int) else Size("//", (a, b))
    return a // b


def _parse_dim(tokens: _DimTokens) -> Dim:
    word = tokens.current
    if word.isdecimal():
        tokens.take(word)
        return int(word)
    tokens.depth += 1
    if tokens.depth > 1000:
        raise TextFormError("the shape's dimensions are too long")
    if tokens.take("("):
        inner = _parse_sum(tokens)
        tokens.expect(")")
        return inner
    if not word.isidentifier():
        raise TextFormError(f"expected a size, found {word or 'nothing'!r}")
    tokens.take(word)
    if word in ("ceildiv", "max") and tokens.take("("):
        args = [_parse_sum(tokens)]
        while tokens.take(","):
            args.append(_parse_sum(tokens))
        tokens.expect(")")
        return Size("ceildiv" if word == "ceildiv" else "max", tuple(args))
    return named(word)
