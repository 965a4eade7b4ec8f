"""Each way in which planners overwrote live data, as a case that must be refused, and the legal cases beside it."""

from __future__ import annotations

import pytest

from fuseline.errors import PlanError
from fuseline.plan.inplace import Operation, Origin, Overwrite, StorageGraph, StoredValue, Use
from fuseline.plan.joint import plan_graph

F32 = 4


def value(name: str, elements: int = 4, element_bytes: int = F32, **more: object) -> StoredValue:
    return StoredValue(name, elements * element_bytes, element_bytes, **more)  # type: ignore[arg-type]


def same(v: int) -> Use:
    return Use(v, may_overwrite=True, same_index=True)


def chosen(graph: StorageGraph, order: tuple[int, ...] | None = None) -> set[tuple[str, str]]:
    order = order if order is not None else tuple(range(len(graph.operations)))
    return {(graph.values[o.result].name, graph.values[o.operand].name) for o in graph.chosen_overwrites(order)}


def test_the_last_reader_overwrites_its_operand() -> None:
    graph = StorageGraph(
        (value("x", origin=Origin.INPUT), value("a"), value("b", output=True)),
        (Operation("exp", (1,), (same(0),)), Operation("neg", (2,), (same(1),))),
    )
    assert chosen(graph) == {("b", "a")}


def test_an_input_is_never_overwritten_unless_it_is_donated() -> None:
    for origin, expected in ((Origin.INPUT, set()), (Origin.DONATED, {("y", "x")}), (Origin.CONSTANT, set())):
        graph = StorageGraph(
            (value("x", origin=origin), value("y", output=True)), (Operation("exp", (1,), (same(0),)),)
        )
        assert chosen(graph) == expected


def test_a_donated_buffer_passed_twice_is_refused() -> None:
    with pytest.raises(PlanError, match="'x' and 'z' are one buffer"):
        StorageGraph(
            (
                value("x", origin=Origin.DONATED, caller_buffer=7),
                value("z", origin=Origin.INPUT, caller_buffer=7),
                value("y", output=True),
            ),
            (Operation("add", (2,), (same(0), same(1))),),
        )


def test_only_the_last_reader_in_the_chosen_order_overwrites() -> None:
    values = (value("x", origin=Origin.INPUT), value("b"), value("c", output=True), value("d", output=True))
    graph = StorageGraph(
        values,
        (Operation("exp", (1,), (same(0),)), Operation("op1", (2,), (same(1),)), Operation("op2", (3,), (same(1),))),
    )
    assert chosen(graph, (0, 1, 2)) == {("d", "b")}
    assert chosen(graph, (0, 2, 1)) == {("c", "b")}


def test_a_reader_of_a_view_of_a_view_keeps_the_root_from_being_overwritten() -> None:
    # x -> r1 = reshape x -> r2 = reshape r1 -> in-place operation on r2, while r1 is read once more.
    values = (
        value("in", origin=Origin.INPUT),
        value("x"),
        value("r1", view_of=1),
        value("r2", view_of=2),
        value("y"),
        value("z", output=True),
    )
    operations = (
        Operation("make", (1,), (same(0),)),
        Operation("reshape", (2,), (Use(1),)),
        Operation("reshape2", (3,), (Use(2),)),
        Operation("relu", (4,), (same(3),)),
        Operation("add", (5,), (same(4), same(2))),
    )
    graph = StorageGraph(values, operations)
    assert graph.root == (0, 1, 1, 1, 4, 5)
    assert ("y", "r2") not in chosen(graph)
    assert chosen(graph) == {("z", "y")}
    plan = plan_graph(graph, order=range(5))
    x = plan.arena.instance.buffers[0]
    assert (x.id, x.lower, x.upper) == ("x", 0, 5)


