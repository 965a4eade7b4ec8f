"""Writes docs/operations.md from the table of operations: ``python tools/document_operations.py``."""

from __future__ import annotations

from pathlib import Path

from fuseline.ops import OPERATIONS, Operation

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"

_TYPES = {
    "arithmetic": "the operands' common dtype",
    "arithmetic_no_bool": "the common dtype, not bool",
    "bool_to_i8": "the common dtype; bool as int8",
    "divide": "the common dtype; integers as float64",
    "float": "floats stay; integers become floats as in NumPy",
    "whole": "the operand's dtype",
    "compare": "bool",
    "predicate": "bool",
    "logical": "bool",
    "bitwise": "the common dtype; integers and bool",
    "shift": "the common dtype; integers",
    "select": "the common dtype of the branches",
    "reduce_sum": "floats stay; integers become int64 or uint64",
    "reduce_float": "floats stay; integers become float64",
    "reduce_same": "the operand's dtype",
    "reduce_bool": "bool",
    "tuple": "of each result, its own",
}
_ROUNDING = {
    "exact": "exact",
    "rounded": "correctly rounded",
    "measured": "[measured](accuracy.md)",
    "tree": "[a tree of rounded sums](decisions/0012-sums-add-neighbours.md)",
}


def page() -> str:
    """The page's text."""
    rows = [row for row in OPERATIONS.values() if row.spellings]
    lines = [
        "# Operations",
        "",
        "Written by `tools/document_operations.py` from `src/fuseline/ops.py`; do not edit.",
        "",
        "Every operation of the formula language, by the names that formulas call it by, and traced functions where",
        "NumPy has them. Casts are called by the dtype's name: `f32(x)`, `bfloat16(x)`.",
        "",
        "| names | operator | operands | result | rounding | meaning |",
        "|---|---|---:|---|---|---|",
        *(_line(row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Operation) -> str:
    names = ", ".join(f"`{s}`" for s in row.spellings)
    operator = (
        f"`{row.infix}`".replace("|", "\\|") if row.infix else {"neg": "`-x`", "invert": "`~x`"}.get(row.name, "")
    )
    return f"| {names} | {operator} | {row.arity} | {_TYPES[row.type_rule]} | {_ROUNDING[row.exactness]} | {row.doc} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
