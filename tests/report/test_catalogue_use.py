"""No sentence of the explain and remarks catalogues is left over: each key is named in the code that shows it."""

from __future__ import annotations

from importlib import resources

import pytest

from fuseline.report.catalogue import topic_texts

CODE = "".join(
    path.read_text(encoding="utf-8")
    for folder in ("report", "cli")
    for path in (resources.files("fuseline") / folder).iterdir()
    if path.name.endswith(".py")
)


@pytest.mark.parametrize("topic", ["explain", "remarks"])
def test_every_key_is_used(topic: str) -> None:
    unused = []
    for key in topic_texts(topic, "en"):
        group, _, name = key.rpartition(".")
        whole = f'"{key}"' in CODE or f"{topic}.{key}" in CODE or f'"{name}"' in CODE
        composed = f"{group}.{{" in CODE  # the name is filled in
        if not whole and not composed:
            unused.append(key)
    # Notes and the names of facts are put together from a label and the suffix of its note.
    assert [key for key in unused if not key.endswith("_note") and not key.startswith("fact.ridge_")] == []
