"""The C text gives the oracle's bits, at -O2 and with the options it is measured with."""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from arrays import first_difference, same_bits, special_values
from fuseline.api.program import graph, optimize
from fuseline.codegen.c import CText, emit_program
from fuseline.errors import TypeRuleError, UnsupportedError
from fuseline.ir.dtype import dtype as dtype_of
from fuseline.ir.graph import Graph
from fuseline.ir.interpret import interpret
from fuseline.mathlib.expand import expand
from fuseline.ops import OPERATIONS, Operation
from fuseline.runtime.compiler import find_c_compiler, measured_options
from programs import ELEMENTWISE, operation_programs, seeded_programs

STRICT = ("-O2", "-ffp-contract=off")
SHORT = tuple(name for name in ELEMENTWISE if OPERATIONS[name].exactness != "measured")
COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"

needs_compiler = pytest.mark.skipif(find_c_compiler() is None, reason="no C compiler on this machine")


def build(texts: Sequence[CText], folder: Path, options: Sequence[str]) -> ctypes.CDLL:
    """Every text in a translation unit of its own, warnings being errors."""
    files = []
    for i, text in enumerate(texts):
        path = folder / f"unit{i}.c"
        path.write_text(text.source, encoding="utf-8")
        files.append(str(path))
    compiler = find_c_compiler()
    assert compiler is not None
    library = folder / "units.so"
    warnings = ("-Wall", "-Wextra", "-Werror")
    command = [
        *compiler.command,
        "-std=c11",
        *options,
        *warnings,
        "-fPIC",
        "-shared",
        "-o",
        str(library),
        *files,
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def run(library: ctypes.CDLL, text: CText, g: Graph, arrays: dict) -> dict:
    """The outputs of one text on contiguous copies of ``arrays``."""
    inputs = [np.ascontiguousarray(arrays[name]) for name in g.input_names]
    outputs = [np.zeros([int(d) for d in n.tensor.shape], n.dtype.numpy) for n in g.output_nodes]
    function = getattr(library, text.function)
    function.restype = None
    function(*(ctypes.c_void_p(a.ctypes.data) for a in (*inputs, *outputs)))
    return dict(zip(g.output_names, outputs, strict=True))


def check(programs: Sequence, folder: Path, options: Sequence[str]) -> None:
    graphs = [optimize(p.graph) for p in programs]
    texts, kept = [], []
    for i, (p, g) in enumerate(zip(programs, graphs, strict=True)):
        try:
            texts.append(emit_program(g, f"kernel{i}"))
        except UnsupportedError as error:
            assert "several" in str(error), f"{p.text}: {error}"
            continue
        kept.append((p, g))
    library = build(texts, folder, options)
    for text, (p, g) in zip(texts, kept, strict=True):
        wanted = interpret(expand(g), p.arrays)
        given = run(library, text, g, p.arrays)
        for name in wanted:
            if not same_bits(wanted[name], given[name]):
                pytest.fail(f"{p.text}\n{text.source}\n{name}: {first_difference(wanted[name], given[name])}")


@needs_compiler
@pytest.mark.parametrize("options", [STRICT, measured_options()], ids=["O2", "measured"])
def test_random_programs_give_the_bits_of_the_oracle(options, tmp_path):
    check(list(seeded_programs(40, seed=11)), tmp_path, options)


@needs_compiler
@pytest.mark.parametrize("options", [STRICT, measured_options()], ids=["O2", "measured"])
def test_outputs_that_are_inputs_numbers_or_read_inside_have_the_bits_of_the_oracle(options, tmp_path):
    check(list(seeded_programs(150, seed=41, any_outputs=True, operations=SHORT)), tmp_path, options)


@needs_compiler
@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("x: f32[0, 3]; b: f32[3]; c = b*2; y = x*c", ["c", "y"]),
        ("x: f32[0, 3]; b: f32[3]; a = b; y = x*b; n = 7", ["a", "y", "n"]),
        ("x: f32[0]; s: f32[]; a = s*2; y = x*a", ["a", "y"]),
    ],
)
def test_outputs_beside_an_empty_one_are_written(text, outputs, tmp_path):
    g = optimize(graph(text, outputs=outputs))
    arrays = {n.attr("name"): np.full(n.tensor.shape, 1.5, np.float32) for n in g.inputs}
    c = emit_program(g)
    given = run(build([c], tmp_path, STRICT), c, g, arrays)
    assert all(same_bits(given[name], wanted) for name, wanted in interpret(g, arrays).items())


