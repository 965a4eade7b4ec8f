"""A builtin function in front of a Python one: small calls and calls that are like earlier ones skip Python altogether.

`FastCall.function` is what native/call.ll, prepared.ll and launch.ll describe. It is made only where NumPy's arrays are
laid out as its header says; elsewhere callers keep their Python function.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuseline.runtime import arrays, iterate, native, recycle, threads
from fuseline.runtime.locks import Lock
from fuseline.runtime.loop import Loop

_METH_FASTCALL, _METH_KEYWORDS = 0x80, 0x02
_DIRECT_ITEMS = 1 << 10
"""Most elements of a call that is one run of the body, without a plan."""
_HELD_NS = 5_000
"""Work that is done with the interpreter's lock held: to give it up and wait for it again costs threads that make small
calls more than the others gain."""
_REFUSALS = (ValueError, OverflowError)  # as NumPy raises them; its other errors stay as they are
_REMEMBERED_DTYPES = 8
"""Tuples of input dtypes that a function tells apart; more of them are left to Python."""
_PREPARED_CALLS = 16
"""Prepared calls that a function looks through."""
_MAY_REPLACE = "t" not in sys.abiflags
"""Without the interpreter's lock another thread may be looking at a record: none is given up then."""
_NUMBER = -1  # the rank of a Python number
_OUT = sys.intern("out")  # names of keyword arguments in calls are interned


_RECORD_FIELDS = 11
_RELEASES = 9
"""The field that says whether other Python threads run meanwhile."""
_LIKE_NO_CALL = (ctypes.c_void_p * _RECORD_FIELDS)()
"""A record of an entry that does not exist, where there is none yet."""


