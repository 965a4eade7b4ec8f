"""The accuracy tool finds what it is meant to find."""

from __future__ import annotations

import importlib.metadata
import json
import math
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import accuracy
import accuracy_functions
import accuracy_judge
import mpmath as mp
import numpy as np
import pytest
from accuracy_functions import MULTIPRECISION, ONE_ARGUMENT, TWO_ARGUMENTS, exact, hard_cases, samples
from accuracy_judge import error_in_ulps, has_compiled_reference, judge
from accuracy_search import joined, search

INPUTS = np.linspace(-3, 3, 200_001).astype(np.float32)


def correctly_rounded(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp by float64."""
    return np.exp(x.astype(np.float64)).astype(np.float32)


def wrong_by_a_hundredth_more_than_an_ulp(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp, but a neighbour wherever that neighbour is off by 1.005 to 1.015 ulp."""
    exact = np.exp(x.astype(np.float64))
    y = exact.astype(np.float32)
    ulp = np.spacing(np.float32(2.0) ** np.floor(np.log2(exact)).astype(np.float32)).astype(np.float64)
    for neighbour in (np.nextafter(y, np.float32(math.inf)), np.nextafter(y, np.float32(0))):
        error = np.abs(neighbour - exact) / ulp
        y = np.where((error > 1.005) & (error < 1.015), neighbour, y)
    return y.astype(np.float32)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_planted_error_of_1_01_ulp_is_detected(compiled: bool) -> None:
    verdict = judge("exp", wrong_by_a_hundredth_more_than_an_ulp, [(INPUTS,)], compiled=compiled)
    assert 1.005 <= verdict.largest_ulp <= 1.015
    assert verdict.correctly_rounded < 1.0


@pytest.mark.parametrize("compiled", [True, False])
def test_a_correctly_rounded_function_is_found_to_be_one(compiled: bool) -> None:
    verdict = judge("exp", correctly_rounded, [(INPUTS,)], compiled=compiled)
    assert verdict.largest_ulp <= 0.5 and verdict.correctly_rounded == 1.0 and verdict.special_failures == 0


@pytest.mark.parametrize("compiled", [True, False])
def test_wrong_nan_infinity_and_sign_of_zero_are_counted(compiled: bool) -> None:
    x = np.array([-1.0, 0.0, math.inf, 1.0, 4.0], np.float32)
    wrong = np.array([0.0, 0.0, math.nan, -0.0, 2.0], np.float32)
    verdict = judge("log", lambda _: wrong, [(x,)], compiled=compiled)
    assert verdict.special_failures == 4


def test_a_float64_error_is_measured_in_float64_ulps() -> None:
    x = np.linspace(0.1, 3, 1001)
    verdict = judge("exp", lambda v: np.nextafter(np.exp(v), math.inf), [(x,)])
    assert 0.9 < verdict.largest_ulp < 2.5
    assert verdict.largest_ulp == error_in_ulps(
        "exp", verdict.where, float(np.nextafter(np.exp(verdict.where[0]), math.inf)), np.dtype(np.float64)
    )


def test_a_planted_float64_error_of_1_01_ulp_is_detected() -> None:
    x = np.linspace(-3, 3, 100_001)
    exact_values = [exact("exp", (v,)) for v in x[::97].tolist()]
    rounded = {v: float(e) for v, e in zip(x[::97].tolist(), exact_values, strict=True)}
    kind = np.dtype(np.float64)
    wrong = next(  # a neighbour of the nearest number that is off by 1.005 to 1.015 ulp
        (v, y)
        for v, nearest in rounded.items()
        for y in (math.nextafter(nearest, math.inf), math.nextafter(nearest, 0.0))
        if 1.005 < error_in_ulps("exp", (v,), y, kind) < 1.015
    )
    planted = {**rounded, wrong[0]: wrong[1]}
    verdict = judge("exp", lambda a: np.array([planted[v] for v in a.tolist()]), [(np.array(list(planted)),)])
    assert verdict.where == (wrong[0],)
    assert 1.005 < verdict.largest_ulp < 1.015
    assert verdict.correctly_rounded == pytest.approx(1 - 1 / len(planted), abs=1e-12)


def nearest_float64(value: Any) -> float:
    """Correctly rounded among subnormal numbers too, where mpmath rounds twice."""
    if not mp.mpf(2) ** -1080 < abs(value) < mp.mpf(2) ** -1000:
        return float(value)
    return float(Fraction(int(mp.sign(value)) * int(value.man)) * Fraction(2) ** int(value.exp))


@pytest.mark.parametrize("name", [*ONE_ARGUMENT, *TWO_ARGUMENTS])
def test_the_float64_reference_agrees_with_multiprecision(name: str) -> None:
    """Correctly rounded results are all found correct, ties included, and one wrong neighbour is found and measured."""
    rounded = {}
    for operands in samples(name, np.float64, 4 * 30, seed=9, chunk=30):
        for point in zip(*(a.tolist() for a in operands), strict=True):
            try:
                value = exact(name, point) if all(map(math.isfinite, point)) else mp.mpc(0, 1)
            except (ValueError, ZeroDivisionError):  # a pole
                continue
            if not isinstance(value, mp.mpc):
                rounded[point] = nearest_float64(value)
    inputs = tuple(np.array(a) for a in zip(*rounded, strict=True))

    def answer(*operands: Any) -> Any:
        return np.array([rounded[p] for p in zip(*(a.tolist() for a in operands), strict=True)])

    verdict = judge(name, answer, [inputs])
    assert verdict.samples == len(rounded) > 30
    assert verdict.largest_ulp <= 0.5 and verdict.correctly_rounded == 1.0 and verdict.special_failures == 0, verdict
    below = {p: math.nextafter(y, 0.0) for p, y in rounded.items() if 1e-300 < abs(y) < 1e300}
    # Below a power of two a neighbour may be half an ulp off but for less than a float can say.
    point = next(p for p, y in below.items() if error_in_ulps(name, p, y, np.dtype(np.float64)) > 0.5)
    rounded[point] = below[point]
    verdict = judge(name, answer, [inputs])
    assert verdict.where == point
    assert verdict.largest_ulp == error_in_ulps(name, point, rounded[point], np.dtype(np.float64))
    assert verdict.correctly_rounded < 1.0


needs_a_compiler = pytest.mark.skipif(not has_compiled_reference(), reason="needs a C compiler")


@needs_a_compiler
def test_tables_that_are_off_stop_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy_judge, "_TABLE_ULP", 1e-9)
    with pytest.raises(RuntimeError, match="tables of exp are off by"):
        judge("exp", np.exp, [(np.linspace(0.1, 3, 1 << 16),)])


