"""Puts each unsound rewrite into the passes, one at a time, and reports whether the tests catch it.

    python tools/plant_unsound_rewrites.py

Exit status 1 if any of them goes unnoticed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = ("tests/passes", "tests/ir", "tests/codegen")
PLUGIN = "planted_by_environment"


def caught(name: str) -> tuple[bool, str]:
    """Whether the suite fails with the rule planted, and the first test that did."""
    environment = {**os.environ, "FUSELINE_PLANT": name, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", PLUGIN, "-k", "not planted", *SUITE]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    return run.returncode == 1, failed[0].split(" - ")[0].removeprefix("FAILED ") if failed else ""


def main() -> int:
    """Plant every rule and print a line for each."""
    sys.path.insert(0, str(ROOT / "tests"))
    from planted_rewrites import PLANTS

    unnoticed = 0
    for name in PLANTS:
        noticed, test = caught(name)
        unnoticed += not noticed
        print(f"{name:26} {'caught by ' + test if noticed else 'NOT CAUGHT'}", flush=True)
    print(f"{len(PLANTS) - unnoticed} of {len(PLANTS)} caught")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
