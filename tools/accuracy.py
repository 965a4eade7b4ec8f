"""Measure accuracy in ulps and write `docs/accuracy.md`.

    python tools/accuracy.py --function exp --dtype f32                 # every float32, about a minute
    python tools/accuracy.py --function pow --dtype f64 --samples 1e9   # under two minutes; most take half a minute
    python tools/accuracy.py --all --record --limit 1.0                 # hours; refreshes docs/accuracy.md as it goes
    python tools/accuracy.py --function erf --dtype f64 --samples 0 --search 1e9 --record   # searches further
    python tools/accuracy.py --callable mypackage:fast_exp --function exp --dtype f32

One-argument functions of float32 are tried on all 2**32 inputs unless --samples is given; everything else on samples:
bit patterns, moderate numbers and hard cases, and then by a search around the worst of many cells of the domain and the
largest error recorded before. The exit status is 1 where an error exceeds --limit or a special value is wrong. --record
keeps results in docs/accuracy.json, from which the page is written.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy_functions import ONE_ARGUMENT, TWO_ARGUMENTS, Array, all_float32, samples
from accuracy_judge import Verdict, has_compiled_reference, judge
from accuracy_search import joined, search

from fuseline.ops import OPERATIONS

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS, PAGE = DOCS / "accuracy.json", DOCS / "accuracy.md"
DTYPES = {"f32": np.float32, "f64": np.float64}
DEFAULT_SAMPLES = 1_000_000_000


# ── implementations ──────────────────────────────────────────────────────────────────────────────────────────────────


def _fuseline(name: str, dtype: str) -> Callable[..., Array] | None:
    import fuseline as fl

    operands = "x, y" if name in TWO_ARGUMENTS else "x"
    return fl.compile(f"{name}({operands})")


def _numpy(name: str, dtype: str) -> Callable[..., Array] | None:
    return getattr(np, OPERATIONS[name].numpy_name or name, None)


def _torch(name: str, dtype: str) -> Callable[..., Array] | None:
    import torch

    nn = torch.nn.functional
    own = {
        "cbrt": None, "gelu_tanh": lambda x: nn.gelu(x, approximate="tanh"), "gelu": nn.gelu, "silu": nn.silu,
        "softplus": nn.softplus,
    }  # fmt: skip
    function = own.get(name, getattr(torch, name, None))
    return None if function is None else lambda *a: function(*(torch.from_numpy(v) for v in a)).numpy()


def _jax(name: str, dtype: str) -> Callable[..., Array] | None:
    import jax

    jax.config.update("jax_enable_x64", True)
    own = {
        "erf": jax.scipy.special.erf, "erfc": jax.scipy.special.erfc, "sigmoid": jax.nn.sigmoid, "silu": jax.nn.silu,
        "softplus": jax.nn.softplus, "rsqrt": jax.lax.rsqrt, "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_tanh": jax.nn.gelu,
    }  # fmt: skip
    function = own.get(name) or getattr(jax.numpy, OPERATIONS[name].numpy_name or name, None)
    if function is None:
        return None
    compiled = jax.jit(function)
    return lambda *a: np.asarray(compiled(*a))


IMPLEMENTATIONS: dict[str, Callable[[str, str], Callable[..., Array] | None]] = {
    "fuseline": _fuseline,
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
}
PEERS = IMPLEMENTATIONS.keys() - {"fuseline"}


def implementation(which: str, name: str, dtype: str) -> Callable[..., Array] | None:
    """The function as a callable on arrays, or None where the package has none or is not installed."""
    try:
        return IMPLEMENTATIONS[which](name, dtype)
    except ImportError:
        return None


def imported(path: str) -> Callable[..., Array]:
    """The callable at ``module:name``."""
    module, _, attribute = path.partition(":")
    function: Callable[..., Array] = getattr(importlib.import_module(module), attribute)
    return function


class Counts(NamedTuple):
    """How many inputs to sample (None for all or the default, 0 for those recorded) and to search (None: a tenth)."""

    samples: int | None
    search: int | None


Places = Sequence[tuple[float, ...]]


def judged(
    name: str, function: Callable[..., Array], dtype: str, counts: Counts, before: Verdict | None, near: Places
) -> Verdict:
    """On all float32, or on samples (no samples: those of ``before``) and by a search around the worst of them and
    ``near``."""
    if counts.samples is None and dtype == "f32" and name not in TWO_ARGUMENTS:
        return judge(name, function, all_float32())
    if before is not None and counts.samples == 0:
        verdict = before
    else:
        sample_count = counts.samples or DEFAULT_SAMPLES
        verdict = judge(name, function, samples(name, DTYPES[dtype], sample_count))
    search_count = verdict.samples // 10 if counts.search is None else counts.search
    if search_count == 0 or not has_compiled_reference():
        return verdict
    near = dict.fromkeys([*near, verdict.where])
    return joined(verdict, search(name, function, DTYPES[dtype], search_count, near, seed=verdict.searched))


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def load() -> dict[str, Any]:
    """Recorded results: "function dtype implementation" to a verdict."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def recorded(key: str, version: str | None) -> tuple[Verdict | None, Places]:
    """The verdict kept for this function and implementation in ``version``, if there is one, and where the error of
    whatever version is kept was largest."""
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in load().get(key, {}).items()}
    if not values:
        return None, ()
    same = values.pop("version", None) == version
    verdict = Verdict(**values)
    return verdict if same else None, [verdict.where]


