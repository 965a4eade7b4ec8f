"""For all tests: no cache of the user is read or written, every pass is verified, and hypothesis sets no clock.

The everyday tests try the same examples each time; ``make test-full`` searches anew (``--hypothesis-profile=search``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

os.environ["FUSELINE_CHECK"] = "1"

hypothesis.settings.register_profile("everyday", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None, derandomize=False, print_blob=True)
hypothesis.settings.load_profile("everyday")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    from fuseline.runtime import cache

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSELINE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        cache.object_cache.cache_clear()  # collecting tests may have used the user's
        yield
