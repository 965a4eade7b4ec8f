"""Measures every function of one or two arguments beside its peers, on arrays that stay in the cache.

    python benchmarks/functions.py                      every function, float32 and float64; writes docs/functions.md
    python benchmarks/functions.py --functions exp pow --print

One process on one processor; fuseline and the peers that have the function take turns. Results go to arrays that are
there already where a peer allows it. What a function costs says nothing about its errors: docs/accuracy.md has those.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers import is_installed, thread_environment
from rows import in_turn, versions

import fuseline
from fuseline.ops import OPERATIONS
from fuseline.runtime import host

Array = NDArray[Any]
PAGE = Path(__file__).parents[1] / "docs" / "functions.md"
PEERS = ("numpy", "torch", "jax", "numba")
PACKAGES = ("fuseline", "llvmlite", *PEERS)
ITEMS = 1 << 15
LARGEST_ERROR_ULP = 100.0
"""Of the result, or of 1 where the result is smaller. A peer that is further off computes something else."""

_REAL, _POSITIVE, _UNIT, _ABOVE_ONE = "from N(0, 1)", "e^N(0, 1)", "even in (-1, 1)", "1 + e^N(0, 1)"
FUNCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "cbrt", "erf", "erfc"),
        (_REAL,),
    ),
    **dict.fromkeys(("sigmoid", "softplus", "silu", "gelu", "gelu_tanh"), (_REAL,)),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "rsqrt"), (_POSITIVE,)),
    **dict.fromkeys(("asin", "acos", "atanh"), (_UNIT,)),
    "acosh": (_ABOVE_ONE,),
    "pow": (_POSITIVE, _REAL),
    **dict.fromkeys(("hypot", "atan2", "logaddexp"), (_REAL, _REAL)),
}
"""Where each function's operands are drawn from."""


def drawn(where: str, dtype: str, rng: np.random.Generator) -> Array:
    """Operands of a function."""
    normal = rng.normal(size=ITEMS)
    values = {
        _REAL: normal,
        _POSITIVE: np.exp(normal),
        _UNIT: rng.uniform(-1.0, 1.0, ITEMS),
        _ABOVE_ONE: 1.0 + np.exp(normal),
    }
    return values[where].astype(dtype)


# ── peers ────────────────────────────────────────────────────────────────────────────────────────────────────────────

Call = Callable[[], Any]


def _numpy(name: str, operands: Sequence[Array]) -> Call | None:
    function = getattr(np, OPERATIONS[name].numpy_name or name, None)
    out = np.zeros_like(operands[0])
    return None if function is None else lambda: function(*operands, out=out)


def _torch(name: str, operands: Sequence[Array]) -> Call | None:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    nn = torch.nn.functional
    given = [torch.from_numpy(a) for a in operands]
    fresh: dict[str, Callable[..., Any]] = {
        "gelu": nn.gelu,
        "gelu_tanh": lambda x: nn.gelu(x, approximate="tanh"),
        "silu": nn.silu,
        "softplus": nn.softplus,
    }
    if name in fresh:
        return lambda: fresh[name](*given)
    function, out = getattr(torch, name, None), torch.zeros_like(given[0])
    return None if function is None else lambda: function(*given, out=out)


def _jax(name: str, operands: Sequence[Array]) -> Call | None:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    own: dict[str, Callable[..., Any]] = {
        "erf": jax.scipy.special.erf,
        "erfc": jax.scipy.special.erfc,
        "sigmoid": jax.nn.sigmoid,
        "silu": jax.nn.silu,
        "softplus": jax.nn.softplus,
        "rsqrt": jax.lax.rsqrt,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    }
    function = own.get(name) or getattr(jax.numpy, OPERATIONS[name].numpy_name or name, None)
    if function is None:
        return None
    compiled, given = jax.jit(function), [jax.numpy.asarray(a) for a in operands]
    return lambda: compiled(*given).block_until_ready()


def _numba(name: str, operands: Sequence[Array]) -> Call | None:
    numba = importlib.import_module("numba")
    function = getattr(math, name, None) or getattr(np, OPERATIONS[name].numpy_name or name, None)
    if function is None:
        return None
    arguments = ", ".join("xy"[: len(operands)])
    dtype = operands[0].dtype
    body: Callable[..., Any] = (lambda x: function(x)) if arguments == "x" else (lambda x, y: function(x, y))
    kind = getattr(numba, dtype.name)
    try:
        compiled = numba.vectorize([kind(*[kind] * len(operands))], nopython=True)(body)
    except numba.errors.NumbaError:
        return None
    out = np.zeros_like(operands[0])
    return lambda: compiled(*operands, out=out)


