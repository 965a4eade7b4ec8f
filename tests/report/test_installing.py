"""What advice says to install can be typed as it stands, however fuseline was installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from fuseline.errors import UnsupportedError
from fuseline.report.chart_files import require_format
from fuseline.report.installing import install_features


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        (None, "'fuseline[charts,planner]'"),
        ({"url": "file://{here}", "dir_info": {"editable": True}}, "--editable '.[charts,planner]'"),
        ({"url": "file://{here}", "dir_info": {}}, "'.[charts,planner]'"),
        ({"url": "file:///a%20b/c", "dir_info": {"editable": True}}, "--editable '/a b/c[charts,planner]'"),
        (
            {"url": "https://x.org/f.git", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "'fuseline[charts,planner] @ git+https://x.org/f.git@12ab'",
        ),
        ({"url": "file:///w/f.whl", "archive_info": {}}, "'fuseline[charts,planner] @ file:///w/f.whl'"),
    ],
)
def test_pip_is_asked_for_what_this_installation_is_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: dict[str, Any] | None, wanted: str
) -> None:
    """PEP 610: how a distribution that is from no index was installed stands in its direct_url.json."""
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "site" / "fuseline-9.dist-info").mkdir(parents=True)
    if record is not None:
        told = record | {"url": record["url"].format(here=tmp_path)}
        (folder / "direct_url.json").write_text(json.dumps(told))
    installed = importlib.metadata.PathDistribution(folder)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: installed)
    assert install_features(["charts", "planner"]) == f"{shlex.quote(sys.executable)} -m pip install {wanted}"


def test_a_chart_without_its_packages_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError) as refusal:
        require_format("arena.svg")
    assert install_features(["charts"]) in str(refusal.value)
