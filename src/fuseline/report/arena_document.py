"""What ``fuseline plan`` says of a placement: how large, how good, and where each buffer lies."""

from __future__ import annotations

from fuseline.excerpts import printable
from fuseline.plan.arena.findings import Bound, Method, Reason
from fuseline.plan.arena.types import PlanResult
from fuseline.plan.joint import JointPlan
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.document import (
    Cells,
    Column,
    Document,
    Fact,
    Facts,
    Gap,
    Remarks,
    Row,
    Section,
    Table,
    head_and_tail,
)
from fuseline.units import format_bytes, format_percent, format_time

HEAD_ROWS, TAIL_ROWS = 24, 6


def arena_document(result: PlanResult, lang: str | None = None) -> Document:
    """The report in one language."""
    language = resolve_language(lang)
    section = Section(text("planner.section", language), (_facts(result, language), _table(result, language)))
    return Document(text("planner.title", language, name=printable(result.instance.name)), (section,), language)


def joint_document(plan: JointPlan, lang: str | None = None) -> Document:
    """The report on a program: what the order and reuse in place save, the arena, and each step with its storage.

    What ended the search, and its time, are those of order and arena together.
    """
    language = resolve_language(lang)
    arena = Section(text("planner.section", language), (_facts(plan.arena, language, of_one_order=True),))
    sequential = Remarks((text("planner.order.sequential", language),))
    steps = Section(
        text("planner.order.section", language), (_peaks(plan, language), _steps(plan, language), sequential)
    )
    return Document(text("planner.title", language, name=printable(plan.arena.instance.name)), (steps, arena), language)


def _peaks(plan: JointPlan, language: str) -> Facts:
    figures = {
        "program": plan.program_order_peak_bytes,
        "chosen": plan.peak_bytes,
        "without": plan.peak_without_reuse_bytes,
    }
    facts = [
        Fact(text(f"planner.order.{key}", language), f"{size:,} B", format_bytes(size)) for key, size in figures.items()
    ]
    if plan.order_bound is not None:
        known = text(f"planner.order.{'optimal' if plan.optimal else 'not_optimal'}", language)
        why = text("planner.and", language).join((bound_text(plan.order_bound, language), known))
        facts.append(Fact(text("planner.order.bound", language), f"{plan.order_bound.size_bytes:,} B", why))
    facts.append(Fact(text("planner.stopped", language), reason_text(plan.stopped_because, language)))
    facts.append(Fact(text("planner.order.seconds", language), format_time(plan.seconds, 3)))
    return Facts(tuple(facts))


def _steps(plan: JointPlan, language: str) -> Table:
    columns = tuple(
        Column(text(f"planner.column.{key}", language), numeric=key not in ("id", "over"), flexible=key == "id")
        for key in ("step", "id", "offset", "size", "lower", "upper", "over")
    )
    values = plan.graph.values
    over = {o.result: o.operand for o in plan.overwrites}
    placed = {
        b.id: (b, offset) for b, offset in zip(plan.arena.instance.buffers, plan.arena.placement.offsets, strict=True)
    }
    position = {u: step for step, u in enumerate(plan.order)}
    owner: dict[int, str] = {}
    rows: list[Row] = []
    for step, u in enumerate(plan.order):
        for v in plan.graph.operations[u].results:
            root = plan.graph.root[v]
            owner[root] = owner.get(plan.graph.root[over[v]], "") if v in over else values[root].name
            b, offset = placed.get(owner[root], (None, 0))
            last = max((position[r] for r in plan.graph.readers[v]), default=step)
            until = len(plan.order) if plan.graph.kept[v] else last + 1
            taken = printable(values[over[v]].name) if v in over else ""
            where = f"{offset:,}" if b is not None else "–"
            size = f"{values[v].size_bytes:,}"
            rows.append(Cells((str(step), printable(values[v].name), where, size, str(step), str(until), taken)))
    head, hidden, tail = head_and_tail(rows, HEAD_ROWS, TAIL_ROWS)
    gap = [Gap(text("planner.hidden", language, count=f"{hidden:,}"))] if hidden else []
    return Table(columns, (*head, *gap, *tail), text("planner.order.table", language))


def reason_text(stopped: str, language: str) -> str:
    """Why a search stopped, in words."""
    return text(f"planner.reason.{stopped.replace(' ', '_')}", language)


def bound_text(bound: Bound, language: str) -> str:
    """How a bound is known, in words."""
    return text("planner.and", language).join(_reason_of_bound(reason, language) for reason in bound.reasons)


def _reason_of_bound(reason: Reason, language: str) -> str:
    fields = {name: f"{value:,}" if isinstance(value, int) else value for name, value in reason.words().items()}
    return text(f"planner.ground.{reason.ground.name.lower()}", language, **fields)


def method_text(method: Method, language: str) -> str:
    """What found an answer, in words."""
    if not method:
        return ""
    order = text(f"planner.by.{method.order.name.lower()}", language) if method.order else ""
    return text(f"planner.strategy.{method.strategy.name.lower()}", language, order=order)


def _facts(result: PlanResult, language: str, of_one_order: bool = False) -> Facts:
    def label(key: str) -> str:
        return text(f"planner.{key}", language)

    proof = label("not_optimal" if not result.optimal else "optimal_order" if of_one_order else "optimal")
    placed = (
        Fact(label("buffers"), f"{len(result.instance.buffers):,}"),
        Fact(label("peak"), f"{result.peak_bytes:,} B", format_bytes(result.peak_bytes)),
        Fact(label("bound"), f"{result.lower_bound_bytes:,} B", bound_text(result.bound, language)),
        Fact(label("gap"), format_percent(result.gap, 2), proof),
        Fact(label("method"), method_text(result.method, language) or "–"),
    )
    if of_one_order:
        return Facts(placed)
    stopped = Fact(label("stopped"), reason_text(result.stopped_because, language))
    return Facts((*placed, stopped, Fact(label("seconds"), format_time(result.seconds, 3))))


def _table(result: PlanResult, language: str) -> Table:
    columns = tuple(
        Column(text(f"planner.column.{key}", language), numeric=key != "id", flexible=key == "id")
        for key in ("id", "offset", "size", "lower", "upper")
    )
    placed = sorted(
        zip(result.instance.buffers, result.placement.offsets, strict=True), key=lambda pair: (pair[1], pair[0].lower)
    )
    head, hidden, tail = head_and_tail(placed, HEAD_ROWS, TAIL_ROWS)
    rows: list[Row] = []
    for part in (head, tail):
        rows += [
            Cells((printable(b.id), f"{offset:,}", f"{b.size:,}", f"{b.lower:,}", f"{b.upper:,}")) for b, offset in part
        ]
        if part is head and hidden:
            rows.append(Gap(text("planner.hidden", language, count=f"{hidden:,}")))
    return Table(columns, tuple(rows), text("planner.table", language))
