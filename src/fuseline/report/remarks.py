"""What follows from the figures of `explain`: which remark holds is decided here from the results, its words are in the
catalogue.

Each function looks at one section and returns the remarks whose conditions hold, in reading order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuseline.api.explanation import C_LIBM, C_OWN, NUMPY, PLANNED, Explanation, Measured
from fuseline.cost.ledger import Sizes
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.graph import Graph
from fuseline.ops import OPERATIONS
from fuseline.plan.kept_axes import drops_axes, with_kept_axes
from fuseline.plan.launch import fused
from fuseline.report.catalogue import resolve_language, text, topic_texts
from fuseline.report.wrapping import unbroken
from fuseline.units import format_bytes, format_number, format_percent, format_rate, format_time

WIDE_GRAPH = 4.0
"""From this many instructions a level on the graph itself counts as parallel."""
TANGIBLE = 0.05
"""Times that differ by less than this share count as equal."""
NEAR_LIMIT = 0.8
"""From this share of the copy limit on, memory is what binds."""
BEYOND_LIMIT = 1.05
"""Above this share of the copy limit the arrays lie in a cache, or the copy was disturbed: it limits nothing."""
CALL_S = 1e-6
"""What a call from Python to a loop takes however small its arrays are, roughly and in every row."""
CALLS_DOMINATE = 0.2
"""Where calls take more than this share of a row's time, rows say nothing about loops."""
NOISY = 0.15
"""A spread of more than this share of the median is worth a warning."""
CACHE_SIZED_BYTES = 64e6
"""Arrays below this size may be served by the caches of large processors."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark: its key in the catalogue's topic ``remarks`` and the figures it shows."""

    key: str
    values: Mapping[str, str | tuple[str, ...]]

    def text(self, lang: str | None = None) -> str:
        """The words in a language; figures keep their units on one line."""
        language = resolve_language(lang)
        shown = {name: _in_words(name, value, language) for name, value in self.values.items()}
        return text(f"remarks.{self.key}", language, **shown)


def _in_words(name: str, value: str | tuple[str, ...], language: str) -> str:
    if isinstance(value, tuple):
        words = [_reason_in_words(v, language) if name == "reasons" else v for v in value]
        return text("explain.list.separator", language).join(words)
    return implementation_name(value, language) if name == "implementation" else value


def _reason_in_words(reason: str, language: str) -> str:
    """Why a figure predicts no time, as the tables call it."""
    return text(f"explain.source.{reason.replace(' ', '_')}", language)


def implementation_name(implementation: str, language: str) -> str:
    """What reports call an implementation; one that the catalogue does not know keeps its own name."""
    return topic_texts("explain", language).get(f"implementation.{implementation}", implementation)


def _remark(key: str, **values: object) -> Remark:
    return Remark(key, {n: v if isinstance(v, tuple) else unbroken(str(v)) for n, v in values.items()})


def _time(seconds: float | None) -> str:
    """A time that the bound of the program rests on, and that is known for that reason."""
    return format_time(seconds or 0.0)


def number(value: float) -> str:
    """A count with separators between thousands, or up to four significant digits."""
    return f"{value:,}" if isinstance(value, int) else format_number(value)


def ratio(value: float) -> str:
    """By how many times: three significant digits, or all before the point."""
    return f"{round(value):,}" if value >= 1000 else format_number(value, 3)


# ── dataflow ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def dataflow_remarks(e: Explanation) -> list[Remark]:
    """Where the parallelism is, and which value is read most."""
    flow = e.dataflow
    count = len(flow.instructions)
    if count == 0:
        return [_remark("computes_nothing")]
    facts = {"elements": number(e.traffic.largest_elements), "count": number(count), "depth": number(flow.depth)}
    facts |= {"widest": number(flow.widest_level), "average": format_number(count / flow.depth, 3)}
    found = [] if count == 1 else [_remark(_form(count, flow.depth), **facts)]
    reductions = dict.fromkeys(n.op for n in e.graph.nodes if OPERATIONS[n.op].index_rule == "reduction")
    if reductions:
        found.insert(0, _remark("parallel_over_rows", names=tuple(reductions), elements=facts["elements"]))
    else:
        found.insert(0, _remark("parallel_over_elements", elements=facts["elements"]))
    g = e.graph
    most = max(g.nodes, key=lambda n: len(g.users[n]))
    if len(g.users[most]) > 1:
        found.append(_remark("most_read", name=shown_name(g, g.number[most]), users=number(len(g.users[most]))))
    return found


