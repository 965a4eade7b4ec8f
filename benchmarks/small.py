"""Costs that do not depend on the size of arrays: a call's overhead, a cold compile, a warm load.

`kernels.py` starts this file in fresh processes: `overhead`, or `first NAME` with an empty or a filled cache.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

import numpy as np
import peers
from rows import in_turn

from programs import PROGRAMS, Program

_FIRST = PROGRAMS["bias_gelu_residual"]


def main() -> None:
    """Print one JSON object."""
    print(json.dumps(overhead() if sys.argv[1] == "overhead" else first_call(sys.argv[2])))


def overhead() -> dict[str, float]:
    """Median seconds on a processor of a call on arrays of one element, with a fresh result and with one that is
    there."""
    import fuseline

    add = fuseline.compile("out = x + y", name="add")
    x, y, out = (np.ones(1, np.float32) for _ in range(3))
    ufunc = add.ufunc
    gelu = fuseline.compile(_FIRST.formula, name="gelu")
    b, gelu_ufunc = np.ones(1, np.float32), gelu.ufunc
    calls = {
        "np.add": lambda: np.add(x, y),
        "k.ufunc, x + y": lambda: ufunc(x, y),
        "k, x + y": lambda: add(x, y),
        "np.add, out": lambda: np.add(x, y, out=out),
        "k.ufunc, x + y, out": lambda: ufunc(x, y, out=out),
        "k, x + y, out": lambda: add(x, y, out=out),
        "k.ufunc, bias + GELU + residual": lambda: gelu_ufunc(x, b, y),
        "k, bias + GELU + residual": lambda: gelu(x, b, y),
        "empty call": lambda: None,
    }
    for call in calls.values():
        call()
    timings = in_turn(calls, 25, 60.0, 1, time.process_time_ns)
    return {name: t.median_s for name, t in timings.items()}


def first_call(name: str) -> dict[str, Any]:
    """Seconds from a formula to its first result in a process where the library has run another program already."""
    inputs, start = _FIRST.inputs(1), PROGRAMS["residual_scale_bias"]
    if name == "fuseline":
        return _first_call_of_fuseline([inputs[n] for n in ("x", "b", "r")], start)
    for form in peers.PEERS[name](start, start.inputs(1), 1)[:1]:
        form.call()
    started = time.perf_counter()
    peers.PEERS[name](_FIRST, inputs, 1)[0].call()
    return {"first_call_s": time.perf_counter() - started}


def _first_call_of_fuseline(operands: list[Any], start: Program) -> dict[str, Any]:
    import fuseline
    from fuseline.runtime import native
    from fuseline.runtime.compile import elementwise_loop

    marks = [time.perf_counter()]
    native.support()  # shared by all kernels
    marks.append(time.perf_counter())
    for form in peers.fuseline(start, start.inputs(1), 1)[:1]:
        form.call()
    marks.append(time.perf_counter())
    graph = fuseline.compile(_FIRST.formula).typed_graph(tuple(a.dtype for a in operands))
    marks.append(time.perf_counter())
    elementwise_loop(graph).body()
    marks.append(time.perf_counter())
    shared_s, start_s, graph_s, body_s = (b - a for a, b in itertools.pairwise(marks))
    return {"shared_s": shared_s, "start_s": start_s, "graph_s": graph_s, "body_s": body_s,
            "first_call_s": graph_s + body_s}  # fmt: skip


if __name__ == "__main__":
    main()
