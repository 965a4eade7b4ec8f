"""`measure`: every implementation of one program timed on this host, taking turns, beside the copy limit.

Each row is laid against the first (NumPy, one operation at a time), against float64, and against a loop that only moves
the fused program's arrays, run in the same minutes with the same threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fuseline.api.c_function import CFunction
from fuseline.api.defaults import MEASURED_N, QUICK_FACTOR, RUN_DTYPE
from fuseline.api.explanation import C_LIBM, C_OWN, JIT, NUMPY, PLANNED, Measured
from fuseline.api.float64_errors import errors_against_float64
from fuseline.api.kernel import ReducingKernel, kernel_of
from fuseline.api.program import Source, as_program, bound_sizes
from fuseline.codegen.c import Functions, emit_program
from fuseline.codegen.numpy import build_steps
from fuseline.cost.ledger import Sizes, make_ledger
from fuseline.errors import CompilerError, FuselineError, LimitError, UnsupportedError, UsageError
from fuseline.ir.dtype import DType
from fuseline.ir.dtype import dtype as dtype_of
from fuseline.ir.graph import Graph
from fuseline.ir.program import Program
from fuseline.ir.specialise import input_types, specialise
from fuseline.ir.types import TensorType
from fuseline.ops import OPERATIONS
from fuseline.passes.pipeline import optimize
from fuseline.plan.launch import fused, single_launches
from fuseline.runtime import threads
from fuseline.runtime.compiler import find_c_compiler
from fuseline.runtime.copy_limit import copy_limit
from fuseline.runtime.environment import THREAD_LIMIT
from fuseline.runtime.host import physical_memory_bytes
from fuseline.runtime.measure import Interrupted, Timing, faster, interleaved
from fuseline.runtime.staged import StagedProgram
from fuseline.units import format_bytes

_LEAST_COPY_BYTES = 1 << 20
"""Below this a copy takes hardly longer than its call, so it is no limit."""

Array = np.ndarray[Any, Any]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """One row to be: what to call and which bytes it moves by its own traffic model; ``note`` says why it cannot
    run."""

    implementation: str
    threads: int
    bytes: int
    call: Callable[[], object] | None
    note: str = ""


class MeasuringInterrupted(KeyboardInterrupt):
    """An interrupt while rows were timed; ``rows`` are all of them, with times where there are some by then."""

    def __init__(self, rows: tuple[Measured, ...]) -> None:
        super().__init__()
        self.rows = rows


NOT_TIMED = "interrupted before it was timed"
"""The note of a row that an interrupt left without a time."""


def measure(
    source: Source,
    *,
    n: int = MEASURED_N,
    dtype: DType | str = RUN_DTYPE,
    outputs: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    thread_counts: Iterable[int] | None = None,
    quick: bool = False,
    progress: Progress | None = None,
) -> tuple[Measured, ...]:
    """Time NumPy, planned NumPy, C with the C library's functions, C with our own, and the compiled kernel.

    NumPy's rows are the calls of the NumPy text, the planned ones into buffers that were made before; C's are calls of
    its function by its address; the kernel's is ``k(x, ..., out=y)``, or ``k(x, ...)`` where the program reduces.

    Args:
        source: text of a formula or a graph, function, program or graph.
        n: elements of each array that the program does not declare; 16 times fewer with ``quick``.
        dtype: dtype of those arrays, filled with seeded normals; rows are named by the first array's.
        outputs: names to return.
        sizes: values of named sizes.
        thread_counts: from 1 to 1024 each; by default one and as many as this process may use.
        quick: smaller arrays and fewer repetitions.
        progress: called with the name of each step.

    A row that cannot run here has no times and says why. Raises `LimitError` for arrays that this machine cannot hold
    and `UsageError` for an ``n`` or thread counts that count nothing; `MeasuringInterrupted` for an interrupt while
    rows are timed.
    """
    if progress is not None and not callable(progress):
        raise UsageError(f"progress is a function of the name of each step, not {progress!r:.60}")
    tell = progress or (lambda _: None)
    if not _is_count(n):
        raise UsageError(f"n is the elements of an array, a whole number of at least 1, not {n!r:.60}")
    counts = _counts(thread_counts)
    program = as_program(source, outputs)
    count = max(1, n // QUICK_FACTOR) if quick else n
    bound = bound_sizes(program, sizes)
    graph, symbolic = _graphs(program, dtype_of(dtype), count, bound)
    _check_memory(graph)
    with np.errstate(all="ignore"), ExitStack() as pools:
        bench = _Bench(program, graph, symbolic, {**bound, "n": count}, pools)
        candidates = [_tried(c) for c in bench.candidates(counts, tell)]
        tell("float64")
        calls = {i: c.call for i, c in enumerate(candidates) if c.call is not None}
        errors = errors_against_float64(program, graph, bench.inputs, calls)
        tell("timing")
        interrupted = False
        timed: Mapping[int | tuple[int, int], Timing]
        try:
            timed = bench.time(candidates, counts, quick)
        except Interrupted as interrupt:
            timed, interrupted = interrupt.timings, True
        timings, limits = _by_row(timed)
    first = timings.get(0)
    rows = tuple(
        _row(candidate, bench, timings.get(index), limits.get(candidate.threads), first, errors.get(index))
        for index, candidate in enumerate(candidates)
    )
    if interrupted:
        raise MeasuringInterrupted(rows)
    return rows


def _counts(stated: Iterable[int] | None) -> list[int]:
    """The thread counts to measure with, each once."""
    if stated is None:
        return list(dict.fromkeys((1, threads.thread_count())))
    counts = list(stated) if isinstance(stated, Iterable) else []
    if not counts or not all(_is_count(c) and c <= THREAD_LIMIT for c in counts):
        shown = counts if counts else stated
        raise UsageError(f"thread counts are whole numbers from 1 to {THREAD_LIMIT}, as [1, 4], not {shown!r:.60}")
    return list(dict.fromkeys(map(int, counts)))


def _graphs(program: Program, dtype: DType, count: int, bound: Mapping[str, int]) -> tuple[Graph, Graph]:
    """The program's graph for arrays of ``count`` elements where no shape is declared, and the same with its sizes left
    open; the first one twice where what is declared meets what is not at these very lengths."""
    graph = optimize(specialise(program, input_types(program, dtype, (count,), bound)))
    symbolic = optimize(specialise(program, input_types(program, dtype)))
    shapes = {node.tensor.shape for node in symbolic.inputs}
    return graph, graph if None in shapes and any(shapes) else symbolic


def _is_count(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1


def _tried(candidate: Candidate) -> Candidate:
    """The candidate after a first call; one that fails says why instead of ending the measurement."""
    if candidate.call is not None:
        try:
            candidate.call()
        except (FuselineError, MemoryError) as error:
            return replace(candidate, call=None, note=" ".join(str(error).split()) or type(error).__name__)
    return candidate


def _check_memory(graph: Graph) -> None:
    """Refuse what would have the machine swap or kill: NumPy keeps every value of the unfused program."""
    needed = sum(int(Sizes({}).bytes_of(n)) for n in (*graph.inputs, *graph.nodes, *graph.output_nodes))
    available = physical_memory_bytes()
    if needed > available:
        raise LimitError(
            f"measuring needs {format_bytes(needed)} for arrays and intermediates, and this machine has "
            f"{format_bytes(available)}; take fewer elements (--n)"
        )


def _row(
    candidate: Candidate,
    bench: _Bench,
    timing: Timing | None,
    limit: Timing | None,
    first: Timing | None,
    error: float | None,
) -> Measured:
    n, dtype = bench.elements, (*bench.graph.inputs, *bench.graph.output_nodes)[0].dtype.name
    if timing is None:
        note = candidate.note if candidate.call is None else NOT_TIMED
        return Measured(candidate.implementation, candidate.threads, n, dtype, None, note=note)
    rate = candidate.bytes / timing.median_s
    limit_rate = bench.fused_bytes / limit.median_s if limit is not None else None
    if bench.fused_bytes < _LEAST_COPY_BYTES:
        limit_rate = None
    return Measured(
        implementation=candidate.implementation,
        threads=candidate.threads,
        n=n,
        dtype=dtype,
        median_s=timing.median_s,
        spread_s=timing.spread_s if timing.samples > 1 else None,
        bytes_per_s=rate,
        max_abs_error=error,
        fraction_of_limit=rate / limit_rate if limit_rate else None,
        speedup=first.median_s / timing.median_s if first is not None else None,
    )


class _Bench:
    """The arrays of one measurement and the ways to compute on them."""

    def __init__(
        self, program: Program, graph: Graph, symbolic: Graph, sizes: Mapping[str, int], pools: ExitStack
    ) -> None:
        self.program = program
        self.graph = graph
        self.symbolic = symbolic
        """The same program with its sizes left open, for texts whose loops take them as parameters."""
        self.sizes = sizes
        self.pools = pools
        """Ends the threads that rows start."""
        amounts = Sizes(sizes)
        self.unfused_bytes = int(make_ledger(single_launches(graph), amounts).bytes)
        launches = fused(graph).launches
        self.fused_bytes = int(make_ledger(launches, amounts).bytes)
        self.inputs = {
            node.attr("name"): _seeded_array(_concrete(node.tensor), node.dtype.numpy, seed)
            for seed, node in enumerate(graph.inputs)
        }
        self.outputs = [np.zeros(_concrete(n.tensor), n.dtype.numpy) for n in graph.output_nodes]
        read = {n for launch in launches for n in launch.reads}
        self.read = [self.inputs[n.attr("name")] for n in graph.inputs if n in read]
        """The inputs that the fused program reads: all that a copy of its arrays may read."""

    @property
    def elementwise(self) -> bool:
        """Whether every result has the shape that its operands broadcast to."""
        return all(OPERATIONS[n.op].index_rule != "reduction" for n in self.graph.nodes)

    @property
    def elements(self) -> int:
        """Elements of the largest array."""
        return max(a.size for a in (*self.inputs.values(), *self.outputs))

    def candidates(self, counts: Sequence[int], tell: Progress) -> list[Candidate]:
        found = [self.numpy(NUMPY, planned=False), self.numpy(PLANNED, planned=True)]
        functions: tuple[tuple[str, Functions], ...] = ((C_LIBM, "libm"), (C_OWN, "own"))
        for implementation, whose in functions:
            tell(implementation)
            found += self.c_rows(implementation, whose, counts)
        tell(JIT)
        return found + self.jit_rows(counts)

    def numpy(self, implementation: str, planned: bool) -> Candidate:
        try:
            steps = build_steps(self.graph, planned)
            buffers = steps.make_buffers(self.inputs)
        except FuselineError as error:
            return Candidate(implementation, 1, self.unfused_bytes, None, str(error))
        return Candidate(implementation, 1, self.unfused_bytes, steps.bound(self.inputs, buffers or None))

    def c_rows(self, implementation: str, functions: Functions, counts: Sequence[int]) -> list[Candidate]:
        try:
            compiler = find_c_compiler()
            if compiler is None:
                raise CompilerError("no C compiler found (CC, cc, gcc, clang)")
            text = emit_program(self.symbolic, "kernel", functions)
            sizes = [self.sizes[name] for name in text.sizes]
            function = CFunction(compiler, text, sizes, list(self.inputs.values()), self.outputs)
        except (UnsupportedError, CompilerError) as error:
            return [Candidate(implementation, counts[0], self.fused_bytes, None, str(error))]
        possible = [c for c in counts if c == 1 or text.sizes == ("n",)]
        return [Candidate(implementation, c, self.fused_bytes, function.caller(c, self.pools)) for c in possible]

    def jit_rows(self, counts: Sequence[int]) -> list[Candidate]:
        try:
            moved_bytes = self.fused_bytes if self.elementwise else StagedProgram(self.graph).moved_bytes
            call = self.kernel_call()
            call()
        except FuselineError as error:
            return [Candidate(JIT, counts[0], self.fused_bytes, None, str(error))]
        return [Candidate(JIT, c, moved_bytes, call) for c in counts]

    def kernel_call(self) -> Callable[[], object]:
        """``k(x, b, out=y)`` as a user calls it; without ``out`` where reductions make the results."""
        kernel = kernel_of(self.program, "kernel")
        operands = [self.inputs[name] for name in kernel.inputs]
        if isinstance(kernel, ReducingKernel):
            return partial(kernel, *operands)
        return partial(kernel, *operands, out=self.outputs[0] if len(self.outputs) == 1 else tuple(self.outputs))

    def limits(self, scratch: list[Array], count: int) -> list[Callable[[], object]]:
        """Copies of the same arrays with both kinds of stores; none where it is no copy (a reduction, a result that is
        smaller than the others) or no loop can read the dtypes."""
        shapes = [a.shape for a in (*self.read, *self.outputs)]
        if not self.elementwise or any(o.shape != np.broadcast_shapes(*shapes) for o in self.outputs):
            return []
        try:
            return [copy_limit(self.read, scratch, count, past_caches=past) for past in (False, True)]
        except UnsupportedError:
            return []

    def time(
        self, candidates: Sequence[Candidate], counts: Sequence[int], quick: bool
    ) -> dict[int | tuple[int, int], Timing]:
        """Seconds of each candidate that can run, by its position, and of copies, by threads and kind of stores."""
        calls: dict[int | tuple[int, int], Callable[[], object]] = {}
        for index, candidate in enumerate(candidates):
            if candidate.call is not None:
                calls[index] = candidate.call
        scratch = [np.empty_like(o) for o in self.outputs]
        for count in counts:
            for kind, limit in enumerate(self.limits(scratch, count)):
                calls[count, kind] = limit
        limited: dict[int | tuple[int, int], Callable[[], AbstractContextManager[None]]] = {
            key: partial(threads.limit, candidates[key].threads) for key in calls if isinstance(key, int)
        }
        repetitions, time_limit_s = (7, 4.0) if quick else (11, 25.0)
        return interleaved(calls, repetitions=repetitions, time_limit_s=time_limit_s, within=limited)


def _by_row(timed: Mapping[int | tuple[int, int], Timing]) -> tuple[dict[int, Timing], dict[int, Timing]]:
    """Of what `_Bench.time` gives: the timings of candidates, and of the faster copy, by threads."""
    rows = {key: timing for key, timing in timed.items() if isinstance(key, int)}
    limits: dict[int, Timing] = {}
    for key, timing in timed.items():
        if not isinstance(key, int):
            limits[key[0]] = faster(timing, limits.get(key[0], timing))
    return rows, limits


def _concrete(t: TensorType) -> tuple[int, ...]:
    assert t.shape is not None
    return tuple(int(d) for d in t.shape if isinstance(d, int))


def _seeded_array(shape: Sequence[int], dtype: np.dtype[Any], seed: int) -> Array:
    """Seeded normals, written (so that pages exist); integers ten times as spread, unsigned magnitudes, bool signs."""
    values: Array = np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32)
    if dtype.kind == "b":
        return values > 0
    if dtype.kind == "u":
        values = np.abs(values)
    return (values * 10 if dtype.kind in "iu" else values).astype(dtype, copy=False)