def _form(count: int, depth: int) -> str:
    """Whether a graph is mostly one chain, wide, or neither."""
    if count / depth >= WIDE_GRAPH:
        return "graph_is_wide"
    return "graph_is_a_chain" if depth > 1 and 2 * depth >= count else "graph_is_narrow"


def shown_name(graph: Graph, position: int) -> str:
    """How reports call an instruction's value: its name, or ``%3`` where the source gives none."""
    return graph.names.get(graph.nodes[position]) or f"%{position}"


REMAINDER = "fmod"
"""A primitive that the C library computes in either C text; every other call is of a function that we write out too."""


def called_functions(graph: Graph) -> tuple[str, ...]:
    """The C library's functions that the libm C text of a program calls, in the order of their first call.

    Sigmoid calls exp, GELU calls erf, squares and clips call nothing. One instruction of each kind is lowered as the C
    text lowers all of them; reductions call nothing.
    """
    from fuseline.codegen.c import LIBM
    from fuseline.codegen.lower import lower

    found: dict[str, None] = {}
    kinds: set[tuple[object, ...]] = set()
    for node in graph.nodes:
        row = OPERATIONS[node.op]
        kind = (node.op, *(a.dtype for a in node.args))
        if row.index_rule != "elementwise" or (row.primitive and node.op != REMAINDER) or kind in kinds:
            continue
        kinds.add(kind)
        operands = [input_node(f"x{i}", a.dtype) for i, a in enumerate(node.args)]
        alone = call(node.op, *map(Expr, operands), **dict(node.attrs)).node
        lowered = lower(Graph(operands, [("out", alone)]), library=LIBM)
        calls = (n.op for n in lowered.nodes if n.dtype.is_float and (n.op in LIBM or n.op == REMAINDER))
        found |= dict.fromkeys(calls)
    return tuple(found)


# ── traffic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def traffic_remarks(e: Explanation) -> list[Remark]:
    """What fusion saves, what bounds the fused program, and what to do next."""
    bound = {"memory": _memory_bound, "compute": _compute_bound}.get(e.traffic.bound, _undetermined)
    bound = _latency_bound if e.traffic.launch_dominated else bound
    return [_fusion(e), *_dropped_axes(e), *bound(e), *_decode(e), *_functions(e)]


def _fusion(e: Explanation) -> Remark:
    apart, together = e.traffic.unfused, e.traffic.fused
    facts = {"ratio": ratio(e.traffic.traffic_ratio), "kernels": number(together.kernels)}
    facts |= {"before": format_bytes(apart.bytes), "after": format_bytes(together.bytes)}
    if together.bytes >= apart.bytes:
        return _remark("fusion_saves_nothing", **facts)
    if apart.bytes <= (1 + TANGIBLE) * together.bytes:
        return _remark("fusion_saves_little", **facts)
    return _remark("fusion_saves" if together.kernels == 1 else "fusion_saves_in_several_kernels", **facts)


def _dropped_axes(e: Explanation) -> list[Remark]:
    """What reductions that drop their axes cost: nothing that reads them lines up with their loops."""
    before = e.traffic.fused.kernels
    kept = with_kept_axes(e.bound_graph) if before > 1 else None
    if kept is None:
        return []
    kernels = len(fused(kept).launches)
    names = tuple(dict.fromkeys([n.op for n in e.graph.nodes if drops_axes(n)]))
    facts = {"names": names, "kernels": number(kernels), "before": number(before)}
    return [_remark("dropped_axes_cost_kernels", **facts)] if kernels < before else []


def _memory_bound(e: Explanation) -> list[Remark]:
    t = e.traffic
    intensity = format_number(t.arithmetic_intensity_flop_per_byte)
    ridge = t.ridge_point_vector_flop_per_byte or 0.0
    if t.arithmetic_intensity_flop_per_byte > 0:
        below = ridge / t.arithmetic_intensity_flop_per_byte
        code = "memory_bound" if below > 1 + TANGIBLE else "memory_bound_at_ridge"
        found = [_remark(code, intensity=intensity, ridge=format_number(ridge), factor=ratio(below))]
    else:
        found = [_remark("moves_only")]
    return found + _epilogue(e)


