"""The one kind of node: immutable and interned, so that equal nodes are the same object.

Common subexpressions therefore never exist twice, and every memo table is keyed by identity.
"""

from __future__ import annotations

import math
import os
import struct
import threading
import weakref
from collections import deque
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from fuseline.ir.dtype import F32, F64, DType
from fuseline.ir.types import TensorType, Type
from fuseline.ops import OPERATIONS

_SOURCES = frozenset(name for name, row in OPERATIONS.items() if row.index_rule == "source")
Attrs = tuple[tuple[str, Any], ...]
Number = bool | int | float


class Node:
    """An operation applied to nodes. Make one with `make`, never directly.

    ``op`` is a name in `ops.OPERATIONS`; ``attrs`` are (name, value) pairs sorted by name; ``type`` is None in an
    untyped program.
    """

    __slots__ = ("__weakref__", "args", "attrs", "op", "type")

    op: str
    args: tuple[Node, ...]
    attrs: Attrs
    type: Type | None

    def __init__(self) -> None:
        raise TypeError("nodes are interned: use fuseline.ir.node.make")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("nodes are immutable")

    def __reduce__(self) -> Any:
        raise TypeError("a node is pickled as part of its graph, which writes its text form")

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: object) -> Node:
        return self

    @property
    def tensor(self) -> TensorType:
        """The type of a node that is one typed tensor."""
        type_ = self.type
        assert type_.__class__ is TensorType, f"{self.op} has no tensor type"
        return type_

    @property
    def dtype(self) -> DType:
        """The element type of a node that is one typed tensor."""
        return self.type.dtype  # type: ignore[union-attr]  # `tensor` checks it; this is asked too often for a call

    @property
    def is_source(self) -> bool:
        """Whether this is an input or a number rather than an instruction."""
        return self.op in _SOURCES

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute called ``name``."""
        for key, value in self.attrs:
            if key == name:
                return value
        return default

    def __repr__(self) -> str:
        attrs = "".join(f" {k}={v}" for k, v in self.attrs)
        return f"<{self.op}{attrs} {self.type or 'untyped'}, {len(self.args)} args>"


class _Entry(weakref.ref[Node]):
    """A weak reference that knows its key, so that a node that dies takes its row out of the table."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_table: dict[tuple[Any, ...], _Entry] = {}
_dead: deque[weakref.ref[Node]] = deque()
"""Rows of the table whose nodes are gone.

The next `make` takes them out. A callback that did it itself would wait for the lock, on whatever thread the collector
happens to run, and whoever holds the lock may be waiting for that thread.
"""
_lock = threading.RLock()  # a handler of signals may build a graph while its thread is in here
if hasattr(os, "register_at_fork"):  # a forked child must not find the table in the middle of a change
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_set = object.__setattr__


def make(op: str, args: tuple[Node, ...] = (), attrs: Attrs = (), type: Type | None = None) -> Node:
    """The node with these parts: the existing one if there is one."""
    # The key holds identities, not nodes: a table that owned its operands would free a deep graph recursively. A tensor
    # type stands in it by its parts, which hash faster.
    parts = (type.dtype, type.shape) if type.__class__ is TensorType else type
    key = (op, tuple(map(id, args)), attrs, parts)
    with _lock:
        if _dead:
            _forget_the_dead()
        entry = _table.get(key)
        node = entry() if entry is not None else None
        if node is None:
            node = Node.__new__(Node)
            _set(node, "op", op)
            _set(node, "args", args)
            _set(node, "attrs", attrs)
            _set(node, "type", type)
            entry = _Entry(node, _dead.append)
            entry.key = key
            _table[key] = entry
    return node


def _forget_the_dead() -> None:
    """Take out the rows of nodes that are gone, but where an equal node took the row since. Under the lock."""
    while True:
        try:
            entry = _dead.popleft()
        except IndexError:  # also where a handler of signals has taken the last one just now
            return
        assert isinstance(entry, _Entry)
        if _table.get(entry.key) is entry:
            _table.pop(entry.key, None)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Attributes hold bit patterns, because NaN is not equal to itself and -0.0 equals 0.0. A number of a 16-bit float dtype
# is carried as float32 like every value of that dtype: only outputs and casts round (SEMANTICS.md P2). A Python NaN is
# one number: the sign that inf - inf gives it depends on the machine.


def literal(value: Number) -> Node:
    """An untyped number, as it stands in a formula."""
    return make("literal", (), (("value", _encode(value)),))


def literal_value(node: Node) -> Number:
    """The number of a `literal`."""
    return _decode(node.attr("value"))


def _encode(value: Number) -> tuple[str, int]:
    if isinstance(value, bool):
        return ("bool", int(value))
    if isinstance(value, int):
        return ("int", value)
    return ("float", struct.unpack("<q", struct.pack("<d", value if value == value else math.nan))[0])


def _decode(encoded: tuple[str, int]) -> Number:
    kind, bits = encoded
    if kind == "bool":
        return bool(bits)
    if kind == "int":
        return bits
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def const(value: Any, d: DType) -> Node:
    """A number of dtype ``d``: a Python number or NumPy scalar, rounded once to the dtype ``d`` is computed in."""
    return const_bits(number_bits(value, d), d)


def const_bits(bits: int, d: DType) -> Node:
    """A number of dtype ``d`` given by its bit pattern in the dtype that ``d`` is computed in."""
    return make("const", (), (("bits", bits),), _scalar(d))


@cache
def _scalar(d: DType) -> TensorType:
    return TensorType(d, ())


def number_bits(value: Any, d: DType) -> int:
    """The bit pattern of ``value`` rounded once to the dtype that ``d`` is computed in."""
    d = d.computed
    if value.__class__ is float and d in _PATTERNS:  # the common case, without an array
        number, pattern = _PATTERNS[d]
        # A comparison would raise the processor's invalid flag, which a caller may be watching.
        with suppress(OverflowError):  # where it does not fit a float32
            bits: int = pattern.unpack(number.pack(math.nan if math.isnan(value) else value))[0]
            return bits
    with np.errstate(all="ignore"):
        array = np.asarray(value).astype(d.numpy)
    return int.from_bytes(array.astype(array.dtype.newbyteorder("<")).tobytes(), "little")


_PATTERNS = {F32: (struct.Struct("<f"), struct.Struct("<I")), F64: (struct.Struct("<d"), struct.Struct("<Q"))}
"""How numbers of a dtype and their bit patterns are packed."""


def const_array(node: Node) -> np.ndarray[Any, np.dtype[Any]]:
    """The value of a `const` as a 0-d array of the dtype it is computed in."""
    d = node.dtype.computed
    bits: np.ndarray[Any, np.dtype[Any]] = np.asarray(node.attr("bits"), _UNSIGNED[d.bits])
    return bits.view(d.numpy)


def const_value(node: Node) -> Number:
    """The value of a `const` as a Python number, which holds it exactly."""
    return bits_value(node.attrs[0][1], node.dtype)


def bits_value(bits: int, d: DType) -> Number:
    """The number that has this bit pattern in the dtype that ``d`` is computed in."""
    d = d.computed
    if d in _PATTERNS:  # without an array: floats are nearly all
        number, pattern = _PATTERNS[d]
        value: Number = number.unpack(pattern.pack(bits))[0]
    else:
        value = np.asarray(bits, _UNSIGNED[d.bits]).view(d.numpy).item()
    return value


_UNSIGNED = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
