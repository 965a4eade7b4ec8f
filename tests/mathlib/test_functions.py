"""Every function: C99's special values, and errors against multiprecision on samples of each range."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from accuracy_functions import ONE_ARGUMENT, TWO_ARGUMENTS, exact, hard_cases, samples
from accuracy_judge import error_in_ulps, judge
from coefficient_specifications import PIECES, Pieces

from fuseline.codegen.llvm.target import target
from fuseline.ir.interpret import interpret
from fuseline.mathlib.expand import expand
from fuseline.mathlib.functions import FUNCTIONS
from fuseline.runtime import host, iterate
from kernels import loop_of
from mathlib_evaluation import expanded_value, operation_graph, same_bits

INF, NAN, PI = math.inf, math.nan, math.pi

SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1000, INF), (-1000, 0)],
    "exp2": [(0, 1), (10, 1024), (-1, 0.5), (INF, INF), (-INF, 0), (-149, 2.0**-149), (127, 2.0**127), (1e9, INF)],
    "expm1": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -1), (-1000, -1), (1000, INF), (2.0**-149, 2.0**-149)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF)],
    "log2": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (8, 3), (2.0**-149, -149), (2.0**100, 100)],
    "log10": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (1000, 3)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (-INF, NAN), (2.0**-149, 2.0**-149)],
    "rsqrt": [(0, INF), (-0.0, -INF), (INF, 0), (-1, NAN), (4, 0.5), (-INF, NAN)],
    "cbrt": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (27, 3), (-8, -2), (2.0**-147, 2.0**-49)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "tan": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin": [(0, 0), (-0.0, -0.0), (1, PI / 2), (-1, -PI / 2), (1.5, NAN), (-INF, NAN)],
    "acos": [(1, 0), (-1, PI), (0, PI / 2), (1.5, NAN), (INF, NAN)],
    "atan": [(0, 0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (1, PI / 4)],
    "sinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (2000, INF)],
    "cosh": [(0, 1), (INF, INF), (-INF, INF), (-2000, INF)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e30, 1), (2.0**-149, 2.0**-149)],
    "asinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0), (0.5, NAN), (-1, NAN), (-INF, NAN), (INF, INF)],
    "atanh": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (-INF, NAN), (1e-8, 1e-8)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1)],
    "erfc": [(0, 1), (INF, 0), (-INF, 2), (-10, 2)],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0)],
    "softplus": [(INF, INF), (-INF, 0), (1000, 1000)],
    "silu": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (-1e30, -0.0)],
    "gelu": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (-1e30, -0.0)],
    "gelu_tanh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (-50, -0.0)],
}
SPECIAL_PAIRS: dict[str, list[tuple[float, float, float]]] = {
    "pow": [
        (NAN, 0, 1), (1, NAN, 1), (NAN, 1, NAN), (-1, INF, 1), (-1, -INF, 1), (-1, NAN, NAN), (0, 3, 0),
        (-0.0, 3, -0.0),
        (-0.0, 2, 0), (0, -3, INF), (-0.0, -3, -INF), (-0.0, -2, INF), (-8, 0.5, NAN), (-INF, 0.5, INF),
        (-INF, 3, -INF),
        (-INF, 2, INF), (-INF, -3, -0.0), (-INF, -2, 0), (INF, 2, INF), (INF, -2, 0), (0.5, INF, 0), (0.5, -INF, INF),
        (2, INF, INF), (2, -INF, 0), (-2, 3, -8), (3, 2, 9), (2, -149, 2.0**-149), (0, 0, 1), (1e30, 1e30, INF),
        (-0.0, INF, 0), (-0.0, -INF, INF),
    ],
    "hypot": [(3, 4, 5), (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1, NAN), (0, -0.0, 0), (-3, 0, 3)],
    "atan2": [
        (0, 1, 0), (-0.0, 1, -0.0), (0, -1, PI), (-0.0, -1, -PI), (0, 0, 0), (-0.0, 0, -0.0), (0, -0.0, PI),
        (-0.0, -0.0, -PI), (1, 0, PI / 2), (-1, -0.0, -PI / 2), (INF, INF, PI / 4), (-INF, -INF, -3 * PI / 4),
        (INF, -INF, 3 * PI / 4), (1, INF, 0), (-1, INF, -0.0), (1, -INF, PI), (INF, 1, PI / 2), (NAN, 1, NAN),
    ],
    "logaddexp": [(INF, -INF, INF), (-INF, -INF, -INF), (INF, INF, INF), (-INF, 1, 1), (NAN, 1, NAN), (1, NAN, NAN)],
}  # fmt: skip

WIDER_FLOAT64_BOUNDS = {
    "logaddexp": INF,  # where more than 45 bits cancel, what is left has fewer bits than a float64
}  # fmt: skip
"""Float64 functions whose published bound is more than one ulp (docs/accuracy.md); with room for unseen inputs."""


def agree(got: float, wanted: float, kind: Any) -> bool:
    """Equal after rounding ``wanted`` to the format, sign of zero included."""
    rounded = float(np.asarray(wanted).astype(kind))
    return (math.isnan(got) and math.isnan(rounded)) or (
        got == rounded and math.copysign(1, got) == math.copysign(1, rounded)
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("op", sorted(SPECIAL))
def test_special_values_follow_annex_f(op: str, kind: Any) -> None:
    for x, wanted in [*SPECIAL[op], (NAN, NAN)]:
        got = float(expanded_value(op, np.asarray(x, kind))[0])
        assert agree(got, wanted, kind), (x, got, wanted)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("op", sorted(SPECIAL_PAIRS))
def test_special_pairs_follow_annex_f(op: str, kind: Any) -> None:
    for x, y, wanted in SPECIAL_PAIRS[op]:
        got = float(expanded_value(op, np.asarray(x, kind), np.asarray(y, kind))[0])
        assert agree(got, wanted, kind), (x, y, got, wanted)


def test_every_function_has_its_special_values_tested() -> None:
    assert set(SPECIAL) | set(SPECIAL_PAIRS) == set(FUNCTIONS)
    assert set(FUNCTIONS) | {"sqrt"} == {*ONE_ARGUMENT, *TWO_ARGUMENTS}


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_float32_errors_stay_within_one_ulp(op: str) -> None:
    inputs = list(samples(op, np.float32, 4 * 4096, seed=3, chunk=4096))
    verdict = judge(op, lambda *x: expanded_value(op, *x), inputs, compiled=False)
    assert verdict.samples == 4 * 4096
    assert verdict.special_failures == 0, verdict
    assert verdict.largest_ulp <= 1.0, verdict


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [("gelu", -14.3, -13.2), ("gelu_tanh", -10.7, -10.15), ("erfc", 9.2, 10.05), ("softplus", -103.2, -87.4)],
)
def test_subnormal_float32_results_are_kept_in_the_tails(op: str, low: float, high: float) -> None:
    x = np.linspace(low, high, 4096, dtype=np.float32)
    results = expanded_value(op, x)
    assert (np.abs(results) < np.finfo(np.float32).smallest_normal).all() and (results != 0).all()
    verdict = judge(op, lambda *x: expanded_value(op, *x), [(x,)], compiled=False)
    assert verdict.largest_ulp <= 1.0, verdict


@pytest.mark.parametrize("spec", PIECES, ids=lambda s: s.name)
def test_pieces_join_within_an_ulp(spec: Pieces) -> None:
    edges = np.array([float(e) for e in spec.edges[1:-1]], np.float32)
    near = (edges.view(np.int32)[:, None] + np.arange(-200, 200, dtype=np.int32)).ravel().view(np.float32)
    op = spec.name.partition("_")[0].lower()
    inputs = [(np.concatenate([near, -near]),)]
    verdict = judge(op, lambda *x: expanded_value(op, *x), inputs, compiled=False)
    assert verdict.largest_ulp <= 1.0, verdict


WORST_FOUND = [
    ("log2", np.float64, "0x1.689267afedd7dp+0"),  # some of these were off by more than an ulp before
    ("log2", np.float64, "0x1.66d66f9690825p+0"),
    ("log2", np.float64, "0x1.6938fde78a751p+0"),
    ("log2", np.float64, "0x1.6a0911910f53fp+0"),
    ("gelu", np.float64, "-0x1.3fb2b9a62af59p+1"),
    ("gelu", np.float64, "-0x1.df461b0612813p-1"),
    ("tan", np.float64, "0x1.7f44be5311b8bp+5"),
    ("erf", np.float64, "-0x1.fd7a0bfcd4c23p-1"),
    ("erfc", np.float64, "0x1.a8b3be77e1e2fp+4"),
    ("tanh", np.float64, "0x1.62fd1b4097e1dp-3"),
    ("acosh", np.float64, "0x1.0f78151abcb7bp+0"),
    ("atan2", np.float32, "-0x1.96885cp-13 0x1.96d220p-13"),
    ("pow", np.float32, "0x1.0c142cp+0 0x1.c244ccp+10"),
    ("pow", np.float32, "0x1.0c227p+0 -0x1.c1261ep+10"),
    ("pow", np.float32, "0x1.0c407ep+0 -0x1.cf7476p+10"),
]


@pytest.mark.parametrize(("op", "kind", "place"), WORST_FOUND)
def test_where_the_largest_errors_were_found_they_stay_within_an_ulp(op: str, kind: Any, place: str) -> None:
    operands = tuple(float.fromhex(v) for v in place.split())
    got = float(expanded_value(op, *(np.array(v, kind) for v in operands))[0])
    assert error_in_ulps(op, operands, got, np.dtype(kind)) <= 1.0, got


def cancelling_pairs(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Operands of logaddexp whose result is between a half and 2**-40 of the larger one."""
    rng = np.random.default_rng(13)
    a = -np.exp(rng.uniform(math.log(1e-5), math.log(0.693), count))
    left = np.exp2(rng.uniform(-40, -1, count)) * rng.choice([-1, 1], count)
    return a, np.log(-np.expm1(a) - left * a)


