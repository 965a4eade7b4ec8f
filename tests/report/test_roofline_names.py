"""Names of roofs and shapes of verdicts in the pictures of the roofline."""

import itertools
import json
import math

import pytest

import fuseline as fl
from fuseline.report import roofline_charts as charts
from fuseline.report.roofline_geometry import dot_boxes, overlap, points, roof_boxes, roofs, slope_boxes
from fuseline.report.roofline_roof_names import place_roof_names

SEVERAL = ("h100-sxm", "mi300x", "h200", "l40s")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_names_of_roofs_keep_their_machine_and_no_other_line_touches_them(count):
    devices = [fl.device(name) for name in SEVERAL[:count]]
    lines = []
    for device in devices:
        drawn, _ = roofs(device, 1.0, 1e5)
        lines += [line | {"label": f"{line['device']}: {line['label']}"} for line in drawn]
    size = (900.0, 600.0)

    def at(point):
        return math.log10(point["x"]) / 5, (math.log10(point["y"]) - 11) / 5

    names = place_roof_names(lines, at, size, [])
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    assert len(names) >= len(pairs) // 2
    for name in names:
        assert name["label"].startswith(name["device"])
        if name["side"] != "compute":
            continue
        right, middle = at(name)[0] * size[0], at(name)[1] * size[1] - name["dy"]
        box = (right - 6 * len(name["label"]), right, middle - 4, middle + 4)
        others = [pair for pair in pairs if pair[0]["line"] != name["line"]]
        touched = [o for pair in others for o in (*roof_boxes(pair, at, size), *slope_boxes(pair, at, size))]
        assert not any(overlap(box, other) for other in touched), name["label"]


def test_a_roof_without_room_for_its_name_is_named_above_the_picture(monkeypatch):
    pytest.importorskip("altair")
    placed = []

    def place(*arguments):
        placed.extend(place_roof_names(*arguments))
        return placed

    monkeypatch.setattr(charts, "place_roof_names", place)
    chart = charts.roofline_chart(fl.classify(table="ascend"), [fl.device(name) for name in SEVERAL], "en").to_dict()
    told = " ".join(chart["title"]["subtitle"])
    assert "roofs without room for their name" in told
    for device in SEVERAL:
        lines, _ = roofs(fl.device(device), 1.0, 1e5)
        for label in {line["label"] for line in lines}:
            assert f"{device}: {label}" in told or f"{device}: {label}" in [name["label"] for name in placed]


@pytest.mark.parametrize("kind", ["roofline", "ratios"])
def test_verdicts_are_told_by_shape_as_well_as_by_colour(kind):
    pytest.importorskip("altair")
    found = fl.classify(csv="examples/kernels.csv")
    chart = (
        charts.roofline_chart(found, [], "en") if kind == "roofline" else charts.ratios_chart(found, "en")
    ).to_dict()

    def encodings(part):
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            if key == "shape" and isinstance(value, dict):
                yield value
            elif isinstance(value, (dict, list)):
                yield from encodings(value)

    scales = [found["scale"] for found in encodings(chart) if found.get("field") == "verdict"]
    assert scales, "no point has a shape for its verdict"
    for scale in scales:
        assert len(scale["range"]) == len(set(scale["range"])) == len(scale["domain"]) >= 4


def test_names_of_roofs_stand_on_their_lines_and_over_no_point_or_other_name():
    found = fl.classify(table="ascend")
    machines = [fl.device(name) for name in ("ascend-950dt", "h100-sxm", "mi300x")]
    lines = []
    for device in machines:
        for line in roofs(device, 2.0, 3e4)[0]:
            lines.append(line | {"label": f"{device.name}: {line['label']}"})
    size = (978.0, 683.0)

    def at(point):
        return math.log(point["x"] / 2) / math.log(1.5e4), math.log(point["y"] / 7e12) / math.log(1e3)

    dots = dot_boxes(points(found), at, size)
    covered = list(dots)
    names = place_roof_names(lines, at, size, covered)
    assert len(names) >= len(lines) // 3  # the others are named above the picture
    boxes = covered[len(dots) :]
    assert not any(overlap(box, dot) for box in boxes for dot in dots)
    for name in names:
        same = [line for line in lines if line["line"] == name["line"]]
        if name["side"] == "compute":
            assert name["y"] == same[0]["y"] and same[0]["x"] < name["x"] <= same[1]["x"]
        else:
            assert name["y"] / name["x"] == pytest.approx(same[0]["y"] / same[0]["x"])
    flat = [box for box in boxes if box[1] - box[0] > 20]
    assert not any(overlap(one, two) for one, two in itertools.combinations(flat, 2))


def test_a_cloud_of_kernels_is_drawn_whole(tmp_path):
    pytest.importorskip("altair")
    path = tmp_path / "rows.csv"
    rows = [f"r{i},h200,bf16,{i + 1},1024,1024,{100 + i}" for i in range(charts.MOST_NAMED + 1)]
    path.write_text("name,device,dtype,m,n,k,latency_us\n" + "\n".join(rows) + "\n")
    found = fl.classify(csv=path)
    for chart in (charts.roofline_chart(found, [], "en"), charts.ratios_chart(found, "en")):
        drawn = json.dumps(chart.to_dict())
        assert all(f'\\"r{i}\\"' in drawn for i in range(len(rows)))
