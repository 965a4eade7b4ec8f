"""Element types: storage size, kind, NumPy counterpart, and NumPy's promotion between them.

16-bit and narrower floats are storage: arithmetic on them is float32 (`DType.computed`), and only outputs and explicit
casts round. Packed types (fp4, int4) hold several elements in a byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from fuseline.errors import TypeRuleError, UnknownNameError, nearest

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type, one object each. ``bits`` is the storage of one element; packed types have no ``numpy_name``."""

    name: str
    kind: Kind
    bits: int
    numpy_name: str
    aliases: tuple[str, ...] = ()
    least_exponent: int | None = None
    """Of floats: 2 to this power is the smallest normal number. None for other kinds."""
    is_float: bool = field(init=False)
    """Whether values are floating-point numbers."""
    is_integer: bool = field(init=False)
    """Whether values are integers (bool is not)."""
    is_storage_float: bool = field(init=False)
    """Whether this is a float narrower than 32 bits, whose arithmetic is float32."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_float", self.kind == "float")
        object.__setattr__(self, "is_integer", self.kind in ("int", "uint"))
        object.__setattr__(self, "is_storage_float", self.kind == "float" and self.bits < 32)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)

    @property
    def computed(self) -> DType:
        """The dtype arithmetic on this one is done in."""
        return F32 if self.is_storage_float else self

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; `TypeRuleError` for packed types, which NumPy cannot hold."""
        return _numpy_dtype(self)

    def size_bytes(self, count: Any) -> Any:
        """Bytes that ``count`` elements take (integer or array); a packed total is rounded up to whole bytes."""
        if self.bits >= 8:
            return count * (self.bits // 8)
        return (count * self.bits + 7) // 8


def _rows() -> list[DType]:
    return [
        DType("bool", "bool", 8, "bool", ("bool_", "b1")),
        DType("i8", "int", 8, "int8"),
        DType("i16", "int", 16, "int16"),
        DType("i32", "int", 32, "int32"),
        DType("i64", "int", 64, "int64"),
        DType("u8", "uint", 8, "uint8"),
        DType("u16", "uint", 16, "uint16"),
        DType("u32", "uint", 32, "uint32"),
        DType("u64", "uint", 64, "uint64"),
        DType("f16", "float", 16, "float16", ("fp16", "half"), -14),
        DType("bf16", "float", 16, "bfloat16", (), -126),
        DType("f32", "float", 32, "float32", ("fp32", "float", "single"), -126),
        DType("f64", "float", 64, "float64", ("fp64", "double"), -1022),
        DType("f8e4m3", "float", 8, "float8_e4m3fn", ("fp8", "f8", "e4m3", "fp8_e4m3"), -6),
        DType("f8e5m2", "float", 8, "float8_e5m2", ("e5m2", "fp8_e5m2"), -14),
        DType("f4e2m1", "float", 4, "", ("fp4", "f4", "nvfp4", "mxfp4", "e2m1"), 0),
        DType("i4", "int", 4, "", ("int4",)),
        DType("u4", "uint", 4, "", ("uint4",)),
    ]


DTYPES = MappingProxyType({d.name: d for d in _rows()})
"""Every dtype by its short name."""

BOOL, I8, I16, I32, I64 = (DTYPES[n] for n in ("bool", "i8", "i16", "i32", "i64"))
U8, U16, U32, U64 = (DTYPES[n] for n in ("u8", "u16", "u32", "u64"))
F16, BF16, F32, F64 = (DTYPES[n] for n in ("f16", "bf16", "f32", "f64"))

_BY_SPELLING = {s: d for d in DTYPES.values() for s in (d.name, d.numpy_name, *d.aliases) if s}


def dtype(spec: DType | str | np.dtype[Any] | type) -> DType:
    """The `DType` for a short name, a NumPy name, a NumPy dtype or a Python number type.

    Raises `UnknownNameError` for a name that is not known and `TypeRuleError` for a NumPy dtype without counterpart.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str):
        found = _BY_SPELLING.get(spec.lower())
        if found is None:
            near = nearest(spec, _BY_SPELLING)
            advice = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(DTYPES)}"
            raise UnknownNameError(f"no dtype is called {spec!r}; {advice}")
        return found
    try:
        name = np.dtype(spec).name if spec is not None else "None"  # NumPy takes None for float64
    except TypeError:
        raise TypeRuleError(f"{spec!r} is not a dtype; supported: {', '.join(DTYPES)}") from None
    found = _BY_SPELLING.get(name)
    if found is None:
        raise TypeRuleError(f"dtype {name} is not supported; supported: {', '.join(DTYPES)}")
    return found


@cache
def _numpy_dtype(d: DType) -> np.dtype[Any]:
    if not d.numpy_name:
        raise TypeRuleError(f"{d.name} is packed: NumPy has no array of it; it can be planned and costed, not run")
    if d.numpy_name == "bfloat16" or d.numpy_name.startswith("float8"):
        import ml_dtypes

        scalar_type: type[Any] = getattr(ml_dtypes, d.numpy_name)
        return np.dtype(scalar_type)
    return np.dtype(d.numpy_name)


def promote(a: DType, b: DType) -> DType:
    """The common dtype of two, as NumPy 2 and ml_dtypes define it; `TypeRuleError` where they define none."""
    return common_dtype((a, b))


@cache
def common_dtype(operands: tuple[DType, ...]) -> DType:
    """The common dtype of all operands at once, which for three need not be that of two and the third."""
    kinds = tuple(dict.fromkeys(operands))
    if len(kinds) == 1:
        return kinds[0]
    in_numpy = [d.numpy for d in kinds]
    try:
        return dtype(np.result_type(*in_numpy))
    except TypeError:
        listed = " and ".join(map(str, kinds))
        raise TypeRuleError(
            f"{listed} have no common dtype; cast one of them, as in {kinds[-1]}(x) or f32(x)"
        ) from None
