"""Programs that reduce, on all threads, beside plain NumPy and, where it is installed, torch's compiler.

    python benchmarks/reductions.py [--repetitions N]     prints a table in Markdown: microseconds, fresh outputs

NumPy's result of each program is compared first. Torch's programs are the same formulas, compiled, not its own softmax.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rows import in_turn

import fuseline
from fuseline.runtime import host, threads

SHAPES = ((8,), (1000,), (32, 1000), (64, 4096), (512, 1024), (2048, 4096))


def softmax(m: Any, x: Any) -> Any:
    """Along rows."""
    e = m.exp(x - m.max(x, -1))
    return e / m.sum(e, -1)


def layer_norm(m: Any, x: Any) -> Any:
    """Along rows, without a scale."""
    d = x - m.mean(x, -1)
    return d / m.sqrt(m.mean(d * d, -1) + 1e-5)


def sum_rows(m: Any, x: Any) -> Any:
    """A number a row."""
    return m.sum(x, -1)


def sum_columns(m: Any, x: Any) -> Any:
    """A row."""
    return m.sum(x, 0)


PROGRAMS: tuple[Callable[[Any, Any], Any], ...] = (softmax, layer_norm, sum_rows, sum_columns)


class NumpyFunctions:
    """The functions that the programs name; reduced axes stay."""

    exp, sqrt = np.exp, np.sqrt

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        return lambda x, axis: function(x, axis=axis, keepdims=True)


class TorchFunctions:
    """The same of torch."""

    def __getattr__(self, name: str) -> Any:
        import torch

        if name in ("exp", "sqrt"):
            return getattr(torch, name)
        function = getattr(torch, {"max": "amax"}.get(name, name))
        return lambda x, axis: function(x, dim=axis, keepdim=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=15)
    options = parser.parse_args()
    has_torch = importlib.util.find_spec("torch") is not None
    print(f"{host.processor().model}, {threads.available()} threads, float32; microseconds, fresh outputs")
    print(f"| program | shape | fuseline | NumPy |{' torch.compile |' if has_torch else ''}")
    print(f"| --- | --- | ---: | ---: |{' ---: |' if has_torch else ''}")
    for program in PROGRAMS:
        for shape in SHAPES:
            if program is not sum_columns or len(shape) > 1:
                cells = measure(program, shape, options.repetitions, has_torch)
                print(f"| {program.__name__} | {' × '.join(map(str, shape))} | {' | '.join(cells)} |", flush=True)


def measure(program: Callable[[Any, Any], Any], shape: tuple[int, ...], turns: int, has_torch: bool) -> list[str]:
    """Microseconds of a call by implementation: medians of turns, the others with their time over fuseline's."""
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    kernel, plain = fuseline.fuse(lambda x: program(NumpyFunctions(), x)), NumpyFunctions()
    calls = {"fuseline": lambda: kernel(x), "numpy": lambda: program(plain, x)}
    np.testing.assert_allclose(kernel(x), program(plain, x), rtol=1e-3, atol=1e-3 * abs(x).sum() / x.size)
    if has_torch:
        import torch

        functions, tensor = TorchFunctions(), torch.from_numpy(x)
        compiled = torch.compile(lambda t: program(functions, t))
        compiled(tensor)
        calls["torch"] = lambda: compiled(tensor)
    for call in calls.values():
        for _ in range(3):
            call()
    timings = in_turn(calls, turns, 2.0, 1, time.perf_counter_ns)
    us = {name: timing.median_s * 1e6 for name, timing in timings.items()}
    return [f"{us['fuseline']:.1f}", *(f"{v:.1f} ({v / us['fuseline']:.2f})" for n, v in us.items() if n != "fuseline")]


if __name__ == "__main__":
    main()
