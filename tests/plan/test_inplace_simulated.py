"""Plans of random graphs with views, donated inputs and mixed alignments, run byte by byte: nobody reads a byte that
was overwritten.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from fuseline.plan.inplace import Operation, Origin, Overwrite, StorageGraph, StoredValue, Use
from fuseline.plan.joint import JointPlan, plan_graph

SIZES = (8, 16)
Place = tuple[object, int]
"""A memory and the first byte in it."""


def random_graph(rng: random.Random) -> StorageGraph:
    """One to three values of the caller's and up to ten operations, a third of which make views.

    A value is often read together with views of it, and some operations have two results.
    """
    values = [
        StoredValue(
            f"i{i}",
            rng.choice(SIZES),
            4,
            rng.choice((Origin.INPUT, Origin.DONATED, Origin.CONSTANT)),
            caller_buffer=i,
            alignment=rng.choice((1, 8)),
        )
        for i in range(rng.randint(1, 3))
    ]
    root = list(range(len(values)))
    operations = []
    for k in range(rng.randint(3, 10)):
        base = max(rng.randrange(len(values)), rng.randrange(len(values)))
        result, output = len(values), rng.random() < 0.15
        if rng.random() < 0.33:
            of = values[base]
            size = of.size_bytes // rng.choice((1, 1, 1, 2))
            element = of.element_bytes if rng.random() < 0.8 else 2
            values.append(StoredValue(f"v{result}", size, element, view_of=base, output=output))
            root.append(root[base])
            operations.append(Operation(f"o{k}", (result,), (Use(base),)))
            continue
        beside: Sequence[int] = (
            [v for v in range(result) if root[v] == root[base]] if rng.random() < 0.5 else range(result)
        )
        operands = {base, *rng.sample(beside, min(len(beside), rng.randint(0, 2)))}
        uses = [Use(v, rng.random() < 0.85, rng.random() < 0.9) for v in sorted(operands)]
        if rng.random() < 0.1:
            uses.append(Use(base, rng.random() < 0.5, rng.random() < 0.5))
        results = range(result, result + (2 if rng.random() < 0.2 else 1))
        for v in results:
            size = rng.choice((values[base].size_bytes, *SIZES))
            values.append(
                StoredValue(f"v{v}", size, rng.choice((4, 4, 4, 2)), output=output, alignment=rng.choice((1, 8, 64)))
            )
            root.append(v)
        operations.append(Operation(f"o{k}", tuple(results), tuple(uses)))
    return StorageGraph(tuple(values), tuple(operations))


def roots(graph: StorageGraph) -> list[int]:
    """The storage of each value, by hand: values come after what they are views of."""
    found: list[int] = []
    for v, value in enumerate(graph.values):
        found.append(v if value.view_of is None else found[value.view_of])
    return found


def places(graph: StorageGraph, plan: JointPlan, root: list[int]) -> dict[int, Place]:
    """Where each storage lies: in the arena, or in memory of the caller's, aligned as it says and no better."""
    offsets = {b.id: o for b, o in zip(plan.arena.instance.buffers, plan.arena.placement.offsets, strict=True)}
    over = {root[o.result]: root[o.operand] for o in plan.overwrites}
    found: dict[int, Place] = {}
    for r in set(root):
        first = r
        while first in over:
            first = over[first]
        value = graph.values[first]
        found[r] = ("arena", offsets[value.name]) if value.name in offsets else (first, value.alignment)
    return found


def reads(use: Use, value: StoredValue, element: int | None) -> Iterator[int]:
    """The bytes of ``value`` that are read for one element of the result, or (``None``) once all are written."""
    if element is not None and use.same_index:
        yield from range(element * value.element_bytes, min((element + 1) * value.element_bytes, value.size_bytes))
    elif element is not None or not use.may_overwrite:
        yield from range(value.size_bytes)


def faults(graph: StorageGraph, plan: JointPlan) -> list[str]:
    """What goes wrong when the plan runs: operations write element by element and read as their uses say."""
    values, root = graph.values, roots(graph)
    place = places(graph, plan, root)
    memory: dict[Place, int] = {}  # the storage whose byte lies there
    found: list[str] = []

    def holds(v: int, byte: int) -> bool:
        # A view of a part shows the end of its storage.
        where, start = place[root[v]]
        return memory.get((where, start + values[root[v]].size_bytes - values[v].size_bytes + byte)) == root[v]

    for v, value in enumerate(values):
        if value.origin is not Origin.COMPUTED:
            memory |= {(place[v][0], place[v][1] + byte): v for byte in range(value.size_bytes)}
    there = {v for v, value in enumerate(values) if value.origin is not Origin.COMPUTED}
    for u in plan.order:
        operation = graph.operations[u]
        uses = [(use, values[use.value]) for use in operation.operands]
        found += [f"{operation.name} reads {value.name} too soon" for use, value in uses if use.value not in there]
        there |= set(operation.results)
        if values[operation.results[0]].view_of is not None:
            (result,) = operation.results
            shown = values[result]
            found += [f"{shown.name} shows lost bytes" for b in range(shown.size_bytes) if not holds(result, b)][:1]
            continue
        for v in operation.results:
            if place[v][1] % values[v].alignment:
                found.append(f"{values[v].name} is not aligned")
        steps = max(-(-values[v].size_bytes // values[v].element_bytes) for v in operation.results)
        for element in (*range(steps), None):
            lost = [value.name for use, value in uses for b in reads(use, value, element) if not holds(use.value, b)]
            found += [f"{operation.name} reads what is left of {name}" for name in lost[:1]]
            if element is not None:
                for v in operation.results:
                    (where, start), width = place[v], values[v].element_bytes
                    written = range(element * width, min((element + 1) * width, values[v].size_bytes))
                    memory |= {(where, start + b): v for b in written}
        if any(not holds(v, b) for v in operation.results for b in range(values[v].size_bytes)):
            found.append(f"{operation.name} writes two results into one place")
    lasting = [v for v, value in enumerate(values) if value.output or value.origin in (Origin.INPUT, Origin.CONSTANT)]
    found += [f"{values[v].name} is lost" for v in lasting if not all(holds(v, b) for b in range(values[v].size_bytes))]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_reads_nothing_that_was_overwritten(seed: int) -> None:
    rng = random.Random(seed)
    overwritten = 0
    for _ in range(300):
        graph = random_graph(rng)
        plan = plan_graph(graph, bounded=True)
        assert faults(graph, plan) == [], (graph, plan.order, plan.overwrites)
        overwritten += len(plan.overwrites)
    assert overwritten > 100


def test_the_simulation_sees_a_wrong_overwrite() -> None:
    """A view that is read to the end lies in the storage that is written."""
    values = (
        StoredValue("x", 16, 4, Origin.INPUT),
        StoredValue("a", 16, 4),
        StoredValue("b", 16, 4, view_of=1),
        StoredValue("r", 16, 4, output=True),
    )
    operations = (
        Operation("a", (1,), (Use(0),)),
        Operation("b", (2,), (Use(1),)),
        Operation("r", (3,), (Use(1, True, True), Use(2, False, True))),
    )
    graph = StorageGraph(values, operations)
    assert not graph.overwrites
    plan = plan_graph(graph, order=(0, 1, 2))
    assert faults(graph, plan) == []
    wrong = (Overwrite(2, 3, 1),)
    arena = replace(plan.arena, instance=graph.instance((0, 1, 2), wrong))
    arena = replace(arena, placement=replace(arena.placement, offsets=(0,)))
    assert faults(graph, replace(plan, overwrites=wrong, arena=arena)) == ["r reads what is left of b"]
