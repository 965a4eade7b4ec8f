"""The NumPy text: the steps of a program printed as a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from fuseline.codegen.numpy import functions
from fuseline.codegen.numpy.steps import RESERVED, Name, NumpyProgram, Step, build_steps
from fuseline.ir.garbage import collection_paused
from fuseline.ir.graph import Graph


def emit_numpy(graph: Graph, name: str = "kernel", planned: bool = False) -> str:
    """A self-contained module with the function ``name``; with ``planned`` its calls share buffers through ``out=``."""
    with collection_paused():
        return _module(build_steps(graph, planned), name)


def _module(program: NumpyProgram, name: str) -> str:
    own = _own_functions(program)
    needs_math = any(f in ("erf", "erfc", "part") for f in own)
    imports = ["import math"] * needs_math + ["import numpy as np"]
    dtypes = {step.dtype for step in program.steps}
    if any(d.name == "bfloat16" for d in dtypes):
        imports.append("from ml_dtypes import bfloat16")
    blocks = ["\n".join(imports)]
    blocks += [_source(getattr(functions, f)) for f in own]
    blocks.append(_function(program, f"{name}_kernel" if name in RESERVED else name))
    return "\n\n\n".join(blocks) + "\n"


def _own_functions(program: NumpyProgram) -> list[str]:
    """The functions of ours that the text calls, in the order in which it defines them."""
    called = {step.function for step in program.steps}
    in_arena = any(p.memory == "arena" for p in program.places)
    called |= {"allocate"} if in_arena else set()
    called |= {"stride_of"} if in_arena and program.shapes else set()
    called |= {"part"} if any(p.memory for p in program.places) else set()
    return [f for f in ("select", "erf", "erfc", "cast", "stride_of", "allocate", "part") if f in called]


def _source(function: Any) -> str:
    return (
        inspect.getsource(function)
        .replace(": Array", "")
        .replace(": int", "")
        .replace(" -> Array", "")
        .replace(" -> int", "")
        .replace(" = None", "=None")
        .rstrip()
    )


def _function(program: NumpyProgram, name: str) -> str:
    lines = [f"def {name}({', '.join(program.inputs)}):"]
    lines += [f"    {line}" for line in _memory(program)]
    lines += [f"    {_step(step)}" for step in program.steps]
    lines.append(f"    return {', '.join(target for _, target in program.returned)}")
    return "\n".join(lines)


def _memory(program: NumpyProgram) -> Iterator[str]:
    """The arena, and the places in it and in the outputs."""
    shapes = {names: f"shape{k}" for k, names in enumerate(program.shapes)}
    for names, shape in shapes.items():
        yield f"{shape} = np.broadcast_shapes({', '.join(f'np.shape({i})' for i in names)})"
    in_arena = any(p.memory == "arena" for p in program.places)
    if in_arena and shapes:
        counts = ", ".join(f"math.prod({shape})" for shape in shapes.values())
        yield f"stride = stride_of({counts if len(shapes) == 1 else f'max({counts})'})"
    if in_arena:
        yield f"arena = allocate({_strides(program.arena_size, bool(shapes))})"
    for p in program.places:
        shape = shapes.get(p.shape) or repr(p.shape)
        if p.memory:
            yield f"{p.name} = part({p.memory}, {_strides(p.start, bool(shapes))}, {shape}, {_dtype(p.dtype)})"
        else:
            yield f"{p.name} = np.empty({shape}, {_dtype(p.dtype)})"


def _strides(count: int, symbolic: bool) -> str:
    if not symbolic or count == 0:
        return str(count)
    return "stride" if count == 1 else f"{count} * stride"


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
    return f"{_scalar_type(value.dtype)}({number})"


@cache
def _scalar_type(d: np.dtype[Any]) -> str:
    return f"np.{d}"


def _dtype(d: np.dtype[Any]) -> str:
    return "bfloat16" if d.name == "bfloat16" else f"np.{d.name}" if d.name != "bool" else "np.bool_"