def _undetermined(e: Explanation) -> list[Remark]:
    """What the time of the bytes or of the arithmetic is missing for, and what is known all the same."""
    t = e.traffic
    reasons = t.refused
    if t.bandwidth is None:
        return [_remark("memory_side_unknown", device=e.device.name)]
    if "memory" in reasons:
        return [_remark("bytes_without_time", bandwidth=str(t.bandwidth), reasons=reasons["memory"])]
    facts = {"intensity": format_number(t.arithmetic_intensity_flop_per_byte), "dtype": e.dtype}
    if t.vector_peak is None:
        return [_remark("memory_bound_without_peak", **facts), *_epilogue(e)]
    facts = {"intensity": facts["intensity"], "peak": str(t.vector_peak)}
    return [_remark("memory_bound_by_other_peak", **facts, reasons=reasons["vector"]), *_epilogue(e)]


def _epilogue(e: Explanation) -> list[Remark]:
    """What joining the matrix product that makes the largest input would save.

    A reduction needs whole rows, and a tile of a product does not hold them.
    """
    if any(OPERATIONS[n.op].index_rule == "reduction" for n in e.graph.nodes):
        return []
    read = [n for n in e.graph.inputs if e.graph.users[n]]
    if not read or not e.graph.nodes:
        return []
    sizes = Sizes(e.sizes, e.shape)
    largest = max(read, key=sizes.bytes_of)
    before = e.traffic.fused.bytes
    saved = int(sizes.bytes_of(largest))
    if before == 0 or saved == 0:
        return []
    facts = {"name": largest.attr("name"), "before": format_bytes(before), "after": format_bytes(before - saved)}
    return [_remark("epilogue_next", **facts, share=format_percent(saved / before, 0))]


def _compute_bound(e: Explanation) -> list[Remark]:
    t = e.traffic
    times = {"compute": _time(t.fused.compute_time_s), "memory": _time(t.fused.bandwidth_time_s)}
    ridge = t.ridge_point_vector_flop_per_byte or 0.0
    facts = {"intensity": format_number(t.arithmetic_intensity_flop_per_byte), "ridge": format_number(ridge)}
    return [_remark("compute_bound", **times, **facts)]


def _latency_bound(e: Explanation) -> list[Remark]:
    t = e.traffic
    assert t.bandwidth is not None, "a time of the bytes is known"
    enough = t.launch_latency.value * t.bandwidth.value
    facts = {"launch": format_time(t.fused.launch_time_s), "total": _time(t.fused.total_s)}
    found = [_remark("latency_bound", **facts, bytes=format_bytes(t.fused.bytes), enough=format_bytes(enough))]
    if t.unfused.kernels > t.fused.kernels:
        saved = format_time(t.unfused.launch_time_s - t.fused.launch_time_s)
        found.append(_remark("fusion_saves_launches", kernels=number(t.unfused.kernels), saved=saved))
    return found


def _decode(e: Explanation) -> list[Remark]:
    """The same program on one row, as a decode step has it, where a launch then takes longer than the bytes."""
    t = e.traffic
    if (
        t.launch_dominated
        or t.bandwidth is None
        or t.bandwidth.unfit_for_time
        or e.shape is None
        or len(e.shape) < 2
        or not isinstance(e.shape[0], int)
    ):
        return []
    rows = e.shape[0]
    declared = any(n.tensor.shape != e.shape for n in (*e.graph.inputs, *e.graph.output_nodes))
    if rows < 2 or declared or t.unfused.kernels <= t.fused.kernels:
        return []
    row_bytes = t.fused.bytes / rows
    row_time = row_bytes / t.bandwidth.value
    if row_time >= t.launch_latency.value:
        return []
    facts = {"rows": number(rows), "bytes": format_bytes(row_bytes), "time": format_time(row_time)}
    launches = {"launch": format_time(t.fused.launch_time_s), "unfused": format_time(t.unfused.launch_time_s)}
    return [_remark("decode_is_launches", **facts, **launches)]


