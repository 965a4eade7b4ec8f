"""A pytest plugin that runs the whole session with the unsound rewrite that ``FUSELINE_PLANT`` names."""

from __future__ import annotations

import os
from contextlib import ExitStack

from planted_rewrites import planted

_planted = ExitStack()


def pytest_sessionstart() -> None:
    """Plant it before anything is collected."""
    _planted.enter_context(planted(os.environ["FUSELINE_PLANT"]))


def pytest_sessionfinish() -> None:
    """Take it out."""
    _planted.close()
