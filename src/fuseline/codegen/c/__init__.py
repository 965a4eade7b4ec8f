"""C11 text: for reading, for embedding, and for comparing the C library's functions with our own."""

from .text import CText, emit_c

__all__ = ["CText", "emit_c"]
