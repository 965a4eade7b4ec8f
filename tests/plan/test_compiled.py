"""How compiled loops are made and kept: damage of any kind is noticed, and planning never waits for the compiler."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import arena_instances
import pytest

import doubling
import fuseline
from fuseline import folders
from fuseline.plan.arena import engine
from fuseline.plan.arena.checker import check
from fuseline.plan.arena.compiled import Building, Compiling, Loops
from fuseline.plan.arena.planner import plan_instance

pytest.importorskip("numba")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for caches."""
    monkeypatch.delenv("FUSELINE_CACHE", raising=False)
    monkeypatch.setenv("FUSELINE_CACHE_DIR", str(tmp_path))
    return tmp_path


def loops() -> Loops:
    return Loops((doubling,), ("double",), "raise SystemExit('not run')")


def compile_now(found: Loops) -> None:
    found.compile_and_seal(lambda: found.functions.double(3))


def test_compiled_code_is_ready_only_after_it_was_sealed(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)
    assert not loops().ready()
    compile_now(loops())
    found = loops()
    assert found.ready()
    assert not found.loaded
    assert found.functions.double(21) == 42
    assert found.functions.double.stats.cache_hits
    assert found.loaded
    assert sorted(p.name for p in (kept / "planner").iterdir()) == [".lock", found.folder.name]


def test_code_that_somebody_else_may_have_written_is_not_loaded(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)
    compile_now(loops())
    folder = loops().folder
    assert loops().ready()
    for part in (folder.parent, folder, next(p for p in folder.rglob("*") if p.is_file())):
        mode = part.stat().st_mode
        part.chmod(mode | 0o020)
        assert not loops().ready()
        part.chmod(mode)
        assert loops().ready()
    moved = folder.with_name("elsewhere")
    folder.rename(moved)
    folder.symlink_to(moved)
    assert not loops().ready()
    folder.unlink()
    moved.rename(folder)
    assert loops().ready()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not loops().ready()


def test_any_damaged_byte_and_any_missing_file_make_it_compile_anew(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)
    compile_now(loops())
    folder = loops().folder
    intact = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(intact) == 3
    for path in intact:
        for damage in ("flip", "cut", "empty", "gone"):
            for other, data in intact.items():
                other.parent.mkdir(parents=True, exist_ok=True)
                other.write_bytes(data)
            assert loops().ready()
            middle = len(intact[path]) // 2
            data = intact[path]
            if damage == "gone":
                path.unlink()
            else:
                flipped = data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
                path.write_bytes({"flip": flipped, "cut": data[:middle], "empty": b""}[damage])
            assert not loops().ready(), (path.name, damage)
    compile_now(loops())
    assert loops().ready()


def test_a_file_where_the_folder_should_be_is_no_reason_to_fail(kept: Path) -> None:
    (kept / "planner").write_text("in the way")
    assert not loops().ready()


