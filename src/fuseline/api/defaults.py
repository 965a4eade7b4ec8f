"""What commands and functions take where nothing is said; quick to import, so that ``--help`` can tell."""

from __future__ import annotations

EXPLAINED_SHAPE = (4096, 14336)
"""The feed-forward activations of Llama-3-8B for 4096 tokens."""
EXPLAINED_DTYPE = "bf16"
EXPLAINED_DEVICE = "h100-sxm"
"""The arrays and the machine of a program that is judged without running it."""

RUN_DTYPE = "f32"
MEASURED_N = 1 << 24
"""The arrays of a program that runs on this host, is measured here, or is written as text."""
QUICK_FACTOR = 16
"""How many times smaller they are where it should be quick."""

CLASSIFIED_DEVICE = "ascend-950dt"
CLASSIFIED_OPERATION = "gemm"
CLASSIFIED_DTYPE = "fp8"
CLASSIFIED_N = 7168
CLASSIFIED_K = 16384
"""The machine and product of the course, where a shape or rates leave them open."""
