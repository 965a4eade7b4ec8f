"""Remarks of the roofline as sentences: each code with its values formatted, in either language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fuseline.report.catalogue import text
from fuseline.roofline.audit import IMPLIED_ROWS, MOE_STAGES, MOE_STAGES_ALONE, UNIFORM_CHOICE
from fuseline.roofline.provenance import Objection
from fuseline.roofline.rules import UNDETERMINED, Note, Rule
from fuseline.units import format_number, format_percent, format_rate, format_time

BOUNDS = ("compute", "memory", "balanced", "neither", "latency", "small-grid", UNDETERMINED)

_CONVENTIONS = {
    "inputs": "inputs",
    "inputs+output": "inputs_output",
    "inputs+scales": "inputs_scales",
    "inputs+scales+output": "inputs_scales_output",
    IMPLIED_ROWS: "implied",
    UNIFORM_CHOICE: "uniform_choice",
    MOE_STAGES: "moe_stages",
    MOE_STAGES_ALONE: "moe_stages_alone",
}


def bound_text(bound: str, lang: str) -> str:
    """The name of a bound for people; the name of a pipe becomes *… pipe*."""
    if bound in BOUNDS:
        return text(f"roofline.bound.{bound}", lang)
    return text("roofline.bound.pipe", lang, pipe=bound)


def bound_explained(bound: str, lang: str, rule: Rule | None = None) -> str:
    """What a bound means under ``rule`` (the book's where none is given) and what helps."""
    if rule is not None and rule.name == "nsight" and bound in BOUNDS and bound not in ("neither", UNDETERMINED):
        return text(f"roofline.bound.nsight_{bound}", lang)
    if bound in BOUNDS:
        return text(f"roofline.bound.explain_{bound}", lang)
    return text("roofline.bound.explain_pipe", lang, pipe=bound)


def shape_explained(bound: str, lang: str) -> str:
    """What the bound of a shape says before anybody has measured it."""
    if bound in BOUNDS:
        return text(f"roofline.bound.shape_{bound}", lang)
    return text("roofline.bound.shape_pipe", lang, pipe=bound)


def kind_text(kind: str, lang: str) -> str:
    """The kind of a source for people."""
    return text(f"roofline.kind.{kind.replace(' ', '_')}", lang)


def convention_text(convention: str, lang: str) -> str:
    """A way of counting bytes for people."""
    return text(f"roofline.convention.{_CONVENTIONS[convention]}", lang)


def objections_text(objections: Iterable[Objection], lang: str) -> str:
    """Reasons against a ratio, in one sentence."""
    reasons = [text(f"roofline.objection.{o.code}", lang, **o.values) for o in objections]
    return text("roofline.reason_separator", lang).join(reasons)


def _percent(value: Any, lang: str) -> str:
    return "–" if value is None else format_percent(float(value))


def _times(value: Any, lang: str) -> str:
    return "–" if value is None else format_number(float(value), 3)


_FORMATS: dict[str, Callable[[Any, str], str]] = {
    "ratio": _percent,
    "other_ratio": _percent,
    "course": _percent,
    "own": _percent,
    "margin": lambda value, lang: format_percent(value, 0),
    "factor": _times,
    "time_s": lambda value, lang: format_time(value),
    "floor_s": lambda value, lang: format_time(value),
    "bytes_per_s": lambda value, lang: format_rate(value),
    "used": lambda value, lang: format_rate(value),
    "limit": lambda value, lang: format_rate(value),
    "recomputed": lambda value, lang: format_rate(value, "FLOP/s"),
    "printed": lambda value, lang: format_rate(value, "FLOP/s"),
    "bound": bound_text,
    "says": bound_text,
    "kind": kind_text,
    "wanted": kind_text,
    "convention": convention_text,
}


def note_text(note: Note, lang: str) -> str:
    """The sentence of a remark in ``lang``."""
    code, values = note.code, dict(note.values)
    if code in ("refused", "mixed"):
        values["reasons"] = objections_text(values.pop("objections"), lang)
    if code == "side-saturated":
        code = code if values["other_ratio"] is not None else "side-saturated-alone"
        values["side"], values["other"] = (_side(values[key], lang) for key in ("side", "other"))
    if code in ("side-missing", "side-impossible", "side-refused"):
        values["side"] = _side(values["side"], lang)
    if code == "source-differs":
        values["text"] = f" ({values['text']})" if values["text"] else ""
    if code == "rate-not-reproduced":
        values["over"] = format_percent(values["over"])
    elif code == "bytes-by-implied-rows":
        values["over"] = _times(values["over"], lang)
    return text(f"roofline.note.{code}", lang, **_formatted(values, lang))


def _formatted(values: Mapping[str, Any], lang: str) -> dict[str, Any]:
    return {key: _FORMATS[key](value, lang) if key in _FORMATS else value for key, value in values.items()}


def _side(name: str, lang: str) -> str:
    """*compute* or *memory* as the table heads call them."""
    return text(f"roofline.column.{name}_rate", lang)
