"""What Ctrl-C does before a command begins and after it has ended: leave, for there is nothing to finish.

In between it is Python's `KeyboardInterrupt`, which a command may answer with what it has so far.
"""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130
"""The exit status of a command that was interrupted."""


def leave_at_once() -> None:
    """Leave on an interrupt without a word, unless whoever started the process had it ignore interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_again() -> None:
    """Raise `KeyboardInterrupt` on an interrupt again, where it was to leave at once."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)  # imports may be under way, which an exception would leave half done
