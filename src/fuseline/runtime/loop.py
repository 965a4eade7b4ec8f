"""One specialisation of a kernel: the dtypes of its operands and a body that is compiled when it is first needed.

The record that native code reads (`%kernel` in native/block.ll) lives here, so whoever may still run a loop keeps its
`Loop`. Both the ufunc and fuseline's own iteration run the same record.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuseline.codegen.llvm.symbols import LANES_SYMBOL, SIZE_SYMBOL, SYMBOL
from fuseline.errors import UnsupportedError
from fuseline.runtime import native, reserve
from fuseline.runtime.image import LoadedImage, immortal
from fuseline.runtime.locks import Lock

LEAST_ITEM_NS = 0.1
"""What an element takes at least, of a program that only moves it between caches."""
STREAMING, APART, ASKS, UNLESS_AGAIN = 1, 2, 4, 8
"""Flags of a run: outputs bypass the caches; no output is the memory of an input, so elements may be computed twice;
operands come from memory, so lines may be asked for ahead; outputs do not bypass the caches where the call before like
this one wrote the same memory."""

Still = tuple[int, ...]
"""Positions of inputs that stand still: each is one element over a whole run of the body."""
_MOST_VARIANTS, _MOST_KINDS = 8, 256

_HEADER_FIELDS = 6
_BODY, _LANES, _INPUTS, _OPERANDS, _COMPILER, _ARGUMENT = range(_HEADER_FIELDS)
_ITEM_SIZES_BYTES = frozenset({1, 2, 4, 8})


@dataclass(frozen=True, slots=True)
class Body:
    """Compiled inner loop: void(ptr operands, ptr increments, i64 vectors, i64 flags), see native/block.ll."""

    image: LoadedImage

    @property
    def address(self) -> int:
        return self.image.exports[SYMBOL]

    @property
    def lanes(self) -> int:
        """Elements of a vector, which is the unit the body works in; a power of two."""
        lanes: int = ctypes.c_int64.from_address(self.image.exports[LANES_SYMBOL]).value
        return lanes

    @property
    def stack_bytes(self) -> int:
        """What a body with a stack of its own takes for it."""
        at = self.image.exports.get(SIZE_SYMBOL)
        size: int = ctypes.c_int64.from_address(at).value if at is not None else 0
        return size


class Loop:
    """``inputs`` and ``outputs`` are dtypes in native byte order; what ``compile_body`` makes first stays. ``item_ns``
    is about what one thread needs for an element, known before anything is compiled. ``variant`` gives the loop whose
    body knows which inputs stand still and whether the call is large; None where that would gain nothing. ``part``
    gives the loop of some of the outputs, by position, and of all inputs."""

    __slots__ = (
        "__weakref__",
        "_argument",
        "_body",
        "_compile_body",
        "_lock",
        "_part",
        "_parts",
        "_record",
        "_variant",
        "_variants",
        "inputs",
        "item_ns",
        "outputs",
    )

    def __init__(
        self,
        inputs: tuple[np.dtype[Any], ...],
        outputs: tuple[np.dtype[Any], ...],
        compile_body: Callable[[], Body | NativeBody],
        item_ns: float = LEAST_ITEM_NS,
        variant: Variant | None = None,
        part: Part | None = None,
    ) -> None:
        for dtype in inputs + outputs:
            if dtype.itemsize not in _ITEM_SIZES_BYTES or not dtype.isnative:
                raise UnsupportedError(f"compiled loops have no operand of dtype {dtype}; convert it first")
        self.inputs = inputs
        self.outputs = outputs
        self.item_ns = item_ns
        self._compile_body = compile_body
        self._variant = variant
        self._variants: dict[tuple[Still, bool], Loop] = {}
        self._part = part
        self._parts: dict[tuple[int, ...], Loop] = {}
        self._body: Body | NativeBody | None = None
        self._lock = Lock()
        operands = inputs + outputs
        self._record = (ctypes.c_int64 * (_HEADER_FIELDS + len(operands)))()
        self._record[_INPUTS] = len(inputs)
        self._record[_OPERANDS] = len(operands)
        self._argument = self.record_address  # an object that native code hands to the compiler
        self._record[_COMPILER] = id(_compile_record)
        self._record[_ARGUMENT] = id(self._argument)
        self._record[_HEADER_FIELDS:] = [dtype.itemsize for dtype in operands]
        _loops[self.record_address] = self

    @property
    def record_address(self) -> int:
        """Address of the `%kernel` record, valid for as long as this object lives."""
        return ctypes.addressof(self._record)

    @property
    def operand_count(self) -> int:
        return len(self.inputs) + len(self.outputs)

    @property
    def is_compiled(self) -> bool:
        return self._body is not None

    def for_call(self, still: Still, is_large: bool) -> Loop:
        """The loop for runs in which these inputs stand still, in a call that is too large for the caches or not: this
        one, where a body gains nothing by knowing that."""
        if self._variant is None or not (still or is_large):
            return self
        kind = still, is_large
        found = self._variants.get(kind)
        if found is None:
            with self._lock:
                found = self._variants.get(kind)
                if found is None and self._has_room():
                    found = self._variants[kind] = self._variant(still, is_large) or self
        return found or self

    def for_outputs(self, positions: tuple[int, ...]) -> Loop:
        """The loop that computes these outputs alone, in ascending order."""
        if len(positions) == len(self.outputs):
            return self
        assert self._part is not None, "only a program's own loop has parts"
        with self._lock:
            found = self._parts.get(positions) or self._part(positions)
            return self._parts.setdefault(positions, found)

    def _has_room(self) -> bool:
        """Whether one more kind of call may have a body of its own; the kinds that share this one take little."""
        bodies = {id(loop) for loop in self._variants.values()} - {id(self)}
        return len(bodies) < _MOST_VARIANTS and len(self._variants) < _MOST_KINDS

    def body(self) -> Body | NativeBody:
        """The compiled body, compiled now if it was not. Raises whatever the compilation raises."""
        if self._body is not None and self._record[_BODY]:
            return self._body
        with self._lock:
            # An interrupt may come between any two lines: the code is kept before native code learns of it.
            # A handler of signals that came in while it was compiled may have made one, which other threads run by now.
            made = self._body or self._compile_body()
            needed = reserve.needed_bytes(self.operand_count, made.lanes, made.stack_bytes)
            reserve.ensure(needed)
            self._body = self._body or made
            self._record[_LANES] = self._body.lanes
            native.publish(self.record_address, self._body.address)
            return self._body


@dataclass(frozen=True, slots=True)
class NativeBody:
    """A body that is part of the shared code."""

    address: int
    lanes: int
    stack_bytes: int


Variant = Callable[[Still, bool], Loop | None]
Part = Callable[[tuple[int, ...]], Loop]

_loops: weakref.WeakValueDictionary[int, Loop] = weakref.WeakValueDictionary()


def _compile_record(address: int) -> None:
    """Compile for native code that has come to a loop without a body; what this raises is raised there."""
    _loops[address].body()


immortal(_compile_record)  # loops outlive this module's names where finalizers run after it