def test_float64_logaddexp_stays_within_an_ulp_where_up_to_40_bits_cancel() -> None:
    a, b = cancelling_pairs(400)
    for x, y, got in zip(a.tolist(), b.tolist(), expanded_value("logaddexp", a, b).tolist(), strict=True):
        assert error_in_ulps("logaddexp", (x, y), got, np.dtype(np.float64)) <= 1.0, (x, y, got)


def test_float64_logaddexp_keeps_45_bits_more_than_its_operands_where_they_cancel() -> None:
    a, b = hard_cases("logaddexp", np.float64, np.random.default_rng(11), 300)
    keep = np.isfinite(a) & np.isfinite(b) & (np.abs(a) < 700) & (np.abs(b) < 700)
    a, b = a[keep], b[keep]
    for x, y, got in zip(a.tolist(), b.tolist(), expanded_value("logaddexp", a, b).tolist(), strict=True):
        value = float(exact("logaddexp", (x, y)))
        allowed = abs(value) * np.finfo(np.float64).eps + 2.0**-98 * min(abs(x), abs(y))
        assert abs(got - value) <= allowed, (x, y, got, value)


@pytest.mark.parametrize("x", [-0.35, -0.2328, -0.6931471805599453, -1e-10, -3e-300])
def test_float64_logaddexp_of_infinite_and_far_operands(x: float) -> None:
    for other in (-math.inf, -1e308, -800.0 + x):
        for a, b in ((x, other), (other, x)):
            assert expanded_value("logaddexp", np.float64(a), np.float64(b))[0] == x


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (-53.216733125886556, -4.4319920570059074e-24),  # exp(x) is tiny, and so is what is left of it
        (-142.01118477194476, -3.055084015886301e-63),
        (-738.1959567702032, -2.544e-321),  # both operands of the last addition are subnormal
        (-737.1005342259735, -7.61e-321),
        (-720.0, -1.9934e-313),
        (-744.4400719213812, -5e-324),
        (-744.0, -5e-324),
    ],
)
def test_float64_logaddexp_of_numbers_that_almost_cancel_near_zero(x: float, y: float) -> None:
    for a, b in ((x, y), (y, x)):
        got = float(expanded_value("logaddexp", np.float64(a), np.float64(b))[0])
        assert error_in_ulps("logaddexp", (a, b), got, np.dtype(np.float64)) <= 1.0, (a, b, got)
        assert math.copysign(1, got) == math.copysign(1, float(mp.sign(exact("logaddexp", (a, b))))), (a, b, got)


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_float64_errors_stay_within_the_published_bound(op: str) -> None:
    bound = WIDER_FLOAT64_BOUNDS.get(op, 1.0)
    for operands in samples(op, np.float64, 4 * 60, seed=5, chunk=60):
        results = expanded_value(op, *operands)
        for i, result in enumerate(results.tolist()):
            point = tuple(float(a[i]) for a in operands)
            if not all(map(math.isfinite, point)):
                continue
            try:
                error = error_in_ulps(op, point, result, np.dtype(np.float64))
            except (ValueError, ZeroDivisionError):  # no real value: the special values are tested above
                continue
            assert error <= bound, (point, result, error)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_compiled_code_gives_the_oracles_bits(op: str, kind: Any) -> None:
    import fuseline as fl

    operands = list(samples(op, kind, 4 * 101, seed=7, chunk=101))
    arrays = [np.concatenate([o[j] for o in operands]) for j in range(len(operands[0]))]
    names = [f"x{j}" for j in range(len(arrays))]
    with np.errstate(all="raise"):  # nothing that a kernel does inside is the caller's business
        got = fl.compile(f"{op}({', '.join(names)})")(*arrays)
    graph = expand(operation_graph(op, *[kind] * len(arrays)))
    wanted = interpret(graph, dict(zip(names, arrays, strict=True)))["out"]
    wrong = ~same_bits(got, wanted)
    assert not wrong.any(), ([a[wrong][0] for a in arrays], got[wrong][0], wanted[wrong][0])


