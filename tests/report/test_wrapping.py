"""Lines fit, lose nothing, and neither tear a number from its unit nor begin with closing punctuation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuseline.report.wrapping import NO_BREAK_SPACE, unbroken, width_of, wrap

WORDS = st.text(st.sampled_from("ab1.%，。（）「」内存带宽é"), min_size=1, max_size=12)


@given(st.lists(WORDS, max_size=30).map(" ".join), st.integers(24, 80))
def test_nothing_is_lost(text: str, width: int) -> None:
    assert "".join("".join(wrap(text, width)).split()) == "".join(text.split())


@given(st.text(st.sampled_from("内存带宽融合内核计算"), max_size=200), st.integers(2, 60))
def test_chinese_text_fills_lines_without_passing_the_width(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(width_of(line) <= width for line in lines)
    assert all(width_of(line) >= width - 1 for line in lines[:-1])


@pytest.mark.parametrize("width", range(12, 40))
def test_a_number_stays_with_its_unit(width: int) -> None:
    figure = unbroken("3.288 GB")
    assert NO_BREAK_SPACE in figure
    text = f"Fusion brings the traffic from {figure} down, 融合之后从 {figure} 降下来。"
    assert sum(line.count("3.288 GB") for line in wrap(text, width)) == 2


@pytest.mark.parametrize("width", range(8, 30))
def test_no_line_begins_with_closing_or_ends_with_opening_punctuation(width: int) -> None:
    text = "程序（见下）搬运字节：每个输入只读一次，每个输出只写一次；“中间结果”不进内存。"
    for line in wrap(text, width):
        assert line[0] not in "，。；：）”"
        assert line[-1] not in "（“"


def test_wide_and_combining_characters_are_counted_as_terminals_do() -> None:
    assert width_of("abc") == 3
    assert width_of("内存") == 4
    assert width_of("e\u0301") == 1
