"""Quantities with their sources, and the reading and printing of sizes, rates, times and counts.

One idea: a number that came from somewhere says from where (``Source``), so that later code can decide from the sources
alone whether two numbers may be divided. Printing is decimal SI with four significant digits unless asked otherwise.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fuseline.errors import UnitError


class SourceKind(StrEnum):
    """How a number came to be known."""

    DATASHEET = "datasheet"  # printed by the vendor
    ACHIEVABLE = "achievable"  # published as the most that tuned software reaches
    EFFECTIVE = "effective"  # a rate that software assumes of the real chip, below the datasheet
    MEASURED = "measured"  # timed on the machine named in the source
    DERIVED = "derived"  # arithmetic on other figures
    ASSUMED = "assumed"  # a default nobody measured
    MODEL_CONSTANT = "model constant"  # a constant inside somebody's performance model


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number comes from.

    ``document`` is a public reference, ``machine`` the canonical name of the device that the number is about (empty
    where it is about none), ``confidence`` is ``high``, ``medium`` or ``low`` (empty where nobody said), ``date`` an
    ISO date.
    """

    kind: SourceKind
    document: str = ""
    machine: str = ""
    confidence: str = ""
    date: str = ""

    def to_dict(self) -> dict[str, str]:
        """The filled fields, for JSON."""
        fields = ("kind", "document", "machine", "confidence", "date")
        return {name: str(getattr(self, name)) for name in fields if getattr(self, name)}


