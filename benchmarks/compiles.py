"""What compiling costs, and loading from the cache: one JSON object for the first two kernels of this process.

`kernels.py` starts this file in fresh processes, with an empty cache and then with what the first one left there.
"""

from __future__ import annotations

import json
import sys
import time

import fuseline
from programs import PROGRAMS


def main() -> None:
    """Print the seconds of the two programs that are named: each from its formula to its first result."""
    first, second = sys.argv[1:]
    print(json.dumps({"first": _seconds(first), "own": _seconds(second)}))


def _seconds(name: str) -> float:
    """After ``import fuseline``: what is loaded when it is first used, the kernel, and a call on one element."""
    program = PROGRAMS[name]
    inputs = program.inputs(1)
    started = time.perf_counter()
    kernel = fuseline.compile(program.formula, name=program.name)
    kernel(**inputs)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
