"""The memory section's arena: order, offsets and lifetimes of a whole program, checked by hand and by replaying it."""

from __future__ import annotations

import json

import pytest

import fuseline as fl
from fuseline.cli.main import run
from programs import seeded_programs

COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"


def replay(e: fl.Explanation) -> None:
    """Run the order over named bytes: every operand must still be the last that was written where it lies."""
    rows = {row.number: row for row in e.memory.arena}
    number = e.graph.number
    outputs = {number[n] for n in e.graph.output_nodes if n in number}
    holders: dict[int, int] = {}  # first byte of each 64-byte line -> the value written there last
    steps = [row.number for row in e.memory.arena]
    assert sorted(steps) == list(range(len(e.graph.nodes)))
    for row in e.memory.arena:
        node = e.graph.nodes[row.number]
        for operand in node.args:
            if operand in number:
                other = rows[number[operand]]
                assert other.lower <= row.step < other.upper
                lines = range(other.offset, other.offset + other.size_bytes, 64)
                assert all(holders[line] == number[operand] for line in lines)
        assert row.offset % 64 == 0 and row.step == row.lower
        assert row.offset + row.size_bytes <= e.memory.placement.peak_bytes
        for line in range(row.offset, row.offset + row.size_bytes, 64):
            holders[line] = row.number
    for k in outputs:
        lines = range(rows[k].offset, rows[k].offset + rows[k].size_bytes, 64)
        assert all(holders[line] == k for line in lines) and rows[k].upper == len(steps)


def test_the_course_program_goes_from_eleven_buffers_to_three_to_an_arena_of_two() -> None:
    e = fl.explain(COURSE, (64, 32), "f32")
    m = e.memory
    assert (m.naive_buffers, m.planned_buffers, m.best_order_buffers) == (11, 3, 2)
    assert m.placement.peak_bytes == 2 * 64 * 32 * 4
    assert m.placement.optimal
    replay(e)


def test_buffers_of_different_sizes_share_the_arena() -> None:
    e = fl.explain("x: f32[64, 32]; s = exp(x); t = sum(s, 1, keepdims=True); u = x/t; out = f64(u)*2", dtype="f32")
    replay(e)
    assert e.memory.placement.peak_bytes < e.memory.planned_bytes


def test_random_programs_can_be_replayed_in_their_arenas() -> None:
    for program in seeded_programs(150, seed=9, broadcast=True):
        replay(fl.explain(program.graph, (3, 5)))


def test_the_arena_is_in_the_json_and_always_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for _ in range(2):
        assert run(["explain", COURSE, "--shape", "64x32", "--dtype", "f32", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["memory"]["arena"])
    assert found[0] == found[1]
    arena = found[0]
    assert {"peak_bytes", "lower_bound_bytes", "optimal", "gap", "order", "values", "alive_bytes"} <= set(arena)
    assert len(arena["order"]) == len(arena["values"]) == 11
    assert (arena["proof_covers"], arena["valid_for"]) == ("this order", "sequential execution in this order")
    last = arena["values"][-1]
    assert (last["id"], last["upper"], last["in_place_of"]) == ("out", 11, arena["order"][9])
    assert {"step", "id", "offset", "lower", "upper", "size_bytes", "buffer"} <= set(last)


def test_explain_and_plan_say_the_same_of_an_arena_in_the_same_words() -> None:
    explained = fl.explain(COURSE, shape=(64, 32), dtype="f32").to_dict()["memory"]["arena"]
    planned = fl.plan_program(COURSE, (64, 32), "f32", alignment=64).to_dict()
    same = set(explained) & set(planned)
    assert set(explained) - same == {"alive_bytes"}
    assert same >= {"order", "values", "buffers", "peak_bytes", "lower_bound_bytes", "bound_reasons", "method"}
    for arena in (explained, planned):
        buffers = {b["id"]: b["offset"] for b in arena["buffers"]}
        ids = [v["id"] for v in arena["values"]]
        assert arena["order"] == ids
        for value in arena["values"]:
            assert set(value) == set(planned["values"][0])
            assert value["offset"] == buffers[value["buffer"]]
            assert value["in_place_of"] is None or value["in_place_of"] in ids
    assert {v["id"] for v in explained["values"]} == {v["id"] for v in planned["values"]}


@pytest.mark.parametrize(("lang", "words"), [("en", "no smaller one exists"), ("zh", "不存在更小的")])
def test_the_table_names_order_offset_and_lifetime(capsys: pytest.CaptureFixture[str], lang: str, words: str) -> None:
    assert run(["explain", COURSE, "--shape", "64x32", "--dtype", "f32", "--lang", lang]) == 0
    out = capsys.readouterr().out
    assert words in out
    row = next(line for line in out.partition(words)[2].splitlines() if " out " in line)
    assert row.split()[:6] == ["10", "out", "0", "y", "10", "11"]


def test_explain_draws_the_arena(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "arena.svg"
    assert run(["explain", COURSE, "--chart", str(path)]) == 0
    assert "Arena of program: 2 buffers" in path.read_text() or "内存区" in path.read_text()
    assert run(["explain", COURSE, "--chart", "arena.gif"]) == 2
    assert "ending in .svg" in capsys.readouterr().err
