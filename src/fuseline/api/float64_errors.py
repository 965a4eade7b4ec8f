"""How far results are from the program computed in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuseline.codegen.numpy import NumpyProgram, build_steps
from fuseline.errors import FuselineError
from fuseline.ir.dtype import F64
from fuseline.ir.graph import Graph
from fuseline.ir.program import Program
from fuseline.ir.specialise import specialise
from fuseline.ir.types import TensorType
from fuseline.passes.pipeline import optimize

Array = np.ndarray[Any, Any]
_CHUNK = 1 << 20


def errors_against_float64(
    program: Program, graph: Graph, inputs: Mapping[str, Array], calls: Mapping[int, Callable[[], Any]]
) -> dict[int, float]:
    """How far results of each of ``calls`` of ``graph`` are from the program computed in float64, at most, by NumPy.

    A call returns an array or a sequence of them; all calls may write into the same arrays. Empty where a declaration
    or a cast of the program fixes what float64 would have to replace.
    """
    wide_inputs = {name: a.astype(np.float64) if a.dtype.kind not in "biu" else a for name, a in inputs.items()}
    types = {
        node.attr("name"): TensorType(F64 if node.dtype.is_float else node.dtype, node.tensor.shape)
        for node in graph.inputs
    }
    try:
        steps = build_steps(optimize(specialise(program, types)))
    except FuselineError:
        return {}
    reference = _in_chunks(steps, wide_inputs)
    return {
        index: max((_distance(r, t) for r, t in zip(_results(call()), reference, strict=True)), default=0.0)
        for index, call in calls.items()
    }


def _results(returned: Any) -> Sequence[Array]:
    """The results of a call, which are one array or a sequence of them."""
    return returned if isinstance(returned, (tuple, list)) else [returned]


def _in_chunks(steps: NumpyProgram, inputs: Mapping[str, Array]) -> list[Array]:
    """NumPy's results in float64, a piece at a time where every array is one axis of the same length."""
    shapes = {a.shape for a in inputs.values()}
    reduces = any("axis" in dict(s.options) for s in steps.steps)
    if len(shapes) != 1 or len(next(iter(shapes))) != 1 or reduces:
        return list(steps.run(inputs).values())
    length = next(iter(shapes))[0]
    pieces = []
    for start in range(0, max(length, 1), _CHUNK):
        part = {name: a[start : start + _CHUNK] for name, a in inputs.items()}
        pieces.append(list(steps.run(part).values()))
    # A result without axes depends on no array, so that every piece has all of it.
    return [np.concatenate(parts) if np.ndim(parts[0]) else parts[0] for parts in zip(*pieces, strict=True)]


def _distance(result: Array, reference: Array) -> float:
    """Largest difference; equal infinities and NaNs are no difference, a NaN against a number is an infinite one."""
    with np.errstate(all="ignore"):
        worst = 0.0
        for start in range(0, result.size, _CHUNK):
            a = result.reshape(-1)[start : start + _CHUNK].astype(np.float64)
            b = reference.reshape(-1)[start : start + _CHUNK].astype(np.float64)
            difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
            worst = max(worst, float(np.where(np.isnan(difference), np.inf, difference).max(initial=0.0)))
    return worst
