"""The one table of operations.

A row says what all of fuseline needs to know of an operation: how many operands, which type rule, what it means on
arrays, what it costs, how exact it is, whether code generators print it themselves, and how the formula language and
NumPy spell it. Adding an operation is one row here and, if it is transcendental, one function in `mathlib`. Back ends
name the primitives that they print, and `ir.infer` the attributes of the few operations that have any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from fuseline import numerics as nm
from fuseline.errors import UnknownNameError, nearest

TypeRule = Literal[
    "source",  # the type is given, not derived
    "cast",  # the result dtype is the attribute `dtype`
    "bitcast",  # the same, of the same size
    "lookup",  # integer index, result dtype is the attribute `dtype`
    "arithmetic",  # promote; bool allowed
    "arithmetic_no_bool",  # promote; bool refused
    "bool_to_i8",  # promote; bool computes as i8
    "divide",  # integers divide as f64
    "float",  # integers become floats as NumPy's table of floating loops says
    "whole",  # rounding: integers and bool pass unchanged
    "compare",  # promote, result bool
    "predicate",  # any number, result bool
    "logical",  # any number, result bool
    "bitwise",  # integers and bool
    "shift",  # integers; bool computes as i8
    "select",  # bool, then promote the two branches
    "reduce_sum",  # integers widen to 64 bits
    "reduce_float",  # integers become f64
    "reduce_same",  # the operand's dtype
    "reduce_bool",  # result bool
    "tuple",  # a tuple among the operands or as the result: `ir.infer.result_type`
]
Exactness = Literal["exact", "rounded", "measured", "tree"]
"""exact: no rounding at all; rounded: correctly rounded; measured: the bound is in docs/accuracy.md; tree: correctly
rounded sums of neighbours, then of those (docs/decisions/0012)."""

IndexRule = Literal["source", "elementwise", "reduction", "tuple"]

ANY = -1
"""The arity of an operation that takes any number of operands."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row: see the module's text. ``spellings`` are names in formulas and in NumPy, the preferred one first."""

    name: str
    arity: int
    type_rule: TypeRule
    meaning: Callable[..., Any] | None
    doc: str
    spellings: tuple[str, ...] = ()
    infix: str = ""
    exactness: Exactness = "exact"
    primitive: bool = False
    """Code generators print it; everything else is expanded by `mathlib` before they see it."""
    commutative: bool = False
    index_rule: IndexRule = "elementwise"
    flops_per_element: int = 1
    """Textbook count: one per instruction and element of the result (of the operand, for a reduction)."""
    parts: tuple[str, ...] = ()
    """For several results: the operation that each of them is by itself."""

    @property
    def numpy_name(self) -> str | None:
        """What NumPy calls its own function for this operation; None where it has none."""
        if self.name == "round":
            return "rint"  # the ufunc, where `numpy.round` is none
        found = next((getattr(np, s) for s in self.spellings if hasattr(np, s)), None)
        return None if found is None else str(found.__name__)


def _row(
    name: str, arity: int, rule: TypeRule, meaning: Callable[..., Any] | None, doc: str, *spellings: str, **more: Any
) -> Operation:
    """An operation; in this order its rows take a line each."""
    return Operation(name, arity, rule, meaning, doc, spellings, **more)


def _sources() -> list[Operation]:
    kind: dict[str, Any] = {"index_rule": "source", "flops_per_element": 0, "primitive": True}
    return [
        _row("input", 0, "source", None, "an array that the caller gives", **kind),
        _row("const", 0, "source", None, "a number of a stated dtype", **kind),
        _row("literal", 0, "source", None, "a number that has not met an array yet (untyped programs only)", **kind),
    ]


