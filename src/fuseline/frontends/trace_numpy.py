"""What NumPy's functions mean on traced values: each ufunc and array function that has a row in `ops`, in NumPy's own
semantics of axes and ``keepdims``; every other one is refused by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fuseline.errors import TraceError, nearest
from fuseline.ops import SPELLINGS

if TYPE_CHECKING:
    from fuseline.frontends.trace import Recording, Traced

_REDUCED_BY = MappingProxyType({"add": "sum", "maximum": "max", "minimum": "min", "or": "any", "and": "all"})
_SCIPY_NAMES = MappingProxyType({"expit": "sigmoid"})
_SAME_VALUE = frozenset({np.positive, np.conjugate})


def call_ufunc(
    recording: Recording, ufunc: np.ufunc, method: str, operands: tuple[object, ...], options: dict[str, object]
) -> Any:
    """A ufunc on operands of which at least one is traced."""
    if method == "reduce":
        return _reduce_by_ufunc(recording, ufunc, operands, options)
    if method != "__call__":
        raise TraceError(f"{recording.name}: np.{ufunc.__name__}.{method} cannot be recorded")
    _refuse_options(recording, f"np.{ufunc.__name__}", options)
    if ufunc in _SAME_VALUE:
        return operands[0]
    if ufunc is np.divmod:
        return recording.several("divmod", *operands)
    return recording.apply(_operation_of(recording, ufunc), *operands)


def _operation_of(recording: Recording, ufunc: np.ufunc) -> str:
    """The operation that a ufunc of NumPy or SciPy is."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc and name in SPELLINGS:
        return SPELLINGS[name]
    special = sys.modules.get("scipy.special")
    spelling = _SCIPY_NAMES.get(name, name)
    if special is not None and getattr(special, name, None) is ufunc and spelling in SPELLINGS:
        return SPELLINGS[spelling]
    near = [n for n in nearest(name, SPELLINGS) if hasattr(np, n)]
    advice = f"; near: {', '.join(f'np.{n}' for n in near)}" if near else ""
    raise TraceError(f"{recording.name}: the ufunc {name} is not one that a program can use{advice}")


_DEFAULTS: Mapping[str, object] = MappingProxyType(
    {"where": True, "subok": True, "order": "K", "casting": "same_kind", "copy": True}
)


def _refuse_options(recording: Recording, what: str, options: Mapping[str, object]) -> None:
    """Accept only options left at NumPy's default."""
    for name, value in options.items():
        plain = isinstance(value, bool | str) and value == _DEFAULTS.get(name)
        if (
            value is None
            or value is np._NoValue
            or plain
            or (isinstance(value, tuple) and not any(v is not None for v in value))
        ):
            continue
        advice = {
            "out": "a program's values never change; return the result",
            "dtype": "convert the operand, as in x.astype(np.float32)",
            "where": "use np.where(c, a, b)",
        }.get(name, "leave it out")
        raise TraceError(f"{recording.name}: {what} with {name}= cannot be recorded; {advice}")


# ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _reduction(recording: Recording, op: str, x: object, axis: Any, keepdims: Any) -> Traced:
    axes: tuple[int, ...] | None
    if axis is None:
        axes = None
    else:
        try:
            axes = tuple(a.__index__() for a in axis) if isinstance(axis, tuple) else (axis.__index__(),)
        except AttributeError:
            raise TraceError(f"{recording.name}: the axis of {op} is a whole number or a tuple of them") from None
    keep = False if keepdims is np._NoValue else bool(keepdims)
    return recording.apply(op, x, attrs=(("axes", axes), ("keepdims", keep)))


def _reduce_by_ufunc(
    recording: Recording, ufunc: np.ufunc, operands: tuple[object, ...], options: dict[str, object]
) -> Traced:
    name = ufunc.__name__
    op = _REDUCED_BY.get(SPELLINGS.get(name, "").removeprefix("logical_"))
    if op is None or name.startswith("bitwise"):
        raise TraceError(f"{recording.name}: np.{name}.reduce cannot be recorded")
    named = dict(zip(("axis", "dtype", "out", "keepdims", "initial", "where"), operands[1:], strict=False)) | options
    axis, keepdims = named.pop("axis", 0), named.pop("keepdims", False)
    _refuse_options(recording, f"np.{name}.reduce", named)
    return _reduction(recording, op, operands[0], axis, keepdims)


def _reducer(op: str, *parameters: str) -> Callable[..., Traced]:
    """An array function ``f(a, axis, …)`` whose further positional parameters are ``parameters``."""

    def reduce(recording: Recording, a: object, *given: object, **options: object) -> Traced:
        named = dict(zip(("axis", *parameters), given, strict=False)) | options
        axis, keepdims = named.pop("axis", None), named.pop("keepdims", False)
        _refuse_options(recording, f"np.{op}", named)
        return _reduction(recording, op, a, axis, keepdims)

    return reduce


