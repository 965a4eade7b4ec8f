"""What optimisation does to a program, and above all what it leaves alone."""

import warnings

import numpy as np
import pytest

from fuseline.api.program import evaluate, graph, optimize
from fuseline.errors import VerifyError
from fuseline.ir.graph import Graph
from fuseline.ir.text import parse_graph
from fuseline.passes.pipeline import PIPELINE, Pass
from fuseline.passes.pipeline import optimize as run

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 1.0, -1.0, 0.1],
    np.float32,
)


def ops(text: str, dtype: str = "f32") -> list[str]:
    return [n.op for n in optimize(graph(text, dtype)).nodes]


def bits(a: np.ndarray) -> np.ndarray:
    a = np.where(np.isnan(a), np.float32(np.nan), a)
    return a.view(np.uint32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x*1", []),
        ("1.0*x", []),
        ("x - 0.0", []),
        ("x + -0.0", []),
        ("-(-x)", []),
        ("minimum(x, x)", []),
        ("maximum(x, x)", []),
        ("x/4", ["mul"]),
        ("x/-0.5", ["mul"]),
        ("x**2", ["mul"]),
        ("square(x)", ["mul"]),
        ("floor(trunc(x))", ["trunc"]),
        ("abs(-x)", ["abs"]),
        ("abs(abs(x))", ["abs"]),
        ("where(x > 0, x, x)", []),
        ("f32(x)", []),
        ("(x + 1)*(x + 1)", ["add", "mul"]),
        ("f32(2)*f32(3)*x", ["mul"]),
    ],
)
def test_sound_identities_apply(text, expected):
    assert ops(text) == expected
    g = graph(text)
    assert (bits(evaluate(g, x=SPECIAL)) == bits(evaluate(optimize(g), x=SPECIAL))).all()


@pytest.mark.parametrize(
    "text",
    [
        "x*0.0",
        "0*x",
        "x - x",
        "x/x",
        "x + 0.0",
        "0.0 + x",
        "0.0 - x",
        "x/3.0",
        "(x + y) - x",
        "(x*y)/y",
        "exp(log(x))",
        "x == x",
        "x != x",
        "x**3",
        "x**0.5",
        "x**0",
        "x**1",
        "x*y + z",
        "x/0.0",
        "x + y + z - y",
        "x*2.0*0.5",
        "x/5e-39",
        "x/2e-45",
    ],
)
def test_unsound_identities_are_absent(text):
    before = graph(text)
    after = optimize(before)
    assert [n.op for n in before.nodes] == [n.op for n in after.nodes]


def test_division_by_a_power_of_two_keeps_its_operand_order():
    assert ops("4/x") == ["div"]
    assert ops("x/x") == ["div"]


def test_a_16_bit_result_is_not_folded_or_recast():
    assert "cast" in ops("bf16(x + y)", "bf16")
    assert ops("bf16(x)", "bf16") == []
    assert "add" in ops("bf16(1.00390625) + bf16(0.00390625) + x", "bf16")


def test_functions_of_numbers_are_computed_at_run_time():
    # A folded transcendental would come from another implementation than the kernel's own.
    assert ops("exp(f32(1)) + x") == ["exp", "add"]
    assert ops("sqrt(f32(2)) + x") == ["add"]


def test_integers_have_their_own_neutral_elements():
    assert ops("x + 0", "i32") == []
    assert ops("x - 0", "i32") == []
    assert ops("x | 0", "i32") == []
    assert ops("x & -1", "i32") == []
    assert ops("x ^ 0", "i32") == []
    assert ops("x << 0", "i32") == []
    assert ops("x & 255", "u8") == []


def test_dead_code_goes_and_inputs_stay():
    g = graph("dead = exp(z); y = x + 1", outputs=["y"])
    after = optimize(g)
    assert [n.op for n in after.nodes] == ["add"]
    assert after.input_names == ("z", "x")


def test_names_survive_rewriting():
    after = optimize(graph("h = x/2; y = h + 1"))
    assert [after.label(n) for n in after.nodes] == ["h", "y"]
    kept = optimize(graph("dead = exp(x); h = x/2; y = h + 1", outputs=["y"]))
    assert [kept.label(n) for n in kept.nodes] == ["h", "y"] and set(kept.names.values()) == {"h", "y"}


def test_passes_work_from_text_to_text():
    g = parse_graph("%x = input f32[T]\n%y = mul f32[T] %x, 1.0:f32\n%z = add f32[T] %y, %y\nreturn z=%z\n")
    assert str(run(g, check=True)) == "%x = input f32[T]\n%z = add f32[T] %x, %x\nreturn z=%z\n"


def test_a_pass_that_changes_an_output_is_caught():
    def broken(g: Graph) -> Graph:
        return g.replaced(outputs=(("other", g.output_nodes[0]),))

    with pytest.raises(VerifyError, match="broken"):
        run(graph("y = x + 1"), [*PIPELINE, Pass("broken", broken)], check=True)


def test_a_pass_that_changes_an_input_or_a_type_is_caught():
    before = graph("x: f32[4]; y: f32[4]; a = x + y")
    renamed = graph("z: f32[4]; y: f32[4]; a = z + y")
    fewer = graph("x: f32[4]; a = x + 1")
    wider = graph("x: f32[4]; y: f32[4]; a = f64(x + y)")
    for after in (renamed, fewer, wider):
        with pytest.raises(VerifyError, match="planted"):
            run(before, [*PIPELINE, Pass("planted", lambda _, after=after: after)], check=True)


def test_a_long_chain_is_rewritten_without_recursion():
    text = "y = x" + " + 0.5" * 5000 + " - 0.0" * 5000
    assert len(optimize(graph(text)).nodes) == 5000


@pytest.mark.parametrize(("dtype", "least"), [("f16", -14), ("bf16", -126), ("f32", -126), ("f64", -1022)])
def test_division_is_a_product_exactly_where_both_powers_of_two_are_normal_numbers(dtype, least):
    for k in (least - 1, least, least + 1, -1, 1, -least - 1, -least, -least + 1):
        for divisor in (2.0**k, -(2.0**k)):
            assert ops(f"x/({divisor!r})", dtype) == (["mul"] if least <= k <= -least else ["div"])


def test_neutral_elements_may_stand_on_either_side_where_operands_may_be_exchanged():
    assert ops("0 | x", "i32") == ops("0 ^ x", "i32") == ops("-1 & x", "i32") == ops("255 & x", "u8") == []
    assert ops("0 << x", "i32") == ["shl"]
    assert ops("0 - x", "i32") == ["sub"]


@pytest.mark.parametrize("dtype", ["i32", "u8"])
def test_the_magnitude_of_an_integers_negation_is_left_alone(dtype):
    """255 is the magnitude of -1 as an unsigned number, not 1."""
    assert ops("abs(-x)", dtype) == ["neg", "abs"]


def test_16_bit_numbers_are_cast_where_the_program_says_so():
    assert ops("bf16(f32(0.1)) + x") == ["cast", "add"]
    assert ops("f32(bf16(1.1)) + x") == ["cast", "cast", "add"]
    assert ops("bf16(1.1) < bf16(2.3)") == ["cast", "cast", "lt"]
    assert ops("f32(1.5)*f32(3) + x") == ["add"]


def test_folding_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("f32(1)/f32(0) + x", "f32(0)/f32(0) + x", "f32(3e38)*f32(3e38) + x", "f32(1e-38)*f32(1e-5) + x"):
            assert ops(text) == ["add"]