def _arithmetic() -> list[Operation]:
    commuting: dict[str, Any] = {"primitive": True, "commutative": True}
    rounded: dict[str, Any] = {"primitive": True, "exactness": "rounded"}
    return [
        _row("add", 2, "arithmetic", np.add, "sum", "add", infix="+", commutative=True, **rounded),
        _row("sub", 2, "arithmetic_no_bool", np.subtract, "difference", "subtract", infix="-", **rounded),
        _row("mul", 2, "arithmetic", np.multiply, "product", "multiply", infix="*", commutative=True, **rounded),
        _row("div", 2, "divide", np.divide, "quotient", "divide", "true_divide", infix="/", **rounded),
        _row("floordiv", 2, "bool_to_i8", np.floor_divide, "quotient rounded down", "floor_divide", infix="//"),
        _row("mod", 2, "bool_to_i8", np.remainder, "remainder with the divisor's sign", "mod", "remainder", infix="%"),
        _row("fmod", 2, "bool_to_i8", np.fmod, "remainder with the dividend's sign", "fmod", primitive=True),
        _row("quotient", 2, "bitwise", nm.quotient, "integer quotient rounded toward zero", primitive=True),
        _row("pow", 2, "bool_to_i8", nm.power, "power", "power", "pow", infix="**", exactness="measured"),
        _row("neg", 1, "arithmetic_no_bool", np.negative, "sign flipped", "negative", primitive=True),
        _row("abs", 1, "arithmetic", np.absolute, "magnitude", "abs", "absolute", primitive=True),
        _row("sign", 1, "arithmetic_no_bool", np.sign, "-1, 0, 1 or NaN", "sign"),
        _row("square", 1, "bool_to_i8", np.square, "x*x", "square", exactness="rounded"),
        _row("reciprocal", 1, "bool_to_i8", nm.reciprocal, "1/x", "reciprocal", exactness="rounded"),
        _row("fma", 3, "arithmetic_no_bool", nm.fma, "a*b + c rounded once", "fma", **rounded),
        _row("minimum", 2, "arithmetic", nm.minimum, "the smaller, NaN wins, -0 below +0", "minimum", **commuting),
        _row("maximum", 2, "arithmetic", nm.maximum, "the larger, NaN wins, +0 above -0", "maximum", **commuting),
        _row("fmin", 2, "arithmetic", nm.fmin, "the smaller, numbers win over NaN", "fmin", commutative=True),
        _row("fmax", 2, "arithmetic", nm.fmax, "the larger, numbers win over NaN", "fmax", commutative=True),
        _row("clip", 3, "arithmetic", nm.clip, "minimum(maximum(x, low), high)", "clip"),
        _row("copysign", 2, "float", nm.copysign, "x with the sign of y, that of NaN being +", "copysign"),
        _row("with_sign", 2, "float", np.copysign, "x with the sign bit of y", primitive=True),
    ]


def _rounding_and_predicates() -> list[Operation]:
    p: dict[str, Any] = {"primitive": True}
    return [
        _row("floor", 1, "whole", np.floor, "rounded down", "floor", **p),
        _row("ceil", 1, "whole", np.ceil, "rounded up", "ceil", **p),
        _row("trunc", 1, "whole", np.trunc, "rounded toward zero", "trunc", "fix", **p),
        _row("round", 1, "whole", np.round, "rounded to nearest, ties to even; integers stay", "round"),
        _row("rint", 1, "float", np.rint, "rounded to nearest, ties to even", "rint", **p),
        _row("isnan", 1, "predicate", np.isnan, "is NaN", "isnan"),
        _row("isinf", 1, "predicate", np.isinf, "is infinite", "isinf"),
        _row("isfinite", 1, "predicate", np.isfinite, "is neither NaN nor infinite", "isfinite"),
        _row("signbit", 1, "predicate", nm.signbit, "is below +0; NaN is not", "signbit"),
        _row("lt", 2, "compare", np.less, "less", "less", infix="<", **p),
        _row("le", 2, "compare", np.less_equal, "less or equal", "less_equal", infix="<=", **p),
        _row("eq", 2, "compare", np.equal, "equal", "equal", infix="==", commutative=True, **p),
        _row("ne", 2, "compare", np.not_equal, "not equal", "not_equal", infix="!=", commutative=True, **p),
        _row("gt", 2, "compare", np.greater, "greater", "greater", infix=">", **p),
        _row("ge", 2, "compare", np.greater_equal, "greater or equal", "greater_equal", infix=">=", **p),
    ]


def _bits_and_choice() -> list[Operation]:
    p: dict[str, Any] = {"primitive": True}
    commuting: dict[str, Any] = {"primitive": True, "commutative": True}
    return [
        _row("and", 2, "bitwise", np.bitwise_and, "bitwise and", "bitwise_and", infix="&", **commuting),
        _row("or", 2, "bitwise", np.bitwise_or, "bitwise or", "bitwise_or", infix="|", **commuting),
        _row("xor", 2, "bitwise", np.bitwise_xor, "bitwise exclusive or", "bitwise_xor", infix="^", **commuting),
        _row("invert", 1, "bitwise", np.invert, "bits flipped; logical not of a bool", "invert", "bitwise_not", **p),
        _row("shl", 2, "shift", nm.shift_left, "shifted left", "left_shift", infix="<<", **p),
        _row("shr", 2, "shift", nm.shift_right, "shifted right, a sign being kept", "right_shift", infix=">>", **p),
        _row("logical_and", 2, "logical", np.logical_and, "both nonzero", "logical_and", commutative=True),
        _row("logical_or", 2, "logical", np.logical_or, "either nonzero", "logical_or", commutative=True),
        _row("logical_xor", 2, "logical", np.logical_xor, "exactly one nonzero", "logical_xor", commutative=True),
        _row("logical_not", 1, "logical", np.logical_not, "is zero", "logical_not"),
        _row("where", 3, "select", np.where, "the second where the first is true, else the third", "where", **p),
        _row("cast", 1, "cast", None, "converted to another dtype, rounding", **p),
        _row("bitcast", 1, "bitcast", None, "the same bits as another dtype", **p),
        _row("lookup", 1, "lookup", None, "an entry of a small constant table", **p),
    ]