def record(key: str, verdict: Verdict, version: str | None) -> None:
    """Keep a verdict, of another package with its version, and rewrite the page."""
    results = load()
    results[key] = asdict(verdict) | ({"version": version} if version else {})
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(results))


def page(results: dict[str, Any]) -> str:
    """docs/accuracy.md."""
    parts = [_INTRODUCTION]
    for dtype, title in (("f32", "float32"), ("f64", "float64")):
        rows = [
            _row(name, dtype, which, results) for name in (*ONE_ARGUMENT, *TWO_ARGUMENTS) for which in IMPLEMENTATIONS
        ]
        rows = [r for r in rows if r]
        if rows:
            parts.append(f"## {title}\n\n{_HEAD}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


_INTRODUCTION = """# Accuracy

Written by `tools/accuracy.py`; do not edit. Errors are in units in the last place (ulp) of the result's format against
an independent reference: the C library in a wider format, and multiprecision where that cannot decide and at the
largest error. For float64 the wider format has 128 bits: most values come from tables of polynomials through its
values, which are compared with the 128-bit functions as the samples go by and are within 2⁻¹² ulp of them; close to a
rounding boundary or to the largest error so far the 128-bit function itself is asked. "All" means every one of the 2³²
float32 values; other counts are samples (bit patterns, moderate numbers, numbers of many scales, and directed hard
cases). A second count is a search: as many more inputs around the worst of many cells of the domain, denser from round
to round; means are without it. A special value is wrong where NaN, an infinity or the sign of zero differs from C99's
Annex F. Other packages' figures depend on the processor's instructions and are of the version beside the name, on
x86-64 with AVX-512.

One function exceeds an ulp: `logaddexp` of float64, where exp(x) + exp(y) is so close to 1 that more than some 45 bits
of the operands cancel, as they do where one operand was computed from the other. The error is then 2⁻¹⁰² of the larger
operand: thousands of ulps where 70 bits cancel, millions where 75 do. The worst pairs leave 2⁻¹¹⁵ of it, and an ulp of
that would take exponentials to 170 bits.
"""
_HEAD = (
    "| function | implementation | largest error | at | mean error | correctly rounded | wrong specials | inputs |\n"
    "|---|---|---|---|---|---|---|---|\n"
)


def _row(name: str, dtype: str, which: str, results: dict[str, Any]) -> str:
    v = results.get(f"{name} {dtype} {which}")
    if v is None:
        return ""
    inputs = "all" if v["samples"] == 1 << 32 else f"{v['samples']:.2g}".replace("e+0", "e").replace("e+", "e")
    if v.get("searched"):
        inputs += f" + {v['searched']:.1g}".replace("e+0", "e")
    at = ", ".join(f"{w:.9g}" if dtype == "f32" else f"{w:.17g}" for w in v["where"])
    largest = f"{v['largest_ulp']:.3f}" if v["largest_ulp"] < 1e4 else f"{v['largest_ulp']:.1e}"
    shown = f"**{largest}**" if which == "fuseline" else largest
    share = f"{100 * v['correctly_rounded']:.2f} %"
    by = named(which, v.get("version"))
    return f"| {name} | {by} | {shown} | {at} | {v['mean_ulp']:.3g} | {share} | {v['special_failures']} | {inputs} |"


# ── command line ─────────────────────────────────────────────────────────────────────────────────────────────────────


def named(which: str, version: str | None) -> str:
    """An implementation with its version, where it has one of its own."""
    return f"{which} {version}" if version else which


def show(name: str, v: Verdict, seconds: float) -> None:
    """One line for a person."""
    where = ", ".join(f"{w!r} ({float(w).hex()})" for w in v.where)
    special = f"; {v.special_failures} wrong special values, first at {v.special_where}" if v.special_failures else ""
    print(
        f"{name}: largest {v.largest_ulp:.4f} ulp at {where}; mean {v.mean_ulp:.4f}; "
        f"{100 * v.correctly_rounded:.3f} % correctly rounded; {v.samples:,} inputs, {v.searched:,} more searched; "
        f"{seconds:.0f} s{special}",
        flush=True,
    )


def operands(text: str) -> tuple[float, ...]:
    """One or two numbers, decimal or hexadecimal."""
    return tuple(float.fromhex(v) if "0x" in v else float(v) for v in text.split(","))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--function", action="append", choices=(*ONE_ARGUMENT, *TWO_ARGUMENTS), help="may be repeated")
    parser.add_argument("--all", action="store_true", help="every function")
    parser.add_argument("--dtype", action="append", choices=tuple(DTYPES), help="may be repeated; both by default")
    parser.add_argument("--implementation", action="append", choices=tuple(IMPLEMENTATIONS), help="fuseline by default")
    parser.add_argument("--callable", help="module:name of another implementation to judge")
    parser.add_argument(
        "--samples", type=float, help="this many samples; 0 adds a search to those recorded, if of the same version"
    )
    parser.add_argument("--search", type=float, help="so many more inputs around the worst; by default a tenth")
    parser.add_argument("--near", action="append", type=operands, help="search here too: X or X,Y; may be repeated")
    parser.add_argument("--limit", type=float, help="fail where an error exceeds this many ulp")
    parser.add_argument("--record", action="store_true", help="keep the results and rewrite docs/accuracy.md")
    options = parser.parse_args(arguments)
    names = (*ONE_ARGUMENT, *TWO_ARGUMENTS) if options.all else tuple(options.function or ())
    if not names:
        parser.error("name a --function, or --all")
    counts = Counts(*(None if n is None else int(n) for n in (options.samples, options.search)))
    passed = True
    for name in names:
        for dtype in options.dtype or DTYPES:
            for which in [options.callable] if options.callable else options.implementation or ["fuseline"]:
                function = imported(which) if options.callable else implementation(which, name, dtype)
                if function is None:
                    print(f"{name} {dtype} {which}: not available")
                    continue
                started = time.perf_counter()
                key = f"{name} {dtype} {which}"
                version = importlib.metadata.version(which) if which in PEERS else None
                before, worst = recorded(key, version)
                verdict = judged(name, function, dtype, counts, before, [*(options.near or ()), *worst])
                show(f"{name} {dtype} {named(which, version)}", verdict, time.perf_counter() - started)
                if options.record:
                    record(key, verdict, version)
                over = options.limit is not None and verdict.largest_ulp > options.limit
                passed &= not over and verdict.special_failures == 0
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
