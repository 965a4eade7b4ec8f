"""Pictures of the roofline: roofs and kernels on logarithmic axes, and the plane of the two ratios."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fuseline.api.classification import Classification
from fuseline.errors import UnknownNameError
from fuseline.machine import Device
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.chart_files import (
    FONT,
    HEIGHT,
    WIDTH,
    Picture,
    language_of_picture,
    require_format,
    styled,
    without_font,
    write_chart,
)
from fuseline.report.roofline_geometry import (
    MOST_NAMED,
    at_border,
    dot_boxes,
    measured_points,
    place_names,
    place_ridges,
    plane_of,
    points,
    regions,
    roof_boxes,
    roofs,
    slope_boxes,
)
from fuseline.report.roofline_notes import bound_text
from fuseline.report.roofline_roof_names import place_roof_names
from fuseline.roofline.rules import UNDETERMINED
from fuseline.units import format_number, format_percent

PLOT = (WIDTH - 222.0, HEIGHT - 117.0)
"""About the pixels of the plot inside its axes, title and legend."""

KINDS = ("roofline", "ratios")

_COLOURS = {
    "compute": "#1f5fbf",
    "memory": "#1a8a4a",
    "balanced": "#0f9fae",
    "neither": "#c77700",
    "latency": "#a03fb0",
    "small-grid": "#6f4fc8",
    UNDETERMINED: "#777777",
}
_PIPE_COLOUR = "#c02040"
_ROOF_SHADES = ("#333333", "#b0562b", "#3f62b5", "#6f7a1f")
_DASHES = ([1, 0], [8, 4], [2, 3], [10, 3, 2, 3])
_SHAPES = {
    "compute": "circle",
    "memory": "square",
    "balanced": "diamond",
    "neither": "cross",
    "latency": "triangle-down",
    "small-grid": "triangle-left",
    UNDETERMINED: "M-1,-0.35H1V0.35H-1Z",
}
_PIPE_SHAPE = "M0,-1L0.3,-0.3L1,0L0.3,0.3L0,1L-0.3,0.3L-1,0L-0.3,-0.3Z"
"""A star of four points. Verdicts are told by shape as well as by colour."""

_LEGEND = {"symbolSize": 140, "orient": "right"}
_SUBTITLE_COLUMNS = 190


def draw(
    found: Classification,
    path: str | Path,
    kind: str = "roofline",
    also: Iterable[Device] = (),
    lang: str | None = None,
) -> Picture:
    """Writes the chart of ``found`` to ``path`` (``.svg``, ``.png`` or ``.html``) in the language asked for.

    ``also`` are further machines whose roofs are drawn. The language of the picture is English where a PNG was asked
    for in one that no font of this machine has. Raises ``UnsupportedError`` for another ending or a missing package,
    ``UnknownNameError`` for an unknown kind of chart, ``OutputFileError`` where the file cannot be written; it is
    written whole, or not at all.
    """
    language = resolve_language(lang)
    title = text("roofline.chart.roofline_title", language)
    ending = require_chart(path, kind)
    language = language_of_picture(ending, language, title)
    chart = roofline_chart(found, list(also), language) if kind == "roofline" else ratios_chart(found, language)
    write_chart(chart, path)
    kernels = points(found)
    names = [kernel["name"] for kernel in kernels] if len(kernels) <= MOST_NAMED else []
    return Picture(language, without_font(ending, names))


def require_chart(path: str | Path, kind: str) -> str:
    """The ending of ``path``, once it is sure that a chart of this kind can be written under it.

    Raises what `draw` does, before there is anything to draw.
    """
    if kind not in KINDS:
        raise UnknownNameError(f"unknown chart {kind!r}; choose one of {', '.join(KINDS)}")
    return require_format(path)


# ------------------------------------------------------------------------------------------------------- the roofline


def roofline_chart(found: Classification, also: Sequence[Device], lang: str) -> Any:
    """Log-log roofline: every roof of every machine, ridge points, and the kernels coloured by verdict."""
    import altair as alt

    kernels = points(found)
    devices = _devices(kernels, found, also)
    x_range, y_range = _ranges(kernels, devices)
    lines: list[dict[str, Any]] = []
    ridges: list[dict[str, Any]] = []
    for device in devices:
        found_lines, found_ridges = roofs(device, *x_range)
        lines += found_lines
        ridges += [r for r in found_ridges if x_range[0] <= r["x"] <= x_range[1]]
    for ridge in ridges:
        ridge["value"] = f"{format_number(ridge['x'])} {ridge['unit']}"
        ridge["ridge"] = text("roofline.chart.ridge", lang, value=ridge["value"].removesuffix(" FLOP/B"))
    x = _log_axis("x", x_range, text("roofline.chart.intensity", lang), ".3~s")
    y = _log_axis("y", y_range, text("roofline.chart.performance", lang), ".3~s")

    def at(point: dict[str, Any]) -> tuple[float, float]:
        across = math.log(point["x"] / x_range[0]) / math.log(x_range[1] / x_range[0])
        up = math.log(point["y"] / y_range[0]) / math.log(y_range[1] / y_range[0])
        return across, up

    names = [device.name for device in devices]
    shades = alt.Scale(domain=names, range=[_ROOF_SHADES[i % len(_ROOF_SHADES)] for i in range(len(names))])
    legend = alt.Legend(title=text("roofline.chart.roof", lang), symbolType="stroke") if len(names) > 1 else None
    patterns = alt.Scale(domain=names, range=[_DASHES[i % len(_DASHES)] for i in range(len(names))])
    dashes = alt.StrokeDash("device:N", scale=patterns, legend=legend)
    if len(names) > 1:  # equal formats of several machines are told apart by the name in front
        for line in lines:
            line["label"] = f"{line['device']}: {line['label']}"
    roof_colour = alt.Color("device:N", scale=shades, legend=legend)
    roof_layer = (
        alt.Chart(alt.InlineData(lines))
        .mark_line(strokeWidth=2, clip=True)
        .encode(x=x, y=y, detail="line:N", color=roof_colour, strokeDash=dashes, tooltip=["device:N", "label:N"])
    )
    ridge_layer = (
        alt.Chart(alt.InlineData(ridges))
        .mark_point(shape="diamond", size=60, filled=True, opacity=0.9, clip=True)
        .encode(x=x, y=y, color=roof_colour, tooltip=["device:N", "label:N", "ridge:N"])
    )
    shown = [kernel for kernel in kernels if kernel["x"] > 0]
    covered = dot_boxes(shown, at, PLOT)
    roof_names = place_roof_names(lines, at, PLOT, covered)
    covered += [*roof_boxes(lines, at, PLOT), *slope_boxes(lines, at, PLOT)]
    names_beside = place_names(shown, at, PLOT, covered)
    named = place_ridges(ridges, at, PLOT, covered)
    shade = alt.Color("device:N", scale=shades, legend=None)
    ridge_texts = _haloed(named, x, y, "value:N", shade, align="left", dx=9, dy=11, fontSize=11)
    below = alt.layer(roof_layer, *_roof_labels(roof_names, x, y, shade), ridge_layer, *ridge_texts)
    above = _kernel_layers(kernels, names_beside, x, y, shades, lang)
    counted = "subtitle" if found.rows else "subtitle_shapes"  # a shape has no source but its sizes
    drawn = text(f"roofline.chart.{counted}", lang, rows=len(kernels), device=", ".join(names) or "–")
    unnamed = _unnamed(lines, roof_names, lang)
    subtitle = [drawn, *_left_out(len(found.rows) + len(found.shapes) - len(kernels), lang), *unnamed]
    chart = alt.layer(below, above).resolve_scale(color="independent", shape="independent", strokeDash="independent")
    return styled(chart, text("roofline.chart.roofline_title", lang), subtitle, {}, _LEGEND)


def _devices(kernels: Sequence[dict[str, Any]], found: Classification, also: Sequence[Device]) -> list[Device]:
    """The machines whose roofs are drawn: those with a point in the picture, and those asked for."""
    rows = [row.device for row in found.rows if row.device is not None]
    shapes = [shape.analysis.device for shape in found.shapes]
    present = {kernel["device"] for kernel in kernels}
    drawn = [device for device in (*rows, *shapes) if device.name in present]
    return list({device.name: device for device in (*drawn, *also)}.values())


def _left_out(count: int, lang: str) -> list[str]:
    """The sentence about kernels without a point, where there are any."""
    return [text("roofline.chart.left_out", lang, count=count)] if count else []


def _unnamed(lines: Sequence[dict[str, Any]], named: Sequence[dict[str, Any]], lang: str) -> list[str]:
    """The sentences that name the roofs without room for a name of their own, wrapped."""
    placed = {name["line"] for name in named}
    missing = list(dict.fromkeys(line["label"] for line in lines if line["line"] not in placed))
    if not missing:
        return []
    words = text("roofline.chart.unnamed", lang, roofs=text("roofline.separator", lang).join(missing))
    return textwrap.wrap(words, _SUBTITLE_COLUMNS, break_long_words=False)


def _ranges(
    kernels: Sequence[dict[str, Any]], devices: Sequence[Device]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Axis ranges that hold every kernel and every main ridge point, with room around."""
    xs, ys = [k["x"] for k in kernels if k["x"] > 0], [k["y"] for k in kernels]
    for device in devices:
        bandwidth = device.main_memory.bandwidths[0].value if device.main_memory.bandwidths else None
        peaks = [p.rate.value for pipe in device.pipes if pipe.name in ("matrix", "vector") for p in pipe.peaks]
        if bandwidth and peaks:
            xs += [max(peaks) / bandwidth, min(peaks) / bandwidth]
            ys += [max(peaks), min(peaks)]
    if not xs:
        raise UnknownNameError("there is nothing to draw: no kernel has both rates and a known machine")
    low_x, high_x = min(xs) / 4, max(xs) * 6
    return (low_x, high_x), (min(ys) / 4, max(ys) * 3)


