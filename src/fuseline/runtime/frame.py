"""How much stack a compiled function takes, read from its first instructions."""

from __future__ import annotations

import struct

from fuseline.runtime.image import Image

_PROLOGUE_BYTES = 64
"""Registers are saved and the stack pointer is lowered within these."""


def frame_bytes(image: Image, name: str, architecture: str) -> int:
    """The bytes by which the exported function ``name`` lowers the stack pointer, apart from saved registers.

    On x86-64 that is ``sub rsp, imm32`` or ``imm8`` (Intel's manual, volume 2, SUB), on AArch64 ``sub sp, sp, #imm``
    with or without a shift by 12 (Arm's reference manual, SUB immediate).
    """
    start = image.exports[name]
    code = image.code[start : start + _PROLOGUE_BYTES]
    return _of_x86_64(code) if architecture == "x86_64" else _of_aarch64(code)


def _of_x86_64(code: bytes) -> int:
    at = code.find(b"\x48\x81\xec")
    if at >= 0:
        (size,) = struct.unpack_from("<I", code, at + 3)
        return int(size)
    at = code.find(b"\x48\x83\xec")
    return code[at + 3] if at >= 0 else 0


def _of_aarch64(code: bytes) -> int:
    total = 0
    for (word,) in struct.iter_unpack("<I", code[: len(code) // 4 * 4]):
        if word & 0xFF8003FF == 0xD10003FF:
            total += (word >> 10 & 0xFFF) << (12 if word & 1 << 22 else 0)
    return total