class _MethodDef(ctypes.Structure):
    """PyMethodDef of Python's C API."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@functools.cache
def _method() -> _MethodDef:
    entry = native.support().exports["fl_call"]
    doc = (
        b"kernel(*operands, out=None, **named_operands)\n--\n\n"
        b"Call the kernel on arrays that broadcast; out= takes an array, or a tuple with one for each output."
    )
    return _MethodDef(b"kernel", entry, _METH_FASTCALL | _METH_KEYWORDS, doc)


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class FastCall:
    """Owns the memory behind one such function.

    Args:
        slow: the Python function that takes every call which is not of the remembered kind.
        few_rows: most rows of operands that are not all contiguous and of one shape; 0 where shapes must be equal.
        single: whether there is one output, so that ``out`` is an array and not a tuple.
    """

    def __init__(self, slow: Callable[..., Any], few_rows: int, single: bool) -> None:
        self._few_rows = few_rows
        self._records: list[_Record | None] = [None] * _PREPARED_CALLS
        self._places: dict[tuple[Any, ...], int] = {}  # of the records, by what makes a call like theirs
        self._next_record = 0
        self._table = (ctypes.c_void_p * (1 + _PREPARED_CALLS))(0, *[ctypes.addressof(_LIKE_NO_CALL)] * _PREPARED_CALLS)
        self._lock = Lock()
        out_type = np.ndarray if single else tuple
        fields = (
            None,
            id(slow),
            id(np.ndarray),
            object.__basicsize__,
            id(_OUT),
            id(out_type),
            id(_REFUSALS),
            arrays.new_from_descr(),
            ctypes.addressof(self._table),
            id(threads.limit_variable),
            ctypes.addressof(threads.current_place),
            0,
            recycle.store_address(),
        )
        self._caller = (ctypes.c_void_p * len(fields))(*fields)
        self._entries: dict[tuple[np.dtype[Any], ...], tuple[Any, ...]] = {}
        capsule = _new_capsule(ctypes.addressof(self._caller), None, None)
        method = _method()
        # The module's names may be gone before the last call, which a finalizer may make.
        named = (_OUT, out_type, _REFUSALS, _LIKE_NO_CALL, threads.limit_variable, threads.current_place)
        kept = (capsule, method, slow, self._caller, self._entries, self._table, self._records, named)
        self.function: Callable[..., Any] = _new_function(ctypes.addressof(method), kept, None)
        """Keeps alive everything it needs, this object not."""

    def remember(
        self, loop: Loop, ufunc: np.ufunc | None, small_items: int | None, wrap: Callable[[Any], Any] | None
    ) -> None:
        """Send calls of at most ``small_items`` elements with operands of exactly the dtypes of ``loop`` to it, or to
        ``ufunc``, which has it alone. With None for both only prepared calls are sent anywhere.

        ``wrap`` makes the result of a tuple of several outputs.

        An entry is never changed or freed while the function lives: another thread may be reading it.
        """
        dtypes = loop.inputs
        with self._lock:
            if dtypes in self._entries or len(self._entries) >= _REMEMBERED_DTYPES:
                return
            wrap_address = id(wrap) if wrap is not None else None
            int_type, float_type = _standing_for(dtypes)
            ufunc_end, direct_end = (small_items + 1, _DIRECT_ITEMS + 1) if small_items is not None else (0, 0)
            head = [id(ufunc), wrap_address, len(dtypes), ufunc_end, self._few_rows, int_type, float_type]
            head += [direct_end, loop.record_address, _number_kind(dtypes), self._caller[0]]
            operands = loop.inputs + loop.outputs
            fields = [*head, *map(id, operands), *map(_scalar_type, operands)]
            known = ((ctypes.c_void_p * len(fields))(*fields), dtypes, ufunc, wrap, loop)
            self._entries[dtypes] = known
            native.publish(ctypes.addressof(self._caller), ctypes.addressof(known[0]))

    def prepare(self, prepared: iterate.Prepared, numbers: Sequence[bool], limit: object) -> None:
        """Let calls like ``prepared`` go straight to its loop nest.

        Args:
            prepared: a call whose dtypes have been remembered.
            numbers: for each input, whether it was a Python number in the dtype of the arrays.
            limit: the value of `threads.limit_variable` that it was prepared for.
        """
        known = self._entries.get(prepared.loop.inputs)
        if known is None or not prepared.shape or not prepared.is_one_dispatch:
            return
        if any(numbers) and not _number_kind(prepared.loop.inputs):
            return
        key: tuple[Any, ...] = (prepared.loop.inputs, prepared.shapes, prepared.strides, tuple(numbers))
        key += (limit,) if prepared.depends_on_limit else ()
        with self._lock:
            if key in self._places:
                return
            record = _Record(prepared, numbers, limit, known)
            place = len(self._places)
            if place >= _PREPARED_CALLS:
                if not _MAY_REPLACE:
                    return
                place = self._next_record
                self._next_record = (place + 1) % _PREPARED_CALLS
            # An interrupt may come between any two of these lines, and a handler of signals may call the kernel: what
            # the table points to is alive at each of them.
            self._table[1 + place] = ctypes.addressof(_LIKE_NO_CALL)
            self._records[place] = record
            self._table[1 + place] = record.address
            native.publish(ctypes.addressof(self._table), max(self._table[0] or 0, place + 1))
            self._places = {**{k: p for k, p in self._places.items() if p != place}, key: place}


class _Record:
    """A `%prepared` of native/prepared.ll and everything that it points to."""

    __slots__ = ("__weakref__", "_entry", "_fields", "_job", "_layouts", "_limit", "_prepared")

    def __init__(
        self, prepared: iterate.Prepared, numbers: Sequence[bool], limit: object, entry: tuple[Any, ...]
    ) -> None:
        plan = prepared.plan
        self._prepared, self._entry = prepared, entry
        self._limit = limit if prepared.depends_on_limit else None
        self._job = ctypes.create_string_buffer(prepared.job)
        layouts = _layouts(prepared, numbers)
        self._layouts = (ctypes.c_int64 * sum(map(len, layouts)))(*[value for layout in layouts for value in layout])
        self._fields = (ctypes.c_void_p * _RECORD_FIELDS)(
            ctypes.addressof(entry[0]),
            id(self),
            id(limit) if prepared.depends_on_limit else None,
            ctypes.addressof(self._layouts),
            8 * len(layouts[0]),
            ctypes.addressof(self._job),
            plan.helpers,
            prepared.flags,
            recycle.SMALLEST_BYTES,
            plan.items > max(_DIRECT_ITEMS, int(_HELD_NS / prepared.loop.item_ns)),
            None,
        )

    @property
    def address(self) -> int:
        return ctypes.addressof(self._fields)


def _layouts(prepared: iterate.Prepared, numbers: Sequence[bool]) -> list[list[int]]:
    """The `%layout` of each operand, all of one length."""
    most_axes = max(map(len, prepared.shapes))
    dtypes = prepared.loop.inputs + prepared.loop.outputs
    likeness: dict[object, int] = {}
    found = []
    for i, (shape, strides) in enumerate(zip(prepared.shapes, prepared.strides, strict=True)):
        item = dtypes[i].itemsize
        steps = [step * (length - 1) for step, length in zip(strides, shape, strict=True)]
        low, high = sum(min(s, 0) for s in steps), sum(max(s, 0) for s in steps) + item
        rank = _NUMBER if i < len(numbers) and numbers[i] else len(shape)
        start = prepared.plan.nest.offsets[i]
        number = likeness.setdefault((shape, strides, item), len(likeness))
        padding = [0] * (2 * (most_axes - len(shape)))
        found.append([rank, low, high, start, number, *shape, *strides, *padding])
    return found


def _scalar_type(dtype: np.dtype[Any]) -> int | None:
    """Address of the type of NumPy's own scalars of ``dtype``."""
    return id(dtype.type) if dtype.num < arrays.FIRST_USER_TYPE and arrays.scalars_are_known() else None


def _standing_for(dtypes: tuple[np.dtype[Any], ...]) -> tuple[int | None, int | None]:
    """Addresses of int and float where a Python number beside arrays of these dtypes takes their dtype (NEP 50)."""
    first = dtypes[0]
    if any(d != first for d in dtypes) or first.kind not in "iuf":
        return None, None
    return id(int), id(float) if first.kind == "f" else None


def _number_kind(dtypes: tuple[np.dtype[Any], ...]) -> int:
    """How native code converts such numbers: as floats (1), signed (2) or unsigned integers (3), or not at all."""
    if _standing_for(dtypes)[0] is None:
        return 0
    first = dtypes[0]
    return {"f": 1 if first.itemsize >= 4 else 0, "i": 2, "u": 3}[first.kind]
