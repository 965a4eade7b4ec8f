"""How good and how fast arena placement is, beside what others do, on published and generated instances.

Prints two tables (peak ÷ bound, seconds, proof; and small plans) and with ``--write`` puts them into docs/planner.md.
The instances A to K are MiniMalloc's (https://github.com/google/minimalloc, benchmarks/challenging; Apache-2.0): give
their folder. CP-SAT runs where an instance has at most ``--cpsat-buffers`` buffers, on one thread like everything else.

    python benchmarks/planner.py FOLDER [--write] [--time-limit 60] [--cpsat-seconds 45] [--only A,K]
    python benchmarks/planner.py --small
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import arena_instances
import cpsat
import planner_small as small
from peers import is_installed

from fuseline.plan.arena import engine, large, portfolio
from fuseline.plan.arena.checker import check
from fuseline.plan.arena.compiled import numba_available
from fuseline.plan.arena.engine import WALK, Walk
from fuseline.plan.arena.instance_csv import read_csv
from fuseline.plan.arena.large import VALLEY
from fuseline.plan.arena.planner import plan_instance
from fuseline.plan.arena.sections import Sections, cut
from fuseline.plan.arena.types import Instance, Placement

DOCUMENT = Path(__file__).parents[1] / "docs" / "planner.md"
BEGIN, END = "<!-- table: benchmarks/planner.py -->", "<!-- end of table -->"
LARGE = 4_000

Key = Callable[[int], tuple[int, ...]]


@dataclass(frozen=True)
class Measured:
    """One method on one instance. ``proof`` is whether the method itself showed its answer to be the least."""

    peak_bytes: int
    bound_bytes: int
    seconds: float
    proof: bool


def peers(s: Sections) -> dict[str, Key]:
    """Published orders, all placed by best fit: TFLite's greedy by size, XLA's two, and allocation at run time."""
    life = [b - a for a, b in zip(s.lower, s.upper, strict=True)]
    return {
        "greedy by size": lambda i: (-s.size[i], s.lower[i]),
        "XLA spatial": lambda i: (-s.size[i], -life[i], s.lower[i]),
        "XLA temporal": lambda i: (-life[i], -s.size[i], s.lower[i]),
        "online best fit": lambda i: (s.lower[i], i),
    }


def run_peer(instance: Instance, name: str) -> Measured:
    began = time.perf_counter()
    sections = cut(instance)
    order = sorted(range(sections.buffer_count), key=peers(sections)[name])
    offsets = portfolio.place(sections, portfolio.conflicts_of(sections), order, best_fit=True)
    placement = sections.placement(offsets)
    seconds = time.perf_counter() - began
    return checked(instance, placement, max(sections.least) * sections.unit_bytes, seconds)


def run_cpsat(instance: Instance, limit_s: float) -> Measured | None:
    began = time.perf_counter()
    answer = cpsat.solve(instance, limit_s)
    seconds = time.perf_counter() - began
    if answer.placement is None:
        return None
    return checked(instance, answer.placement, answer.lower_bound_bytes, seconds)


def run_ours(instance: Instance, limit_s: float) -> Measured:
    began = time.perf_counter()
    result = plan_instance(instance, time_limit_s=limit_s)
    return checked(instance, result.placement, result.lower_bound_bytes, time.perf_counter() - began)


def checked(instance: Instance, placement: Placement, bound: int, seconds: float) -> Measured:
    faults = check(instance, placement.offsets, placement.peak_bytes)
    if faults:
        raise SystemExit(f"{instance.name}: {faults[0]}")
    return Measured(placement.peak_bytes, bound, seconds, placement.peak_bytes == bound)


def cell(found: Measured | None, bound: int) -> str:
    if found is None:
        return "–"
    proof = " ✓" if found.proof else ""
    return f"{found.peak_bytes / bound:.4f} · {found.seconds:.2f} s{proof}"


PEERS = ("greedy by size", "XLA spatial", "XLA temporal", "online best fit")


def table(instances: list[Instance], limit_s: float, cpsat_s: float, cpsat_buffers: int) -> str:
    lines = [
        "| instance | buffers | live bound | ours: bytes | ours | " + " | ".join([*PEERS, "CP-SAT"]) + " |",
        "|---|---|---|---|---|" + "---|" * (len(PEERS) + 1),
    ]
    proven: list[float] = []
    others: list[float] = []
    for instance in instances:
        sections = cut(instance)
        bound = max(sections.least) * sections.unit_bytes
        large = len(instance.buffers) > LARGE
        ours = run_ours(instance, limit_s)
        (proven if ours.proof else others).append(ours.seconds)
        found = [None if large else run_peer(instance, name) for name in PEERS]
        small_enough = cpsat_s > 0 and len(instance.buffers) <= cpsat_buffers
        solvable = small_enough and is_installed("ortools") and cpsat.covers(instance)
        found.append(run_cpsat(instance, cpsat_s) if solvable else None)
        row = [instance.name.split(".")[0], f"{len(instance.buffers):,}", f"{bound:,}", f"{ours.peak_bytes:,}"]
        lines.append("| " + " | ".join([*row, cell(ours, bound), *(cell(f, bound) for f in found)]) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    lines += [
        "",
        f"Ours took {sum(proven):.1f} s for the {len(proven)} instances that it closed, {sum(others):.1f} s for the "
        f"other {len(others)}. ✓: the method itself proved its answer to be the least possible. –: not run.",
        f"Python {platform.python_version()}, {platform.machine()}, one thread; limits: CP-SAT {cpsat_s:g} s (up to "
        f"{cpsat_buffers:,} buffers), ours {limit_s:g} s. Compiled code lay on disk.",
    ]
    return "\n".join(lines)


def small_table(quick: bool = False) -> str:
    """Times of plans of 5 to 50 buffers, without and with the compiled search loaded."""
    plans = list(small.plans(60 if quick else small.COUNT))
    lines = [
        "| small plans (5 to 50 buffers) | plans | median ms | 90 % | 99 % | worst | proven |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, value in (("plain Python (`FUSELINE_CACHE=off`)", "off"), ("compiled code loaded", "")):
        os.environ["FUSELINE_CACHE"] = value
        if not value:
            WALK.ready()
            sections = cut(plans[0].instance)
            Walk(sections, compiled=True).restart(list(range(sections.buffer_count)), 1)
        for kind in small.Kind:
            times, proven = small.measure([plan.instance for plan in plans if plan.kind is kind])
            figures = " | ".join(f"{times[int(q * (len(times) - 1))]:.2f}" for q in (0.5, 0.9, 0.99, 1.0))
            lines.append(f"| {kind.value}, {name} | {len(times)} | {figures} | {proven} |")
            print(lines[-1], file=sys.stderr, flush=True)
    lines += [
        "",
        f"Milliseconds of processor time, the least of {small.REPETITIONS} runs, each ended after {small.LIMIT_S:g} s.",
    ]
    return "\n".join(lines)


def generated() -> list[Instance]:
    return [
        arena_instances.training_step(1000),
        arena_instances.training_step(2800, seed=1),
        arena_instances.random_trace(20_000),
        arena_instances.random_trace(60_000),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder with MiniMalloc's CSV files")
    parser.add_argument("--write", action="store_true", help="put the table into docs/planner.md")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--cpsat-seconds", type=float, default=45.0)
    parser.add_argument("--cpsat-buffers", type=int, default=500)
    parser.add_argument("--only", default="", help="names of instances, as A,K")
    parser.add_argument("--no-generated", action="store_true")
    parser.add_argument("--small", action="store_true", help="only the table of small plans")
    parser.add_argument("--quick", action="store_true", help="fewer small plans")
    chosen = parser.parse_args()
    files = sorted(chosen.folder.glob("*.csv")) if chosen.folder else []
    instances = [read_csv(path) for path in files]
    if not chosen.no_generated:
        instances += generated()
    if chosen.only:
        instances = [i for i in instances if i.name.split(".")[0] in chosen.only.split(",")]
    for loops, module in ((WALK, engine), (VALLEY, large)):
        if numba_available() and not loops.ready():
            module.build()
    tables = [] if chosen.small else [table(instances, chosen.time_limit, chosen.cpsat_seconds, chosen.cpsat_buffers)]
    text = "\n\n".join([*tables, small_table(chosen.quick)])
    print(text)
    if chosen.write and not chosen.small:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
