"""The file in which a measured host is kept: a device file in the user's cache folder, private to the user."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
from pathlib import Path

from fuseline.errors import DataFileError
from fuseline.files import write_private
from fuseline.folders import cache_folder, is_private
from fuseline.machine.device import Device
from fuseline.machine.files import load_device_file


def host_file() -> Path:
    """The device file of this host; the name holds the machine's identity, so that a shared home keeps hosts apart."""
    identity = "\0".join((platform.node(), platform.machine(), platform.system(), str(os.cpu_count())))
    return cache_folder() / f"host-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.toml"


def load_host() -> Device | None:
    """This host as it was last measured, or ``None``.

    A file that others could have written, or that no longer reads, is the same as none: measuring again replaces it.
    """
    path = host_file()
    if not _is_private(path):
        return None
    try:
        found = load_device_file(path)
    except DataFileError:
        return None
    return found[0] if len(found) == 1 else None


def _is_private(path: Path) -> bool:
    """Whether ``path`` is a plain file that this user owns and nobody else may write."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and is_private(status)


def save_host(text: str) -> Path:
    """Writes the device file of this host (owner-only, whole or not at all) and returns its path."""
    path = host_file()
    write_private(path, text.encode())
    return path
