"""fuseline: write a tensor program once; see what bounds it, plan it, and run it at that bound.

Importing this package loads nothing but the version: each public name comes with the module that owns it, at first use.
"""

from __future__ import annotations

import importlib

from fuseline._version import __version__

_HOME: dict[str, str] = {
    "FuselineError": "fuseline.errors",
    "FormulaError": "fuseline.errors",
    "TypeRuleError": "fuseline.errors",
    "TraceError": "fuseline.errors",
    "ShapeError": "fuseline.errors",
    "LimitError": "fuseline.errors",
    "VerifyError": "fuseline.errors",
    "TextFormError": "fuseline.errors",
    "UnitError": "fuseline.errors",
    "UnknownNameError": "fuseline.errors",
    "ProvenanceError": "fuseline.errors",
    "PlanError": "fuseline.errors",
    "InfeasibleError": "fuseline.errors",
    "UnsupportedError": "fuseline.errors",
    "CompilerError": "fuseline.errors",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    """The public object ``name``, loaded from its module and kept."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'fuseline' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