def test_an_output_that_is_a_view_keeps_its_whole_storage_to_the_end() -> None:
    values = (
        value("in", origin=Origin.INPUT),
        value("x"),
        value("v", view_of=1, output=True),
        value("y"),
        value("z", output=True),
    )
    operations = (
        Operation("make", (1,), (same(0),)),
        Operation("view", (2,), (Use(1),)),
        Operation("relu", (3,), (same(1),)),
        Operation("exp", (4,), (same(3),)),
    )
    graph = StorageGraph(values, operations)
    assert chosen(graph) == {("z", "y")}
    buffers = {b.id: b for b in plan_graph(graph, order=range(4)).arena.instance.buffers}
    assert buffers["x"].upper == 4


@pytest.mark.parametrize(
    ("operand", "result", "use", "why"),
    [
        (value("a", 2), value("r", 4, output=True), same(0), "8 bytes"),
        (value("a", 4, 1), value("r", 4, 4, output=True), same(0), "bytes"),
        (value("a", 8, 2), value("r", 4, 4, output=True), same(0), "elements of a have 2 bytes"),
        (value("a"), value("r", output=True), Use(0, may_overwrite=True, same_index=False), "other positions"),
        (value("a"), value("r", output=True), Use(0, may_overwrite=False, same_index=True), "does not allow"),
    ],
)
def test_sizes_dtypes_and_index_maps_must_be_equal(
    operand: StoredValue, result: StoredValue, use: Use, why: str
) -> None:
    graph = StorageGraph((operand, result), (Operation("make", (0,), ()), Operation("op", (1,), (use,))))
    objection = graph.objection(Overwrite(1, 1, 0))
    assert objection is not None and why in objection
    assert not graph.overwrites


@pytest.mark.parametrize(
    ("view", "use", "why"),
    [
        (value("b", view_of=0), Use(1, may_overwrite=False, same_index=True), "does not allow its result in b"),
        (value("b", view_of=0), Use(1, may_overwrite=True, same_index=False), "other positions of b"),
        (value("b", 2, view_of=0), same(1), "b has 8 bytes, r 16"),
        (value("b", 8, 2, view_of=0), same(1), "elements of b have 2 bytes"),
    ],
)
def test_what_is_asked_of_an_operand_is_asked_of_every_view_read_beside_it(
    view: StoredValue, use: Use, why: str
) -> None:
    for uses, operand in (((same(0), use), 0), ((use, same(0)), 0), ((same(0), use), 1)):
        graph = StorageGraph(
            (value("a"), view, value("r", output=True)),
            (Operation("make", (0,), ()), Operation("view", (1,), (Use(0),)), Operation("op", (2,), uses)),
        )
        objection = graph.objection(Overwrite(2, 2, operand))
        assert objection is not None and why in objection
        assert not graph.overwrites


def test_a_donated_input_is_overwritten_only_by_what_its_alignment_is_enough_for() -> None:
    def taken(donated: int, first: int, second: int) -> set[tuple[str, str]]:
        values = (
            value("x", origin=Origin.DONATED, alignment=donated),
            value("y", alignment=first),
            value("z", alignment=second, output=True),
        )
        return chosen(StorageGraph(values, (Operation("y", (1,), (same(0),)), Operation("z", (2,), (same(1),)))))

    assert taken(64, 64, 16) == {("y", "x"), ("z", "y")}
    assert taken(16, 16, 64) == {("y", "x")}
    assert taken(16, 64, 16) == {("z", "y")}


def test_adding_a_value_to_its_own_transpose_never_overwrites_it() -> None:
    values = (value("a"), value("t", view_of=0), value("r", output=True))
    operations = (
        Operation("make", (0,), ()),
        Operation("transpose", (1,), (Use(0),)),
        Operation("add", (2,), (same(0), Use(1, may_overwrite=True, same_index=False))),
    )
    assert not StorageGraph(values, operations).overwrites


def test_the_same_operand_twice_is_overwritten_once_where_both_reads_agree() -> None:
    graph = StorageGraph(
        (value("a"), value("r", output=True)), (Operation("make", (0,), ()), Operation("add", (1,), (same(0), same(0))))
    )
    assert chosen(graph) == {("r", "a")}