@needs_a_compiler
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_compiled_logaddexp_holds_where_everything_cancels(kind: Any) -> None:
    operands = hard_cases("logaddexp", kind, np.random.default_rng(5), 400)
    kept = np.isfinite(operands[0]) & np.isfinite(operands[1]) & (np.abs(operands[0]) < 600)
    a, b = (np.ascontiguousarray(v[kept]) for v in operands)
    rounded = np.array([float(exact("logaddexp", p)) for p in zip(a.tolist(), b.tolist(), strict=True)]).astype(kind)
    verdict = judge("logaddexp", lambda *_: rounded, [(a, b)])
    assert verdict.samples == a.size > 100
    assert verdict.largest_ulp < 0.51 and verdict.special_failures == 0, verdict


def test_overflow_is_as_far_as_the_next_power_of_two() -> None:
    assert error_in_ulps("exp", (100.0,), math.inf, np.dtype(np.float32)) == 0.0
    assert error_in_ulps("exp", (88.0,), math.inf, np.dtype(np.float32)) > 1e6


def test_multiprecision_covers_every_function() -> None:
    assert set(MULTIPRECISION) == {*ONE_ARGUMENT, *TWO_ARGUMENTS}


def test_the_command_fails_beyond_its_limit_and_records_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path / "accuracy.json")
    monkeypatch.setattr(accuracy, "PAGE", tmp_path / "accuracy.md")
    monkeypatch.setattr(accuracy, "samples", lambda *_: iter([(INPUTS,)]))
    common = ["--function", "exp", "--dtype", "f32", "--samples", "1e5", "--record", "--limit"]
    assert accuracy.main([*common, "1.0"]) == 0
    assert accuracy.main([*common, "0.1"]) == 1
    recorded = json.loads((tmp_path / "accuracy.json").read_text())
    assert recorded["exp f32 fuseline"]["samples"] == INPUTS.size
    assert "| exp | fuseline |" in (tmp_path / "accuracy.md").read_text()


