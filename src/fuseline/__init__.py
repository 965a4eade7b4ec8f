"""fuseline: write a tensor program once; see what bounds it, plan it, and run it at that bound.

Importing this package loads nothing but the version: each public name comes with the module that owns it, at first use.
"""

from __future__ import annotations

from fuseline._version import __version__

TYPE_CHECKING = False  # as in typing, which need not be imported for it
if TYPE_CHECKING:
    from fuseline.api.classification import Classification
    from fuseline.api.explaining import explain
    from fuseline.api.explanation import Explanation
    from fuseline.api.kernel import Kernel, compile, fuse
    from fuseline.api.measuring import measure
    from fuseline.api.planning import Buffer, Instance, JointPlan, PlanResult, plan_buffers, plan_program
    from fuseline.api.program import evaluate, graph, optimize
    from fuseline.api.roofline import classify, device, devices, probe
    from fuseline.errors import (
        CompilerError,
        DataFileError,
        FormulaError,
        FuselineError,
        InfeasibleError,
        LimitError,
        LiteralError,
        NumberRangeError,
        OutputFileError,
        PlanError,
        ProvenanceError,
        ReadOnlyError,
        ShapeError,
        TextFormError,
        TraceAttributeError,
        TraceError,
        TypeRuleError,
        UnitError,
        UnknownNameError,
        UnsupportedError,
        UsageError,
        VerifyError,
    )
    from fuseline.machine.device import Device
    from fuseline.runtime.recycle import trim

__all__ = [
    "Buffer",
    "Classification",
    "CompilerError",
    "DataFileError",
    "Device",
    "Explanation",
    "FormulaError",
    "FuselineError",
    "InfeasibleError",
    "Instance",
    "JointPlan",
    "Kernel",
    "LimitError",
    "LiteralError",
    "NumberRangeError",
    "OutputFileError",
    "PlanError",
    "PlanResult",
    "ProvenanceError",
    "ReadOnlyError",
    "ShapeError",
    "TextFormError",
    "TraceAttributeError",
    "TraceError",
    "TypeRuleError",
    "UnitError",
    "UnknownNameError",
    "UnsupportedError",
    "UsageError",
    "VerifyError",
    "__version__",
    "classify",
    "compile",
    "device",
    "devices",
    "evaluate",
    "explain",
    "fuse",
    "graph",
    "measure",
    "optimize",
    "plan_buffers",
    "plan_program",
    "probe",
    "trim",
]

_HOME = {
    "explain": "fuseline.api.explaining",
    "Explanation": "fuseline.api.explanation",
    "Kernel": "fuseline.api.kernel",
    "compile": "fuseline.api.kernel",
    "fuse": "fuseline.api.kernel",
    "measure": "fuseline.api.measuring",
    "evaluate": "fuseline.api.program",
    "graph": "fuseline.api.program",
    "optimize": "fuseline.api.program",
    "Buffer": "fuseline.api.planning",
    "Instance": "fuseline.api.planning",
    "PlanResult": "fuseline.api.planning",
    "JointPlan": "fuseline.api.planning",
    "plan_buffers": "fuseline.api.planning",
    "plan_program": "fuseline.api.planning",
    "Classification": "fuseline.api.classification",
    "classify": "fuseline.api.roofline",
    "device": "fuseline.api.roofline",
    "devices": "fuseline.api.roofline",
    "probe": "fuseline.api.roofline",
    "Device": "fuseline.machine.device",
    "trim": "fuseline.runtime.recycle",
}
"""The module of each public name that is not an error."""

_SHOWN = ("explain", "Explanation", "classify", "Classification")
"""Names whose results are shown by the report room."""


def __getattr__(name: str) -> object:
    """The public object ``name``, loaded from its module and kept."""
    if name not in __all__:
        raise AttributeError(f"module 'fuseline' has no attribute {name!r}")
    from fuseline.floating_point import in_default_environment

    value = in_default_environment(_loaded)(name)  # modules keep numbers that they compute
    globals()[name] = value
    return value


def _loaded(name: str) -> object:
    import importlib

    if name in _SHOWN:  # these print themselves, in words that `api` does not have
        importlib.import_module("fuseline.report.views").register()
    found: object = getattr(importlib.import_module(_HOME.get(name, "fuseline.errors")), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
