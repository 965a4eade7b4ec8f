"""Measuring: medians of interleaved repetitions with their spread.

A shared machine's speed drifts by a factor of two, so candidates take turns: every repetition runs each of them once,
in an order that rotates.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from fuseline.errors import LimitError

Name = TypeVar("Name", bound=Hashable)
_SHORTEST_SAMPLE_S = 1e-3
"""A call shorter than this is repeated inside each sample, so that the clock's own cost does not count."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call."""

    median_s: float
    spread_s: float
    """Distance between the quartiles; 0 for one sample."""
    best_s: float
    samples: int
    calls_a_sample: int


class Interrupted(KeyboardInterrupt):
    """An interrupt while candidates were timed; ``timings`` are those of the candidates that had a sample by then."""

    def __init__(self, timings: Mapping[Any, Timing]) -> None:
        super().__init__()
        self.timings = timings


def interleaved(
    candidates: Mapping[Name, Callable[[], object]],
    *,
    repetitions: int = 15,
    time_limit_s: float = 10.0,
    shortest_sample_s: float = _SHORTEST_SAMPLE_S,
    within: Mapping[Name, Callable[[], AbstractContextManager[object]]] | None = None,
) -> dict[Name, Timing]:
    """Time every candidate, taking turns.

    Args:
        candidates: what to call, by name; each is called once or more beforehand, to warm up and to size its samples.
        repetitions: samples of each candidate.
        time_limit_s: fewer samples (never under 3) where all would take longer than this.
        shortest_sample_s: a candidate that is faster is called several times a sample.
        within: what a candidate's samples are taken in, by name: it is entered before the clock starts.

    Raises `Interrupted` for an interrupt once there are samples.
    """
    if repetitions < 3:
        raise LimitError(f"a median with its spread needs at least 3 repetitions, not {repetitions}")
    settings = within or {}
    calls = {}
    for name, call in candidates.items():
        with settings.get(name, nullcontext)():
            calls[name] = _calls_a_sample(call, shortest_sample_s)
    samples: dict[Name, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    start = time.perf_counter()
    try:
        for turn in range(repetitions):
            if turn >= 3 and time.perf_counter() - start > time_limit_s * turn / (turn + 1):
                break
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                with settings.get(name, nullcontext)():
                    samples[name].append(_sample(candidates[name], calls[name]))
    except KeyboardInterrupt:
        known = {name: _timing(found, calls[name]) for name, found in samples.items() if found}
        if not known:
            raise
        raise Interrupted(known) from None
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
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
    return Timing(statistics.median(samples), high - low, min(samples), len(samples), calls)


def faster(one: Timing, other: Timing) -> Timing:
    """The timing with the smaller median."""
    return min(one, other, key=lambda t: t.median_s)
