"""What the benchmark pages say of aims and of lost comparisons follows from their figures, whatever these are."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # at the end: some of its modules are called as some of the tests'

import aims  # noqa: E402
from aims import Lost, Mean  # noqa: E402

PAGES = ["benchmarks.md", "benchmarks-avx2.md"]


def lost(ratio: float, spread: float = 0.0, **more: object) -> Lost:
    facts = {"program": "p", "n": 1000, "threads": 1, "peer": "numba", "mode": "out", "instructions": 0.1, "copy": 0.2}
    return Lost(ratio=ratio, spread=spread, **{**facts, **more})  # type: ignore[arg-type]


# ── sentences ──


@pytest.mark.parametrize(("ratio", "told"), [(3.99, "4, missed"), (4.0, "4"), (9.0, "4")])
def test_a_mean_says_its_aim_whether_it_is_missed_and_what_a_copy_would_reach(ratio: float, told: str) -> None:
    mean = Mean(2, True, ratio, peer_fraction=0.35, fraction=0.74)
    assert f"| {ratio:.2f} | {told} | 2.9 | 0.35 |" in aims.means_section([mean])
    assert aims.aim_of_mean(mean).missed == ("missed" in told)
    assert "2.9" in aims.aim_of_mean(mean).reached
    assert "| 0.50 | – | 2.0 |" in aims.means_section([Mean(1, False, 0.5, 0.5, 1.0)])


def test_lost_comparisons_say_how_many_by_how_much_and_to_whom() -> None:
    rows = [lost(0.8), lost(0.95, 0.06), lost(0.99, 0.01001, peer="jax", n=1 << 20, copy=0.9)]
    section = aims.lost_section(rows, 1234)
    assert "3 of 1,234 comparisons, by up to 20 % (median 5 %), 2 of them within the spread: numba 2, jax 1." in section
    assert "| p | 1,000 | 1 | 2 | 20 % | 1 of 2 | neither |" in section
    assert "| p | 2^20 | 1 | 1 | 1 % | all | copy |" in section
    assert section.index("| 0.80 |") < section.index("| 0.95 |") < section.index("| 0.99 |")
    assert aims.aim_of_losses(rows, 1234).missed and not aims.aim_of_losses([], 1234).missed
    assert "Nowhere" in aims.lost_section([], 1234) and "none of 1,234" in aims.aim_of_losses([], 1234).reached


@pytest.mark.parametrize(
    ("instructions", "copy", "binds"),
    [(0.9, 0.3, "instructions"), (0.3, 0.9, "copy"), (0.9, 1.0, "copy"), (0.84, 0.84, "neither")],
)
def test_what_binds_is_what_takes_most_of_the_time(instructions: float, copy: float, binds: str) -> None:
    assert lost(0.9, instructions=instructions, copy=copy).binds == binds


def test_the_aims_count_what_is_missed() -> None:
    met, missed = aims.aim_of_programs(2, {"a": True}), aims.aim_of_programs(1, {"a": True, "b": False})
    assert (met.missed, missed.missed) == (False, True)
    assert missed.reached == "1 of 2 programs; not b"
    assert "1 of 2 are missed" in aims.aims_section([met, missed])
    assert "All 1 are met" in aims.aims_section([met])


def test_a_call_is_held_against_numpys_of_the_same_mode() -> None:
    overhead = {"np.add": 100.0, "np.add, out": 200.0, "k.ufunc, x + y": 110.0, "k.ufunc, x + y, out": 250.0,
                "k, x + y": 90.0, "k, x + y, out": 350.0, "k, bias + GELU + residual": 900.0}  # fmt: skip
    by_kind = {aim.what: aim for aim in aims.aims_of_calls(overhead)}
    assert by_kind["A call of `k.ufunc`"].reached == "1.25" and by_kind["A call of `k.ufunc`"].missed
    assert by_kind["A call of `k`"].reached == "1.75" and not by_kind["A call of `k`"].missed


def test_compiles_and_loads_have_their_marks() -> None:
    assert aims.aim_of_cold("alone", "p", 0.0151).missed and not aims.aim_of_cold("alone", "p", 0.015).missed
    warm = aims.aim_of_warm("alone", {"p": 0.001, "q": 0.0031})
    assert warm.missed and "3.1 ms (q)" in warm.reached
    assert (aims.over(0.0031, aims.WARM_S), aims.over(0.003, aims.WARM_S)) == (" (over 3 ms)", "")


def test_small_calls_are_slower_only_beyond_their_spread() -> None:
    numpys = {"call": "np.add", "n": 1, "ratio": 1.9, "spread": 0.0}
    near, over = ({"call": "k, x + y", "n": 1, "ratio": ratio, "spread": 0.2} for ratio in (1.05, 1.15))
    for rows, missed in (([near, numpys], False), ([near, over, numpys], True)):
        aim = aims.aim_of_small_calls({"threads": 16, "rows": rows})
        assert aim.missed == missed and "NumPy's at most 1.90" in aim.reached


# ── from kept data ──


def timing(median_s: float) -> dict[str, float]:
    return {"median_s": median_s, "spread_s": 0.02 * median_s, "best_s": median_s, "samples": 7}


def kept_data(**more: object) -> dict[str, object]:
    """What `kernels.py --data` keeps, of one program and peer: the peer is ahead at 1,000 elements by a tenth."""
    rows = [
        {
            "peer": "numpy", "program": "gelu", "threads": threads, "n": n, "note": "", "peak_bytes": {},
            "timings": {"limit": timing(0.8), "fuseline out": timing(1.0), "fuseline fresh": timing(1.0),
                        "numpy out": timing(0.9 if n == 1000 else 2.0), "numpy fresh": timing(3.0)},
        }
        for threads in (1, 2) for n in (1000, 1 << 20)
    ]  # fmt: skip
    machine = {"processor": "a processor", "target": "x86-64-v3", "processors": 2, "last_level_cache_bytes": 1 << 25,
               "memory_bytes": 1 << 34, "system": "Linux", "date": "today", "python": "3.11"}  # fmt: skip
    counted = {"instructions": 39, "memory_instructions": 4, "constants_and_spills": 0, "divisions": 0, "lanes": 16}
    parts = {"shared_s": 0.01, "start_s": 0.05, "graph_s": 1e-3, "body_s": 7e-3, "first_call_s": 8e-3}
    calls = ("np.add", "np.add, out", "k.ufunc, x + y", "k, x + y")
    return {
        "machine": machine, "versions": {"numpy": "2"}, "load_before": 0.1, "seconds": 60, "processor_time": False,
        "resources": [{"program": "gelu", **counted, "seconds_a_vector": {"1": 1e-9, "2": 1e-9}}],
        "small": {"overhead": dict.fromkeys(calls, 1e-7), "first": {}, "cold": parts, "warm": parts},
        "rows": rows, **more,
    }  # fmt: skip


def written(tmp_path: Path, data: dict[str, object]) -> str:
    """The page that the script writes of kept data."""
    (tmp_path / "data.json").write_text(json.dumps(data))
    asked = ["--from-data", "--data", str(tmp_path / "data.json"), "--page", str(tmp_path / "page.md")]
    subprocess.run([sys.executable, ROOT / "benchmarks" / "kernels.py", *asked], check=True)
    return (tmp_path / "page.md").read_text(encoding="utf-8")


def test_a_page_is_written_again_from_what_was_kept(tmp_path: Path) -> None:
    page = written(tmp_path, kept_data())
    assert "2 of 8 comparisons, by up to 10 %" in page
    assert "| 2 threads | with transcendentals | 2.00 | 4, missed | 2.5 |" in page
    assert "of 16 threads" not in page and "first, cold" not in page  # what earlier data do not have


def test_compiles_and_small_calls_are_in_the_page(tmp_path: Path) -> None:
    samples = {"cold": {"gelu": [0.4, 0.01, 0.02]}, "warm": {"gelu": [0.002, 0.002, 0.9]}}
    first = {"cold": {"gelu": [0.3] * 3}, "warm": {"gelu": [0.05] * 3}}
    rows = [{"call": call, "n": 1, "ratio": 1.25, "spread": 0.1} for call in ("k, x + y", "np.add")]
    more = {"compiles": {"own": samples, "first": first}, "small_calls": {"threads": 16, "rows": rows}}
    page = written(tmp_path, kept_data(**more))
    assert "| GELU (erf) | 20 ms | 2 ms | 300 ms | 50 ms (over 3 ms) |" in page
    assert "| k, x + y | 1.25 ± 5 % |" in page and "| Small calls of 16 threads |" in page


# ── the pages ──


def section(page: str, title: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_s_aims_are_counted_as_they_are_marked(page: str) -> None:
    text = section(page, "Aims")
    rows = cells(text)
    missed = sum("missed" in row[-1] for row in rows)
    assert (f"{missed} of {len(rows)} are missed" if missed else f"All {len(rows)} are met") in text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_s_means_are_held_against_the_aim(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    means = cells(text.partition("\nGeometric means,")[2].partition("\n## ")[0])
    assert means
    for _, programs, ratio, aim, copys, peer, _ in means:
        assert float(copys) == pytest.approx(1 / float(peer), rel=0.05)
        if programs == "with transcendentals":
            assert ("missed" in aim) == (float(ratio) < aims.TIMES_THE_BEST_PEER)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_s_losses_add_up(page: str) -> None:
    kinds, _, each = section(page, "Where a peer is faster").partition("\nEach of them:\n")
    ratios = [float(row[-1]) for row in cells(each)]
    count, most, median = re.findall(r"Lost are (\d+) of .*?by up to (\d+) % \(median (\d+) %\)", kinds)[0]
    assert int(count) == len(ratios) == sum(int(row[3]) for row in cells(kinds))
    assert int(most) == pytest.approx(100 * (1 - min(ratios)), abs=0.51)
    assert int(median) == pytest.approx(100 * (1 - statistics.median(ratios)), abs=1.01)
    for language, told in (("README.md", "by up to {} %"), ("README.zh-CN.md", "最多快 {} %")):
        line = next(x for x in (ROOT / language).read_text("utf-8").splitlines() if f"](docs/{page})" in x and "|" in x)
        assert told.format(most) in line