def test_a_function_that_errs_only_among_others_is_not_acquitted_by_a_single_call() -> None:
    def wrong_in_company(x: np.ndarray) -> np.ndarray:
        y = np.exp(x.astype(np.float64)).astype(np.float32)
        return y if x.size == 1 else y + 3 * np.spacing(y)

    x = np.linspace(0.1, 0.6, 1000, dtype=np.float32)
    assert judge("exp", wrong_in_company, [(x,)]).largest_ulp > 3


def log_with_a_bad_place(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A logarithm often off by an ulp near 1.3, and once in 512 inputs by four, nearer to it."""
    y, bits = np.log(x), x.view(np.int64)
    off = np.where((np.abs(x - 1.3) < 2.0**-6) & (bits & 15 == 0), 1.0, 0.0)
    off = np.where((np.abs(x - 1.3) < 2.0**-10) & (bits & 511 == 0), 4.0, off)
    return y + off * np.spacing(y)


@needs_a_compiler
def test_the_search_finds_what_even_samples_miss() -> None:
    even = judge("log", log_with_a_bad_place, samples("log", np.float64, 1 << 20, chunk=1 << 18))
    found = search("log", log_with_a_bad_place, np.float64, 1 << 20)
    assert even.largest_ulp < 2.0 < 3.4 < found.largest_ulp
    assert abs(found.where[0] - 1.3) < 2.0**-10
    both = joined(even, found)
    assert (both.largest_ulp, both.where) == (found.largest_ulp, found.where)
    assert (both.samples, both.mean_ulp, both.searched) == (even.samples, even.mean_ulp, found.samples)


@needs_a_compiler
def test_the_search_ends_where_every_result_is_the_nearest() -> None:
    def nearest(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (1 / np.sqrt(a.astype(np.float64))).astype(np.float32)

    assert search("rsqrt", nearest, np.float32, 1 << 14).largest_ulp <= 0.5


@needs_a_compiler
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["pow", "hypot", "atan2"])
def test_the_search_goes_on_from_places_it_is_given(name: str, kind: Any) -> None:
    def wrong_near_a_place(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        y = np.asarray(accuracy_functions.FLOAT64[name](a.astype(np.float64), b.astype(np.float64))).astype(kind)
        return y + np.where((np.abs(a - 1.25) < 1e-3) & (np.abs(b - 2.5) < 1e-3), 9 * np.spacing(y), 0).astype(kind)

    found = search(name, wrong_near_a_place, kind, 1 << 15, [(1.2505, 2.4995)])
    assert 8 < found.largest_ulp < 11


@needs_a_compiler
def test_a_search_alone_is_added_to_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path / "accuracy.json")
    monkeypatch.setattr(accuracy, "PAGE", tmp_path / "accuracy.md")
    common = ["--function", "log", "--dtype", "f64", "--record", "--samples"]
    assert accuracy.main([*common, "1e6", "--search", "0"]) == 0
    first = json.loads((tmp_path / "accuracy.json").read_text())["log f64 fuseline"]
    assert accuracy.main([*common, "0", "--search", "1e6"]) == 0
    second = json.loads((tmp_path / "accuracy.json").read_text())["log f64 fuseline"]
    assert second["searched"] > 900_000 and second["largest_ulp"] >= first["largest_ulp"]
    assert {k: second[k] for k in ("samples", "mean_ulp")} == {k: first[k] for k in ("samples", "mean_ulp")}
    assert "1e6 + 1e6" in (tmp_path / "accuracy.md").read_text()


def test_another_packages_figure_stands_beside_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the page and on the terminal; fuseline's own is the checkout's and has none."""
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path / "accuracy.json")
    monkeypatch.setattr(accuracy, "PAGE", tmp_path / "accuracy.md")
    monkeypatch.setattr(accuracy, "samples", lambda *_: iter([(INPUTS,)]))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"7.8.{len(name)}")
    for peer in sorted(accuracy.PEERS):
        monkeypatch.setitem(accuracy.IMPLEMENTATIONS, peer, lambda name, dtype: np.exp)
        asked = ["--function", "exp", "--dtype", "f32", "--samples", "1e5", "--implementation", peer]
        accuracy.main([*asked, "--search", "0", "--record"])
        named = f"{peer} 7.8.{len(peer)}"
        assert f"| exp | {named} |" in (tmp_path / "accuracy.md").read_text()
        assert f"exp f32 {named}: largest" in capsys.readouterr().out
    accuracy.main(["--function", "exp", "--dtype", "f32", "--samples", "1e5", "--search", "0", "--record"])
    assert "| exp | fuseline |" in (tmp_path / "accuracy.md").read_text()


