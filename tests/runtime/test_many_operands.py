"""Calls of thousands of operands: the work grows with their number and not with its square, and overlap is judged as
pair by pair."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fuseline as fl
from arrays import same_bits
from fuseline.api.declared import reads_of
from fuseline.ir.garbage import collection_paused
from fuseline.ir.graph import Graph
from fuseline.mathlib.expand import expand
from fuseline.passes.pipeline import optimize
from fuseline.runtime.overlap import ALONE, SAME_ITEMS, SHARED, byte_bounds, places
from fuseline.runtime.signature import Signature
from fuseline.runtime.staged import _stages

Array = NDArray[Any]


def pair_by_pair(inputs: list[Array], outputs: list[Array]) -> list[int]:
    """The rule that `places` states, in as many steps as there are pairs."""

    def meet(a: Array, b: Array) -> bool:
        (first, end), (low, high) = byte_bounds(a), byte_bounds(b)
        return first < high and low < end

    def is_same(a: Array, b: Array) -> bool:
        return a.__array_interface__ == b.__array_interface__

    found = []
    for i, o in enumerate(outputs):
        met = [a for a in inputs if meet(o, a)]
        crossed = any(meet(o, other) for j, other in enumerate(outputs) if j != i)
        if crossed or not all(is_same(o, a) for a in met):
            found.append(SHARED)
        else:
            found.append(SAME_ITEMS if met else ALONE)
    return found


@st.composite
def operands(draw: st.DrawFn, memory: Array, count: int) -> list[Array]:
    """Views of ``memory``, some of them alike."""
    made: list[Array] = []
    for _ in range(draw(st.integers(0, count))):
        if made and draw(st.booleans()):
            made.append(draw(st.sampled_from(made))[...])
            continue
        dtype = draw(st.sampled_from(["i1", "f4", "f8"]))
        start = 8 * draw(st.integers(0, memory.size // 8 - 1))
        flat = memory[start:].view(dtype)[: draw(st.integers(1, 12))]
        step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        view = flat[::step]
        made.append(view.reshape(2, -1) if view.size % 2 == 0 and draw(st.booleans()) else view)
    return made


@given(st.data())
def test_where_outputs_lie_is_judged_as_pair_by_pair(data: st.DataObject) -> None:
    memory = np.zeros(400, np.uint8)
    inputs, outputs = (data.draw(operands(memory, 6)) for _ in range(2))
    if outputs and data.draw(st.booleans()):
        inputs += [o[...] for o in outputs[: data.draw(st.integers(1, 6))]]
    assert places(inputs, outputs) == pair_by_pair(inputs, outputs)


def test_where_thousands_of_outputs_lie_is_judged_as_pair_by_pair() -> None:
    count, length = 5_000, 8
    memory, random = np.zeros(40 * count, np.float32), np.random.default_rng(3)
    starts = random.integers(0, memory.size // length, (2, count)) * length + random.choice([0, 0, 0, 3], (2, count))
    starts = np.minimum(starts, memory.size - length)
    inputs, outputs = ([memory[s : s + length] for s in row] for row in starts)
    ends = starts + length
    met = (starts[1][:, None] < ends[0]) & (starts[0] < ends[1][:, None])
    same = starts[1][:, None] == starts[0]
    crossed = ((starts[1][:, None] < ends[1]) & (starts[1] < ends[1][:, None])).sum(axis=1) > 1
    expected = np.where(crossed | (met & ~same).any(axis=1), SHARED, np.where(met.any(axis=1), SAME_ITEMS, ALONE))
    assert {SHARED, ALONE, SAME_ITEMS} == set(expected.tolist())
    assert places(inputs, outputs) == expected.tolist()


# ── the work of a call ───────────────────────────────────────────────────────────────────────────────────────────────


def steps_of(call: Callable[[], Any]) -> int:
    """Instructions of Python's that ``call`` executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    with collection_paused():  # or what others left behind is finalised in between, and counted
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return count


def kinds_of_calls(pairs: int) -> dict[str, Callable[[], Any]]:
    """Calls of a compiled program with ``2*pairs`` inputs and ``pairs`` outputs."""
    names = [f"o{i}" for i in range(pairs)]
    kernel = fl.compile("\n".join(f"o{i} = x{2 * i}*2 + x{2 * i + 1}" for i in range(pairs)), outputs=names)
    xs = [np.full(40, i, np.float32) for i in range(2 * pairs)]
    kernel.specialisation(tuple(x.dtype for x in xs)).loop.body()
    outs = tuple(np.empty(40, np.float32) for _ in names)
    wide = tuple(np.empty(40, np.float64) for _ in names)
    shifted = np.zeros(42 * pairs, np.float32)
    crossing = tuple(shifted[20 * i : 20 * i + 40] for i in range(pairs))
    rows = [np.full((2, 40), 1, np.float32), *xs[1:]]
    return {
        "the first": lambda: kernel(*xs),
        "like an earlier one": lambda: kernel(*xs),
        "into given outputs": lambda: kernel(*xs, out=outs),
        "into converted outputs": lambda: kernel(*xs, out=wide),
        "into its inputs": lambda: kernel(*xs, out=tuple(xs[::2])),
        "into outputs that overlap": lambda: kernel(*xs, out=crossing),
        "by name": lambda: kernel(**dict(zip(kernel.inputs, xs, strict=True))),
        "with outputs of two shapes": lambda: kernel(*rows),
    }