def _fuseline(name: str, operands: Sequence[Array]) -> Call:
    kernel, out = fuseline.compile(f"{name}({', '.join('xy'[: len(operands)])})"), np.zeros_like(operands[0])
    return lambda: kernel(*operands, out=out)


_CALLS: dict[str, Callable[[str, Sequence[Array]], Call | None]] = {
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
    "numba": _numba,
}


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────────────


def measured(name: str, dtype: str, peers: Sequence[str], repetitions: int) -> dict[str, float]:
    """Nanoseconds an element by implementation: medians of samples in turn, of time on the processor."""
    rng = np.random.default_rng(0)
    operands = [drawn(where, dtype, rng) for where in FUNCTIONS[name]]
    calls: dict[str, Call] = {"fuseline": _fuseline(name, operands)}
    expected = np.asarray(calls["fuseline"]()).copy()
    for peer in peers:
        call = _CALLS[peer](name, operands)
        if call is None:
            continue
        error = np.abs(np.asarray(call()) - expected) / np.spacing(np.maximum(np.abs(expected), 1.0, dtype=dtype))
        if not error.max() <= LARGEST_ERROR_ULP:
            raise SystemExit(f"{peer}'s {name} of {dtype} differs from fuseline's by {error.max():.3g} ulp")
        calls[peer] = call
    timings = in_turn(calls, repetitions, 60.0, 1, time.process_time_ns)
    return {which: timing.median_s * 1e9 / ITEMS for which, timing in timings.items()}


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────────


_INTRODUCTION = """# What functions cost

Written by `python benchmarks/functions.py`. One thread, 32,768 elements that stay in the cache, results into arrays
that are there where the library allows it; medians of nanoseconds an element. In brackets a peer's time over ours:
below 1 the peer is faster. The errors that go with them are in `docs/accuracy.md`, the times of whole programs in
`docs/benchmarks.md`.
"""


def page(results: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """docs/functions.md."""
    machine = host.target_names()[-1]
    now = datetime.datetime.now(datetime.UTC)
    shown = ", ".join(f"{package} {version}" for package, version in versions(PACKAGES).items())
    parts = [
        _INTRODUCTION,
        f"- **Machine**: {host.processor().model} (code for {machine}), {now:%Y-%m-%d %H:%M} UTC.\n"
        f"- **Versions**: {shown}.",
        "- **Operands**: "
        + "; ".join(f"{', '.join(names)}: {where}" for where, names in _by_operands().items())
        + ".\n",
    ]
    for dtype, functions in results.items():
        peers = [p for p in PEERS if any(p in row for row in functions.values())]
        parts.append(f"## {dtype}\n")
        parts.append("| function | fuseline | " + " | ".join(peers) + " |")
        parts.append("| --- | ---: |" + " ---: |" * len(peers))
        for name, row in functions.items():
            cells = [f"{row[p]:.3g} ({row[p] / row['fuseline']:.2f})" if p in row else "–" for p in peers]
            parts.append(f"| {name} | {row['fuseline']:.3g} | " + " | ".join(cells) + " |")
        parts.append(_means(functions, peers) + "\n")
    return "\n".join(parts)


def _by_operands() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, wheres in FUNCTIONS.items():
        found.setdefault(" and ".join(wheres), []).append(name)
    return found


def _means(functions: Mapping[str, Mapping[str, float]], peers: Sequence[str]) -> str:
    cells = []
    for peer in peers:
        ratios = [row[peer] / row["fuseline"] for row in functions.values() if peer in row]
        cells.append(f"({statistics.geometric_mean(ratios):.2f})")
    return "| geometric mean | | " + " | ".join(cells) + " |"


def main() -> None:
    """Measure what the command line asks for and write or print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument("--dtypes", nargs="+", choices=["float32", "float64"], default=["float32", "float64"])
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=[p for p in PEERS if is_installed(p)])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--print", action="store_true", help="print the page instead of writing it")
    options = parser.parse_args()
    os.environ.update(thread_environment(1))  # read by peers when they are imported
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results = {
        dtype: {name: measured(name, dtype, options.peers, options.repetitions) for name in options.functions}
        for dtype in options.dtypes
    }
    text = page(results)
    if options.print:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
