"""`explain` and `bench` as documents: which tables and facts a reader sees, in which order and in which words.

Long programs are shortened in the middle; everything is in `Explanation.to_dict`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from fuseline.api.explanation import Dataflow, Explanation, Measured, Placed, Traffic
from fuseline.cost.ledger import no_ratio_because
from fuseline.excerpts import printable
from fuseline.ir.graph import Graph
from fuseline.ir.node import Node
from fuseline.ir.size import Shape
from fuseline.ir.text import const_text
from fuseline.ops import OPERATIONS
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.document import (
    Bar,
    Bars,
    Block,
    Cells,
    Code,
    Column,
    Document,
    Fact,
    Facts,
    Gap,
    Row,
    Section,
    Table,
    head_and_tail,
)
from fuseline.report.measured_document import label_text, measured_section, remarks_block
from fuseline.report.remarks import (
    dataflow_remarks,
    memory_remarks,
    number,
    ratio,
    shown_name,
    traffic_remarks,
)
from fuseline.units import Quantity, SourceKind, format_bytes, format_number, format_percent, format_time

HEAD_ROWS, TAIL_ROWS = 24, 8
"""Rows of a long table that are shown before and after the gap."""
HEAD_LINES, TAIL_LINES = 24, 6
"""The same for lines of code."""
MAX_LINE_CHARACTERS = 400

Formatter = Callable[[Any], str]


def explain_document(e: Explanation, lang: str | None = None) -> Document:
    """The report on a program; the fourth section is there where something was measured."""
    language = resolve_language(lang)
    facts = {"count": number(len(e.dataflow.instructions)), "dtype": _input_dtypes(e), "shape": arrays_text(e)}
    sections = [_dataflow(e, language), _traffic(e, language), _memory(e, language)]
    if e.measured:
        title = text("explain.section.measured", language)
        sections.append(measured_section(e.measured, e.graph, title, language))
    return Document(text("explain.title", language, **facts, device=e.device.title), tuple(sections), language)


def bench_document(graph: Graph, rows: Sequence[Measured], source: str, lang: str | None = None) -> Document:
    """The report on measurements alone."""
    language = resolve_language(lang)
    section = measured_section(rows, graph, text("explain.section.measured_alone", language), language)
    program = [_source(source, language)] if source else []
    section = Section(section.title, (*program, *section.blocks))
    title = text("explain.bench_title", language, count=number(len(graph.nodes)))
    return Document(title, (section,), language)


def _input_dtypes(e: Explanation) -> str:
    """The dtypes of the arrays that are read, each once."""
    return ", ".join(dict.fromkeys(n.dtype.name for n in e.graph.inputs)) or e.dtype


def arrays_text(e: Explanation) -> str:
    """The shape of undeclared arrays as 4096×14336, or the sizes of declared ones."""
    named = [f"{name}={value}" for name, value in e.sizes.items()]
    shapes = [n.tensor.shape for n in e.graph.inputs or e.graph.output_nodes]
    if all(shape is not None and shape != e.shape for shape in shapes):
        return " ".join(named or dict.fromkeys(shape_name(shape or ()) for shape in shapes))
    return " ".join([shape_name(e.shape or ()), *named])


def shape_name(shape: Shape) -> str:
    """``4096×14336``; ``()`` for a scalar."""
    return "×".join(map(str, shape)) or "()"


# ── dataflow ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _dataflow(e: Explanation, language: str) -> Section:
    flow = e.dataflow
    blocks: list[Block] = [_source(flow.source, language)] if flow.source.strip() else []
    blocks.append(_optimized(flow.text, language))
    if flow.instructions:
        blocks += [_instructions(e, language), _dataflow_facts(flow, language)]
    blocks.append(remarks_block(dataflow_remarks(e), language))
    return Section(text("explain.section.dataflow", language), tuple(blocks))


def _source(source: str, language: str) -> Code:
    lines = [part for line in source.strip().splitlines() for part in _statements(line)]
    return Code(_shortened(lines, language), text("explain.code.source", language), fold=True)


def _statements(line: str) -> list[str]:
    """The statements of a line, each on its own; a comment stays with the last one."""
    code, mark, comment = line.partition("#")
    parts = [part.strip() for part in code.split(";")] if ";" in code else [code.rstrip()]
    parts = [part for part in parts if part]
    if mark:
        parts[-1:] = [" ".join([*parts[-1:], mark + comment.rstrip()])]
    return parts


def _optimized(graph_text: str, language: str) -> Code:
    return Code(_shortened(graph_text.splitlines(), language), text("explain.code.optimized", language))


def _shortened(lines: Sequence[str], language: str) -> tuple[str, ...]:
    head, hidden, tail = head_and_tail(lines, HEAD_LINES, TAIL_LINES)
    shown = [_short_line(line, language) for line in head]
    if hidden:
        shown.append(text("explain.code.lines_left_out", language, count=number(hidden)))
    return (*shown, *(_short_line(line, language) for line in tail))


def _short_line(line: str, language: str) -> str:
    if len(line) <= MAX_LINE_CHARACTERS:
        return printable(line.expandtabs(4))
    head, tail = line[: MAX_LINE_CHARACTERS * 2 // 3], line[-MAX_LINE_CHARACTERS // 3 :]
    hidden = number(len(line) - len(head) - len(tail))
    head, tail = printable(head.expandtabs(4)), printable(tail.expandtabs(4))
    return f"{head} {text('explain.code.characters_left_out', language, count=hidden)} {tail}"


def _instructions(e: Explanation, language: str) -> Table:
    columns = (
        Column(label_text("dataflow.number", language), numeric=True, tone="faint"),
        Column(label_text("dataflow.value", language), flexible=True, tone="strong"),
        Column(label_text("dataflow.operation", language), flexible=True),
        Column(label_text("dataflow.level", language), numeric=True),
        Column(label_text("dataflow.users", language), numeric=True),
        Column(label_text("dataflow.last_use", language), numeric=True),
    )
    output = label_text("dataflow.output", language)
    head, hidden, tail = head_and_tail(e.dataflow.instructions, HEAD_ROWS, TAIL_ROWS)
    rows: list[Row] = []
    for part in (head, tail):
        for i in part:
            operation = operation_text(e.graph, e.graph.nodes[i.number])
            last = output if i.last_use is None else str(i.last_use)
            value = shown_name(e.graph, i.number)
            rows.append(Cells((str(i.number), value, operation, str(i.level), str(i.users), last)))
        if part is head and hidden:
            rows.append(Gap(text("explain.gap.instructions", language, count=number(hidden))))
    return Table(columns, tuple(rows))


_OPTION_NAMES = {"axes": "axis"}


def operation_text(graph: Graph, node: Node) -> str:
    """An instruction as a formula would spell it: ``x + b``, ``tanh(%5)``, ``max(x, axis=-1)``."""
    operands = [_operand_text(graph, a) for a in node.args]
    row = OPERATIONS[node.op]
    if node.op in ("cast", "bitcast", "lookup"):
        name = node.dtype.name if node.op == "cast" else f"{node.op}_{node.dtype.name}"
        return f"{name}({', '.join(operands)})"
    if row.infix and len(operands) == 2:
        return f"{operands[0]} {row.infix} {operands[1]}"
    if node.op == "neg":
        return f"-{operands[0]}"
    options = [
        f"{_OPTION_NAMES.get(key, key)}={_option_text(value)}"
        for key, value in node.attrs
        if key not in ("dtype", "body") and value not in (None, False)
    ]
    return f"{row.spellings[0] if row.spellings else node.op}({', '.join([*operands, *options])})"


def _operand_text(graph: Graph, node: Node) -> str:
    if node.op == "const":
        return const_text(node)
    return str(node.attr("name")) if node.op == "input" else shown_name(graph, graph.number[node])


def _option_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _dataflow_facts(flow: Dataflow, language: str) -> Facts:
    values = {"count": len(flow.instructions), "depth": flow.depth, "widest": flow.widest_level}
    return Facts(tuple(_fact(f"dataflow.{key}", number(value), language) for key, value in values.items()))


def _fact(key: str, value: str, language: str) -> Fact:
    return Fact(label_text(key, language), value, label_text(f"{key}_note", language))


# ── traffic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _traffic(e: Explanation, language: str) -> Section:
    t = e.traffic
    blocks = (
        _comparison(t, language),
        _traffic_bars(t, language),
        _traffic_facts(e, language),
        remarks_block(traffic_remarks(e), language),
    )
    return Section(text("explain.section.traffic", language), blocks)


def _comparison(t: Traffic, language: str) -> Table:
    columns = (
        Column("", flexible=True),
        Column(label_text("traffic.unfused", language), numeric=True),
        Column(label_text("traffic.fused", language), numeric=True, tone="strong"),
        Column(label_text("traffic.ratio", language), numeric=True, tone="faint"),
    )
    a, b, refused = t.unfused, t.fused, t.refused
    of_bytes, of_work = refused.get("memory", ()), refused.get("vector", ())
    rows = [
        _compared("array_accesses", a.array_accesses, b.array_accesses, number, language),
        _compared("bytes", a.bytes, b.bytes, format_bytes, language),
        _times("bandwidth_time", a.bandwidth_time_s, b.bandwidth_time_s, of_bytes, language),
        _times("compute_time", a.compute_time_s, b.compute_time_s, of_work, language),
        _compared("kernels", a.kernels, b.kernels, number, language),
        _compared("launch_time", a.launch_time_s, b.launch_time_s, format_time, language),
        _times("total", a.total_s, b.total_s, of_bytes, language),
    ]
    return Table(columns, tuple(rows))


def _compared(key: str, before: float, after: float, shown: Formatter, language: str) -> Cells:
    """A row of the comparison; ``shown`` formats both figures."""
    times = f"{ratio(before / after)}×" if after else ""
    return Cells((label_text(f"traffic.{key}", language), shown(before), shown(after), times))


def _times(key: str, before: float | None, after: float | None, reasons: Sequence[str], language: str) -> Cells:
    """A row of times, or why they are not known, said once."""
    if before is None or after is None:
        unknown = label_text("traffic.unknown", language)
        return Cells((label_text(f"traffic.{key}", language), _unknown(reasons, language), unknown, ""))
    return _compared(key, before, after, format_time, language)


def _unknown(reasons: Sequence[str], language: str) -> str:
    """``unknown``, and what is wrong with the figure where the device has one: ``unknown (sparse peak)``."""
    if not reasons:
        return label_text("traffic.unknown", language)
    named = [label_text(f"source.{reason.replace(' ', '_')}", language) for reason in reasons]
    separator = text("explain.list.separator", language)
    return text("explain.traffic.unknown_because", language, reasons=separator.join(named))


def _traffic_bars(t: Traffic, language: str) -> Bars:
    longest = max(t.unfused.bytes, t.fused.bytes) or 1
    sides = {"unfused": t.unfused.bytes, "fused": t.fused.bytes}
    return Bars(
        tuple(Bar(label_text(f"traffic.{k}", language), b / longest, format_bytes(b)) for k, b in sides.items())
    )


def _traffic_facts(e: Explanation, language: str) -> Facts:
    t = e.traffic
    expands = t.primitive_instructions > len(e.graph.nodes)
    flops_note = text(
        "explain.fact.flops_note" if expands else "explain.fact.flops_note_plain",
        language,
        **({"primitives": number(t.primitive_instructions)} if expands else {}),
    )
    tensor_note = text("explain.fact.tensor_note", language, elements=number(t.largest_elements), dtype=t.largest_dtype)
    intensity = f"{format_number(t.arithmetic_intensity_flop_per_byte)} FLOP/B"
    facts = [
        Fact(label_text("fact.tensor", language), format_bytes(t.largest_bytes), tensor_note),
        Fact(label_text("fact.flops", language), _per_element(t), flops_note),
        _fact("fact.intensity", intensity, language),
        _ridge("matrix", t.ridge_point_flop_per_byte, t.matrix_peak, t.bandwidth, language),
        _ridge("vector", t.ridge_point_vector_flop_per_byte, t.vector_peak, t.bandwidth, language),
        _bandwidth(t.bandwidth, language),
        Fact(label_text("fact.launch", language), str(t.launch_latency), source_text(t.launch_latency, language)),
        Fact(
            label_text("fact.bound", language),
            label_text(f"bound.{t.bound}", language),
            label_text("bound.launches_note" if t.launch_dominated else f"bound.{t.bound}_note", language),
        ),
    ]
    return Facts(tuple(facts))


def _per_element(t: Traffic) -> str:
    if not t.largest_elements:
        return "–"
    whole = t.flops % t.largest_elements == 0
    return number(int(t.flops_per_element)) if whole else format_number(t.flops_per_element)


def _bandwidth(bandwidth: Quantity | None, language: str) -> Fact:
    label = label_text("fact.bandwidth", language)
    if bandwidth is None:
        return Fact(label, label_text("traffic.unknown", language), label_text("fact.bandwidth_unknown", language))
    return Fact(label, str(bandwidth), source_text(bandwidth, language))


def _ridge(pipe: str, ridge: float | None, peak: Quantity | None, bandwidth: Quantity | None, language: str) -> Fact:
    label = label_text(f"fact.ridge_{pipe}", language)
    if bandwidth is None:
        return Fact(label, label_text("traffic.unknown", language), label_text("fact.bandwidth_unknown", language))
    if peak is None:
        return Fact(label, label_text("traffic.unknown", language), label_text("fact.ridge_unknown", language))
    facts = {"peak": str(peak), "dtype": peak.dtype, "source": source_kind(peak, language), "bandwidth": str(bandwidth)}
    reasons = no_ratio_because(peak) or no_ratio_because(bandwidth)
    value = _unknown(reasons, language) if ridge is None else f"{format_number(ridge)} FLOP/B"
    return Fact(label, value, " ".join(text("explain.fact.ridge_note", language, **facts).split()))


def source_kind(quantity: Quantity, language: str) -> str:
    """How a figure came to be known, in a word."""
    return label_text(f"source.{quantity.source.kind.value.replace(' ', '_')}", language)


def source_text(quantity: Quantity, language: str) -> str:
    """Where a figure comes from, in short: the first of its documents, by name."""
    first = re.split(r"[;,]", quantity.source.document)[0].strip()
    kind = source_kind(quantity, language)
    if not first or quantity.source.kind is SourceKind.ASSUMED:
        return kind
    return text("explain.source.of_document", language, kind=kind, document=first)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _memory(e: Explanation, language: str) -> Section:
    m = e.memory
    blocks: list[Block] = [_plans(e, language)]
    if m.assignment:
        blocks.append(_assignment(e, m.assignment, "assignment", language))
        blocks.append(_arena(e, language))
    blocks.append(remarks_block(memory_remarks(e), language))
    return Section(text("explain.section.memory", language), tuple(blocks))


def _arena(e: Explanation, language: str) -> Table:
    """Order, offset and lifetime of each value in one arena."""
    columns = (
        Column(label_text("memory.step", language), numeric=True, tone="faint"),
        Column(label_text("memory.value", language), flexible=True, tone="strong"),
        Column(label_text("memory.offset", language), numeric=True, tone="strong"),
        Column(label_text("memory.over", language)),
        Column(label_text("memory.lower", language), numeric=True),
        Column(label_text("memory.upper", language), numeric=True),
        Column(label_text("memory.size", language), numeric=True),
    )
    head, hidden, tail = head_and_tail(e.memory.arena, HEAD_ROWS, TAIL_ROWS)
    rows: list[Row] = []
    for part in (head, tail):
        for r in part:
            over = "" if r.in_place_of is None else shown_name(e.graph, r.in_place_of)
            name, size = shown_name(e.graph, r.number), format_bytes(r.size_bytes)
            rows.append(Cells((str(r.step), name, number(r.offset), over, str(r.lower), str(r.upper), size)))
        if part is head and hidden:
            rows.append(Gap(text("explain.gap.values", language, count=number(hidden))))
    found = e.memory.placement
    proof = "arena_optimal" if found.optimal else "arena_gap"
    facts = {"gap": format_percent(found.gap, 2)} if not found.optimal else {}
    title = text("explain.memory.arena", language, proof=text(f"explain.memory.{proof}", language, **facts))
    return Table(columns, tuple(rows), title)


def _plans(e: Explanation, language: str) -> Table:
    m = e.memory
    columns = (
        Column(label_text("memory.plan", language), flexible=True),
        Column(label_text("memory.buffers", language), numeric=True, tone="strong"),
        Column(label_text("memory.bytes", language), numeric=True),
        Column(label_text("memory.alive", language), numeric=True),
    )
    plans = {
        "naive": (m.naive_buffers, m.naive_bytes, ""),
        "planned": (m.planned_buffers, m.planned_bytes, number(m.most_alive)),
        "best_order": (m.best_order_buffers, m.best_order_bytes, number(m.most_alive_best_order)),
        "in_arena": (1, m.placement.peak_bytes, ""),
    }
    rows = [
        Cells((label_text(f"memory.{key}", language), number(buffers), format_bytes(size), alive))
        for key, (buffers, size, alive) in plans.items()
    ]
    return Table(columns, tuple(rows))


def _assignment(e: Explanation, placed: Sequence[Placed], title: str, language: str) -> Table:
    columns = (
        Column(label_text("memory.step", language), numeric=True, tone="faint"),
        Column(label_text("memory.value", language), flexible=True, tone="strong"),
        Column(label_text("memory.buffer", language), numeric=True, tone="strong"),
        Column(label_text("memory.in_place", language)),
        Column(label_text("memory.last", language), numeric=True),
        Column(label_text("memory.size", language), numeric=True),
    )
    end = label_text("memory.end", language)
    yes = label_text("memory.yes", language)
    head, hidden, tail = head_and_tail(placed, HEAD_ROWS, TAIL_ROWS)
    rows: list[Row] = []
    for part in (head, tail):
        for p in part:
            last = end if p.last is None else str(p.last)
            value = shown_name(e.graph, p.number)
            in_place = yes if p.in_place else ""
            rows.append(Cells((str(p.first), value, str(p.buffer), in_place, last, format_bytes(p.size_bytes))))
        if part is head and hidden:
            rows.append(Gap(text("explain.gap.values", language, count=number(hidden))))
    return Table(columns, tuple(rows), label_text(f"memory.{title}", language))
