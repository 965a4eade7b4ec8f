"""`compile` and `fuse`: a program as a callable over arrays.

An elementwise program runs as compiled code and is a NumPy ufunc as well; one with reductions runs in stages.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fuseline.api.declared import KERNEL_DTYPES, check_shapes, declared_dtype, declared_dtypes, reads_of
from fuseline.api.emitting import emit_text
from fuseline.api.program import Source, as_program
from fuseline.api.program import graph as graph_of
from fuseline.codegen.targets import EmitTarget, Functions
from fuseline.errors import LiteralError, TraceError, TypeRuleError, UnsupportedError, UsageError
from fuseline.floating_point import in_default_environment
from fuseline.ir.call_numbers import Limits, check_limits
from fuseline.ir.dtype import DTYPES, F32, DType
from fuseline.ir.graph import Graph
from fuseline.ir.names import is_name
from fuseline.ir.program import Program
from fuseline.ir.size import Shape
from fuseline.ir.specialise import specialise_for_numbers
from fuseline.ir.types import TensorType
from fuseline.ops import OPERATIONS
from fuseline.passes.pipeline import optimize
from fuseline.runtime import iterate, protocol
from fuseline.runtime.compile import elementwise_loop
from fuseline.runtime.kernel import ElementwiseKernel
from fuseline.runtime.locks import Lock
from fuseline.runtime.loop import Loop
from fuseline.runtime.operands import (
    DTypes,
    OperandTypes,
    WeakDType,
    as_arrays,
    long_integers,
    out_of_range,
    speaks_for_itself,
)
from fuseline.runtime.signature import Signature
from fuseline.runtime.ufunc import obstacle_to_ufunc

if TYPE_CHECKING:
    import inspect

    from fuseline.runtime.staged import StagedProgram

_AXES_UNKNOWN = "the axes of the reductions are not known, so they share no loops; give a shape"


def compile(source: Source, outputs: Sequence[str] | None = None, *, name: str | None = None) -> Kernel:
    """A kernel for a text (a formula, or a graph's text form), a Python function, a graph or a program.

    Args:
        source: what to compute.
        outputs: names to return; by default those that no statement reads.
        name: name of the kernel, of its ufunc and of its named tuples.

    Nothing is compiled before the dtypes are known: each combination is compiled at its first call and kept.

    Raises `FormulaError` and its kin for what is no program, `UsageError` for a name that Python does not take.
    """
    program = as_program(source, outputs)
    if name is not None and not is_name(name):
        raise UsageError(
            f"name is {name!r:.60}, which cannot be the name of a kernel: its results are a named tuple of that name"
        )
    return kernel_of(program, name or _name_of(source))


@overload
def fuse(function: Callable[..., Any], *, name: str | None = None) -> Kernel: ...


@overload
def fuse(function: None = None, *, name: str | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...


def fuse(function: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Decorator: the kernel of a Python function written with operators and NumPy's functions.

    The function is called once, with stand-ins that record what it does. Usable bare or as ``@fuse(name="gelu")``. The
    kernel has the function's name, module and documentation, and the function itself as ``__wrapped__``.
    """
    if function is None:
        return functools.partial(fuse, name=name)
    kernel = compile(function, name=name)
    kernel.__wrapped__ = function
    kernel.__doc__ = function.__doc__ or kernel.__doc__
    kernel.__module__ = getattr(function, "__module__", None) or kernel.__module__
    if name is None:
        kernel.__name__ = getattr(function, "__name__", kernel.name)
        kernel.__qualname__ = getattr(function, "__qualname__", kernel.name)
    return kernel


def _name_of(source: Source) -> str:
    given = str(getattr(source, "__name__", "kernel"))
    name = "".join(c if c.isalnum() else "_" for c in given)
    return name if name.isidentifier() and not name.startswith("_") else "kernel"


def kernel_of(program: Program, name: str) -> Kernel:
    """The kind of kernel that ``program`` needs."""
    made: Kernel
    if _reduces(program):
        made = ReducingKernel(program, name)
    else:
        made = CapturingKernel(program, name) if program.captures else UfuncKernel(program, name)
    made.__name__ = made.__qualname__ = name
    return made


class Kernel:
    """A compiled program. Call it with arrays, by position or by name, and ``out=`` if results have a place already.

    One output is returned as an array, several as a named tuple. Arrays broadcast; dtypes follow NumPy's promotion;
    results do not depend on layout, length or threads.
    """

    program: Program
    signature: Signature
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    if TYPE_CHECKING:  # each kind of kernel has its own
        __call__: Callable[..., Any]

        @property
        def ufunc(self) -> np.ufunc:
            """The kernel as a `numpy.ufunc`; `UnsupportedError` where there is none."""

    @property
    def name(self) -> str:
        """What results of several outputs, and the ufunc, are called."""
        return self.signature.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the operands, in call order."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results."""
        return self.signature.outputs

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect.signature` and editors show: the inputs, and ``out``."""
        return self.signature.for_python()

    # ── what it is ──

    @functools.cached_property
    def graph(self) -> Graph:
        """The optimised graph of the default specialisation: float32 where nothing is declared."""
        try:
            return self._graph_in(F32)
        except TypeRuleError as error:
            raise TypeRuleError(
                f"{error}\ninputs that are not declared are float32 here: declare them, or name their dtype, as in "
                f'kernel.emit(target, dtype="i32") or fuseline.graph(kernel, "i32")'
            ) from None

    def _graph_in(
        self, dtype: DType | str, shape: Shape | None = None, sizes: Mapping[str, int] | None = None
    ) -> Graph:
        """The optimised graph with ``dtype`` and ``shape`` for inputs that are not declared."""
        return optimize(graph_of(self.program, dtype, None, shape, sizes))

    def emit(
        self,
        target: EmitTarget = "c",
        *,
        dtype: DType | str | None = None,
        shape: Shape | None = None,
        sizes: Mapping[str, int] | None = None,
        functions: Functions = "own",
        header: bool = False,
    ) -> str:
        """The program as text: what ``fuseline emit`` writes of it, as a function of the kernel's name.

        Args:
            target: NumPy calls (``numpy``, and ``numpy-planned`` in one allocation), C11 (``c``), LLVM IR (``llvm``),
                assembly of this machine's body (``asm``), the ``graph`` in its text form, or its loops (``nest``).
            dtype: dtype of the inputs that are not declared; float32 unless given.
            shape: their shape; any unless given.
            sizes: values of named sizes; those without one stay symbolic.
            functions: in C, our own functions written out, or calls of the C library (``libm``).
            header: the header of the C text instead.

        Raises `UnsupportedError` for a program that the target cannot express and for options of C with another
        target, `UnknownNameError` for a target that does not exist.
        """
        default = dtype is None and shape is None and sizes is None
        graph = self.graph if default else self._graph_in(F32 if dtype is None else dtype, shape, sizes)
        emitted = emit_text(graph, target, self.name, functions=functions, header=header)
        return f"# {_AXES_UNKNOWN}\n{emitted.text}" if emitted.axes_unknown else emitted.text

    def __repr__(self) -> str:
        return f"<fuseline kernel {self.__doc__ if self.__doc__ else self.name}>"

    def __reduce__(self) -> Any:
        shown = {key: getattr(self, key) for key in ("__doc__", "__name__", "__qualname__", "__module__")}
        return kernel_of, (self.program, self.name), shown

    def _recorded(self, values: Sequence[Any], out: Any) -> Any:
        """The results of a call in a function that is being traced, which this program becomes part of; else None."""
        from fuseline.frontends.trace import recording_of

        recording = recording_of(values)
        if recording is None:
            return None
        if out is not None:
            raise TraceError(f"{recording.name}: {self.name} with out= cannot be recorded; return its result")
        results = recording.inline(self.program, dict(zip(self.inputs, values, strict=True)))
        return self.signature.result(results)

    # ── specialising ──

    def typed_graph(self, dtypes: OperandTypes) -> Graph:
        """The optimised graph for these input dtypes, one for each input, shapes left open."""
        if not isinstance(dtypes, Sequence) or len(dtypes) != len(self.inputs):
            raise TypeRuleError(
                f"dtypes are NumPy dtypes, one for each of {', '.join(self.inputs)}, not {dtypes!r:.60}"
            )
        return optimize(self._specialised_graph(dtypes)[0])

    def _specialised_graph(
        self,
        dtypes: OperandTypes,
        shapes: Sequence[tuple[int, ...]] | None = None,
        known: Mapping[str, int] = MappingProxyType({}),
    ) -> tuple[Graph, Limits]:
        """The graph before any pass, and the limits of Python's integers among the inputs; ``known`` inputs are
        numbers of the program."""
        types: dict[str, TensorType] = {}
        numbers: list[str] = []
        for i, (declared, given) in enumerate(zip(self.program.inputs, dtypes, strict=True)):
            if isinstance(given, WeakDType):
                numbers.append(declared.name)
                given = given.dtype
            shape = None if shapes is None else tuple(map(int, shapes[i]))
            types[declared.name] = TensorType(declared_dtype(declared, given), shape)
        return specialise_for_numbers(self.program, types, frozenset(numbers), known)

    def _call_with_long_integers(
        self, values: Sequence[Any], outputs: Sequence[np.ndarray[Any, Any] | None], long: Mapping[str, int]
    ) -> Any:
        """A call with integers that no dtype is known for before they meet others: they mean what they do in the text
        of a program, so that there is another graph for each. It is interpreted, with the bits of what is compiled."""
        from fuseline.ir.interpret import interpret
        from fuseline.mathlib.expand import expand

        plain = [0 if name in long else v for name, v in zip(self.inputs, values, strict=True)]
        arrays, dtypes = as_arrays(plain, self.inputs, declared_dtypes(self.program))
        check_shapes(self.program.inputs, {name: a.shape for name, a in zip(self.inputs, arrays, strict=True)})
        try:
            graph, limits = self._specialised_graph(dtypes, [a.shape for a in arrays], long)
        except LiteralError:
            raise out_of_range(long) from None
        check_limits(limits, self.inputs, values)
        results = interpret(expand(graph), dict(zip(self.inputs, arrays, strict=True)))
        return self._in_places(list(results.values()), outputs)

    def _in_places(
        self, results: Sequence[np.ndarray[Any, Any]], places: Sequence[np.ndarray[Any, Any] | None] | None
    ) -> Any:
        """What a call returns: the ``results``, those with a place of the caller's written there."""
        if places is None:
            return self.signature.result([_placed(result, None) for result in results])
        pairs = list(zip(results, places, strict=True))
        for name, (result, place) in zip(self.outputs, pairs, strict=True):  # all of them, before anything is written
            if place is not None and place is not result:
                iterate.check_output(place, result.shape, result.dtype, name)
        return self.signature.result([_placed(result, place) for result, place in pairs])


def signature_of(program: Program, name: str) -> Signature:
    """The names of a kernel of ``program``, and why it has no ufunc where it has none."""
    inputs, outputs = tuple(d.name for d in program.inputs), tuple(n for n, _ in program.outputs)
    obstacle = _REDUCES if _reduces(program) else obstacle_to_ufunc(len(inputs), len(outputs))
    return Signature(name, inputs, outputs, program.fixed, obstacle)


_REDUCES = "it reduces over axes, and a ufunc computes each element from one element of each operand"


def _reduces(program: Program) -> bool:
    return any(OPERATIONS[n.op].index_rule == "reduction" for n in program.nodes)


def documentation_of(program: Program, name: str) -> str:
    """The first line of a kernel's documentation: what goes in and what comes out."""
    return f"{name}({', '.join(d.name for d in program.inputs)}) -> {', '.join(n for n, _ in program.outputs)}"


class UfuncKernel(Kernel, ElementwiseKernel):
    """An elementwise program: compiled loops, which are a NumPy ufunc as well."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        declared = [d for d in program.inputs if d.shape is not None]
        ElementwiseKernel.__init__(
            self,
            signature_of(program, name),
            documentation_of(program, name),
            self._loop,
            self._ufunc_signatures,
            reads_of(program),
            self._check_declared_shapes if declared else None,
            declared_dtypes(program),
        )

    def _call_foreign(self, values: Sequence[Any], outputs: Sequence[Any] | None) -> Any:
        """NumPy's ufunc protocol decides, unless a function is being traced."""
        recorded = self._recorded(values, outputs)
        if recorded is not None:
            return recorded
        self._check_foreign(values)
        return super()._call_foreign(values, outputs)

    def _by_protocol(self, values: Sequence[Any], options: dict[str, Any]) -> Any:
        """As `ElementwiseKernel`; libraries that take ufuncs of one output alone (dask) are asked for each output."""
        if len(self.outputs) == 1 or options:
            return super()._by_protocol(values, options)
        results = protocol.answer(*self._for_protocol(values))
        if results is not NotImplemented:
            return results
        return tuple([part._by_protocol(values, {}) for part in self._parts])

    def _check_foreign(self, values: Sequence[Any]) -> None:
        """What declarations forbid is forbidden to arrays of other libraries too, as far as these say what they are."""
        for declared, value in zip(self.program.inputs, values, strict=True):
            if declared.dtype is not None and isinstance(getattr(value, "dtype", None), np.dtype):
                declared_dtype(declared, value.dtype)
        if self._check_shapes is not None:
            self._check_shapes({name: tuple(np.shape(v)) for name, v in zip(self.inputs, values, strict=True)})

    @functools.cached_property
    def _parts(self) -> list[UfuncKernel]:
        """A kernel for each output, with all inputs."""
        return [UfuncKernel(self.program.with_outputs([name]), f"{self.name}_{name}") for name in self.outputs]

    def _loop(self, dtypes: OperandTypes) -> tuple[Loop, Limits]:
        graph, limits = self._specialised_graph(dtypes)
        return elementwise_loop(optimize(graph)), limits

    def _ufunc_signatures(self) -> Sequence[DTypes]:
        """The same dtype for every input that is not declared."""
        return list(
            dict.fromkeys(tuple((d.dtype or DTYPES[name]).numpy for d in self.program.inputs) for name in KERNEL_DTYPES)
        )

    def _check_declared_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        check_shapes(self.program.inputs, shapes)


class CapturingKernel(UfuncKernel):
    """A kernel whose function read arrays from its surroundings: they are operands that the caller need not give."""

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """As `Kernel`; a captured array may be replaced by naming it."""
        if self._fast is not None and (not named or named.keys() == {"out"}):
            rest = self._captured_after(len(args))
            if rest is not None:
                return self._fast.function(*args, *rest, **named)
        for name, array in self.program.captures.items():
            if self.signature.positions[name] >= len(args):
                named.setdefault(name, array)
        return self._call(args, named)

    @functools.cached_property
    def _captured_from(self) -> list[Any]:
        """The captured array of each input, or None."""
        return [self.program.captures.get(name) for name in self.inputs]

    def _captured_after(self, given: int) -> list[Any] | None:
        """The operands after the first ``given``, if all of them are captured."""
        rest = self._captured_from[given:]
        return None if any(array is None for array in rest) else rest


class ReducingKernel(Kernel):
    """A program with reductions: compiled loops between reductions by the documented tree (`runtime.staged`)."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.signature = signature_of(program, name)
        self.__doc__ = documentation_of(program, name)
        self._staged: dict[Any, tuple[StagedProgram, Limits]] = {}
        self._staged_lock = Lock()
        self._plain: dict[Any, StagedProgram] = {}
        """By the dtypes and shapes of operands that are plain arrays: calls that need no look at anything else."""

    @property
    def ufunc(self) -> np.ufunc:
        """Refused: a ufunc computes each element from one element of each operand."""
        raise UnsupportedError(f"{self.name} has no ufunc: {self.signature.without_ufunc}; call the kernel itself")

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """As `Kernel`."""
        out = named.get("out")
        if self._plain and out is not ... and not named.keys() - {"out"}:
            staged = self._plain.get(tuple([(a.dtype, a.shape) if type(a) is np.ndarray else None for a in args]))
            if staged is not None:
                places = None if out is None else self._places(out)
                return self._in_places(staged.run(args, places), places)
        return self._called(args, named)

    @in_default_environment
    def _called(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        out = named.pop("out", None)
        if out is ...:
            return self.signature.with_arrays(self(*args, **named))
        for name, array in self.program.captures.items():
            if self.signature.positions[name] >= len(args):
                named.setdefault(name, array)
        values = self.signature.operands(args, named)
        if any(map(speaks_for_itself, values)):
            recorded = self._recorded(values, out)
            if recorded is not None:
                return recorded
            self._refuse_masks(values)
        declared = declared_dtypes(self.program)
        if (long := long_integers(values, self.inputs, declared)) is not None:
            return self._call_with_long_integers(values, self._places(out), long)
        arrays, dtypes = as_arrays(values, self.inputs, declared)
        check_shapes(self.program.inputs, {name: a.shape for name, a in zip(self.inputs, arrays, strict=True)})
        staged, limits = self._staged_program(arrays, dtypes)
        check_limits(limits, self.inputs, values)
        places = self._places(out)
        results = staged.run(arrays, places if all(o is not None for o in places) else None)
        if not limits and all(type(v) is np.ndarray and v.dtype.isnative for v in values):
            if len(self._plain) >= _REMEMBERED_SHAPES:
                self._plain.clear()
            self._plain[tuple([(v.dtype, v.shape) for v in values])] = staged
        return self._in_places(results, places)

    def _places(self, out: Any) -> list[Any]:
        """As `Signature.places`, and refused where results could not be written as into plain arrays."""
        places = self.signature.places(out)
        for name, place in zip(self.outputs, places, strict=True):
            if place is not None and not isinstance(place, np.ndarray):
                raise TypeRuleError(f"output {name!r} must be an array, not {type(place).__name__}")
            if isinstance(place, np.ma.MaskedArray):
                raise UnsupportedError(
                    f"output {name!r} is a masked array, whose mask would stay as it is; give its data, as in "
                    f"out={name}.data"
                )
        return places

    def _refuse_masks(self, values: Sequence[Any]) -> None:
        """Other arrays are computed on as plain ones; a mask would be lost in that."""
        for name, value in zip(self.inputs, values, strict=True):
            if isinstance(value, np.ma.MaskedArray):
                raise UnsupportedError(
                    f"the input {name} is a masked array, and {self.name} reduces over axes, where masks are not "
                    f"heeded; fill it first, as in {name}.filled(0)"
                )

    def _staged_program(
        self, arrays: Sequence[np.ndarray[Any, Any]], dtypes: OperandTypes
    ) -> tuple[StagedProgram, Limits]:
        from fuseline.runtime.staged import StagedProgram

        shapes = tuple(a.shape for a in arrays)
        with self._staged_lock:
            found = self._staged.get((dtypes, shapes))
            if found is None:
                if len(self._staged) >= _REMEMBERED_SHAPES:
                    self._staged.clear()
                graph, limits = self._specialised_graph(dtypes, shapes)
                found = self._staged[dtypes, shapes] = StagedProgram(optimize(graph)), limits
        return found


def _placed(result: np.ndarray[Any, Any], place: np.ndarray[Any, Any] | None) -> Any:
    """The result in the caller's array, if there is one; a 0-d result is a scalar, as NumPy's are."""
    if place is None:
        return result[()] if result.ndim == 0 else result
    if result is not place:
        _write(place, result)
    return place


@in_default_environment
def _write(place: np.ndarray[Any, Any], result: np.ndarray[Any, Any]) -> None:
    np.copyto(place, result, casting="same_kind")


_REMEMBERED_SHAPES = 256
