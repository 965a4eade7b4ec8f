"""Both languages say the same things with the same fields."""

import pytest

from fuseline.errors import UnknownNameError
from fuseline.report import catalogue


def test_every_text_exists_in_both_languages_with_the_same_fields():
    assert catalogue.check_catalogues() == []


def test_a_difference_between_the_languages_is_found():
    assert catalogue._compare("t", {"a": "{x} is", "b": "b"}, {"a": "{y}", "c": "c"}, "zh") == [
        "t.b exists in one language only",
        "t.c exists in one language only",
        "t.a: fields differ between en and zh",
    ]


def test_the_language_follows_the_locale():
    assert catalogue.default_language({"LANG": "zh_CN.UTF-8"}) == "zh"
    assert catalogue.default_language({"LANG": "de_DE.UTF-8"}) == "en"
    assert catalogue.default_language({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}) == "en"
    assert catalogue.default_language({}) == "en"


def test_unknown_languages_topics_and_fields_are_refused():
    with pytest.raises(UnknownNameError, match="unknown language"):
        catalogue.resolve_language("fr")
    with pytest.raises(UnknownNameError, match="topic"):
        catalogue.text("nothing.here", "en")
    with pytest.raises(UnknownNameError, match="not a plain name"):
        catalogue.placeholders("{x.__class__}")
