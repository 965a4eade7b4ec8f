"""LLVM text for the inner loop of a kernel."""

from __future__ import annotations

from .body import SYMBOL, BodyText, body_text
from .target import LlvmTarget, target

__all__ = ["SYMBOL", "BodyText", "LlvmTarget", "body_text", "target"]