def test_a_part_of_a_larger_storage_is_not_overwritten() -> None:
    graph = StorageGraph(
        (value("a", 8), value("half", 4, view_of=0), value("r", 4, output=True)),
        (Operation("make", (0,), ()), Operation("slice", (1,), (Use(0),)), Operation("exp", (2,), (same(1),))),
    )
    objection = graph.objection(Overwrite(2, 2, 1))
    assert objection is not None and "part of the storage" in objection


def test_a_value_that_may_be_read_at_the_same_time_is_not_overwritten() -> None:
    graph = StorageGraph(
        (value("a"), value("r", output=True), value("s", output=True)),
        (
            Operation("make", (0,), ()),
            Operation("exp", (1,), (same(0),), concurrent=(2,)),
            Operation("log", (2,), (same(0),), concurrent=(1,)),
        ),
    )
    assert not graph.overwrites


def test_two_results_do_not_take_one_storage() -> None:
    graph = StorageGraph(
        (value("a"), value("r", output=True), value("s", output=True)),
        (Operation("make", (0,), ()), Operation("divmod", (1, 2), (same(0),))),
    )
    assert len(chosen(graph)) == 1


def test_a_broadcast_sum_may_take_the_full_operand_and_never_the_small_one() -> None:
    full, small = value("full", 4), value("small", 2)
    graph = StorageGraph(
        (full, small, value("r", 4, output=True)),
        (
            Operation("make", (0,), ()),
            Operation("make2", (1,), ()),
            Operation("add", (2,), (same(0), Use(1, may_overwrite=True, same_index=False))),
        ),
    )
    assert chosen(graph) == {("r", "full")}


def test_a_joint_plan_reports_its_peak_with_and_without_reuse() -> None:
    count = 6
    values = (value("in", origin=Origin.INPUT), *(value(f"v{i}", output=i == count - 1) for i in range(count)))
    operations = tuple(Operation(f"op{i}", (i + 1,), (same(i),)) for i in range(count))
    plan = plan_graph(StorageGraph(values, operations))
    assert plan.arena.peak_bytes == 16
    assert plan.arena.optimal
    assert plan.peak_without_reuse_bytes == 32


def test_a_result_in_a_donated_input_needs_no_bytes_of_the_arena() -> None:
    graph = StorageGraph(
        (value("x", origin=Origin.DONATED), value("y"), value("z", output=True)),
        (Operation("exp", (1,), (same(0),)), Operation("neg", (2,), (same(1),))),
    )
    plan = plan_graph(graph)
    assert len(plan.overwrites) == 2
    assert plan.arena.peak_bytes == 0


def test_a_view_of_itself_is_refused() -> None:
    with pytest.raises(PlanError, match="view of itself"):
        StorageGraph(
            (value("a", view_of=1), value("b", view_of=0)), (Operation("x", (0,), ()), Operation("y", (1,), ()))
        )


def beside(says: tuple[tuple[int, ...], tuple[int, ...]]) -> StorageGraph:
    """x → a; g reads a, h makes b from x, and g and h may run at the same time where ``says`` has it so."""
    values = (value("x", origin=Origin.INPUT), value("a"), value("g", output=True), value("b"), value("c", output=True))
    return StorageGraph(
        values,
        (
            Operation("a", (1,), (same(0),)),
            Operation("g", (2,), (Use(1),), concurrent=says[0]),
            Operation("h", (3,), (Use(0),), concurrent=says[1]),
            Operation("c", (4,), (Use(3),)),
        ),
    )


