"""The text form: every graph prints to text that reads back as the same graph; anything else is refused by line."""

from __future__ import annotations

import pytest
from hypothesis import given

from fuseline.errors import FuselineError, TextFormError
from fuseline.ir import Graph, apply, const, parse_graph, print_graph, verify
from fuseline.ir.build import Expr, input_node
from fuseline.ir.dtype import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64, DType
from fuseline.ir.node import const_bits
from fuseline.ir.size import Size, named
from fuseline.ir.text import parse_shape_text
from programs import ELEMENTWISE, REDUCTIONS, RandomProgram, programs, seeded_programs


@given(programs(operations=(*ELEMENTWISE, *REDUCTIONS)))
def test_every_random_graph_reads_back_as_itself(made: RandomProgram) -> None:
    for graph in (made.graph, made.shapeless_graph):
        text = print_graph(graph)
        again = parse_graph(text)
        assert again == graph
        assert print_graph(again) == text
        verify(again)


@pytest.mark.long
def test_many_random_graphs_read_back_as_themselves() -> None:
    for made in seeded_programs(20_000, seed=5, operations=(*ELEMENTWISE, *REDUCTIONS)):
        assert parse_graph(print_graph(made.graph)) == made.graph, made


def _with_const(node: object) -> Graph:
    return Graph([], [("out", node)])  # type: ignore[list-item]


NUMBERS: list[tuple[object, DType]] = [
    *((v, d) for d in (F32, F64, F16, BF16) for v in (0.0, -0.0, 0.1, 1e30, 1e-40, 65504.0, float("inf"), -1.5)),
    *((v, d) for d in (I8, I64) for v in (0, -1, 127, -128)), (255, U8), (2**64 - 1, U64), (True, BOOL), (False, BOOL),
]  # fmt: skip


@pytest.mark.parametrize(("value", "d"), NUMBERS)
def test_numbers_read_back_bit_for_bit(value: object, d: DType) -> None:
    graph = _with_const(const(value, d))
    assert parse_graph(print_graph(graph)) == graph


@pytest.mark.parametrize(
    ("bits", "d"),
    [(0x7F800001, F32), (0xFFC00000, F32), (0x7FC00001, F32), (0x7FF0000000000001, F64), (0xFE01, F16), (0x7F81, BF16)],
)
def test_payloads_of_nan_read_back(bits: int, d: DType) -> None:
    graph = _with_const(const_bits(bits, d))
    again = parse_graph(print_graph(graph))
    assert again.outputs[0][1].attr("bits") == bits


def test_what_only_code_generators_use_reads_back() -> None:
    x = Expr(input_node("x", F32, (4,)))
    index = x.bitcast(I32) & 3
    picked = index.lookup([0x3F800000, 0x40000000, 0x7FC00000, 0], F32)
    graph = Graph([x.node], [("out", (picked * x).cast(F16).node)])
    text = print_graph(graph)
    assert "lookup f32[4] %1 {table=[1065353216 1073741824 2143289344 0]}" in text
    assert parse_graph(text) == graph