def test_a_short_time_limit_never_starts_the_compiler(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(_: object) -> Building:
        raise AssertionError("the compiler was started")

    monkeypatch.setattr(Building, "of", begin)
    instance = arena_instances.packed(150, 4096)
    result = plan_instance(instance, time_limit_s=2)
    assert not check(instance, result.placement.offsets, result.peak_bytes)


def test_a_compiler_that_fails_leaves_plain_python(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Loops((engine.walk_loops,), ("propagate", "walk"), "raise SystemExit(1)")
    monkeypatch.setattr("fuseline.plan.arena.planner.WALK", broken)
    monkeypatch.setattr(Building, "_begun", {})
    instance = arena_instances.packed(150, 4096)
    result = plan_instance(instance, time_limit_s=9)
    assert not check(instance, result.placement.offsets, result.peak_bytes)
    assert result.method


def test_a_failed_compilation_says_why_and_is_not_begun_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)

    def fail() -> None:
        raise ValueError("no such processor")

    found = loops()
    assert not found.failed_lately
    with pytest.raises(ValueError, match="no such processor"):
        found.compile_and_seal(fail)
    assert found.failed_lately
    assert not found.ready()
    (note,) = (kept / "planner").glob("*.failed")
    assert "no such processor" in note.read_text()
    monkeypatch.setattr(Building, "of", lambda _: pytest.fail("begun again"))
    assert not Compiling(True, lambda: 60.0, lambda: None).may_use(loops())
    compile_now(loops())
    assert not loops().failed_lately


@pytest.mark.parametrize("imported", ["fuseline", "json", "numba"])
def test_no_file_of_the_working_directory_runs_where_loops_are_compiled(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: str
) -> None:
    (tmp_path / f"{imported}.py").write_text("open('has run', 'w').close()")
    monkeypatch.chdir(tmp_path)
    building = Building(Loops((doubling,), ("double",), f"import {imported}; open('exercised', 'w').close()"))
    assert building._process.wait(60) == 0
    assert (tmp_path / "exercised").exists()
    assert not (tmp_path / "has run").exists()


def test_every_python_that_is_started_leaves_the_working_directory_out() -> None:
    started = []
    for path in Path(fuseline.__file__).parent.rglob("*.py"):
        for command in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(command, ast.List) and ast.unparse(command).startswith("[sys.executable"):
                started.append((path.name, ast.unparse(command.elts[1])))
    assert started
    assert {option for _, option in started} <= {"'-P'", "'-I'"}, started


@pytest.mark.long
def test_a_damaged_cache_of_the_search_is_replaced_and_planning_goes_on(kept: Path, tmp_path: Path) -> None:
    """As whole processes: the first compiles, the second meets one damaged byte in each file of machine code."""
    environment = {**os.environ, "FUSELINE_CACHE_DIR": str(tmp_path)}
    build = [sys.executable, "-c", "from fuseline.plan.arena.engine import build; build()"]
    subprocess.run(build, env=environment, check=True, timeout=300)
    ready = "from fuseline.plan.arena.engine import WALK; raise SystemExit(not WALK.ready())"
    assert subprocess.run([sys.executable, "-c", ready], env=environment, timeout=60).returncode == 0
    for path in tmp_path.rglob("*.nbc"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 255
        path.write_bytes(data)
    source = tmp_path / "packed.csv"
    from fuseline.plan.arena.instance_csv import write_csv

    write_csv(source, arena_instances.packed(200, 1 << 20))
    command = [sys.executable, "-m", "fuseline", "plan", str(source), "--time-limit", "4", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert b"peak_bytes" in done.stdout


COMPILE_SLOWLY = """
import os, time
from pathlib import Path
import doubling
from fuseline.plan.arena.compiled import Loops

loops = Loops((doubling,), ("double",), "")

def use():
    (Path(os.environ["FUSELINE_CACHE_DIR"]) / f"compiled-by-{os.getpid()}").touch()
    time.sleep(float(os.environ["COMPILE_S"]))
    loops.functions.double(3)

loops.compile_and_seal(use)
"""


def compiling_process(kept: Path, seconds: float) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "FUSELINE_CACHE_DIR": str(kept), "COMPILE_S": str(seconds), "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-P", "-c", COMPILE_SLOWLY], env=environment)


def wait_until(happened: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_of_several_processes_one_compiles(kept: Path) -> None:
    processes = [compiling_process(kept, 1) for _ in range(3)]
    assert [p.wait(120) for p in processes] == [0, 0, 0]
    assert len(list(kept.glob("compiled-by-*"))) == 1
    assert loops().ready()
    late = compiling_process(kept, 0)
    assert late.wait(120) == 0
    assert len(list(kept.glob("compiled-by-*"))) == 1, "what lies there is not compiled again"


def test_what_another_process_compiles_is_waited_for_and_not_begun(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Building, "_begun", {})
    begun: list[str] = []
    compiling = Compiling(True, lambda: 60.0, lambda: begun.append("begun"))
    other = compiling_process(kept, 3)
    wait_until(lambda: list(kept.glob("compiled-by-*")))
    never = Loops((doubling,), ("double",), "open('was started', 'w').close()")
    monkeypatch.chdir(kept)
    assert not compiling.may_use(never)
    assert begun == ["begun"]
    compiling.end()
    assert other.poll() is None, "only its own compilation is ended"
    assert other.wait(120) == 0
    assert compiling.may_use(never)
    assert not (kept / "was started").exists()


def test_what_is_compiled_can_be_used_whatever_the_umask(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)
    before = os.umask(0o002)  # as many systems have it: a group may write
    try:
        compile_now(loops())
        assert loops().ready()
        for part in loops().folder.rglob("*"):
            part.chmod(part.stat().st_mode | 0o020)
        assert not loops().ready()
        compile_now(loops())  # what nobody can use is replaced
        assert loops().ready()
        assert os.umask(0o002) == 0o002
    finally:
        os.umask(before)


def test_nothing_is_compiled_where_others_may_write(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)
    found = loops()
    found.folder.parent.mkdir(parents=True, exist_ok=True)
    found.folder.parent.chmod(0o777)
    found.compile_and_seal(lambda: pytest.fail("compiles"))
    assert list(found.folder.parent.iterdir()) == []


def test_a_killed_compilation_leaves_nothing_that_stays(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)
    killed = compiling_process(kept, 60)
    wait_until(lambda: list(kept.glob("compiled-by-*")))
    assert loops().compiled_elsewhere
    killed.kill()
    killed.wait(60)
    assert not loops().compiled_elsewhere
    assert list((kept / "planner").glob(".building-*"))
    compile_now(loops())
    assert loops().ready()
    assert not list((kept / "planner").glob(".building-*"))


def test_without_locks_of_the_system_everybody_compiles(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda n: 0, raising=False)
    monkeypatch.setattr(folders, "fcntl", None)
    assert not loops().compiled_elsewhere
    compile_now(loops())
    assert loops().ready()
