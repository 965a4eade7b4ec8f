"""Block scales: those of the machine that a row or shape is laid against, unless a layout is given."""

from __future__ import annotations

import pytest

import fuseline as fl
from fuseline.cost.shapes import SCALE_LAYOUTS

LAYOUTS = {"h100-sxm": "block-128", "h800": "block-128", "l40s": "block-128", "b200": "packed-32"}
LAYOUTS |= {"ascend-950dt": "block-32"}


@pytest.mark.parametrize(("machine", "layout"), LAYOUTS.items())
@pytest.mark.parametrize("given", [None, *SCALE_LAYOUTS])
def test_a_row_and_a_shape_have_the_scales_of_their_machine(machine: str, layout: str, given: str | None) -> None:
    sizes = {} if given is None else {"scales": given}
    left, right = SCALE_LAYOUTS[given or layout]
    wanted = 4096 * 7168 * (1 + left) + 2048 * 7168 * (1 + right)
    shape = fl.classify(m=4096, n=2048, k=7168, dtype="fp8", device=machine, sizes=sizes).shapes[0].to_dict()["shape"]
    assert shape["bytes"]["inputs+scales"] == pytest.approx(wanted)
    row = fl.classify(m=4096, n=2048, k=7168, dtype="fp8", device=machine, sizes=sizes, latency_us=900).rows[0]
    assert {line.convention: line.bytes for line in row.audit}["inputs+scales"] == pytest.approx(wanted)


def test_formats_without_scales_have_none() -> None:
    row = fl.classify(m=4096, n=2048, k=7168, dtype="bf16", device="h100-sxm", latency_us=900).rows[0]
    assert {line.convention for line in row.audit} == {"inputs", "inputs+output"}
