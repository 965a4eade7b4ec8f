"""The aims, what was reached of each, what caps it, and the comparisons that are lost, all computed from the figures.

The sentences are true whatever the figures are. Nothing here knows how the figures are kept.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from page_text import size, table, threads

OF_COPIES, OF_TRANSCENDENTALS, OF_ONE_THREAD, OF_INSTRUCTIONS = 0.95, 0.9, 0.8, 0.85
"""Least fractions of the copy limit: of programs without transcendentals, of those with, of any on one thread; and of
the time that the instructions take, where that is longer than the copy."""
TIMES_THE_BEST_PEER = 4.0
"""Geometric mean over the programs with transcendentals, of the best peer's time over fuseline's."""
UFUNC_CALL, KERNEL_CALL = 1.2, 2.0
"""Most of np.add's time for one call of ``k.ufunc`` and of ``k``, on one element."""
COLD_S, WARM_S = 15e-3, 3e-3
"""Most for a cold compile of the issue's program and for loading any program's kernel from the cache."""


@dataclass(frozen=True)
class Aim:
    """One line of the table."""

    what: str
    aim: str
    reached: str
    missed: bool


def aims_section(aims: Sequence[Aim]) -> str:
    """What was aimed at, reached and missed."""
    missed = sum(aim.missed for aim in aims)
    told = f"{missed} of {len(aims)} are missed" if missed else f"All {len(aims)} are met"
    lines = [[a.what, a.aim, a.reached, "**missed**" if a.missed else "met"] for a in aims]
    return f"## Aims\n\n{told} in this run:\n\n" + table(["", "aim", "reached", ""], lines, texts=4)


def aim_of_programs(count: int, met: dict[str, bool]) -> Aim:
    """``met``: by a program's title, whether it reaches its fraction of the copy limit or of its instructions."""
    most = f"{OF_TRANSCENDENTALS} ({OF_COPIES} without transcendentals)" if count > 1 else f"{OF_ONE_THREAD}"
    missing = [title for title, reached in met.items() if not reached]
    reached = f"{len(met) - len(missing)} of {len(met)} programs" + (f"; not {', '.join(missing)}" if missing else "")
    aim = f"every program at {most} of a copy, or at {OF_INSTRUCTIONS} of its instructions where these take longer"
    return Aim(f"Speed, {threads(count).lower()}", aim, reached, bool(missing))


# ── times the best peer ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Mean:
    """Geometric means over programs: the best peer's time over fuseline's, and both as fractions of a copy."""

    threads: int
    transcendental: bool
    ratio: float
    peer_fraction: float
    fraction: float

    @property
    def cap(self) -> float:
        """How many times as fast as the best peers a copy is."""
        return 1 / self.peer_fraction

    @property
    def missed(self) -> bool | None:
        """Whether the aim is missed; None where there is none."""
        return self.ratio < TIMES_THE_BEST_PEER if self.transcendental else None


def means_section(means: Sequence[Mean]) -> str:
    """The geometric means, their aim, and what caps them."""
    lines = [
        [
            threads(m.threads),
            "with transcendentals" if m.transcendental else "without",
            f"{m.ratio:.2f}",
            "–" if m.missed is None else f"{TIMES_THE_BEST_PEER:.0f}{', missed' if m.missed else ''}",
            f"{m.cap:.1f}",
            f"{m.peer_fraction:.2f}",
            f"{m.fraction:.2f}",
        ]
        for m in means
    ]
    heads = ["threads", "programs", "best peer's time over fuseline's", "aim", "a copy's", "best peer's fraction",
             "fuseline's fraction"]  # fmt: skip
    return _HOW_TO_READ_MEANS + table(heads, lines)


_HOW_TO_READ_MEANS = """\
Geometric means, with each program's best peer. *A copy's* is 1 over the best peers' own fraction of a copy: how many
times as fast as they a loop is that moves the same arrays and computes nothing. It caps the ratio: where it is below
the aim, the aim asks for more than that copy's speed.

"""


def aim_of_mean(mean: Mean) -> Aim:
    """The aim for programs with transcendentals."""
    aim = f"best peer's time at least {TIMES_THE_BEST_PEER:.0f} times fuseline's, programs with transcendentals"
    reached = f"{mean.ratio:.2f}; a copy itself {mean.cap:.1f}"
    return Aim(f"Beside peers, {threads(mean.threads).lower()}", aim, reached, bool(mean.missed))


# ── comparisons that are lost ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Lost:
    """A comparison in which a peer is faster: its time over fuseline's, and both spreads together over fuseline's time.

    ``instructions`` and ``copy`` are the shares of fuseline's time that a pass of the loop and a copy take.
    """

    program: str
    n: int
    threads: int
    peer: str
    mode: str
    ratio: float
    spread: float
    instructions: float
    copy: float

    @property
    def within_spread(self) -> bool:
        """Whether another run could have it the other way round."""
        return 1 - self.ratio <= self.spread

    @property
    def binds(self) -> str:
        """What fuseline's time is made of."""
        if max(self.instructions, self.copy) < OF_INSTRUCTIONS:
            return "neither"
        return "instructions" if self.instructions >= self.copy else "copy"


