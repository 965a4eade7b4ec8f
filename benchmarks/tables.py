"""docs/benchmarks.md from the measurements: what they say together first, then every row."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from fuseline.units import format_time
from programs import PROGRAMS

LARGE = 1 << 20
"""Fractions of the copy limit are shown from this size on; below it a call's overhead is most of the copy."""
_AIM_OF_COPIES, _AIM = 0.95, 0.9
_AIM_OF_ONE_THREAD, _AIM_OF_INSTRUCTIONS = 0.8, 0.85

Key = tuple[str, int, int]
"""Program, threads, elements."""


def document(data: dict[str, Any]) -> str:
    """The whole page."""
    table = _Table(data)
    parts = [_head(data)]
    if data.get("resources"):
        parts += [
            _summary(table),
            _peers_summary(table),
            _slower(table),
            _resources(table),
            _small(data),
            _memory(table),
        ]
    parts += [_program(table, name) for name in table.programs]
    return "\n\n".join(part for part in parts if part) + "\n"


class _Table:
    """The rows, put together over the processes that measured them."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.rows: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        for row in data["rows"]:
            self.rows[row["program"], row["threads"], row["n"]].append(row)
        self.programs = [p for p in PROGRAMS if any(k[0] == p for k in self.rows)]
        self.threads = sorted({k[1] for k in self.rows})
        self.sizes = sorted({k[2] for k in self.rows})
        self.resources = {r["program"]: r for r in data.get("resources", [])}

    def ours(self, key: Key, mode: str) -> dict[str, float]:
        """fuseline's figures: medians over the processes; the fraction is a median of fractions."""
        timed = [r["timings"] for r in self.rows[key]]
        mine = [t[f"fuseline {mode}"] for t in timed]
        fractions = [t["limit"]["median_s"] / t[f"fuseline {mode}"]["median_s"] for t in timed]
        return {
            "median_s": statistics.median(m["median_s"] for m in mine),
            "spread_s": statistics.median(m["spread_s"] for m in mine),
            "fraction": statistics.median(fractions),
        }

    def limit_s(self, key: Key) -> tuple[float, float]:
        """Median and spread of the copy limit."""
        limits = [r["timings"]["limit"] for r in self.rows[key]]
        return statistics.median(x["median_s"] for x in limits), statistics.median(x["spread_s"] for x in limits)

    def peers(self, key: Key) -> dict[str, dict[str, dict[str, float]]]:
        """By implementation and mode: median, spread, fraction of the limit, and time over fuseline's in that run."""
        found: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
        for row in self.rows[key]:
            for name, t in row["timings"].items():
                label, _, mode = name.rpartition(" ")
                if not label or label == "fuseline":
                    continue
                found[label][mode] = {
                    "median_s": t["median_s"],
                    "spread_s": t["spread_s"],
                    "fraction": row["timings"]["limit"]["median_s"] / t["median_s"],
                    "ratio": t["median_s"] / row["timings"][f"fuseline {mode}"]["median_s"],
                }
        return found

    def hardest(self, key: Key) -> tuple[str, float, float] | None:
        """The peer with the smallest ratio in any mode, that ratio, and its fraction of the limit."""
        rows = [(label, m["ratio"], m["fraction"]) for label, modes in self.peers(key).items() for m in modes.values()]
        return min(rows, key=lambda row: row[1], default=None)

    def instruction_seconds(self, key: Key) -> float:
        """Seconds for the elements of ``key`` if only instructions took time."""
        program, threads, n = key
        r = self.resources[program]
        seconds: float = r["seconds_a_vector"][str(threads)] / r["lanes"] * n / threads
        return seconds


