"""NumPy text: one call an operation, for reading, for comparing and as the baseline of every measurement."""

from .steps import NumpyProgram, build_steps
from .text import emit_numpy

__all__ = ["NumpyProgram", "build_steps", "emit_numpy"]
