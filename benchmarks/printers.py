"""Programs as expression text (numexpr, blosc2) and as ONNX models: both by calling their function on recorders."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from programs import Array, Program

ONNX_OPSET = 20


class CannotExpress(Exception):
    """A peer has no way to say a program; the message is what its row shows."""


# ── expression text ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Text:
    """An expression that grows as it is used. Numbers become names of float32 scalars: literals would be doubles."""

    text: str
    constants: dict[float, str]

    def _operand(self, other: Any) -> str:
        if isinstance(other, Text):
            return other.text
        return self.constants.setdefault(float(other), f"c{len(self.constants)}")

    def _infix(self, sign: str, other: Any, swapped: bool = False) -> Text:
        a, b = self.text, self._operand(other)
        return Text(f"({b} {sign} {a})" if swapped else f"({a} {sign} {b})", self.constants)

    def __add__(self, other: Any) -> Text:
        return self._infix("+", other)

    def __radd__(self, other: Any) -> Text:
        return self._infix("+", other, True)

    def __sub__(self, other: Any) -> Text:
        return self._infix("-", other)

    def __rsub__(self, other: Any) -> Text:
        return self._infix("-", other, True)

    def __mul__(self, other: Any) -> Text:
        return self._infix("*", other)

    def __rmul__(self, other: Any) -> Text:
        return self._infix("*", other, True)

    def __truediv__(self, other: Any) -> Text:
        return self._infix("/", other)

    def __rtruediv__(self, other: Any) -> Text:
        return self._infix("/", other, True)

    def __neg__(self) -> Text:
        return Text(f"(-{self.text})", self.constants)


class NumexprFunctions:
    """Functions of numexpr's language."""

    def __getattr__(self, name: str) -> Any:
        if name not in ("tanh", "sqrt", "log", "exp", "sin", "cos", "arcsin"):
            raise CannotExpress(f"no {name}")
        return lambda x: Text(f"{name}({x.text})", x.constants)

    def sigmoid(self, x: Text) -> Text:
        return 1.0 / (1.0 + Text(f"exp(-{x.text})", x.constants))

    def logaddexp(self, a: Text, b: Text) -> Text:
        large = Text(f"where({a.text} > {b.text}, {a.text}, {b.text})", a.constants)
        return large + Text(f"log1p(exp(-abs({a.text} - {b.text})))", a.constants)

    def isnan(self, x: Text) -> Text:
        return Text(f"({x.text} != {x.text})", x.constants)

    def clip(self, x: Text, low: float, high: float) -> Text:
        a, b = x._operand(low), x._operand(high)
        return Text(f"where({x.text} < {a}, {a}, where({x.text} > {b}, {b}, {x.text}))", x.constants)

    def where(self, condition: Text, a: float, b: Text) -> Text:
        return Text(f"where({condition.text}, {b._operand(a)}, {b.text})", b.constants)


class Blosc2Functions(NumexprFunctions):
    """blosc2's language knows more functions."""

    def logaddexp(self, a: Text, b: Text) -> Text:
        return Text(f"logaddexp({a.text}, {b.text})", a.constants)

    def clip(self, x: Text, low: float, high: float) -> Text:
        return Text(f"clip({x.text}, {x._operand(low)}, {x._operand(high)})", x.constants)


def expressions(functions: Any, program: Program, inputs: Mapping[str, Array]) -> tuple[list[str], dict[str, Any]]:
    """One expression an output, and the scalars they name. Raises `CannotExpress`."""
    constants: dict[float, str] = {}
    results = program.function(functions, *(Text(name, constants) for name in inputs))
    return [r.text for r in results], {name: np.float32(value) for value, name in constants.items()}


# ── ONNX ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Graph:
    nodes: list[Any] = field(default_factory=list)
    initializers: dict[float, Any] = field(default_factory=dict)

    def add(self, op: str, *operands: Any, domain: str = "", **attributes: Any) -> Value:
        helper = importlib.import_module("onnx.helper")
        name = f"v{len(self.nodes)}"
        names = [self.name(x) for x in operands]
        self.nodes.append(helper.make_node(op, names, [name], domain=domain, **attributes))
        return Value(self, name)

    def name(self, x: Any) -> str:
        if isinstance(x, Value):
            return x.name
        value = float(x)
        if value not in self.initializers:
            numpy_helper = importlib.import_module("onnx.numpy_helper")
            name = f"c{len(self.initializers)}"
            self.initializers[value] = numpy_helper.from_array(np.array(value, np.float32), name)
        return str(self.initializers[value].name)


