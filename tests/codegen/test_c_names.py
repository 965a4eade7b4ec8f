"""Names in the C text mean what the program means by them, whatever the compiler's own headers define and declare."""

from __future__ import annotations

import re
import subprocess

import pytest

from fuseline.api.program import graph
from fuseline.codegen.c import emit_program
from fuseline.ir.build import input_node
from fuseline.ir.dtype import F32
from fuseline.ir.graph import Graph
from fuseline.ir.infer import apply
from fuseline.ir.size import named
from fuseline.runtime.compiler import find_c_compiler

DIALECTS = [
    ("-std=c99",),
    ("-std=c11",),
    ("-std=gnu11",),
    ("-std=gnu2x",),
    ("-std=c11", "-D_GNU_SOURCE"),
    ("-std=gnu2x", "-D_GNU_SOURCE"),
]

needs_compiler = pytest.mark.skipif(find_c_compiler() is None, reason="no C compiler on this machine")


def preprocessed(options: tuple[str, ...]) -> str:
    """The headers of the C text, macros or declarations, as the compiler reads them; skips a dialect that it lacks."""
    compiler = find_c_compiler()
    assert compiler is not None
    headers = "".join(re.findall(r"#include <.*\n", emit_program(graph("x + 1")).source))
    done = subprocess.run(
        [*compiler.command, *options, "-E", "-x", "c", "-"], input=headers, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("the compiler does not know this dialect")
    return done.stdout


def macros(dialect: tuple[str, ...]) -> list[str]:
    return sorted(set(re.findall(r"^#define ([A-Za-z]\w*)", preprocessed((*dialect, "-dM")), re.MULTILINE)))


def functions(dialect: tuple[str, ...]) -> list[str]:
    return sorted(set(re.findall(r"\b([A-Za-z]\w*)\s*\(", preprocessed(dialect))) - {"void"})


@needs_compiler
@pytest.mark.parametrize("dialect", DIALECTS, ids=" ".join)
def test_no_array_or_size_or_value_is_called_like_a_macro(dialect: tuple[str, ...]) -> None:
    names = macros(dialect)
    assert {"math_errhandling", "NAN", "isnan"} <= {*names}
    sizes = [input_node(f"in{i}", F32, (named(name),)) for i, name in enumerate(names)]
    arrays = [input_node(name, F32, ()) for name in names]
    values = {apply("neg", node): name for node, name in zip(arrays, names, strict=True)}
    outputs = [(f"{name}x", apply("neg", node)) for node, name in zip(sizes, names, strict=True)]
    for g in (
        Graph(sizes, outputs),
        Graph(arrays, [(f"out{i}", apply("abs", value)) for i, value in enumerate(values)], names=values),
        Graph(arrays, list(zip(names, values, strict=True))),
    ):
        text = emit_program(g)
        code = text.source[text.source.index("void kernel") :]
        assert code.startswith("void kernel")
        assert set(re.findall(r"\b[A-Za-z]\w*", code)) & {*names} == set()


@needs_compiler
@pytest.mark.parametrize("dialect", DIALECTS, ids=" ".join)
def test_no_function_is_called_like_one_of_the_headers_or_a_macro(dialect: tuple[str, ...]) -> None:
    names = [*macros(dialect), *functions(dialect)]
    assert {"sin", "memcpy", "math_errhandling"} <= {*names}
    g = graph("x + 1")
    assert [name for name in names if emit_program(g, name).function == name] == []


@needs_compiler
@pytest.mark.parametrize("name", ["math_errhandling", "typeof_unqual", "iszero", "fmaximum", "M_PIf"])
def test_such_names_compile_in_every_place(name: str, tmp_path) -> None:
    compiler = find_c_compiler()
    assert compiler is not None
    programs = [f"{name} + 1", f"{name} = x + 1", f"x: f32[{name}]; x + 1", f"{name} = x + 1; y = {name}*{name}"]
    for dialect in DIALECTS:
        preprocessed(dialect)
        for i, program in enumerate(programs):
            (tmp_path / f"{i}.c").write_text(emit_program(graph(program), name if i == 0 else "kernel").source)
        command = [*compiler.command, *dialect, "-Wall", "-Wno-unknown-pragmas", "-Werror", "-c"]
        done = subprocess.run(
            [*command, *(f"{i}.c" for i in range(len(programs)))],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (dialect, done.stderr)
