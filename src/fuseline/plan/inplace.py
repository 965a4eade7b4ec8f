"""When a result may take the storage of an operand, and how storages become buffers: the rules, over an abstract
description.

One idea: a *storage* is a root value and every view of it. Readers are counted over the whole storage, an output keeps
the whole storage alive, and overwriting any of its values overwrites them all: what an operation says of one operand
holds only where it says the same of all others that lie in that storage.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from fuseline.errors import PlanError
from fuseline.plan.arena.arguments import require_alignment, whole_number
from fuseline.plan.arena.types import Buffer, Instance, filled_up
from fuseline.plan.schedule.problem import ScheduleProblem, Value


class Origin(StrEnum):
    """Who owns the bytes of a value before the program runs."""

    COMPUTED = "computed"
    INPUT = "input"
    DONATED = "donated input"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value as storage. ``size_bytes`` is elements × whole bytes an element (packed types by their own rule).

    ``view_of`` names the value whose bytes it shares (reshape, transpose, slice, any operation without a copy).
    ``caller_buffer`` tells inputs apart that the caller passed as one buffer. ``alignment`` is in bytes: what a
    computed value needs, and what the caller promises of an input. What is made ``outside`` lies in memory of its
    operation's own: not in the arena, and nothing overwrites it.
    """

    name: str
    size_bytes: int
    element_bytes: int
    origin: Origin = Origin.COMPUTED
    view_of: int | None = None
    output: bool = False
    caller_buffer: Hashable = None
    alignment: int = 1
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """One operand of an operation. ``may_overwrite``: the operation allows its result there at all; ``same_index``:
    it reads from position i of this operand's storage only what it writes to position i of the result."""

    value: int
    may_overwrite: bool = False
    same_index: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """``results`` and ``operands`` are indices of values. ``concurrent`` lists operations that may run at the same
    time.

    The relation holds both ways. A view's operation makes a value whose ``view_of`` is set; it moves no bytes.
    """

    name: str
    results: tuple[int, ...]
    operands: tuple[Use, ...]
    workspace_bytes: int = 0
    concurrent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Overwrite:
    """``operation`` writes ``result`` into the storage of ``operand``."""

    operation: int
    result: int
    operand: int


