"""Keeping reduced axes is the same computation, or it is not offered."""

from __future__ import annotations

import numpy as np
import pytest

from arrays import same_bits
from fuseline.api.program import graph, optimize
from fuseline.ir.interpret import interpret
from fuseline.plan.kept_axes import drops_axes, with_kept_axes
from fuseline.plan.launch import fused
from programs import seeded_programs

SHORT = ("add", "sub", "mul", "maximum", "neg", "abs", "where", "lt", "square")
REDUCTIONS = ("sum", "max", "min", "any")


def check(count: int, seed: int) -> int:
    """How many of so many random programs could keep their axes: with the same values at each place."""
    kept_programs = 0
    operations = (*SHORT, *REDUCTIONS, *REDUCTIONS)
    for p in seeded_programs(count, seed=seed, operations=operations, any_outputs=True, shape=(2, 2, 2)):
        g = optimize(p.graph)
        kept = with_kept_axes(g)
        if kept is None:
            continue
        kept_programs += 1
        assert not any(map(drops_axes, kept.nodes))
        wanted, found = interpret(g, p.arrays), interpret(kept, p.arrays)
        for name, value in wanted.items():
            assert same_bits(np.squeeze(value), np.squeeze(found[name])), p.text
    return kept_programs


def test_keeping_axes_changes_no_value() -> None:
    assert check(600, seed=51) > 100


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("x: f32[2, 2]; y = x + sum(x, -1, keepdims=False)", False),  # the same shape, and other values
        ("x: f32[2, 2]; y = x + sum(x, 0, keepdims=False)", True),
        ("x: f32[T, D]; w: f32[T]; y = sum(x, -1, keepdims=False)*w", False),
        ("x: f32[T, 1]; y: f32[T, D]; z = x*sum(y, -1, keepdims=False)", False),
        ("x: f32[A, T, D]; y = sum(sum(x, -1, keepdims=False), -1, keepdims=False)*2", True),
        ("x: f32[T, D]; y = sum(x, -1)", False),
        ("y = sum(x, -1, keepdims=False)", False),
    ],
)
def test_axes_are_kept_where_values_meet_as_before(text: str, possible: bool) -> None:
    assert (with_kept_axes(graph(text)) is not None) == possible


def test_a_kept_axis_saves_a_launch() -> None:
    g = optimize(graph("x: f32[T, D]; y = log(sum(exp(x), -1, keepdims=False))"))
    kept = with_kept_axes(g)
    assert kept is not None
    assert (len(fused(g).launches), len(fused(kept).launches)) == (2, 1)