SHAPES = [
    (), (1,), (0, 3), (named("T"), 4), (named("T") * 2 + 1,), (named("T") * named("D"), named("T") + named("D")),
    ((named("T") + 1) // 8, (named("T") * 3).ceildiv(4)), (Size("max", (named("T"), 4)),),
    (Size("//", (7, named("T"))),), ((named("T") + 1) * 3,),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_computed_dimensions_read_back(shape: tuple[int | Size, ...]) -> None:
    x = input_node("x", F64, shape)
    graph = Graph([x], [("out", apply("neg", x))])
    assert parse_graph(print_graph(graph)) == graph


def test_repeated_bodies_and_several_results_read_back() -> None:
    h, w = input_node("h", F32, (3,)), input_node("w", F32, (3,))
    body = Graph([h, w], [("h", apply("mul", h, w))])
    outer_h = input_node("x", F32, (3,))
    whole = apply("repeat", outer_h, w, body=body, count=80)
    nested = Graph([outer_h, w], [("x", apply("proj", whole, index=0))])
    y = apply("proj", apply("repeat", h, w, body=nested, count=2), index=0)
    both = apply("divmod", y, w)
    q = apply("proj", both, index=1)
    graph = Graph([h, w], [("out", q)], names={q: "rest", both: "both"})
    text = print_graph(graph)
    assert "%both = divmod (f32[3], f32[3])" in text
    assert text.count("end\n") == 2
    again = parse_graph(text)
    assert again == graph
    assert hash(again) == hash(graph)
    verify(again)


def test_comments_and_blank_lines_are_skipped() -> None:
    graph = parse_graph("\n%x = input f32[2]  # an input\n\n  %y = exp f32[2] %x\n# done\nreturn out=%y\n")
    assert len(graph.nodes) == 1


REFUSED = [
    ("", "line 1", "return line"),
    ("%x = input f32[2]\n", "line 2", "return line"),
    ("%x = input f32[2]\nhello\nreturn out=%x", "line 2", "expected"),
    ("%x = input f32[2]\n%x = input f32[2]\nreturn out=%x", "line 2", "defined twice"),
    ("%x = input f32[2]\n%y = exp f32[2] %z\nreturn out=%y", "line 2", "not defined above"),
    ("%x = input f32[2]\n%y = exp f64[2] %x\nreturn out=%y", "line 2", "f32[2], but f64[2]"),
    ("%x = input f32[2]\n%y = exp f32[3] %x\nreturn out=%y", "line 2", "but f32[3]"),
    ("%x = input f32[2]\n%y = exq f32[2] %x\nreturn out=%y", "line 2", "exq"),
    ("%x = input f32[2]\n%y = literal f32[2] %x\nreturn out=%y", "line 2", "literal"),
    ("%x = input f33[2]\nreturn out=%x", "line 1", "f33"),
    ("%x = input f32[2,]\nreturn out=%x", "line 1", "size"),
    ("%x = input f32[2 3]\nreturn out=%x", "line 1", "shape"),
    ("%x = input f32[(((T]\nreturn out=%x", "line 1", "shape"),
    ("%x = input f32[T//0]\nreturn out=%x", "line 1", "zero"),
    ("%x = input f32[ceildiv(T)]\nreturn out=%x", "line 1", "ceildiv"),
    ("%x = input f32[2] {a=1}\nreturn out=%x", "line 1", "nothing after it"),
    ("%x = input (f32[2], f32[2])\nreturn out=%x", "line 1", "one type"),
    ("%x = input f32[2]\n%y = add f32[2] %x, 1.0\nreturn out=%y", "line 2", "number:dtype"),
    ("%x = input f32[2]\n%y = add f32[2] %x, one:f32\nreturn out=%y", "line 2", "not a number"),
    ("%x = input u8[2]\n%y = add u8[2] %x, 300:u8\nreturn out=%y", "line 2", "not a number"),
    ("%x = input f32[2]\n%y = add f32[2] %x, 0x1ffffffff:f32\nreturn out=%y", "line 2", "not a number"),
    ("%x = input f32[2]\n%y = add f32[2] %x, 0x1:f4e2m1\nreturn out=%y", "line 2", "packed"),
    ("%x = input f32[2]\n%y = add f32[2] %x\nreturn out=%y", "line 2", "2 operands"),
    ("%x = input f32[2]\n%y = exp f32[2] %x\n%z = exp f32[2] %x\nreturn out=%z", "line 3", "repeats"),
    ("%x = input f32[2]\n%y = sum f32[] %x {axes}\nreturn out=%y", "line 2", "key=value"),
    ("%x = input f32[2]\n%y = sum f32[] %x {axes=[4]}\nreturn out=%y", "line 2", "axis 4"),
    ("%x = input f32[2]\nreturn out=%x\n%y = exp f32[2] %x", "line 3", "nothing follows"),
    ("%x = input f32[2]\nreturn %x", "line 2", "name=%value"),
    ("%x = input f32[2]\n%y = divmod (f32[2], f32[2]) %x, %x\nreturn out=%y", "line 3", "proj"),
    ("%x = input f32[2]\n%y = proj f32[2] %x {index=0}\nreturn out=%x", "line 2", "several results"),
    (
        "%x = input f32[2]\n%y = repeat (f32[2]) %x {count=2}\n%z = input f32[2]\nreturn o=%z",
        "line 5",
        "end of a repeated",
    ),
    ("%x = input f32[2]\nend\nreturn out=%x", "line 2", "expected"),
    ("%x = input f32[2]\n%y = add f32[2] %x, 0xzz:f32\nreturn out=%y", "line 2", "not a number"),
]


@pytest.mark.parametrize(("text", "line", "says"), REFUSED)
def test_other_text_is_refused_by_line(text: str, line: str, says: str) -> None:
    with pytest.raises(TextFormError) as caught:
        parse_graph(text)
    assert str(caught.value).startswith(line)
    assert says in str(caught.value)


def test_deeply_nested_bodies_and_shapes_are_refused_without_recursion() -> None:
    opening = "%x = input f32[2]\n%y = repeat (f32[2]) %x {count=2}\n"
    with pytest.raises(TextFormError, match="nested more than"):
        parse_graph(opening * 5_000)
    with pytest.raises(TextFormError):
        parse_graph(f"%x = input f32[{'(' * 100_000}\nreturn out=%x")
    with pytest.raises(FuselineError):
        parse_shape_text("max(" * 5_000)


def test_mutated_text_never_fails_in_another_way() -> None:
    import random

    texts = [print_graph(p.graph) for p in seeded_programs(40, operations=(*ELEMENTWISE, *REDUCTIONS))]
    pieces = sorted({piece for text in texts for piece in text.split()})
    source = random.Random(1)
    accepted = 0
    for _ in range(3_000):
        words = source.choice(texts).split(" ")
        for _ in range(source.randint(1, 3)):
            position = source.randrange(len(words))
            words[position] = source.choice([source.choice(pieces), "", words[position] + "]", words[position][1:]])
        try:
            verify(parse_graph(" ".join(words)))
            accepted += 1
        except FuselineError:
            pass
    assert accepted > 30