@pytest.mark.parametrize("says", [((2,), (1,)), ((2,), ()), ((), (1,))])
def test_what_runs_at_the_same_time_shares_no_bytes_whichever_says_so(
    says: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    def lifetimes(graph: StorageGraph) -> dict[str, tuple[int, int]]:
        return {b.id: (b.lower, b.upper) for b in plan_graph(graph, order=range(4)).arena.instance.buffers}

    assert lifetimes(beside(((), ())))["a"][1] <= lifetimes(beside(((), ())))["b"][0]
    together = lifetimes(beside(says))
    assert together["b"][0] < together["a"][1]
    assert together["a"][0] < together["b"][1]


def test_an_operand_that_another_may_read_at_the_same_time_is_not_overwritten_whichever_says_so() -> None:
    for of_reader, of_writer in (((2,), ()), ((), (1,))):
        graph = StorageGraph(
            (value("x", origin=Origin.INPUT), value("a"), value("p", output=True), value("q", output=True)),
            (
                Operation("a", (1,), (same(0),)),
                Operation("p", (2,), (Use(1),), concurrent=of_reader),
                Operation("q", (3,), (same(1),), concurrent=of_writer),
            ),
        )
        assert chosen(graph) == set()


@pytest.mark.parametrize(
    ("values", "operations", "message"),
    [
        ((value("a", output=True),), (Operation("f", (5,), ()),), "'f' names value 5; there are 1"),
        ((value("a", output=True),), (Operation("f", (0,), (Use(-1),)),), "'f' names value -1"),
        ((value("a", output=True),), (Operation("f", (0,), (), concurrent=(3,)),), "'f' runs beside operation 3"),
        ((value("a"), value("a")), (Operation("f", (0, 1), ()),), "two values are called 'a'"),
        ((value("a", alignment=0),), (Operation("f", (0,), ()),), "an alignment is at least 1"),
        ((value("a", elements=-1),), (Operation("f", (0,), ()),), "'a' has a negative size"),
        ((value("a"), value("b")), (Operation("f", (0,), ()),), "'b' is computed by no operation"),
        ((value("a"),), (Operation("f", (0,), ()), Operation("g", (0,), ())), "'a' is made by 'g' but exists already"),
        ((value("a", origin=Origin.INPUT),), (Operation("f", (0,), ()),), "'a' is made by 'f' but exists already"),
        ((value("a", view_of=1),), (Operation("f", (0,), ()),), "'a' is a view of itself or of nothing"),
        ((value("a", view_of=-1),), (Operation("f", (0,), ()),), "'a' is a view of itself or of nothing"),
    ],
)
def test_a_graph_of_what_does_not_exist_is_refused(
    values: tuple[StoredValue, ...], operations: tuple[Operation, ...], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        StorageGraph(values, operations)


def test_of_operands_of_different_alignments_the_one_that_saves_most_is_taken() -> None:
    graph = StorageGraph(
        (value("a"), value("b", alignment=64), value("r", alignment=64, output=True)),
        (Operation("a", (0,), ()), Operation("b", (1,), ()), Operation("r", (2,), (same(0), same(1)))),
    )
    assert chosen(graph) == {("r", "b")}
    plan = plan_graph(graph)
    assert plan.optimal and plan.arena.peak_bytes == plan.peak_bytes == 80


def test_alignments_in_one_storage_are_all_kept() -> None:
    graph = StorageGraph(
        (value("x", origin=Origin.INPUT), value("a", alignment=4), value("b", alignment=6, output=True)),
        (Operation("a", (1,), (same(0),)), Operation("b", (2,), (same(1),))),
    )
    (buffer,) = plan_graph(graph).arena.instance.buffers
    assert buffer.alignment == 12


def test_without_outputs_the_arena_holds_what_no_output_ends_in() -> None:
    values = (value("x", origin=Origin.INPUT), value("a"), value("b"), value("v", view_of=2, output=True))
    operations = (
        Operation("a", (1,), (same(0),)),
        Operation("b", (2,), (Use(1),)),
        Operation("view", (3,), (Use(2),)),
    )
    graph = StorageGraph(values, operations)
    assert [b.id for b in plan_graph(graph).arena.instance.buffers] == ["a", "b"]
    assert [b.id for b in plan_graph(graph, outputs_in_arena=False).arena.instance.buffers] == ["a"]
    # What an output takes in place is the output's.
    taken = StorageGraph(values, (operations[0], Operation("b", (2,), (same(1),)), operations[2]))
    assert [b.id for b in plan_graph(taken).arena.instance.buffers] == ["a"]
    assert plan_graph(taken, outputs_in_arena=False).arena.instance.buffers == ()
