"""Which block scales the narrow formats of a machine come with, where nobody says."""

from __future__ import annotations

from dataclasses import replace

from fuseline.cost.shapes import DEFAULT_SCALES, operation_sizes
from fuseline.machine import Device
from fuseline.roofline.rows import Row, row_cost


def scale_layout(device: Device | None) -> str:
    """The layout that DeepGEMM stores on machines of this kind; that of DeepGEMM-Ascend where there is none of its own.

    NVIDIA's tensor cores that do FP4 are Blackwell's, with one byte for every 32 elements; those before take one scale
    for 1x128 elements on the left and one for 128x128 on the right.
    """
    matrix = device.find_pipe("matrix") if device is not None else None
    if device is None or device.vendor != "NVIDIA" or matrix is None:
        return DEFAULT_SCALES
    return "block-128" if matrix.find("fp4") is None else "packed-32"


def with_scales(row: Row, device: Device | None) -> Row:
    """``row`` with the scales of the machine it is laid against, where it has scales and names no layout."""
    cost = row.cost() if row.sizes and "scales" not in row.sizes else None
    layout = scale_layout(device)
    if cost is None or not cost.scales or cost.scales == layout or "scales" not in operation_sizes(row.operation)[1]:
        return row
    sizes = {**row.sizes, "scales": layout}
    return replace(row, given_cost=row_cost(row.operation, sizes, row.dtype, row.operands or row.dtype))
