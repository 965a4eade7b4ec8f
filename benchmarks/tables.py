"""docs/benchmarks.md from the measurements: what they say together first, then every row."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Any

import aims
from aims import Aim, Lost, Mean
from page_text import LARGE, geometric_mean, size, table, threads, time

from programs import PROGRAMS

_NAMED_BY_THE_AIM = "bias_gelu_residual"
"""The program whose cold compile has an aim."""

Key = tuple[str, int, int]
"""Program, threads, elements."""


def document(data: dict[str, Any]) -> str:
    """The whole page."""
    t = _Table(data)
    parts = [_head(data)]
    if data.get("resources"):
        parts += [
            _aims(t),
            _summary(t),
            _peers_summary(t),
            aims.lost_section(t.lost(), t.comparisons()),
            _resources(t),
            _small(data),
            _compiles(data),
            _small_calls_of_threads(data),
            _memory(t),
        ]
    parts += [_program(t, name) for name in t.programs]
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
        program, count, n = key
        r = self.resources[program]
        seconds: float = r["seconds_a_vector"][str(count)] / r["lanes"] * n / count
        return seconds

    def comparisons(self) -> int:
        """The number of a peer's cells."""
        return sum(len(modes) for key in self.rows for modes in self.peers(key).values())

    def lost(self) -> list[Lost]:
        """The comparisons in which a peer is faster."""
        found = []
        for key in self.rows:
            for label, modes in self.peers(key).items():
                found += [self._lost(key, label, mode, m) for mode, m in modes.items() if m["ratio"] < 1.0]
        return found

    def _lost(self, key: Key, peer: str, mode: str, theirs: dict[str, float]) -> Lost:
        program, count, n = key
        ours = self.ours(key, mode)
        half_spreads = [one["spread_s"] / one["median_s"] / 2 for one in (ours, theirs)]
        return Lost(
            PROGRAMS[program].title, n, count, peer, mode, theirs["ratio"], sum(half_spreads),
            self.instruction_seconds(key) / ours["median_s"], ours["fraction"],
        )  # fmt: skip

    def means(self) -> list[Mean]:
        """Of the largest arrays, for programs with transcendentals and for those without; all threads first."""
        n, found = self.sizes[-1], []
        for count in reversed(self.threads):
            hardest = {p: h for p in self.programs if (h := self.hardest((p, count, n))) is not None}
            for transcendental in (True, False):
                chosen = {p: h for p, h in hardest.items() if PROGRAMS[p].transcendental == transcendental}
                if chosen:
                    ratios, fractions = ([h[i] for h in chosen.values()] for i in (1, 2))
                    ours = [self.ours((p, count, n), "out")["fraction"] for p in chosen]
                    means = map(geometric_mean, (ratios, fractions, ours))
                    found.append(Mean(count, transcendental, *means))
        return found

    def bound(self, key: Key) -> tuple[str, float, bool]:
        """What binds (memory where the copy takes longer than the instructions), how near that bound fuseline is, and
        whether the aim is met."""
        program, count, _ = key
        ours = self.ours(key, "out")
        limit_s, instructions_s = self.limit_s(key)[0], self.instruction_seconds(key)
        what = "memory" if limit_s >= instructions_s else "instructions"
        share = max(limit_s, instructions_s) / ours["median_s"]
        aim = aims.OF_TRANSCENDENTALS if PROGRAMS[program].transcendental else aims.OF_COPIES
        aim = aim if count > 1 else aims.OF_ONE_THREAD
        met = ours["fraction"] >= aim or (what == "instructions" and share >= aims.OF_INSTRUCTIONS)
        return what, share, met


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
    parts = [f"## At {size(n)} elements"]
    for count in reversed(t.threads):
        lines = []
        for program in t.programs:
            key = (program, count, n)
            hardest = t.hardest(key)
            ours = t.ours(key, "out")
            bound, share, met = t.bound(key)
            verdict = f"{bound}, {min(share, 9.99):.2f} of that bound{'' if met else ' (aim missed)'}"
            lines.append(
                [
                    PROGRAMS[program].title,
                    time(ours["median_s"]),
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
        parts.append(f"### {threads(count)}\n\n" + table(heads, lines))
    parts.append(aims.means_section(t.means()))
    return "\n\n".join(parts)


def _aims(t: _Table) -> str:
    found: list[Aim] = []
    if (n := t.sizes[-1]) >= LARGE:
        for count in reversed(t.threads):
            met = {PROGRAMS[p].title: t.bound((p, count, n))[2] for p in t.programs}
            found.append(aims.aim_of_programs(count, met))
        found += [aims.aim_of_mean(mean) for mean in t.means() if mean.transcendental]
    found.append(aims.aim_of_losses(t.lost(), t.comparisons()))
    found += aims.aims_of_calls(t.data["small"]["overhead"])
    for kind, cold, warm in _compile_seconds(t.data):
        if _NAMED_BY_THE_AIM in cold:
            found.append(aims.aim_of_cold(kind, PROGRAMS[_NAMED_BY_THE_AIM].title, cold[_NAMED_BY_THE_AIM]))
        found.append(aims.aim_of_warm(kind, {PROGRAMS[p].title: seconds for p, seconds in warm.items()}))
    if t.data.get("small_calls"):
        found.append(aims.aim_of_small_calls(t.data["small_calls"]))
    return aims.aims_section(found)


_ALONE, _FIRST = "in a process that has run another", "the first of a process"


def _compile_seconds(data: dict[str, Any]) -> list[tuple[str, dict[str, float], dict[str, float]]]:
    """Of which process, and by program a kernel's time with an empty cache and with a full one: medians where several
    processes were measured, else the least of the one program."""
    if "compiles" not in data:
        one, two = ({_NAMED_BY_THE_AIM: data["small"][state]["first_call_s"]} for state in ("cold", "warm"))
        return [(_ALONE, one, two)]
    found = []
    for kind, key in ((_ALONE, "own"), (_FIRST, "first")):
        one, two = (
            {program: statistics.median(samples) for program, samples in data["compiles"][key][state].items()}
            for state in ("cold", "warm")
        )
        found.append((kind, one, two))
    return found


def _peers_summary(t: _Table) -> str:
    """Each peer's geometric mean ratio over the programs it can express, for every size."""
    labels = dict.fromkeys(label for key in t.rows for label in t.peers(key))
    lines = []
    for count in reversed(t.threads):
        for label in labels:
            cells = []
            for n in t.sizes:
                ratios = [
                    min(m["ratio"] for m in found[label].values())
                    for p in t.programs
                    if label in (found := t.peers((p, count, n)))
                ]
                cells.append(f"{geometric_mean(ratios):.2f}" if ratios else "–")
            lines.append([label, str(count), *cells])
    heads = ["peer", "threads", *map(size, t.sizes)]
    return (
        "## Peers\n\nTime over fuseline's, geometric mean over the programs a peer can express, its better mode:\n\n"
        + (table(heads, lines))
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
        heads += [f"ns, {threads(count).lower()}", "ns to copy"]
    return (
        "## Instructions\n\nFor 16 elements, counted in the assembly of the loop. The time of a thread is measured on "
        "one vector in the first-level cache, where memory plays no part, with as many threads at work; beside it a "
        "thread's time at the copy limit. Where the first is longer, instructions bind:\n\n"
    ) + table(heads, lines)


def _small(data: dict[str, Any]) -> str:
    small = data["small"]
    overhead = small["overhead"]
    fresh, given = overhead["np.add"], overhead["np.add, out"]
    calls = [
        [name, f"{s * 1e9:.0f}", f"{s / (given if name.endswith('out') else fresh):.2f}"]
        for name, s in overhead.items()
    ]
    first = [
        ["fuseline, empty cache", time(small["cold"]["first_call_s"])],
        ["fuseline, kernel in the cache, new process", time(small["warm"]["first_call_s"])],
        *[[f"{peer}, new process", time(s)] for peer, s in small["first"].items()],
    ]
    cold, warm = small["cold"], small["warm"]
    return (
        "## Calls and compiles\n\nOne call on arrays of one element:\n\n"
        + table(["call", "ns", "of np.add"], calls)
        + "\n\nFrom the formula of bias + GELU + residual to its first result, in a process that has run another "
        "program:\n\n"
        + table(["", "time"], first)
        + f"\n\nOf fuseline's, reading, typing and optimising the formula takes {time(cold['graph_s'])} with an empty "
        f"cache and {time(warm['graph_s'])} with a full one, the body {time(cold['body_s'])} and "
        f"{time(warm['body_s'])}. Before it, a process spends {time(warm['shared_s'])} once on the code around "
        f"bodies ({time(cold['shared_s'])} where the cache has never had it, LLVM's own start included) and "
        f"{time(warm['start_s'])} on its first formula."
    )


def _compiles(data: dict[str, Any]) -> str:
    """Every program: a kernel by itself, and as the first one of a process."""
    if "compiles" not in data:
        return ""
    own, first = data["compiles"]["own"], data["compiles"]["first"]
    lines = []
    for program in filter(own["cold"].__contains__, first["cold"]):
        line = [PROGRAMS[program].title]
        for kind in (own, first):
            cold, warm = (statistics.median(kind[state][program]) for state in ("cold", "warm"))
            line.append(time(cold) + (aims.over(cold, aims.COLD_S) if program == _NAMED_BY_THE_AIM else ""))
            line.append(time(warm) + aims.over(warm, aims.WARM_S))
        lines.append(line)
    runs = len(next(iter(own["cold"].values())))
    how = f"""\
From each formula to its first result, medians of {runs} new processes each. *Alone*: in a process that has run another
program. *First*: the first kernel of a process, everything after `import fuseline`, which loads the rest of
fuseline and the code around bodies. *Cold*: with an empty cache, which takes LLVM. *Warm*: with the kernel in it. A
process's first result of bfloat16 takes the import of ml_dtypes.

"""
    return how + table(["program", "alone, cold", "alone, warm", "first, cold", "first, warm"], lines)


def _small_calls_of_threads(data: dict[str, Any]) -> str:
    """Many threads of small calls beside one."""
    found = data.get("small_calls")
    if not found:
        return ""
    sizes = sorted({one["n"] for one in found["rows"]})
    by_call: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for one in found["rows"]:
        by_call[one["call"]][one["n"]] = one
    lines = [
        [call, *(f"{cells[n]['ratio']:.2f} ± {50 * cells[n]['spread']:.0f} %" for n in sizes)]
        for call, cells in by_call.items()
    ]
    how = f"""## Small calls of {found["threads"]} threads

Time of as many calls by {found["threads"]} threads together, each on arrays of its own and with fresh results, over
that of the same number by one; medians of turns. Above 1 threads cost more than they give. NumPy's calls show what the
interpreter's lock alone does:

"""
    return how + table(["call", *(f"{n:,}" for n in sizes)], lines)


def _memory(t: _Table) -> str:
    n, count = t.sizes[-1], t.threads[-1]
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for program in t.programs:
        for row in t.rows[program, count, n]:
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
        f"({size(n)} elements, {threads(count)}):\n\n"
    ) + table(["", *t.programs], lines)


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
    for count in t.threads:
        lines = [["copy limit", "", *(_cell(*t.limit_s((program, count, n))) for n in t.sizes)]]
        for mode in ("out", "fresh"):
            cells = [(n, t.ours((program, count, n), mode)) for n in t.sizes]
            lines.append(["**fuseline**", mode, *(_full_cell(n, x) for n, x in cells)])
        labels = dict.fromkeys(label for n in t.sizes for label in t.peers((program, count, n)))
        for label in labels:
            for mode in ("out", "fresh"):
                figures = [(n, t.peers((program, count, n)).get(label, {}).get(mode)) for n in t.sizes]
                if any(x for _, x in figures):
                    lines.append([label, mode, *(_full_cell(n, x) if x else "–" for n, x in figures)])
        parts.append(f"{threads(count)}:\n\n" + table(["", "", *map(size, t.sizes)], lines))
    return "\n\n".join(parts)


def _cell(median_s: float, spread_s: float) -> str:
    return f"{time(median_s)} ± {50 * spread_s / median_s:.0f} %"


def _full_cell(n: int, x: dict[str, float]) -> str:
    cell = _cell(x["median_s"], x["spread_s"])
    cell += f" · {x['fraction']:.2f}" if n >= LARGE else ""
    return cell + (f" · {x['ratio']:.2f}×" if "ratio" in x else "")
