"""What is not a formula: each mistake is one sentence with line, column and caret, and nothing is ever evaluated."""

from __future__ import annotations

import builtins
import os
from typing import Any

import pytest

from fuseline.errors import FormulaError, FuselineError, LimitError
from fuseline.frontends import formula
from fuseline.frontends.formula import MAX_TEXT_BYTES, RESERVED_INPUTS, parse_formula
from fuseline.ir.dtype import F32
from fuseline.ir.graph import MAX_NODES, Graph
from fuseline.ir.specialise import input_types, specialise

MISTAKES: list[tuple[str, int, int, str, str]] = [
    # text, line, column, what the message says, what the advice says
    ("x + * y", 1, 5, "'*' is not expected here", ""),
    ("x y", 1, 3, "'y' is not expected here", ""),
    ("x + 1)", 1, 6, "')' is not expected here", ""),
    ("(x + 1", 1, 7, "ends in the middle", ""),
    ("x +", 1, 4, "ends in the middle", ""),
    ("h = x\ny = h +\nz = 1", 2, 8, "the line ends in the middle", ""),
    ("a = b = c", 1, 7, "'=' is not expected here", "to compare use =="),
    ("x == ", 1, 6, "ends in the middle", ""),
    ("2x", 1, 2, "'x' is not expected here", ""),
    ("2(x)", 1, 2, "'(' is not expected here", "* is needed"),
    ("(x)(y)", 1, 4, "'(' is not expected here", "* is needed"),
    ("x[0]", 1, 2, "'[' is not expected here", "slice the arrays"),
    ("np.exp(x)", 1, 3, "'.' is not part of the formula language", "exp(x), not np.exp(x)"),
    ("np.float64(0.5)*x", 1, 3, "'.' is not part", "0.5 for np.float64(0.5)"),
    ("x.T", 1, 2, "'.' is not part", "no attributes"),
    ("'a' + x", 1, 1, '"\'" is not part', "no strings"),
    ("x @ y", 1, 3, "'@' is not part", ""),
    ("x && y", 1, 4, "'&' is not expected here", ""),
    ("x if y else z", 1, 3, "'if' is not expected here", "where(condition, a, b)"),
    ("x and y", 1, 3, "'and' is not expected here", "use &"),
    ("not x", 1, 1, "'not' is not part", "use ~"),
    ("lambda x", 1, 1, "'lambda' is not part", ""),
    ("x or y", 1, 3, "'or' is not expected here", "use |"),
    ("x = lambda", 1, 5, "'lambda' is not part", ""),
    ("y = tahn(x)", 1, 5, "no function is called 'tahn'", "tanh"),
    ("y = x + sqroot(x)", 1, 9, "no function is called 'sqroot'", ""),
    ("y = fabs(x)", 1, 5, "no function is called 'fabs'", "abs"),
    ("y = flaot32(x)", 1, 5, "no function is called 'flaot32'", "float32"),
    ("y = exp", 1, 5, "exp is a function; call it, as in exp(x)", ""),
    ("y = exp(x, y)", 1, 5, "exp takes 1 argument, not 2", ""),
    ("y = where(x)", 1, 5, "where takes 3 arguments, not 1", ""),
    ("y = exp()", 1, 5, "exp takes 1 argument, not 0", ""),
    ("y = exp(x, axis=1)", 1, 12, "exp has no option axis", ""),
    ("y = bf16(x, 2)", 1, 5, "bf16 takes 1 argument, not 2", ""),
    ("y = sum(x, y)", 1, 5, "second argument is an axis", "minimum or maximum"),
    ("y = max(x, 1.5)", 1, 5, "second argument is an axis", ""),
    ("y = max(x, True)", 1, 5, "second argument is an axis", ""),
    ("y = sum(x, 1, 2)", 1, 5, "takes an array and an axis", ""),
    ("y = sum(x, axs=1)", 1, 12, "takes axis= and keepdims= once each", ""),
    ("y = sum(x, axis=1, axis=2)", 1, 20, "takes axis= and keepdims= once each", ""),
    ("y = sum(x, axis=1.5)", 1, 17, "takes a whole number", ""),
    ("y = sum(x, axis=z)", 1, 17, "takes a number, True, False or None", ""),
    ("y = sum(axis=0, x)", 1, 9, "without a name follows axis=", ""),
    ("y = sum(x, axis=True)", 1, 12, "an axis is a whole number or None", ""),
    ("True: f32; y = True + 1", 1, 1, "True is a value of Python", ""),
    ("x: f32[True]; x", 1, 8, "'True' cannot be the name of a size", ""),
    ("x: f32[N, x²]; x", 1, 11, "'x²' cannot be the name of a size", ""),
    ("y = x\ry = y + q q", 2, 11, "'q' is not expected here", ""),
    ("y = x\r\ny = x\r\ry = x x", 4, 7, "'x' is not expected here", ""),
    ("out + 1", 1, 1, "'out' cannot be the name of an input", "option"),
    ("y = dtype * 2", 1, 5, "'dtype' cannot be the name of an input", ""),
    ("_y = x", 1, 1, "starts with a letter", ""),
    ("class = x", 1, 1, "'class' cannot be the name of a value", ""),
    ("True = x", 1, 1, "'True' cannot be the name of a value", ""),
    ("x; y = 1", 1, 4, "only the last statement may be an expression", "give the one before a name"),
    ("x + 1\nexp(y) * 2\n", 2, 1, "only the last statement may be an expression", ""),
    ("x: f33", 1, 4, "f33 is not a dtype", "f32"),
    ("x: i4[8]", 1, 4, "i4 is a packed type", ""),
    ("x: f32; x: f32; x", 1, 9, "x is declared twice", ""),
    ("y = 1; y: f32", 1, 8, "y is a value by now", ""),
    ("x: f32[1.5]; x", 1, 8, "a dimension is a name or a whole number", ""),
    ("x: f32[T + 1]; x", 1, 10, "'+' is not expected here", ""),
    ("0x + x", 1, 2, "'x' is not expected here", ""),
    ("007 + x", 1, 1, "'007' is not a number as Python writes them", ""),
    ("1__0 + x", 1, 1, "'1__0' is not a number", ""),
    ("q = divmod(a, b)", 1, 5, "divmod gives 2 values; write q, r = divmod(a, b)", ""),
    ("q, r, s = divmod(a, b)", 1, 1, "divmod gives 2 values, for as many names, not 3", ""),
    ("q, r = sin(a)", 1, 8, "sin does not give several values", "divmod"),
    ("h = x\n\n\ny = h $ 2", 4, 7, "'$' is not part", ""),
    ("αβ = x\nγ = αβ ? 2", 2, 8, "'?' is not part", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "says", "advice"), MISTAKES, ids=[m[0][:30] for m in MISTAKES])
