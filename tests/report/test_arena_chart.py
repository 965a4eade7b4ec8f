"""What the arena's picture shows, read from the data behind it."""

from __future__ import annotations

from fuseline.plan.arena.planner import plan_instance
from fuseline.plan.arena.types import Buffer, Gap, Instance
from fuseline.report.arena_chart import arena_chart, live_steps, rectangles

INSTANCE = Instance((Buffer("a", 0, 4, 8), Buffer("b", 2, 6, 4, gaps=(Gap(3, 4),)), Buffer("c", 4, 9, 12)), "three")


def test_every_piece_of_a_buffer_is_a_rectangle_at_its_offset() -> None:
    result = plan_instance(INSTANCE)
    offsets = dict(zip("abc", result.placement.offsets, strict=True))
    rows = sorted((r["id"], r["lower"], r["upper"], r["low"], r["high"]) for r in rectangles(result))
    assert rows == [
        ("a", 0, 4, offsets["a"], offsets["a"] + 8),
        ("b", 2, 3, offsets["b"], offsets["b"] + 4),
        ("b", 4, 6, offsets["b"], offsets["b"] + 4),
        ("c", 4, 9, offsets["c"], offsets["c"] + 12),
    ]


def test_the_live_sum_follows_every_start_and_end() -> None:
    assert live_steps(plan_instance(INSTANCE)) == [(0, 8), (2, 12), (3, 8), (4, 16), (6, 12), (9, 0)]


def test_the_chart_names_the_instance_the_lines_and_the_proof() -> None:
    described = arena_chart(plan_instance(INSTANCE), "en").to_json()
    for words in ("Arena of three: 3 buffers", "proven optimal", "live sum", "lower bound", "offset (bytes)"):
        assert words in described


def test_a_name_is_shortened_to_its_rectangle_or_left_out_of_a_small_one() -> None:
    long = "buffer_" * 60 + "end"
    buffers = (Buffer(long, 0, 500, 8), Buffer("x", 500, 503, 8), Buffer("slim" * 9, 503, 505, 8))
    labels = {r["id"]: r["label"] for r in rectangles(plan_instance(Instance(buffers, "names")))}
    assert labels[long].startswith("buffer_") and "…" in labels[long] and labels[long].endswith("end")
    assert labels["slim" * 9] == ""
