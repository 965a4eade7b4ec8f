"""How long large programs take to read, type, print, optimise, explain and turn into NumPy text: seconds a stage.

``python benchmarks/frontend.py`` writes docs/frontend.md; ``--print`` only prints. Every stage is run a few times and
the median of the processor's time is shown; all of it is one thread's.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fuseline
from fuseline.codegen.numpy import emit_numpy
from fuseline.frontends.formula import parse_formula
from fuseline.frontends.trace import trace
from fuseline.ir import parse_graph, print_graph
from fuseline.ir.dtype import F32
from fuseline.ir.program import Program
from fuseline.ir.specialise import input_types, specialise
from fuseline.runtime import host

COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"
PAGE = Path(__file__).parents[1] / "docs" / "frontend.md"
STAGES = ("read", "type", "print", "read back", "optimise", "explain", "report", "JSON", "NumPy text")


def chain(x: Any) -> Any:
    """A chain of 50,000 operations, each of its own."""
    for i in range(25_000):
        x = np.sin(x) + float(i)
    return x


def programs() -> Mapping[str, Callable[[], Program]]:
    """What is measured, by name: each a way to make the untyped program."""
    texts = {
        "bias + GELU + residual": COURSE,
        "sum of 10,000 products": " + ".join(f"x*{i}.5" for i in range(10_000)),
        "sum of 100,000 terms": " + ".join(f"{i}.5" if i % 2 else "x" for i in range(100_000)),
        "10,000 parentheses": "(" * 10_000 + "x" + ")" * 10_000 + " + 1",
        "10,000 nested calls": "floor(-" * 5_000 + "x" + ")" * 5_000,
        "40,000 statements": "a = x\n" + "a = a*y + 1\n" * 20_000 + "b = a\n" * 20_000,
        "300 inputs": " + ".join(f"x{i}" for i in range(300)),
        "60 doublings": "h0 = x + x\n" + "".join(f"h{i} = h{i - 1} + h{i - 1}\n" for i in range(1, 60)),
    }
    return {
        **{name: partial(parse_formula, text) for name, text in texts.items()},
        "traced chain of 50,000": partial(trace, chain),
    }


def measure(make: Callable[[], Program], repeats: int) -> tuple[int, dict[str, float]]:
    """The number of instructions, and the median seconds of every stage."""
    samples: dict[str, list[float]] = {stage: [] for stage in STAGES}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        gc.collect()
        start = time.process_time()
        result = work()
        samples[stage].append(time.process_time() - start)
        return result

    count = 0
    for _ in range(repeats):
        program = timed("read", make)
        graph = timed("type", lambda p=program: specialise(p, input_types(p, F32)))
        text = timed("print", lambda g=graph: print_graph(g))
        timed("read back", lambda t=text: parse_graph(t))
        optimised = timed("optimise", lambda g=graph: fuseline.optimize(g))
        explained = timed("explain", lambda p=program: fuseline.explain(p, shape=(1024,), dtype="f32"))
        timed("report", lambda e=explained: str(e))
        timed("JSON", lambda e=explained: e.to_dict())
        timed("NumPy text", lambda g=optimised: emit_numpy(g, "program", planned=False))
        count = len(graph.nodes)
        del program, graph, text, optimised, explained
    return count, {stage: statistics.median(values) for stage, values in samples.items()}


def table(repeats: int, only: str) -> str:
    """The figures as a Markdown table."""
    lines = [
        "| program | instructions | " + " | ".join(f"{s}, s" for s in STAGES) + " |",
        "|---|---:|" + "---:|" * len(STAGES),
    ]
    for name, make in programs().items():
        if only in name:
            count, seconds = measure(make, repeats)
            lines.append(f"| {name} | {count:,} | " + " | ".join(f"{seconds[s]:.3f}" for s in STAGES) + " |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--print", action="store_true", help="print the table and write no page")
    options = parser.parse_args()
    parse_formula("x + 1")  # the grammar's tables are made once a process
    text = table(options.repeats, options.only)
    if not options.print:
        PAGE.write_text(page(text), encoding="utf-8")


def page(text: str) -> str:
    """The documentation page."""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    machine = f"{host.processor().model}, {versions}, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    return f"""# Large programs

Processor seconds that large programs take, a stage each: reading the formula (or tracing the function), giving every
instruction its type, printing the text form and reading it back, the passes, the explanation (which types and optimises
again), its report for a terminal (the first and the last rows of each table) and its JSON (all of them), and the NumPy
text. Medians on {machine}.

{text}

Written by `benchmarks/frontend.py`.
"""


if __name__ == "__main__":
    main()
