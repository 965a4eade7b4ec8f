"""What the report on an arena says of its proof and its method, in both languages."""

from __future__ import annotations

import re

import pytest

from fuseline.plan.arena.findings import Bound, Ground, Method, Order, Reason, Strategy
from fuseline.report.arena_document import bound_text, method_text

FACTS = (("time", 7), ("count", 1), ("size_bytes", 3000), ("offset_bytes", 64), ("id", "x"), ("nodes", 1234))


@pytest.mark.parametrize("ground", list(Ground))
def test_every_reason_for_a_bound_is_worded_in_both_languages_and_alike_in_json(ground: Ground) -> None:
    bound = Bound(3000, (Reason(ground, FACTS),))
    assert bound_text(bound, "en") == bound.derivation
    chinese = bound_text(bound, "zh")
    assert re.search("[\u4e00-\u9fff]", chinese)
    assert not re.search("[a-z]{3}", chinese)


@pytest.mark.parametrize("strategy", [s for s in Strategy if s])
@pytest.mark.parametrize("order", list(Order))
def test_every_method_is_worded_in_both_languages_and_alike_in_json(strategy: Strategy, order: Order) -> None:
    method = Method(strategy, order)
    assert method_text(method, "en") == str(method)
    assert not re.search("[a-z]", method_text(method, "zh"))


def test_no_method_has_no_name() -> None:
    assert method_text(Method(), "en") == str(Method()) == ""


def test_one_buffer_is_not_one_buffers() -> None:
    reason = Reason(Ground.LIVE_SUM, (("time", 0), ("count", 1), ("size_bytes", 32)))
    assert str(reason) == "at t=0 32 B are live (1 buffer, 32 bytes)"
