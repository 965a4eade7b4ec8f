"""The command that adds packages to this installation, for advice that can be typed as it stands."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any


def pip_install(arguments: str) -> str:
    """``pip install`` of this interpreter, which need not be the one whose pip is called ``pip``."""
    return f"{shlex.quote(sys.executable)} -m pip install {arguments}"


def install_features(features: Sequence[str]) -> str:
    """The command that adds optional features to fuseline from where it was installed: an index, a checkout, a URL."""
    asked = f"[{','.join(features)}]"
    origin = _origin()
    url = origin.get("url", "")
    if "dir_info" in origin:
        from urllib.parse import unquote, urlsplit

        folder = unquote(urlsplit(url).path)
        place = "." if os.path.realpath(folder) == os.path.realpath(".") else folder
        editable = "--editable " if origin["dir_info"].get("editable") else ""
        return pip_install(editable + shlex.quote(place + asked))
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return pip_install(shlex.quote(f"fuseline{asked} @ {url}" if url else f"fuseline{asked}"))


def _origin() -> dict[str, Any]:
    """What the installer noted of a distribution that is from no index (PEP 610); nothing of one that is."""
    try:
        record = importlib.metadata.distribution("fuseline").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return {}
    return dict(json.loads(record)) if record else {}
