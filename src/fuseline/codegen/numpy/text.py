"""The NumPy text: the steps of a program printed as a Python function."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ...ir.graph import Graph
from ...ir.node import Node
from . import functions
from .steps import RESERVED, Name, NumpyProgram, Step, build_steps


def emit_numpy(graph: Graph, name: str = "kernel", planned: bool = False, order: tuple[Node, ...] | None = None) -> str:
    """A self-contained module with the function ``name``; with ``planned`` its calls share buffers through ``out=``."""
    program = build_steps(graph, planned, order)
    own = [f for f in ("select", "erf", "erfc") if any(s.function == f for s in program.steps)]
    imports = ["import math"] * any(f in ("erf", "erfc") for f in own) + ["import numpy as np"]
    if any("bfloat16" in str(v) for s in program.steps for v in dict(s.options).values()):
        imports.append("from ml_dtypes import bfloat16")
    blocks = ["\n".join(imports)]
    blocks += [_source(getattr(functions, f)) for f in own]
    blocks.append(_function(program, f"{name}_kernel" if name in RESERVED else name))
    return "\n\n\n".join(blocks) + "\n"


def _source(function: Any) -> str:
    return (
        inspect.getsource(function).replace(": Array", "").replace(" -> Array", "").replace(" = None", "=None").rstrip()
    )


def _function(program: NumpyProgram, name: str) -> str:
    lines = [f"def {name}({', '.join(program.inputs)}):"]
    if program.buffers:
        lines.append(f"    shape = np.broadcast_shapes({', '.join(f'np.shape({i})' for i in program.inputs)})")
        lines += [f"    {buffer} = np.empty(shape, {_dtype(d)})" for buffer, d in program.buffers]
    lines += [f"    {_step(step)}" for step in program.steps]
    lines.append(f"    return {', '.join(target for _, target in program.returned)}")
    return "\n".join(lines)


def _step(step: Step) -> str:
    args = [a.text if isinstance(a, Name) else _scalar(a) for a in step.args]
    options = dict(step.options)
    if step.function == "astype":
        receiver = args[0] if isinstance(step.args[0], Name) else f"np.asarray({args[0]})"
        return f"{step.target} = {receiver}.astype({_dtype(options['dtype'])})"
    parts = args + [f"{key}={value}" for key, value in options.items()]
    if step.out:
        parts.append(f"out={step.out}")
    return f"{step.target} = {step.function}({', '.join(parts)})"


def _scalar(value: Any) -> str:
    if isinstance(value, np.bool_):
        return str(bool(value))
    number = repr(value.item()) if value.dtype.kind != "f" or value.dtype.itemsize == 8 else str(value)
    if number.lstrip("-") in ("nan", "inf"):
        number = f'"{number}"'
    return f"np.{value.dtype}({number})"


def _dtype(d: np.dtype[Any]) -> str:
    return "bfloat16" if d.name == "bfloat16" else f"np.{d.name}" if d.name != "bool" else "np.bool_"