# ── the head ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _head(data: dict[str, Any]) -> str:
    m = data["machine"]
    clock = (
        " The machine was busy: with one thread, times are those on a processor, the copy limit's too."
        if data.get("processor_time")
        else ""
    )
    note = f"\n- **Of this run**: {data['note']}" if data.get("note") else ""
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    return f"""# Benchmarks

Written by `python benchmarks/kernels.py`; `benchmarks/README.md` says how to run it. Every figure is from one run on
one machine; a shared machine's speed drifts, so read ratios and fractions, not seconds.

- **Machine**: {m["processor"]}, {m["processors"]} processors (code for {m["target"]}), last-level cache
  {m["last_level_cache_bytes"] >> 20} MiB, memory {m["memory_bytes"] >> 30} GiB, {m["system"]}.
  {m["date"]}, {data["seconds"] / 60:.0f} minutes; load average {data["load_before"]:.1f} before.
- **Versions**: Python {m["python"]}, {versions}.
- **Rows**: each peer is measured in a process of its own, bound to as many processors as it has threads, where it,
  fuseline and the copy limit take turns. A cell is the median of the samples, ± half the distance between the
  quartiles. *out* writes into arrays that are there, *fresh* returns new ones. All results were compared with float64
  first.{clock}
- **Copy limit**: a loop that reads and writes the same arrays and computes nothing, with the same threads; the faster
  of one with ordinary stores and one with stores past the caches, whichever fuseline's own call uses. The fraction of
  it is its time over a row's, both from the same turns. Shown from 2^20 elements on.
- **Ratio**: a peer's time over fuseline's in the same process and mode; below 1 the peer is faster.{note}"""


# ── the summary ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _summary(t: _Table) -> str:
    n = t.sizes[-1]
    if n < LARGE:
        return ""
    parts = [f"## At {_size(n)} elements"]
    for threads in reversed(t.threads):
        lines = []
        for program in t.programs:
            key = (program, threads, n)
            hardest = t.hardest(key)
            ours = t.ours(key, "out")
            verdict = _binding(t, key)
            lines.append(
                [
                    PROGRAMS[program].title,
                    _time(ours["median_s"]),
                    f"{ours['fraction']:.2f}",
                    f"{t.ours(key, 'fresh')['fraction']:.2f}",
                    verdict,
                    hardest[0] if hardest else "–",
                    f"{hardest[2]:.2f}" if hardest else "–",
                    f"{hardest[1]:.2f}" if hardest else "–",
                ]
            )
        heads = ["program", "fuseline, out", "of the copy limit", "fresh", "what binds", "best peer", "its fraction",
                 "its ratio"]  # fmt: skip
        parts.append(f"### {_threads(threads)}\n\n" + _markdown(heads, lines))
    parts.append(_means(t, n))
    return "\n\n".join(parts)


def _binding(t: _Table, key: Key) -> str:
    """Memory where the copy takes longer than the instructions, otherwise instructions; and how near that bound is."""
    program, threads, _ = key
    fraction = t.ours(key, "out")["fraction"]
    limit_s, instructions_s = t.limit_s(key)[0], t.instruction_seconds(key)
    bound = "memory" if limit_s >= instructions_s else "instructions"
    share = max(limit_s, instructions_s) / t.ours(key, "out")["median_s"]
    aim = _AIM if PROGRAMS[program].transcendental else _AIM_OF_COPIES
    aim = aim if threads > 1 else _AIM_OF_ONE_THREAD
    met = fraction >= aim or (bound == "instructions" and share >= _AIM_OF_INSTRUCTIONS)
    return f"{bound}, {min(share, 9.99):.2f} of that bound{'' if met else ' (aim missed)'}"


def _means(t: _Table, n: int) -> str:
    lines = []
    for threads in reversed(t.threads):
        ratios = {p: h for p in t.programs if (h := t.hardest((p, threads, n))) is not None}
        hard = [h for p, h in ratios.items() if PROGRAMS[p].transcendental]
        easy = [h for p, h in ratios.items() if not PROGRAMS[p].transcendental]
        for name, chosen in (("with transcendentals", hard), ("without", easy)):
            if chosen:
                row = [_threads(threads), name, f"{_geometric_mean(h[1] for h in chosen):.2f}"]
                ours = [
                    t.ours((p, threads, n), "out")["fraction"]
                    for p in ratios
                    if PROGRAMS[p].transcendental == (chosen is hard)
                ]
                row += [f"{_geometric_mean(h[2] for h in chosen):.2f}", f"{_geometric_mean(ours):.2f}"]
                lines.append(row)
    heads = ["threads", "programs", "best peer's time over fuseline's", "best peer's fraction", "fuseline's fraction"]
    return "Geometric means, with each program's best peer (the peers' own fractions cap the ratio):\n\n" + _markdown(
        heads, lines
    )


