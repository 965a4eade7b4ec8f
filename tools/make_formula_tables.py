"""Writes the parser tables of the formula grammar, which the package carries so that no process has to build them.

    python tools/make_formula_tables.py

Run it after every change of `formula.lark`; a test fails until it has been run.
"""

from __future__ import annotations

import json
from pathlib import Path

from fuseline.frontends.lalr import make_tables

FOLDER = Path(__file__).resolve().parent.parent / "src" / "fuseline" / "frontends"


def main() -> None:
    """Read the grammar, write the tables beside it."""
    grammar = (FOLDER / "formula.lark").read_text(encoding="utf-8")
    text = json.dumps(make_tables(grammar, "program"), sort_keys=True, separators=(",", ":"))
    (FOLDER / "formula_tables.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
