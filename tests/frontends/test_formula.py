"""The formula language: what texts mean, as the graph they give; Python's precedence; names, outputs, declarations."""

from __future__ import annotations

import ast
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from arrays import same_bits
from fuseline.errors import FormulaError, ShapeError, TypeRuleError, UnknownNameError
from fuseline.frontends.formula import parse_formula
from fuseline.ir import Graph, TensorType, dtype, interpret
from fuseline.ir.dtype import BF16, F32, F64, I32, I64
from fuseline.ir.node import literal, literal_value
from fuseline.ir.program import Declaration, Program
from fuseline.ir.size import named
from fuseline.ir.specialise import input_types, specialise
from fuseline.ops import OPERATIONS, SPELLINGS
from programs import ELEMENTWISE, REDUCTIONS, RandomProgram, programs, seeded_programs

COURSE = "h = x + b; y = 0.5*h*(1+tanh(0.7978845608*(h+0.044715*h*h*h))); out = y + r"


def graph_of(text: str, d: Any = F32, outputs: list[str] | None = None) -> Graph:
    program = parse_formula(text)
    if outputs:
        program = program.with_outputs(outputs)
    return specialise(program, input_types(program, d))


def run(text: str, **arrays: Any) -> dict[str, np.ndarray[Any, Any]]:
    program = parse_formula(text)
    given = {n: np.asarray(a) for n, a in arrays.items()}
    return interpret(
        specialise(program, {n: TensorType(dtype(a.dtype), a.shape) for n, a in given.items()}),
        given,
    )


# ── random programs ──────────────────────────────────────────────────────────────────────────────────────────────────


def same_program(parsed: Program, made: Program) -> None:
    assert parsed.nodes == made.nodes
    assert parsed.inputs == made.inputs
    assert parsed.outputs == made.outputs
    assert parsed.bindings == made.bindings
    assert parsed.names == made.names


@given(programs(operations=(*ELEMENTWISE, *REDUCTIONS)))
def test_a_text_gives_the_program_it_was_written_from(made: RandomProgram) -> None:
    same_program(parse_formula(made.text), made.program)


@pytest.mark.long
def test_many_texts_give_the_programs_they_were_written_from() -> None:
    for made in seeded_programs(20_000, seed=2, operations=(*ELEMENTWISE, *REDUCTIONS), max_depth=5):
        same_program(parse_formula(made.text), made.program)


# ── the course's program ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_course_program_has_eleven_instructions_depth_ten_and_h_used_by_five() -> None:
    graph = graph_of(COURSE)
    assert len(graph.nodes) == 11
    assert graph.depth == 10
    h = next(n for n, name in graph.names.items() if name == "h")
    assert len(graph.users[h]) == 5
    assert graph.input_names == ("x", "b", "r")
    assert graph.output_names == ("out",)
    assert [n.op for n in graph.nodes] == [
        "add", "mul", "mul", "mul", "mul", "add", "mul", "tanh", "add", "mul", "add",
    ]  # fmt: skip


def test_statements_end_at_newlines_or_semicolons_and_comments_are_skipped() -> None:
    spread = "# GELU\nh = x + b   # bias\n\n;y = 0.5*h*(1+tanh(0.7978845608*\n  (h+0.044715*h*h*h)))\r\nout = y + r;;\n"
    assert parse_formula(spread).nodes == parse_formula(COURSE).nodes
    assert parse_formula("x + \\\n y").nodes == parse_formula("x + y").nodes
    assert parse_formula("x +\ty\f").nodes == parse_formula("x+y").nodes


# ── precedence and spelling are Python's ─────────────────────────────────────────────────────────────────────────────

