"""What `fl.plan_buffers` and `fl.plan_program` accept: exact whole numbers of any type, and for all else words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.errors import FuselineError, InfeasibleError, LimitError, PlanError, UnitError
from fuseline.plan.arena.types import Gap, Instance

PROGRAM = "h = x + b; out = h*tanh(h) + r"
Planner = Callable[..., Any]


def plan_some_buffers(**options: Any) -> Any:
    return fl.plan_buffers([(0, 3, 4), (1, 5, 8)], **options)


def plan_some_program(**options: Any) -> Any:
    return fl.plan_program(PROGRAM, 4, **options)


BOTH = pytest.mark.parametrize("planned", [plan_some_buffers, plan_some_program])


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ([(0, 3.9, 4)], r"its upper is 3\.9, not a whole number"),
        ([(0, 3, 4.9)], r"its size is 4\.9, not a whole number"),
        ([(0, 3, math.inf)], "its size is inf"),
        ([(0, 3, math.nan)], "its size is nan"),
        ([("0", "3", "4")], "its lower is '0'"),
        ([(0, 3, True)], "its size is True"),
        ([(0, 3, None)], "its size is None"),
        ([(0, 3)], "neither a Buffer nor"),
        ([5], "buffer 0: 5 is neither a Buffer nor"),
        (np.array([[0.0, 3.0, 4.0]]), "not a whole number"),
        ([fl.Buffer("a", 0, 1, 1.5)], r"buffer 'a': its size is 1\.5"),
        ([fl.Buffer("a", 0, 1, None)], "its size is None"),
        ([fl.Buffer("a", 0, 1, "4")], "its size is '4'"),
        ([fl.Buffer("a", 0, 1, 4, alignment=2.0)], r"its alignment is 2\.0"),
        ([fl.Buffer("a", 0, 1, 4, offset=2.0)], r"its offset is 2\.0"),
        ([fl.Buffer("a", 0, 1, 4, hint="x")], "its hint is 'x'"),
        ([fl.Buffer("a", 0, 9, 4, gaps=((2, 3),))], r"its gap \(2, 3\) is not Gap"),
        ([fl.Buffer("a", 0, 9, 4, gaps=(Gap(2, 3.5),))], "is not Gap"),
        ([fl.Buffer("a", 0, 9, 4, gaps=(Gap(2, 3, (0, 1, 2)),))], "is not Gap"),
        ([fl.Buffer("a", 0, 9, 4, gaps=None)], "its gaps are None"),
        ([fl.Buffer(7, 0, 1, 4)], "buffer 0: its id is 7, not text"),
        ([fl.Buffer("a\0", 0, 1, 4)], "control character"),
        ([fl.Buffer("\ud800", 0, 1, 4)], "surrogate"),
        (None, "None is no instance, no path of a CSV file and no sequence of buffers"),
        (5, "5 is no instance"),
        ("", "the name of a CSV file is needed"),
        ("a\0.csv", "the name of a CSV file is needed"),
    ],
)
def test_a_wrong_type_is_told_in_words(buffers: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        fl.plan_buffers(buffers)


def test_an_instance_takes_buffers_only() -> None:
    with pytest.raises(PlanError, match="buffer 1 is 'b', not a Buffer"):
        Instance((fl.Buffer("a", 0, 1, 4), "b"))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="7 is no sequence of buffers"):
        Instance(7)  # type: ignore[arg-type]
    assert Instance([fl.Buffer("a", 0, 1, 4)]).buffers == (fl.Buffer("a", 0, 1, 4),)  # type: ignore[arg-type]


def test_buffers_without_an_end_are_refused() -> None:
    with pytest.raises(LimitError, match="more than 1,000,000 buffers"):
        fl.plan_buffers((0, 3, 4) for _ in iter(int, 1))


def test_whole_numbers_of_numpy_are_exact() -> None:
    size = np.int32(2**30)
    assert fl.plan_buffers([fl.Buffer(name, 0, 1, size) for name in "abc"]).peak_bytes == 3 * 2**30
    assert fl.plan_buffers(np.array([[0, 3, 100], [1, 5, 100]], dtype=np.int8)).peak_bytes == 200
    gap = Gap(np.int8(1), np.int8(2), [np.int8(0), np.int8(3)])  # type: ignore[arg-type]
    buffer = Instance((fl.Buffer("a", 0, 9, np.uint64(4), gaps=[gap]),)).buffers[0]  # type: ignore[arg-type]
    assert buffer == fl.Buffer("a", 0, 9, 4, gaps=(Gap(1, 2, (0, 3)),))
    assert type(buffer.size) is type(buffer.gaps[0].lower) is int


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit_s": "10"}, "the time limit must be a number of seconds, not '10'"),
        ({"time_limit_s": None}, "the time limit must be a number"),
        ({"time_limit_s": True}, "the time limit must be a number"),
        ({"time_limit_s": math.nan}, "the time limit must be positive"),
        ({"time_limit_s": 0}, "the time limit must be positive"),
        ({"time_limit_s": -(10**400)}, "the time limit must be positive"),
        ({"capacity": math.nan}, "a capacity is a whole number of bytes or text such as '1.2 GiB', not nan"),
        ({"capacity": 1.5}, "a capacity is a whole number"),
        ({"capacity": True}, "a capacity is a whole number"),
        ({"capacity": -1}, "a capacity cannot be negative"),
        ({"capacity": "lots"}, "cannot read 'lots' as a size"),
        ({"seed": None}, "the seed must be a whole number, not None"),
        ({"seed": 1.5}, "the seed must be a whole number"),
        ({"on_progress": 5}, "on_progress must be a function"),
    ],
)
def test_a_wrong_option_is_told_in_words(planned: Planner, options: dict[str, Any], message: str) -> None:
    with pytest.raises((PlanError, UnitError), match=message) as raised:
        planned(**options)
    assert isinstance(raised.value, FuselineError)


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {"capacity": "1.2 GiB"},
        {"capacity": "1 MiB"},
        {"capacity": np.int64(2**20)},
        {"time_limit_s": np.float32(1.0)},
        {"time_limit_s": 10**400},
        {"time_limit_s": math.inf},
        {"seed": np.int8(-3)},
        {"exact": False},
    ],
)
def test_options_of_both_planners_are_the_same(planned: Planner, options: dict[str, Any]) -> None:
    assert planned(**options).peak_bytes == planned().peak_bytes


def test_a_shape_of_more_elements_than_can_be_counted_is_refused_in_the_same_words_everywhere() -> None:
    words = r"an array of shape \[(4294967296,4294967296|N,N)\] has 2\*\*63 elements or more"
    for shape, source in (((2**32, 2**32), "out = x + 1"), (None, "x: f32[N, N]; out = x + 1")):
        for call in (fl.plan_program, fl.explain):
            with pytest.raises(LimitError, match=words):
                call(source, shape, sizes=None if shape else {"N": 2**32})


@pytest.mark.parametrize("alignment", [0, -4, 1.5, "64", None, True])
def test_an_alignment_that_is_none_is_refused(alignment: Any) -> None:
    with pytest.raises(PlanError, match=r"an alignment (is at least 1|must be a whole number)"):
        fl.plan_program(PROGRAM, alignment=alignment)


@pytest.mark.parametrize("alignment", [1, 3, 64, np.int64(64)])
def test_every_buffer_of_a_program_is_aligned(alignment: Any) -> None:
    plan = fl.plan_program("a = exp(x); b = tanh(x); c = a*b + x; out = c*b", 5, "u8", alignment=alignment)
    assert all(offset % int(alignment) == 0 for offset in plan.arena.placement.offsets)
    assert all(b.alignment == alignment and b.size % int(alignment) == 0 for b in plan.arena.instance.buffers)


def test_without_exact_search_only_quick_answers_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from fuseline.plan.arena.planner import _Planning

    asked: list[bool] = []
    run = _Planning.run

    def spy(self: Any, exact: bool, node_limit: int | None) -> Any:
        asked.append(exact)
        return run(self, exact, node_limit)

    monkeypatch.setattr(_Planning, "run", spy)
    plan_some_program(exact=False)
    plan_some_program()
    assert asked == [False, True]


def test_results_show_themselves_in_one_line() -> None:
    assert repr(fl.plan_buffers([(0, 3, 4), (3, 9, 4), (0, 9, 4)])) == "<PlanResult: 3 buffers, 8 B, optimal>"
    assert repr(fl.plan_buffers([(0, 3, 4)])) == "<PlanResult: 1 buffer, 4 B, optimal>"
    plan = fl.plan_program("h = x + b; out = h*tanh(h) + r", shape=1024, dtype="f32")
    assert repr(plan).startswith("<JointPlan: 4 steps, ") and repr(plan).endswith(", optimal>")


def test_a_capacity_of_nothing_holds_buffers_without_bytes() -> None:
    assert fl.plan_buffers([(0, 1, 0)], capacity=0).peak_bytes == 0
    with pytest.raises(InfeasibleError):
        fl.plan_buffers([(0, 1, 1)], capacity=0)