def _log_axis(channel: str, domain: tuple[float, float], title: str, form: str) -> Any:
    import altair as alt

    scale = alt.Scale(type="log", domain=list(domain), nice=False)
    axis = alt.Axis(title=title, format=form, tickCount=8, grid=True, gridOpacity=0.35)
    kind = alt.X if channel == "x" else alt.Y
    return kind(f"{channel}:Q", scale=scale, axis=axis)


def _roof_labels(names: Sequence[dict[str, Any]], x: Any, y: Any, colour: Any) -> list[Any]:
    """The names of roofs: one pair of text layers for each way in which they stand, since a mark has one."""
    groups: dict[tuple[str, float, float], list[dict[str, Any]]] = {}
    for name in names:
        groups.setdefault((name["align"], name["dy"], round(name["angle"], 3)), []).append(name)
    layers: list[Any] = []
    for (align, dy, angle), group in groups.items():
        turn = {"angle": angle % 360} if angle else {}
        layers += _haloed(group, x, y, "label:N", colour, align=align, dy=dy, fontSize=12, clip=True, **turn)
    return layers


def _haloed(rows: Sequence[dict[str, Any]], x: Any, y: Any, field: str, colour: Any, **mark: Any) -> list[Any]:
    """Text over a white shadow of itself, so that it reads over lines."""
    import altair as alt

    base = alt.Chart(alt.InlineData(list(rows))).encode(x=x, y=y, text=field)
    halo = base.mark_text(font=FONT, stroke="white", strokeWidth=3, strokeJoin="round", color="white", **mark)
    return [halo, base.mark_text(font=FONT, **mark).encode(color=colour)]