EXPRESSIONS = [
    "a + b * c", "a * b + c", "a - b - c", "a / b / c", "a // b % c * d", "-a ** b", "a ** -b", "a ** b ** c", "-a * b",
    "-a + b", "~a & b", "a & b | c ^ d", "a | b & c", "a ^ b & c", "a << b + c", "a + b << c", "a & b << c",
    "a | b == c", "a < b | c", "a == b & c", "~a ** b", "- -a", "-+a", "+a", "a - -b", "(a + b) * c", "((a))",
    "a ** (b + c)", "-(a ** b)", "a * -b", "a % b / c", "a >> b >> c", "a | b | c", "~-a", "a--b", "a**~b", "a<b",
    "a>=b", "a!=b", "f(a, b) ** c", "-f(a)", "f(a + b, -c) * d",
]  # fmt: skip


def _shape_of_python(node: ast.AST) -> Any:
    """A Python expression tree in the formula's operations."""
    binary = {
        ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
        ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
        ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
    }  # fmt: skip
    match node:
        case ast.Expression(body=body):
            return _shape_of_python(body)
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left, op=op, right=right):
            return (binary[type(op)], _shape_of_python(left), _shape_of_python(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return (binary[type(op)], _shape_of_python(left), _shape_of_python(right))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _shape_of_python(operand)
        case ast.UnaryOp(op=op, operand=operand):
            return ("neg" if isinstance(op, ast.USub) else "invert", _shape_of_python(operand))
        case ast.Call(args=args):
            return ("exp" if len(args) == 1 else "maximum", *map(_shape_of_python, args))
    raise AssertionError(ast.dump(node))


def _shape_of(node: Any) -> Any:
    if node.op == "input":
        return node.attr("name")
    return (node.op, *map(_shape_of, node.args))


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_precedence_and_associativity_are_pythons(text: str) -> None:
    formula = (
        text.replace("f(a, b)", "maximum(a, b)").replace("f(a + b, -c)", "maximum(a + b, -c)").replace("f(", "exp(")
    )
    ((_, root),) = parse_formula(formula).outputs
    assert _shape_of(root) == _shape_of_python(ast.parse(text, mode="eval"))


def test_comparison_chains_mean_the_conjunction_of_their_parts() -> None:
    chained, written = parse_formula("a < b <= c != d"), parse_formula("(a < b) & (b <= c) & (c != d)")
    assert chained.outputs[0][1] is written.outputs[0][1]
    grouped = parse_formula("(a < b) < c")
    assert grouped.outputs[0][1].op == "lt"
    out = run("0 < x < 2", x=np.array([-1.0, 1.0, 3.0]))["out"]
    assert out.tolist() == [False, True, False]


NUMBERS = {
    "1": 1, "0": 0, "007": None, "1_000": 1000, "0x1F": 31, "0b101": 5, "0o17": 15, "1.": 1.0, ".5": 0.5, "1.5": 1.5,
    "1e3": 1000.0, "1E-3": 0.001, "1_0.2_5e1_0": 10.25e10, "1e400": float("inf"), "123456789012345678901234567890":
    123456789012345678901234567890, "1__0": None, "1_": None, "0x": None, "0b2": None,
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_read_as_python_reads_them(text: str) -> None:
    expected = NUMBERS[text]
    if expected is None:
        with pytest.raises(FormulaError):
            parse_formula(f"x + {text}")
        return
    ((_, node),) = parse_formula(text).outputs
    assert node is literal(expected)
    assert type(literal_value(node)) is type(expected)


def test_constants_are_names_that_may_be_rebound() -> None:
    assert literal_value(parse_formula("pi").outputs[0][1]) == np.pi
    assert literal_value(parse_formula("-inf").outputs[0][1]) == -np.inf
    assert parse_formula("e = x + 1; e * 2").inputs == (Declaration("x"),)
    assert [d.name for d in parse_formula("nan: f32; x + nan").inputs] == ["nan", "x"]


@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_every_function_is_called_by_each_of_its_names(name: str) -> None:
    row = OPERATIONS[SPELLINGS[name]]
    names = [f"a{i}" for i in range(row.arity)]
    call = f"{name}({', '.join(names)})"
    program = parse_formula(f"q, r = {call}" if row.parts else call)
    assert program.nodes[0].op == row.name
    if row.index_rule != "reduction":
        with pytest.raises(FormulaError, match=rf"{name} takes {row.arity} argument"):
            parse_formula(f"{'q, r = ' if row.parts else ''}{name}({', '.join([*names, 'extra'])})")


@pytest.mark.parametrize("name", ["f32", "float32", "bf16", "bfloat16", "f16", "i8", "int64", "u16", "bool", "f8e4m3"])
def test_casts_are_called_by_the_dtypes_names(name: str) -> None:
    (node,) = parse_formula(f"{name}(x)").nodes
    assert node.op == "cast"
    assert node.attr("dtype") is dtype(name)


# ── names and outputs ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_may_be_bound_again_and_each_binding_is_a_new_value() -> None:
    program = parse_formula("x = x + 1; x = x * 2; y = x; x = x - 1")
    assert [d.name for d in program.inputs] == ["x"]
    assert program.outputs == (("x", program.bindings["x"]), ("y", program.bindings["y"]))
    assert sorted(program.names.values()) == ["x.1", "x.2", "x.3"]
    assert run("x = x + 1; x = x * 2; x - 1", x=np.array([3.0]))["out"].tolist() == [7.0]


def test_thousands_of_bindings_of_one_name_are_read_in_linear_time() -> None:
    program = parse_formula("h = x\n" + "h = h * 1.5 + x\n" * 5_000)
    assert len(program.nodes) == 10_000
    assert program.names[program.bindings["h"]] == "h.4999"


def test_outputs_are_the_names_that_nothing_reads() -> None:
    assert [n for n, _ in parse_formula("a = x + 1; b = a * 2; c = a - 1").outputs] == ["b", "c"]
    assert [n for n, _ in parse_formula("a = x; x + 1").outputs] == ["a", "out"]
    assert [n for n, _ in parse_formula("x").outputs] == ["out"]
    assert graph_of("a = x + 1; b = a * 2", outputs=["a", "b"]).output_names == ("a", "b")
    assert graph_of("a = x + 1; b = a * 2", outputs=["a"]).output_names == ("a",)
    with pytest.raises(UnknownNameError, match="binds no c to return; it binds a, b"):
        parse_formula("a = x; b = x").with_outputs(["c"])


def test_two_names_of_one_value_are_two_outputs() -> None:
    out = run("a = x + 1; b = x + 1", x=np.array([1.0]))
    assert same_bits(out["a"], out["b"])
    assert len(graph_of("a = x + 1; b = x + 1").nodes) == 1


def test_inputs_are_in_order_of_first_appearance_or_of_declaration() -> None:
    assert [d.name for d in parse_formula("b = c + a; b * d").inputs] == ["c", "a", "d"]
    assert [d.name for d in parse_formula("a: f32; d: f64\nb = c + a; b * d").inputs] == ["a", "d", "c"]


def test_several_results_are_unpacked() -> None:
    graph = graph_of("q, r = divmod(a, b); q*b + r", I32)
    assert [n.op for n in graph.nodes] == ["floordiv", "mod", "mul", "add"]
    assert list(graph.names.values()) == ["q", "r", "out"]
    out = run("q, r = divmod(a, 3)", a=np.array([7, -7]))
    assert out["q"].tolist() == [2, -3]
    assert out["r"].tolist() == [1, 2]
    assert run("q, r = divmod(17, 5); x*q + r", x=np.array([1]))["out"].tolist() == [5]


def test_unicode_names_are_names() -> None:
    program = parse_formula("α = x1 + β; γ = α * 2")
    assert [d.name for d in program.inputs] == ["x1", "β"]
    assert program.outputs[0][0] == "γ"
    for other_spelling in ("ﬁ + 1", "ﬁ = 1", "x² + 1"):
        with pytest.raises(FormulaError):
            parse_formula(other_spelling)


# ── declarations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_declarations_give_dtypes_and_named_sizes() -> None:
    program = parse_formula("x: bf16[T, D]; b: bf16[D]\ns: f64\nk: i64[3, 4,]\nz: f32[]\nx + b*s")
    assert program.inputs == (
        Declaration("x", BF16, (named("T"), named("D"))), Declaration("b", BF16, (named("D"),)), Declaration("s", F64),
        Declaration("k", I64, (3, 4)), Declaration("z", F32, ()),
    )  # fmt: skip


def test_sizes_are_bound_and_undeclared_arrays_take_the_given_shape() -> None:
    program = parse_formula("x: bf16[T, D]; b: bf16[D]; x + b + r")
    types = input_types(program, F32, (4, 8), {"T": 4, "D": 8})
    assert types == {
        "x": TensorType(BF16, (4, 8)), "b": TensorType(BF16, (8,)), "r": TensorType(F32, (4, 8)),
    }  # fmt: skip
    assert specialise(program, types).output_types == (TensorType(F32, (4, 8)),)


def test_declared_shapes_that_do_not_broadcast_are_refused_with_their_place() -> None:
    with pytest.raises(ShapeError, match=r"line 3, column 7: .*x of shape \(2,3\) and y of shape \(4\)"):
        graph_of("x: f32[2, 3]\ny: f32[4]\nz = x + y")


def test_declared_dtypes_that_do_not_mix_are_refused_with_their_place() -> None:
    with pytest.raises(TypeRuleError, match=r"line 2, column 7: and \(&\) does not accept f32, f32"):
        graph_of("x: f32\ny = x & x")


# ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "axes", "keepdims"),
    [
        ("sum(x)", None, False), ("sum(x, 1)", (1,), True), ("sum(x, -1)", (-1,), True),
        ("sum(x, axis=0)", (0,), True), ("amax(x, 0)", (0,), True), ("sum(x, keepdims=True)", None, True),
        ("sum(x, axis=-1)", (-1,), True), ("sum(x, 1, keepdims=False)", (1,), False),
        ("sum(x, axis=None)", None, False), ("sum(x, keepdims=False, axis=2)", (2,), False),
    ],
)  # fmt: skip
def test_a_stated_axis_is_kept_unless_told_otherwise(text: str, axes: Any, keepdims: bool) -> None:
    (node,) = parse_formula(text).nodes
    assert node.attr("axes") == axes
    assert node.attr("keepdims") == keepdims


def test_row_softmax_parses_to_five_instructions() -> None:
    graph = specialise(
        parse_formula("x: f32[T, D]; m = max(x, -1); e = exp(x - m); out = e / sum(e, -1)"),
        {"x": TensorType(F32, (named("T"), named("D")))},
    )
    assert [n.op for n in graph.nodes] == ["max", "sub", "exp", "sum", "div"]
    assert graph.nodes[0].tensor.shape == (named("T"), 1)


# ── size ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ten_thousand_terms_and_ten_thousand_parentheses() -> None:
    terms = graph_of(" + ".join(f"x*{i}.5" for i in range(10_000)))
    assert len(terms.nodes) == 19_999
    nested = graph_of("(" * 10_000 + "x" + ")" * 10_000 + " + 1")
    assert len(nested.nodes) == 1
    prefixed = graph_of("-" * 9_999 + "x")
    assert len(prefixed.nodes) == 9_999
    powers = parse_formula("**".join(["x"] * 5_000))
    assert len(powers.nodes) == 4_999
    calls = graph_of("exp(" * 5_000 + "x" + ")" * 5_000)
    assert calls.depth == 5_000


def test_three_hundred_inputs_and_sixty_doublings() -> None:
    assert len(graph_of(" + ".join(f"x{i}" for i in range(300))).inputs) == 300
    doubled = graph_of("h0 = x + x\n" + "".join(f"h{i} = h{i - 1} + h{i - 1}\n" for i in range(1, 60)))
    assert len(doubled.nodes) == 60


def test_threads_parse_at_once() -> None:
    expected = {i: parse_formula(f"h = x*{i} + y; h - {i}").nodes for i in range(8)}
    errors: list[int] = []

    def work(i: int) -> None:
        for _ in range(150):
            if parse_formula(f"h = x*{i} + y; h - {i}").nodes != expected[i]:
                errors.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
