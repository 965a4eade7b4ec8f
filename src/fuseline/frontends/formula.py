"""Formula text to an untyped `Program`.

`formula.lark` is the language; the actions here build interned nodes as the parser reduces, so a text of 100,000 terms
or 10,000 parentheses needs neither a tree nor recursion. What the grammar does not say cannot be expressed.
"""

from __future__ import annotations

import json
import keyword
import pkgutil
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property
from typing import NoReturn

from fuseline.errors import DataFileError, FormulaError, nearest
from fuseline.excerpts import line_starts
from fuseline.floating_point import in_default_environment
from fuseline.frontends.lalr import Parser, Token, UnexpectedCharacter, UnexpectedToken, digest, make_tables
from fuseline.ir.dtype import DTYPES, dtype
from fuseline.ir.garbage import collection_paused
from fuseline.ir.graph import MAX_NODES
from fuseline.ir.names import is_name
from fuseline.ir.node import Attrs, Node, literal, literal_value, make
from fuseline.ir.program import RESERVED_INPUTS, Declaration, Program, ValueNames
from fuseline.ir.size import Dim, named
from fuseline.ops import INFIX, OPERATIONS, SPELLINGS

MAX_TEXT_BYTES = 16 * 2**20
MAX_NUMBER_CHARACTERS = 1_000

_CONSTANTS = {"pi": 3.141592653589793, "e": 2.718281828459045, "inf": float("inf"), "nan": float("nan")}
_CASTS = {spelling: d for d in DTYPES.values() if d.bits >= 8 for spelling in (d.name, d.numpy_name)}
_NAMED_VALUES = frozenset({"True", "False", "None"})
_PYTHON_ONLY = frozenset(keyword.kwlist) - _NAMED_VALUES
_ADVICE = {
    "and": "use & between comparisons, as in (a < b) & (b < c)",
    "or": "use | between comparisons, as in (a < b) | (b < c)",
    "not": "use ~ on a comparison, as in ~(a < b)",
    "if": "use where(condition, a, b)",
    "else": "use where(condition, a, b)",
}
_HINTS = {
    "=": "write name = expression; to compare use ==",
    "(": "only functions can be called; * is needed between factors",
    "[": "there are no subscripts; slice the arrays before the call",
}


@in_default_environment
def parse_formula(text: str) -> Program:
    """The program of a formula text; `FormulaError` with line, column and caret for anything that is not one."""
    if not isinstance(text, str):
        raise FormulaError(f"a formula is a text, not {type(text).__name__}")
    if len(text) > MAX_TEXT_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise FormulaError(f"the formula is longer than {MAX_TEXT_BYTES // 2**20} MiB")
    actions = _Actions(text)
    try:
        with collection_paused():
            result: Program = _parser().parse(text, actions)
    except UnexpectedToken as error:
        actions.refuse_token(error.token, error.before)
    except UnexpectedCharacter as error:
        actions.refuse_character(error.offset)
    return result


@cache
def _parser() -> Parser:
    grammar = _file("formula.lark").decode("utf-8")
    tables = json.loads(_file("formula_tables.json"))
    if tables["grammar"] != digest(grammar):  # the grammar is being worked on
        tables = make_tables(grammar, "program")
    return Parser(tables, line_end="_NEWLINE")


def _file(name: str) -> bytes:
    """A file beside this one. `importlib.resources` would take longer to import than the parser takes to read."""
    content = pkgutil.get_data(__package__, name)
    if content is None:
        raise DataFileError(f"the package's file {name} cannot be read; install fuseline again")
    return content


class _Locations(Mapping[Node, tuple[int, int]]):
    """Where each node stands, as (line, column) from 1, worked out from offsets when an error asks."""

    def __init__(self, text: str, offsets: Mapping[Node, int]) -> None:
        self._text = text
        self._offsets = offsets

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self._text)

    def __getitem__(self, node: Node) -> tuple[int, int]:
        return _position(self._line_starts, self._offsets[node])

    def __iter__(self) -> Iterator[Node]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)


