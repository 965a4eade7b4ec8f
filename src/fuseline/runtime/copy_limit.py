"""The copy limit that kernels are laid beside: what this machine needs to move the same bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import DTYPES, DType
from fuseline.ir.dtype import dtype as dtype_of
from fuseline.ir.graph import Graph
from fuseline.ir.node import const
from fuseline.runtime import iterate, threads
from fuseline.runtime.compile import elementwise_loop
from fuseline.runtime.loop import Loop


def copy_limit(
    inputs: Sequence[NDArray[Any]],
    outputs: Sequence[NDArray[Any]],
    thread_count: int | None = None,
    *,
    past_caches: bool,
) -> Callable[[], None]:
    """A call that reads every element of ``inputs``, writes every element of ``outputs``, and does little else.

    The arrays broadcast as a kernel's operands do; outputs have the full shape and are overwritten. Threads and
    iteration are those of a kernel's own call with ``thread_count`` threads, and there is next to no Python before
    them, so its time is what the machine needs to move the same bytes with stores of one kind. The limit is the
    `measure.faster` of both kinds, whichever a kernel would choose.
    """
    loop = _copy_loop(tuple(a.dtype.name for a in inputs), tuple(o.dtype.name for o in outputs))
    with threads.limit(thread_count or threads.thread_count()):
        return iterate.repeated(loop, list(inputs), list(outputs), past_caches=past_caches)


@functools.lru_cache(maxsize=64)
def _copy_loop(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Loop:
    """Every output is the exclusive or of all inputs' bits, so nothing read can be left out."""
    nodes = [Expr(input_node(f"a{i}", dtype_of(name))) for i, name in enumerate(inputs)]
    result_types = [dtype_of(name) for name in outputs]
    widest = max((d.bits for d in (*(x.dtype for x in nodes), *result_types)), default=8)
    wide = DTYPES[f"u{widest}"]
    mixed = Expr(const(0, wide))
    for x in nodes:
        bits = x if not x.dtype.is_float else x.bitcast(DTYPES[f"u{x.dtype.bits}"])
        mixed = mixed ^ bits.cast(wide)
    return elementwise_loop(
        Graph([x.node for x in nodes], [(f"o{i}", _as(mixed, d).node) for i, d in enumerate(result_types)])
    )


def _as(bits: Expr, d: DType) -> Expr:
    if d.is_float:
        return bits.cast(DTYPES[f"u{d.bits}"]).bitcast(d)
    return bits.cast(d)
