"""What a schedule is about: operations, the values they read and make, and how much is alive while each one runs.

The memory model keeps the allocations and the frees of one step apart: while an operation runs, its operands and its
results are alive together; what it read last is freed after it. A result that takes the storage of an operand dying
there (*in place*) counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

from fuseline.errors import PlanError

MAX_OPERATIONS = 1_000_000


@dataclass(frozen=True)
class Value:
    """``size_bytes`` of storage made by operation ``producer`` (-1: there from the start) and read by ``readers``.

    ``kept`` storage lives to the end (an output, or an input that the caller still owns). A value stands for a whole
    storage: views of it are the same value, their readers are its readers.
    """

    size_bytes: int
    producer: int
    readers: tuple[int, ...] = ()
    kept: bool = False


@dataclass(frozen=True)
class ScheduleProblem:
    """``operation_count`` operations (0, 1, …), their values, and what else constrains or helps an order.

    ``after`` holds further pairs (first, second). ``in_place`` holds ``(operation, result, operand)`` triples of
    value indices that may share storage where the operation is the operand's last reader; ``workspace_bytes`` is
    scratch by operation.

    Raises:
        PlanError: an index out of range, a negative size, or a cycle; the message names the operations.
    """

    operation_count: int
    values: tuple[Value, ...]
    after: tuple[tuple[int, int], ...] = ()
    in_place: tuple[tuple[int, int, int], ...] = ()
    workspace_bytes: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    reads: list[list[int]] = field(init=False, repr=False, compare=False)
    makes: list[list[int]] = field(init=False, repr=False, compare=False)
    before: list[list[int]] = field(init=False, repr=False, compare=False)
    following: list[list[int]] = field(init=False, repr=False, compare=False)
    reuses: list[list[tuple[int, int]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n = self.operation_count
        if not 0 <= n <= MAX_OPERATIONS:
            raise PlanError(f"{n:,} operations; a schedule has 0 to {MAX_OPERATIONS:,}")
        reads: list[list[int]] = [[] for _ in range(n)]
        makes: list[list[int]] = [[] for _ in range(n)]
        edges: list[set[int]] = [set() for _ in range(n)]
        for v, value in enumerate(self.values):
            self._check_value(v, value)
            if value.producer >= 0:
                makes[value.producer].append(v)
            for reader in dict.fromkeys(value.readers):
                reads[reader].append(v)
                if value.producer >= 0:
                    edges[value.producer].add(reader)
        for first, second in self.after:
            if not (0 <= first < n and 0 <= second < n):
                raise PlanError(f"the constraint {first} before {second} names an operation outside 0..{n - 1}")
            edges[first].add(second)
        reuses: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        for operation, result, operand in self.in_place:
            if self.values[result].producer != operation or operand not in reads[operation]:
                raise PlanError(f"operation {operation} neither makes value {result} nor reads value {operand}")
            reuses[operation].append((result, operand))
        following = [sorted(e) for e in edges]
        before: list[list[int]] = [[] for _ in range(n)]
        for first, seconds in enumerate(following):
            for second in seconds:
                before[second].append(first)
        for name, table in (("reads", reads), ("makes", makes), ("before", before), ("following", following)):
            object.__setattr__(self, name, table)
        object.__setattr__(self, "reuses", reuses)
        self._check_acyclic()

    def _check_value(self, v: int, value: Value) -> None:
        if value.size_bytes < 0:
            raise PlanError(f"value {v}: its size is negative ({value.size_bytes})")
        for operation in (*value.readers, value.producer):
            if not -1 <= operation < self.operation_count or (operation == -1 and operation in value.readers):
                raise PlanError(f"value {v} names operation {operation} of {self.operation_count}")

    def _check_acyclic(self) -> None:
        order = self.program_order
        if len(order) < self.operation_count:
            left = sorted(set(range(self.operation_count)) - set(order))
            raise PlanError(f"the graph has a cycle through {', '.join(map(self.name, left[:5]))}")

    @cached_property
    def amounts(self) -> Amounts:
        """What does not depend on the order."""
        return _amounts_of(self)

    @cached_property
    def results_bytes(self) -> list[int]:
        """The bytes of what each operation makes."""
        size = self.amounts.size
        return [size[vs[0]] if len(vs) == 1 else sum([size[v] for v in vs]) for vs in self.makes]

    @cached_property
    def program_order(self) -> list[int]:
        """`ready_order`, kept."""
        return self.ready_order()

    @cached_property
    def footprint_bytes(self) -> int:
        """Bytes that every order needs at some step: all that is kept, at the end, or what some operation reads and
        makes, with what is kept from the start.
        """
        return _footprint_bound(self)

    def without_reuse(self) -> ScheduleProblem:
        """The same problem where every result gets bytes of its own."""
        other = copy(self)
        vars(other).pop("footprint_bytes", None)
        object.__setattr__(other, "in_place", ())
        object.__setattr__(other, "reuses", [[] for _ in range(self.operation_count)])
        return other

    def name(self, operation: int) -> str:
        """The name of an operation in messages."""
        return self.names[operation] if operation < len(self.names) else f"operation {operation}"

    def ready_order(self) -> list[int]:
        """The order that always runs the ready operation of the smallest index; shorter where there is a cycle."""
        import heapq

        if all(not before or before[-1] < u for u, before in enumerate(self.before)):
            return list(range(self.operation_count))
        waiting = [len(b) for b in self.before]
        ready = [u for u, count in enumerate(waiting) if count == 0]
        order = []
        while ready:
            u = heapq.heappop(ready)
            order.append(u)
            for w in self.following[u]:
                waiting[w] -= 1
                if waiting[w] == 0:
                    heapq.heappush(ready, w)
        return order


@dataclass(frozen=True, slots=True)
class Amounts:
    """What every order of a problem counts with. By value: its ``readers`` (a number), its ``size`` and what its last
    reader ``freed``. By operation: the bytes it adds ``during`` its run, and what of them ``stays``, operands apart.
    ``at_start`` is alive before anything runs.
    """

    readers: list[int]
    size: list[int]
    freed: list[int]
    during: list[int]
    stays: list[int]
    at_start: int


def _amounts_of(problem: ScheduleProblem) -> Amounts:
    values = problem.values
    readers = [len(v.readers) if len(v.readers) < 2 else len(set(v.readers)) for v in values]
    size = [v.size_bytes for v in values]
    during, stays = [0] * problem.operation_count, [0] * problem.operation_count
    for u, made in enumerate(problem.makes):
        for v in made:
            during[u] += size[v]
            if readers[v] or values[v].kept:
                stays[u] += size[v]
    for u, extra in enumerate(problem.workspace_bytes):
        during[u] += extra
    at_start = sum([v.size_bytes for v in values if v.producer < 0 and (v.kept or v.readers)])
    return Amounts(readers, size, [0 if v.kept else v.size_bytes for v in values], during, stays, at_start)


class Meter:
    """The memory of a partial schedule: ``live_bytes`` now, ``peak_bytes`` so far."""

    def __init__(self, problem: ScheduleProblem) -> None:
        amounts = problem.amounts
        self._reads, self._reuses = problem.reads, problem.reuses
        self._left = amounts.readers[:]
        self._size, self._freed = amounts.size, amounts.freed
        self._during, self._stays = amounts.during, amounts.stays
        self.live_bytes = self.peak_bytes = amounts.at_start

    def effect(self, u: int) -> tuple[int, int]:
        """What running ``u`` now would add: (while it runs, after it)."""
        left, freed = self._left, self._freed
        after = self._stays[u]
        for v in self._reads[u]:
            if left[v] == 1:
                after -= freed[v]
        reuses = self._reuses[u]
        return self._during[u] - (self._shared(reuses) if reuses else 0), after

    def _shared(self, reuses: list[tuple[int, int]]) -> int:
        if len(reuses) == 1:
            ((result, operand),) = reuses
            return (
                min(self._size[result], self._size[operand]) if self._left[operand] == 1 and self._freed[operand] else 0
            )
        shared = 0
        taken: set[tuple[str, int]] = set()
        for result, operand in reuses:
            pair = {("result", result), ("operand", operand)}
            if self._left[operand] == 1 and self._freed[operand] and not pair & taken:
                taken |= pair
                shared += min(self._size[result], self._size[operand])
        return shared

    def run(self, u: int) -> None:
        """Run ``u``."""
        during, after = self.effect(u)
        if self.live_bytes + during > self.peak_bytes:
            self.peak_bytes = self.live_bytes + during
        self.live_bytes += after
        for v in self._reads[u]:
            self._left[v] -= 1


def peak_of(problem: ScheduleProblem, order: Sequence[int]) -> int:
    """The largest number of bytes alive while ``order`` runs.

    Raises:
        PlanError: ``order`` is not a schedule: an operation twice, missing, or before one it needs.
    """
    position = [-1] * problem.operation_count
    for t, u in enumerate(order):
        if not 0 <= u < len(position) or position[u] >= 0:
            raise PlanError(f"not a schedule: operation {u} runs twice or does not exist")
        position[u] = t
    if len(order) != problem.operation_count:
        raise PlanError(f"not a schedule: {len(order)} of {problem.operation_count} operations")
    for u, t in enumerate(position):
        for b in problem.before[u]:
            if position[b] > t:
                raise PlanError(f"not a schedule: {problem.name(u)} runs before {problem.name(b)}, which it needs")
    return peak_of_schedule(problem, order)


def peak_of_schedule(problem: ScheduleProblem, order: Sequence[int]) -> int:
    """`peak_of` for what is known to be a schedule."""
    meter = Meter(problem)
    for u in order:
        meter.run(u)
    return meter.peak_bytes


def _footprint_bound(problem: ScheduleProblem) -> int:
    size = problem.amounts.size
    ours = [v.producer < 0 and v.kept for v in problem.values]
    from_start = sum([s for s, kept in zip(size, ours, strict=True) if kept])
    extra = problem.workspace_bytes or (0,) * problem.operation_count
    most = max(from_start, sum(v.size_bytes for v in problem.values if v.kept))
    for u in range(problem.operation_count):
        total = from_start + extra[u]
        for v in problem.reads[u]:
            if not ours[v]:
                total += size[v]
        for v in problem.makes[u]:
            total += size[v]
        if total > most and problem.reuses[u]:
            most_shared: dict[int, int] = {}  # of the operands that a result may take, the one that saves most
            for r, o in problem.reuses[u]:
                most_shared[r] = max(most_shared.get(r, 0), min(size[r], size[o]))
            total -= sum(most_shared.values())
        if total > most:
            most = total
    return most