@pytest.mark.parametrize(
    ("text", "outputs"),
    [("a = x; b = x + 1", ["a", "b"]), ("y = x + b; z = x", ["y", "z"]), ("y = x; z = 2; w = x*3", ["y", "z", "w"])],
)
def test_outputs_that_are_inputs_are_written_in_the_loop_that_reads_them(text, outputs):
    assert emit_program(graph(text, outputs=outputs)).source.count("for (") == 1


@needs_compiler
def test_operations_on_their_dtypes_give_the_bits_of_the_oracle(tmp_path):
    # Every eighth, which still meets each operation and each dtype; the long test has them all.
    check(list(operation_programs())[::8], tmp_path, STRICT)


@needs_compiler
def test_operations_beside_a_number_give_the_bits_of_the_oracle_where_shapes_are_the_callers(tmp_path):
    values = {name: special_values(name) for name in ("f32", "i32")}
    kept, texts = [], []
    for row in OPERATIONS.values():
        for call, dtype in itertools.product(_calls_beside_numbers(row), values):
            try:
                g = optimize(graph(call, dtype=dtype))
            except TypeRuleError:
                continue
            texts.append(emit_program(g, f"kernel{len(kept)}"))
            kept.append((call, g, values[dtype]))
    assert len(kept) > 100
    library = build(texts, tmp_path, STRICT)
    for text, (call, g, array) in zip(texts, kept, strict=True):
        assert text.sizes == ("n",)
        given = np.zeros(array.shape, g.output_nodes[0].dtype.numpy)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (array, given)]
        getattr(library, text.function)(ctypes.c_int64(array.size), *pointers)
        wanted = interpret(expand(g), {"x": array})["out"]
        if not same_bits(wanted, given):
            pytest.fail(f"{call}\n{text.source}\n{first_difference(wanted, given)}")


def _calls_beside_numbers(row: Operation) -> list[str]:
    """The operation with the input as each of its operands, numbers being the others."""
    if row.index_rule != "elementwise" or not row.spellings:
        return []
    calls = []
    for position in range(row.arity if row.arity > 1 else 0):
        operands = ["2"] * row.arity
        operands[position] = "x"
        calls.append(f"{row.spellings[0]}({', '.join(operands)})")
    infix = [f"x {row.infix} 3", f"3 {row.infix} x"] if row.infix and row.arity == 2 else []
    return calls + infix


@needs_compiler
@pytest.mark.long
def test_every_operation_on_every_dtype_gives_the_bits_of_the_oracle(tmp_path):
    check(list(operation_programs()), tmp_path, STRICT)


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("options", [STRICT, measured_options()], ids=["O2", "measured"])
def test_two_thousand_random_programs_give_the_bits_of_the_oracle(options, tmp_path):
    for batch in range(20):
        folder = tmp_path / str(batch)
        folder.mkdir()
        check(list(seeded_programs(100, seed=100 + batch)), folder, options)


def test_one_statement_a_value_and_no_nesting():
    text = emit_program(optimize(graph(COURSE)), "gelu", "libm").source
    body = [line for line in text.splitlines() if line.strip().startswith("const float")]
    assert len(body) == 11
    assert "tanhf(" in text
    assert max(line.count("(") for line in body) <= 2


@needs_compiler
def test_a_sum_of_10_000_terms_meets_no_limit_of_the_compiler(tmp_path):
    g = graph("y = x" + "".join(f" + {i}.5*x" for i in range(10_000)), shape=(3,))
    text = emit_program(g, "long_sum")
    library = build([text], tmp_path, ("-O0", "-ffp-contract=off"))
    x = np.array([1.0, -2.5, 0.1], np.float32)
    assert same_bits(run(library, text, g, {"x": x})["y"], interpret(g, {"x": x})["y"])


def test_names_of_c_and_of_other_scripts_are_no_trouble():
    text = emit_program(graph("é = x*2; int = é + 1; main = int*double; fl_x = main - y0"), "while")
    assert re.search(r"\bvoid \w*while\w*\(", text.source)
    assert text.source.isascii()


