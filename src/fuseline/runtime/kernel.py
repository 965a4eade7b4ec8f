"""What a user calls: arrays in, arrays out, by the specialisation that their dtypes ask for.

A small call goes straight through a ufunc that has this one specialisation, so NumPy's C code does the iteration; a
large one is run by `iterate`. Both run the same body.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuseline.errors import TypeRuleError, UnsupportedError
from fuseline.floating_point import in_default_environment
from fuseline.ir.call_numbers import Limits, check_limits
from fuseline.ir.dtype import DType
from fuseline.runtime import arrays as array_layout
from fuseline.runtime import iterate, nest, recycle, threads
from fuseline.runtime.fastcall import FastCall
from fuseline.runtime.locks import Lock
from fuseline.runtime.loop import Loop
from fuseline.runtime.operands import (
    Array,
    DTypes,
    OperandTypes,
    WeakDType,
    as_arrays,
    long_integers,
    out_of_range,
    protocol_operands,
    speaks_for_itself,
)
from fuseline.runtime.signature import Signature
from fuseline.runtime.ufunc import OPERAND_LIMIT, is_subinterpreter, make_ufunc, obstacle_to_ufunc, refusing_loop

SMALL_ITEMS, LARGEST_SMALL_ITEMS = 1 << 15, 1 << 18
"""Results of at most so many elements go through NumPy's iteration where that is one loop: the first for any program,
the second for the cheapest. Larger results are worth recycling."""
FEW_ROWS = 64
"""Operands that are not contiguous and of one shape go that way too if they have at most this many rows."""
_PREPARED_IN_PYTHON = 256
"""Calls that are remembered with all that is known of them; the last few also in native code, see `FastCall`."""


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A loop and the ufunc that has it alone; no ufunc where NumPy's limit of operands is exceeded."""

    loop: Loop
    ufunc: np.ufunc | None
    limits: Limits = field(default_factory=dict)
    """What Python integers among the inputs may be; see `WeakDType`."""


class _UfuncOnce:
    """The attribute `ElementwiseKernel.ufunc`: made when it is first read, and from then on the instance's own, which
    costs a call no look at a property."""

    def __get__(self, kernel: ElementwiseKernel | None, owner: type[Any]) -> Any:
        """The kernel as a `numpy.ufunc` with a loop for each of the signatures that the program admits, and loops that
        raise what the kernel does for those that NumPy would widen to them.

        Raises `UnsupportedError` where NumPy allows no such ufunc (more than 64 operands, or no input), and in a
        sub-interpreter.
        """
        if kernel is None:
            return self
        if is_subinterpreter():
            raise UnsupportedError(
                f"{kernel.signature.name} has no ufunc in a sub-interpreter, where it could not compile its loops; "
                "call the kernel itself"
            )
        with kernel._lock:
            made = kernel.__dict__.get("ufunc")
            if made is None:
                loops = kernel._ufunc_loops()
                made = kernel.__dict__["ufunc"] = make_ufunc(kernel.signature.name, kernel.__doc__ or "", loops)
            return made


