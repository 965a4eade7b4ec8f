"""The tables that the package carries are those of its grammar, and reading a formula needs no lark."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

from fuseline.frontends.lalr import make_tables


def test_the_packaged_tables_are_those_of_the_grammar():
    folder = resources.files("fuseline.frontends")
    grammar = folder.joinpath("formula.lark").read_text(encoding="utf-8")
    packaged = json.loads(folder.joinpath("formula_tables.json").read_text(encoding="utf-8"))
    made = json.loads(json.dumps(make_tables(grammar, "program")))
    assert packaged == made, "run python tools/make_formula_tables.py"


def test_reading_a_formula_does_not_load_lark():
    code = "import sys, fuseline as fl; fl.graph('y = x + 1'); assert 'lark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
