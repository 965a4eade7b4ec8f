"""Planning in tests is plain Python unless a test asks for compiled code: nothing is compiled behind its back."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSELINE_CACHE", "off")
