"""``fuseline.plan_buffers``: buffers in, a checked placement with its proof out."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from fuseline.errors import PlanError
from fuseline.plan.arena.arguments import capacity_in_bytes, require_alignment, require_time_limit_s
from fuseline.plan.arena.instance_csv import read_csv
from fuseline.plan.arena.planner import DEFAULT_TIME_LIMIT_S, Progress, plan_instance
from fuseline.plan.arena.types import MAX_BUFFERS, Buffer, Gap, Incumbent, Instance, PlanResult
from fuseline.plan.joint import JointPlan, plan_graph

if TYPE_CHECKING:
    from fuseline.api.program import Source
    from fuseline.ir.dtype import DType

    BufferLike = Buffer | tuple[int, int, int]

__all__ = ["Buffer", "Gap", "Incumbent", "Instance", "JointPlan", "PlanResult", "plan_buffers", "plan_program"]


def plan_buffers(
    buffers: Instance | str | os.PathLike[str] | Iterable[BufferLike],
    *,
    capacity: int | str | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    seed: int = 0,
    exact: bool = True,
    on_progress: Progress | None = None,
) -> PlanResult:
    """Place buffers with half-open lifetimes in one arena that is as small as possible.

    ``buffers`` is an `Instance`, the path of a CSV file in MiniMalloc's form, or `Buffer` objects or ``(lower, upper,
    size)`` triples of whole numbers, whose ids are then their positions. ``capacity`` (bytes, or text such as
    ``"1.2 GiB"``, whose fraction of a byte is dropped) ends the search as soon as an answer fits. ``exact=False`` stops
    after the quick heuristics. Ctrl-C gives the best answer so far.

    The result has ``placement.offsets`` in bytes in the order of the buffers, ``peak_bytes``, ``lower_bound_bytes``
    with its derivation in ``bound``, ``optimal``, ``gap`` and ``stopped_because``. It was checked by code that shares
    nothing with the planner. Deterministic for a seed unless the time limit ends the search.

    Raises:
        PlanError: an impossible buffer, a file that is no instance, a time limit that is not positive, an argument of a
            wrong type.
        UnitError: a capacity that is no size.
        InfeasibleError: the capacity is below the bound, or fixed offsets collide.
        LimitError: a file or an instance beyond the stated limits.
    """
    capacity_bytes = capacity_in_bytes(capacity)
    return plan_instance(
        as_instance(buffers),
        capacity_bytes=capacity_bytes,
        time_limit_s=time_limit_s,
        seed=seed,
        exact=exact,
        on_progress=on_progress,
    )


def as_instance(buffers: Instance | str | os.PathLike[str] | Iterable[BufferLike]) -> Instance:
    """Whatever `plan_buffers` accepts, as an instance.

    Raises:
        PlanError: something that is none of those.
    """
    if isinstance(buffers, Instance):
        return buffers
    if isinstance(buffers, (str, os.PathLike)):
        return read_csv(buffers)
    if not isinstance(buffers, Iterable):
        raise PlanError(f"{reprlib.repr(buffers)} is no instance, no path of a CSV file and no sequence of buffers")
    return Instance(tuple(_as_buffer(i, entry) for i, entry in enumerate(islice(buffers, MAX_BUFFERS + 1))))


def _as_buffer(i: int, entry: BufferLike) -> Buffer:
    if isinstance(entry, Buffer):
        return entry
    try:
        lower, upper, size = entry
    except (TypeError, ValueError):
        raise PlanError(f"buffer {i}: {reprlib.repr(entry)} is neither a Buffer nor (lower, upper, size)") from None
    return Buffer(str(i), lower, upper, size)  # the instance refuses what is no whole number


def plan_program(
    source: Source,
    shape: Sequence[int] | int | str | None = None,
    dtype: DType | str | None = None,
    *,
    outputs: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    alignment: int = 1,
    capacity: int | str | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    seed: int = 0,
    exact: bool = True,
    on_progress: Progress | None = None,
) -> JointPlan:
    """Order, in-place results and arena of a program that runs one instruction at a time.

    ``source`` is the text of a formula or a graph, a function or a graph; ``shape``, ``dtype``, ``outputs`` and
    ``sizes`` are those of `explain`, the others those of `plan_buffers`. Buffer ids are the names of values; time is
    the position in the chosen order. Inputs lie outside the arena. ``alignment`` (bytes, at least 1) is that of every
    buffer, and sizes are rounded up to it.

    Raises:
        FormulaError and its kin for a bad program, ShapeError for a size that is missing.
        PlanError, UnitError, InfeasibleError: as `plan_buffers`; an alignment below 1.
    """
    from fuseline.api.defaults import EXPLAINED_DTYPE
    from fuseline.api.explaining import prepared
    from fuseline.ir.dtype import dtype as dtype_of
    from fuseline.ir.garbage import collection_paused
    from fuseline.plan.storage_graph import storage_graph

    alignment = require_alignment(alignment)
    capacity_bytes = capacity_in_bytes(capacity)
    time_limit_s = require_time_limit_s(time_limit_s)
    with collection_paused():
        _, program, amounts = prepared(
            source, shape, dtype_of(EXPLAINED_DTYPE if dtype is None else dtype), outputs, sizes
        )
        graph = storage_graph(program, lambda node: int(amounts.bytes_of(node)), alignment)
    return plan_graph(
        graph,
        capacity_bytes=capacity_bytes,
        time_limit_s=time_limit_s,
        seed=seed,
        exact=exact,
        name="program",
        on_progress=on_progress,
    )