def _functions(e: Explanation) -> list[Remark]:
    """What the expanded functions cost if each primitive is one vector instruction."""
    t = e.traffic
    if t.primitive_instructions <= len(e.graph.nodes) or not called_functions(e.graph):
        return []
    facts = {"count": number(len(e.graph.nodes)), "primitives": number(t.primitive_instructions)}
    of_bytes = t.fused.bandwidth_time_s
    if t.vector_peak is None or t.vector_peak.unfit_for_time or of_bytes is None or t.launch_dominated:
        return [_remark("functions_expand", **facts)]
    time = 2 * t.primitive_operations / t.vector_peak.value
    facts |= {"time": format_time(time), "memory": format_time(of_bytes)}
    hidden = time <= of_bytes
    return [_remark("functions_hide_behind_memory" if hidden else "functions_outweigh_memory", **facts)]


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def memory_remarks(e: Explanation) -> list[Remark]:
    """What reuse and order save, and what they do not."""
    m = e.memory
    if m.naive_buffers == 0:
        return []
    counts = {"naive": number(m.naive_buffers), "planned": number(m.planned_buffers), "in_place": number(m.overwriting)}
    saved = (m.naive_bytes, m.naive_buffers) > (m.planned_bytes, m.planned_buffers)  # arrays may be empty
    found = [_remark("reuse_saves" if saved else "reuse_saves_nothing", **counts)]
    if m.best_order_bytes < m.planned_bytes:
        sizes = {"planned_bytes": format_bytes(m.planned_bytes), "best_bytes": format_bytes(m.best_order_bytes)}
        found.append(_remark("order_saves", best=number(m.best_order_buffers), **counts, **sizes))
    elif m.naive_buffers > 1:
        found.append(_remark("order_saves_nothing"))
    if m.planned_buffers == m.most_alive < m.naive_buffers:
        found.append(_remark("as_few_as_alive", alive=number(m.most_alive)))
    if m.planned_bytes < m.naive_bytes:
        bytes_ = {"unfused": format_bytes(e.traffic.unfused.bytes), "fused": format_bytes(e.traffic.fused.bytes)}
        t = e.traffic
        stays = t.fused.kernels == 1 and t.fused.bytes < t.unfused.bytes
        found.append(_remark("planning_saves_no_traffic" if stays else "planning_saves_no_traffic_here", **bytes_))
        found.append(_remark("eager_and_compiled"))
    return found


# ── measured ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def measured_remarks(rows: Sequence[Measured], graph: Graph) -> list[Remark]:
    """Why the rows differ: calls that do not vectorise, bytes that are not moved, pages that are not faulted in."""
    dominated = _calls(rows, graph)
    if dominated:
        return dominated + _cautions(rows)
    found: list[Remark] = []
    counts = sorted({r.threads for r in rows})
    if counts:
        first = _timed(rows, counts[0])
        functions = called_functions(graph)
        found += [*_libm(first, functions), *_own(first, functions), *_planned(first), *_limit(first)]
    if len(counts) > 1:
        found += _threads(_timed(rows, counts[0]), _timed(rows, counts[-1]))
    return found + _cautions(rows)


def _calls(rows: Sequence[Measured], graph: Graph) -> list[Remark]:
    """Whether rows are so short that they compare calls: NumPy makes one an instruction, the others one in all."""
    times = [
        (r.median_s, CALL_S * (len(graph.nodes) if r.implementation in (NUMPY, PLANNED) else 1))
        for r in rows
        if r.median_s
    ]
    if all(calls_s <= CALLS_DOMINATE * time_s for time_s, calls_s in times):
        return []
    return [_remark("calls_dominate", time=format_time(min(times)[0]))]


Timed = Mapping[str, Measured]


def _timed(rows: Sequence[Measured], threads: int) -> Timed:
    return {r.implementation: r for r in rows if r.threads == threads and r.median_s}


def _times_faster(slow: Measured, fast: Measured) -> float:
    return (slow.median_s or 0.0) / (fast.median_s or 1.0)


def _libm(rows: Timed, functions: tuple[str, ...]) -> list[Remark]:
    """The fused loop that calls the C library, against NumPy."""
    if NUMPY not in rows or C_LIBM not in rows:
        return []
    numpy, libm = rows[NUMPY], rows[C_LIBM]
    faster = _times_faster(numpy, libm)
    facts: dict[str, object] = {"faster": ratio(faster), "slower": ratio(1 / faster), "functions": functions}
    facts |= {"rate": format_rate(libm.bytes_per_s or 0.0)}
    moved = [(r.bytes_per_s or 0.0) * (r.median_s or 0.0) for r in (numpy, libm)]
    fewer = moved[0] / moved[1] if all(moved) else 1.0
    if fewer <= 1 + TANGIBLE:
        return [_remark(_at_equal_bytes(faster, functions), **facts)]
    facts |= {"bytes": ratio(fewer)}
    if faster < 1 - TANGIBLE:
        return [_remark("libm_loop_is_slower" if functions else "plain_loop_is_slower", **facts)]
    behind = _times_faster(libm, rows[PLANNED]) if PLANNED in rows else 0.0
    if faster > 1 + TANGIBLE and behind > 1 + TANGIBLE and functions:
        return [_remark("libm_loop_beats_allocation_only", behind=ratio(behind), **facts)]
    if faster > 1 + TANGIBLE:
        return [_remark("libm_loop_is_faster" if functions else "plain_loop_is_faster", **facts)]
    return [_remark("libm_loop_is_as_fast" if functions else "plain_loop_is_as_fast", **facts)]


