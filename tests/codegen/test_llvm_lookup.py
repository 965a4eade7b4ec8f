"""Tables of float64 are looked up in registers where the target permutes them, with the same entries everywhere."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from fuseline.codegen.llvm.body import body_text
from fuseline.codegen.llvm.target import target
from fuseline.ir.dtype import F64, I8, I64, U32, DType
from fuseline.ir.graph import Graph
from fuseline.runtime import host, iterate, jit
from kernels import loop_of
from primitive_graphs import graph_of, operands

LENGTHS = (2, 4, 8, 16)
ODD_LENGTH = 301
"""Whole vectors and a tail, whatever the number of lanes."""


def table_of(length: int, *, short: bool) -> list[int]:
    """Bits of ``length`` different numbers; of short ones the lower halves are zero."""
    words = np.random.default_rng(length).integers(0, 2**64, length, dtype=np.uint64)
    return [int(word) >> 32 << 32 if short else int(word) for word in words]


def lookup_graph(index: DType, length: int, *, short: bool = False) -> Graph:
    inputs = operands(index)
    return graph_of(inputs, [inputs[0].lookup(table_of(length, short=short), F64)])


@pytest.mark.parametrize("name", ["native", *host.target_names()])
@pytest.mark.parametrize("short", [False, True])
def test_entries_are_those_of_the_table(name: str, short: bool) -> None:
    chosen = host.host_target() if name == "native" else target(name)
    for index in (I8, U32, I64):
        # Indices beyond the table, and below zero, count modulo its length.
        indices = np.arange(-150, ODD_LENGTH - 150).astype(index.numpy)
        for length in LENGTHS:
            (found,) = iterate.run(loop_of(lookup_graph(index, length, short=short), chosen), [indices], [None])
            table = table_of(length, short=short)
            expected = [table[int(i) % length] for i in indices]
            assert struct.unpack(f"<{ODD_LENGTH}Q", found.tobytes()) == tuple(expected), (name, index, length)


def instructions(name: str, length: int, *, short: bool = False) -> tuple[str, list[str]]:
    """The text and its instructions' names, without operands."""
    text = body_text(lookup_graph(I64, length, short=short), target(name)).text
    assembly = jit.assembly(text, target(name))
    return text, re.findall(r"^\t([a-z]\w*)", assembly, re.MULTILINE)


@pytest.mark.parametrize("length", [2, 4, 8])
@pytest.mark.parametrize(
    ("name", "instruction"), [("x86-64-v3", "vpermps"), ("x86-64-v4", "vpermpd"), ("aarch64", "tbl")]
)
def test_small_tables_stay_in_registers(name: str, instruction: str, length: int) -> None:
    text, found = instructions(name, length)
    assert "@table" not in text
    assert instruction in found


def test_lower_halves_that_are_zero_are_not_looked_up() -> None:
    count = {short: instructions("x86-64-v3", 8, short=short)[1].count("vpermps") for short in (False, True)}
    assert count[False] == 2 * count[True] > 0
