"""What Python callers hand in: accepted as NumPy would, or refused in words by an error of the family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.errors import FuselineError, ShapeError, TypeRuleError, UnknownNameError, UsageError

TEXT = "y = x + 1; zed = y*2"


@pytest.mark.parametrize(
    ("shape", "elements"),
    [(4, 4), ((2, 3), 6), ([2, 3], 6), (np.int64(4), 4), ((np.int32(2), 3), 6), ("2x3", 6), ((), 1)],
)
def test_shapes_are_taken_as_numpy_takes_them(shape: Any, elements: int) -> None:
    assert fl.explain(TEXT, shape=shape).traffic.largest_elements == elements


@pytest.mark.parametrize("shape", [4.5, (4.5,), (True,), -1, (2, -3), object(), {"a": 1}, "4x", ((2, 3), 4)])
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    with pytest.raises(FuselineError, match="shape"):
        fl.explain(TEXT, shape=shape)


def test_devices_and_dtypes_are_names() -> None:
    for device in (None, 3, b"h100-sxm"):
        with pytest.raises(TypeRuleError, match="a device is called by its name"):
            fl.explain(TEXT, device=device)
    for dtype in (None, object(), "f33", 3.5, np.dtype("complex64")):
        with pytest.raises(FuselineError, match="dtype"):
            fl.graph(TEXT, dtype)


def test_outputs_are_names_that_the_program_binds() -> None:
    assert fl.graph(TEXT, outputs="y").output_names == ("y",)
    with pytest.raises(UnknownNameError, match="did you mean zed"):
        fl.graph(TEXT, outputs=["zedd"])
    with pytest.raises(UnknownNameError, match="it binds y, zed"):
        fl.graph(TEXT, outputs=["q"])
    with pytest.raises(UnknownNameError, match="name at least one"):
        fl.graph(TEXT, outputs=[])
    with pytest.raises(UnknownNameError) as caught:
        fl.graph("".join(f"a{i} = x\n" for i in range(5000)), outputs=["q"])
    assert "4990 more" in str(caught.value)
    assert len(str(caught.value)) < 200
    assert fl.compile(TEXT, outputs="zed").outputs == ("zed",)  # a text is one name, not its letters
    with pytest.raises(UsageError, match="the output y is asked for twice"):
        fl.compile(TEXT, outputs=["y", "zed", "y"])
    for refused in (fl.graph, fl.explain):
        with pytest.raises(TypeRuleError, match="a graph has its outputs"):
            refused(fl.graph(TEXT), outputs=["y"])


def test_named_sizes_may_turn_out_equal() -> None:
    e = fl.explain("x: f32[T]; y: f32[D]; x + y", sizes={"T": 3, "D": 3})
    assert e.traffic.largest_elements == 3
    with pytest.raises(ShapeError, match=r"shape \(3\) and y of shape \(4\)"):
        fl.explain("x: f32[T]; y: f32[D]; x + y", sizes={"T": 3, "D": 4})


@pytest.mark.parametrize("function", [fl.graph, fl.explain, fl.compile, fl.plan_program, fl.measure])
@pytest.mark.parametrize("outputs", [5, 1.5, object()])
def test_what_is_no_list_of_outputs_is_refused(function: Any, outputs: Any) -> None:
    with pytest.raises(TypeRuleError, match="outputs are names"):
        function(TEXT, outputs=outputs)


@pytest.mark.parametrize("function", [fl.graph, fl.explain, fl.plan_program, fl.measure])
@pytest.mark.parametrize("text", [TEXT, "x: f32[T]; y = x + 1"])
@pytest.mark.parametrize("sizes", [[3], 5, "T=3", ()])
def test_what_is_no_mapping_of_sizes_is_refused(function: Any, text: str, sizes: Any) -> None:
    with pytest.raises(TypeRuleError, match="sizes are lengths by name"):
        function(text, sizes=sizes)


def test_sizes_are_called_by_names() -> None:
    with pytest.raises(ShapeError, match="no array has a size called 3"):
        fl.explain(TEXT, sizes={3: 4})


@pytest.mark.parametrize("name", [None, 3, b"h100-sxm"])
def test_a_machine_is_asked_for_by_its_name(name: Any) -> None:
    with pytest.raises(TypeRuleError, match="a device is called by its name"):
        fl.device(name)


NO_COUNTS = [{"n": n} for n in ("a", 0, -5, 2.5, True, None)] + [
    {"thread_counts": c} for c in (3, [], [0], [1025], "12", [1.5])
]


@pytest.mark.parametrize("counts", NO_COUNTS, ids=str)
def test_measuring_counts_whole_things(counts: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="whole number"):
        fl.measure(TEXT, **counts)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"where": True}, r"where is an option of NumPy's ufuncs: .*k\.ufunc\(x, y, where=\.\.\., out=\.\.\.\)"),
        ({"dtype": "f4"}, r"dtype is an option .*k\.ufunc\(x, y, dtype=\.\.\.\)"),
        ({"casting": "safe"}, r"casting is an option .*k\.ufunc\(x, y, casting=\.\.\.\)"),
        ({"order": "C", "subok": False}, r"order, subok are options .*k\.ufunc\(x, y, order=\.\.\., subok=\.\.\.\)"),
    ],
)
def test_options_of_ufuncs_are_said_to_be_those_of_the_kernels_ufunc(options: dict[str, Any], shown: str) -> None:
    k = fl.compile("x*y", name="k")
    x = np.ones(3, np.float32)
    for call in (lambda: k(x, x, **options), lambda: k(x=x, y=x, **options), lambda: k(x, x, out=x, **options)):
        with pytest.raises(fl.TypeRuleError, match=shown):
            call()


def test_where_there_is_no_ufunc_its_options_lead_nowhere_and_the_error_says_why() -> None:
    x = np.ones(3, np.float32)
    many = fl.compile(" + ".join(f"x{i}" for i in range(70)), name="many")
    for call, why in (
        (lambda: fl.compile("sum(x)", name="total")(x, where=True), "total has no ufunc: it reduces over axes"),
        (lambda: many(*[x] * 70, dtype="f4"), "many has no ufunc: a NumPy ufunc has at most 64 operands"),
        (lambda: fl.compile("out = 3.0", name="three")(casting="safe"), "three has no ufunc: .*at least one input"),
    ):
        with pytest.raises(fl.TypeRuleError, match=why):
            call()


def test_an_input_may_be_called_like_a_rare_option() -> None:
    x = np.ones(3, np.float32)
    assert fl.compile("x*order")(x, order=2).tolist() == [2, 2, 2]
    with pytest.raises(fl.TypeRuleError, match="order is given twice"):
        fl.compile("x*order")(x, x, order=2)