@needs_compiler
def test_a_bool_compared_with_a_number_compiles_without_a_warning(tmp_path):
    sides = [f"bool(1) {sign} b" for sign in ("<", "<=", ">", ">=", "==", "!=")]
    calls = [*sides, *(s.replace("bool(1)", "b", 1).removesuffix("b") + "bool(0)" for s in sides)]
    g = optimize(graph("b: bool[2]; " + "; ".join(f"y{i} = {call}" for i, call in enumerate(calls))))
    text = emit_program(g)
    arrays = {"b": np.array([False, True])}
    given = run(build([text], tmp_path, STRICT), text, g, arrays)
    assert all(same_bits(given[name], wanted) for name, wanted in interpret(g, arrays).items())


@needs_compiler
def test_awkward_names_compile(tmp_path):
    g = graph("é = x*2; int = é + 1; main = int*double; fl_x = main - y0; n = fl_x", shape=(2,))
    build([emit_program(g, "static")], tmp_path, STRICT)
    library = optimize(graph("exp = x*2; tanhf = exp + 1; y = exp(x) + tanh(tanhf)", "f64", shape=(2,)))
    build([emit_program(library, "exp", "libm")], tmp_path, STRICT)


def test_named_sizes_become_parameters():
    text = emit_program(graph("x: f32[T, D]; b: f32[D]; y = x + b"), "bias")
    assert text.sizes == ("D", "T")
    assert "int64_t D, int64_t T" in text.header


@needs_compiler
def test_the_header_serves_c_and_cpp(tmp_path):
    text = emit_program(graph("y = x*2"), "twice")
    (tmp_path / "twice.h").write_text(text.header)
    (tmp_path / "twice.c").write_text('#include "twice.h"\n' + text.source)
    (tmp_path / "use.c").write_text(
        '#include "twice.h"\nint main(void) { float a = 3, b; twice(1, &a, &b); return b != 6; }\n'
    )
    compiler = find_c_compiler()
    assert compiler is not None
    program = tmp_path / "use"
    sources = [str(tmp_path / "use.c"), str(tmp_path / "twice.c")]
    subprocess.run([*compiler.command, "-std=c11", "-o", str(program), *sources, "-lm"], check=True)
    assert subprocess.run([str(program)], check=False).returncode == 0


def test_reductions_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="sum"):
        emit_program(graph("x: f32[T, D]; y = sum(x, -1)"), "rows")


@needs_compiler
def test_a_note_cannot_leave_its_comment_or_hide_in_it(tmp_path: Path) -> None:
    note = "x + b # */ int oops; /* /*/ \x1b[31m \u202e *\\\n/ 注释\r\ttab"
    text = emit_program(graph("x + b"), note=note)
    comment = text.source[: text.source.index("#include")]
    assert comment.count("/*") == comment.count("*/") == 1
    assert comment.replace("\n", "").isprintable()
    assert "注释" in comment and "\\x1b[31m \\u202e" in comment
    build([text], tmp_path, ["-O1", "-Wcomment"])


@needs_compiler
def test_softplus_and_logaddexp_are_one_loop_over_the_c_library(tmp_path: Path) -> None:
    x, y = (np.float64([-np.inf, -800, -3, -0.5, 0, 0.5, 3, 800, np.inf, np.nan, np.inf, -np.inf, 1]) for _ in range(2))
    y[:] = [-np.inf, 2, -3, 0.5, 0, 7, 3, -800, np.inf, 1, -np.inf, np.inf, np.nan]
    for name, other in (("softplus(x)", np.zeros_like(y)), ("logaddexp(x, y)", y)):
        g = graph(name, "f64", None, x.shape)
        text = emit_program(g, functions="libm")
        folder = tmp_path / name[:4]
        folder.mkdir()
        (out,) = run(build([text], folder, ["-O1"]), text, g, {"x": x, "y": y}).values()
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(out, np.logaddexp(x, other), rtol=1e-15)


