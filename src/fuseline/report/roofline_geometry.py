"""What the roofline's pictures are made of, as plain data: points, roofs, regions of a rule, and places for names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fuseline.api.classification import Classification
from fuseline.excerpts import printable
from fuseline.machine import Device, rate_unit
from fuseline.report.chart_files import shortened
from fuseline.report.wrapping import width_of
from fuseline.roofline.classify import RowResult
from fuseline.roofline.rules import IMPOSSIBLE_RATIO, UNDETERMINED, Reading, Rule
from fuseline.units import format_percent, format_rate

_LABEL_PX = (7.3, 15.0)
_SQUARE_PX = 4.0
_STEP = 0.01
_PLACES = tuple((side, up) for up in (0.0, 16.0, -16.0) for side in ("left", "right"))
"""Where a name may stand beside its point: side and pixels up, tried in this order."""

_SHORTENED = (40, 24, 14)
"""Columns that a name is shortened to, tried in this order, where there is no room for all of it."""

_OFF_AXIS = 2.0
"""Pixels that a name keeps from the border of the plot."""

_FIRST = ("matrix bf16", "matrix fp8", "vector f32", "matrix fp4", "vector f16", "matrix tf32")

MOST_OF_PEAK = 1.5
"""The plane of ratios ends here: what lies further out is an error of units by any factor and stands at the border."""

_EDGE = 0.985
"""Where the border's marks stand in the plane, so that they are seen whole."""

MOST_NAMED = 400
"""Beyond so many kernels a picture is a cloud of points and names none of them."""

Box = tuple[float, float, float, float]
"""Left, right, bottom, top in pixels of the plot."""

Position = Callable[[dict[str, Any]], tuple[float, float]]
"""Where a point lies in the plot, as fractions across and up."""


def points(found: Classification) -> list[dict[str, Any]]:
    """A point for every row with both rates and every shape: intensity, performance, bound, and what to tell."""
    rows: list[dict[str, Any]] = []
    for row in found.rows:
        rates = {pipe.side: pipe for pipe in row.pipes if pipe.side in ("compute", "memory")}
        if len(rates) < 2 or row.device is None:
            continue
        compute, memory = rates["compute"], rates["memory"]
        rows.append(
            {
                "name": printable(row.row.name),
                "device": row.device.name,
                "x": compute.achieved.value / memory.achieved.value,
                "y": compute.achieved.value,
                "bound": row.bound,
                "performance": str(compute.achieved),
                "bandwidth": str(memory.achieved),
                "of_compute": "–" if compute.ratio is None else format_percent(compute.ratio.value),
                "of_memory": "–" if memory.ratio is None else format_percent(memory.ratio.value),
                "source": printable(row.row.source),
            }
        )
    for shape in found.shapes:
        analysis = shape.analysis
        if analysis.bounds.ndim or not analysis.pipes:
            continue
        limit = float(analysis.bound_time_s)
        performance = float(analysis.pipes[0].work) / limit
        rows.append(
            {
                "name": printable(shape.name),
                "device": analysis.device.name,
                "x": float(analysis.intensity),
                "y": performance,
                "bound": analysis.bound,
                "performance": format_rate(performance, analysis.pipes[0].peak.unit),
                "bandwidth": format_rate(float(analysis.cost.bytes()) / limit),
                "of_compute": "–",
                "of_memory": "–",
                "source": "shape alone",
            }
        )
    return rows


