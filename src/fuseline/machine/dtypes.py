"""Number formats as far as a machine's rates and a tensor's bytes depend on them: one name and one width each."""

from __future__ import annotations

from fuseline.errors import UnknownNameError, nearest

BITS = {
    "f64": 64,
    "f32": 32,
    "tf32": 32,
    "bf16": 16,
    "f16": 16,
    "fp8": 8,
    "fp6": 6,
    "fp4": 4,
    "i64": 64,
    "i32": 32,
    "i16": 16,
    "i8": 8,
    "i4": 4,
    "bool": 8,
}
"""Bits that one stored element takes (tf32 is kept in 32), by canonical name."""

INTEGERS = frozenset({"i64", "i32", "i16", "i8", "i4", "bool"})
"""The formats whose work is counted in OP, not FLOP."""

_ALIASES = {
    "f64": ("fp64", "float64", "double"),
    "f32": ("fp32", "float32", "float", "single"),
    "tf32": ("tensorfloat32", "hf32"),
    "bf16": ("bfloat16", "bfloat"),
    "f16": ("fp16", "float16", "half"),
    "fp8": ("f8", "float8", "e4m3", "e5m2", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2"),
    "fp6": ("f6", "e3m2", "e2m3"),
    "fp4": ("f4", "e2m1", "f4e2m1", "nvfp4", "mxfp4"),
    "i64": ("int64", "u64", "uint64"),
    "i32": ("int32", "u32", "uint32"),
    "i16": ("int16", "u16", "uint16"),
    "i8": ("int8", "u8", "uint8"),
    "i4": ("int4", "u4", "uint4"),
    "bool": ("b1", "pred"),
}

_CANONICAL = {name: name for name in BITS} | {alias: name for name, group in _ALIASES.items() for alias in group}


def canonical_dtype(name: str) -> str:
    """The canonical name of a number format (``fp16`` is ``f16``); raises ``UnknownNameError`` with close names."""
    found = _CANONICAL.get(name.strip().lower())
    if found is None:
        close = nearest(name, _CANONICAL)
        hint = f"did you mean {', '.join(close)}? " if close else ""
        raise UnknownNameError(f"unknown dtype {name!r}; {hint}known: {', '.join(BITS)}")
    return found


def bytes_per_element(dtype: str) -> float:
    """Bytes that an element takes in memory; half a byte for the 4-bit formats."""
    return BITS[canonical_dtype(dtype)] / 8


def rate_unit(dtype: str) -> str:
    """``OP/s`` for integers, ``FLOP/s`` for the rest."""
    return "OP/s" if canonical_dtype(dtype) in INTEGERS else "FLOP/s"
