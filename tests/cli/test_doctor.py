"""``fuseline doctor``: what it says is true of this process, and bad news changes the exit status."""

from __future__ import annotations

import importlib.metadata
import json
import platform

import pytest

from fuseline.cli import doctor as module
from fuseline.report import catalogue


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


def test_a_missing_optional_package_names_the_extra_and_is_healthy(monkeypatch, capsys) -> None:
    version = importlib.metadata.version

    def without_ortools(name: str) -> str:
        if name == "ortools":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_ortools)
    assert module.doctor(as_json=True, lang="en") == 0
    facts = json.loads(capsys.readouterr().out)
    optional = next(check for check in facts["checks"] if check["item"] == "optional_packages")
    assert optional["state"] == "limited"
    assert "fuseline[planner]" in optional["advice"]


@pytest.mark.parametrize("language", catalogue.LANGUAGES)
def test_every_item_has_a_name_in_every_language(language: str) -> None:
    for check in module.examine(language):
        assert catalogue.text(f"doctor.item.{check.item}", language)
