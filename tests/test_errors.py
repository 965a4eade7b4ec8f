"""Where an error points: the caret stands under the character on a terminal, and source text cannot command one."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuseline.errors import FormulaError
from fuseline.excerpts import columns_of, located, printable
from fuseline.frontends.formula import parse_formula


def caret(said: str) -> tuple[str, int]:
    """The source line as shown and the terminal column (from 0) of the caret."""
    lines = said.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip() == "^")
    return lines[at - 1], lines[at].index("^")


def shown_before(line: str, column: int) -> str:
    """What of a line a terminal shows left of a column; wide characters counted here by their own rule."""
    width, kept = 0, ""
    for c in line:
        width += 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if width > column:
            return kept
        kept += c
    return kept


@pytest.mark.parametrize(
    "source", ["y = 中文字 + tanhh(x)", "ｘ＝1; y = tanhh(x)", "한글*2 + tanhh(x)", "é + tanhh(x)"]
)
def test_the_caret_stands_under_the_word_after_wide_characters(source: str) -> None:
    line, column = caret(located("no such function", source, 1, source.index("tanhh") + 1))
    assert line[len(shown_before(line, column)) :].startswith("tanhh")


def test_a_formula_with_wide_names_shows_its_mistake() -> None:
    with pytest.raises(FormulaError) as raised:
        parse_formula("y = 中文字 + tanhh(x)")
    line, column = caret(str(raised.value))
    assert column == 2 + len("y = ") + 6 + len(" + ") and "中文字" in line


def test_a_combining_mark_takes_no_column() -> None:
    source = "a\u0301 + $"
    line, column = caret(located("wrong", source, 1, source.index("$") + 1))
    assert column == 2 + len("a + ") and line.endswith("$")


@pytest.mark.parametrize("hidden", ["\x1b[31m", "\x07", "\u202e", "\u2066", "\u200b", "\x9b", "\r"])
def test_characters_that_show_nothing_are_written_as_escapes(hidden: str) -> None:
    source = f"x {hidden} + $ # 注释"
    said = located(f"{hidden} is wrong", source, 1, source.index("$") + 1, f"not {hidden}")
    assert said.replace("\n", "").isprintable()
    line, column = caret(said)
    assert line[len(shown_before(line, column)) :].startswith("$")
    assert "注释" in line


@given(st.text(max_size=200), st.integers(1, 220))
def test_every_excerpt_is_printable_short_and_has_its_caret_inside(source: str, column: int) -> None:
    source = source.replace("\n", " ")
    column = min(column, len(source) + 1)
    line, at = caret(located("wrong", source, 1, column))
    assert line.isprintable()
    assert sum(map(columns_of, line)) <= 2 + 1 + 70 + 1
    assert 1 <= at <= sum(map(columns_of, line))


def test_a_long_line_is_cut_around_the_mistake() -> None:
    source = "中+" * 500 + "$" + "+文" * 500
    line, column = caret(located("wrong", source, 1, source.index("$") + 1))
    assert line.strip().startswith("…") and line.endswith("…")
    assert line[len(shown_before(line, column)) :].startswith("$")


def test_printable_text_is_unchanged() -> None:
    assert printable("中文 é ½ x + y") == "中文 é ½ x + y"
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"