def roofs(device: Device, low: float, high: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Line ends of every roof of ``device`` between two intensities, and its ridge points on the main memory.

    Formats with equal peaks share a line. A memory's line ends at the highest compute roof. The formats that people ask
    for most come first, so that their names find room.
    """
    flat: dict[float, dict[str, list[str]]] = {}
    for pipe in device.pipes:
        for peak in pipe.peaks if pipe.name in ("matrix", "vector") else ():
            if peak.dtype and peak.rate is pipe.find(peak.dtype, peak.accumulator):
                flat.setdefault(peak.rate.value, {}).setdefault(pipe.name, []).append(peak.key)
    memories = [(m.name, m.bandwidths[0].value) for m in device.memories if m.bandwidths]
    if not flat or not memories:
        return [], []
    top = max(flat)
    main = memories[0][1]
    lines: list[dict[str, Any]] = []
    for name, bandwidth in memories:
        label = f"{name} {format_rate(bandwidth)}"
        end = min(top / bandwidth, high)
        lines += _line(device.name, label, "memory", (low, bandwidth * low), (end, bandwidth * end))
    widest = max(bandwidth for _, bandwidth in memories)
    ridges: list[dict[str, Any]] = []
    for value, pipes in sorted(flat.items(), key=lambda entry: _importance(entry[1])):
        formats = [dtype for dtypes in pipes.values() for dtype in dtypes]
        units = list(dict.fromkeys(rate_unit(dtype.partition("/")[0]) for dtype in formats))
        unit = "FLOP/s" if "FLOP/s" in units else "OP/s"
        label = _label(pipes, value)
        lines += _line(device.name, label, "compute", (max(low, value / widest), value), (high, value))
        ridges.append(
            {"device": device.name, "label": label, "x": value / main, "y": value, "unit": unit.replace("/s", "/B")}
        )
    return lines, ridges


def _label(pipes: dict[str, list[str]], value: float) -> str:
    """The formats of each pipe with the peak that they share: ``matrix bf16/f16, vector f16 134 TFLOPS``.

    Integers have a unit of their own; a pipe is named once.
    """
    parts: list[str] = []
    named = ""
    for unit in ("FLOP/s", "OP/s"):
        groups = []
        for pipe, keys in pipes.items():
            formats = [key for key in dict.fromkeys(keys) if rate_unit(key.partition("/")[0]) == unit]
            if formats:
                listed = (", " if any("/" in key for key in formats) else "/").join(formats)
                groups.append(listed if pipe == named else f"{pipe} {listed}")
                named = pipe
        if groups:
            parts.append(f"{', '.join(groups)} {format_rate(value, unit)}")
    return ", ".join(parts)


def _importance(pipes: dict[str, list[str]]) -> int:
    """Place of a roof among those of its machine: the formats of today's kernels, then the rest."""
    named = [f"{pipe} {dtype}" for pipe, dtypes in pipes.items() for dtype in dtypes]
    return min((_FIRST.index(name) for name in named if name in _FIRST), default=len(_FIRST))


def _line(
    device: str, label: str, side: str, start: tuple[float, float], end: tuple[float, float]
) -> list[dict[str, Any]]:
    base = {"device": device, "label": label, "side": side, "line": f"{device} {label}"}
    return [base | {"x": x, "y": y} for x, y in (start, end)]


def roof_boxes(lines: Sequence[dict[str, Any]], at: Position, size: tuple[float, float]) -> list[Box]:
    """What the flat roofs themselves cover."""
    boxes: list[Box] = []
    for start, end in zip(lines[::2], lines[1::2], strict=True):
        if start["side"] == "compute":
            (left, level), (right, _) = at(start), at(end)
            boxes.append((left * size[0], right * size[0], level * size[1] - 1, level * size[1] + 1))
    return boxes


def slope_boxes(lines: Sequence[dict[str, Any]], at: Position, size: tuple[float, float]) -> list[Box]:
    """What the lines of memories cover, as chains of small squares."""
    boxes: list[Box] = []
    for start, end in zip(lines[::2], lines[1::2], strict=True):
        if start["side"] == "memory":
            (left, low), (right, high) = at(start), at(end)
            steps = max(1, round((right - left) * size[0] / _SQUARE_PX))
            for step in range(steps + 1):
                share = step / steps
                x, y = (left + share * (right - left)) * size[0], (low + share * (high - low)) * size[1]
                boxes.append((x - _SQUARE_PX / 2, x + _SQUARE_PX / 2, y - _SQUARE_PX / 2, y + _SQUARE_PX / 2))
    return boxes


def dot_boxes(kernels: Sequence[dict[str, Any]], at: Position, size: tuple[float, float]) -> list[Box]:
    """What the points of kernels cover, to the pixel and each place once where they are a cloud."""
    centres = [(across * size[0], up * size[1]) for across, up in (at(kernel) for kernel in kernels)]
    if len(centres) > MOST_NAMED:
        centres = list(dict.fromkeys((float(round(cx)), float(round(cy))) for cx, cy in centres))
    return [(cx - 6, cx + 6, cy - 6, cy + 6) for cx, cy in centres]


def place_ridges(
    ridges: Sequence[dict[str, Any]], at: Position, size: tuple[float, float], taken: list[Box]
) -> list[dict[str, Any]]:
    """Ridge points whose value fits below and right of them without covering another; adds to ``taken``."""
    found: list[dict[str, Any]] = []
    for ridge in ridges:
        across, up = at(ridge)
        left, base = across * size[0] + 8, up * size[1] - 18
        box = (left, left + len(ridge["value"]) * _LABEL_PX[0], base, base + _LABEL_PX[1])
        if not any(overlap(box, other) for other in taken):
            taken.append(box)
            found.append(ridge)
    return found


def place_names(
    kernels: Sequence[dict[str, Any]], at: Position, size: tuple[float, float], covered: list[Box]
) -> list[dict[str, Any]]:
    """Names beside points, each where it covers nothing else. Adds to ``covered``.

    A name without room is shortened in its middle, or left out where even then there is none.

    ``covered`` holds the points already.
    """
    if len(kernels) > MOST_NAMED:
        return []
    waiting = [(kernel, at(kernel)) for kernel in kernels]
    found: list[dict[str, Any]] = []
    for columns in (None, *_SHORTENED):  # whole names first: no shortened one takes the place of another
        left = []
        for kernel, (across, up) in waiting:
            name = kernel["name"] if columns is None else shortened(kernel["name"], columns)
            centre = (across * size[0], up * size[1])
            place = _free_place(name, centre, size, covered)
            if place is None:
                left.append((kernel, (across, up)))
            else:
                found.append(kernel | {"name": name, "align": place[0], "dy": -place[1]})
        waiting = left
    return found


def _free_place(
    name: str, centre: tuple[float, float], size: tuple[float, float], covered: list[Box]
) -> tuple[str, float] | None:
    """The first place beside a point where a name covers nothing, which it does from then on; ``None`` without one."""
    for side, offset in _PLACES:
        box = _box(name, centre, side, offset)
        inside = all(box[k] >= _OFF_AXIS and box[k + 1] <= size[k // 2] - _OFF_AXIS for k in (0, 2))
        if inside and not any(overlap(box, other) for other in covered):
            covered.append(box)
            return side, offset
    return None


def _box(name: str, centre: tuple[float, float], side: str, offset: float) -> Box:
    """What a name covers beside a point at ``centre``."""
    length, (x, y) = width_of(name) * _LABEL_PX[0], centre
    left = x + 9 if side == "left" else x - 9 - length
    return left, left + length, y + offset - _LABEL_PX[1] / 2, y + offset + _LABEL_PX[1] / 2


def overlap(one: Box, two: Box) -> bool:
    """Whether two boxes share a pixel."""
    return one[0] < two[1] and two[0] < one[1] and one[2] < two[3] and two[2] < one[3]


def plane_of(kernels: Sequence[dict[str, Any]]) -> float:
    """How far the plane of ratios reaches both ways: to its points and a little further, up to ``MOST_OF_PEAK``."""
    furthest: float = max(max(kernel["x"], kernel["y"]) for kernel in kernels)
    return max(1.05, math.ceil(min(furthest * 1.05, MOST_OF_PEAK) * 100) / 100)


def at_border(kernel: dict[str, Any], largest: float) -> dict[str, Any]:
    """A point of the plane of ratios as it is drawn: one beyond ``largest`` at the border, with arrows and ratios.

    ``beyond`` says over which borders it lies: ``right``, ``up``, both words, or none.
    """
    sides = {"right": ("→", kernel["x"]), "up": ("↑", kernel["y"])}
    beyond = {side: f"{arrow} {format_percent(value, 0)}" for side, (arrow, value) in sides.items() if value > largest}
    edge = largest * _EDGE
    return kernel | {
        "x": edge if "right" in beyond else kernel["x"],
        "y": edge if "up" in beyond else kernel["y"],
        "name": " ".join([kernel["name"], *beyond.values()]),
        "beyond": " ".join(beyond),
    }


def regions(rule: Rule, largest: float) -> list[dict[str, Any]]:
    """Rectangles of the plane (memory ratio, compute ratio) in which the rule gives one verdict.

    Impossible ratios decide nothing, whatever the rule would say to them.
    """
    cells = math.ceil(largest / _STEP)
    runs: list[dict[str, Any]] = []
    for row in range(cells):
        compute = (row + 0.5) * _STEP
        start, current = 0, ""
        for column in range(cells + 1):
            bound = "" if column == cells else _verdict(rule, compute, (column + 0.5) * _STEP)
            if bound != current:
                if current:
                    runs.append(_run(start, column, row, current))
                start, current = column, bound
    return _merged(runs)


def _verdict(rule: Rule, compute: float, memory: float) -> str:
    if max(compute, memory) > IMPOSSIBLE_RATIO:
        return UNDETERMINED
    return rule.judge(Reading(compute, memory)).bound


def _run(start: int, end: int, row: int, bound: str) -> dict[str, Any]:
    return {"x": start * _STEP, "x2": end * _STEP, "y": row * _STEP, "y2": (row + 1) * _STEP, "bound": bound}


def _merged(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of neighbouring rows with equal ends as one rectangle."""
    open_runs: dict[tuple[float, float, str], dict[str, Any]] = {}
    done: list[dict[str, Any]] = []
    for run in runs:
        key = (run["x"], run["x2"], run["bound"])
        before = open_runs.get(key)
        if before is not None and math.isclose(before["y2"], run["y"]):
            before["y2"] = run["y2"]
        else:
            open_runs[key] = run
            done.append(run)
    return done


def measured_points(found: Classification) -> list[tuple[RowResult, dict[str, Any]]]:
    """Rows with their points; shapes have no ratios."""
    named = {(p["name"], p["device"]): p for p in points(found)}
    pairs = []
    for row in found.rows:
        point = named.get((printable(row.row.name), row.device.name if row.device else ""))
        if point is not None:
            pairs.append((row, dict(point)))
    return pairs
