"""Where the names of roofs stand in a roofline picture: on their own line, over no point, no other line or name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from fuseline.report.roofline_geometry import Box, Position, overlap, roof_boxes, slope_boxes

CHARACTER_PX, HEIGHT_PX = 6.4, 10.0
"""About the size of a character of a roof's name."""

_STEP_PX = 12.0
ABOVE_PX, BELOW_PX = -8.0, 9.0
"""From a line to the middle of a name on its upper or lower side, in the direction in which pixels count."""


def place_roof_names(
    lines: Sequence[dict[str, Any]], at: Position, size: tuple[float, float], covered: list[Box]
) -> list[dict[str, Any]]:
    """A name for every roof with room for it, most important first: ``x``, ``y``, ``align``, ``dy`` and ``angle``.

    ``lines`` are pairs of ends. Names of flat roofs stand at the right end or as little left of it as needed, those of
    memories along the slope, the lowest memory's below its line where it can. No line but its own touches a name. What
    the names cover is added to ``covered``.
    """
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    slopes = [start["y"] / start["x"] for start, _ in pairs if start["side"] == "memory"]
    drawn = [(*roof_boxes(pair, at, size), *slope_boxes(pair, at, size)) for pair in pairs]
    found = []
    for i, (start, end) in enumerate(pairs):
        lowest = len(slopes) > 1 and start["y"] / start["x"] == min(slopes)
        if start["side"] == "memory":
            sides = (BELOW_PX, ABOVE_PX) if lowest else (ABOVE_PX, BELOW_PX)
            places = chain.from_iterable(_along(start, end, at, size, dy) for dy in sides)
        else:
            places = chain(_flat(start, end, at, size))
        others = [box for j, boxes in enumerate(drawn) if j != i for box in boxes]
        place = next((p for p, boxes in places if _take(boxes, covered, others)), None)
        if place is not None:
            found.append(start | place)
    return found


def _take(boxes: list[Box], covered: list[Box], lines: list[Box]) -> bool:
    """Whether ``boxes`` are free of what is ``covered`` and of ``lines``; then they are added to ``covered``."""
    free = not any(overlap(box, other) for box in boxes for other in (*covered, *lines))
    if free:
        covered += boxes
    return free


def _flat(
    start: dict[str, Any], end: dict[str, Any], at: Position, size: tuple[float, float]
) -> Iterator[tuple[dict[str, Any], list[Box]]]:
    """Places on a flat roof, from its right end to its left one, above the line and then below."""
    (left, level), (right, _) = at(start), at(end)
    first, last, height = left * size[0], right * size[0] - 5, level * size[1]
    length = len(start["label"]) * CHARACTER_PX
    for dy in (ABOVE_PX, BELOW_PX):
        stop = last
        while stop - length > first:
            x = _between(start["x"], end["x"], (stop - first) / (right * size[0] - first))
            middle = height - dy
            box = (stop - length, stop, middle - HEIGHT_PX / 2, middle + HEIGHT_PX / 2)
            yield {"x": x, "y": start["y"], "align": "right", "dy": dy, "angle": 0.0}, [box]
            stop -= _STEP_PX


def _along(
    start: dict[str, Any], end: dict[str, Any], at: Position, size: tuple[float, float], dy: float
) -> Iterator[tuple[dict[str, Any], list[Box]]]:
    """Places along the visible part of a slope, from its lower end up; a name covers a chain of squares."""
    (left, low), (right, high) = at(start), at(end)
    x0, y0, x1, y1 = left * size[0], low * size[1], right * size[0], high * size[1]
    whole = math.hypot(x1 - x0, y1 - y0)
    across, up = (x1 - x0) / whole, (y1 - y0) / whole
    length = len(start["label"]) * CHARACTER_PX
    walked = max(0.0, -y0 / up) + 2 * _STEP_PX
    while walked + length < whole:
        share = walked / whole
        x = _between(start["x"], end["x"], share)
        boxes = []
        for step in range(math.ceil(length / _STEP_PX)):
            along = walked + (step + 0.5) * _STEP_PX
            cx, cy = x0 + along * across + dy * up, y0 + along * up - dy * across
            boxes.append((cx - 6, cx + 6, cy - 6, cy + 6))
        place = {"x": x, "y": x * start["y"] / start["x"], "align": "left", "dy": dy}
        yield place | {"angle": -math.degrees(math.atan2(up, across))}, boxes
        walked += _STEP_PX


def _between(low: float, high: float, share: float) -> float:
    """The value at ``share`` of the way from ``low`` to ``high`` on a logarithmic axis."""
    return float(low * (high / low) ** share)
