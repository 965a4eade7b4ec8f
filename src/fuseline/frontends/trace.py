"""A Python function to an untyped `Program`, by calling it once with values that record what is done to them.

Operators, `np.*` calls and methods become the same nodes that the formula language builds. Numbers are part of the
program; arrays that the function closes over are inputs whose value is known, never constants.
"""

from __future__ import annotations

import inspect
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

import numpy as np

from fuseline.errors import FuselineError, TraceAttributeError, TraceError, TypeRuleError
from fuseline.floating_point import in_default_environment
from fuseline.frontends.frames import SourceBlock
from fuseline.ir.dtype import F64, I64, DType, dtype
from fuseline.ir.garbage import collection_paused
from fuseline.ir.graph import MAX_NODES
from fuseline.ir.names import is_output_name
from fuseline.ir.node import Attrs, Node, const, literal, make
from fuseline.ir.program import RESERVED_INPUTS, Declaration, Program, ValueNames
from fuseline.ops import OPERATIONS


@in_default_environment
def trace(
    function: Callable[..., Any], *, name: str | None = None, constants: Mapping[str, object] | None = None
) -> Program:
    """The program that ``function`` computes when it is called with arrays.

    Each parameter is an input, except those given in ``constants`` and those with a default that is not an array: they
    keep that value. A parameter whose default is an array is an input that a call may leave out. The function returns
    an array (the output ``out``), or a tuple (``out0``, ``out1`` …), named tuple or dict of them. ``name`` stands for
    the function in errors. Where the function does what cannot be recorded, it raises `TraceError`.
    """
    if isinstance(function, np.ufunc):
        raise TraceError(f"{function.__name__} is a NumPy function; trace a function that calls it")
    recording = Recording(function, name or str(getattr(function, "__name__", type(function).__name__)))
    positional, named = recording.bind(function, constants or {})
    with collection_paused():
        return recording.program(function(*positional, **named))


def _numpy_target(target: Any) -> DType:
    """The dtype that NumPy means by ``target``; names that NumPy does not know (``bf16``, ``f32``) are fuseline's."""
    try:
        return dtype(np.dtype(target))
    except TypeRuleError:
        raise
    except TypeError:  # not a dtype of NumPy's
        return dtype(target)


