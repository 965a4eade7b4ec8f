"""NumPy text: one call an operation, for reading, for comparing and as the baseline of every measurement."""

from fuseline.codegen.numpy.steps import NumpyProgram, build_steps
from fuseline.codegen.numpy.text import emit_numpy

__all__ = ["NumpyProgram", "build_steps", "emit_numpy"]
