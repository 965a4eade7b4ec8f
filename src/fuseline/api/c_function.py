"""A compiled C text, called on arrays that are there already."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np

from fuseline.codegen.c import CText
from fuseline.runtime.compiler import CCompiler

Array = np.ndarray[Any, Any]


class CFunction:
    """A compiled C text with its arrays bound; several threads cut its one loop into equal parts."""

    def __init__(
        self, compiler: CCompiler, text: CText, sizes: list[int], inputs: list[Array], outputs: list[Array]
    ) -> None:
        address = compiler.compile(text.source).address(text.function)
        self.arrays = [*inputs, *outputs]
        self.outputs = outputs
        self.sizes = sizes
        kinds = [ctypes.c_int64] * len(self.sizes) + [ctypes.c_void_p] * len(self.arrays)
        self.function = ctypes.CFUNCTYPE(None, *kinds)(address)

    def caller(self, count: int, pools: ExitStack) -> Callable[[], Sequence[Array]]:
        """A call with ``count`` threads, which ``pools`` ends. The foreign function releases the interpreter's lock."""
        if count == 1:
            whole = [*self.sizes, *(a.ctypes.data for a in self.arrays)]

            def run() -> Sequence[Array]:
                self.function(*whole)
                return self.outputs

            return run
        parts = [self.part(i, count) for i in range(count)]
        pool = pools.enter_context(ThreadPoolExecutor(count))

        def run_parts() -> Sequence[Array]:
            for done in [pool.submit(self.function, *part) for part in parts]:
                done.result()
            return self.outputs

        return run_parts

    def part(self, index: int, count: int) -> list[int]:
        n = self.sizes[0]
        start, end = n * index // count, n * (index + 1) // count
        offsets = [start * a.itemsize if a.ndim else 0 for a in self.arrays]  # a single number is every part's
        return [end - start, *(a.ctypes.data + offset for a, offset in zip(self.arrays, offsets, strict=True))]
