"""The generated file is what the generator writes, and its certificates hold."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from coefficient_specifications import CONSTANTS, FITS, PIECES, RECIPROCALS, Pieces, Reciprocals
from generate_coefficients import DIGITS, constant_text, evaluate, fit, pieces_text, reciprocals_text

from fuseline.mathlib import coefficients
from fuseline.mathlib.inverse_pi import TWO_OVER_PI_BITS, TWO_OVER_PI_FRACTION

BY_NAME = {f.name: f for f in FITS}
GUESSES = {"CBRT_F32": -18}
"""Polynomials that a step follows which squares their error, and the exponent of two that this error is below."""


@pytest.mark.parametrize("name", ["EXP_F32", "SIN_F32"])
def test_the_generator_reproduces_the_committed_coefficients(name: str) -> None:
    mp.mp.dps = DIGITS
    assert fit(BY_NAME[name]).coefficients == getattr(coefficients, name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_the_generator_reproduces_every_committed_coefficient(name: str) -> None:
    mp.mp.dps = DIGITS
    assert fit(BY_NAME[name]).coefficients == getattr(coefficients, name)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_polynomials_are_close_to_their_functions(name: str) -> None:
    mp.mp.dps = DIGITS
    spec = BY_NAME[name]
    c = [mp.mpf(v) for v in getattr(coefficients, name)]
    low, high = mp.mpf(spec.interval[0]), mp.mpf(spec.interval[1])
    usual = -26 if spec.bits == 24 else -29 if name.endswith("WIDE") else -55
    bound = mp.mpf(2) ** GUESSES.get(name, usual)
    for i in range(1, 40):
        x = low + (high - low) * (i + mp.mpf("0.137")) / 41
        assert abs(spec.weight(x) * (evaluate(c, x) - spec.function(x))) < bound


@pytest.mark.long
@pytest.mark.parametrize("spec", PIECES, ids=lambda s: s.name)
def test_the_generator_reproduces_every_committed_piece(spec: Pieces) -> None:
    mp.mp.dps = DIGITS
    text = pieces_text(spec)
    rows = [v for row in getattr(coefficients, f"{spec.name}_TERMS") for v in row]
    for values in (rows, getattr(coefficients, f"{spec.name}_NODES"), getattr(coefficients, f"{spec.name}_HEADS")):
        assert all(v.hex() in text for v in values)


@pytest.mark.parametrize("spec", PIECES, ids=lambda s: s.name)
def test_pieces_are_close_to_their_function_and_meet_at_their_edges(spec: Pieces) -> None:
    mp.mp.dps = DIGITS
    nodes, heads = getattr(coefficients, f"{spec.name}_NODES"), getattr(coefficients, f"{spec.name}_HEADS")
    terms = getattr(coefficients, f"{spec.name}_TERMS")
    for cell, (node, head) in enumerate(zip(nodes, heads, strict=True)):
        low, high = mp.mpf(spec.edges[cell]), mp.mpf(spec.edges[cell + 1])
        for i in range(1, 30):
            x = low + (high - low) * i / 29
            t = x - mp.mpf(node)
            value = evaluate([mp.mpf(row[cell]) for row in terms], t) * t + (head if node else t)
            assert abs(value / spec.function(x) - 1) < mp.mpf(2) ** -26


@pytest.mark.parametrize("spec", [s for s in PIECES if mp.mpf(s.nodes[0]) == 0], ids=lambda s: s.name)
def test_the_distance_to_the_node_is_below_the_head_but_in_the_first_cell(spec: Pieces) -> None:
    nodes, heads = getattr(coefficients, f"{spec.name}_NODES"), getattr(coefficients, f"{spec.name}_HEADS")
    assert nodes[0] == heads[0] == 0.0
    for node, head, upper_edge in zip(nodes[1:], heads[1:], spec.edges[2:], strict=True):
        assert (float(upper_edge) - node) * (1 + 1e-6) < head


@pytest.mark.parametrize("spec", RECIPROCALS, ids=lambda s: s.name)
def test_reciprocals_leave_exact_differences_and_have_logarithms_that_are_almost_floats(spec: Reciprocals) -> None:
    mp.mp.dps = DIGITS
    text = reciprocals_text(spec)
    chosen = getattr(coefficients, f"{spec.name}_RECIPROCALS")
    for k, (c, logarithm) in enumerate(zip(chosen, getattr(coefficients, f"{spec.name}_LOGARITHMS"), strict=True)):
        assert c.hex() in text
        assert logarithm.hex() in text
        assert abs(logarithm + mp.log(c)) < mp.mpf(2) ** -36
        for i in range(-16, 17):
            e = float(np.float32((k + i / 32.0001) / spec.last))
            difference = Fraction(float(np.float32(c * e))) - (1 - Fraction(c))
            assert k == 0 or difference == Fraction(float(np.float32(difference)))


@pytest.mark.parametrize("spec", CONSTANTS, ids=lambda s: s.name)
def test_split_constants_are_those_of_the_generator(spec: object) -> None:
    mp.mp.dps = DIGITS
    text = constant_text(spec)
    assert all(v.hex() in text for v in getattr(coefficients, spec.name))


def test_two_over_pi_is_right_to_its_last_bit() -> None:
    with mp.workprec(TWO_OVER_PI_BITS + 64):
        assert int(mp.nint(2 / mp.pi * mp.mpf(2) ** TWO_OVER_PI_BITS)) == TWO_OVER_PI_FRACTION
