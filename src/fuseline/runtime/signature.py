"""What a kernel's call looks like: its operands by position or by name, places for its results, and what it returns."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fuseline.errors import ShapeError, TypeRuleError
from fuseline.ir.program import RESERVED_INPUTS
from fuseline.runtime.operands import speaks_for_itself

if TYPE_CHECKING:
    import inspect

UFUNC_OPTIONS = (RESERVED_INPUTS - {"out"}) | {"order", "subok", "signature", "sig"}
"""What NumPy's ufuncs take by name and kernels do not; an input may have one of the rarer names."""
_SHOWN_INPUTS = 6


@dataclass(frozen=True)
class Signature:
    """Names of a kernel, its operands in call order, and its results."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    """Parameters that kept their defaults when the kernel's function was traced."""
    without_ufunc: str = ""
    """Why the kernel has no ufunc; empty where it has one."""

    @functools.cached_property
    def result_type(self) -> Any:
        """The named tuple of several results."""
        return result_type(self.name, self.outputs)

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """The place of each input among the operands."""
        return {name: i for i, name in enumerate(self.inputs)}

    @property
    def is_single(self) -> bool:
        """Whether a call returns one array, and no tuple."""
        return len(self.outputs) == 1

    def result(self, values: Sequence[Any]) -> Any:
        """What a call returns for the values of its outputs."""
        return values[0] if self.is_single else self.result_type(*values)

    def with_arrays(self, result: Any) -> Any:
        """What ``out=...`` asks for: arrays of no axes where a call returns scalars, as NumPy's ufuncs do."""
        values = (result,) if self.is_single else result
        return self.result([np.asarray(v) if isinstance(v, np.generic) else v for v in values])

    def operands(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """One value for each input. Raises `TypeRuleError` for names that are unknown, missing or given twice."""
        unknown = [n for n in named if self.positions.get(n, -1) < len(args)]
        options = [n for n in unknown if n in UFUNC_OPTIONS and n not in self.positions]
        if options:
            raise TypeRuleError(self._about_options(options))
        if unknown or len(args) > len(self.inputs):
            given_twice = [n for n in unknown if n in self.positions]
            what = f"{given_twice[0]} is given twice" if given_twice else f"there is no input {', '.join(unknown)}"
            if not unknown:
                what = f"{len(args)} operand{'s are' if len(args) != 1 else ' is'} given"
            raise TypeRuleError(f"{self.name}: {what}; its inputs are {', '.join(self.inputs) or 'none'}{self._fixed}")
        missing = [n for n in self.inputs[len(args) :] if n not in named]
        if missing:
            raise TypeRuleError(f"{self.name}: the input {', '.join(missing)} is missing")
        return args + tuple(named[n] for n in self.inputs[len(args) :])

    def _about_options(self, options: Sequence[str]) -> str:
        """What a caller who gave a ufunc's options should do."""
        are = "is an option" if len(options) == 1 else "are options"
        what = f"{self.name}: {', '.join(options)} {are} of NumPy's ufuncs"
        if self.without_ufunc:
            return f"{what}, and {self.name} has no ufunc: {self.without_ufunc}"
        shown = [*self.inputs[:_SHOWN_INPUTS], *["..."] * (len(self.inputs) > _SHOWN_INPUTS)]
        shown += [f"{option}=..." for option in options]
        shown += ["out=..."] * ("where" in options)  # NumPy leaves new elements that `where` skips undefined
        return f"{what}: call the kernel's own, as in {self.name}.ufunc({', '.join(shown)})"

    @property
    def _fixed(self) -> str:
        """What a caller who gave a value for a fixed parameter should do."""
        if not self.fixed:
            return ""
        names = ", ".join(self.fixed)
        return f", and {names} kept its default when the function was read: leave the default out to make it an input"

    def places(self, out: Any) -> list[Any]:
        """What ``out=`` gives each output, or None.

        Raises `ShapeError` for another number of them and `TypeRuleError` for what is no array.
        """
        if out is None:
            return [None] * len(self.outputs)
        given = list(out) if isinstance(out, tuple) else [out]
        if len(given) != len(self.outputs):
            raise ShapeError(
                f"out has {_count(len(given), 'array')} and {self.name} has {_count(len(self.outputs), 'output')}: "
                f"{', '.join(self.outputs)}; give a tuple with an array or None for each"
            )
        for name, o in zip(self.outputs, given, strict=True):
            if o is not None and not isinstance(o, np.ndarray) and not speaks_for_itself(o):
                raise TypeRuleError(f"output {name!r} must be an array, not {type(o).__name__}")
        return given

    def for_python(self) -> inspect.Signature:
        """The same for `inspect`."""
        import inspect

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        operands = [inspect.Parameter(name, kind) for name in self.inputs]
        return inspect.Signature([*operands, inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)])


@functools.lru_cache(maxsize=1024)  # a class takes 8 KB; kernels keep their own
def result_type(name: str, outputs: tuple[str, ...]) -> Any:
    """The named tuple of a kernel's results; it pickles as its name, its fields and its values."""

    def reduce(self: Any) -> Any:
        return _result, (name, outputs, tuple(self))

    plain: Any = namedtuple(name, outputs)  # type: ignore[misc]  # names that are known when it runs
    return type(name, (plain,), {"__slots__": (), "__reduce__": reduce})


def _result(name: str, outputs: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return result_type(name, outputs)(*values)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
