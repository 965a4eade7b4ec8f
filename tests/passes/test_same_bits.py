"""Optimised programs give the oracle's bits: random programs over special values, and the shapes rewrites feed on.

Every unsound rewrite of `planted_rewrites`, put into the passes alone, must make the first of these tests fail.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from arrays import first_difference, same_bits, special_values
from fuseline.api.program import graph
from fuseline.ir.interpret import interpret
from fuseline.passes.pipeline import optimize
from planted_rewrites import PLANTS, planted
from programs import seeded_programs

TEMPLATES = (
    "{a}*0", "0.0*{a}", "{a} - {a}", "{a}/{a}", "{a} + 0.0", "0.0 + {a}", "0.0 - {a}", "{a}/{c}", "({a} + {b}) - {a}",
    "({a}*{b})/{b}", "exp(log({a}))", "where({a} == {a}, {a}, {b})", "where({a} != {a}, {b}, {a})", "{a}**3",
    "{a}**0.5", "f32(bf16({a} + {b})) - {b}", "f32(f16({a}*{c})) + {b}",
    "{a}**-1", "{a}**0", "{a}*{b} + {a}", "{a} - {b}*{c}", "{a} + {b} + {a}", "({a} + {c}) + {b}", "{a}*{b}*{a}",
    "{a}*{c} + {b}*{c}", "{a}*1", "{a} - 0.0", "{a} + -0.0", "-(-{a})", "{a}/2.0", "{a}/0.25", "minimum({a}, {a})",
    "{a}**2", "maximum({a}, {b})", "minimum({b}, {a})", "abs(-{a})", "floor(trunc({a}))", "where(isnan({a}), {b}, {a})",
    "sqrt({a}*{a})", "log(exp({a}))", "{a}/{c}/{c}", "1.0/(1.0/{a})", "{a}*{c}*{c}", "relu(-{a})", "clip({a}, -1, 1)",
)  # fmt: skip
NUMBERS = ("3.0", "7.0", "0.1", "1e30", "49.0", "5e-39", "2.5")


def template_program(random: Random) -> str:
    """Two or three templates around each other, over two inputs."""
    texts = ["x", "y"]
    for _ in range(random.randint(1, 3)):
        chosen = random.choice(TEMPLATES)
        parts = {"a": random.choice(texts), "b": random.choice(texts), "c": random.choice(NUMBERS)}
        texts.append(f"({chosen.format(**parts)})")
    return texts[-1]


def assert_same_bits(before, after, arrays, what):
    wanted, given = interpret(before, arrays), interpret(after, arrays)
    for name in wanted:
        if not same_bits(wanted[name], given[name]):
            difference = first_difference(wanted[name], given[name])
            pytest.fail(f"{what}\n{before}\n{after}\n{name}: {difference}")


def pairs(name: str) -> dict[str, np.ndarray]:
    """Every special value against every other one."""
    values = special_values(name)
    x, y = np.meshgrid(values, values)
    return {"x": x.ravel(), "y": y.ravel()}


def check_templates(count: int, seed: int) -> None:
    random = Random(seed)
    for _ in range(count):
        text, name = template_program(random), random.choice(["f32", "f32", "f64", "f16", "bf16"])
        before = graph(text, name)
        arrays = {k: v for k, v in pairs(name).items() if k in before.input_names}
        assert_same_bits(before, optimize(before), arrays, text)


def test_rewriting_keeps_every_bit_of_what_rewrites_feed_on():
    check_templates(600, seed=1)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_unsound_rewrite_is_caught(name):
    with planted(name), pytest.raises(pytest.fail.Exception):
        check_templates(600, seed=1)
    check_templates(20, seed=5)


def test_rewriting_keeps_every_bit_of_random_programs():
    for program in seeded_programs(1500, seed=2):
        assert_same_bits(program.graph, optimize(program.graph), program.arrays, program.text)


@pytest.mark.long
def test_rewriting_keeps_every_bit_of_100_000_programs():
    check_templates(20_000, seed=3)
    for program in seeded_programs(80_000, seed=4):
        assert_same_bits(program.graph, optimize(program.graph), program.arrays, program.text)
