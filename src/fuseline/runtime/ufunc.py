"""A genuine `numpy.ufunc` made of compiled loops, through NumPy's table of C functions and no extension module.

NumPy keeps pointers to everything it is given (its C-API reference says so of `PyUFunc_FromFuncAndData`), so all of it
hangs on the ufunc object itself and goes when the ufunc goes.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fuseline.errors import UnsupportedError
from fuseline.runtime import arrays, native
from fuseline.runtime.image import immortal
from fuseline.runtime.loop import Body, Loop
from fuseline.runtime.operands import DTypes

OPERAND_LIMIT = 64
"""NumPy's NPY_MAXARGS."""

_FROM_FUNC_AND_DATA, _REGISTER_LOOP_FOR_TYPE = 1, 2  # positions in NumPy's table of ufunc functions
_IDENTITY_NONE = -1

_create_type = ctypes.PYFUNCTYPE(
    ctypes.py_object,
    ctypes.c_void_p,  # functions
    ctypes.c_void_p,  # data
    ctypes.c_void_p,  # types
    ctypes.c_int,  # number of loops
    ctypes.c_int,  # inputs
    ctypes.c_int,  # outputs
    ctypes.c_int,  # identity
    ctypes.c_void_p,  # name
    ctypes.c_void_p,  # documentation
    ctypes.c_int,
)
_register_type = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a ufunc points to."""

    functions: ctypes.Array[ctypes.c_void_p]
    data: ctypes.Array[ctypes.c_void_p]
    types: ctypes.Array[ctypes.c_char]
    name: ctypes.Array[ctypes.c_char]
    doc: ctypes.Array[ctypes.c_char]
    loops: tuple[Loop, ...]
    argument_types: tuple[ctypes.Array[ctypes.c_int], ...]


class _UfuncHead(ctypes.Structure):
    """The beginning of PyUFuncObject after PyObject_HEAD (numpy/ufuncobject.h)."""

    _fields_ = [
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("ntypes", ctypes.c_int),
        ("reserved1", ctypes.c_int),
        ("name", ctypes.c_void_p),
        ("types", ctypes.c_void_p),
        ("doc", ctypes.c_void_p),
        ("ptr", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
    ]


def make_ufunc(name: str, doc: str, loops: Sequence[Loop]) -> np.ufunc:
    """A ufunc called ``name`` that chooses among ``loops`` by dtype, in their order, as NumPy does.

    Every loop takes and gives the same numbers of operands, at most 64 together. Nothing is compiled here: a loop's
    body is compiled by the first call that uses it, and an error of that compilation is raised by that call.
    """
    nin, nout = len(loops[0].inputs), len(loops[0].outputs)
    if obstacle := obstacle_to_ufunc(nin, nout):
        raise UnsupportedError(f"{obstacle}; call the kernel itself")
    kept = _keep(name, doc, tuple(loops))
    builtin = len(kept.functions)
    ufunc: np.ufunc = _create_type(arrays.numpy_function("_UFUNC_API", _FROM_FUNC_AND_DATA))(
        kept.functions, kept.data, kept.types, builtin, nin, nout, _IDENTITY_NONE, kept.name, kept.doc, 0
    )
    _attach(ufunc, kept, nin, nout)
    _register_user_types(ufunc, kept)
    return ufunc


def obstacle_to_ufunc(inputs: int, outputs: int) -> str:
    """Why NumPy allows no ufunc with so many inputs and outputs; empty where it allows one."""
    if inputs + outputs > OPERAND_LIMIT:
        return f"a NumPy ufunc has at most {OPERAND_LIMIT} operands, this program has {inputs + outputs}"
    return "" if inputs else "a NumPy ufunc has at least one input and this program has none"


def is_subinterpreter() -> bool:
    """Whether this is not the process's first interpreter. There a ufunc cannot compile its loops when they are called:
    C code that asks for the interpreter's lock gets that of the first one."""
    api = ctypes.pythonapi
    here, main = (ctypes.PYFUNCTYPE(ctypes.c_void_p)((f"PyInterpreterState_{name}", api))() for name in ("Get", "Main"))
    return bool(here != main)


def refusing_loop(inputs: DTypes, output_count: int, reason: Exception) -> Loop:
    """A loop of ``inputs`` that raises its own copy of ``reason`` in every call.

    Its outputs have the first input's dtype, so that NumPy's `reduce` comes as far as the loop too. NumPy calls no loop
    for operands without elements, so there nothing is raised.
    """
    kept = copy.copy(reason)  # without the traceback, whose frames would live as long as the loop

    def refuse() -> Body:
        raise copy.copy(kept)

    return Loop(inputs, inputs[:1] * output_count, refuse)


def _keep(name: str, doc: str, loops: tuple[Loop, ...]) -> _Kept:
    entry = native.support().exports["fl_ufunc_loop"]
    builtin = [loop for loop in loops if not _user_types(loop)]
    types = bytes(dtype.num for loop in builtin for dtype in loop.inputs + loop.outputs)
    return _Kept(
        functions=(ctypes.c_void_p * len(builtin))(*[entry] * len(builtin)),
        data=(ctypes.c_void_p * len(builtin))(*[loop.record_address for loop in builtin]),
        types=ctypes.create_string_buffer(types, max(len(types), 1)),
        name=ctypes.create_string_buffer(name.encode()),
        doc=ctypes.create_string_buffer(doc.encode()),
        loops=loops,
        argument_types=tuple(
            (ctypes.c_int * loop.operand_count)(*[dtype.num for dtype in loop.inputs + loop.outputs])
            for loop in loops
            if _user_types(loop)
        ),
    )


def _user_types(loop: Loop) -> list[int]:
    return [dtype.num for dtype in loop.inputs + loop.outputs if dtype.num >= arrays.FIRST_USER_TYPE]


def _register_user_types(ufunc: np.ufunc, kept: _Kept) -> None:
    register = _register_type(arrays.numpy_function("_UFUNC_API", _REGISTER_LOOP_FOR_TYPE))
    entry = native.support().exports["fl_ufunc_loop"]
    user_loops = [loop for loop in kept.loops if _user_types(loop)]
    for loop, argument_types in zip(user_loops, kept.argument_types, strict=True):
        register(ufunc, _user_types(loop)[0], entry, ctypes.addressof(argument_types), loop.record_address)


def _attach(ufunc: np.ufunc, kept: _Kept, nin: int, nout: int) -> None:
    """Let the ufunc own ``kept``: its field ``obj`` is an owned reference that NumPy drops when the ufunc dies."""
    head = _UfuncHead.from_address(id(ufunc) + object.__basicsize__)
    known = (head.nin, head.nout, head.nargs, head.name, head.types, head.doc, head.obj)
    expected = (
        nin,
        nout,
        nin + nout,
        ctypes.addressof(kept.name),
        ctypes.addressof(kept.types),
        ctypes.addressof(kept.doc),
        None,
    )
    if known != expected:
        immortal(kept)  # an unknown layout: never free what NumPy may still read
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    head.obj = id(kept)
