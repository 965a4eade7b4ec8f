"""An untyped program, as a front end reads it: nodes without types, and the names that its text gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuseline.errors import TypeRuleError, UnknownNameError, UnsupportedError, UsageError, nearest
from fuseline.ir.dtype import DType
from fuseline.ir.graph import Graph, topological
from fuseline.ir.names import is_name
from fuseline.ir.node import Node, make
from fuseline.ir.size import Shape

_SHOWN_NAMES = 10

RESERVED_INPUTS = frozenset({"out", "where", "dtype", "casting"})
"""What no input may be called: calls of a kernel use them as options."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a program says of an input; None where it leaves it to the caller."""

    name: str
    dtype: DType | None = None
    shape: Shape | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """Untyped nodes in program order. ``locations`` are (line, column) pairs from 1 into ``source``."""

    source: str
    inputs: tuple[Declaration, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[tuple[str, Node], ...]
    names: Mapping[Node, str] = field(default_factory=dict)
    bindings: Mapping[str, Node] = field(default_factory=dict)
    """Every name's last value, for choosing other outputs."""
    locations: Mapping[Node, tuple[int, int]] = field(default_factory=dict)
    captures: Mapping[str, Any] = field(default_factory=dict)
    """Arrays that a traced function closes over, by the name of the input they are the value of."""
    fixed: tuple[str, ...] = ()
    """Parameters of a traced function that kept the number or option given for them: they are no inputs."""
    origin: str = ""
    """Where ``source`` is from, for errors: empty for a formula, the function and its file for a traced one."""

    def with_outputs(self, names: Sequence[str] | str) -> Program:
        """The same program with the named values as outputs.

        Raises `UnknownNameError` for a name that no statement binds, `UsageError` for one that is given twice and
        `TypeRuleError` for what is no name or list of them.
        """
        if not isinstance(names, Iterable):
            raise TypeRuleError(f"outputs are names, as 'y' or ['y', 'z'], not {names!r:.60}")
        names = [names] if isinstance(names, str) else list(names)
        unknown = [n for n in names if n not in self.bindings]
        if unknown or not names:
            raise UnknownNameError(self._about_outputs(unknown))
        twice = [n for n, times in Counter(names).items() if times > 1]
        if twice:
            raise UsageError(f"the output {', '.join(twice)} is asked for twice; name each once")
        return replace(self, outputs=tuple((n, self.bindings[n]) for n in names))

    def _about_outputs(self, unknown: Sequence[str]) -> str:
        if not unknown:
            return "no outputs are asked for; name at least one"
        near = nearest(str(unknown[0]), self.bindings)
        bound = list(self.bindings)
        shown = ", ".join(bound[:_SHOWN_NAMES]) + (
            f" and {len(bound) - _SHOWN_NAMES} more" * (len(bound) > _SHOWN_NAMES)
        )
        advice = f"did you mean {' or '.join(near)}?" if near else f"it binds {shown}"
        return f"the program binds no {', '.join(map(str, unknown))} to return; {advice}"

    def __reduce__(self) -> Any:
        return _rebuilt, (_flat(self),)


def _flat(program: Program) -> dict[str, Any]:
    """The program with numbers for nodes, operands before their users, so that its depth is no matter."""
    roots = [*program.nodes, *(n for _, n in program.outputs), *program.bindings.values()]
    order = topological(roots)
    number = {n: i for i, n in enumerate(order)}
    return {
        "rows": [(n.op, tuple([number[a] for a in n.args]), n.attrs, n.type) for n in order],
        "nodes": [number[n] for n in program.nodes],
        "outputs": [(name, number[n]) for name, n in program.outputs],
        "names": {number[n]: name for n, name in program.names.items() if n in number},
        "bindings": {name: number[n] for name, n in program.bindings.items()},
        "locations": {number[n]: place for n, place in program.locations.items() if n in number},
        "rest": (program.source, program.inputs, dict(program.captures), program.fixed, program.origin),
    }


def _rebuilt(flat: Mapping[str, Any]) -> Program:
    made: list[Node] = []
    for op, args, attrs, type_ in flat["rows"]:
        made.append(make(op, tuple([made[i] for i in args]), attrs, type_))
    source, inputs, captures, fixed, origin = flat["rest"]
    return Program(
        source=source,
        inputs=inputs,
        nodes=tuple(made[i] for i in flat["nodes"]),
        outputs=tuple((name, made[i]) for name, i in flat["outputs"]),
        names={made[i]: name for i, name in flat["names"].items()},
        bindings={name: made[i] for name, i in flat["bindings"].items()},
        locations={made[i]: place for i, place in flat["locations"].items()},
        captures=captures,
        fixed=fixed,
        origin=origin,
    )


def untyped(graph: Graph) -> Program:
    """``graph`` as a program whose inputs are declared with its dtypes and shapes; `specialise` gives the graph again.

    Raises `UnsupportedError` for a repeated part and `UsageError` for an input or output that no call can name.
    """
    made: dict[Node, Node] = {n: make("input", (), (("name", n.attr("name")),)) for n in graph.inputs}
    for node in graph.nodes:
        if node.op == "repeat":
            raise UnsupportedError("a graph with a repeated part is no program; write the part out")
        made[node] = make(node.op, tuple([made.get(a, a) for a in node.args]), node.attrs)
    if not graph.outputs:
        raise UsageError("a program returns something; the graph has no outputs")
    for name in graph.input_names:
        if not is_name(name):
            raise UsageError(f"an input of a program is called by a name as Python has them, not {name!r}")
    if reserved := sorted(RESERVED_INPUTS.intersection(graph.input_names)):
        raise UsageError(f"no input may be called {reserved[0]}, which calls of a kernel use; rename it in the graph")
    outputs = tuple([(name, made.get(n, n)) for name, n in graph.outputs])
    named = {name: made[n] for n, name in graph.names.items()}
    return Program(
        source="",
        inputs=tuple([Declaration(n.attr("name"), n.dtype, n.tensor.shape) for n in graph.inputs]),
        nodes=tuple([made[n] for n in graph.nodes]),
        outputs=outputs,
        names={made[n]: name for n, name in graph.names.items()},
        bindings={**named, **dict(outputs)},
    )


class ValueNames:
    """The names that a program gives to values, one each; a name that is used again gets a number, as in ``h.1``."""

    def __init__(self) -> None:
        self.of: dict[Node, str] = {}
        self._next: dict[str, int] = {}

    def give(self, node: Node, name: str, inputs: Collection[str]) -> None:
        """Call ``node`` by ``name``, unless it has a name or is an input or number."""
        if node.is_source or node in self.of:
            return
        number = self._next.get(name, 1 if name in inputs else 0)
        self._next[name] = number + 1
        self.of[node] = f"{name}.{number}" if number else name

    def used(self, name: str) -> bool:
        """Whether a value is called ``name``."""
        return name in self._next