def _colour_of(bound: str) -> str:
    return _COLOURS.get(bound, _PIPE_COLOUR)


def _verdict_shape(kernels: Sequence[dict[str, Any]], lang: str) -> Any:
    """The shape of each verdict, in one legend with its colour."""
    import altair as alt

    present = _in_order(kernel["bound"] for kernel in kernels)
    shapes = [_SHAPES.get(bound, _PIPE_SHAPE) for bound in present]
    scale = alt.Scale(domain=[bound_text(b, lang) for b in present], range=shapes)
    return alt.Shape("verdict:N", scale=scale, legend=alt.Legend(title=text("roofline.chart.verdict", lang)))


def _in_order(bounds: Iterable[str]) -> list[str]:
    """The bounds that occur, in the order in which every legend lists them; pipes come last."""
    found = set(bounds)
    return [bound for bound in (*_COLOURS, *sorted(found - set(_COLOURS))) if bound in found]


def _verdict_colour(kernels: Sequence[dict[str, Any]], lang: str) -> Any:
    """The colour of each verdict, with a legend of those that occur."""
    import altair as alt

    present = _in_order(kernel["bound"] for kernel in kernels)
    for kernel in kernels:
        kernel["verdict"] = bound_text(kernel["bound"], lang)
    scale = alt.Scale(domain=[bound_text(b, lang) for b in present], range=[_colour_of(b) for b in present])
    return alt.Color("verdict:N", scale=scale, legend=alt.Legend(title=text("roofline.chart.verdict", lang)))


_TOOLTIP = (
    "name:N",
    "device:N",
    "verdict:N",
    "performance:N",
    "of_compute:N",
    "bandwidth:N",
    "of_memory:N",
    "source:N",
)


def _kernel_layers(
    kernels: list[dict[str, Any]], names: Sequence[dict[str, Any]], x: Any, y: Any, shades: Any, lang: str
) -> Any:
    import altair as alt

    colour = _verdict_colour(kernels, lang)
    several = len({k["device"] for k in kernels}) > 1  # then the edge of a point has the shade of its machine's roofs
    edge = {"strokeWidth": 1.8} if several else {"stroke": "white", "strokeWidth": 0.8}
    edges = {"stroke": alt.Stroke("device:N", scale=shades, legend=None)} if several else {}
    dots = (
        alt.Chart(_points_data(kernels))
        .mark_point(filled=True, size=110, opacity=0.85, **edge)
        .encode(x=x, y=y, color=colour, shape=_verdict_shape(kernels, lang), tooltip=list(_TOOLTIP), **edges)
    )

    for name in names:
        name["verdict"] = bound_text(name["bound"], lang)
    return alt.layer(dots, *_label_layers(names, x, y, colour))