UNITS = ("B", "B/s", "FLOP", "FLOP/s", "OP", "OP/s", "FLOP/B", "Hz", "s", "1")
"""The units of a ``Quantity``: bytes, floating-point and integer operations, their rates, hertz, seconds, a count."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in SI base units (never GB or µs), its unit (one of ``UNITS``) and its source.

    ``dtype`` names the number format that a rate belongs to; ``sparse`` says that it counts skipped zeros as work.
    """

    value: float
    unit: str
    source: Source = field(default_factory=lambda: Source(SourceKind.ASSUMED))
    dtype: str = ""
    sparse: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise UnitError(f"unknown unit {self.unit!r}; a quantity has one of {', '.join(UNITS)}")
        if not math.isfinite(self.value):
            raise UnitError(f"a quantity must be a finite number, not {self.value!r} {self.unit}")

    def __float__(self) -> float:
        return float(self.value)

    @property
    def unfit_for_time(self) -> tuple[str, ...]:
        """Why no time of dense work may be predicted from this figure; empty where one may.

        ``sparse`` for a rate that counts skipped zeros, and the kind of a source that nobody measured or printed: a
        constant of somebody's model, or an assumption.
        """
        kind = self.source.kind
        invented = (str(kind),) if kind in (SourceKind.MODEL_CONSTANT, SourceKind.ASSUMED) else ()
        return ("sparse", *invented) if self.sparse else invented

    def __str__(self) -> str:
        return format_quantity(self.value, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Value, unit and source, for JSON."""
        found: dict[str, Any] = {"value": self.value, "unit": self.unit, "source": self.source.to_dict()}
        if self.dtype:
            found["dtype"] = self.dtype
        if self.sparse:
            found["sparse"] = True
        return found


# ---------------------------------------------------------------------------------------------------------- reading

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_PREFIX = {**_DECIMAL, **_BINARY}
_PLACES = {prefix: len(str(factor)) - 1 for prefix, factor in _DECIMAL.items()}
_PARTS = {"": 0, "m": -3, "u": -6, "µ": -6, "μ": -6, "n": -9, "p": -12}
_TIME = {"min": 60.0, "h": 3600.0}

_NUMBER = r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?"
_QUANTITY_RE = re.compile(rf"\s*({_NUMBER})\s*([^\d\s].*?)?\s*$")
_POWER_RE = re.compile(r"\s*(\d[\d_]*)\s*(?:\^|\*\*)\s*(\d[\d_]*)\s*$")

_MAX_COUNT = 2**63 - 1


def _split(text: str, what: str, example: str) -> tuple[str, str]:
    """Number and unit text of ``text``, e.g. ``("1.2", "GiB")``."""
    match = _QUANTITY_RE.match(text) if len(text) <= 100 else None
    if match is None:
        raise UnitError(f"cannot read {text[:60]!r} as {what}; write it like {example}")
    return match[1].replace("_", ""), match[2] or ""


def shifted(number: str | float, places: int) -> float:
    """``number · 10^places``, rounded once: 66.9 TFLOPS are 66900000000000.0 FLOP/s. Infinite where it is too large.

    A float stands for the shortest decimal that reads as it, which is what somebody wrote.
    """
    if not isinstance(number, str) and not math.isfinite(number):
        return number
    mantissa, _, exponent = (number if isinstance(number, str) else repr(float(number))).lower().partition("e")
    return float(f"{mantissa}e{int(exponent or 0) + places}")


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise UnitError(f"{text[:60]!r} is too large a number")
    return value


def _integral(number: str, factor: int, text: str, what: str, floor: bool = False) -> int:
    """``number * factor`` exactly, refused when it is not a whole number unless ``floor`` drops the fraction."""
    from fractions import Fraction

    exponent = re.search(r"[eE]([+-]?\d+)$", number)
    if exponent is not None and abs(int(exponent[1])) > 40:
        raise UnitError(f"{text!r} is out of range" + (f" for {what}" if what else ""))
    value = Fraction(number) * factor
    if value.denominator != 1 and not floor:
        raise UnitError(f"{text!r} is not a whole number" + (f" of {what}" if what else ""))
    return math.floor(value)


def parse_count(text: str | int) -> int:
    """A non-negative whole number: ``4096``, ``1_000_000``, ``1e6``, ``2^24``, ``2**24``, ``16M``, ``64Ki``.

    Raises ``UnitError`` for anything else, for fractions and beyond 2**63 - 1.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        value = text
    else:
        text = str(text)
        power = _POWER_RE.match(text) if len(text) <= 100 else None
        if power is not None:
            base, exponent = int(power[1].replace("_", "")), int(power[2].replace("_", ""))
            if base > 1 and exponent * math.log2(base) > 64:
                raise UnitError(f"{text!r} is beyond 2^63 - 1")
            value = base**exponent if base > 1 or exponent < 64 else base
        else:
            number, prefix = _split(text, "a count", "4096, 1e6, 2^24 or 16M")
            if prefix not in _PREFIX:
                raise UnitError(f"unknown suffix {prefix!r} in {text!r}; use k, M, G, T or Ki, Mi, Gi, Ti")
            value = _integral(number, _PREFIX[prefix], text, "")
    if value < 0:
        raise UnitError(f"a count cannot be negative: {text!r}")
    if value > _MAX_COUNT:
        raise UnitError(f"{text!r} is beyond 2^63 - 1")
    return value


def parse_shape(text: str | int | tuple[int, ...] | list[int]) -> tuple[int, ...]:
    """The sizes of an array: ``4096x14336``, ``4096,14336``, ``2^12 × 64``, ``1024``; ``()`` for a scalar.

    Each size is read by ``parse_count``. Raises ``UnitError`` naming the part that cannot be read.
    """
    if isinstance(text, int):
        return (parse_count(text),)
    if isinstance(text, (tuple, list)):
        return tuple(parse_count(size) for size in text)
    body = text.strip().removeprefix("(").removesuffix(")").strip().removesuffix(",")
    if not body:
        if text.strip() in ("()", "(,)"):
            return ()
        raise UnitError("an empty shape; write sizes like 4096x14336, or () for a scalar")
    parts = re.split(r"\s*[x×X,]\s*", body)
    try:
        return tuple(parse_count(part) for part in parts)
    except UnitError as error:
        raise UnitError(f"cannot read the shape {text[:60]!r}: {error}") from error


def parse_bytes(text: str | int, floor: bool = False) -> int:
    """A size in bytes: ``1.5 GiB``, ``469.8 MB``, ``512``, ``64KiB``, ``80 GB``. Decimal prefixes are decimal.

    A fraction of a byte is refused unless ``floor`` drops it, as suits a capacity: 1.2 GiB are 1288490188.8 bytes.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return parse_count(text)
    text = str(text)
    number, unit = _split(text, "a size in bytes", "512, 469.8 MB or 1.2 GiB")
    prefix = unit[:-1] if unit.endswith("B") else unit
    if prefix not in _PREFIX:
        raise UnitError(f"unknown unit {unit!r} in {text!r}; use B, kB, MB, GB, TB or KiB, MiB, GiB, TiB")
    value = _integral(number, _PREFIX[prefix], text, "bytes", floor)
    if value < 0:
        raise UnitError(f"a size cannot be negative: {text!r}")
    if value > _MAX_COUNT:
        raise UnitError(f"{text!r} is beyond 2^63 - 1 bytes")
    return value


def parse_time_s(text: str) -> float:
    """A time in seconds from ``140.2 µs``, ``140us``, ``2 ms``, ``3 s``, ``5 min``; the unit is required."""
    number, unit = _split(str(text), "a time", "140.2 us, 2 ms or 3 s")
    if unit in _TIME:
        value = _finite(float(number) * _TIME[unit], str(text))
    elif unit.endswith("s") and unit[:-1] in _PARTS:
        value = _finite(shifted(number, _PARTS[unit[:-1]]), str(text))
    else:
        raise UnitError(f"a time needs a unit (s, ms, us, ns, min, h), and {text!r} has {unit or 'none'!r}")
    if value < 0:
        raise UnitError(f"a time cannot be negative: {text!r}")
    return value


_RATE_SUFFIXES = (
    ("FLOP/s", "FLOP/s"),
    ("FLOPS", "FLOP/s"),
    ("FLOPs/s", "FLOP/s"),
    ("OP/s", "OP/s"),
    ("OPS", "OP/s"),
    ("B/s", "B/s"),
    ("Bps", "B/s"),
    ("Hz", "Hz"),
)


def parse_rate(text: str, unit: str | None = None) -> tuple[float, str]:
    """``(value, unit)`` in base units: ``3.35 TB/s``, ``989.4 TFLOPS``, ``1979 TOPS``, ``800 GiB/s``, ``1830 MHz``.

    ``unit`` (``B/s``, ``FLOP/s``, ``OP/s`` or ``Hz``) is what the caller expects; another unit is an error.
    """
    number, suffix = _split(str(text), "a rate", "3.35 TB/s, 989.4 TFLOPS or 1830 MHz")
    matches = [(suffix.removesuffix(end), base) for end, base in _RATE_SUFFIXES if suffix.endswith(end)]
    prefix, found = next(((prefix, base) for prefix, base in matches if prefix in _PREFIX), ("", ""))
    if not found:
        raise UnitError(f"unknown unit {suffix!r} in {text!r}; a rate is in B/s, FLOPS, OPS or Hz with k, M, G, T, P")
    if unit is not None and found != unit:
        raise UnitError(f"{text!r} is in {found}, where {unit} is needed")
    places = _PLACES.get(prefix)
    value = _finite(float(number) * _BINARY[prefix] if places is None else shifted(number, places), str(text))
    if value < 0:
        raise UnitError(f"a rate cannot be negative: {text!r}")
    return value, found


# --------------------------------------------------------------------------------------------------------- printing

_LARGE_STEPS = ("", "k", "M", "G", "T", "P", "E")
_SMALL_STEPS = ("", "m", "µ", "n", "p")
_BINARY_STEPS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def format_number(value: float, digits: int = 4) -> str:
    """``value`` with ``digits`` significant digits, without exponent up to 15 digits and without trailing zeros."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -5 <= magnitude < 15:
        return f"{value:.{digits - 1}e}"
    text = f"{round(value, digits - 1 - magnitude):.{max(0, digits - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, base: float, steps: tuple[str, ...], digits: int) -> str:
    """``value`` divided by the largest power of ``base`` that leaves at least 1, with its prefix after a space."""
    if not math.isfinite(value):
        return f"{value} "
    step, scaled = 0, value
    while step < len(steps) - 1 and abs(float(f"{scaled:.{digits - 1}e}")) >= base:
        scaled, step = scaled / base, step + 1
    return f"{format_number(scaled, digits)} {steps[step]}"


def format_si(value: float, unit: str = "", digits: int = 4) -> str:
    """``value`` with a decimal SI prefix: ``16.78 M``, or with ``unit="FLOP"`` ``16.78 MFLOP``."""
    return (_scaled(float(value), 1000.0, _LARGE_STEPS, digits) + unit).rstrip()


def format_bytes(value: float, digits: int = 4, binary: bool = False) -> str:
    """``469.8 MB``, ``3.288 GB``, ``512 B``; with ``binary`` ``1.2 GiB``."""
    if binary:
        return _scaled(float(value), 1024.0, _BINARY_STEPS, digits) + "B"
    return format_si(value, "B", digits)


def format_time(seconds: float, digits: int = 4) -> str:
    """``140.2 µs``, ``4 µs``, ``2.5 ms``, ``3 s``, ``0 s``; times of a minute and more stay in seconds."""
    value, step = float(seconds), 0
    if value == 0:
        return "0 s"
    while step < len(_SMALL_STEPS) - 1 and abs(float(f"{value:.{digits - 1}e}")) < 1.0:
        value, step = value * 1000.0, step + 1
    return f"{format_number(value, digits)} {_SMALL_STEPS[step]}s"


_RATE_NAMES = {"B/s": "B/s", "FLOP/s": "FLOPS", "OP/s": "OPS", "Hz": "Hz"}


def format_rate(value: float, unit: str = "B/s", digits: int = 4) -> str:
    """``3.35 TB/s``, ``989.4 TFLOPS``, ``1.83 GHz``; ``unit`` is ``B/s``, ``FLOP/s``, ``OP/s`` or ``Hz``."""
    if unit not in _RATE_NAMES:
        raise UnitError(f"{unit!r} is not the unit of a rate; use one of {', '.join(_RATE_NAMES)}")
    return format_si(value, _RATE_NAMES[unit], digits)


def format_quantity(value: float, unit: str, digits: int = 4) -> str:
    """``value`` of any of ``UNITS`` as people write it."""
    if unit == "s":
        return format_time(value, digits)
    if unit in _RATE_NAMES:
        return format_rate(value, unit, digits)
    if unit == "FLOP/B":
        return f"{format_number(value, digits)} FLOP/B"
    return format_si(value, "" if unit == "1" else unit, digits)


def format_percent(ratio: float, digits: int = 1) -> str:
    """``0.995`` as ``99.5 %``."""
    return f"{100.0 * ratio:.{digits}f} %"