def _position(starts: Sequence[int], offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset into a text whose lines begin at ``starts``."""
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


_PLAIN_INTEGER = re.compile(r"0(_?0)*|[1-9](_?[0-9])*")


def _integer(text: str) -> int:
    """What Python reads in a source file; `ValueError` for anything else."""
    try:
        return int(text, 0)
    except ValueError:
        # Python reads no more digits than sys.set_int_max_str_digits says. Formulas have a bound of their own.
        if not _PLAIN_INTEGER.fullmatch(text):
            raise
        return int(Decimal(text))


@dataclass(slots=True)
class _Binding:
    node: Node
    read: bool = False


@dataclass(frozen=True, slots=True)
class _Chain:
    """A comparison that may go on: ``a < b < c`` means ``(a < b) & (b < c)``."""

    node: Node
    last: Node


@dataclass(frozen=True, slots=True)
class _Keyword:
    name: Token
    value: int | bool | None


@dataclass(slots=True)
class _Actions:
    """What each grammar rule does. Values are nodes; names resolve to their latest binding, else to an input."""

    text: str
    inputs: dict[str, Declaration] = field(default_factory=dict)
    bindings: dict[str, _Binding] = field(default_factory=dict)
    offsets: dict[Node, int] = field(default_factory=dict)
    names: ValueNames = field(default_factory=ValueNames)
    first_leaf: Token | None = None
    """Where the expression of the statement being read begins."""
    ended_bare: bool = False

    # ── statements ──

    def bind(self, name: Token, value: Node) -> None:
        self.check_target(name)
        self.set_binding(name[0], value)

    def unpack(self, *children: Token | Node) -> None:
        """``q, r = divmod(a, b)``: names, the function, its operands."""
        *names, function = (c for c in children if not isinstance(c, Node))
        args = tuple(c for c in children if isinstance(c, Node))
        row = OPERATIONS.get(SPELLINGS.get(function[0], ""))
        if row is None or not row.parts:
            self.fail(f"{function[0]} does not give several values", function, "divmod does: q, r = divmod(a, b)")
        self.check_count(function, row.arity, len(args), [])
        if len(names) != len(row.parts):
            self.fail(f"{row.name} gives {len(row.parts)} values, for as many names, not {len(names)}", names[0])
        whole = self.made(row.name, args, function)
        results = [self.made("proj", (whole,), function, (("index", i),)) for i in range(len(names))]
        for name, result in zip(names, results, strict=True):
            self.check_target(name)
            self.set_binding(name[0], result)

    def check_target(self, name: Token) -> None:
        self.refuse_after_bare(name)
        text = name[0]
        if not is_name(text) or text in _PYTHON_ONLY or text in _NAMED_VALUES:
            self.fail(f"{text!r} cannot be the name of a value", name)
        if text.startswith("_"):
            self.fail("a name that is bound starts with a letter, since it may become an output's name", name)

    def set_binding(self, name: str, value: Node) -> None:
        self.names.give(value, name, self.inputs)
        self.bindings[name] = _Binding(value)
        self.first_leaf = None

    def declare(self, name: Token, kind: Token, shape: tuple[Dim, ...] | None = None) -> None:
        self.refuse_after_bare(name)
        text = name[0]
        if text in self.bindings:
            self.fail(f"{text} is a value by now; declare it before it is bound", name)
        if kind[0] in DTYPES and kind[0] not in _CASTS:
            self.fail(f"{kind[0]} is a packed type: it is planned and costed (--dtype {kind[0]}), not declared", kind)
        if kind[0] not in _CASTS:
            near = nearest(kind[0], _CASTS)
            self.fail(f"{kind[0]} is not a dtype", kind, f"did you mean {' or '.join(near)}?" if near else "")
        known = self.inputs.get(text)
        if known is not None and known.dtype is not None:
            self.fail(f"{text} is declared twice", name)
        self.check_input(name)
        self.inputs[text] = Declaration(text, dtype(kind[0]), shape)

    def shape(self, *dims: Dim) -> tuple[Dim, ...]:
        return dims

    def dim(self, token: Token) -> Dim:
        if token.lastgroup == "NAME":
            if not is_name(token[0]):
                self.fail(f"{token[0]!r} cannot be the name of a size", token)
            return named(token[0])
        value = self.number_value(token)
        if not isinstance(value, int):
            self.fail("a dimension is a name or a whole number", token)
        if value >= 2**63:
            self.fail("a dimension is at most 2**63 - 1", token)
        return value

    def bare(self, value: Node) -> None:
        if self.first_leaf is not None:
            self.refuse_after_bare(self.first_leaf)
        self.set_binding("out", value)
        self.ended_bare = True

    def refuse_after_bare(self, token: Token) -> None:
        if self.ended_bare:
            self.fail("only the last statement may be an expression without a name; give the one before a name", token)

    # ── expressions ──

    def expression(self, value: Node | _Chain) -> Node:
        return value.node if isinstance(value, _Chain) else value

    def compare(self, left: Node | _Chain, sign: Token, right: Node) -> _Chain:
        op = INFIX[sign[0]]
        if isinstance(left, _Chain):
            step = self.made(op, (left.last, right), sign)
            return _Chain(self.made("and", (left.node, step), sign), right)
        return _Chain(self.made(op, (left, right), sign), right)

    def binary(self, left: Node, sign: Token, right: Node) -> Node:
        return self.made(INFIX[sign[0]], (left, right), sign)

    def prefix(self, sign: Token, value: Node) -> Node:
        text = sign[0]
        if text == "+":
            return value
        if text == "-" and value.op == "literal" and not isinstance(number := literal_value(value), bool):
            return literal(-number)  # as in Python, the sign before a number is part of it
        return self.made("neg" if text == "-" else "invert", (value,), sign)

    def name(self, token: Token) -> Node:
        if self.first_leaf is None:
            self.first_leaf = token
        name = token[0]
        binding = self.bindings.get(name)
        if binding is not None:
            binding.read = True
            return binding.node
        if name not in self.inputs:
            if name in _CONSTANTS:
                return literal(_CONSTANTS[name])
            if name in ("True", "False"):
                return literal(name == "True")
            self.check_input(token)
            self.inputs[name] = Declaration(name)
        return make("input", (), (("name", name),))

    def check_input(self, token: Token) -> None:
        name = token[0]
        if name in _NAMED_VALUES:
            self.fail(f"{name} is a value of Python and cannot be the name of an input", token)
        if name in _PYTHON_ONLY:
            self.fail(f"{name!r} is not part of the formula language", token, _ADVICE.get(name, ""))
        if name in RESERVED_INPUTS:
            self.fail(f"{name!r} cannot be the name of an input: calls use it as an option", token)
        if name in SPELLINGS and name not in self.inputs and self.following(token) != ":":
            self.fail(f"{name} is a function; call it, as in {name}(x)", token)
        if not is_name(name):
            self.fail(f"{name!r} is not a name as Python writes them", token)

    def following(self, token: Token) -> str:
        """The first character after a token."""
        return self.text[token.end() : token.end() + 64].lstrip()[:1]

    def number(self, token: Token) -> Node:
        if self.first_leaf is None:
            self.first_leaf = token
        return literal(self.number_value(token))

    def number_value(self, token: Token) -> int | float:
        text = token[0]
        if len(text) > MAX_NUMBER_CHARACTERS:
            self.fail(f"a number of more than {MAX_NUMBER_CHARACTERS} characters", token)
        try:
            if text[:2].lower() in ("0x", "0b", "0o") or not set(text) & set(".eE"):
                return _integer(text)
            return float(text)
        except ValueError:
            self.fail(f"{text!r} is not a number as Python writes them", token)

    def keyword(self, name: Token, *value: Token) -> _Keyword:
        known: dict[str, int | bool | None] = {"True": True, "False": False, "None": None}
        last = value[-1]
        if last.lastgroup == "NAME":
            if last[0] not in known:
                self.fail(f"the option {name[0]} takes a number, True, False or None", last)
            return _Keyword(name, known[last[0]])
        number = self.number_value(last)
        if not isinstance(number, int):
            self.fail(f"the option {name[0]} takes a whole number", last)
        return _Keyword(name, -number if len(value) > 1 else number)

    def call(self, name: Token, *arguments: Node | _Keyword) -> Node:
        if self.first_leaf is None or self.first_leaf.start() > name.start():
            self.first_leaf = name
        function = name[0]
        positional = tuple(a for a in arguments if isinstance(a, Node))
        options = [a for a in arguments if isinstance(a, _Keyword)]
        if options and not isinstance(arguments[-1], _Keyword):
            self.fail(f"in {function}(…) an argument without a name follows {options[0].name[0]}=", options[0].name)
        if function in _CASTS:
            self.check_count(name, 1, len(positional), options)
            return self.made("cast", positional, name, (("dtype", _CASTS[function]),))
        if function not in SPELLINGS:
            near = nearest(function, [*SPELLINGS, *_CASTS])
            self.fail(f"no function is called {function!r}", name, f"did you mean {' or '.join(near)}?" if near else "")
        row = OPERATIONS[SPELLINGS[function]]
        if row.parts:
            self.fail(f"{function} gives {len(row.parts)} values; write q, r = {function}(a, b)", name)
        if row.index_rule == "reduction":
            return self.reduction(row.name, name, positional, options)
        self.check_count(name, row.arity, len(positional), options)
        return self.made(row.name, positional, name)

    def check_count(self, name: Token, wanted: int, given: int, options: list[_Keyword]) -> None:
        if options:
            self.fail(f"{name[0]} has no option {options[0].name[0]}", options[0].name)
        if wanted != given:
            self.fail(f"{name[0]} takes {wanted} argument{'s' * (wanted != 1)}, not {given}", name)

    def reduction(self, op: str, name: Token, positional: tuple[Node, ...], options: list[_Keyword]) -> Node:
        """``op(x, axis, keepdims=True)``: a named axis stays, as length 1, so that the result meets its operand."""
        chosen: dict[str, int | bool | None] = {}
        for option in options:
            key = option.name[0]
            if key not in ("axis", "keepdims") or key in chosen:
                self.fail(f"{name[0]} takes axis= and keepdims= once each", option.name)
            if key == "axis" and isinstance(option.value, bool):
                self.fail("an axis is a whole number or None", option.name)
            chosen[key] = option.value
        if len(positional) == 2 and "axis" not in chosen:
            chosen["axis"] = self.axis_value(name, positional[1])
        elif len(positional) != 1:
            self.fail(f"{name[0]} takes an array and an axis; for two arrays use minimum or maximum", name)
        axis = chosen.get("axis")
        keep = bool(chosen.get("keepdims", axis is not None))
        axes = None if axis is None else (int(axis),)
        return self.made(op, positional[:1], name, (("axes", axes), ("keepdims", keep)))

    def axis_value(self, name: Token, node: Node) -> int:
        value = literal_value(node) if node.op == "literal" else None
        if not isinstance(value, int) or isinstance(value, bool):
            advice = "for two arrays use minimum or maximum"
            self.fail(f"{name[0]}'s second argument is an axis, a whole number; {advice}", name)
        return value

    def made(self, op: str, args: tuple[Node, ...], token: Token, attrs: Attrs = ()) -> Node:
        node = make(op, args, attrs)
        if node not in self.offsets:
            self.offsets[node] = token.start()
            if len(self.offsets) > MAX_NODES:
                self.fail(f"the program has more than {MAX_NODES:,} operations", token)
        return node

    # ── the result and its refusals ──

    def program(self, *_: object) -> Program:
        if not self.bindings:
            raise FormulaError("the formula is empty: it computes nothing", source=self.text)
        outputs = tuple((name, b.node) for name, b in self.bindings.items() if not b.read)
        bindings = {name: b.node for name, b in self.bindings.items()}
        inputs, nodes = tuple(self.inputs.values()), tuple(self.offsets)
        locations = _Locations(self.text, self.offsets)
        return Program(self.text, inputs, nodes, outputs, self.names.of, bindings, locations)

    def fail(self, message: str, token: Token, hint: str = "") -> NoReturn:
        self.fail_at(message, token.start(), hint)

    def fail_at(self, message: str, offset: int, hint: str = "") -> NoReturn:
        line, column = _position(line_starts(self.text), offset)
        raise FormulaError(message, source=self.text, line=line, column=column, hint=hint)

    def refuse_token(self, token: Token | None, before: Token | None) -> NoReturn:
        if before is not None and before[0] in _PYTHON_ONLY:
            self.check_input(before)
        if token is None:
            self.fail_at("the formula ends in the middle of an expression", len(self.text.rstrip("\r\n")))
        if token.lastgroup == "_NEWLINE":
            self.fail("the line ends in the middle of an expression", token)
        word = token[0]
        hint = _HINTS.get(word) or _ADVICE.get(word, "")
        self.fail(f"{word!r} is not expected here", token, hint)

    def refuse_character(self, offset: int) -> NoReturn:
        character = self.text[offset]
        hint = ""
        if character == ".":
            hint = "there are no attributes: write exp(x), not np.exp(x), and 0.5 for np.float64(0.5)"
        elif character in "'\"":
            hint = "there are no strings"
        self.fail_at(f"{character!r} is not part of the formula language", offset, hint)
