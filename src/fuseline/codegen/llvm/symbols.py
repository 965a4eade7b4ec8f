"""The names under which compiled bodies export what the runtime looks for."""

from __future__ import annotations

SYMBOL = "body"
"""The loop of a kernel."""
LANES_SYMBOL = "lanes"
"""A 64-bit integer: elements that a pass of the loop takes; 0 where it walks its operands by their strides."""
INSIDE_SYMBOL, SIZE_SYMBOL = f"{SYMBOL}_inside", "stack_bytes"
"""Of a body that brings its own stack: the loop itself, and a 64-bit integer, the bytes that its stack takes, known
when it is compiled; 0 where the caller's stack will do."""
