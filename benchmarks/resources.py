"""Which resource binds a program: instructions, counted and timed on one vector in the first-level cache, or memory."""

from __future__ import annotations

import ctypes
import itertools
import json
import re
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import fuseline
import programs
from fuseline.codegen.llvm.still import that_matter
from fuseline.passes.pipeline import optimize
from fuseline.runtime import host, iterate
from fuseline.runtime.generate import assembly_text
from fuseline.runtime.loop import Body
from programs import Program

_CALLS_A_SAMPLE = 20_000
_SAMPLES = 60
_DIVIDERS = ("div", "sqrt")


def main() -> None:
    """Print a JSON object a line for each program: a number of threads, then the programs' names."""
    for name in sys.argv[2:]:
        print(json.dumps({"program": name, **measure(programs.PROGRAMS[name], int(sys.argv[1]))}))


def measure(program: Program, threads: int) -> dict[str, Any]:
    """Instructions of one pass of the loop, and the seconds it takes where memory plays no part.

    Processors may share a core's units, so the time is taken on one thread and on ``threads`` at once.
    """
    inputs = program.inputs(1 << 14)
    kernel = fuseline.compile(program.formula, name=program.name)
    operands = [np.asarray(inputs[name]) for name in kernel.inputs]
    dtypes = tuple(a.dtype for a in operands)
    results = kernel(*operands)
    call = iterate.prepare(
        kernel.specialisation(dtypes).loop, operands, list(results) if isinstance(results, tuple) else [results]
    )
    assert call is not None
    body = call.loop.body()
    shape = np.broadcast_shapes(*(a.shape for a in operands))
    values = [np.broadcast_to(a, shape).ravel()[: body.lanes] for a in operands]
    values += [np.zeros(body.lanes, d) for d in call.loop.outputs]
    assembly = fuseline_assembly(kernel, dtypes, call.plan.still)
    return {
        "lanes": body.lanes,
        "seconds_a_vector": {count: _seconds(body, values, count) for count in {1, threads}},
        **count(assembly),
    }


def fuseline_assembly(kernel: Any, dtypes: tuple[np.dtype[Any], ...], still: tuple[int, ...]) -> str:
    """The assembly of the kernel's body for these input dtypes and inputs that stand still in the calls."""
    graph = optimize(kernel.typed_graph(dtypes))
    return assembly_text(graph, that_matter(graph, host.host_target(), still))


def _side_by_side(values: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Copies on borders of 64 bytes, one behind the other: a load waits for a store whose address ends in the same 12
    bits."""
    ends = list(itertools.accumulate(-(-v.nbytes // 64) * 64 for v in values))
    store = np.zeros(ends[-1] + 64, np.uint8)
    first = -store.ctypes.data % 64
    vectors = []
    for v, end in zip(values, ends, strict=True):
        start = first + end - -(-v.nbytes // 64) * 64
        vectors.append(store[start : start + v.nbytes].view(v.dtype))
        vectors[-1][:] = v
    return vectors


def _seconds(body: Body, values: list[np.ndarray[Any, Any]], threads: int) -> float:
    """Time of one pass when every pass reads and writes the same vectors, on ``threads`` threads at once: the median.

    Threads start and end when the system lets them, so only samples that all of them were at work in count. The least
    time would be that of a moment in which the others did not run.
    """
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(body.address)
    increments = (ctypes.c_int64 * len(values))()
    start_together = threading.Barrier(threads)

    def samples(_: int) -> list[tuple[int, int]]:
        vectors = _side_by_side(values)
        addresses = (ctypes.c_void_p * len(vectors))(*(v.ctypes.data for v in vectors))
        start_together.wait()
        found = []
        for _ in range(_SAMPLES):
            start = time.perf_counter_ns()
            run(ctypes.addressof(addresses), ctypes.addressof(increments), _CALLS_A_SAMPLE, 0)
            found.append((start, time.perf_counter_ns()))
        return found

    with ThreadPoolExecutor(threads) as pool:
        by_thread = list(pool.map(samples, range(threads)))
    first, last = max(own[0][0] for own in by_thread), min(own[-1][1] for own in by_thread)
    shared = [[end - start for start, end in own if start >= first and end <= last] for own in by_thread]
    return max(statistics.median(own) for own in shared if own) * 1e-9 / _CALLS_A_SAMPLE


def count(assembly: str) -> dict[str, int]:
    """Instructions of one pass of the loop in a body's assembly: all, those that touch memory, divisions and roots.

    The pass falls through every conditional jump but the last, as code for rare operands is out of the way.
    """
    lines = assembly[assembly.index("\nbody:") :].splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"(\.L\w+):", line))}
    targets = {i: labels[m[1]] for i, line in enumerate(lines) if (m := _JUMP.match(line)) and m[1] in labels}
    top = min(target for source, target in targets.items() if target < source)
    loop: list[str] = []
    at = top
    while at < len(lines) and len(loop) < len(lines):
        line, target = lines[at].strip(), targets.get(at)
        if re.match(r"[a-z]", line):
            loop.append(line)
        jumps_always = target is not None and re.match(r"(jmp|b)\s", line)
        at = target if target is not None and jumps_always else at + 1
        if top in (at, target):
            break
    memory = [i for i in loop if re.search(r"\(%\w+|\[\w+", i) and not i.startswith("lea")]
    return {
        "instructions": len(loop),
        "memory_instructions": len(memory),
        "constants_and_spills": sum("%rip" in i or "%rsp" in i or "[sp" in i for i in memory),
        "divisions": sum(any(d in i.split()[0] for d in _DIVIDERS) for i in loop),
    }


_JUMP = re.compile(r"\s+(?:j\w+|b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(\.L\w+)")
"""A jump of x86-64 or AArch64 and its target."""


if __name__ == "__main__":
    main()
