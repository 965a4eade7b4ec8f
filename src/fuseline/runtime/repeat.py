"""A loop as a function of arrays whose calls like an earlier one run in native code: what stages are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from fuseline.floating_point import in_default_environment
from fuseline.runtime import arrays as array_layout
from fuseline.runtime import iterate, threads
from fuseline.runtime.fastcall import FastCall
from fuseline.runtime.loop import Loop

Array = NDArray[Any]


def repeating(loop: Loop) -> Callable[..., Any]:
    """``loop`` as a function of its inputs, plain arrays of its dtypes, that returns its one output, or a tuple."""
    single = len(loop.outputs) == 1
    fast: FastCall | None = None

    @in_default_environment
    def first_of_its_kind(*inputs: Array) -> Any:
        results = iterate.run(loop, inputs, [None] * len(loop.outputs))
        prepared = iterate.prepare(loop, inputs, results)
        if fast is not None and prepared is not None and prepared.shape:
            fast.remember(loop, None, None, None if single else tuple)
            fast.prepare(prepared, [False] * len(inputs), threads.limit_variable.get())
        return results[0] if single else tuple(results)

    if not loop.inputs or not array_layout.is_known():
        return first_of_its_kind
    fast = FastCall(first_of_its_kind, 0, single)
    return fast.function
