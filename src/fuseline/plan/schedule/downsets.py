"""Exact least memory by dynamic programming over downsets, the sets of operations that can have run.

What is alive depends on the downset alone, so the best peak to each downset is a shortest path whose length is the
largest step. States are taken by that peak, deepest first; a step that neither raises the peak nor what is alive is
taken at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from fuseline.plan.schedule.problem import ScheduleProblem

_ASK_EVERY = 64


class Frontier:
    """Operations and values as bits, with the memory of a downset computed from its bits."""

    def __init__(self, problem: ScheduleProblem) -> None:
        self.problem = problem
        self.before = [sum(1 << b for b in before) for before in problem.before]
        self.readers = [sum(1 << r for r in set(value.readers)) for value in problem.values]
        self.extra = problem.workspace_bytes or (0,) * problem.operation_count
        self.made = [sum(problem.values[v].size_bytes for v in vs) for vs in problem.makes]
        self.start_bytes = sum(v.size_bytes for v in problem.values if v.producer < 0 and (v.kept or v.readers))

    def effect(self, done: int, u: int) -> tuple[int, int]:
        """What running ``u`` after the downset ``done`` adds: (while it runs, after it)."""
        values = self.problem.values
        without = ~(done | (1 << u))
        freed = shared = 0
        dying = []
        for v in self.problem.reads[u]:
            if not self.readers[v] & without and not values[v].kept:
                freed += values[v].size_bytes
                dying.append(v)
        if self.problem.reuses[u]:
            taken: set[int] = set()
            for result, operand in self.problem.reuses[u]:
                if operand in dying and operand not in taken and result not in taken:
                    taken |= {operand, result}
                    shared += min(values[result].size_bytes, values[operand].size_bytes)
        unread = sum(values[v].size_bytes for v in self.problem.makes[u] if not self.readers[v] and not values[v].kept)
        return self.made[u] - shared + self.extra[u], self.made[u] - freed - unread

    def ready_after(self, ready: tuple[int, ...], done: int, u: int) -> tuple[int, ...]:
        """The ready operations once ``u`` has joined ``done`` (which includes it)."""
        new = [w for w in self.problem.following[u] if not self.before[w] & ~done]
        return (*(w for w in ready if w != u), *new)


def least_memory_order(
    problem: ScheduleProblem, max_states: int, below: int, stop: Callable[[], bool]
) -> tuple[list[int] | None, bool]:
    """An order whose peak is least and less than ``below``, and whether the search was complete.

    ``(None, True)`` proves that no order has a peak below ``below``; ``(None, False)`` says that ``max_states`` were
    too few or ``stop`` ended it.
    """
    frontier = Frontier(problem)
    everything = (1 << problem.operation_count) - 1
    start = tuple(u for u in range(problem.operation_count) if not problem.before[u])
    # (peak, operations left, tie, downset, alive, ready)
    heap: list[tuple[int, int, int, int, int, tuple[int, ...]]] = []
    came: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    best: dict[int, int] = {0: frontier.start_bytes}
    tie = 0
    heapq.heappush(heap, (frontier.start_bytes, problem.operation_count, tie, 0, frontier.start_bytes, start))
    while heap:
        peak, _, _, done, alive, ready = heapq.heappop(heap)
        if best[done] < peak:
            continue
        done_before = done
        done, alive, ready, forced = _free_steps(frontier, peak, done, alive, ready)
        if done == everything:
            return _path(came, done_before, forced), True
        for u in ready:
            during, after = frontier.effect(done, u)
            reached = max(peak, alive + during)
            target = done | (1 << u)
            if reached >= below or best.get(target, below) <= reached:
                continue
            best[target] = reached
            came[target] = (done_before, (*forced, u))
            if len(best) > max_states or (tie % _ASK_EVERY == 0 and stop()):
                return None, False
            tie += 1
            left = problem.operation_count - target.bit_count()
            heapq.heappush(heap, (reached, left, tie, target, alive + after, frontier.ready_after(ready, target, u)))
    return None, True


def _free_steps(
    frontier: Frontier, peak: int, done: int, alive: int, ready: tuple[int, ...]
) -> tuple[int, int, tuple[int, ...], list[int]]:
    """Run what neither raises the peak nor leaves more alive: some best order does it at once."""
    forced: list[int] = []
    moved = True
    while moved:
        moved = False
        for u in ready:
            during, after = frontier.effect(done, u)
            if after <= 0 and alive + during <= peak:
                done |= 1 << u
                alive += after
                ready = frontier.ready_after(ready, done, u)
                forced.append(u)
                moved = True
                break
    return done, alive, ready, forced


def _path(came: dict[int, tuple[int, tuple[int, ...]]], done: int, last: list[int]) -> list[int]:
    parts = [tuple(last)]
    while done:
        done, steps = came[done]
        parts.append(steps)
    return [u for steps in reversed(parts) for u in steps]
