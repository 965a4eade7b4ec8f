"""What a graph's outputs may be called, wherever it comes from."""

from __future__ import annotations

import numpy as np
import pytest

import fuseline as fl
from fuseline.errors import TextFormError, UsageError
from fuseline.ir.graph import Graph
from fuseline.ir.text import parse_graph

BEGINNING = "%x = input f32[2]\n%z = neg f32[2] %x\n"
NO_OUTPUTS = ["return", "None", "_a", "1", "a b", "", "y.1", "ﬁ"]


@pytest.mark.parametrize("name", NO_OUTPUTS)
def test_what_no_named_tuple_holds_is_no_output(name: str) -> None:
    for others in ("", ", y=%x"):
        with pytest.raises(TextFormError, match=f"line 3: {name!r} cannot be the name of an output"):
            parse_graph(f"{BEGINNING}return {name}=%z{others}")
    made = fl.graph("z = -x")
    with pytest.raises(UsageError, match="cannot be the name of an output"):
        Graph(made.inputs, [(name, made.nodes[0])])


def test_outputs_have_names_of_their_own() -> None:
    with pytest.raises(TextFormError, match="line 3: two outputs are called z; give each a name of its own"):
        parse_graph(f"{BEGINNING}return z=%z, y=%x, z=%x")
    made = fl.graph("z = -x; y = x + 1")
    with pytest.raises(UsageError, match="two outputs are called z"):
        made.replaced(outputs=[("z", made.nodes[0]), ("z", made.nodes[1])])


@pytest.mark.parametrize("name", ["match", "out", "count", "é", "z1_"])
def test_other_names_are_outputs(name: str) -> None:
    made = parse_graph(f"{BEGINNING}return {name}=%z, y=%x")
    assert parse_graph(str(made)) == made
    results = fl.compile(made)(np.ones(2, np.float32))
    assert getattr(results, name)[0] == -1.0


def test_a_graph_that_returns_nothing_is_no_program() -> None:
    made = parse_graph(BEGINNING + "return")
    assert made.outputs == () and parse_graph(str(made)) == made
    for function in (fl.compile, fl.measure):
        with pytest.raises(UsageError, match="a program returns something"):
            function(made)


@pytest.mark.parametrize("name", ["class", "x.1", "ﬁ", "3"])
def test_inputs_that_no_call_can_name_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="an input of a program is called by a name"):
        fl.compile(parse_graph(f"%{name} = input f32[2]\n%z = neg f32[2] %{name}\nreturn z=%z"))