def test_what_another_version_gave_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one row would be of two versions and name one of them."""
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path / "accuracy.json")
    monkeypatch.setattr(accuracy, "PAGE", tmp_path / "accuracy.md")
    monkeypatch.setattr(accuracy, "samples", lambda *_: iter([(INPUTS,)]))
    asked = ["--function", "exp", "--dtype", "f32", "--implementation", "numpy", "--search", "0", "--record"]
    accuracy.main([*asked, "--samples", "1e5"])
    worse = json.loads((tmp_path / "accuracy.json").read_text())
    for version in ("0.9", None):  # an older one, and one from before versions were recorded
        worse["exp f32 numpy"] |= {"version": version, "largest_ulp": 99.0}
        if version is None:
            del worse["exp f32 numpy"]["version"]
        (tmp_path / "accuracy.json").write_text(json.dumps(worse))
        accuracy.main([*asked, "--samples", "0"])
        found = json.loads((tmp_path / "accuracy.json").read_text())["exp f32 numpy"]
        assert found["largest_ulp"] < 99 and found["version"] == np.__version__


def test_the_compiled_reference_is_kept_where_nobody_else_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    monkeypatch.setenv("FUSELINE_CACHE_DIR", str(cache))
    monkeypatch.setattr(accuracy_judge.tempfile, "tempdir", str(tmp_path))

    def folder() -> Path:
        accuracy_judge._private_folder.cache_clear()
        return accuracy_judge._private_folder()

    kept = folder()
    assert kept == cache / "accuracy" and kept.stat().st_mode & 0o777 == 0o700
    kept.chmod(0o777)
    assert folder() != kept
    kept.rmdir()
    elsewhere.mkdir(mode=0o700)
    kept.symlink_to(elsewhere)
    temporary = folder()
    assert temporary.resolve() != elsewhere and temporary.stat().st_mode & 0o777 == 0o700
    kept.unlink()
    monkeypatch.setenv("FUSELINE_CACHE", "off")
    assert folder() not in (kept, temporary) and not kept.exists()
    accuracy_judge._private_folder.cache_clear()


def test_a_reference_at_whose_place_something_else_lies_is_not_loaded(tmp_path: Path) -> None:
    foreign, link = tmp_path / "foreign.so", tmp_path / "link.so"
    foreign.write_bytes(b"x")
    link.symlink_to(foreign)
    assert accuracy_judge._is_private(foreign, stat.S_ISREG)
    assert not accuracy_judge._is_private(link, stat.S_ISREG)
    foreign.chmod(0o666)
    assert not accuracy_judge._is_private(foreign, stat.S_ISREG)
    assert not accuracy_judge._is_private(tmp_path / "none", stat.S_ISREG)
