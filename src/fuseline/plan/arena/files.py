"""Files that are either whole or not there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from fuseline.errors import PlanError


def write_atomically(path: Path, data: bytes) -> None:
    """``data`` under ``path`` by way of a temporary file beside it and a rename.

    Raises:
        PlanError: the folder does not exist, is full, or may not be written to.
    """
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(6)}.tmp"
    try:
        with open(temporary, "xb") as file:
            try:
                file.write(data)
                file.flush()
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise PlanError(f"{path}: cannot be written: {error.strerror or error}") from error
