"""A fuzz of the formula language; the long one tries a million texts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _fuzzer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_formula", Path(__file__).with_name("fuzz_formula.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_text_ends_in_a_formula_error_or_a_program() -> None:
    reached = _fuzzer().fuzz(20_000, bases=300)
    assert sum(reached.values()) == 20_000
    assert reached["a graph"] > 1_000
    assert reached["refused by the types"] > 500
    assert reached["refused by the parser"] > 5_000


@pytest.mark.long
def test_a_million_texts_end_in_a_formula_error_or_a_program() -> None:
    fuzzer = _fuzzer()
    reached = fuzzer.fuzz(1_000_000, seed=1)
    print(fuzzer.report(reached))
    assert sum(reached.values()) == 1_000_000
