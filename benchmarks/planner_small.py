"""Small plans as programs make them: random program graphs, random and nested intervals, packed arenas, with and
without alignments. Part of ``benchmarks/planner.py``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from arena_instances import packed

from fuseline.plan.arena.planner import plan_instance
from fuseline.plan.arena.types import Buffer, Instance

COUNT = 400
REPETITIONS = 5
LIMIT_S = 0.5

Lifetimes = list[tuple[int, int]]


class Kind(Enum):
    """What alignments a plan has."""

    ONE = "no or one alignment"
    MIXED = "alignments 1, 64 and 256 mixed"


@dataclass(frozen=True)
class SmallPlan:
    """An instance and its kind."""

    kind: Kind
    instance: Instance


def _intervals(rng: random.Random, n: int) -> Lifetimes:
    return [(t, t + rng.randint(1, max(1, n // 3))) for t in (rng.randrange(n) for _ in range(n))]


def _nested(rng: random.Random, n: int) -> Lifetimes:
    """Half of them from a step of the first half to its mirror in the second, as activations of a training step."""
    ends = []
    for _ in range(n):
        a, b = sorted((rng.randrange(2 * n), rng.randrange(2 * n)))
        ends.append((a, b + 1) if rng.random() < 0.5 else (a // 2, 2 * n - a // 2 + 1))
    return ends


def _program(rng: random.Random, n: int) -> Lifetimes:
    """Each operation reads one to three of the values made shortly before it."""
    last = list(range(n))
    for i in range(1, n):
        for _ in range(rng.randint(1, 3)):
            last[rng.randrange(max(0, i - rng.choice((2, 4, 16))), i)] = i
    return [(i, end + 1) for i, end in enumerate(last)]


_SIZES = (
    lambda rng: rng.randint(1, 1000),
    lambda rng: rng.choice((64, 128, 256, 1024, 4096)),
    lambda rng: 256 * rng.choice((1, 1, 1, 2, 3, 4, 8)),
    lambda rng: 256 * int(2 ** rng.uniform(0, 12)),
)


def plans(count: int = COUNT, seed: int = 1) -> Iterator[SmallPlan]:
    """Always the same plans for a seed; every eighth is a packed arena, every fifth mixes alignments."""
    rng = random.Random(seed)
    for k in range(count):
        n = rng.randint(5, 50)
        if k % 8 == 7:
            yield SmallPlan(Kind.ONE, packed(n, rng.choice((2**10, 2**16, 2**20)), rng.randrange(10**9)))
            continue
        lifetimes = (_intervals, _nested, _program)[k % 3](rng, n)
        size = rng.choice(_SIZES)
        kind = Kind.MIXED if k % 5 == 0 else Kind.ONE
        choices = (1, 64, 256) if kind is Kind.MIXED else (rng.choice((1, 1, 1, 64)),)
        rows = enumerate(lifetimes)
        buffers = tuple(Buffer(str(i), a, b, size(rng), rng.choice(choices)) for i, (a, b) in rows)
        yield SmallPlan(kind, Instance(buffers, f"small-{k}"))


def measure(instances: list[Instance]) -> tuple[list[float], int]:
    """Milliseconds of processor time of each plan, sorted, and how many are proven least."""
    times, proven = [], 0
    for instance in instances:
        best = float("inf")
        for _ in range(REPETITIONS):
            began = time.process_time()
            result = plan_instance(instance, time_limit_s=LIMIT_S)
            best = min(best, time.process_time() - began)
            if best > LIMIT_S / 10:
                break
        times.append(best * 1e3)
        proven += result.optimal
    return sorted(times), proven
