"""The rules of reading, against their sentences written out a second time."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuseline.api.roofline import chosen_rule
from fuseline.errors import UnitError, UnknownNameError
from fuseline.roofline.rules import UNDETERMINED, BookRule, NsightRule, Reading, rule_named

EDGES = (0.2, 0.45, 0.5, 0.6, 0.8, 0.85)
ratio = st.floats(0, 1.2, allow_nan=False) | st.sampled_from([x for e in EDGES for x in (math.nextafter(e, 0), e)])


def book_sentence(c, m, third=0.0):
    """Saturated 0.85, involved 0.45, other side below 0.20; where the sides decide nothing, a third pipe at 0.85."""
    if c >= 0.85 and m < 0.20:
        return "compute"
    if m >= 0.85 and c < 0.20:
        return "memory"
    if c >= 0.45 and m >= 0.45:
        return "balanced"
    return "fix" if third >= 0.85 else "neither"


def nsight_sentence(c, m, waves):
    """60, 80, 10; small grid below one wave; above 80 still named."""
    if c < 60 and m < 60:
        return "small-grid" if waves is not None and waves < 1 else "latency"
    if abs(c - m) < 10:
        return "balanced"
    return "compute" if c > m else "memory"


@given(ratio, ratio)
def test_the_book_rule_is_its_sentence(c, m):
    assert BookRule().judge(Reading(c, m)).bound == book_sentence(c, m)


@given(ratio, ratio, ratio)
def test_a_third_pipe_is_asked_where_the_main_sides_decide_nothing(c, m, third):
    verdict = BookRule().judge(Reading(c, m, {"fix": third}))
    assert verdict.bound == book_sentence(c, m, third)
    beside = third >= 0.85 and verdict.bound in ("compute", "memory", "balanced")
    assert ("third-pipe-saturated" in [note.code for note in verdict.notes]) == beside


@given(ratio, ratio, st.none() | st.floats(0.01, 5))
def test_the_nsight_rule_is_its_sentence(c, m, waves):
    assert NsightRule().judge(Reading(c, m, waves=waves)).bound == nsight_sentence(100 * c, 100 * m, waves)


@pytest.mark.parametrize(("c", "m"), list(product(EDGES, EDGES)))
def test_both_rules_are_their_sentences_at_every_threshold(c, m):
    assert BookRule().judge(Reading(c, m)).bound == book_sentence(c, m)
    verdict = NsightRule().judge(Reading(c, m))
    assert verdict.bound == nsight_sentence(100 * c, 100 * m, None)
    high = "high-throughput" in [note.code for note in verdict.notes]
    assert high == (100 * c > 80 or 100 * m > 80)


@given(ratio, ratio, st.floats(1e-7, 1e-3), st.sampled_from(["book", "nsight"]))
def test_a_time_below_twice_the_launch_floor_is_latency_whatever_the_ratios(c, m, time, name):
    verdict = rule_named(name).judge(Reading(c, m, time_s=time, launch_floor_s=4e-6))
    if time < 8e-6:
        assert verdict.bound == "latency"
        assert verdict.notes[0].code == "near-launch-floor"
    else:
        assert verdict == rule_named(name).judge(Reading(c, m))


def test_a_saturated_side_with_the_other_half_busy_is_neither_and_says_so():
    verdict = BookRule().judge(Reading(0.9, 0.3))
    assert verdict.bound == "neither"
    assert verdict.notes[0].code == "side-saturated" and verdict.notes[0].values["side"] == "compute"


def test_a_saturated_third_pipe_is_the_bound_unless_a_main_side_is():
    assert BookRule().judge(Reading(0.7, 0.1, {"fix": 0.99, "l2": 0.9})).bound == "fix"
    assert BookRule().judge(Reading(0.7, 0.6, {"fix": 0.99})).bound == "balanced"
    assert BookRule().judge(Reading(0.9, 0.1, {"fix": 0.99})).bound == "compute"
    assert BookRule().judge(Reading(0.7, 0.1, {"fix": 0.84})).bound == "neither"


def test_a_missing_side_is_never_taken_for_an_idle_one():
    for rule in (BookRule(), NsightRule()):
        assert rule.judge(Reading(0.95, None)).bound == rule.judge(Reading(None, 0.95)).bound == UNDETERMINED
        verdict = rule.judge(Reading(0.5, None))
        assert [(note.code, note.values["side"]) for note in verdict.notes] == [("side-missing", "memory")]


@pytest.mark.parametrize("rule", [BookRule(), NsightRule()])
def test_a_rate_that_is_given_and_decides_nothing_is_not_asked_for(rule):
    verdict = rule.judge(Reading(None, None, unusable={"compute": "impossible", "memory": "refused"}))
    assert verdict.bound == UNDETERMINED
    assert [note.code for note in verdict.notes] == ["side-impossible", "side-refused"]
    assert [n.code for n in rule.judge(Reading(None, 0.5, unusable={"memory": "refused"})).notes] == ["side-missing"]


def test_a_launch_floor_that_is_assumed_is_called_so():
    verdict = BookRule().judge(Reading(0.9, 0.1, time_s=5e-6, launch_floor_s=4e-6, floor_assumed=True))
    assert verdict.bound == "latency" and verdict.notes[0].code == "near-assumed-floor"


def test_thresholds_can_be_changed_within_reason():
    rule = chosen_rule("book", saturated=0.6)
    assert rule.judge(Reading(0.65, 0.1)).bound == "compute"
    assert rule.thresholds() == {"saturated": 0.6, "involved": 0.45, "other": 0.2}
    for bad in ({"saturated": 1.5}, {"saturated": 0.3}, {"other": 0}, {"other": 0.9}, {"involved": float("nan")}):
        with pytest.raises(UnitError):
            chosen_rule("book", **bad)
    with pytest.raises(UnitError, match="book rule"):
        chosen_rule("nsight", saturated=0.5)
    with pytest.raises(UnknownNameError, match="choose one of book, nsight"):
        chosen_rule("boook")