def test_a_mistake_is_shown_where_it_is_in_one_sentence(
    text: str, line: int, column: int, says: str, advice: str
) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_formula(text)
    error = caught.value
    assert (error.lineno, error.offset) == (line, column)
    assert says in str(error)
    assert advice in str(error)
    shown = str(error).splitlines()
    assert shown[0].startswith(f"line {line}, column {column}: ")
    assert shown[1] == "  " + text.splitlines()[line - 1]
    assert shown[2] == "  " + " " * (column - 1) + "^"
    assert isinstance(error, FuselineError)
    assert isinstance(error, SyntaxError)


def test_the_caret_of_a_long_line_is_shown_in_a_window() -> None:
    text = " + ".join(["x"] * 400) + " + $ + " + " + ".join(["y"] * 400)
    with pytest.raises(FormulaError) as caught:
        parse_formula(text)
    _, window, caret = str(caught.value).splitlines()
    assert len(window) < 80
    assert window[caret.index("^")] == "$"
    assert window.startswith("  …")
    assert window.endswith("…")


@pytest.mark.parametrize("text", ["", "   ", "\n\n;;\n", "# nothing\n", "x: f32\n"])
def test_a_text_that_computes_nothing_is_refused(text: str) -> None:
    with pytest.raises(FormulaError, match="computes nothing"):
        parse_formula(text)


@pytest.mark.parametrize("value", [None, b"x + 1", 3, ["x"]])
def test_what_is_not_text_is_refused(value: Any) -> None:
    with pytest.raises(FormulaError, match="a formula is a text"):
        parse_formula(value)


