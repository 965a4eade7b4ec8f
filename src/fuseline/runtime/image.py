"""Machine code as position-independent bytes, and its way into executable memory.

An `Image` is what a linker would leave of one relocatable ELF object: code and constants at fixed distances, exported
offsets, and the few eight-byte slots that need an absolute address. It holds no pointer, so it can be stored on disk
and loaded by a later process without any compiler library. Loading copies it once, fills the slots and makes it
executable.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fuseline.c_library import c_library_with
from fuseline.errors import CompilerError

_MAGIC = b"FLIMG001"


@dataclass(frozen=True, slots=True)
class Image:
    """Linked code. ``code`` starts at a page boundary when loaded; every offset counts bytes from its start."""

    code: bytes
    exports: Mapping[str, int]
    """Name of each global function to its offset."""
    imports: Mapping[str, tuple[int, ...]]
    """Name of each symbol the process must supply to the offsets of the slots that hold its address."""
    bases: tuple[tuple[int, int], ...] = ()
    """(slot, offset): the slot holds the loaded address of ``offset``."""

    def to_bytes(self) -> bytes:
        """A self-contained serialisation, read back by `from_bytes`."""
        head = json.dumps(
            {
                "exports": dict(self.exports),
                "imports": {k: list(v) for k, v in self.imports.items()},
                "bases": self.bases,
            },
            separators=(",", ":"),
        ).encode()
        return _MAGIC + struct.pack("<II", len(head), len(self.code)) + head + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """The image written by `to_bytes`; `CompilerError` when ``data`` is not one."""
        if len(data) < 16 or data[:8] != _MAGIC:
            raise CompilerError("not a compiled kernel image: the leading bytes differ")
        head_bytes, code_bytes = struct.unpack_from("<II", data, 8)
        if len(data) != 16 + head_bytes + code_bytes:
            raise CompilerError("a compiled kernel image is cut short")
        try:
            head = json.loads(data[16 : 16 + head_bytes])
            return cls(
                code=data[16 + head_bytes :],
                exports={str(k): int(v) for k, v in head["exports"].items()},
                imports={str(k): tuple(int(slot) for slot in v) for k, v in head["imports"].items()},
                bases=tuple((int(slot), int(offset)) for slot, offset in head["bases"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CompilerError(f"a compiled kernel image has a damaged head: {error!r}") from None


class LoadedImage:
    """An `Image` in executable memory. The memory is returned when the object dies, so whoever keeps an address of it
    keeps the object too."""

    __slots__ = ("_memory", "address", "exports", "size_bytes")

    def __init__(self, image: Image) -> None:
        self.size_bytes = -(-len(image.code) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = _writable_memory(self.size_bytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        _fill(self._memory, image, self.address)
        _make_executable(self.address, self.size_bytes)
        self.exports = {name: self.address + offset for name, offset in image.exports.items()}

    def keep(self) -> None:
        """Never return the memory, also when the interpreter ends: threads that it does not know run in it."""
        immortal(self._memory)


def immortal(value: object) -> None:
    """Take a reference that nobody gives back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


_APPLE_SILICON = sys.platform == "darwin" and platform.machine() == "arm64"
_MAP_JIT = 0x0800  # <sys/mman.h> of macOS; Python's mmap module does not name it


def _writable_memory(size_bytes: int) -> mmap.mmap:
    try:
        return _mapped(size_bytes)
    except OSError as error:
        raise MemoryError(f"no memory for compiled code: {size_bytes:,} bytes ({error})") from None


def _mapped(size_bytes: int) -> mmap.mmap:
    if _APPLE_SILICON:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANON | _MAP_JIT
        memory = mmap.mmap(-1, size_bytes, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        ctypes.CDLL(None).pthread_jit_write_protect_np(0)
        return memory
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _fill(memory: mmap.mmap, image: Image, address: int) -> None:
    memory[: len(image.code)] = image.code
    for slot, offset in image.bases:
        struct.pack_into("<Q", memory, slot, address + offset)
    for name, slots in image.imports.items():
        value = symbol_address(name)
        for slot in slots:
            struct.pack_into("<Q", memory, slot, value)


def _make_executable(address: int, size_bytes: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if _APPLE_SILICON:
        libc.pthread_jit_write_protect_np(1)
        libc.sys_icache_invalidate(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes))
        return
    # On AArch64 Linux the kernel cleans the instruction cache of a page when it first becomes executable.
    protection = mmap.PROT_READ | mmap.PROT_EXEC
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), protection) != 0:
        raise CompilerError(
            "the system refuses executable memory (mprotect failed, errno "
            f"{ctypes.get_errno()}); allow it for this process (SELinux: execmem), or run NumPy text: "
            'kernel.emit("numpy"), or fuseline emit PROGRAM --target numpy'
        )


own_symbols: dict[str, Callable[[], int]] = {}
"""What compiled code may import of fuseline's own: the address of each, asked for when such code is loaded."""


def symbol_address(name: str) -> int:
    """Address of the symbol ``name``: of fuseline's own, or of C in this process or in libm; `CompilerError` when there
    is none."""
    own = own_symbols.get(name)
    if own is not None:
        return own()
    library = c_library_with(name)
    if library is None:
        raise CompilerError(f"compiled code needs the C function {name!r}, which this process does not offer")
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
