"""Chinese texts call one thing by one name, and are set with full-width punctuation."""

from __future__ import annotations

import re

import pytest

from fuseline.report.catalogue import topic_texts, topics

OTHER_NAMES = {
    "算术强度": "计算强度",
    "就地": "原地",
    "假定": "假设",
    "可达到": "可达值",
    "矩阵单元": "矩阵流水线",
    "向量单元": "向量流水线",
    "您": "你",
}
HALF_WIDTH = re.compile(r"[\u4e00-\u9fff][,;:()!?]|[,;:()!?][\u4e00-\u9fff]")


@pytest.mark.parametrize("topic", topics("zh"))
def test_every_term_has_one_name_and_punctuation_is_full_width(topic: str) -> None:
    for key, sentence in topic_texts(topic, "zh").items():
        for other, name in OTHER_NAMES.items():
            assert other not in sentence, f"{topic}.{key}: write {name}"
        found = HALF_WIDTH.search(sentence)
        assert found is None, f"{topic}.{key}: {found and found[0]}"
