"""A relocatable ELF64 object, as LLVM emits it, linked into a flat `Image`.

Only what freestanding loop code needs is accepted: read-only sections, program-counter-relative references within the
object, absolute addresses through slots, and calls of external functions through a stub each. Anything else is a
`CompilerError`, never a guess. Relocation formulas: System V ABI, AMD64 supplement, table 4.9; ELF for the Arm 64-bit
architecture, sections 5.7.3 to 5.7.11.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from fuseline.errors import CompilerError
from fuseline.runtime.image import Image

_X86_64, _AARCH64 = 62, 183
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_SHF_WRITE, _SHF_ALLOC = 1, 2
_PAGE_BYTES = 4096
_STUBS = {
    _X86_64: bytes.fromhex("ff2502000000cc90"),  # jmp *2(%rip); padding; then the eight-byte slot
    _AARCH64: bytes.fromhex("5000005800021fd6"),  # ldr x16, #8; br x16; then the slot
}
_STUB_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int
    is_global: bool


@dataclass
class _Layout:
    """The image under construction; ``place`` gives each kept section's offset."""

    machine: int
    code: bytearray = field(default_factory=bytearray)
    place: dict[int, int] = field(default_factory=dict)
    stubs: dict[str, int] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    imports: dict[str, list[int]] = field(default_factory=dict)
    bases: list[tuple[int, int]] = field(default_factory=list)

    def append(self, content: bytes, alignment: int) -> int:
        self.code.extend(bytes(-len(self.code) % alignment))
        start = len(self.code)
        self.code.extend(content)
        return start

    def stub(self, name: str) -> int:
        """Offset of a jump to the external function ``name``."""
        if name not in self.stubs:
            self.stubs[name] = self.append(_STUBS[self.machine] + bytes(8), _STUB_BYTES)
            self.imports.setdefault(name, []).append(self.stubs[name] + 8)
        return self.stubs[name]

    def address_slot(self, name: str) -> int:
        """Offset of eight bytes that hold the address of the external symbol ``name``."""
        if name not in self.slots:
            self.slots[name] = self.append(bytes(8), 8)
            self.imports.setdefault(name, []).append(self.slots[name])
        return self.slots[name]


