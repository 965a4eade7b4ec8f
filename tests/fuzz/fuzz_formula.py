"""Fuzz of the formula language: every text ends in a `FormulaError` or a program, and every program in a graph or an
error of fuseline's. Run it with the number of texts: ``python tests/fuzz/fuzz_formula.py 1000000``.

Half of the texts are valid programs with a few tokens changed, so that many reach beyond the parser.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuseline.errors import FormulaError, FuselineError
from fuseline.frontends.formula import parse_formula
from fuseline.ir import Graph, TensorType, dtype, verify
from fuseline.ir.program import Program
from fuseline.ir.specialise import specialise
from fuseline.ops import OPERATIONS, SPELLINGS
from programs import ELEMENTWISE, REDUCTIONS, seeded_programs

TOKEN = re.compile(r"\w+(?:\.\w+)?|\*\*|//|<<|>>|[<>=!]=|\s+|.", re.DOTALL)
EXTRA = (
    "", " ", "\n", ";", "#", "(", ")", "[", "]", "{", "}", ",", ".", ":", "=", "==", "**", "//", "@", "!", "?", "$",
    "'", '"', "\\", "\x00", "é", "²", "ﬁ", "\u2028", "lambda", "if", "and", "not", "None", "True", "out", "where",
    "__class__", "0x", "1e", "1e999", "9" * 40, "0b12", "1_", ".5", "5.", "inf", "nan", "divmod", "axis=0", "-1",
    "q, r = divmod(x0, x1)", "keepdims=True", "f4e2m1", "u4", "x0: f32[T]", "sum", "max(x0, 0)", "-", "~", "+", "%",
)  # fmt: skip
DTYPES = tuple(map(dtype, ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "u64", "bool")))
SHAPES = (None, (), (2,), (3,), (2, 3), (1, 3), (0,))


def valid_texts(count: int) -> list[str]:
    """Formulas to start from."""
    made = seeded_programs(count, seed=77, operations=(*ELEMENTWISE, *REDUCTIONS), max_statements=4)
    return [m.text for m in made]


def texts(count: int, seed: int = 0, bases: int = 2_000) -> Iterator[str]:
    """Texts to try: mutated programs and, every second time, something less like one."""
    source = random.Random(seed)
    valid = [TOKEN.findall(t) for t in valid_texts(bases)]
    pool = [*sorted({token for tokens in valid for token in tokens}), *EXTRA]
    for i in range(count):
        if i % 2 == 0:
            yield mutated(source, source.choice(valid), pool)
        else:
            yield unlikely(source, valid, pool)


def kind_of(token: str) -> str:
    """Functions by their number of operands, names, numbers, brackets, white space, and the rest, mostly operators."""
    first = token[:1]
    if token in SPELLINGS:
        return f"function of {OPERATIONS[SPELLINGS[token]].arity}"
    if first.isspace():
        return "space"
    if first.isalpha() or first == "_":
        return "name"
    return "number" if first.isdigit() else "bracket" if first in "()[]," else "operator"


def mutated(source: random.Random, tokens: Sequence[str], pool: Sequence[str]) -> str:
    """A program with one to three tokens removed, doubled, exchanged, replaced or added."""
    changed = list(tokens)
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(changed)) if changed else 0
        match source.randrange(10):
            case 0:
                del changed[at : at + 1]
            case 1:
                changed[at:at] = changed[at : at + 1]
            case 2:
                other = source.randrange(len(changed)) if changed else 0
                if changed:
                    changed[at], changed[other] = changed[other], changed[at]
            case 3:
                changed[at : at + 1] = [source.choice(pool)]
            case 4:
                changed.insert(at, source.choice(pool))
            case _:
                alike = [t for t in source.choices(pool, k=60) if changed and kind_of(t) == kind_of(changed[at])]
                changed[at : at + 1] = alike[:1] or changed[at : at + 1]
    return "".join(changed)


def unlikely(source: random.Random, valid: Sequence[Sequence[str]], pool: Sequence[str]) -> str:
    """Random tokens or characters, a program cut off, two programs spliced, or a program with characters changed."""
    kind = source.randrange(5)
    if kind == 0:
        return "".join(source.choices(pool, k=source.randint(0, 12)))
    if kind == 1:
        return "".join(chr(source.choice((source.randint(1, 127), source.randint(128, 0x2FFF)))) for _ in range(8))
    first = "".join(source.choice(valid))
    cut = source.randint(0, len(first))
    if kind == 2:
        return first[:cut]
    if kind == 3:
        second = "".join(source.choice(valid))
        return first[:cut] + second[source.randint(0, len(second)) :]
    characters = list(first)
    for _ in range(source.randint(1, 3)):
        if characters:
            characters[source.randrange(len(characters))] = source.choice("()[]=+-*/<>,.;:# \n0123456789abxyzé\x00")
    return "".join(characters)


def attempt(source: random.Random, text: str) -> str:
    """How far a text gets: refused by the parser, refused by the types, or a graph. Anything else raises."""
    try:
        program = parse_formula(text)
    except FormulaError as error:
        assert str(error)
        return "refused by the parser"
    assert isinstance(program, Program)
    types = {
        d.name: TensorType(d.dtype or source.choice(DTYPES), d.shape if d.shape is not None else source.choice(SHAPES))
        for d in program.inputs
    }
    try:
        graph = specialise(program, types)
    except FuselineError as error:
        assert str(error)
        return "refused by the types"
    assert isinstance(graph, Graph)
    verify(graph)
    return "a graph"


def fuzz(count: int, seed: int = 0, bases: int = 2_000) -> Counter[str]:
    """Try ``count`` texts and count how far they get; an unexpected error is raised with its text."""
    source = random.Random(seed + 1)
    reached: Counter[str] = Counter()
    for text in texts(count, seed, bases):
        try:
            reached[attempt(source, text)] += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\nfrom the text {text!r}") from error
    return reached


def report(reached: Counter[str]) -> str:
    """The shares, a line each."""
    total = sum(reached.values())
    lines = [f"{total:,} texts; no other outcome than these:"]
    lines += [f"  {kind:22s} {n:10,}  {n / total:6.1%}" for kind, n in reached.most_common()]
    past = total - reached["refused by the parser"]
    return "\n".join([*lines, f"past the parser: {past / total:.1%}"])


if __name__ == "__main__":
    print(report(fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)))