def _functions() -> list[Operation]:
    def function(name: str, meaning: Callable[..., Any], doc: str, *others: str, arity: int = 1) -> Operation:
        return _row(name, arity, "float", nm.via_double(meaning), doc, name, *others, exactness="measured")

    sqrt = _row("sqrt", 1, "float", np.sqrt, "square root", "sqrt", exactness="rounded", primitive=True)
    return [
        sqrt,
        function("rsqrt", lambda x: 1.0 / np.sqrt(x), "1/sqrt(x); -inf at -0 as C23's rsqrt"),
        function("cbrt", np.cbrt, "cube root"),
        function("exp", np.exp, "e to the x"),
        function("exp2", np.exp2, "2 to the x"),
        function("expm1", np.expm1, "exp(x) - 1"),
        function("log", np.log, "natural logarithm"),
        function("log2", np.log2, "logarithm to base 2"),
        function("log10", np.log10, "logarithm to base 10"),
        function("log1p", np.log1p, "log(1 + x)"),
        function("sin", np.sin, "sine"),
        function("cos", np.cos, "cosine"),
        function("tan", np.tan, "tangent"),
        function("asin", np.arcsin, "inverse sine", "arcsin"),
        function("acos", np.arccos, "inverse cosine", "arccos"),
        function("atan", np.arctan, "inverse tangent", "arctan"),
        function("sinh", np.sinh, "hyperbolic sine"),
        function("cosh", np.cosh, "hyperbolic cosine"),
        function("tanh", np.tanh, "hyperbolic tangent"),
        function("asinh", np.arcsinh, "inverse hyperbolic sine", "arcsinh"),
        function("acosh", np.arccosh, "inverse hyperbolic cosine", "arccosh"),
        function("atanh", np.arctanh, "inverse hyperbolic tangent", "arctanh"),
        function("erf", nm.erf, "error function"),
        function("erfc", nm.erfc, "1 - erf(x)"),
        function("sigmoid", nm.sigmoid, "1/(1 + exp(-x))"),
        function("softplus", nm.softplus, "log(1 + exp(x))"),
        function("silu", nm.silu, "x*sigmoid(x)", "swish"),
        function("gelu", nm.gelu, "x*Phi(x), the erf form"),
        function("gelu_tanh", nm.gelu_tanh, "GELU's tanh form"),
        _row("relu", 1, "arithmetic_no_bool", nm.relu, "maximum(x, 0)", "relu"),
        function("hypot", np.hypot, "sqrt(x*x + y*y) without overflow", arity=2),
        function("atan2", np.arctan2, "angle of (x, y)", "arctan2", arity=2),
        function("logaddexp", np.logaddexp, "log(exp(x) + exp(y))", arity=2),
    ]


def _reductions() -> list[Operation]:
    kind: dict[str, Any] = {"index_rule": "reduction"}
    return [
        _row("sum", 1, "reduce_sum", None, "sum over axes", "sum", exactness="tree", **kind),
        _row("mean", 1, "reduce_float", None, "mean over axes", "mean", exactness="tree", **kind),
        _row("max", 1, "reduce_same", nm.maximum, "largest over axes, NaN wins", "max", "amax", **kind),
        _row("min", 1, "reduce_same", nm.minimum, "smallest over axes, NaN wins", "min", "amin", **kind),
        _row("any", 1, "reduce_bool", np.logical_or, "any nonzero over axes", "any", **kind),
        _row("all", 1, "reduce_bool", np.logical_and, "all nonzero over axes", "all", **kind),
    ]


def _tuples() -> list[Operation]:
    kind: dict[str, Any] = {"index_rule": "tuple", "flops_per_element": 0}
    both = "quotient rounded down, and remainder"
    return [
        _row("divmod", 2, "tuple", None, both, "divmod", parts=("floordiv", "mod"), **kind),
        _row("proj", 1, "tuple", None, "one of several results, chosen by the attribute index", **kind),
        _row("repeat", ANY, "tuple", None, "the graph in the attribute body, applied count times", **kind),
    ]


OPERATIONS = MappingProxyType(
    {
        row.name: row
        for rows in (
            _sources(),
            _arithmetic(),
            _rounding_and_predicates(),
            _bits_and_choice(),
            _functions(),
            _reductions(),
            _tuples(),
        )
        for row in rows
    }
)
"""Every operation by name."""

SPELLINGS = MappingProxyType({s: row.name for row in OPERATIONS.values() for s in row.spellings})
"""Function names of formulas and of NumPy, to the operation's name."""

INFIX = MappingProxyType({row.infix: row.name for row in OPERATIONS.values() if row.infix})
"""Binary operators, to the operation's name."""


def operation(name: str) -> Operation:
    """The row called ``name``; `UnknownNameError` with near names otherwise."""
    try:
        return OPERATIONS[name]
    except KeyError:
        near = nearest(name, OPERATIONS)
        raise UnknownNameError(
            f"no operation is called {name!r}" + (f"; near: {', '.join(near)}" if near else "")
        ) from None
