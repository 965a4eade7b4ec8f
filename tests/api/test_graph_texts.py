"""A graph's text form is a program for the Python functions as it is for the commands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.api.roofline import formula_cost
from fuseline.errors import LimitError, TextFormError, UnknownNameError, UnsupportedError

GELU = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"
TYPED = fl.graph(GELU)
TEXT = f"# as it was written\n\n{TYPED}"


def test_it_is_the_graph_that_was_written() -> None:
    assert fl.graph(TEXT) == TYPED
    assert fl.graph(TEXT, "f64", shape=(3,)).inputs[0].tensor.shape == (3,)
    assert fl.graph(TEXT, outputs="y").output_names == ("y",)
    sized = "%x = input f32[T]\n%y = neg f32[T] %x\nreturn y=%y\n"
    assert str(fl.graph(sized, sizes={"T": 3})) == sized.replace("T", "3")


def test_its_kernel_computes_what_the_formula_does() -> None:
    x, b, r = np.random.default_rng(1).normal(size=(3, 17)).astype(np.float32)
    kernel = fl.compile(TEXT)
    assert kernel.inputs == ("x", "b", "r") and kernel.outputs == ("out",)
    assert np.array_equal(kernel(x, b, r), fl.compile(GELU)(x, b, r))
    assert kernel.emit("c") == fl.compile(TYPED).emit("c")
    assert fl.compile(TEXT, ["h", "out"]).outputs == ("h", "out")


def test_it_is_explained_planned_and_costed() -> None:
    explained, wanted = fl.explain(TEXT, shape=(4, 8)), fl.explain(GELU, shape=(4, 8), dtype="f32")
    for data in (mine := explained.to_dict(), other := wanted.to_dict()):
        del data["dtype"]
    assert mine == other
    assert explained.dataflow.source == "" and wanted.dataflow.source == GELU
    assert fl.plan_program(TEXT, (4, 8)).order == fl.plan_program(GELU, (4, 8), "f32").order
    assert formula_cost(TEXT, (4, 8)).work == formula_cost(GELU, (4, 8), "f32").work
    assert fl.measure("%x = input f32[*]\n%y = neg f32[*] %x\nreturn y=%y", n=8, quick=True, thread_counts=[1])


@pytest.mark.parametrize("function", [fl.compile, fl.explain, fl.plan_program, fl.graph, fl.measure])
def test_its_errors_are_named_by_their_lines(function: Any) -> None:
    with pytest.raises(TextFormError, match="line 2: no instruction is called 'expp'"):
        function("%x = input f32[*]\n%y = expp f32[*] %x\nreturn y=%y")
    with pytest.raises(UnknownNameError, match="binds no q"):
        function(TEXT, outputs=["q"])
    with pytest.raises(LimitError, match="at most 16 MiB"):
        function("%x = input f32[*]\nreturn y=%x\n" + "#" * 2**24)
    repeated = """%x = input f32[2]
%r = repeat (f32[2]) %x {count=3}
  %x = input f32[2]
  %y = neg f32[2] %x
  return y=%y
end
%y = proj f32[2] %r {index=0}
return y=%y
"""
    with pytest.raises(UnsupportedError, match="a graph with a repeated part is no program"):
        function(repeated)
