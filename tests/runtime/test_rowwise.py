"""Programs that reduce along the last axis: rows one by one give the oracle's bits, as stages one by one do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from arrays import first_difference, same_bits, special_values
from fuseline.ir.interpret import interpret
from fuseline.mathlib.expand import expand
from fuseline.runtime import host, threads
from fuseline.runtime.staged import StagedProgram

PROGRAMS = {
    "softmax": "e = exp(x - max(x, -1)); out = e/sum(e, -1)",
    "layer normalisation": "d = x - mean(x, -1); out = d/sqrt(mean(d*d, -1) + 1e-5)*g + b",
    "root mean square": "r = 1/sqrt(mean(x*x, -1) + 1e-6); out = x*r",
    "log of a sum": "m = max(x, -1, keepdims=False); s = sum(x*0.01, -1, keepdims=False); out = m + log(abs(s) + 1)",
    "spread": "low = min(x, -1); high = max(x, -1); out = (x - low)/(high - low)",
    "outputs that are read": "y = x*g; s = sum(y, -1); z = y/s; t = s*2",
    "numbers": "s = sum(x*0 + 1, -1); out = where(s > 3, x, -x)",
    "a sum alone": "out = sum(x, -1)",
    "several operands": "out = max(x*g + b - r, -1) + r",
}
SHAPES = [(3, 5, 100), (1, 2), (7, 64), (2, 30_000), (40, 1000), (16, 3), (9,), (300, 70), (2, 2, 2, 513)]


def operands(shape: tuple[int, ...], dtype: str, names: set[str]) -> dict[str, Any]:
    generator = np.random.default_rng(len(shape) * 1000 + shape[-1])
    rows = (*shape[:-1], 1)
    shapes = {"x": shape, "g": shape[-1:], "b": shape, "r": rows}
    found = {name: generator.standard_normal(shapes[name]).astype(dtype) for name in sorted(names)}
    special = generator.integers(0, found["x"].size, found["x"].size // 50)
    found["x"].ravel()[special] = generator.choice(special_values("f32" if dtype == "f4" else "f64"), len(special))
    return found


def layouts(x: Any) -> list[Any]:
    """``x`` itself and the same elements elsewhere: rows far apart, backwards, outer axes turned, unaligned."""
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 5), x.dtype)
    wide[..., 2:-3] = x
    outer = tuple(range(x.ndim - 1))
    turned = np.ascontiguousarray(x.transpose(*outer[::-1], x.ndim - 1)).transpose(*outer[::-1], x.ndim - 1)
    raw = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    backwards = x[::-1].copy()[::-1] if x.ndim > 1 else x
    return [x, wide[..., 2:-3], turned, unaligned, backwards]


def graph_of(text: str, arrays: dict[str, Any]) -> Any:
    """The optimised graph of ``text`` for operands like these."""
    dtypes, shapes = tuple(a.dtype for a in arrays.values()), [a.shape for a in arrays.values()]
    return fl.optimize(fl.compile(text)._specialised_graph(dtypes, shapes)[0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_give_the_bits_of_the_oracle(
    text: str, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = fl.compile(text)
    given = operands(shape, dtype, set(k.inputs))
    arrays = {name: given[name] for name in k.inputs}
    graph = graph_of(text, arrays)
    wanted = interpret(expand(graph), arrays)
    staged = StagedProgram(graph)
    assert staged.rows is not None and staged.rows.results == tuple(staged.graph.output_nodes)
    for turn, x in enumerate([*layouts(arrays["x"]), *layouts(arrays["x"])]):
        inputs = list({**arrays, "x": x}.values())
        if turn == 5:  # stores past the caches, and carries of parts of lines
            staged = StagedProgram(graph)
            assert staged.rows is not None
            monkeypatch.setattr(host, "caches_of_threads_bytes", lambda _: 0)
        with threads.limit(1 + turn % 3):
            found = staged.rows.run(inputs)
        assert found is not None
        for (name, value), got in zip(wanted.items(), found, strict=True):
            assert same_bits(np.asarray(value), got), f"{name} of {text}: {first_difference(value, got)}"
    by_call = k(**arrays)
    again = k(*arrays.values())
    for call in (by_call, again):
        for value, got in zip(wanted.values(), call if len(wanted) > 1 else (call,), strict=True):
            assert same_bits(np.asarray(value), np.asarray(got))


def test_rows_that_do_not_stand_together_run_stage_by_stage() -> None:
    k = fl.compile(PROGRAMS["softmax"])
    x = np.random.default_rng(0).standard_normal((64, 90)).astype(np.float32)
    wanted = k(x)
    for same in (np.asfortranarray(x), np.repeat(x, 2, -1)[:, ::2], x[:, ::-1].copy()[:, ::-1]):
        assert same_bits(wanted, k(same)) and same_bits(wanted, k(same))
    once = np.broadcast_to(x[:, :1], x.shape)
    assert same_bits(k(once), k(once.copy()))


@pytest.mark.parametrize(
    "text",
    [
        "out = sum(x, 0)",  # of columns
        "out = x - sum(x)",
        "s = sum(x, -1); out = s - max(s, 0)",
        "out = x + sum(b, -1)*g",  # of another shape than the first
        "out = any(x > 0, -1)",
    ],
)
def test_what_is_not_of_rows_has_no_row_program_and_the_oracles_bits(text: str) -> None:
    k = fl.compile(text)
    generator = np.random.default_rng(5)
    all_arrays = {"x": (20, 70), "b": (20, 33), "g": (20, 1)}
    arrays = {n: generator.standard_normal(all_arrays[n]).astype(np.float32) for n in k.inputs}
    graph = graph_of(text, arrays)
    assert StagedProgram(graph).rows is None
    wanted = interpret(expand(graph), arrays)["out"]
    for _ in range(3):
        assert same_bits(wanted, k(*arrays.values()))


def test_given_outputs_are_written_and_may_overlap_inputs() -> None:
    k = fl.compile(PROGRAMS["softmax"])
    x = np.random.default_rng(1).standard_normal((40, 100)).astype(np.float32)
    wanted = k(x)
    places: list[Callable[[], Any]] = [
        lambda: np.empty_like(x),
        lambda: np.empty((100, 40), np.float32).T,
        lambda: np.empty((40, 200), np.float32)[:, ::2],
        lambda: np.empty((40, 100), np.float64),
    ]
    for place in places:
        for _ in range(3):
            out = place()
            assert k(x, out=out) is out and same_bits(out.astype(np.float32), wanted)
    for _ in range(3):
        same = x.copy()
        assert k(same, out=same) is same and same_bits(same, wanted)
        memory = np.zeros((41, 100), np.float32)
        memory[:-1] = x
        assert same_bits(k(memory[:-1], out=memory[1:]), wanted)
    with pytest.raises(fl.ShapeError):
        k(x, out=np.empty((41, 100), np.float32))
    readonly = np.empty_like(x)
    readonly.flags.writeable = False
    with pytest.raises(fl.ReadOnlyError):
        k(x, out=readonly)
    assert isinstance(fl.compile("out = sum(x)")(x[0]), np.float32)


def test_many_threads_may_call_one_kernel_with_rows_of_many_shapes() -> None:
    from concurrent.futures import ThreadPoolExecutor

    k = fl.compile(PROGRAMS["layer normalisation"])

    def work(seed: int) -> bool:
        generator = np.random.default_rng(seed)
        for turn in range(150):
            rows, items = 1 + (seed * 7 + turn) % 90, 2 + (turn * 13) % 200
            x, b = (generator.standard_normal((rows, items)).astype(np.float32) for _ in range(2))
            g = generator.standard_normal(items).astype(np.float32)
            d = x - k_mean(x)
            if not np.allclose(k(x, g, b), d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b, atol=1e-4):
                return False
        return True

    def k_mean(x: Any) -> Any:
        return x.mean(-1, keepdims=True)

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(work, range(8)))
