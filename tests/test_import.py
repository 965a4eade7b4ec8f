"""Importing fuseline is cheap, its names are real, and the rooms keep their borders."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import subprocess
import sys
import typing
from pathlib import Path

import fuseline
from fuseline import errors

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("numpy", "lark", "rich", "typer", "llvmlite", "altair", "vl_convert", "ortools", "numba", "ml_dtypes")


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter holds after ``statement``, less those it starts with."""
    script = (
        "import sys, json; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_loads_no_heavy_module() -> None:
    loaded = modules_after("import fuseline")
    assert "fuseline" in loaded
    assert not loaded.intersection(HEAVY)


def test_import_loads_only_the_version() -> None:
    ours = {name for name in modules_after("import fuseline") if name.startswith("fuseline")}
    assert ours == {"fuseline", "fuseline._version"}


def test_version_is_that_of_the_installed_distribution() -> None:
    assert fuseline.__version__ == importlib.metadata.version("fuseline")


def test_every_public_name_resolves_and_is_listed() -> None:
    for name in fuseline.__all__:
        assert getattr(fuseline, name) is not None
        assert name in dir(fuseline)


def test_type_checkers_see_the_public_names_where_they_are() -> None:
    tree = ast.parse((ROOT / "src" / "fuseline" / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {name.name: line.module for line in block.body if isinstance(line, ast.ImportFrom) for name in line.names}
    assert set(seen) == set(fuseline.__all__) - {"__version__"}
    for name, module in seen.items():
        assert getattr(importlib.import_module(module), name) is getattr(fuseline, name)


def test_type_checkers_know_that_fuse_gives_a_kernel() -> None:
    from fuseline.api import kernel

    bare, with_arguments = (typing.get_type_hints(o)["return"] for o in typing.get_overloads(kernel.fuse))
    assert bare is kernel.Kernel and typing.get_args(with_arguments)[1] is kernel.Kernel


def test_what_type_checkers_are_told_to_ignore_has_a_reason_beside_it() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            ignored = line.partition("# type: ignore")[2]
            assert not ignored or ignored.partition("]")[2].startswith("  # "), f"{path.name}:{number}"


def test_every_error_is_public_and_refines_a_builtin() -> None:
    family = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.FuselineError)]
    assert len(family) > 5
    for error in family:
        assert getattr(fuseline, error.__name__) is error
        if error is not errors.FuselineError:
            assert any(base.__module__ == "builtins" and base is not Exception for base in error.__mro__[:-3])


def test_unknown_name_is_an_attribute_error() -> None:
    try:
        fuseline.no_such_name
    except AttributeError as error:
        assert "no_such_name" in str(error)
    else:
        raise AssertionError("an unknown name resolved")


def test_rooms_keep_their_borders() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
