"""What an x86-64 processor says of itself, asked in machine code.

The system's list is that of the machine. A program may run on less: under an emulator or a tool such as valgrind, which
know fewer instructions, or where the system does not keep the wide registers.
"""

from __future__ import annotations

import ctypes
import functools
import struct

from fuseline.errors import CompilerError
from fuseline.runtime.image import Image, LoadedImage

# ask(leaf, subleaf, four words) and enabled(), in the System V calling convention. Intel's manual, volume 2, CPUID and
# XGETBV, says where the bits are.
_ASK = bytes.fromhex(
    "53"  # push rbx
    "4989d0"  # mov r8, rdx
    "89f8"  # mov eax, edi
    "89f1"  # mov ecx, esi
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8 + 4], ebx
    "41894808"  # mov [r8 + 8], ecx
    "4189500c"  # mov [r8 + 12], edx
    "5bc3"  # pop rbx; ret
)
_ENABLED = bytes.fromhex(
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv
    "c3"  # ret
)
_OSXSAVE = 1 << 27
_YMM, _ZMM = 0x06, 0xE6
"""Parts of the state that the system must keep: XMM and YMM, and for AVX-512 the masks and all of ZMM."""
_LEAF_1 = {
    "ssse3": 9, "fma": 12, "cx16": 13, "sse4_1": 19, "sse4_2": 20, "movbe": 22, "popcnt": 23, "avx": 28, "f16c": 29,
}  # fmt: skip
_LEAF_7 = {
    "bmi1": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31,
}  # fmt: skip
_LEAF_7_1 = {"avx512_bf16": 5}
NAMES = frozenset({*_LEAF_1, *_LEAF_7, *_LEAF_7_1})
"""The extensions that are asked for, in Linux's spellings."""


@functools.cache
def flags() -> frozenset[str]:
    """Those of `NAMES` that this process can use; all where the system does not let it run code of its own."""
    try:
        loaded = LoadedImage(Image(_ASK + _ENABLED, {"ask": 0, "enabled": len(_ASK)}, {}))
    except CompilerError:
        return NAMES
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(loaded.exports["ask"])
    words = ctypes.create_string_buffer(16)

    def leaf(number: int, part: int = 0) -> tuple[int, ...]:
        ask(number, part, ctypes.addressof(words))
        return struct.unpack("<4I", words.raw)

    highest = leaf(0)[0]
    _, _, basic, _ = leaf(1)
    parts, extended, _, _ = leaf(7) if highest >= 7 else (0, 0, 0, 0)
    more = leaf(7, 1)[0] if parts >= 1 else 0
    found = {name for name, bit in _LEAF_1.items() if basic >> bit & 1}
    found |= {name for name, bit in _LEAF_7.items() if extended >> bit & 1}
    found |= {name for name, bit in _LEAF_7_1.items() if more >> bit & 1}
    enabled = ctypes.CFUNCTYPE(ctypes.c_uint32)(loaded.exports["enabled"])() if basic & _OSXSAVE else 0
    if enabled & _YMM != _YMM:
        found -= {"avx", "avx2", "f16c", "fma"}
    if enabled & _ZMM != _ZMM:
        found = {name for name in found if not name.startswith("avx512")}
    return frozenset(found)
