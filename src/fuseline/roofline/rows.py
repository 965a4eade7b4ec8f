"""Rows of measured rates: one kernel at one shape on one machine, with what its source prints and says.

Rows come from the bundled tables, from a user's CSV, or from the command line; all pass the same checks here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuseline.cost.shape_cost import ShapeCost
from fuseline.cost.shapes import OPERATIONS, VECTOR_OPERATIONS, operation_sizes, shape_cost, vector_dtype
from fuseline.errors import UnitError
from fuseline.machine.files import MAX_FIGURE
from fuseline.roofline.rules import Note
from fuseline.units import Quantity, Source, SourceKind, shifted

COMPUTE = "compute"
MEMORY = "memory"
"""The two rates that every table has; the device decides which of its pipes and memories they belong to."""

GIVEN = "given"
"""The source of a row that the caller describes."""

GIVEN_NAMES = ("measured", "formula")
"""What such a row is called where it has neither a name nor sizes."""

SIZE_COLUMNS = tuple(
    dict.fromkeys(("m", "n", "k", *(name for operation in OPERATIONS for name in operation_sizes(operation)[1])))
)
"""The columns of a file that are sizes: those of every operation."""

_PRODUCT_SIZES = {
    "mqa-logits": {"m": "q_len", "n": "kv_len", "k": "head_dim"},
    "moe": {"m": "tokens", "n": "intermediate", "k": "hidden"},
}
"""What m, n and k mean for operations that tables list as products."""

PRODUCTS = ("gemm", "grouped-gemm", "batched-gemm")
"""The operations that are named by their sizes alone, and completed with those of the course."""

MAX_RATE = MAX_FIGURE
"""Measured rates above what a device file may state are a mistake of units, too."""
MAX_LATENCY_S = 1e6


@dataclass(frozen=True, slots=True)
class Row:
    """One measured kernel.

    ``achieved`` maps ``compute``, ``memory`` or the name of a pipe, memory or link to the measured rate. ``dtype`` is
    the format that decides the peak, ``operands`` the formats that decide the bytes. ``says`` is the bound that the
    source states, as a bound name, and ``says_text`` in its words; ``line`` is that of its file, ``group`` the table of
    the source that the row stands in. ``given_cost`` is the cost where it is known already or no rule
    describes the shape.
    """

    name: str
    device: str
    dtype: str
    operation: str = "gemm"
    operands: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    latency_s: float | None = None
    waves: float | None = None
    achieved: Mapping[str, Quantity] = field(default_factory=dict)
    source: str = ""
    says: str = ""
    says_text: str = ""
    notes: tuple[Note, ...] = ()
    line: int = 0
    group: str = ""
    given_cost: ShapeCost | None = None

    @property
    def compute_key(self) -> str:
        """What the row's arithmetic rate is called: that of the pipe on which its operation runs."""
        return "vector" if self.operation in VECTOR_OPERATIONS else COMPUTE

    @property
    def compute_dtype(self) -> str:
        """The format of the row's arithmetic: float32 where its own is only storage for the vector pipe."""
        if self.operation not in VECTOR_OPERATIONS:
            return self.dtype
        if self.given_cost is not None and self.given_cost.work:
            return next(dtype for _, dtype in self.given_cost.work.values())
        return vector_dtype(self.dtype)

    def cost(self) -> ShapeCost | None:
        """Work and bytes of the row's shape by the rule of its operation, or ``None`` where it states too few sizes.

        Raises for a size that the operation does not have.
        """
        if self.given_cost is not None:
            return self.given_cost
        return row_cost(self.operation, self.sizes, self.dtype, self.operands or self.dtype)


def row_cost(operation: str, sizes: Mapping[str, Any], dtype: str, operands: str) -> ShapeCost | None:
    """What ``Row.cost`` returns, from the parts of a row."""
    if not sizes:
        return None
    meaning = _PRODUCT_SIZES.get(operation)
    size = dict(sizes) if meaning is None else {meaning.get(name, name): value for name, value in sizes.items()}
    needed, known = operation_sizes(operation)
    if size.keys() <= set(known) and not size.keys() >= set(needed):
        return None
    return shape_cost(operation, **size, dtype=dtype if operation in VECTOR_OPERATIONS else operands)


def shape_name(operation: str, sizes: Mapping[str, Any]) -> str:
    """What a kernel without a name is called: every size that was given, since shapes may differ in any of them.

    A product is ``gemm 1x7168x16384``, others say which size is which; an array of sizes is ``…``.
    """
    if operation in PRODUCTS:
        order = [name for name in ("groups", "batch", "m", "n", "k") if name in sizes]
        if operation == "gemm" and "batch" in order:
            batched = not _is_one(sizes["batch"])
            operation, order = ("batched-gemm", order) if batched else (operation, order[1:])
        return f"{operation} {'x'.join(_size_text(sizes[name]) for name in order)}"
    named = [f"{name}={_size_text(size)}" for name, size in sizes.items()]
    return " ".join([operation, *named]).strip()


def _is_one(size: Any) -> bool:
    return isinstance(size, (int, np.integer)) and size == 1


def _size_text(size: Any) -> str:
    if isinstance(size, (bool, np.bool_)):
        return str(size).lower()
    return str(size) if isinstance(size, (str, int, np.integer)) else "…"


def positive(value: float, what: str, unit: str, most: float = MAX_RATE) -> float:
    """``value`` checked as a finite positive number that is not absurd; raises ``UnitError`` naming ``what``."""
    if not math.isfinite(value) or value <= 0:
        raise UnitError(f"{what} must be a positive number, not {value!r}")
    if value > most:
        raise UnitError(f"{what} of {value:.4g} {unit} is absurd: check its unit")
    return value


def measured(value: float, unit: str, machine: str, document: str = "", dtype: str = "") -> Quantity:
    """A measured rate of ``machine``."""
    return Quantity(value, unit, Source(SourceKind.MEASURED, document, machine), dtype)


def with_achieved(row: Row, achieved: Mapping[str, Quantity]) -> Row:
    """``row`` with its rates replaced."""
    return replace(row, achieved=dict(achieved))


def latency_from_us(latency_us: float) -> float:
    """Seconds from microseconds, checked."""
    return shifted(positive(latency_us, "latency_us", "us", MAX_LATENCY_S * 1e6), -6)


def rate_of(pipe: str, value: float, places: int, unit: str, row: Row) -> Quantity:
    """A measured rate of ``pipe`` for ``row``, checked; ``value`` is in ``10^places`` of the unit."""
    what = f"the rate of {pipe}"
    checked = positive(shifted(positive(value, what, unit, math.inf), places), what, unit)
    if unit == "B/s" or pipe not in (COMPUTE, "matrix", row.compute_key):
        dtype = ""
    else:
        dtype = row.compute_dtype if pipe == row.compute_key else row.dtype
    return measured(checked, unit, row.device, row.source, dtype)
