"""A picture of an arena: time across, offset up, each buffer a rectangle, with the live sum, the bound and the peak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fuseline.excerpts import printable
from fuseline.plan.arena.types import PlanResult
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.chart_files import (
    HEIGHT,
    WIDTH,
    Picture,
    language_of_picture,
    require_format,
    shortened,
    styled,
    without_font,
    write_chart,
)
from fuseline.report.wrapping import width_of
from fuseline.units import format_bytes, format_percent

_PLOT = (WIDTH - 150.0, HEIGHT - 150.0)
MAX_RECTANGLES = 20_000

# Soft fills of similar lightness, so that dark lines and labels stay readable on all of them.
_FILLS = ("#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#fb9a99", "#ffffb3", "#8dd3c7", "#d9d9d9", "#bc9fdb", "#e6c9a8")
_LINES = {"live": "#1a1a1a", "bound": "#c02040", "peak": "#1f5fbf"}
_CHARACTER_PIXELS = (6.2, 11.0)
_LEAST_COLUMNS = 6
"""Names are shortened to so many columns, and left out of rectangles that hold fewer."""


def draw_arena(result: PlanResult, path: str | Path, lang: str | None = None) -> Picture:
    """Write the chart of ``result`` to ``path`` (``.svg``, ``.png`` or ``.html``): whole, or not at all.

    The language of the picture is English where a PNG was asked for in one that no font of this machine has.

    Raises:
        UnsupportedError: another ending, or a missing package.
        OutputFileError: the file cannot be written.
    """
    language = resolve_language(lang)
    ending = require_format(path)
    language = language_of_picture(ending, language, text("planner.chart.time", language))
    write_chart(arena_chart(result, language), path)
    names = (printable(result.instance.name), *(row["label"] for row in rectangles(result)))
    return Picture(language, without_font(ending, names))


def arena_chart(result: PlanResult, lang: str) -> Any:
    """The chart as an Altair object."""
    import altair as alt

    rows = rectangles(result)
    first, last = _time_range(result)
    top = max(result.peak_bytes, result.lower_bound_bytes, 1) * 1.03
    x = alt.X(
        "lower:Q",
        title=text("planner.chart.time", lang),
        scale=alt.Scale(domain=[first, last], nice=False),
        axis=alt.Axis(format=",d", tickMinStep=1),
    )
    y = alt.Y(
        "low:Q",
        title=text("planner.chart.offset", lang),
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(tickMinStep=1, labelExpr="datum.value == 0 ? '0' : format(datum.value, '~s')"),
    )
    fill = alt.Color("fill:N", scale=None, legend=None)
    tips = [alt.Tooltip(f"{name}:N", title=text(f"planner.chart.tip.{name}", lang)) for name in _TIPS]
    boxes = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect(stroke="#555555", strokeWidth=0.35, opacity=0.9)
        .encode(x=x, x2="upper:Q", y=y, y2="high:Q", color=fill, tooltip=tips)
    )
    named = alt.Chart(alt.InlineData(values=[row for row in rows if row["label"]])).encode(
        x=alt.X("middle:Q"), y=alt.Y("centre:Q"), text="label:N"
    )
    shadow: dict[str, Any] = {"stroke": "white", "strokeWidth": 3, "strokeJoin": "round", "strokeOpacity": 0.85}
    names = [named.mark_text(fontSize=10, color="white", clip=True, **shadow)]
    names.append(named.mark_text(fontSize=10, color="#222222", clip=True))
    shown = len(rows)
    subtitle = [_summary(result, lang)]
    if shown < len(result.instance.buffers):
        subtitle.append(
            text("planner.chart.largest", lang, shown=f"{shown:,}", all=f"{len(result.instance.buffers):,}")
        )
    name = printable(result.instance.name)
    title = text("planner.chart.title", lang, name=name, count=f"{len(result.instance.buffers):,}")
    layers = alt.layer(boxes, *_lines(result, lang), *names).resolve_scale(color="independent")
    legend = {"orient": "bottom", "symbolSize": 300, "symbolStrokeWidth": 3}
    return styled(layers, title, subtitle, axis={"grid": False}, legend=legend)


_TIPS = ("id", "size", "offset", "lifetime")


def rectangles(result: PlanResult) -> list[dict[str, Any]]:
    """One row a piece of a buffer, the largest areas where there are too many, with a label where one fits inside."""
    first, last = _time_range(result)
    across = _PLOT[0] / max(1, last - first)
    up = _PLOT[1] / max(1, result.peak_bytes)
    rows: list[dict[str, Any]] = []
    for k, (b, offset) in enumerate(zip(result.instance.buffers, result.placement.offsets, strict=True)):
        name = printable(b.id)  # SVG has no control characters, and a change of direction would move its neighbours
        for piece in b.pieces():
            width, height = (piece.upper - piece.lower) * across, (piece.high - piece.low) * up
            columns = int((width - 4) / _CHARACTER_PIXELS[0]) if height > _CHARACTER_PIXELS[1] else 0
            fits = columns >= min(width_of(name), _LEAST_COLUMNS)
            rows.append(
                {
                    "lower": piece.lower,
                    "upper": piece.upper,
                    "low": offset + piece.low,
                    "high": offset + piece.high,
                    "middle": (piece.lower + piece.upper) / 2,
                    "centre": offset + (piece.low + piece.high) / 2,
                    "fill": _FILLS[k * 7 % len(_FILLS)],
                    "label": shortened(name, columns) if fits else "",
                    "id": name,
                    "size": format_bytes(b.size),
                    "offset": f"{offset:,}",
                    "lifetime": f"[{b.lower:,}, {b.upper:,})",
                }
            )
    rows.sort(key=lambda row: (row["low"] - row["high"]) * (row["upper"] - row["lower"]))
    return rows[:MAX_RECTANGLES]


def _lines(result: PlanResult, lang: str) -> list[Any]:
    """The live sum over time as steps, the bound and the peak as horizontal lines, with one legend."""
    import altair as alt

    names = {kind: text(f"planner.chart.{kind}", lang) for kind in _LINES}
    colour = alt.Color(
        "kind:N",
        title=None,
        scale=alt.Scale(domain=list(names.values()), range=list(_LINES.values())),
        legend=alt.Legend(orient="bottom", direction="horizontal", symbolType="stroke"),
    )
    silent = alt.Color("kind:N", scale=colour["scale"], legend=None)
    first, last = _time_range(result)
    live = [{"t": t, "bytes": size, "kind": names["live"]} for t, size in live_steps(result)]
    levels = [
        {"t": t, "bytes": size, "kind": names[kind]}
        for kind, size in (("peak", result.peak_bytes), ("bound", result.lower_bound_bytes))
        for t in (first, last)
    ]
    steps = alt.Chart(alt.InlineData(values=live))
    halo = steps.mark_line(interpolate="step-after", color="white", strokeWidth=4, opacity=0.8).encode(
        x="t:Q", y="bytes:Q"
    )
    line = steps.mark_line(interpolate="step-after", strokeWidth=1.8).encode(x="t:Q", y="bytes:Q", color=colour)
    dash = alt.StrokeDash(
        "kind:N", scale=alt.Scale(domain=list(names.values()), range=[[1, 0], [7, 4], [2, 2]]), legend=None
    )
    rules = (
        alt.Chart(alt.InlineData(values=levels))
        .mark_line(strokeWidth=2)
        .encode(x="t:Q", y="bytes:Q", color=silent, strokeDash=dash)
    )
    return [halo, line, rules]


def live_steps(result: PlanResult) -> list[tuple[int, int]]:
    """The live sum from each moment at which it changes, in bytes."""
    change: dict[int, int] = {}
    for b in result.instance.buffers:
        for piece in b.pieces():
            change[piece.lower] = change.get(piece.lower, 0) + piece.high - piece.low
            change[piece.upper] = change.get(piece.upper, 0) - piece.high + piece.low
    total, steps = 0, []
    for t in sorted(change):
        total += change[t]
        steps.append((t, total))
    return steps


def _time_range(result: PlanResult) -> tuple[int, int]:
    buffers = result.instance.buffers
    return min((b.lower for b in buffers), default=0), max((b.upper for b in buffers), default=1)


def _summary(result: PlanResult, lang: str) -> str:
    key = "planner.chart.optimal" if result.optimal else "planner.chart.gap"
    return text(
        key,
        lang,
        peak=f"{result.peak_bytes:,}",
        bound=f"{result.lower_bound_bytes:,}",
        gap=format_percent(result.gap),
    )
