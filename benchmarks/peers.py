"""Each implementation in its best form: a call with fresh outputs, and one with outputs that are there already.

Libraries are imported when their peer is made, so that a process holds the one it measures and no other's threads.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy_forms
from printers import Blosc2Functions, CannotExpress, NumexprFunctions, expressions, onnx_model

from programs import Array, Inputs, Program

Call = Callable[[], Any]
Results = Callable[[Any], list[Array]]


@dataclass(frozen=True)
class Form:
    """One way to call an implementation. ``results`` turns what ``call`` returns into arrays."""

    label: str
    call: Call
    results: Results
    preallocated: bool


Peer = Callable[[Program, Inputs, int], list[Form]]
"""Prepares a program for inputs and a number of threads. Raises `CannotExpress`."""


def empty_outputs(program: Program, inputs: Mapping[str, Array]) -> list[Array]:
    """Arrays for the results, touched so that their pages exist."""
    ml_dtypes = importlib.import_module("ml_dtypes")
    shape = np.broadcast_shapes(*(a.shape for a in inputs.values()))
    return [np.zeros(shape, ml_dtypes.bfloat16 if d == "bfloat16" else d) for d in program.result_dtypes]


def _listed(value: Any) -> list[Array]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _plain(a: Array) -> Any:
    """A number for an array of no dimensions, as callers of NumPy write it."""
    return a if a.ndim else a.item()


# ── fuseline ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def fuseline(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """The kernel, called by position."""
    fl = importlib.import_module("fuseline")
    kernel = fl.compile(program.formula, name=program.name)
    operands = [_plain(inputs[name]) for name in kernel.inputs]
    outputs = empty_outputs(program, inputs)
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    return [
        Form("fuseline", lambda: kernel(*operands), _listed, False),
        Form("fuseline", lambda: kernel(*operands, out=out), lambda _: outputs, True),
    ]


# ── NumPy ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def numpy(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """One operation at a time; with outputs given, the temporaries are kept between calls as well."""
    functions, operands = numpy_forms.Functions(), [_plain(a) for a in inputs.values()]
    outputs = empty_outputs(program, inputs)
    planned = numpy_forms.planned(program, inputs, outputs)
    return [
        Form("numpy", lambda: program.function(functions, *operands), _listed, False),
        Form("numpy", planned, lambda _: outputs, True),
    ]


# ── numexpr, blosc2 ──────────────────────────────────────────────────────────────────────────────────────────────────


def numexpr(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """Compiled expressions called directly, which spares `evaluate` its look at the text."""
    module = importlib.import_module("numexpr")
    module.set_num_threads(threads)
    texts, scalars = expressions(NumexprFunctions(), program, inputs)
    compiled = []
    for text in texts:
        names = {**inputs, **scalars}
        used = [name for name in names if _uses(text, name)]
        kind = [(name, float) for name in used]  # numexpr calls float32 so
        compiled.append((module.NumExpr(text, kind), [np.asarray(names[name]) for name in used]))
    outputs = empty_outputs(program, inputs)

    def fresh() -> list[Array]:
        return [function(*operands) for function, operands in compiled]

    def given() -> None:
        for (function, operands), out in zip(compiled, outputs, strict=True):
            function(*operands, out=out, ex_uses_vml=False)  # required beside out; these builds have no VML

    return [Form("numexpr", fresh, _listed, False), Form("numexpr", given, lambda _: outputs, True)]


def blosc2(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """`blosc2.evaluate` on NumPy arrays; `where` it only has for its own, which are given uncompressed."""
    module = importlib.import_module("blosc2")
    module.set_nthreads(threads)
    texts, scalars = expressions(Blosc2Functions(), program, inputs)
    plans = []
    for text in texts:
        for name, value in scalars.items():
            text = _replaced(text, name, repr(float(value)))
        own = "where(" in text
        names = {name: a for name, a in inputs.items() if _uses(text, name)}
        plans.append((text, {n: module.asarray(a, cparams={"clevel": 0}) if own else a for n, a in names.items()}))
    outputs = empty_outputs(program, inputs)

    def fresh() -> list[Array]:
        return [module.evaluate(text, local_dict=names) for text, names in plans]

    def given() -> None:
        for (text, names), out in zip(plans, outputs, strict=True):
            module.evaluate(text, local_dict=names, out=out)

    try:
        fresh()
    except AttributeError as error:  # its `where` does not work for arrays of one chunk
        raise CannotExpress("where fails on small arrays") from error
    return [Form("blosc2", fresh, _listed, False), Form("blosc2", given, lambda _: outputs, True)]


def _uses(text: str, name: str) -> bool:
    return importlib.import_module("re").search(rf"\b{name}\b", text) is not None


def _replaced(text: str, name: str, value: str) -> str:
    return str(importlib.import_module("re").sub(rf"\b{name}\b", value, text))


# ── numba ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def numba(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """`njit(parallel=True, fastmath=True)` over explicit loops; `vectorize` for the target with threads or without."""
    forms = importlib.import_module("numba_forms")
    importlib.import_module("numba").set_num_threads(threads)
    loop, operands = forms.LOOPS[program.name], list(inputs.values())
    outputs = empty_outputs(program, inputs)
    stored = [_bits(o) for o in outputs]

    def fresh() -> list[Array]:
        made = [np.empty(o.shape, o.dtype) for o in stored]
        loop(*operands, *made)
        return made

    def restore(made: Sequence[Array]) -> list[Array]:
        return [m.view(o.dtype) for m, o in zip(made, outputs, strict=True)]

    found = [
        Form("numba njit", fresh, restore, False),
        Form("numba njit", lambda: loop(*operands, *stored), lambda _: outputs, True),
    ]
    vectorized = forms.ufunc(program.name, parallel=threads > 1)
    if vectorized is not None:
        found += [
            Form("numba vectorize", lambda: vectorized(*operands), lambda v: restore(_listed(v)), False),
            Form("numba vectorize", lambda: vectorized(*operands, out=stored[0]), lambda _: outputs, True),
        ]
    return found


def _bits(a: Array) -> Array:
    return a.view(np.uint16) if a.dtype.itemsize == 2 else a


# ── JAX ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _JaxFunctions:
    def __init__(self) -> None:
        jax, self._numpy = importlib.import_module("jax"), importlib.import_module("jax.numpy")
        self.erf, self.sigmoid = jax.scipy.special.erf, jax.nn.sigmoid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpy, name)

    def bf16(self, x: Any) -> Any:
        return x.astype(self._numpy.bfloat16)


def jax(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """`jax.jit`. It has no preallocated outputs: donated buffers are inputs."""
    module = importlib.import_module("jax")
    functions = _JaxFunctions()
    compiled = module.jit(lambda *operands: program.function(functions, *operands))
    operands = [module.numpy.asarray(a) for a in inputs.values()]

    def fresh() -> Any:
        return module.block_until_ready(compiled(*operands))

    return [Form("jax", fresh, lambda value: [np.asarray(v) for v in value], False)]


# ── torch ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _TorchFunctions:
    def __init__(self) -> None:
        self._torch = importlib.import_module("torch")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def bf16(self, x: Any) -> Any:
        return x.to(self._torch.bfloat16)


def torch(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """`torch.compile` with static shapes; outputs are given as operands that the compiled function fills."""
    module = importlib.import_module("torch")
    module.set_num_threads(threads)
    module.set_grad_enabled(False)
    module._dynamo.reset()
    functions = _TorchFunctions()
    operands = [module.from_numpy(a) for a in inputs.values()]
    shape = np.broadcast_shapes(*(a.shape for a in inputs.values()))
    outputs = [module.zeros(shape, dtype=getattr(module, d)) for d in program.result_dtypes]

    def fill(outs: list[Any], *given: Any) -> None:
        for out, value in zip(outs, program.function(functions, *given), strict=True):
            out.copy_(value)

    fresh = module.compile(lambda *given: program.function(functions, *given), dynamic=False)
    into = module.compile(fill, dynamic=False)

    def results(value: Any) -> list[Array]:
        return [(v.float() if v.dtype is module.bfloat16 else v).numpy() for v in value]

    return [
        Form("torch", lambda: fresh(*operands), results, False),
        Form("torch", lambda: into(outputs, *operands), lambda _: results(outputs), True),
    ]


# ── ONNX Runtime ─────────────────────────────────────────────────────────────────────────────────────────────────────


def onnxruntime(program: Program, inputs: Inputs, threads: int) -> list[Form]:
    """Standard operators, and its own fused ones where it has them; outputs are given by an I/O binding."""
    forms, reasons = [], []
    for label, own in (("onnxruntime", False), ("onnxruntime fused", True)):
        try:
            forms += _session_forms(label, onnx_model(program, inputs, own), program, inputs, threads)
        except CannotExpress as error:
            reasons.append(str(error))
    if not forms:
        raise CannotExpress("; ".join(reasons))
    return forms


def _session_forms(label: str, model: bytes, program: Program, inputs: Inputs, threads: int) -> list[Form]:
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    shape = np.broadcast_shapes(*(a.shape for a in inputs.values()))
    feeds = {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in inputs.items()}
    given, fresh = session.io_binding(), session.io_binding()
    for name, value in feeds.items():
        given.bind_ortvalue_input(name, value)
        fresh.bind_ortvalue_input(name, value)
    outputs = empty_outputs(program, inputs)
    kinds = importlib.import_module("onnx").TensorProto
    for node, array in zip(session.get_outputs(), outputs, strict=True):
        kind = kinds.BFLOAT16 if array.dtype.itemsize == 2 else array.dtype
        given.bind_output(node.name, "cpu", 0, kind, shape, array.ctypes.data)
        fresh.bind_output(node.name, "cpu", 0)

    def call_fresh() -> Any:
        session.run_with_iobinding(fresh)
        return fresh.get_outputs()

    def results(values: Sequence[Any]) -> list[Array]:
        if outputs[0].dtype.itemsize == 2:  # this Python interface hands no bfloat16 out; the other form is checked
            return []
        return [v.numpy() for v in values]

    return [
        Form(label, call_fresh, results, False),
        Form(label, lambda: session.run_with_iobinding(given), lambda _: outputs, True),
    ]


PEERS: dict[str, Peer] = {
    "numpy": numpy,
    "numexpr": numexpr,
    "numba": numba,
    "jax": jax,
    "torch": torch,
    "onnxruntime": onnxruntime,
    "blosc2": blosc2,
}
"""One process measures one of these."""


def is_installed(package: str) -> bool:
    """Whether a peer's package can be imported; it is not imported."""
    return importlib.util.find_spec(package) is not None


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables that give every library this many threads."""
    count = str(threads)
    names = ("FUSELINE_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
             "NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS", "BLOSC_NTHREADS")  # fmt: skip
    return {**dict.fromkeys(names, count), "NPROC": count, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}


def reference(program: Program, inputs: Inputs) -> list[Array]:
    """The program in float64."""
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a.astype(np.int64) for a in inputs.values()]
    with np.errstate(all="ignore"):
        return [np.asarray(r) for r in program.function(numpy_forms.Functions(), *wide)]


def error_in_tolerances(program: Program, results: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest error as a share of what is allowed; a NaN against a number is an infinite error."""
    worst = 0.0
    for got, want in zip(results, expected, strict=True):
        difference = np.abs(got.astype(np.float64) - want) / (program.tolerance * (np.abs(want) + program.scale))
        difference[(got == want) | (np.isnan(got.astype(np.float32)) & np.isnan(want))] = 0.0
        largest = float(difference.max(initial=0.0))
        worst = math.inf if math.isnan(largest) else max(worst, largest)
    return worst