def _points_data(kernels: list[dict[str, Any]]) -> Any:
    """The points as inline data; a cloud of them as one text, which Altair does not copy value by value."""
    import altair as alt

    if len(kernels) <= MOST_NAMED:
        return alt.InlineData(kernels)
    return alt.InlineData(values=json.dumps(kernels), format=alt.JsonDataFormat(type="json"))


def _label_layers(labels: Sequence[dict[str, Any]], x: Any, y: Any, colour: Any) -> list[Any]:
    """One pair of text layers for each side and height, since a mark has one offset."""
    groups: dict[tuple[Any, float], list[dict[str, Any]]] = {}
    for label in labels:
        groups.setdefault((label["align"], label["dy"]), []).append(label)
    layers: list[Any] = []
    for (side, dy), group in groups.items():
        dx = 9 if side == "left" else -9
        layers += _haloed(group, x, y, "name:N", colour, align=side, dx=dx, dy=dy, fontSize=13)
    return layers


# ----------------------------------------------------------------------------------------------- the plane of ratios


_BORDER_MARKS: dict[str, dict[str, Any]] = {
    "": {},
    "right": {"shape": "triangle-right"},
    "up": {"shape": "triangle-up"},
    "right up": {"shape": "triangle-up", "angle": 45},
}
"""How a point is drawn by the borders that it lies beyond."""


def ratios_chart(found: Classification, lang: str) -> Any:
    """Achieved over peak, memory across and compute up, over the regions of the rule."""
    import altair as alt

    kernels = [
        kernel | {"x": row.ratio("memory"), "y": row.ratio("compute"), "mixed": any(p.objections for p in row.pipes)}
        for row, kernel in measured_points(found)
        if row.ratio("memory") is not None and row.ratio("compute") is not None
    ]
    if not kernels:
        raise UnknownNameError("there is nothing to draw: no kernel has both ratios")
    largest = plane_of(kernels)
    kernels = [at_border(kernel, largest) for kernel in kernels]
    areas = regions(found.rule, largest)
    for area in areas:
        area["region"] = bound_text(area["bound"], lang)
    present = _in_order(area["bound"] for area in areas)
    shades = alt.Scale(domain=[bound_text(b, lang) for b in present], range=[_colour_of(b) for b in present])
    x = _ratio_axis("x", largest, text("roofline.chart.memory_ratio", lang))
    y = _ratio_axis("y", largest, text("roofline.chart.compute_ratio", lang))
    shaded = (
        alt.Chart(alt.InlineData(areas))
        .mark_rect(opacity=0.16, strokeWidth=0)
        .encode(
            x=x,
            x2="x2:Q",
            y=y,
            y2="y2:Q",
            color=alt.Color("region:N", scale=shades, legend=alt.Legend(title=text("roofline.chart.region", lang))),
        )
    )
    colour = _verdict_colour(kernels, lang)
    dots = []
    for beyond in sorted({kernel["beyond"] for kernel in kernels}):
        drawn = alt.Chart(_points_data([kernel for kernel in kernels if kernel["beyond"] == beyond]))
        marked = drawn.mark_point(
            filled=True, size=110, opacity=0.9, stroke="white", strokeWidth=0.8, **_BORDER_MARKS[beyond]
        )
        shape = {} if beyond else {"shape": _verdict_shape(kernels, lang)}
        dots.append(marked.encode(x=x, y=y, color=colour, tooltip=list(_TOOLTIP), **shape))

    def at(point: dict[str, Any]) -> tuple[float, float]:
        return point["x"] / largest, point["y"] / largest

    labels = place_names(kernels, at, PLOT, dot_boxes(kernels, at, PLOT))
    front = alt.layer(*dots, *_label_layers(labels, x, y, colour))
    chart = alt.layer(shaded, front).resolve_scale(color="independent", shape="independent")
    thresholds = {name: format_number(value) for name, value in found.rule.thresholds().items()}
    known = found.rule.name in ("book", "nsight")
    subtitle = text(f"roofline.chart.subtitle_{found.rule.name}", lang, **thresholds) if known else found.rule.name
    missing = len(found.rows) + len(found.shapes) - len(kernels)
    outside = sum(bool(kernel["beyond"]) for kernel in kernels)
    told = [text("roofline.chart.beyond", lang, count=outside, largest=format_percent(largest, 0))] if outside else []
    subtitles = [subtitle, *told, *_left_out(missing, lang)]
    return styled(chart, text("roofline.chart.ratios_title", lang), subtitles, {}, _LEGEND)


def _ratio_axis(channel: str, largest: float, title: str) -> Any:
    import altair as alt

    axis = alt.Axis(title=title, format=".0%", grid=False, tickCount=10)
    kind = alt.X if channel == "x" else alt.Y
    return kind(f"{channel}:Q", scale=alt.Scale(domain=[0, largest], nice=False), axis=axis)
