"""Planning in tests is plain Python unless a test asks for compiled code: nothing is compiled behind its back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _nothing_is_compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSELINE_CACHE", "off")
        yield