@needs_compiler
def test_names_that_mean_something_in_c_are_changed(tmp_path):
    texts = [
        "uint32_t*2 + tanh(uint32_t) + NULL + FP_NAN + linux + M_PI + strlen + sin(cosf) + INT8_MAX + int + typeof",
        "i = x + 1; n = i*2; i0 = n + i; out = i0 - x",
        "x: f32[int, n]; i0 = x + 1; i1 = i0*2; i = i1 + x",
    ]
    functions = ["y0", "strlen", "NULL"]
    build([emit_program(optimize(graph(t)), f) for t, f in zip(texts, functions, strict=True)], tmp_path, STRICT)


@needs_compiler
def test_a_value_called_like_a_loop_index_does_not_stand_for_it(tmp_path):
    g = optimize(graph("x: f32[2, 3]; i1 = x + 1; i0 = i1*2; out = i0 + x"))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = emit_program(g, "kernel")
    assert same_bits(run(build([text], tmp_path, STRICT), text, g, {"x": x})["out"], (x + 1) * 2 + x)


@pytest.mark.parametrize("text", ["b: f32[1]; x + b", "b: f32[T]; x + b", "b: f32[2, 3]; x*2 + b"])
def test_declared_shapes_beside_open_ones_are_refused(text):
    with pytest.raises(UnsupportedError, match="the shape of every array, or of none"):
        emit_program(optimize(graph(text)), "kernel")


@pytest.mark.parametrize("name", ["isnan", "signbit", "abs", "new", "template", "xor"])
def test_names_that_headers_or_other_languages_use_are_changed(name, tmp_path):
    from fuseline.api.kernel import compile as compile_kernel

    text = compile_kernel("x + 1", name=name).emit("c")
    assert f" {name}(" not in text
    if find_c_compiler() is None:
        return
    (tmp_path / "kernel.c").write_text(text)
    subprocess.run(
        [*find_c_compiler().command, "-std=c11", "-Wall", "-Werror", "-c", "kernel.c"], cwd=tmp_path, check=True
    )


def _calls_at_the_ends(dtype: str) -> list[str]:
    """Operations of integers, alone and beside 0 and the ends of the range."""
    info = np.iinfo(dtype_of(dtype).numpy)
    calls = ["x << y", "x >> y", "abs(x)", "sign(x)", "relu(x)", "x // y", "x % y", "x**y", "clip(x, 0, 3)", "x**2"]
    for sides in itertools.chain.from_iterable((("x", str(end)), (str(end), "x")) for end in (0, info.min, info.max)):
        calls += [f" {sign} ".join(sides) for sign in ("<", "<=", ">", ">=", "==", "!=", "<<", ">>")]
        calls += [f"{name}({', '.join(sides)})" for name in ("minimum", "maximum", "fmin", "fmax")]
    return calls


@needs_compiler
@pytest.mark.parametrize("dtype", ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"])
def test_integers_at_the_ends_of_their_range_compile_without_a_warning(dtype, tmp_path):
    """Compilers warn of comparisons that have one answer, as those of unsigned numbers with 0."""
    calls = _calls_at_the_ends(dtype)
    program = "\n".join([f"x: {dtype}\ny: {dtype}", *(f"out{i} = {call}" for i, call in enumerate(calls))])
    g = optimize(graph(program))
    text = emit_program(g, "kernel")
    library = build([text], tmp_path, STRICT)
    array = special_values(dtype)
    arrays = {"x": array, "y": array[::-1].copy()}
    given = [np.zeros(array.shape, n.dtype.numpy) for n in g.output_nodes]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays.values(), *given)]
    getattr(library, text.function)(ctypes.c_int64(array.size), *pointers)
    for call, wanted, found in zip(calls, interpret(expand(g), arrays).values(), given, strict=True):
        assert same_bits(np.broadcast_to(wanted, found.shape), found), call


@needs_compiler
def test_parameters_that_nothing_reads_compile_without_a_warning(tmp_path):
    programs = [
        "x: f32[N]; y: f32[M]; a = y*2; out = x + 1",
        "x: f32[N]; y: f32[N]; out = x < x",
        "y: u8; out = y*0 + z",
    ]
    texts = [emit_program(optimize(graph(text, outputs=["out"])), f"kernel{i}") for i, text in enumerate(programs)]
    assert "(void)M;" in texts[0].source and "(void)y;" in texts[0].source
    build(texts, tmp_path, STRICT)
