"""Beam search over downsets: the few best partial orders of each length, for graphs too wide for the exact search."""

from __future__ import annotations

from collections.abc import Callable

from fuseline.plan.schedule.downsets import Frontier
from fuseline.plan.schedule.problem import ScheduleProblem


def beam_order(problem: ScheduleProblem, width: int, stop: Callable[[], bool]) -> list[int] | None:
    """The order that the beam ends with; ``None`` where ``stop`` ended it.

    Of partial orders of equal length, those with the lowest peak are kept, then those with the least alive.
    """
    frontier = Frontier(problem)
    start = tuple(u for u in range(problem.operation_count) if not problem.before[u])
    # downset -> (peak, alive, ready, where it came from)
    layer: dict[int, tuple[int, int, tuple[int, ...]]] = {0: (frontier.start_bytes, frontier.start_bytes, start)}
    history: list[dict[int, tuple[int, int]]] = []
    for _ in range(problem.operation_count):
        if stop():
            return None
        reached: dict[int, tuple[int, int, int, int]] = {}
        for done, (peak, alive, ready) in layer.items():
            for u in ready:
                during, after = frontier.effect(done, u)
                state = (max(peak, alive + during), alive + after, done, u)
                target = done | (1 << u)
                if target not in reached or state < reached[target]:
                    reached[target] = state
        kept = sorted(reached.items(), key=lambda item: item[1])[:width]
        history.append({target: (done, u) for target, (_, _, done, u) in kept})
        layer = {
            target: (peak, alive, frontier.ready_after(layer[done][2], target, u))
            for target, (peak, alive, done, u) in kept
        }
    order: list[int] = []
    done = (1 << problem.operation_count) - 1
    for choices in reversed(history):
        done, u = choices[done]
        order.append(u)
    return order[::-1]
