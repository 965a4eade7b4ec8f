"""``fuseline doctor``: what it says is true of this process, and bad news changes the exit status."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from fuseline.cli import doctor as module
from fuseline.errors import UnsupportedError
from fuseline.report import catalogue
from fuseline.report.html import html_document
from fuseline.report.terminal import plain_text
from fuseline.report.wrapping import width_of
from fuseline.runtime import cache, host, threads


def test_json_keys_are_stable(capsys) -> None:
    module.doctor(as_json=True)
    facts = json.loads(capsys.readouterr().out)
    assert set(facts) == {"version", "healthy", "checks"}
    for check in facts["checks"]:
        assert set(check) == {"item", "found", "state", "advice"}
        assert check["state"] in module.MARKS


def test_reported_versions_are_those_installed() -> None:
    found = {check.item: check.found for check in module.examine("en")}
    assert platform.python_version() in found["python"]
    assert f"numpy {importlib.metadata.version('numpy')}" in found["packages"]
    assert f"llvmlite {importlib.metadata.version('llvmlite')}" in found["packages"]


def test_healthy_is_0(capsys) -> None:
    assert module.doctor(lang="en") == 0
    assert catalogue.text("doctor.healthy", "en") in capsys.readouterr().out


@pytest.mark.parametrize("language", catalogue.LANGUAGES)
def test_nothing_of_what_it_says_is_cut(language: str) -> None:
    long = "/a-very-long-folder" * 8
    checks = [module.Check("cache", long, "limited", f"advice about {long}"), module.Check("python", "3.11")]
    document = module.doctor_document(checks, True, language)
    lines = plain_text(document, 60).splitlines()
    assert all(width_of(line) <= 60 and line == line.rstrip() for line in lines)
    told = "".join("".join(lines).split())
    assert long in told and "…" not in told
    assert long in html_document(document)


def test_a_missing_package_is_named_and_the_status_is_1(monkeypatch, capsys) -> None:
    version = importlib.metadata.version

    def without_lark(name: str) -> str:
        if name == "lark":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_lark)
    assert module.doctor(as_json=True, lang="en") == 1
    facts = json.loads(capsys.readouterr().out)
    broken = [check for check in facts["checks"] if check["state"] == "broken"]
    assert [check["item"] for check in broken] == ["packages"]
    assert "lark" in broken[0]["advice"]


def test_without_having_been_installed_it_says_so_and_is_healthy(monkeypatch, capsys) -> None:
    def without_metadata(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", without_metadata)
    assert module.doctor(as_json=True, lang="en") == 0
    facts = json.loads(capsys.readouterr().out)
    for item in ("packages", "optional_packages"):
        check = next(c for c in facts["checks"] if c["item"] == item)
        assert check["state"] == "limited" and "was not installed" in check["advice"]


def test_a_missing_optional_package_names_the_extra_and_is_healthy(monkeypatch, capsys) -> None:
    version = importlib.metadata.version

    def without_numba(name: str) -> str:
        if name == "numba":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_numba)
    assert module.doctor(as_json=True, lang="en") == 0
    facts = json.loads(capsys.readouterr().out)
    optional = next(check for check in facts["checks"] if check["item"] == "optional_packages")
    assert optional["state"] == "limited"
    assert "[planner]" in optional["advice"]


@pytest.mark.parametrize("language", catalogue.LANGUAGES)
def test_every_item_has_a_name_in_every_language(language: str) -> None:
    for check in module.examine(language):
        assert catalogue.text(f"doctor.item.{check.item}", language)


@pytest.fixture
def checks_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, module.Check]]]:
    """Examines as a process with these environment variables would; gives the checks by item."""
    remembered = (cache.object_cache, threads.available)

    def examine(**variables: str) -> dict[str, module.Check]:
        for name in ("FUSELINE_NUM_THREADS", "OMP_NUM_THREADS", "CC"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for function in remembered:
            function.cache_clear()
        return {check.item: check for check in module.examine("en")}

    yield examine
    monkeypatch.undo()
    for function in remembered:
        function.cache_clear()


def test_an_unusable_cache_is_told_and_is_no_obstacle(checks_with, tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file, not a directory")
    found = checks_with(FUSELINE_CACHE_DIR=str(blocked))["cache"]
    assert found.state == "limited"
    assert str(blocked) in found.advice


def test_an_empty_cache_is_good_and_stays_empty(checks_with, tmp_path) -> None:
    found = checks_with(FUSELINE_CACHE_DIR=str(tmp_path / "new"))["cache"]
    assert found.state == "good"
    assert "empty" in found.found
    assert not list(tmp_path.iterdir())


def test_what_is_in_the_cache_is_told_and_stays(checks_with, tmp_path) -> None:
    kept = cache.ObjectCache(tmp_path / "objects")
    assert kept.put(cache.key("mine"), b"x" * 968)
    found = checks_with(FUSELINE_CACHE_DIR=str(tmp_path))["cache"]
    assert found.state == "good" and "1 kB of at most" in found.found
    assert [p.name for p in kept.directory.iterdir()] == [cache.key("mine") + ".flc"]


def test_a_process_that_examines_leaves_no_compiled_code(tmp_path) -> None:
    environment = os.environ | {"FUSELINE_CACHE_DIR": str(tmp_path / "new")}
    for _ in range(2):
        command = [sys.executable, "-m", "fuseline", "doctor", "--json", "--lang", "en"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        checks = {check["item"]: check for check in json.loads(done.stdout)["checks"]}
        assert "empty" in checks["cache"]["found"] and checks["kernel"]["state"] == "good"
        assert not list(tmp_path.iterdir())


def test_a_cache_that_is_off_is_told(checks_with) -> None:
    assert checks_with(FUSELINE_CACHE="off")["cache"].state == "limited"


def test_a_stated_thread_count_is_shown_with_the_variable_that_states_it(checks_with) -> None:
    found = checks_with(FUSELINE_NUM_THREADS="1")["threads"]
    assert found.found.startswith("1 ")
    assert "FUSELINE_NUM_THREADS=1" in found.advice


def test_no_c_compiler_is_no_obstacle(checks_with, tmp_path) -> None:
    compiler = checks_with(PATH=str(tmp_path), CC="")["c_compiler"]
    assert compiler.state == "limited"
    assert "Not needed" in compiler.advice


def test_a_c_compiler_that_cannot_be_run_is_named(checks_with) -> None:
    compiler = checks_with(CC="no-such-compiler")["c_compiler"]
    assert compiler.state == "limited"
    assert "no-such-compiler" in compiler.advice


def test_a_c_compiler_that_fails_is_told(checks_with) -> None:
    assert checks_with(CC="false")["c_compiler"].state == "limited"


def test_a_kernel_that_disagrees_with_numpy_is_broken(monkeypatch, capsys) -> None:
    import fuseline

    monkeypatch.setattr(fuseline, "compile", lambda _text: lambda x: x)
    assert module.doctor(as_json=True, lang="en") == 1
    broken = [check["item"] for check in json.loads(capsys.readouterr().out)["checks"] if check["state"] == "broken"]
    assert broken == ["kernel"]


def states(checks: dict[str, module.Check], state: str) -> set[str]:
    return {item for item, check in checks.items() if check.state == state}


@pytest.mark.parametrize("target", ["foo", "x86-64-v99", "aarch64-none"])
def test_a_target_that_kernels_refuse_is_broken(checks_with, target: str, capsys) -> None:
    checks = checks_with(FUSELINE_TARGET=target)
    assert states(checks, "broken") == {"processor", "kernel"}
    assert f"FUSELINE_TARGET={target}" in checks["processor"].advice
    assert module.doctor(as_json=True, lang="en") == 1
    capsys.readouterr()


def test_a_plainer_target_is_the_one_that_is_shown(checks_with) -> None:
    plainest = host.target_names()[0]
    processor = checks_with(FUSELINE_TARGET=plainest)["processor"]
    assert processor.found.endswith(f"code for {plainest}")
    assert "FUSELINE_TARGET" in processor.advice


def test_a_processor_without_kernels_is_no_obstacle(checks_with, monkeypatch) -> None:
    monkeypatch.setattr(host, "target_names", list)
    monkeypatch.setattr("fuseline.compile", refusing)
    assert states(checks_with(), "broken") == set()


def refusing(_text: str) -> None:
    raise UnsupportedError("no compiled kernels on this processor")


@pytest.mark.parametrize("content", ["[[device", "[[device]]\nname = 3\n", "unheard_of = 1\n", "\xff\xfe"])
def test_a_broken_device_file_is_broken_and_named(checks_with, tmp_path, content: str) -> None:
    file = tmp_path / "fuseline" / "devices.toml"
    file.parent.mkdir()
    file.write_bytes(content.encode("latin-1"))
    checks = checks_with(XDG_CONFIG_HOME=str(tmp_path))
    assert states(checks, "broken") == {"devices"}
    assert str(file) in checks["devices"].advice


def test_the_machines_are_counted(checks_with, tmp_path) -> None:
    devices = checks_with(XDG_CONFIG_HOME=str(tmp_path))["devices"]
    assert devices.state == "good"
    assert str(tmp_path) in devices.found


@pytest.mark.parametrize("name", ["FUSELINE_NUM_THREADS", "OMP_NUM_THREADS", "FUSELINE_CACHE_BYTES"])
@pytest.mark.parametrize("value", ["abc", "64M", "-1", "1e3", "٣"])
def test_what_is_no_count_decides_nothing_and_is_told(checks_with, name: str, value: str) -> None:
    checks = checks_with(**{name: value})
    assert checks["settings"].state == "limited"
    assert f"{name}={value}" in checks["settings"].advice
    assert "decides" not in checks["threads"].advice
    assert checks["threads"].found == checks_with()["threads"].found


def test_no_thread_is_no_count_of_threads(checks_with) -> None:
    checks = checks_with(FUSELINE_NUM_THREADS="0", OMP_NUM_THREADS="1")
    assert "FUSELINE_NUM_THREADS=0" in checks["settings"].advice
    assert "OMP_NUM_THREADS=1 decides" in checks["threads"].advice


def test_settings_that_count_are_shown_and_good(checks_with) -> None:
    settings = checks_with(FUSELINE_NUM_THREADS="1", OMP_NUM_THREADS="4,2", FUSELINE_RECYCLE_BYTES="0")["settings"]
    assert settings.state == "good"
    assert "FUSELINE_RECYCLE_BYTES=0" in settings.found