@dataclass(frozen=True)
class Value:
    """A named value of a model under construction."""

    graph: _Graph
    name: str

    def __add__(self, other: Any) -> Value:
        return self.graph.add("Add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self.graph.add("Add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self.graph.add("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.graph.add("Sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.graph.add("Mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self.graph.add("Mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.add("Div", self, other)


_ONNX_NAMES = {
    "tanh": "Tanh", "erf": "Erf", "sqrt": "Sqrt", "log": "Log", "exp": "Exp", "sin": "Sin", "cos": "Cos",
    "arcsin": "Asin", "sigmoid": "Sigmoid", "isnan": "IsNaN",
}  # fmt: skip


class OnnxFunctions:
    """Functions of a namespace as ONNX operators, fused ones of ONNX Runtime's own domain where it has them."""

    def __getattr__(self, name: str) -> Any:
        if name not in _ONNX_NAMES:
            raise CannotExpress(f"no {name}")
        return lambda x: x.graph.add(_ONNX_NAMES[name], x)

    def logaddexp(self, a: Value, b: Value) -> Value:
        tail = a.graph.add("Exp", a.graph.add("Neg", a.graph.add("Abs", a - b)))
        return a.graph.add("Max", a, b) + a.graph.add("Log", 1.0 + tail)

    def clip(self, x: Value, low: float, high: float) -> Value:
        return x.graph.add("Clip", x, low, high)

    def where(self, condition: Value, a: float, b: Value) -> Value:
        return condition.graph.add("Where", condition, a, b)


def _own_operators(name: str, values: list[Value]) -> tuple[Any, ...] | None:
    """The program by ONNX Runtime's fused operators, or None where it has none."""
    g = values[0].graph
    microsoft = "com.microsoft"
    if name == "bias_gelu_residual":
        x, b, r = values
        return (g.add("FastGelu", x, b, domain=microsoft) + r,)
    if name == "gelu":
        return (g.add("Gelu", values[0], domain=microsoft),)
    if name == "silu_gate":
        return (g.add("QuickGelu", values[0], domain=microsoft, alpha=1.0) * values[1],)
    if name == "dequantise":
        scale = g.add("Squeeze", values[1])
        wide = g.add("DequantizeLinear", values[0], scale, axis=0)
        return (g.add("Cast", wide, to=importlib.import_module("onnx").TensorProto.BFLOAT16),)
    return None


def onnx_model(program: Program, inputs: Mapping[str, Array], own: bool) -> bytes:
    """A serialised model of ``program`` for inputs of these shapes. Raises `CannotExpress`.

    Args:
        program: what to express.
        inputs: arrays by name, whose shapes and dtypes the model declares.
        own: use ONNX Runtime's fused operators instead of the standard ones.
    """
    onnx = importlib.import_module("onnx")
    graph = _Graph()
    values = [Value(graph, name) for name in inputs]
    if own:
        results = _own_operators(program.name, values)
        if results is None:
            raise CannotExpress("no fused operator")
    elif program.name == "dequantise":
        raise CannotExpress("only as DequantizeLinear")
    else:
        results = program.function(OnnxFunctions(), *values)
    kinds = {"float32": onnx.TensorProto.FLOAT, "bfloat16": onnx.TensorProto.BFLOAT16, "int8": onnx.TensorProto.INT8}
    declared = [onnx.helper.make_tensor_value_info(n, kinds[a.dtype.name], a.shape) for n, a in inputs.items()]
    shape = np.broadcast_shapes(*(a.shape for a in inputs.values()))
    given = [
        onnx.helper.make_tensor_value_info(r.name, kinds[d], shape)
        for r, d in zip(results, program.result_dtypes, strict=True)
    ]
    made = onnx.helper.make_graph(graph.nodes, program.name, declared, given, list(graph.initializers.values()))
    opsets = [onnx.helper.make_opsetid("", ONNX_OPSET), onnx.helper.make_opsetid("com.microsoft", 1)]
    return bytes(onnx.helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString())