def lost_section(lost: Sequence[Lost], total: int) -> str:
    """How many comparisons are lost, to whom, by how much and where; then each of them."""
    head = "## Where a peer is faster\n\n"
    if not lost:
        return f"{head}Nowhere in this run, of {total:,} comparisons."
    kinds: dict[tuple[str, int, int], list[Lost]] = defaultdict(list)
    for one in sorted(lost, key=lambda one: one.ratio):
        kinds[one.program, one.n, one.threads].append(one)
    lines = []
    for (program, n, count), ones in kinds.items():
        within = sum(one.within_spread for one in ones)
        told = "all" if within == len(ones) else f"{within} of {len(ones)}" if within else "none"
        worst = ones[0]
        lines.append([program, size(n), str(count), str(len(ones)), _percent(1 - worst.ratio), told, worst.binds,
                      f"{worst.instructions:.2f}", f"{worst.copy:.2f}"])  # fmt: skip
    heads = ["program", "elements", "threads", "lost", "by up to", "within the spread", "what binds", "instructions",
             "copy"]  # fmt: skip
    rows = [
        [one.program, size(one.n), str(one.threads), one.peer, one.mode, f"{one.ratio:.2f}"]
        for one in sorted(lost, key=lambda one: one.ratio)
    ]
    return (
        f"{head}The aim is nowhere. Lost are {summary_of_losses(lost, total)}: {_by_peer(lost)}.\n\n"
        f"{_HOW_TO_READ_LOSSES}{table(heads, lines)}\n\nEach of them:\n\n"
    ) + table(["program", "elements", "threads", "peer", "mode", "ratio"], rows)


_HOW_TO_READ_LOSSES = f"""\
*Within the spread* is what is lost by no more than the ± of both cells together. *Instructions* and *copy* are what a
pass of the loop and a copy with its call take, as shares of fuseline's time in the worst row; from {OF_INSTRUCTIONS}
on they are what binds. Where instructions bind, a peer that is ahead executes fewer or cheaper ones:
`benchmarks/README.md` says which roundings and NaNs are left out for that. Where the copy binds, it moves the same
bytes in another way. Where neither does, time goes to both in turn, to the call, or to threads.

"""


def summary_of_losses(lost: Sequence[Lost], total: int) -> str:
    """Their number and by how much, in words."""
    if not lost:
        return f"none of {total:,} comparisons"
    by = [1 - one.ratio for one in lost]
    most, median = _percent(max(by)), _percent(statistics.median(by))
    within = sum(one.within_spread for one in lost)
    return (
        f"{len(lost)} of {total:,} comparisons, by up to {most} (median {median}), {within} of them within the spread"
    )


def aim_of_losses(lost: Sequence[Lost], total: int) -> Aim:
    """Never slower than any peer at any size."""
    return Aim("Never slower", "no comparison lost, at any size", summary_of_losses(lost, total), bool(lost))


def _by_peer(lost: Iterable[Lost]) -> str:
    return ", ".join(f"{peer} {count}" for peer, count in Counter(one.peer for one in lost).most_common())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# ── calls and compiles ───────────────────────────────────────────────────────────────────────────────────────────────


def aims_of_calls(overhead: dict[str, float]) -> list[Aim]:
    """One call on one element, with a fresh result and with one that is there: the larger share of np.add's time."""
    shares: dict[str, float] = {}
    for name, seconds in overhead.items():
        kind, ours = name.partition(",")[0], name.startswith("k")
        if ours and "x + y" in name:
            base = overhead["np.add, out" if name.endswith("out") else "np.add"]
            shares[kind] = max(shares.get(kind, 0.0), seconds / base)
    most = {"k.ufunc": UFUNC_CALL, "k": KERNEL_CALL}
    return [
        Aim(f"A call of `{kind}`", f"at most {most[kind]:g} of np.add's time", f"{share:.2f}", share > most[kind])
        for kind, share in shares.items()
    ]


def aim_of_cold(kind: str, title: str, seconds: float) -> Aim:
    """A cold compile of the program that the aim names; ``kind`` says of which process."""
    aim = f"{title}: at most {COLD_S * 1e3:.0f} ms"
    return Aim(f"A cold compile, {kind}", aim, f"{seconds * 1e3:.3g} ms", seconds > COLD_S)


def aim_of_warm(kind: str, seconds: dict[str, float]) -> Aim:
    """Loading from the cache, by a program's title; the slowest counts."""
    slowest = max(seconds, key=lambda title: seconds[title])
    reached = f"at most {seconds[slowest] * 1e3:.3g} ms ({slowest})"
    return Aim(f"A warm load, {kind}", f"at most {WARM_S * 1e3:.0f} ms", reached, seconds[slowest] > WARM_S)


def aim_of_small_calls(found: dict[str, Any]) -> Aim:
    """``rows`` of a call, its n, and its time by ``threads`` over that by one, with the spread of the ratio."""
    ours = [one for one in found["rows"] if one["call"].startswith("k")]
    worst = max(ours, key=lambda one: one["ratio"])
    slower = [one for one in ours if one["ratio"] - one["spread"] / 2 > 1]
    where = f"{worst['call']}, arrays of {worst['n']:,}"
    numpys = max(one["ratio"] for one in found["rows"] if one not in ours)
    reached = (
        f"at most {worst['ratio']:.2f} ({where}); slower in {len(slower)} of {len(ours)}; NumPy's at most {numpys:.2f}"
    )
    what = f"Small calls of {found['threads']} threads"
    return Aim(what, "no slower than of one, within the spread", reached, bool(slower))


def over(seconds: float, most_s: float) -> str:
    """A mark behind a time that is longer than it should be."""
    return f" (over {most_s * 1e3:.0f} ms)" if seconds > most_s else ""