def assert_oracles_bits(op: str, kind: Any, target_name: str) -> None:
    """A kernel for a named target gives the interpreter's bits."""
    operands = list(samples(op, kind, 4 * 53, seed=9, chunk=53))
    arrays = [np.concatenate([o[j] for o in operands]) for j in range(len(operands[0]))]
    graph = expand(operation_graph(op, *[kind] * len(arrays)))
    wanted = interpret(graph, {f"x{j}": a for j, a in enumerate(arrays)})["out"]
    (got,) = iterate.run(loop_of(graph, target(target_name)), arrays, [None])
    wrong = ~same_bits(got, wanted)
    assert not wrong.any(), ([a[wrong][0] for a in arrays], got[wrong][0], wanted[wrong][0])


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_a_machine_without_fused_multiply_add_gives_the_same_bits(op: str) -> None:
    assert_oracles_bits(op, np.float32, host.target_names()[0])


@pytest.mark.long
@pytest.mark.parametrize("target_name", host.target_names())
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_every_target_gives_the_same_bits(op: str, kind: Any, target_name: str) -> None:
    assert_oracles_bits(op, kind, target_name)


def test_cosine_reduces_the_hardest_float64_argument() -> None:
    x = 6381956970095103.0 * 2.0**797
    assert expanded_value("cos", np.float64(x))[0] == -4.68716592425462761112e-19
