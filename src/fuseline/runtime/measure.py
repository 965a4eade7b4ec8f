"""Measuring: medians of interleaved repetitions with their spread, and the copy limit they are laid beside.

A shared machine's speed drifts by a factor of two, so candidates take turns: every repetition runs each of them once,
in an order that rotates.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LimitError
from ..ir.build import Expr, input_node
from ..ir.dtype import DTYPES, DType
from ..ir.dtype import dtype as dtype_of
from ..ir.graph import Graph
from ..ir.node import const
from . import iterate, threads
from .compile import elementwise_loop
from .loop import Loop

_SHORTEST_SAMPLE_S = 1e-3
"""A call shorter than this is repeated inside each sample, so that the clock's own cost does not count."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call."""

    median_s: float
    spread_s: float
    """Distance between the quartiles."""
    best_s: float
    samples: int
    calls_a_sample: int


def interleaved(
    candidates: Mapping[str, Callable[[], object]],
    *,
    repetitions: int = 15,
    time_limit_s: float = 10.0,
    shortest_sample_s: float = _SHORTEST_SAMPLE_S,
) -> dict[str, Timing]:
    """Time every candidate, taking turns.

    Args:
        candidates: what to call, by name; each is called once or more beforehand, to warm up and to size its samples.
        repetitions: samples of each candidate.
        time_limit_s: fewer samples (never under 3) where all would take longer than this.
        shortest_sample_s: a candidate that is faster is called several times a sample.
    """
    if repetitions < 3:
        raise LimitError(f"a median with its spread needs at least 3 repetitions, not {repetitions}")
    calls = {name: _calls_a_sample(call, shortest_sample_s) for name, call in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    start = time.perf_counter()
    for turn in range(repetitions):
        if turn >= 3 and time.perf_counter() - start > time_limit_s * turn / (turn + 1):
            break
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            samples[name].append(_sample(candidates[name], calls[name]))
    return {name: _timing(samples[name], calls[name]) for name in names}


def _sample(call: Callable[[], object], calls: int) -> float:
    repeat = range(calls)
    start = time.perf_counter_ns()
    for _ in repeat:
        call()
    return (time.perf_counter_ns() - start) * 1e-9 / calls


def _calls_a_sample(call: Callable[[], object], shortest_sample_s: float) -> int:
    call()
    calls = 1
    while (taken := _sample(call, calls) * calls) < shortest_sample_s:
        calls *= min(10, max(2, round(shortest_sample_s / max(taken, 1e-9))))
    return calls


def _timing(samples: list[float], calls: int) -> Timing:
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(statistics.median(samples), high - low, min(samples), len(samples), calls)


def copy_limit(
    inputs: Sequence[NDArray[Any]],
    outputs: Sequence[NDArray[Any]],
    thread_count: int | None = None,
    *,
    past_caches: bool,
) -> Callable[[], None]:
    """A call that reads every element of ``inputs``, writes every element of ``outputs``, and does little else.

    The arrays broadcast as a kernel's operands do; outputs have the full shape and are overwritten. Threads and
    iteration are those of a kernel's own call with ``thread_count`` threads, and there is next to no Python before
    them, so its time is what the machine needs to move the same bytes with stores of one kind. The limit is the
    `faster` of both kinds, whichever a kernel would choose.
    """
    loop = _copy_loop(tuple(a.dtype.name for a in inputs), tuple(o.dtype.name for o in outputs))
    with threads.limit(thread_count or threads.thread_count()):
        return iterate.repeated(loop, list(inputs), list(outputs), past_caches=past_caches)


def faster(one: Timing, other: Timing) -> Timing:
    """The timing with the smaller median."""
    return min(one, other, key=lambda t: t.median_s)


@functools.lru_cache(maxsize=64)
def _copy_loop(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Loop:
    """Every output is the exclusive or of all inputs' bits, so nothing read can be left out."""
    nodes = [Expr(input_node(f"a{i}", dtype_of(name))) for i, name in enumerate(inputs)]
    result_types = [dtype_of(name) for name in outputs]
    widest = max((d.bits for d in (*(x.dtype for x in nodes), *result_types)), default=8)
    wide = DTYPES[f"u{widest}"]
    mixed = Expr(const(0, wide))
    for x in nodes:
        bits = x if not x.dtype.is_float else x.bitcast(DTYPES[f"u{x.dtype.bits}"])
        mixed = mixed ^ bits.cast(wide)
    return elementwise_loop(
        Graph([x.node for x in nodes], [(f"o{i}", _as(mixed, d).node) for i, d in enumerate(result_types)])
    )


def _as(bits: Expr, d: DType) -> Expr:
    if d.is_float:
        return bits.cast(DTYPES[f"u{d.bits}"]).bitcast(d)
    return bits.cast(d)


def touched(shape: Sequence[int], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """Seeded normals, written (so that pages exist); integers ten times as spread, unsigned magnitudes, bool signs."""
    values: NDArray[Any] = np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32)
    if dtype.kind == "b":
        return values > 0
    if dtype.kind == "u":
        values = np.abs(values)
    return (values * 10 if dtype.kind in "iu" else values).astype(dtype, copy=False)