def _peers_summary(t: _Table) -> str:
    """Each peer's geometric mean ratio over the programs it can express, for every size."""
    labels = dict.fromkeys(label for key in t.rows for label in t.peers(key))
    lines = []
    for threads in reversed(t.threads):
        for label in labels:
            cells = []
            for n in t.sizes:
                ratios = [
                    min(m["ratio"] for m in found[label].values())
                    for p in t.programs
                    if label in (found := t.peers((p, threads, n)))
                ]
                cells.append(f"{_geometric_mean(ratios):.2f}" if ratios else "–")
            lines.append([label, str(threads), *cells])
    heads = ["peer", "threads", *map(_size, t.sizes)]
    return (
        "## Peers\n\nTime over fuseline's, geometric mean over the programs a peer can express, its better mode:\n\n"
        + (_markdown(heads, lines))
    )


def _slower(t: _Table) -> str:
    lines = []
    for program in t.programs:
        for threads in t.threads:
            for n in t.sizes:
                for label, modes in t.peers((program, threads, n)).items():
                    for mode, m in modes.items():
                        if m["ratio"] < 1.0:
                            lines.append(
                                [PROGRAMS[program].title, _size(n), str(threads), label, mode, f"{m['ratio']:.2f}"]
                            )
    if not lines:
        return "## Where a peer is faster\n\nNowhere in this run."
    lines.sort(key=lambda line: float(line[-1]))
    total = sum(len(modes) for key in t.rows for modes in t.peers(key).values())
    return f"## Where a peer is faster\n\n{len(lines)} of {total} comparisons:\n\n" + _markdown(
        ["program", "elements", "threads", "peer", "mode", "ratio"], lines
    )


# ── resources, small costs, memory ───────────────────────────────────────────────────────────────────────────────────


def _resources(t: _Table) -> str:
    n, lines = t.sizes[-1], []
    for program, r in t.resources.items():
        scale = 16 / r["lanes"]
        line = [
            PROGRAMS[program].title,
            f"{r['instructions'] * scale:.0f}",
            f"{r['memory_instructions'] * scale:.0f}",
            f"{r['constants_and_spills'] * scale:.0f}",
            f"{r['divisions'] * scale:.0f}",
        ]
        for count in t.threads:
            line.append(f"{r['seconds_a_vector'][str(count)] * scale * 1e9:.1f}")
            line.append(f"{t.limit_s((program, count, n))[0] * count / n * 16e9:.1f}" if n >= LARGE else "–")
        lines.append(line)
    heads = ["program", "instructions", "that touch memory", "of these constants and spills", "divisions and roots"]
    for count in t.threads:
        heads += [f"ns, {_threads(count).lower()}", "ns to copy"]
    return (
        "## Instructions\n\nFor 16 elements, counted in the assembly of the loop. The time of a thread is measured on "
        "one vector in the first-level cache, where memory plays no part, with as many threads at work; beside it a "
        "thread's time at the copy limit. Where the first is longer, instructions bind:\n\n"
    ) + _markdown(heads, lines)