@dataclass(frozen=True)
class StorageGraph:
    """Operations over stored values, in program order.

    Raises:
        PlanError: a view of nothing, a value made twice or never, a donated buffer passed twice, or a size or alignment
            that no value has.
    """

    values: tuple[StoredValue, ...]
    operations: tuple[Operation, ...]

    def __post_init__(self) -> None:
        self._require_indices()
        made: set[int] = set()
        for operation in self.operations:
            for v in operation.results:
                if v in made or self.values[v].origin is not Origin.COMPUTED:
                    raise PlanError(f"value {self.values[v].name!r} is made by {operation.name!r} but exists already")
                made.add(v)
        callers: dict[Hashable, str] = {}
        donated = {v.caller_buffer for v in self.values if v.origin is Origin.DONATED and v.caller_buffer is not None}
        for v, value in enumerate(self.values):
            require_alignment(value.alignment)
            if whole_number(value.size_bytes, f"the size of {value.name!r}") < 0:
                raise PlanError(f"value {value.name!r} has a negative size")
            if value.origin is Origin.COMPUTED and v not in made:
                raise PlanError(f"value {value.name!r} is computed by no operation")
            if value.caller_buffer in donated:
                if value.caller_buffer in callers:
                    first = callers[value.caller_buffer]
                    raise PlanError(
                        f"inputs {first!r} and {value.name!r} are one buffer, which is donated; pass it once"
                    )
                callers[value.caller_buffer] = value.name
        _ = self.root

    def _require_indices(self) -> None:
        """Raise where an operation names what does not exist, or two values have one name."""
        values, operations = range(len(self.values)), range(len(self.operations))
        for operation in self.operations:
            for v in (*operation.results, *(use.value for use in operation.operands)):
                if v not in values:
                    raise PlanError(f"{operation.name!r} names value {v}; there are {len(values)}")
            for u in operation.concurrent:
                if u not in operations:
                    raise PlanError(f"{operation.name!r} runs beside operation {u}; there are {len(operations)}")
        names: set[str] = set()
        for value in self.values:
            if value.name in names:
                raise PlanError(f"two values are called {value.name!r}; every name must be unique")
            names.add(value.name)

    @cached_property
    def beside(self) -> tuple[tuple[int, ...], ...]:
        """For each operation those that may run at the same time, whichever of the two says so."""
        found: list[dict[int, None]] = [{} for _ in self.operations]
        for u, operation in enumerate(self.operations):
            for other in operation.concurrent:
                found[u][other] = found[other][u] = None
        return tuple(map(tuple, found))

    @cached_property
    def root(self) -> tuple[int, ...]:
        """For each value the value whose storage it lies in (itself where it is no view)."""
        roots = [-1] * len(self.values)
        for v in range(len(self.values)):
            path = []
            at = v
            while roots[at] < 0 and (base := self.values[at].view_of) is not None:
                path.append(at)
                if len(path) > len(self.values) or not 0 <= base < len(self.values):
                    raise PlanError(f"value {self.values[v].name!r} is a view of itself or of nothing")
                at = base
            end = roots[at] if roots[at] >= 0 else at
            for member in (*path, at):
                roots[member] = end
        return tuple(roots)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each value the operations that read the storage it lies in, through any of its views."""
        found: list[dict[int, None]] = [{} for _ in self.values]
        for u, operation in enumerate(self.operations):
            for use in operation.operands:
                found[self.root[use.value]][u] = None
        return tuple(tuple(found[self.root[v]]) for v in range(len(self.values)))

    @cached_property
    def alignment(self) -> tuple[int, ...]:
        """For each value the alignment in bytes of the storage it lies in: what the root and all its views need."""
        common = [1] * len(self.values)
        for v, value in enumerate(self.values):
            root = self.root[v]
            if common[root] % value.alignment:
                common[root] = math.lcm(common[root], value.alignment)
        return tuple([common[root] for root in self.root])

    @cached_property
    def storage_bytes(self) -> tuple[int, ...]:
        """For each value what the storage it lies in takes of an arena: its root's size, filled up to its alignment."""
        sizes = [value.size_bytes for value in self.values]
        return tuple([filled_up(sizes[root], self.alignment[root]) for root in self.root])

    @cached_property
    def kept(self) -> tuple[bool, ...]:
        """For each value whether its storage lives to the end: an output lies in it, or the caller still owns it."""
        lasting = [False] * len(self.values)
        for v, value in enumerate(self.values):
            if value.output or self.values[self.root[v]].origin in (Origin.INPUT, Origin.CONSTANT):
                lasting[self.root[v]] = True
        return tuple(lasting[self.root[v]] for v in range(len(self.values)))

    def objection(self, overwrite: Overwrite) -> str | None:
        """Why ``overwrite`` is illegal in every order, or ``None``.

        Being the last reader is left to the order, and so is the alignment of what may lie in a donated input.
        """
        operation = self.operations[overwrite.operation]
        result, operand = self.values[overwrite.result], self.values[overwrite.operand]
        root = self.root[overwrite.operand]
        uses = [use for use in operation.operands if self.root[use.value] == root]
        if overwrite.result not in operation.results or not any(u.value == overwrite.operand for u in uses):
            return f"{operation.name} does not make {result.name} from {operand.name}"
        if result.view_of is not None:
            return f"{result.name} is a view and writes nothing"
        for use in uses:
            read = self.values[use.value]
            if not use.may_overwrite:
                return f"{operation.name} does not allow its result in {read.name}"
            if read.size_bytes != result.size_bytes:
                return f"{read.name} has {read.size_bytes} bytes, {result.name} {result.size_bytes}"
            if read.element_bytes != result.element_bytes:
                of_result = f"of {result.name} {result.element_bytes}"
                return f"elements of {read.name} have {read.element_bytes} bytes, {of_result}"
            if not use.same_index:
                return f"{operation.name} reads other positions of {read.name} than it writes"
        if self.values[root].size_bytes != operand.size_bytes:
            return f"{operand.name} is only a part of the storage of {self.values[root].name}"
        origin = self.values[root].origin
        if origin in (Origin.INPUT, Origin.CONSTANT):
            return (
                f"{operand.name} lies in an {origin} of the caller"
                if origin is Origin.INPUT
                else f"{operand.name} is constant"
            )
        if self.values[root].outside or result.outside:
            return f"{operand.name} or {result.name} lies outside the arena"
        if self.kept[root]:
            return f"an output lies in the storage of {operand.name}"
        if any(other in self.readers[root] for other in self.beside[overwrite.operation]):
            return f"{operand.name} may be read at the same time"
        return None

    @cached_property
    def overwrites(self) -> tuple[Overwrite, ...]:
        """Every overwrite that is legal wherever its operation is the last reader of the storage."""
        values = self.values
        found: list[Overwrite] = []
        for u, operation in enumerate(self.operations):
            for operand in dict.fromkeys([use.value for use in operation.operands if use.may_overwrite]):
                for result in operation.results:
                    # Most candidates fail by their size, which is quickly seen.
                    if values[operand].size_bytes == values[result].size_bytes:
                        overwrite = Overwrite(u, result, operand)
                        if self.objection(overwrite) is None:
                            found.append(overwrite)
        # A result takes the first of these that its order allows: of operands of different alignments the largest.
        found.sort(
            key=lambda o: (
                o.operation,
                self.operations[o.operation].results.index(o.result),
                -self.storage_bytes[o.operand],
            )
        )
        return tuple(found)

    @cached_property
    def schedule_problem(self) -> ScheduleProblem:
        """The operations' order as a problem over storages; inputs and constants that the caller keeps are not
        counted.

        A storage counts as many bytes as in `instance`, so that orders are compared by what their arenas hold. Where a
        result takes a storage of another alignment, their one buffer may be larger, never smaller.
        """
        index = {root: k for k, root in enumerate(dict.fromkeys(self.root))}
        producer = {v: u for u, operation in enumerate(self.operations) for v in operation.results}
        values = [
            Value(
                0 if self.values[root].origin in (Origin.INPUT, Origin.CONSTANT) else self.storage_bytes[root],
                producer.get(root, -1),
                self.readers[root],
                self.kept[root],
            )
            for root in index
        ]
        # A reader of a view needs the operation that made the view, not only the one that made the bytes.
        after = {
            (producer[use.value], u)
            for u, operation in enumerate(self.operations)
            for use in operation.operands
            if use.value in producer
        }
        return ScheduleProblem(
            operation_count=len(self.operations),
            values=tuple(values),
            after=tuple(sorted(after)),
            in_place=tuple(
                (o.operation, index[self.root[o.result]], index[self.root[o.operand]]) for o in self.overwrites
            ),
            workspace_bytes=tuple(operation.workspace_bytes for operation in self.operations),
            names=tuple(operation.name for operation in self.operations),
        )

    def chosen_overwrites(self, order: Sequence[int]) -> tuple[Overwrite, ...]:
        """The overwrites that ``order`` makes legal, each operation's first that fits; every storage is taken at most
        once.

        In bytes that the caller donated, which no plan can move, lies only what is content with their alignment.
        """
        position = {u: t for t, u in enumerate(order)}
        last = [max((position[u] for u in readers), default=-1) for readers in self.readers]
        chosen: list[Overwrite] = []
        taken: set[tuple[int, int]] = set()
        donated: dict[int, int] = {  # the alignment of the caller's bytes that a storage lies in
            v: value.alignment for v, value in enumerate(self.values) if value.origin is Origin.DONATED
        }
        for overwrite in sorted(self.overwrites, key=lambda o: position[o.operation]):
            u, root = overwrite.operation, self.root[overwrite.operand]
            if last[root] != position[u] or {(u, overwrite.result), (u, -1 - root)} & taken:
                continue
            if root in donated:
                if donated[root] % self.alignment[overwrite.result]:
                    continue
                donated[overwrite.result] = donated[root]
            taken |= {(u, overwrite.result), (u, -1 - root)}
            chosen.append(overwrite)
        return tuple(chosen)

    def owners(self, order: Sequence[int], overwrites: Sequence[Overwrite]) -> tuple[int, ...]:
        """For each value the first value of the storage that it lies in, overwrites included: its buffer's name."""
        position = {u: t for t, u in enumerate(order)}
        owner = list(range(len(self.values)))
        for overwrite in sorted(overwrites, key=lambda o: position[o.operation]):
            owner[self.root[overwrite.result]] = owner[self.root[overwrite.operand]]
        return tuple(owner[root] for root in self.root)

    def lifetimes(self, order: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """For each value the steps ``[from, until)`` at which it must be there: half-open, an output to the end.

        An operation lasts from the first to the last step of those that may run beside it.
        """
        position = {u: t for t, u in enumerate(order)}
        first, last = dict(position), dict(position)
        for u, others in enumerate(self.beside):
            for other in others:
                first[u] = min(first[u], position[other])
                last[u] = max(last[u], position[other])
        start = [0] * len(self.values)
        end = [1] * len(self.values)
        for u, operation in enumerate(self.operations):
            for v in operation.results:
                start[v], end[v] = first[u], last[u] + 1
        return tuple(
            (
                start[v],
                len(order) if self.kept[v] else max(end[v], *(last[u] + 1 for u in self.readers[v]), 0),
            )
            for v in range(len(self.values))
        )

    def instance(
        self, order: Sequence[int], overwrites: Sequence[Overwrite], name: str = "graph", with_outputs: bool = True
    ) -> Instance:
        """The storages as buffers: step t of ``order`` is time t, operands and results of a step are alive together.

        An overwritten storage and the result that takes it are one buffer, named after its first value. Its size is
        rounded up to its alignment. Storages that come from the caller (donated ones too) lie outside the arena and
        are left out; without ``with_outputs`` those that an output ends in as well.
        """
        lower: dict[int, int] = {}
        upper: dict[int, int] = {}
        alignment: dict[int, int] = {}
        outside = {v for v, value in enumerate(self.values) if value.origin is not Origin.COMPUTED or value.outside}
        lifetimes = self.lifetimes(order)
        for v, owner in enumerate(self.owners(order, overwrites)):
            start, end = lifetimes[v]
            lower[owner] = min(lower.get(owner, start), start)
            upper[owner] = max(upper.get(owner, end), end)
            alignment[owner] = math.lcm(alignment.get(owner, 1), self.alignment[v])
            if self.kept[v] and not with_outputs:
                outside.add(owner)
        return Instance(
            tuple(
                Buffer(
                    self.values[r].name,
                    lower[r],
                    upper[r],
                    filled_up(self.values[r].size_bytes, alignment[r]),
                    alignment[r],
                )
                for r in lower
                if r not in outside
            ),
            name,
        )