# ── other array functions ────────────────────────────────────────────────────────────────────────────────────────────


def _where(recording: Recording, condition: object, *branches: object) -> Traced:
    if len(branches) != 2:
        raise TraceError(f"{recording.name}: np.where needs the two values to choose between: np.where(c, a, b)")
    return recording.apply("where", condition, *branches)


def _clip(recording: Recording, a: object, *bounds: object, **options: object) -> Any:
    """A missing bound leaves that side alone."""
    named = dict(zip(("a_min", "a_max", "out"), bounds, strict=False)) | options
    by_position, by_name = ("a_min", "a_max"), ("min", "max")
    if _is_given(named, by_position) and _is_given(named, by_name):
        raise TraceError(f"{recording.name}: np.clip takes a_min and a_max or min and max, not some of both")
    low = _bound(named.pop("a_min", None), named.pop("min", None))
    high = _bound(named.pop("a_max", None), named.pop("max", None))
    _refuse_options(recording, "np.clip", named)
    match low is None, high is None:
        case True, True:
            return a
        case True, False:
            return recording.apply("minimum", a, high)
        case False, True:
            return recording.apply("maximum", a, low)
    return recording.apply("clip", a, low, high)


def _is_given(named: Mapping[str, object], bounds: tuple[str, str]) -> bool:
    return any(named.get(b, np._NoValue) is not np._NoValue for b in bounds)


def _bound(positional: object, named: object) -> object:
    given = named if positional is None or positional is np._NoValue else positional
    return None if given is np._NoValue else given


def _round(recording: Recording, a: object, decimals: Any = 0, out: object = None) -> Traced:
    _refuse_options(recording, "np.round", {"out": out})
    if decimals != 0:
        raise TraceError(f"{recording.name}: np.round to {decimals} decimals cannot be recorded; only to whole numbers")
    return recording.apply("round", a)


def _fix(recording: Recording, x: object, out: object = None) -> Traced:
    _refuse_options(recording, "np.fix", {"out": out})
    return recording.apply("trunc", x)


def _astype(recording: Recording, x: object, target: Any, /, **options: object) -> Traced:
    _refuse_options(recording, "np.astype", options)
    return recording.traced(x).astype(target)


def _copy(recording: Recording, a: object, **options: object) -> Any:
    _refuse_options(recording, "np.copy", {k: v for k, v in options.items() if k not in ("order", "subok")})
    return a


_SUM_OPTIONS = ("dtype", "out", "keepdims", "initial", "where")
_ARRAY_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.fix: _fix,
    np.copy: _copy,
    np.sum: _reducer("sum", *_SUM_OPTIONS),
    np.mean: _reducer("mean", *_SUM_OPTIONS[:3]),
    np.max: _reducer("max", *_SUM_OPTIONS[1:]),
    np.amax: _reducer("max", *_SUM_OPTIONS[1:]),
    np.min: _reducer("min", *_SUM_OPTIONS[1:]),
    np.amin: _reducer("min", *_SUM_OPTIONS[1:]),
    np.any: _reducer("any", "out", "keepdims"),
    np.all: _reducer("all", "out", "keepdims"),
}
if hasattr(np, "astype"):  # NumPy 2.1
    _ARRAY_FUNCTIONS[np.astype] = _astype


_INSTEAD = {
    "isclose": "write np.abs(x - y) <= atol + rtol*np.abs(y)",
    "allclose": "write np.all(np.abs(x - y) <= atol + rtol*np.abs(y))",
    "array_equal": "write np.all(x == y)",
    "nan_to_num": "write np.where(np.isnan(x), 0, x), and np.clip for infinities",
}
"""What to write for functions of NumPy's that operations can spell."""


def call_array_function(
    recording: Recording, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    """One of NumPy's functions that are not ufuncs, on arguments of which at least one is traced."""
    meaning = _ARRAY_FUNCTIONS.get(function)
    if meaning is None:
        name = function.__name__
        if function is not getattr(np, name, None):  # of a module of its own, such as np.emath.sqrt or np.linalg.norm
            place = function.__module__
            advice = f"np.{name} can" if name in SPELLINGS and hasattr(np, name) else "compute it outside the function"
            raise TraceError(f"{recording.name}: {name} of {place} cannot be recorded; {advice}")
        near = [f"np.{n}" for n in nearest(name, SPELLINGS) if hasattr(np, n)]
        advice = _INSTEAD.get(name) or (f"near: {', '.join(near)}" if near else "compute it outside the function")
        raise TraceError(f"{recording.name}: np.{name} cannot be recorded; {advice}")
    return meaning(recording, *args, **kwargs)