def _small(data: dict[str, Any]) -> str:
    small = data["small"]
    overhead = small["overhead"]
    fresh, given = overhead["np.add"], overhead["np.add, out"]
    calls = [
        [name, f"{s * 1e9:.0f}", f"{s / (given if name.endswith('out') else fresh):.2f}"]
        for name, s in overhead.items()
    ]
    first = [
        ["fuseline, empty cache", _time(small["cold"]["first_call_s"])],
        ["fuseline, kernel in the cache, new process", _time(small["warm"]["first_call_s"])],
        *[[f"{peer}, new process", _time(s)] for peer, s in small["first"].items()],
    ]
    cold, warm = small["cold"], small["warm"]
    return (
        "## Calls and compiles\n\nOne call on arrays of one element:\n\n"
        + _markdown(["call", "ns", "of np.add"], calls)
        + "\n\nFrom the formula of bias + GELU + residual to its first result, in a process that has run another "
        "program:\n\n"
        + _markdown(["", "time"], first)
        + f"\n\nOf fuseline's, reading, typing and optimising the formula takes {_time(cold['graph_s'])} with an empty "
        f"cache and {_time(warm['graph_s'])} with a full one, the body {_time(cold['body_s'])} and "
        f"{_time(warm['body_s'])}. Before it, a process spends {_time(warm['shared_s'])} once on the code around "
        f"bodies ({_time(cold['shared_s'])} where the cache has never had it, LLVM's own start included) and "
        f"{_time(warm['start_s'])} on its first formula."
    )


def _memory(t: _Table) -> str:
    n, threads = t.sizes[-1], t.threads[-1]
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for program in t.programs:
        for row in t.rows[program, threads, n]:
            outputs = len(PROGRAMS[program].result_dtypes) * n * (2 if program == "dequantise" else 4)
            for name, raised in row["peak_bytes"].items():
                if raised is not None:
                    found[name.rpartition(" ")[0]][program] = raised / outputs
    if not found:
        return ""
    lines = [
        [label, *(f"{shares[p]:.1f}" if p in shares else "–" for p in t.programs)] for label, shares in found.items()
    ]
    return (
        f"## Peak memory\n\nHow far a later call with fresh outputs raises resident memory, in sizes of its outputs; "
        f"libraries that keep memory between calls show 0, fuseline was told to give its own back "
        f"({_size(n)} elements, {_threads(threads)}):\n\n"
    ) + _markdown(["", *t.programs], lines)


# ── every row ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _program(t: _Table, program: str) -> str:
    p = PROGRAMS[program]
    parts = [f"## {p.title}\n\n```\n{p.formula}\n```"]
    notes = sorted(
        {f"{r['peer']}: {r['note']}" for k, rows in t.rows.items() if k[0] == program for r in rows if r["note"]}
    )
    if notes:
        parts.append(f"Left out: {'; '.join(notes)}.")
    if not t.resources:
        return "\n\n".join(parts)
    for threads in t.threads:
        lines = [["copy limit", "", *(_cell(*t.limit_s((program, threads, n))) for n in t.sizes)]]
        for mode in ("out", "fresh"):
            cells = [(n, t.ours((program, threads, n), mode)) for n in t.sizes]
            lines.append(["**fuseline**", mode, *(_full_cell(n, x) for n, x in cells)])
        labels = dict.fromkeys(label for n in t.sizes for label in t.peers((program, threads, n)))
        for label in labels:
            for mode in ("out", "fresh"):
                figures = [(n, t.peers((program, threads, n)).get(label, {}).get(mode)) for n in t.sizes]
                if any(x for _, x in figures):
                    lines.append([label, mode, *(_full_cell(n, x) if x else "–" for n, x in figures)])
        parts.append(f"{_threads(threads)}:\n\n" + _markdown(["", "", *map(_size, t.sizes)], lines))
    return "\n\n".join(parts)


def _cell(median_s: float, spread_s: float) -> str:
    return f"{_time(median_s)} ± {50 * spread_s / median_s:.0f} %"


def _full_cell(n: int, x: dict[str, float]) -> str:
    cell = _cell(x["median_s"], x["spread_s"])
    cell += f" · {x['fraction']:.2f}" if n >= LARGE else ""
    return cell + (f" · {x['ratio']:.2f}×" if "ratio" in x else "")


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def _markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(heads) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *lines))


def _threads(count: int) -> str:
    return "One thread" if count == 1 else f"{count} threads"


def _size(n: int) -> str:
    power = n.bit_length() - 1
    return f"2^{power}" if n >= LARGE and n == 1 << power else f"{n:,}"


def _time(seconds: float) -> str:
    return format_time(seconds, digits=3)