class Recording:
    """What one call of a function did: its inputs and instructions in the order of their appearance."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name
        self.block = SourceBlock(function)
        self.surroundings = _surroundings(function)
        self.inputs: dict[str, Declaration] = {}
        self.fixed: list[str] = []
        self.captures: dict[str, Any] = {}
        self.captured: dict[int, Node] = {}
        self.contents: dict[str, int] = {}
        """A checksum of each captured array, from when it was first used."""
        self.nodes: dict[Node, tuple[int, int]] = {}
        self.names = ValueNames()

    # ── inputs ──

    def bind(
        self, function: Callable[..., Any], constants: Mapping[str, object]
    ) -> tuple[list[object], dict[str, object]]:
        """Arguments for the function: a traced value for every input."""
        positional: list[object] = []
        named: dict[str, object] = {}
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:
            raise TraceError(f"the parameters of {self.name} are not known; trace a function that calls it") from None
        unknown = [n for n in constants if n not in parameters]
        if unknown:
            raise TraceError(f"{self.name} has no parameter {unknown[0]}; it has {', '.join(parameters) or 'none'}")
        for p in parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise TraceError(f"{self.name} takes {p}: name every input, since their number must be known")
            value = self.argument(p, constants.get(p.name, p.default))
            if not isinstance(value, Traced):
                self.fixed.append(p.name)
            if p.kind is p.KEYWORD_ONLY:
                named[p.name] = value
            else:
                positional.append(value)
        return positional, named

    def argument(self, parameter: inspect.Parameter, value: object) -> object:
        """A traced value for an input; what is not an array is passed as it is."""
        if value is not parameter.empty and not isinstance(value, np.ndarray):
            return value
        name = parameter.name
        if name in RESERVED_INPUTS:
            raise TraceError(f"{self.name}: {name!r} cannot be the name of an input: calls use it as an option")
        if isinstance(value, np.ndarray):
            return Traced(self, self.known_input(value, name))
        return Traced(self, self.input(Declaration(name)))

    def input(self, declared: Declaration) -> Node:
        self.inputs[declared.name] = declared
        return make("input", (), (("name", declared.name),))

    def capture(self, array: np.ndarray[Any, Any]) -> Node:
        """The input whose value is ``array``, which the function sees around it: one for each array object, called as
        the function calls it. A parameter is another input, although its default be that array."""
        node = self.captured.get(id(array))
        if node is None:
            node = self.captured[id(array)] = self.known_input(array, self.surroundings.get(id(array), "captured"))
        return node

    def known_input(self, array: np.ndarray[Any, Any], name: str) -> Node:
        """A new input that a call may leave out: it is ``array`` then."""
        if isinstance(array, np.matrix):
            raise TraceError(
                f"{self.name}: a matrix multiplies by rows and columns, which is not part of a program; "
                "give np.asarray(matrix) where elements are meant"
            )
        name = self.free_name(name)
        node = self.input(Declaration(name, self.dtype(array), array.shape))
        self.captures[name] = array  # also keeps the array alive, and with it its identity
        self.contents[name] = _checksum(array)
        return node

    def free_name(self, wanted: str) -> str:
        """``wanted``, or with a number after it where a value or a call option is called that already."""
        candidates = (f"{wanted}{i or ''}" for i in count())
        return next(
            n for n in candidates if n not in self.inputs and n not in RESERVED_INPUTS and not self.names.used(n)
        )

    def dtype(self, value: np.ndarray[Any, Any] | np.generic) -> DType:
        try:
            return dtype(value.dtype)
        except FuselineError as error:
            raise TraceError(f"{self.name} uses an array that cannot be part of a program: {error}") from None

    # ── instructions ──

    def operand(self, value: object) -> Node | None:
        """The node of an operand; None for what is neither a traced value, nor a number, nor an array."""
        if isinstance(value, Traced):
            if value.recording is not self:
                raise TraceError(f"{self.name} uses a value of another traced call; return it from there instead")
            return value.node
        if isinstance(value, np.generic):  # before float, of which np.float64 is one: NumPy's scalars have a dtype
            return const(value, self.dtype(value))
        if isinstance(value, int | float):
            if type(value) in (bool, int, float):
                return literal(value)
            return const(value, I64 if isinstance(value, int) else F64)  # as an IntEnum: NumPy gives it a dtype
        return self.capture(value) if isinstance(value, np.ndarray) else None

    def required(self, value: object, what: str) -> Node:
        """The node of an operand; `TraceError` for what cannot be one."""
        node = self.operand(value)
        if node is None:
            advice = "; make it an array before the call" if isinstance(value, list | tuple) else ""
            raise TraceError(f"{what} takes arrays and numbers, not {type(value).__name__}{advice}")
        return node

    def leave_to(self, value: object, what: str) -> Any:
        """The answer of an operator to an operand it does not know: Python's own types are refused here."""
        return self.required(value, what) if type(value).__module__ == "builtins" else NotImplemented

    def traced(self, value: object) -> Traced:
        """An operand as a traced value."""
        return value if isinstance(value, Traced) else Traced(self, self.required(value, self.name))

    def apply(self, op: str, *operands: object, attrs: Attrs = ()) -> Traced:
        """Record ``op`` on anything that can be an operand."""
        return Traced(self, self.record(op, tuple(self.required(v, op) for v in operands), attrs))

    def several(self, op: str, *operands: object) -> tuple[Traced, ...]:
        """Record an operation with several results."""
        whole = self.record(op, tuple(self.required(v, op) for v in operands))
        results = [self.record("proj", (whole,), (("index", i),), i) for i in range(len(OPERATIONS[op].parts))]
        return tuple(Traced(self, node) for node in results)

    def record(self, op: str, args: tuple[Node, ...], attrs: Attrs = (), result: int | None = None) -> Node:
        """The node of ``op``; ``result`` counts the names that a tuple of results is unpacked into."""
        node = make(op, args, attrs)
        if node not in self.nodes:
            place = self.block.place(sys._getframe(1))
            self.nodes[node] = place.location
            if len(self.nodes) > MAX_NODES:
                raise TraceError(f"{self.name} has more than {MAX_NODES:,} operations")
            target = place.target(result)
            if target:
                self.names.give(node, target, self.inputs)
        return node

    def inline(self, program: Program, operands: Mapping[str, object]) -> tuple[Traced, ...]:
        """Record ``program`` on these operands, by the names of its inputs; its outputs, in their order.

        The statements mean what they mean when they stand here: a Python number is a literal among the others.
        """
        values: dict[Node, Node] = {}
        for declared in program.inputs:
            if declared.name not in program.captures and (declared.dtype is not None or declared.shape is not None):
                raise TraceError(
                    f"{self.name} calls a kernel that declares its input {declared.name}, and what is recorded has no "
                    f"dtype or shape yet; leave the declaration out, or call that kernel outside"
                )
            given = operands[declared.name]
            values[make("input", (), (("name", declared.name),))] = self.required(given, declared.name)
        for node in program.nodes:
            made = self.record(node.op, tuple([values.get(a, a) for a in node.args]), node.attrs)
            if node in program.names:
                self.names.give(made, program.names[node], self.inputs)
            values[node] = made
        return tuple(Traced(self, values.get(node, node)) for _, node in program.outputs)

    # ── the result ──

    def program(self, returned: object) -> Program:
        for name, array in self.captures.items():
            if _checksum(array) != self.contents[name]:
                which = "an array" if name.startswith("captured") else f"the array {name}"
                raise TraceError(
                    f"{self.name} writes to {which} that it has used, and a program knows one content of an array: "
                    f"make another one of the new values, as b = b + 1 does where b += 1 does not"
                )
        outputs = tuple((name, self.output(name, value)) for name, value in self.named_outputs(returned).items())
        for name, node in outputs:
            self.names.give(node, name, self.inputs)
        source, origin = self.block.source, self.block.origin(self.name)
        return Program(
            source, tuple(self.inputs.values()), tuple(self.nodes), outputs, self.names.of, dict(outputs),
            self.nodes if source else {}, self.captures, tuple(self.fixed), origin,
        )  # fmt: skip

    def named_outputs(self, returned: object) -> dict[str, object]:
        if isinstance(returned, dict):
            named = dict(returned)
        elif isinstance(returned, tuple) and hasattr(returned, "_fields"):
            named = dict(zip(returned._fields, returned, strict=True))
        elif isinstance(returned, tuple | list):
            named = {f"out{i}": value for i, value in enumerate(returned)}
        else:
            named = {"out": returned}
        if not named or returned is None:
            raise TraceError(f"{self.name} returns nothing; it must return the arrays it computes")
        for name in named:
            if not is_output_name(name):
                raise TraceError(f"{self.name}: {name!r} cannot be the name of an output, a field of a named tuple")
        return named

    def output(self, name: str, value: object) -> Node:
        return self.required(value, f"the output {name} of {self.name}")


