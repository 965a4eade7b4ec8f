"""The package imported from a zip file: what it reads of its own files lies in no folder there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fuseline
from fuseline.runtime import fingerprint

PACKAGE = Path(fuseline.__file__).parent


def packed(where: Path, **changed: str) -> Path:
    """An archive of the package; files named in ``changed`` get that text."""
    with zipfile.ZipFile(where, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(PACKAGE).as_posix()
                archive.writestr(f"fuseline/{name}", changed.get(name, "").encode() or path.read_bytes())
    return where


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(tmp_path_factory.mktemp("packed") / "fuseline.zip")


def run(archive: Path, cache: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(archive), "FUSELINE_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-P", *arguments], env=environment, capture_output=True, text=True, cwd=cache, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


KERNEL = """
import numpy as np, fuseline as fl
assert ".zip" in fl.__file__
x = np.linspace(-2, 2, 101, dtype="f4")
k = fl.compile("tanh(x)*2 + y")
print(k(x, x).tobytes().hex() if fl.compile("s = sum(x)")(x[:4]) else "")
@fl.fuse
def square(x):
    return x*x
assert square(x).dtype == np.float32 and k.emit("c") and k.emit("llvm")
"""


def test_kernels_run_and_are_kept_between_processes(archive: Path, tmp_path: Path) -> None:
    first, second = (run(archive, tmp_path, "-c", KERNEL) for _ in range(2))
    x = "linspace(-2, 2, 101, dtype='f4')"
    here = run(PACKAGE.parent, tmp_path, "-c", f"from numpy import linspace\nimport fuseline as fl\nx = {x}\n"
               "print(fl.compile('tanh(x)*2 + y')(x, x).tobytes().hex())")  # fmt: skip
    assert first == second == here


def test_commands_run(archive: Path, tmp_path: Path) -> None:
    def answer(*arguments: str) -> str:
        return run(archive, tmp_path, "-m", "fuseline", *arguments)

    here = run(PACKAGE.parent, tmp_path, "-m", "fuseline", "device", "list", "--json")
    assert json.loads(answer("device", "list", "--json")) == json.loads(here)
    for lang in ("en", "zh"):
        assert answer("explain", "y = tanh(x) + b", "--lang", lang)
    assert answer("classify", "--table", "course")
    assert json.loads(answer("doctor", "--json"))
    assert answer("emit", "y = x + 1", "--target", "asm")


def test_compiled_loops_are_told_apart_by_their_source(archive: Path, tmp_path: Path) -> None:
    """The key of the planner's compiled loops is a digest of what they were read from."""
    script = "from fuseline.plan.arena import compiled, walk_state; print(len(compiled._source(walk_state)))"
    assert int(run(archive, tmp_path, "-c", script)) == (PACKAGE / "plan/arena/walk_state.py").stat().st_size


def test_what_an_archive_holds_decides_its_fingerprint(archive: Path, tmp_path: Path) -> None:
    """Else code that another version of fuseline made would be taken for this one's."""
    same = zipfile.Path(archive, "fuseline/")
    other = packed(tmp_path / "other.zip", **{"codegen/lower.py": "# another"})
    report = packed(tmp_path / "report.zip", **{"cli/main.py": "# makes no code"})
    found = [fingerprint.packed_fingerprint(p, []) for p in
             (same, zipfile.Path(other, "fuseline/"), zipfile.Path(report, "fuseline/"))]  # fmt: skip
    assert found[0] == found[2] != found[1]
    script = "from fuseline.runtime.fingerprint import generator_fingerprint as f; print(f())"
    assert run(archive, tmp_path, "-c", script) != run(other, tmp_path, "-c", script)
