"""LLVM text for the inner loop of a kernel."""

from __future__ import annotations

from .body import LANES_SYMBOL, SYMBOL, BodyText, body_text
from .target import LlvmTarget, target

__all__ = ["LANES_SYMBOL", "SYMBOL", "BodyText", "LlvmTarget", "body_text", "target"]
