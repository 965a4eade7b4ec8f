"""The programs as NumPy runs them best: one ufunc after another into buffers that are kept and reused between calls."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from programs import Array, Program

Run = Callable[..., Any]


class Functions:
    """NumPy's functions, SciPy's where NumPy has none: what a program is called with for one array at a time."""

    def __init__(self) -> None:
        special = importlib.import_module("scipy.special")
        self.erf, self.sigmoid = special.erf, special.expit
        self._bfloat16 = importlib.import_module("ml_dtypes").bfloat16

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def bf16(self, x: Array) -> Array:
        """Rounded to bfloat16; the float64 reference stays as it is."""
        return x if x.dtype == np.float64 else x.astype(self._bfloat16)


@dataclass
class _Step:
    """``run(*operands, out=buffer)``; operands are arrays, numbers or values of earlier steps."""

    run: Run
    operands: tuple[Any, ...]
    result: _Value
    dtype: Any


@dataclass
class _Recorder:
    steps: list[_Step] = field(default_factory=list)

    def add(self, run: Run, *operands: Any, dtype: Any = np.float32) -> _Value:
        shapes = [x.shape for x in operands if isinstance(x, _Value)]
        value = _Value(self, np.broadcast_shapes(*shapes))
        self.steps.append(_Step(run, operands, value, dtype))
        return value


@dataclass(eq=False)
class _Value:
    recorder: _Recorder
    shape: tuple[int, ...]
    array: Any = None

    def __add__(self, other: Any) -> _Value:
        return self.recorder.add(np.add, self, other)

    def __radd__(self, other: Any) -> _Value:
        return self.recorder.add(np.add, other, self)

    def __sub__(self, other: Any) -> _Value:
        return self.recorder.add(np.subtract, self, other)

    def __rsub__(self, other: Any) -> _Value:
        return self.recorder.add(np.subtract, other, self)

    def __mul__(self, other: Any) -> _Value:
        return self.recorder.add(np.multiply, self, other)

    def __rmul__(self, other: Any) -> _Value:
        return self.recorder.add(np.multiply, other, self)

    def __truediv__(self, other: Any) -> _Value:
        return self.recorder.add(np.divide, self, other)


class _Recording:
    """The namespace that records."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder
        self._functions = Functions()

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._functions, name)
        return lambda *operands: self._recorder.add(function, *operands)

    def isnan(self, x: _Value) -> _Value:
        return self._recorder.add(np.isnan, x, dtype=np.bool_)

    def bf16(self, x: _Value) -> _Value:
        def rounded(a: Array, out: Array) -> None:
            np.copyto(out, a, casting="unsafe")

        return self._recorder.add(rounded, x, dtype=importlib.import_module("ml_dtypes").bfloat16)

    def where(self, condition: _Value, a: float, b: _Value) -> _Value:
        def chosen(c: Array, x: float, y: Array, out: Array) -> None:
            np.copyto(out, y)
            np.copyto(out, x, where=c)

        return self._recorder.add(chosen, condition, a, b)


def planned(program: Program, inputs: Mapping[str, Array], outputs: list[Array]) -> Callable[[], None]:
    """A call that computes ``program`` into ``outputs``; temporaries share memory as soon as they are read for the last
    time."""
    recorder = _Recorder()
    given = {name: _Value(recorder, a.shape, a if a.ndim else a.item()) for name, a in inputs.items()}
    results = program.function(_Recording(recorder), *given.values())
    for value, array in zip(results, outputs, strict=True):
        value.array = array
    last_use = {id(x): step for step in recorder.steps for x in step.operands}
    idle: list[Array] = []
    for step in recorder.steps:
        if step.result.array is None:
            fit = [a for a in idle if a.shape == step.result.shape and a.dtype == step.dtype]
            step.result.array = fit[0] if fit else np.zeros(step.result.shape, step.dtype)
            idle = [a for a in idle if a is not step.result.array]
        kept = {id(v.array) for v in (*given.values(), *results)}
        idle += [
            x.array
            for x in {id(x): x for x in step.operands if isinstance(x, _Value)}.values()
            if last_use[id(x)] is step and id(x.array) not in kept
        ]
    plan = [
        (s.run, [x.array if isinstance(x, _Value) else x for x in s.operands], s.result.array) for s in recorder.steps
    ]

    def call() -> None:
        for run, operands, out in plan:
            run(*operands, out=out)

    return call