def link(data: bytes) -> Image:
    """Link the relocatable object ``data`` (x86-64 or AArch64, little-endian)."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise CompilerError("the code generator did not produce a little-endian ELF64 object")
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine not in _STUBS:
        raise CompilerError(f"no linker for ELF machine {machine}; fuseline knows x86-64 and AArch64")
    sections = _sections(data)
    layout = _Layout(machine)
    for index, section in enumerate(sections):
        if section.flags & _SHF_ALLOC and section.size:
            written = section.flags & _SHF_WRITE and not section.name.startswith(".data.rel.ro")
            if written or section.kind == _SHT_NOBITS:
                raise CompilerError(f"compiled code has writable data ({section.name}); kernels must be stateless")
            content = data[section.offset : section.offset + section.size]
            layout.place[index] = layout.append(content, max(section.alignment, 1))
    symbols = _symbols(data, sections)
    for section in sections:
        if section.kind == _SHT_RELA and section.info in layout.place:
            _relocate(data, section, layout, symbols)
    exports = {
        s.name: layout.place[s.section] + s.value
        for s in symbols
        if s.is_global and s.name and s.section in layout.place
    }
    imports = {name: tuple(slots) for name, slots in layout.imports.items()}
    return Image(bytes(layout.code), exports, imports, tuple(layout.bases))


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 40)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", data, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry_bytes) for i in range(count)]
    names = raw[names_index][4]
    return [
        _Section(
            _string(data, names + r[0]),
            kind=r[1],
            flags=r[2],
            offset=r[4],
            size=r[5],
            link=r[6],
            info=r[7],
            alignment=r[8],
        )
        for r in raw
    ]


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    found = []
    for table in (s for s in sections if s.kind == _SHT_SYMTAB):
        names = sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            found.append(_Symbol(_string(data, names + name), section, value, is_global=info >> 4 != 0))
    return found


def _relocate(data: bytes, section: _Section, layout: _Layout, symbols: list[_Symbol]) -> None:
    apply = _x86_64 if layout.machine == _X86_64 else _aarch64
    base = layout.place[section.info]
    for at in range(section.offset, section.offset + section.size, 24):
        offset, info, addend = struct.unpack_from("<QQq", data, at)
        symbol = symbols[info >> 32]
        if symbol.section and symbol.section not in layout.place:
            raise CompilerError(f"compiled code refers to {symbol.name!r} in a section that is not loaded")
        apply(layout, base + offset, info & 0xFFFFFFFF, symbol, addend)


def _target(layout: _Layout, symbol: _Symbol, external: Callable[[str], int]) -> int:
    return layout.place[symbol.section] + symbol.value if symbol.section else external(symbol.name)


def _external_only_by_call(name: str) -> int:
    raise CompilerError(f"compiled code refers to the external symbol {name!r} other than by a call")


def _x86_64(layout: _Layout, place: int, kind: int, symbol: _Symbol, addend: int) -> None:
    if kind == 1:  # R_X86_64_64
        _absolute(layout, place, symbol, addend)
    elif kind == 2:  # R_X86_64_PC32
        struct.pack_into("<i", layout.code, place, _target(layout, symbol, _external_only_by_call) + addend - place)
    elif kind == 4:  # R_X86_64_PLT32
        struct.pack_into("<i", layout.code, place, _target(layout, symbol, layout.stub) + addend - place)
    elif kind in (9, 41, 42) and not symbol.section:  # R_X86_64_GOTPCREL, GOTPCRELX, REX_GOTPCRELX
        struct.pack_into("<i", layout.code, place, layout.address_slot(symbol.name) + addend - place)
    elif kind == 24:  # R_X86_64_PC64
        struct.pack_into("<q", layout.code, place, _target(layout, symbol, _external_only_by_call) + addend - place)
    else:
        raise CompilerError(f"unknown x86-64 relocation {kind} against {symbol.name!r}")


def _absolute(layout: _Layout, place: int, symbol: _Symbol, addend: int) -> None:
    if symbol.section:
        layout.bases.append((place, layout.place[symbol.section] + symbol.value + addend))
    elif addend == 0:
        layout.imports.setdefault(symbol.name, []).append(place)
    else:
        raise CompilerError(f"compiled code refers to {symbol.name!r} with an offset")


def _patch(layout: _Layout, place: int, mask: int, bits: int) -> None:
    (word,) = struct.unpack_from("<I", layout.code, place)
    struct.pack_into("<I", layout.code, place, word & ~mask | bits & mask)


def _aarch64(layout: _Layout, place: int, kind: int, symbol: _Symbol, addend: int) -> None:
    low12_shift = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # ADD_ABS, LDST8 … LDST128 _LO12_NC
    if kind == 257:  # R_AARCH64_ABS64
        _absolute(layout, place, symbol, addend)
    elif kind == 261:  # R_AARCH64_PREL32
        struct.pack_into("<i", layout.code, place, _target(layout, symbol, _external_only_by_call) + addend - place)
    elif kind == 260:  # R_AARCH64_PREL64
        struct.pack_into("<q", layout.code, place, _target(layout, symbol, _external_only_by_call) + addend - place)
    elif kind == 275:  # R_AARCH64_ADR_PREL_PG_HI21: distance in 4 KiB pages
        _patch_page_distance(layout, place, _target(layout, symbol, _external_only_by_call) + addend)
    elif kind in low12_shift:
        low = (_target(layout, symbol, _external_only_by_call) + addend) % _PAGE_BYTES
        _patch(layout, place, 0xFFF << 10, low >> low12_shift[kind] << 10)
    elif kind == 311 and not symbol.section:  # R_AARCH64_ADR_GOT_PAGE
        _patch_page_distance(layout, place, layout.address_slot(symbol.name))
    elif kind == 312 and not symbol.section:  # R_AARCH64_LD64_GOT_LO12_NC
        _patch(layout, place, 0xFFF << 10, layout.address_slot(symbol.name) % _PAGE_BYTES >> 3 << 10)
    elif kind in (282, 283):  # R_AARCH64_JUMP26, CALL26
        _patch(layout, place, 0x03FFFFFF, _target(layout, symbol, layout.stub) + addend - place >> 2)
    else:
        raise CompilerError(f"unknown AArch64 relocation {kind} against {symbol.name!r}")


def _patch_page_distance(layout: _Layout, place: int, target: int) -> None:
    pages = target // _PAGE_BYTES - place // _PAGE_BYTES
    _patch(layout, place, 3 << 29 | 0x7FFFF << 5, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)