class ElementwiseKernel:
    """A callable over arrays of any shapes that broadcast.

    Args:
        signature: names; the ufunc is called as the kernel is.
        doc: documentation of the ufunc.
        specialise: the `Loop` for given input dtypes, with the output dtypes decided and nothing compiled, and limits
            of Python's integers among the inputs. It raises `TypeRuleError` for dtypes that the program does not admit.
            Called once for each tuple of dtypes.
        signatures: input dtypes of the loops that `ufunc` shall have where the program admits them, in NumPy's order of
            preference; a function, since they are needed only when somebody asks for the ufunc.
        reads: for each output, the inputs that it depends on, as a number whose bit i stands for input i: its shape is
            what these broadcast to. Every input for every output when None.
        check_shapes: raises `ShapeError` for input shapes that the program's declarations forbid, by name; None where
            there are no declarations.
        declared: for each input, the dtype that the program declares, which a Python number then takes; None for all
            of them where none is declared.
    """

    # An instance's call is looked up on its type, which finds this slot: no Python frame stands before the builtin.
    __slots__ = (
        "__call__", "__dict__", "__weakref__", "_check_shapes", "_fast", "_input_count", "_known", "_lock",
        "_pack", "_prepared", "_remembered", "_signatures", "_single", "_specialise", "signature",
    )  # fmt: skip
    __call__: Callable[..., Any]

    def __init__(
        self,
        signature: Signature,
        doc: str,
        specialise: Callable[[OperandTypes], tuple[Loop, Limits]],
        signatures: Callable[[], Sequence[DTypes]],
        reads: Sequence[int] | None = None,
        check_shapes: Callable[[Mapping[str, nest.Shape]], None] | None = None,
        declared: Sequence[DType | None] | None = None,
    ) -> None:
        self.signature = signature
        self.__doc__ = doc
        self._specialise = specialise
        self._signatures = signatures
        self._check_shapes = check_shapes
        self._input_count = len(self.signature.inputs)
        self._declared = tuple(declared) if declared is not None else (None,) * self._input_count
        everything = (1 << self._input_count) - 1
        self._reads = tuple(reads) if reads is not None else (everything,) * len(self.signature.outputs)
        self._reads_evenly = all(r == everything for r in self._reads)
        self._has_constant_output = self._input_count > 0 and not all(self._reads)
        self._single = self.signature.is_single
        # What `_make` does, without a Python frame; a single result is returned as it is.
        several = tuple if self._single else self.signature.result_type
        self._pack: Callable[[Any], Any] = functools.partial(tuple.__new__, several)
        self._known: dict[tuple[Any, ...], Specialisation] = {}
        self._lock = Lock()
        few_rows = FEW_ROWS if self._reads_evenly else 0
        self._fast = FastCall(self._python_call, few_rows, self._single) if array_layout.is_known() else None
        self._remembered: OperandTypes | None = None
        self._prepared: dict[tuple[Any, ...], iterate.Prepared] = {}
        self._protocol_ufuncs: dict[OperandTypes, np.ufunc] = {}
        self.__call__ = self._fast.function if self._fast else self._python_call

    ufunc = _UfuncOnce()

    def specialisation(self, dtypes: OperandTypes) -> Specialisation:
        """The specialisation for input dtypes in native byte order."""
        found = self._known.get(dtypes)
        if found is None:
            with self._lock:
                found = self._known.get(dtypes) or self._specialised(dtypes)
        return found

    def _ufunc_loops(self) -> list[Loop]:
        """The loops of `ufunc`, in the order of its signatures.

        A dtype without a loop NumPy widens to the next that has one, and so it would compute what the kernel refuses:
        there it finds a loop that refuses too, as it finds none for the difference of booleans.
        """
        found: list[tuple[DTypes, Loop | Exception]] = []
        for dtypes in self._signatures():
            try:
                found.append((dtypes, self.specialisation(dtypes).loop))
            except (TypeRuleError, ArithmeticError) as error:  # a rule refuses the dtype, or a number does not fit it
                found.append((dtypes, error))
        admitted = [dtypes for dtypes, loop in found if isinstance(loop, Loop)]
        output_count = len(self.signature.outputs)
        return [
            loop if isinstance(loop, Loop) else refusing_loop(dtypes, output_count, loop)
            for dtypes, loop in found
            if isinstance(loop, Loop) or not admitted or any(_is_widened(dtypes, wider) for wider in admitted)
        ]

    def _specialised(self, dtypes: OperandTypes) -> Specialisation:
        loop, limits = self._specialise(dtypes)
        has_ufunc = not obstacle_to_ufunc(len(loop.inputs), len(loop.outputs))
        ufunc = make_ufunc(self.signature.name, self.__doc__ or "", [loop]) if has_ufunc else None
        made = Specialisation(loop, ufunc, limits)
        self._known[dtypes] = made
        return made

    def _remember(self, dtypes: OperandTypes, made: Specialisation) -> None:
        """Let the next calls with these dtypes go straight to the ufunc, if they are small, or to a loop nest that has
        been prepared. Where shapes are declared, only what is prepared has been checked."""
        if self._fast is not None and made.ufunc is not None and not self._has_constant_output:
            wrap = None if self._single else self._pack
            most_items = small_items(made.loop) if self._check_shapes is None else None
            self._fast.remember(made.loop, made.ufunc, most_items, wrap)
        self._remembered = dtypes

    def _python_call(self, /, *args: Any, **named: Any) -> Any:
        """``kernel(x, b, r)``, by name, or with ``out=`` (an array, or a tuple with one or None for each output)."""
        if any(isinstance(a, np.generic) for a in args):  # arrays of no axes take the short ways that scalars do not
            return self.__call__(*[np.asarray(a) if isinstance(a, np.generic) else a for a in args], **named)
        if self._prepared and (not named or (len(named) == 1 and "out" in named)):
            prepared = self._prepared.get(_signature_of(args))
            if prepared is not None:
                out = named.get("out")
                outputs = out if out is None or type(out) is tuple else (out,)
                results = iterate.run_prepared(prepared, args, outputs)
                if results is not None:
                    return self.signature.result(results)
        return self._call(args, named)

    @in_default_environment  # for what NumPy converts and copies on the way; bodies enter it themselves
    def _call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        out = named.pop("out", None)
        if out is ...:
            return self.signature.with_arrays(self._call(args, named))
        if named or len(args) != self._input_count:
            values = self.signature.operands(args, named)
            if self._fast is not None:
                return self._fast.function(*values) if out is None else self._fast.function(*values, out=out)
        else:
            values = args
        outputs = self.signature.places(out)
        if any(speaks_for_itself(v) for v in (*values, *outputs)):
            return self._call_foreign(values, outputs if out is not None else None)
        if (long := long_integers(values, self.signature.inputs, self._declared)) is not None:
            return self._call_with_long_integers(values, outputs, long)
        arrays, dtypes = as_arrays(values, self.signature.inputs, self._declared)
        if self._check_shapes is not None:
            self._check_shapes({name: a.shape for name, a in zip(self.signature.inputs, arrays, strict=True)})
        made = self.specialisation(dtypes)
        check_limits(made.limits, self.signature.inputs, values)
        # What a number is converted to by each operation is not known to what repeats calls.
        is_repeatable = not any(isinstance(d, WeakDType) for d in dtypes)
        if is_repeatable and self._remembered is not dtypes and self._remembered != dtypes:
            self._remember(dtypes, made)
        results = self._run(made, arrays, outputs, values if is_repeatable else None)
        return self.signature.result(results)

    def _call_with_long_integers(
        self, values: Sequence[Any], outputs: Sequence[Array | None], long: Mapping[str, int]
    ) -> Any:
        """A call with integers of `long_integers`; only who knows the program can do more than refuse them."""
        raise out_of_range(long)

    def _call_foreign(self, values: Sequence[Any], outputs: Sequence[Any] | None) -> Any:
        """A call with operands that take part in NumPy's ufunc protocol, which therefore decides."""
        if self._input_count + len(self.signature.outputs) > OPERAND_LIMIT:
            raise UnsupportedError(
                f"arrays of other libraries are handed to a NumPy ufunc, which has at most {OPERAND_LIMIT} operands; "
                f"{self.signature.name} has more; give it plain arrays, as in np.asarray(x)"
            )
        results = self._by_protocol(values, {} if outputs is None else {"out": tuple(outputs)})
        several = isinstance(results, tuple) and len(results) == len(self.signature.outputs)
        return self.signature.result(results) if several and not self._single else results

    def _by_protocol(self, values: Sequence[Any], options: dict[str, Any]) -> Any:
        """What NumPy's protocol makes of the operands."""
        ufunc, operands = self._for_protocol(values)
        return ufunc(*operands, **options)

    def _for_protocol(self, values: Sequence[Any]) -> tuple[np.ufunc, Sequence[Any]]:
        """The ufunc that libraries are handed, and its operands.

        Where these say what dtypes they have, its first loop is that of these dtypes, which promotes operation by
        operation and converts Python's numbers as the kernel does; the loops of `ufunc` have one dtype for all.
        """
        typed = protocol_operands(values, self.signature.inputs, self._declared)
        if typed is None:
            return self.ufunc, values
        operands, dtypes = typed
        made = self.specialisation(dtypes)
        if made.ufunc is None:  # NumPy allows none; this says why
            return self.ufunc, values
        made.loop.body()
        check_limits(made.limits, self.signature.inputs, values)
        return self._ufunc_beginning_with(made, dtypes), operands

    def _ufunc_beginning_with(self, made: Specialisation, dtypes: OperandTypes) -> np.ufunc:
        """The loop of ``made``, and after it those of `ufunc`, of which NumPy takes the first that fits: for libraries
        that change dtypes on the way, as pandas does where it aligns rows."""
        known = self._protocol_ufuncs.get(dtypes)
        if known is not None:
            return known
        with self._lock:
            if is_subinterpreter():  # where a ufunc cannot compile further loops
                assert made.ufunc is not None
                return self._protocol_ufuncs.setdefault(dtypes, made.ufunc)
            others = [loop for loop in self._ufunc_loops() if loop.inputs != made.loop.inputs]
            found = make_ufunc(self.signature.name, self.__doc__ or "", [made.loop, *others])
            return self._protocol_ufuncs.setdefault(dtypes, found)

    def _run(
        self, made: Specialisation, arrays: list[Array], outputs: list[Array | None], values: Sequence[Any] | None
    ) -> list[Any]:
        """The results; calls like this one are prepared where the ``values`` that were given are."""
        if not self._reads_evenly and (self._has_constant_output or len({a.shape for a in arrays}) > 1):
            return self._run_apart(made.loop, arrays, outputs)
        names = (*self.signature.inputs, *self.signature.outputs)
        shape = nest.broadcast_shape([a.shape for a in arrays], names)
        fresh = all(o is None for o in outputs)
        is_small = fresh and _is_one_small_loop(shape, arrays, small_items(made.loop))
        if made.ufunc is not None and is_small and not iterate.has_body_for(made.loop, shape, arrays):
            made.loop.body()  # in a sub-interpreter the ufunc could not compile it
            small = made.ufunc(*arrays)
            if self._fast is not None and values is not None:
                self._prepare(made.loop, arrays, values, None)
            return [small] if self._single else list(small)
        results = iterate.run(made.loop, arrays, outputs, names)
        if values is not None:
            self._prepare(made.loop, arrays, values, results if fresh else None)
        return [r[()] if r.ndim == 0 and o is None else r for r, o in zip(results, outputs, strict=True)]

    def _run_apart(self, loop: Loop, arrays: list[Array], outputs: list[Array | None]) -> list[Any]:
        """Outputs have shapes of their own: those of each shape are a run, in which inputs that it does not need are
        numbers.

        Results are new arrays until all runs are over, so that no run reads what another has written.
        """
        shapes = self._output_shapes([a.shape for a in arrays])
        results: list[Any] = [None] * len(outputs)
        for shape in dict.fromkeys(shapes):
            members = tuple([o for o, own in enumerate(shapes) if own == shape])
            needed = functools.reduce(operator.or_, [self._reads[o] for o in members])
            operands = [a if needed >> i & 1 else np.zeros((), a.dtype) for i, a in enumerate(arrays)]
            computed = iterate.run(loop.for_outputs(members), operands, [None] * len(members))
            for o, result in zip(members, computed, strict=True):
                results[o] = result
        for position, place in enumerate(outputs):
            if place is not None:
                iterate.check_output(place, shapes[position], loop.outputs[position], self.signature.outputs[position])
        for position, place in enumerate(outputs):
            if place is not None:
                np.copyto(place, results[position], casting="same_kind")
                results[position] = place
        return [r[()] if r.ndim == 0 and o is None else r for r, o in zip(results, outputs, strict=True)]

    def _output_shapes(self, shapes: list[nest.Shape]) -> list[nest.Shape]:
        """The shape of each output, for these shapes of the inputs. An output asks each distinct shape once."""
        having: dict[nest.Shape, int] = {}  # the inputs of each shape, as bits
        for i, shape in enumerate(shapes):
            having[shape] = having.get(shape, 0) | 1 << i
        found = []
        for reads in self._reads:
            own = [bits & reads for bits in having.values() if bits & reads]
            firsts = sorted([(bits & -bits).bit_length() - 1 for bits in own])
            found.append(nest.broadcast_shape([shapes[i] for i in firsts], [self.signature.inputs[i] for i in firsts]))
        return found

    def _prepare(self, loop: Loop, arrays: list[Array], values: Sequence[Any], results: list[Array] | None) -> None:
        """Remember this call, so that the next like it needs no thought. ``arrays`` are what ``values`` became."""
        plain = [a is v for a, v in zip(arrays, values, strict=True)]
        numbers = [not is_plain and type(v) in (int, float) for is_plain, v in zip(plain, values, strict=True)]
        if not all(map(operator.or_, plain, numbers)):
            return
        if results is None:  # new results would have been like these
            shape = nest.broadcast_shape([a.shape for a in arrays])
            results = [recycle.empty(shape, dtype, iterate.result_axes(shape, arrays)) for dtype in loop.outputs]
        prepared = iterate.prepare(loop, arrays, results)
        if prepared is None or not prepared.shape:  # a call without axes returns scalars
            return
        if all(plain):
            if len(self._prepared) >= _PREPARED_IN_PYTHON:
                self._prepared.clear()
            self._prepared[_signature_of(tuple(arrays))] = prepared
        if self._fast is not None:
            self._fast.prepare(prepared, numbers, threads.limit_variable.get())


def _is_widened(dtypes: DTypes, wider: DTypes) -> bool:
    """Whether NumPy would give a loop of dtypes ``wider`` operands of ``dtypes``."""
    return all(map(np.can_cast, dtypes, wider))


def small_items(loop: Loop) -> int:
    """Elements up to which a call of ``loop`` is better left to NumPy's iteration and this thread."""
    return max(SMALL_ITEMS, min(LARGEST_SMALL_ITEMS, int(threads.WAKING_PAYS_NS / loop.item_ns)))


def _is_one_small_loop(shape: nest.Shape, arrays: Sequence[Array], most_items: int) -> bool:
    """Whether NumPy would call a loop once or a few times; it calls it for every row of anything less regular."""
    if math.prod(shape) > most_items:
        return False
    return math.prod(shape[:-1]) <= FEW_ROWS or all(
        a.size == 1 or (a.shape == shape and (a.ndim <= 1 or a.flags.c_contiguous)) for a in arrays
    )


def _signature_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What has to be equal for two calls to need the same work; of anything but arrays, something that matches none."""
    try:
        kinds = [(type(a), a.dtype, a.shape, a.strides) for a in args]
    except AttributeError:
        return ()
    return (threads.thread_count(), *kinds)
