"""What a program declares of its operands, against what a call of its kernel gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuseline.errors import TypeRuleError
from fuseline.ir.dtype import DType
from fuseline.ir.dtype import dtype as dtype_of
from fuseline.ir.graph import topological
from fuseline.ir.node import Node
from fuseline.ir.program import Declaration, Program
from fuseline.ir.size import check_given

KERNEL_DTYPES = ("bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64")
"""What kernels take; loops of a ufunc are in this order, NumPy's order of preference."""


def reads_of(program: Program) -> list[int]:
    """For each output, the inputs that it depends on, as a number whose bit i stands for input i."""
    bits = {d.name: 1 << i for i, d in enumerate(program.inputs)}
    below: dict[Node, int] = {}
    for node in topological([output for _, output in program.outputs]):
        found = bits[node.attr("name")] if node.op == "input" else 0
        for operand in node.args:
            found |= below[operand]
        below[node] = found
    return [below[output] for _, output in program.outputs]


def declared_dtypes(program: Program) -> list[DType | None]:
    """For each input, its declared dtype."""
    return [d.dtype for d in program.inputs]


def declared_dtype(declared: Declaration, given: np.dtype[Any]) -> DType:
    """The dtype of an operand; `TypeRuleError` for one that we lack, or another than the declared one."""
    try:
        found = dtype_of(given)
    except TypeRuleError:
        found = None
    if found is None or not found.numpy_name:  # packed ones are planned and costed, not run
        raise TypeRuleError(
            f"the input {declared.name} has dtype {given}; kernels take {', '.join(KERNEL_DTYPES)}: convert it first"
        )
    if declared.dtype is not None and declared.dtype is not found:
        raise TypeRuleError(
            f"the input {declared.name} is declared {declared.dtype}; the array given is {found}: convert it, or leave "
            f"the declaration out to compute in the arrays' own dtypes"
        )
    return found


def check_shapes(declared: Sequence[Declaration], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """`ShapeError` unless every declared input has its rank, its numbers, and one value for each named size."""
    check_given({d.name: d.shape for d in declared}, shapes)