@pytest.mark.parametrize("name", sorted(RESERVED_INPUTS))
def test_reserved_names_are_refused_as_inputs_but_out_may_be_bound(name: str) -> None:
    with pytest.raises(FormulaError):
        parse_formula(f"y = {name} + 1")
    with pytest.raises(FormulaError):
        parse_formula(f"{name}: f32; y = 1")
    if name == "out":
        assert parse_formula("out = x + 1").outputs[0][0] == "out"


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_text_longer_than_the_limit_is_refused() -> None:
    with pytest.raises(FormulaError, match="longer than 16 MiB"):
        parse_formula("x" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(FormulaError, match="longer than 16 MiB"):
        parse_formula("é" * (MAX_TEXT_BYTES // 2 + 1))


def test_too_many_operations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_NODES == 1_000_000
    monkeypatch.setattr(formula, "MAX_NODES", 100)
    assert len(parse_formula("-" * 100 + "x").nodes) == 100
    with pytest.raises(FormulaError, match="more than 100 operations"):
        parse_formula("-" * 101 + "x")


def test_a_graph_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from fuseline.ir import graph

    program = parse_formula("-" * 20 + "x")
    typed = specialise(program, input_types(program, F32))
    monkeypatch.setattr(graph, "MAX_NODES", 10)
    with pytest.raises(LimitError, match="20 instructions; the limit is 10"):
        Graph(typed.inputs, typed.outputs)


def test_numbers_of_too_many_digits_are_refused() -> None:
    with pytest.raises(FormulaError, match="more than 1000 characters"):
        parse_formula("x + " + "9" * 1001)


def test_lone_surrogates_and_control_characters_end_in_an_error() -> None:
    for text in ("x + ٣", "x + １.５", "x + \ud800", "x\x00y", "\ufeffx", "x\u2028y", "x + \u00b2", "\x85", "x\x0by"):
        with pytest.raises(FormulaError):
            parse_formula(text)


# ── nothing is evaluated ─────────────────────────────────────────────────────────────────────────────────────────────

PAYLOADS = [
    "__import__('os').system('touch pwned')", "().__class__.__bases__[0].__subclasses__()", "lambda: 0",
    "[x for x in y]", "{x: y}", "x := 5", "f'{x}'", "x.__class__", "x['a']", "exec('1')", "eval(x)", "open('f')",
    "import os", "print(x)", "y = x if x else x", "def f(): pass", "@x", "x; import os", "yield x", "await x", "*x",
    "**x", "f(*x)", "f(**x)",
    "x`y`", "${x}", "`ls`", "%s", "\\x41", "u'x'", "b'x'", "...", "x -> y", "x!", "x?", "#\n", "globals()", "os",
    "__builtins__ + open", "getattr(x, y)", "x ; del x", "raise x", "assert x", "with x", "try", "None", "x is y",
    "x in y", "not x", "0 if 1 else 2", "(x for x in y)", "[1, 2]", "(1, 2)", "x,", "1j", "x = y = 1", "x += 1",
]  # fmt: skip


@pytest.mark.parametrize("payload", PAYLOADS)
def test_payloads_are_refused_or_harmless_names_and_never_run(
    payload: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    parse_formula("x + 1")  # the tables are built before the traps are set

    def trap(*args: object, **kwargs: object) -> Any:
        raise AssertionError("a formula reached Python")

    with monkeypatch.context() as trapped:
        for name in ("eval", "exec", "compile", "open"):
            trapped.setattr(builtins, name, trap)
        try:
            program = parse_formula(payload)
        except FormulaError:
            program = None
    assert program is None or all(n.op == "add" for n in program.nodes)
    assert not os.listdir(tmp_path)


def test_the_formula_reader_does_not_mention_evaluation() -> None:
    from pathlib import Path

    for module in ("formula.py", "lalr.py"):
        text = Path(formula.__file__).with_name(module).read_text()
        assert "eval(" not in text
        assert "exec(" not in text
        assert "import ast" not in text


@pytest.mark.parametrize("text", ["1<<70", "2**63", "abs(-9223372036854775808)", "y = 2**63\nz = y"])
def test_a_number_beside_no_array_that_fits_no_dtype_has_its_place_and_advice(text: str) -> None:
    with pytest.raises(FuselineError) as caught:
        specialise(parse_formula(text), {})
    said = str(caught.value)
    assert said.startswith("line 1, column") and text.splitlines()[0] in said and "^" in said
    assert "write it as a float" in said and "cast the array" not in said
