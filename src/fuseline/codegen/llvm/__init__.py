"""LLVM text for the inner loop of a kernel."""

from __future__ import annotations

from fuseline.codegen.llvm.body import LANES_SYMBOL, SYMBOL, BodyText, body_text
from fuseline.codegen.llvm.divider import does_without
from fuseline.codegen.llvm.still import that_matter
from fuseline.codegen.llvm.target import LlvmTarget, target

__all__ = ["LANES_SYMBOL", "SYMBOL", "BodyText", "LlvmTarget", "body_text", "does_without", "target", "that_matter"]
