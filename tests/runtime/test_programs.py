"""Random programs on random layouts: compiled code gives the interpreter's bits, always.

Compiling takes the time, so programs are compiled several to a kernel, most of them without the long functions, and
each kernel is run on two layouts of its operands. The long suite makes 1,000,000 programs, or as many as
FUSELINE_FUZZ_PROGRAMS says: about three hours of one processor.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fuseline as fl
from arrays import first_difference, same_bits
from fuseline.codegen.llvm.target import LlvmTarget, target
from fuseline.ir.graph import Graph, topological
from fuseline.ir.interpret import interpret
from fuseline.ir.node import Node, make
from fuseline.mathlib.expand import expand
from fuseline.ops import OPERATIONS
from fuseline.passes.pipeline import optimize
from fuseline.runtime import host, iterate, threads
from kernels import loop_of
from programs import ELEMENTWISE, RandomProgram, random_program

Array = NDArray[Any]
SHAPES = ((), (1,), (7,), (70,), (3, 5), (2, 3, 4), (40, 2), (2, 40), (0, 3), (530,), (3, 517))
PROGRAMS_A_KERNEL, PROGRAMS_A_SHORT_KERNEL = 8, 32
"""With any operation; with those alone that need few instructions each."""
LAYOUTS_A_KERNEL = 2
PARTS = 10
SHORT = tuple(name for name in ELEMENTWISE if OPERATIONS[name].exactness != "measured")


def view_of(a: Array, random: Random) -> Array:
    """The same values somewhere else in memory: in another order of axes, with steps, backwards, or unaligned."""
    order = list(range(a.ndim))
    random.shuffle(order)
    steps = [random.choice((1, 1, 1, 2, 3, -1, -2)) for _ in order]
    room = [a.shape[axis] * abs(step) for axis, step in zip(order, steps, strict=True)]
    offset = random.choice((0, 0, 1, 3))
    raw = np.zeros(int(np.prod(room, dtype=int)) * a.itemsize + 8, np.uint8)
    memory = raw[offset : offset + int(np.prod(room, dtype=int)) * a.itemsize].view(a.dtype).reshape(room)
    spread = memory[tuple(slice(None, None, step) for step in steps)]
    view = spread.transpose(np.argsort(order)) if a.ndim else memory
    view[...] = a
    return view


def merged(graphs: Iterable[Graph]) -> Graph:
    """One graph of several; names of inputs and outputs get the number of their graph."""
    inputs: list[Node] = []
    outputs: list[tuple[str, Node]] = []
    for number, graph in enumerate(graphs):
        new: dict[Node, Node] = {}
        for node in (*graph.inputs, *topological(graph.output_nodes)):
            if node.op == "input":
                new[node] = make("input", (), (("name", f"{node.attr('name')}_{number}"),), node.type)
            else:
                new[node] = make(node.op, tuple(new[a] for a in node.args), node.attrs, node.type)
        inputs += [new[node] for node in graph.inputs]
        outputs += [(f"{name}_{number}", new[node]) for name, node in graph.outputs]
    return Graph(inputs, outputs)


def check(
    programs: list[RandomProgram], shape: tuple[int, ...], random: Random, chosen: LlvmTarget | None, layouts: int
) -> None:
    expanded = [expand(optimize(p.shapeless_graph)) for p in programs]
    plain = [a for p, g in zip(programs, expanded, strict=True) for a in (p.arrays[n] for n in g.input_names)]
    graph = merged(expanded)
    expected = [v for p, g in zip(programs, expanded, strict=True) for v in interpret(g, p.arrays).values()]
    full = np.broadcast_shapes(shape, *(a.shape for a in plain))
    loop = loop_of(graph, chosen)
    for _ in range(layouts):
        arrays = [view_of(a, random) for a in plain]
        places = [
            view_of(np.zeros(shape, n.dtype.numpy), random) if random.random() < 0.3 and full == shape else None
            for n in graph.output_nodes
        ]
        with threads.limit(random.choice((1, 2, 3))):
            found = iterate.run(loop, arrays, places)
        for position, (value, result) in enumerate(zip(expected, found, strict=True)):
            wanted = np.broadcast_to(value, result.shape)
            if not same_bits(wanted, result):
                owner = [p for p, g in zip(programs, expanded, strict=True) for _ in g.outputs][position]
                dtypes = [a.dtype for a in owner.arrays.values()]
                pytest.fail(f"{owner!r}\n{dtypes}\n{first_difference(wanted, result)}")


def check_many(count: int, seed: str, targets: list[LlvmTarget | None], layouts: int = 1) -> int:
    """Check at least ``count`` programs, each on several layouts; how many programs these were."""
    made = batch = 0
    while made < count:
        random = Random(f"{seed}:{batch}")
        batch += 1
        shape = random.choice(SHAPES)
        short = batch % 4 != 1
        operations = SHORT if short else ELEMENTWISE
        some = PROGRAMS_A_SHORT_KERNEL if short else PROGRAMS_A_KERNEL
        options = {"shape": shape, "operations": operations, "any_outputs": batch % 2 == 0}
        programs = [random_program(random, **options) for _ in range(min(some, count - made))]
        check(programs, shape, random, random.choice(targets), layouts)
        made += len(programs)
    return made


def test_random_programs_give_the_interpreters_bits() -> None:
    check_many(64, "everyday", [None], 3)


def test_random_programs_give_the_interpreters_bits_on_the_plainest_processor() -> None:
    check_many(16, "plain", [target(host.target_names()[0])])


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_very_many_random_programs_give_the_interpreters_bits(part: int) -> None:
    programs = -(-int(os.environ.get("FUSELINE_FUZZ_PROGRAMS", "1000000")) // PARTS)
    targets = [None, None, *map(target, host.target_names())]
    assert check_many(programs, f"long {part}", targets, LAYOUTS_A_KERNEL) >= programs


# Zeros that LLVM knows to be zeros, from integers, bits and comparisons.
_KNOWN_ZEROS = ["x - x", "f32(x - x)", "f64(x - x)", "x & 0", "where(x != x, 1.0, 0.0)", "f32(x) * 0.0"]
_QUOTIENTS = ["{0} / {0}", "{0} % {0}", "{0} / ({0} * 2.0)", "({0} - {0}) / {0}", "{0} // {0}"]
_CHOICES = [
    "{}",
    "sign({})",
    "where({0} == 0, 0.0, {0})",
    "where({0} != 0, {0}, 0.0)",
    "where({0} <= 0, 0.0, {0})",
    "where({0} >= 0, 0.0, {0})",
    "where({0} > 0, 1.0, {0})",
    "where(~({0} == 0), {0}, 0.0)",
    "abs(where({0} == 0, 0.0, {0}))",
    "where({0} < 0, -1.0, where({0} == 0, 0.0, {0}))",
    "0.0 * {}",
]


@pytest.mark.parametrize("zero", _KNOWN_ZEROS)
@pytest.mark.parametrize("name", host.target_names())
def test_a_quotient_of_known_zeros_is_what_it_is_wherever_it_goes(zero: str, name: str) -> None:
    lines = [f"v = {zero}"]
    for i, quotient in enumerate(_QUOTIENTS):
        lines.append(f"q{i} = {quotient.format('v')}")
        lines += [f"out{i}_{j} = {choice.format(f'q{i}')}" for j, choice in enumerate(_CHOICES)]
    graph = expand(optimize(fl.graph("; ".join(lines), "i32", shape=(41,))))
    x = np.arange(-20, 21, dtype=np.int32)
    expected = list(interpret(graph, {"x": x}).values())
    assert np.isnan(expected[0]).all()
    for value, result in zip(
        expected, iterate.run(loop_of(graph, target(name)), [x], [None] * len(expected)), strict=True
    ):
        assert same_bits(value, result), first_difference(value, result)


MANY_VALUES = """
import sys, threading
import numpy as np
import fuseline as fl
count = int(sys.argv[1])
lines = [f"t{i} = x*{i}.5 + y" for i in range(count)] + ["s0 = t0"]
lines += [f"s{i + 1} = s{i}*0.5 + t{i}*t{i * 7919 % count}" for i in range(count)] + [f"out = s{count}"]
kernel = fl.compile("; ".join(lines), outputs=["out"])
x = np.linspace(0.0, 1.0, 1000, dtype=np.float32)
expected = kernel(x, x)
found = []
threading.stack_size(128 << 10)
thread = threading.Thread(target=lambda: found.append(kernel(x, x)))
thread.start()
thread.join()
assert found[0].tobytes() == expected.tobytes()
terms = [x * np.float32(i + 0.5) + x for i in range(count)]
total = terms[0]
for i in range(count):
    total = total * np.float32(0.5) + terms[i] * terms[i * 7919 % count]
