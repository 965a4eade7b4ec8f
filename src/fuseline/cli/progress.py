"""What a command says while it works: one line on standard error, gone in the end."""

from __future__ import annotations

import sys


class ProgressLine:
    """One line on standard error, overwritten by each step and gone in the end; nothing where it is no terminal."""

    def __init__(self) -> None:
        self.on = sys.stderr is not None and sys.stderr.isatty()

    def show(self, line: str) -> None:
        """Put ``line`` in place of what stands there."""
        if self.on:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        self.show("")

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