def _at_equal_bytes(faster: float, functions: tuple[str, ...]) -> str:
    """What is said of the fused loop where fusion saves no bytes, as in a program of one instruction."""
    if faster < 1 - TANGIBLE:
        return "libm_loop_is_slower_at_equal_bytes" if functions else "plain_loop_is_slower_at_equal_bytes"
    return "loop_is_faster_at_equal_bytes" if faster > 1 + TANGIBLE else "loop_is_as_fast_at_equal_bytes"


def _own(rows: Timed, functions: tuple[str, ...]) -> list[Remark]:
    """The same loop with functions that are plain arithmetic; without functions the two loops are the same text."""
    if C_LIBM not in rows or C_OWN not in rows or not set(functions) - {REMAINDER}:
        return []
    faster = _times_faster(rows[C_LIBM], rows[C_OWN])
    facts = {"faster": ratio(faster), "slower": ratio(1 / faster)}
    if faster > 1 + TANGIBLE:
        return [_remark("own_functions_vectorise", **facts)]
    return [_remark("own_functions_are_slower", **facts)] if faster < 1 - TANGIBLE else []


def _planned(rows: Timed) -> list[Remark]:
    """NumPy with planned buffers moves the same bytes: what it gains is allocation and page faults."""
    if NUMPY not in rows or PLANNED not in rows:
        return []
    faster = _times_faster(rows[NUMPY], rows[PLANNED])
    if faster > 1 + TANGIBLE:
        return [_remark("planned_buffers_help", faster=ratio(faster))]
    if faster < 1 - TANGIBLE:
        return [_remark("planned_buffers_cost", slower=ratio(1 / faster))]
    return [_remark("planned_buffers_change_little")]


def _limit(rows: Timed) -> list[Remark]:
    """How near the fastest row comes to a copy."""
    known = [r for r in rows.values() if r.fraction_of_limit is not None]
    if not known:
        return []
    best = min(known, key=lambda r: r.median_s or 0.0)
    share = best.fraction_of_limit or 0.0
    facts = {"implementation": best.implementation, "share": format_percent(share, 0)}
    if share > BEYOND_LIMIT:
        return [_remark("beyond_the_copy_limit", **facts)]
    return [_remark("at_the_copy_limit" if share >= NEAR_LIMIT else "below_the_copy_limit", **facts)]


def _threads(one: Timed, many: Timed) -> list[Remark]:
    """How the fastest implementation scales."""
    both = [name for name in many if name in one]
    if not both:
        return []
    best = min(both, key=lambda name: many[name].median_s or 0.0)
    gain = _times_faster(one[best], many[best])
    threads = many[best].threads / one[best].threads
    facts = {"implementation": best, "threads": number(many[best].threads), "gain": ratio(gain)}
    facts |= {"slower": ratio(1 / gain)}
    if gain < 1 - TANGIBLE:
        return [_remark("threads_cost", **facts)]
    if gain <= 1 + TANGIBLE:
        return [_remark("threads_gain_nothing", **facts)]
    if gain >= NEAR_LIMIT * threads:
        return [_remark("threads_scale", **facts)]
    share = many[best].fraction_of_limit
    if share is None or share > BEYOND_LIMIT:
        return [_remark("threads_gain", **facts)]
    return [_remark("threads_add_little" if share < NEAR_LIMIT else "threads_share_memory", **facts)]


def _cautions(rows: Sequence[Measured]) -> list[Remark]:
    found = []
    timed = [r for r in rows if r.median_s]
    spreads = [r.spread_s / r.median_s for r in timed if r.spread_s is not None and r.median_s]
    if spreads and max(spreads) > NOISY:
        found.append(_remark("noisy", spread=format_percent(max(spreads), 0)))
    sizes = [r.n * _element_bytes(r.dtype) for r in timed]
    if sizes and max(sizes) < CACHE_SIZED_BYTES:
        found.append(_remark("may_fit_the_caches", bytes=format_bytes(max(sizes))))
    return found


def _element_bytes(name: str) -> float:
    from fuseline.ir.dtype import dtype

    return dtype(name).bits / 8