assert total.tobytes() == expected.tobytes()
print("the same")
"""


@pytest.mark.parametrize("count", [700, 3000])
def test_values_that_wait_may_need_more_stack_than_a_thread_has(count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY_VALUES, str(count)],
        env={**os.environ, "FUSELINE_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "the same\n", done.stderr[-2000:]


MANY_OPERANDS = """
import threading
import numpy as np
import fuseline
kernel = fuseline.compile(" + ".join(f"x{i}" for i in range(40)))
strided = [np.arange(4000, dtype=np.float32)[::2] for _ in range(40)]
rows = [np.ones((300, 40), np.float32)[:, ::2] for _ in range(40)]
expected = [kernel(*strided), kernel(*rows)]
found = []
threading.stack_size(64 << 10)
out = np.empty(2000, np.float32)
thread = threading.Thread(target=lambda: found.extend([kernel(*strided), kernel(*rows), kernel(*strided, out=out)]))
thread.start()
thread.join()
assert [f.tobytes() for f in found] == [e.tobytes() for e in (*expected, expected[0])]
assert expected[0].tobytes() == (strided[0] * np.float32(40)).tobytes()
print("the same")
"""


THOUSANDS_OF_OPERANDS = """
import sys
import threading
import numpy as np
import fuseline
from fuseline.runtime import iterate
count = 3000
kernel = fuseline.compile("; ".join(f"o{i} = x{2*i} + x{2*i + 1}" for i in range(count // 3)))
x = np.arange(50, dtype=np.float32)
kernel(*[x] * (count // 3 * 2))
found = []

def work():
    for past_caches in (False, True):
        iterate._is_large = lambda operands: past_caches
        for shape in ((50,), (7, 5), (3, 50)):
            y = np.resize(x, shape)
            for given in (y, y[..., ::2]):
                results = kernel(*[given] * (count // 3 * 2))
                found.append(all(np.array_equal(r, given + given) for r in results))

threading.stack_size((64 if sys.version_info < (3, 14) else 128) << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("the same" if found == [True] * 12 else found)
"""


MANY_RESULTS_PAST_THE_CACHES = """
import sys
import threading
import numpy as np
import fuseline
from fuseline.runtime import iterate
iterate._is_large = lambda operands: True
kernel = fuseline.compile("; ".join(f"o{i} = x*{i}.0" for i in range(300)), outputs=[f"o{i}" for i in range(300)])
x = np.arange(300, dtype=np.float32)
found = []
threading.stack_size((64 if sys.version_info < (3, 14) else 128) << 10)  # 3.14 cannot compile its own text in 64 KiB
thread = threading.Thread(target=lambda: found.extend([kernel(x), kernel(x)]))
thread.start()
thread.join()
assert all(r.tobytes() == (x * np.float32(i)).tobytes() for results in found for i, r in enumerate(results))
print("the same" if len(found) == 2 else found)
"""


@pytest.mark.parametrize("program", [MANY_OPERANDS, THOUSANDS_OF_OPERANDS, MANY_RESULTS_PAST_THE_CACHES])
def test_many_operands_need_no_more_stack_than_a_small_thread_has(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "the same\n", (done.returncode, done.stderr[-2000:])
