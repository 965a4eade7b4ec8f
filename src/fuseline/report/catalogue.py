"""Sentences for people, by key and language, kept in data files beside this module.

A key is ``topic.name``; the topic is a file ``messages/<language>/<topic>.toml`` of flat or nested string tables, and a
text has named fields in braces that the caller fills. ``{count:row|rows}`` is a count with the words that it takes
(1 row, 2 rows); third words stand for a count of 0, without it. No other module holds a sentence that depends on the
language.
"""

from __future__ import annotations

import os
import string
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from fuseline.errors import UnknownNameError, nearest

LANGUAGES = ("en", "zh")
"""The languages that every text exists in."""


def default_language(environment: dict[str, str] | None = None) -> str:
    """``zh`` where the locale (``LC_ALL``, ``LC_MESSAGES``, ``LANG``, in that order) is Chinese, else ``en``."""
    values = os.environ if environment is None else environment
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = values.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def resolve_language(language: str | None) -> str:
    """``language`` checked, or the locale's where it is ``None``; raises ``UnknownNameError``."""
    if language is None:
        return default_language()
    if language not in LANGUAGES:
        raise UnknownNameError(f"unknown language {language!r}; choose one of {', '.join(LANGUAGES)}")
    return language


def text(key: str, lang: str | None = None, /, **values: Any) -> str:
    """The sentence ``key`` (``topic.name``) in ``lang`` with its fields filled from ``values``.

    Raises ``UnknownNameError`` for a key or language that does not exist or a field that was not given.
    """
    language = resolve_language(lang)
    topic, _, name = key.partition(".")
    entries = topic_texts(topic, language)
    if name not in entries:
        close = nearest(name, entries)
        hint = f"; close ones: {', '.join(f'{topic}.{c}' for c in close)}" if close else ""
        raise UnknownNameError(f"no {language} text for {key!r}{hint}")
    try:
        return _COUNTING.vformat(entries[name], (), values)
    except KeyError as error:
        raise UnknownNameError(f"the text {key!r} needs a value for {error.args[0]!r}") from error


class _Counting(string.Formatter):
    """Fills fields; one with words for singular and plural gets the count and the words that go with it."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        if "|" not in format_spec:
            return super().format_field(value, format_spec)
        singular, plural, *none = format_spec.split("|")
        count = str(value)
        if count == "0" and none:
            return none[0]
        return f"{count} {singular if count == '1' else plural}"


_COUNTING = _Counting()


def topics(lang: str) -> list[str]:
    """The names of the topics that exist in ``lang``, sorted."""
    folder = resources.files("fuseline.report") / "messages" / lang
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


@cache
def topic_texts(topic: str, lang: str) -> dict[str, str]:
    """All texts of one topic, nested tables flattened with dots."""
    path = resources.files("fuseline.report") / "messages" / lang / f"{topic}.toml"
    if not path.is_file():
        raise UnknownNameError(f"no {lang} texts for the topic {topic!r}")
    flat: dict[str, str] = {}
    pending: list[tuple[str, Any]] = list(tomllib.loads(path.read_text(encoding="utf-8")).items())
    while pending:
        name, value = pending.pop()
        if isinstance(value, dict):
            pending.extend((f"{name}.{inner}", entry) for inner, entry in value.items())
        elif isinstance(value, str):
            flat[name] = value
        else:
            raise UnknownNameError(f"{topic}.{name} ({lang}) is not a text")
    return flat


def placeholders(entry: str) -> set[str]:
    """The names of the fields in a text; a field is a plain name, never an attribute or an index."""
    found = {name for _, name, _, _ in string.Formatter().parse(entry) if name is not None}
    for name in found:
        if not name.isidentifier():
            raise UnknownNameError(f"the field {{{name}}} in {entry!r} is not a plain name")
    return found


def check_catalogues() -> list[str]:
    """What is wrong with the catalogues: topics, keys or fields that one language has and another lacks."""
    problems: list[str] = []
    reference = LANGUAGES[0]
    for other in LANGUAGES[1:]:
        for topic in sorted(set(topics(reference)) ^ set(topics(other))):
            problems.append(f"topic {topic!r} is missing in one language")
        for topic in sorted(set(topics(reference)) & set(topics(other))):
            problems += _compare(topic, topic_texts(topic, reference), topic_texts(topic, other), other)
    return problems


def _compare(topic: str, first: dict[str, str], second: dict[str, str], other: str) -> list[str]:
    problems = [f"{topic}.{key} exists in one language only" for key in sorted(first.keys() ^ second.keys())]
    for key in sorted(first.keys() & second.keys()):
        if placeholders(first[key]) != placeholders(second[key]):
            problems.append(f"{topic}.{key}: fields differ between {LANGUAGES[0]} and {other}")
        if not second[key].strip() or not first[key].strip():
            problems.append(f"{topic}.{key} is empty")
    return problems
