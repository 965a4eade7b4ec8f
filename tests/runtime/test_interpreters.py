"""Kernels at the edges of an interpreter: its first ones in many threads, its last ones in finalizers, and others."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

FIRST_KERNELS_IN_MANY_THREADS = """
    import threading
    import numpy as np
    import fuseline

    gate, kernels = threading.Barrier(8), []

    def work(i):
        gate.wait()
        kernel = fuseline.compile(f"x*{i} + tanh(x)")
        for _ in range(200):
            kernel(np.ones(100))
        kernels.append(kernel)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    junk = [bytes(i % 160) for i in range(100_000)]
    print(sum(kernel(np.zeros(3)).sum() for kernel in kernels))
"""

FINALIZER = """
    import sys
    import numpy as np
    import fuseline

    class Last:
        def __init__(self):
            self.kernel, self.x, self.print = fuseline.compile("x*1.25 + 3"), np.ones(3), print
            self.function = self.kernel.ufunc if {cold} else self.kernel
            if not {cold}:
                self.kernel(self.x), self.kernel(self.x)

        def __del__(self):
            junk = [i * 1.5 for i in range(200_000)] + [bytes(i % 160) for i in range(200_000)]
            try:
                self.print(self.function(self.x)[0])
            except Exception:
                self.print("refused")

    np.kept = Last()
"""

SUBINTERPRETER = """
    try:
        import _interpreters as interpreters
        other = interpreters.create("legacy")
    except ImportError:
        import _xxsubinterpreters as interpreters
        import sys
        isolated = sys.version_info < (3, 12)  # from 3.12 on NumPy refuses isolated ones
        other = interpreters.create(isolated=isolated)

    failed = interpreters.run_string(other, '''
    import warnings
    warnings.simplefilter("ignore")
    import numpy as np
    import fuseline
    kernel, x = fuseline.compile("x*2 + y"), np.ones(3)
    print(kernel(x, x)[0], kernel(x, x)[0], kernel(x, 1.0)[0], kernel(np.ones(3_000_000), 1.0)[5])
    try:
        kernel.ufunc
    except fuseline.UnsupportedError as error:
        print("sub-interpreter" in str(error), flush=True)
    ''')
    assert failed is None, failed
    interpreters.destroy(other)
"""


def output_of(program: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout.split()


def test_the_first_kernels_of_a_process_may_be_made_in_many_threads() -> None:
    for _ in range(3):
        assert output_of(FIRST_KERNELS_IN_MANY_THREADS) == (0, ["0.0"])


@pytest.mark.parametrize(("cold", "answer"), [(False, "4.25"), (True, "refused")], ids=["warm", "cold"])
def test_a_finalizer_that_runs_after_the_modules_are_gone_may_call_a_kernel(cold: bool, answer: str) -> None:
    code, printed = output_of(FINALIZER.replace("{cold}", str(cold)))
    assert code == 0
    assert printed in ([answer], ["4.25"])


def test_a_subinterpreter_calls_kernels_and_is_refused_ufuncs() -> None:
    code, printed = output_of(SUBINTERPRETER)
    assert (code, printed) == (0, ["3.0", "3.0", "3.0", "3.0", "True"])
