"""Greedy orders: each picks the next ready operation by a rule, in O((operations + edges) log operations).

None dominates: *least growth* follows memory, *depth first* finishes what it began (Sethi and Ullman, heavy branch
first, https://doi.org/10.1145/321607.321620), *free soonest* runs whoever completes a value's readers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from fuseline.plan.schedule.problem import Meter, ScheduleProblem

_ASK_EVERY = 256

Stop = Callable[[], bool]
"""Asked ever again; where it says so, there is no order."""


def program_order(problem: ScheduleProblem, stop: Stop) -> list[int]:
    """The operations by index as far as their edges allow. Always given, whatever ``stop`` says."""
    return problem.program_order


def least_growth(problem: ScheduleProblem, stop: Stop) -> list[int] | None:
    """Always the ready operation after which the least memory is alive, then the one that needs least while running."""
    return _by_effect(problem, lambda during, after, u: (after, during, u), stop)


def free_soonest(problem: ScheduleProblem, stop: Stop) -> list[int] | None:
    """Always a ready operation that frees memory; where there is none, the one that needs least while it runs."""
    return _by_effect(
        problem, lambda during, after, u: (0, after, during, u) if after < 0 else (1, during, after, u), stop
    )


Rank = Callable[[int, int, int], tuple[int, ...]]


def _by_effect(problem: ScheduleProblem, rank: Rank, stop: Stop) -> list[int] | None:
    """Greedy by a rank of (bytes while running, bytes after, operation), brought up to date as readers run."""
    meter = Meter(problem)
    waiting = [len(b) for b in problem.before]
    current: dict[int, tuple[int, ...]] = {}
    heap: list[tuple[tuple[int, ...], int]] = []

    def offer(u: int) -> None:
        key = rank(*meter.effect(u), u)
        if current.get(u) != key:
            current[u] = key
            heapq.heappush(heap, (key, u))

    for u, count in enumerate(waiting):
        if count == 0:
            offer(u)
    order: list[int] = []
    unread = problem.amounts.readers[:]
    while heap:
        key, u = heapq.heappop(heap)
        if current.get(u) != key:
            continue
        current[u] = ()
        meter.run(u)
        order.append(u)
        if len(order) % _ASK_EVERY == 0 and stop():
            return None
        for w in problem.following[u]:
            waiting[w] -= 1
            if waiting[w] == 0:
                offer(w)
        for v in problem.reads[u]:
            unread[v] -= 1
            # Only the last reader's effect changes: it alone would free the value.
            if unread[v] == 1:
                for w in problem.values[v].readers:
                    if waiting[w] == 0 and current.get(w):
                        offer(w)
    return order


def depth_first(problem: ScheduleProblem, stop: Stop) -> list[int] | None:
    """Backwards from the results: an operand whose own computation needs more memory goes first."""
    need = _needs(problem)
    made = problem.results_bytes
    done = [False] * problem.operation_count
    order: list[int] = []
    roots = [u for u in range(problem.operation_count) if not problem.following[u]]
    for root in sorted(roots, key=lambda u: (-need[u], u)):
        stack = [(root, False)]
        while stack:
            u, expanded = stack.pop()
            if done[u]:
                continue
            if expanded:
                done[u] = True
                order.append(u)
                if len(order) % _ASK_EVERY == 0 and stop():
                    return None
                continue
            stack.append((u, True))
            operands = [b for b in problem.before[u] if not done[b]]
            # The stack runs its last entry first: the one that shrinks most from its peak to its result.
            if len(operands) > 1:
                operands.sort(key=lambda b: (need[b] - made[b], -b))
            stack += [(b, False) for b in operands]
    return order


def _needs(problem: ScheduleProblem) -> list[int]:
    """Bytes that computing each operation needs at once, as if everything below it were a tree."""
    need = [0] * problem.operation_count
    made = problem.results_bytes
    for u in problem.program_order:
        held = most = 0
        before = problem.before[u]
        for b in before if len(before) < 2 else sorted(before, key=lambda b: made[b] - need[b]):
            most = max(most, held + need[b])
            held += made[b]
        need[u] = max(most, held + made[u])
    return need


ORDERS: dict[str, Callable[[ScheduleProblem, Stop], list[int] | None]] = {
    "program order": program_order,
    "least growth": least_growth,
    "depth first": depth_first,
    "free soonest": free_soonest,
}