def test_the_work_of_a_call_grows_with_its_operands_and_not_with_their_square() -> None:
    few, many = kinds_of_calls(150), kinds_of_calls(300)
    for calls in (few, many):
        calls["with outputs of two shapes"]()  # compiles a loop for each shape
    grown = {name: steps_of(many[name]) / steps_of(few[name]) for name in few}
    assert all(growth < 2.3 for growth in grown.values()), grown


def test_thousands_of_outputs_in_every_place_are_what_numpy_gives() -> None:
    pairs = 1_500
    calls = kinds_of_calls(pairs)
    expected = [np.full(40, 2 * (2 * i) + 2 * i + 1, np.float32) for i in range(pairs)]
    for name in ("the first", "into given outputs", "like an earlier one", "by name"):
        assert all(map(same_bits, calls[name](), expected)), name
    assert all(np.array_equal(a, b) for a, b in zip(calls["into converted outputs"](), expected, strict=True))
    shaped = calls["with outputs of two shapes"]()
    assert shaped[0].shape == (2, 40) and all(map(same_bits, shaped[1:], expected[1:]))
    assert all(map(same_bits, calls["into its inputs"](), expected))


class _CountingName(str):
    """A name that counts how often it is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        type(self).comparisons += 1
        return str.__eq__(self, other)


def test_operands_by_name_are_found_without_looking_through_all_names() -> None:
    names = tuple(_CountingName(f"x{i}") for i in range(2_000))
    signature = Signature("k", names, ("out",))
    values = {str(name): i for i, name in enumerate(names)}
    assert signature.operands((), values) == tuple(range(2_000))
    assert _CountingName.comparisons < 10 * len(names)


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_what_an_output_depends_on_is_known_for_each(count: int, random: Any) -> None:
    lines, below = [], [{i} for i in range(count)]
    names = [f"x{i}" for i in range(count)]
    for i in range(count):
        a, b = (random.randrange(len(names)) for _ in range(2))
        lines.append(f"v{i} = {names[a]} + {names[b]}*2")
        names.append(f"v{i}")
        below.append(below[a] | below[b])
    declared = "".join(f"x{i}: f32\n" for i in range(count))
    program = fl.compile(declared + "\n".join(lines), outputs=names[count:]).program
    assert reads_of(program) == [sum(1 << i for i in own) for own in below[count:]]


def test_what_thousands_of_outputs_depend_on_is_found_in_one_walk() -> None:
    def made(count: int) -> Any:
        lines = [f"s{i + 1} = s{i} + x{i + 1}" for i in range(count)]
        return fl.compile("\n".join(["s0 = x0", *lines]), outputs=[f"s{i + 1}" for i in range(count)]).program

    few, many = made(200), made(400)
    assert steps_of(lambda: reads_of(many)) < 2.3 * steps_of(lambda: reads_of(few))
    assert reads_of(few)[-1] == (1 << 201) - 1


def test_the_shapes_of_outputs_are_those_that_their_inputs_broadcast_to() -> None:
    random = np.random.default_rng(1)
    lines = [f"o{i} = x{i} + x{(i * 7 + 3) % 30}" for i in range(30)]
    kernel = fl.compile("\n".join(lines), outputs=[f"o{i}" for i in range(30)])
    shapes = [((), (1,), (5,), (3, 1), (3, 5), (1, 1))[i] for i in random.integers(0, 6, 30)]
    xs = dict(zip((f"x{i}" for i in range(30)), (np.ones(s, np.float32) for s in shapes), strict=True))
    for i, result in enumerate(kernel(**xs)):
        assert result.shape == np.broadcast_shapes(shapes[i], shapes[(i * 7 + 3) % 30])
    with pytest.raises(fl.ShapeError, match=r"x2 of shape \(5,\) and x17 of shape \(4,\)"):
        kernel(**xs | {"x2": np.ones(5, np.float32), "x17": np.ones(4, np.float32)})


def test_the_stages_of_thousands_of_reductions_are_found_in_one_walk() -> None:
    def staged(count: int) -> Graph:
        text = "\n".join(f"o{i} = sum(x{i}*2) + y{i}" for i in range(count))
        return expand(optimize(fl.graph(text, shape=(30,), outputs=[f"o{i}" for i in range(count)])))

    few, many = staged(300), staged(600)
    assert steps_of(lambda: _stages(many)) < 2.3 * steps_of(lambda: _stages(few))
