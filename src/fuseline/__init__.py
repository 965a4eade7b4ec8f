"""fuseline: write a tensor program once; see what bounds it, plan it, and run it at that bound.

Importing this package loads nothing but the version: each public name comes with the module that owns it, at first use.
"""

from __future__ import annotations

from fuseline._version import __version__ as __version__

TYPE_CHECKING = False  # as in typing, which need not be imported for it
if TYPE_CHECKING:
    from fuseline.api.classification import Classification as Classification
    from fuseline.api.explaining import explain as explain
    from fuseline.api.explanation import Explanation as Explanation
    from fuseline.api.kernel import (
        Kernel as Kernel,
        compile as compile,
        fuse as fuse,
    )
    from fuseline.api.measuring import measure as measure
    from fuseline.api.planning import (
        Buffer as Buffer,
        Instance as Instance,
        JointPlan as JointPlan,
        PlanResult as PlanResult,
        plan_buffers as plan_buffers,
        plan_program as plan_program,
    )
    from fuseline.api.program import (
        evaluate as evaluate,
        graph as graph,
        optimize as optimize,
    )
    from fuseline.api.roofline import (
        classify as classify,
        device as device,
        devices as devices,
        probe as probe,
    )
    from fuseline.errors import (
        CompilerError as CompilerError,
        DataFileError as DataFileError,
        FormulaError as FormulaError,
        FuselineError as FuselineError,
        InfeasibleError as InfeasibleError,
        LimitError as LimitError,
        LiteralError as LiteralError,
        NumberRangeError as NumberRangeError,
        OutputFileError as OutputFileError,
        PlanError as PlanError,
        ProvenanceError as ProvenanceError,
        ReadOnlyError as ReadOnlyError,
        ShapeError as ShapeError,
        TextFormError as TextFormError,
        TraceAttributeError as TraceAttributeError,
        TraceError as TraceError,
        TypeRuleError as TypeRuleError,
        UnitError as UnitError,
        UnknownNameError as UnknownNameError,
        UnsupportedError as UnsupportedError,
        UsageError as UsageError,
        VerifyError as VerifyError,
    )
    from fuseline.machine.device import Device as Device
    from fuseline.runtime.recycle import trim as trim

_NAMES = {
    "fuseline.api.classification": ("Classification",),
    "fuseline.api.explaining": ("explain",),
    "fuseline.api.explanation": ("Explanation",),
    "fuseline.api.kernel": ("Kernel", "compile", "fuse"),
    "fuseline.api.measuring": ("measure",),
    "fuseline.api.planning": ("Buffer", "Instance", "JointPlan", "PlanResult", "plan_buffers", "plan_program"),
    "fuseline.api.program": ("evaluate", "graph", "optimize"),
    "fuseline.api.roofline": ("classify", "device", "devices", "probe"),
    "fuseline.errors": (
        "CompilerError", "DataFileError", "FormulaError", "FuselineError", "InfeasibleError", "LimitError",
        "LiteralError", "NumberRangeError", "OutputFileError", "PlanError", "ProvenanceError", "ReadOnlyError",
        "ShapeError", "TextFormError", "TraceAttributeError", "TraceError", "TypeRuleError", "UnitError",
        "UnknownNameError", "UnsupportedError", "UsageError", "VerifyError",
    ),
    "fuseline.machine.device": ("Device",),
    "fuseline.runtime.recycle": ("trim",),
}  # fmt: skip
"""The public names of each module. Type checkers find them in the imports above; the aliases there say "public"."""

_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])

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
    found: object = getattr(importlib.import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