_CHECKED_BYTES = 64 << 20


def _checksum(array: np.ndarray[Any, Any]) -> int:
    """Of the elements' bytes; of a large array every second, third … slice."""
    once = array[tuple([slice(None) if stride else slice(0, 1) for stride in array.strides])]
    if once.nbytes > _CHECKED_BYTES:
        longest = max(range(once.ndim), key=once.shape.__getitem__)
        step = slice(None, None, -(-once.nbytes // _CHECKED_BYTES))
        once = once[tuple([step if axis == longest else slice(None) for axis in range(once.ndim)])]
    return zlib.crc32(np.ascontiguousarray(once).reshape(-1).view(np.uint8).data)


def recording_of(values: Iterable[object]) -> Recording | None:
    """The recording that the first traced value among these belongs to."""
    return next((v.recording for v in values if isinstance(v, Traced)), None)


def _surroundings(function: Callable[..., Any]) -> dict[int, str]:
    """The names of the arrays that a function can see, by identity."""
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    seen = {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            seen[name] = cell.cell_contents
        except ValueError:  # an empty cell: a name that is bound later
            continue
    return {id(v): n for n, v in seen.items() if isinstance(v, np.ndarray) and not n.startswith("_")}


# ── the traced value ─────────────────────────────────────────────────────────────────────────────────────────────────


def _operator(op: str) -> tuple[Callable[[Traced, object], Any], Callable[[Traced, object], Any]]:
    """A binary operator and its reflection."""

    def forward(self: Traced, other: object) -> Any:
        node = self.recording.operand(other)
        if node is None:
            return self.recording.leave_to(other, op)
        return Traced(self.recording, self.recording.record(op, (self.node, node)))

    def reflected(self: Traced, other: object) -> Any:
        node = self.recording.operand(other)
        if node is None:
            return self.recording.leave_to(other, op)
        return Traced(self.recording, self.recording.record(op, (node, self.node)))

    return forward, reflected


def _unary(op: str) -> Callable[[Traced], Traced]:
    return lambda self: Traced(self.recording, self.recording.record(op, (self.node,)))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """An array method that is a NumPy function of the same parameters."""

    def method(self: Traced, *args: object, **kwargs: object) -> Any:
        return self.__array_function__(function, (), (self, *args), kwargs)

    method.__doc__ = f"`np.{function.__name__}` of this value."
    return method


def _refusal(what: str, advice: str) -> Callable[..., Any]:
    def refuse(self: Traced, *_: object, **__: object) -> Any:
        raise TraceError(f"{self.recording.name}: {what}; {advice}")

    return refuse


_NO_VALUE = "its value is not known while the program is recorded"


class Traced:
    """Stands for an array while a function is recorded. Operators and NumPy calls on it give further ones."""

    __slots__ = ("node", "recording")

    def __init__(self, recording: Recording, node: Node) -> None:
        self.recording = recording
        self.node = node

    def __repr__(self) -> str:
        return f"<traced value: {self.recording.names.of.get(self.node) or self.node.attr('name') or self.node.op}>"

    __hash__ = object.__hash__

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv")
    __mod__, __rmod__ = _operator("mod")
    __and__, __rand__ = _operator("and")
    __or__, __ror__ = _operator("or")
    __xor__, __rxor__ = _operator("xor")
    __lshift__, __rlshift__ = _operator("shl")
    __rshift__, __rrshift__ = _operator("shr")
    __lt__, _ = _operator("lt")
    __le__, _ = _operator("le")
    __gt__, _ = _operator("gt")
    __ge__, _ = _operator("ge")
    __eq__, _ = _operator("eq")
    __ne__, _ = _operator("ne")
    _power, _reflected_power = _operator("pow")
    __neg__ = _unary("neg")
    __abs__ = _unary("abs")
    __invert__ = _unary("invert")

    def __pos__(self) -> Traced:
        return self

    def __pow__(self, exponent: object, modulus: object = None) -> Any:
        if modulus is not None:
            raise TraceError(f"{self.recording.name}: pow() with a modulus cannot be recorded; write (x**y) % modulus")
        return self._power(exponent)

    def __rpow__(self, base: object, modulus: object = None) -> Any:
        return self._reflected_power(base) if modulus is None else NotImplemented

    def __divmod__(self, other: object) -> Any:
        return self.recording.several("divmod", self, other)

    def __rdivmod__(self, other: object) -> Any:
        return self.recording.several("divmod", other, self)

    # ── NumPy ──

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: object, **options: object) -> Any:
        from fuseline.frontends.trace_numpy import call_ufunc

        return call_ufunc(self.recording, ufunc, method, operands, options)

    def __array_function__(
        self, function: Callable[..., Any], _types: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        from fuseline.frontends.trace_numpy import call_array_function

        return call_array_function(self.recording, function, args, kwargs)

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Traced:
        """Converted to another dtype, rounding once. A text is read as NumPy reads it: ``"i8"`` is int64.

        ``order``, ``subok`` and ``copy`` say nothing of values; another ``casting`` than "unsafe" is refused.
        """
        if casting != "unsafe":
            raise TraceError(
                f"{self.recording.name}: astype(casting={casting!r}) cannot be recorded, because dtypes are known only "
                "when the program is called; check them before the call"
            )
        return self.recording.apply("cast", self, attrs=(("dtype", _numpy_target(dtype)),))

    def copy(self) -> Traced:
        """The value itself: a program's values never change."""
        return self

    sum, mean, max, min = (_method(f) for f in (np.sum, np.mean, np.max, np.min))
    any, all, clip, round = (_method(f) for f in (np.any, np.all, np.clip, np.round))

    def __round__(self, digits: int | None = None) -> Traced:
        return self.recording.traced(np.round(self, digits or 0))

    # ── what cannot be recorded ──

    def __format__(self, specification: str) -> str:
        if specification:
            raise TraceError(
                f"{self.recording.name}: a traced value cannot be written as {specification!r}: {_NO_VALUE}; "
                "print after the call"
            )
        return str(self)

    __bool__ = _refusal(f"a traced value decides nothing: {_NO_VALUE}", "choose elementwise with np.where(c, a, b)")
    __iter__ = _refusal("a traced value cannot be unpacked or looped over", "pass the parts as inputs of their own")
    __len__ = _refusal("a traced value has no length yet", "pass the number as an argument with a default")
    __float__ = _refusal(f"float() of a traced value: {_NO_VALUE}", "use np.exp(x) and the like, not math.exp(x)")
    __int__ = _refusal(f"int() of a traced value: {_NO_VALUE}", "use x.astype(np.int64)")
    __complex__ = _refusal("complex() of a traced value", "there are no complex numbers")
    __index__ = _refusal(f"a traced value as an index: {_NO_VALUE}", "use np.where")
    __array__ = _refusal("a traced value is not an array", "write the function with operators and np.* calls")
    __getitem__ = _refusal("a traced value cannot be indexed or sliced", "slice the arrays before the call")
    __setitem__ = _refusal("a traced value cannot be assigned into", "use np.where(c, new, old)")
    __contains__ = _refusal(f"in a traced value: {_NO_VALUE}", "use np.any(x == value)")
    __matmul__ = _refusal("matrix products are not part of a program yet", "compute them outside")
    __rmatmul__ = __matmul__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes"):
            advice = "it is known only when the program is called; pass it as an argument with a default"
        elif self.node.op == "input" and self.node.attr("name") == "self":
            advice = "to trace a method, trace it of an object: fl.fuse(object.method)"
        else:
            advice = "it has operators, np.* functions, astype, clip, round and the reductions"
        raise TraceAttributeError(f"{self.recording.name}: a traced value has no {name}; {advice}")
