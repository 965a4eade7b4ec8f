"""Device files: a plain TOML format for machines, read strictly.

``format = 1``, an optional ``[sources]`` table of short names for documents, and ``[[device]]`` tables (docs/devices.md
shows one). A figure is text with its unit (``"3350 GB/s"``), a table with ``value`` and its own ``kind``, ``source``
and ``confidence``, or an array of such, preferred first. An unknown key, unit, dtype or kind is an error that says
where it stands.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuseline.errors import DataFileError, FuselineError, nearest
from fuseline.excerpts import printable
from fuseline.machine.device import Device, Link, Memory, Peak, Pipe
from fuseline.machine.dtypes import canonical_dtype, rate_unit
from fuseline.units import Quantity, Source, SourceKind, parse_bytes, parse_rate, parse_time_s

FORMAT = 1
MAX_FILE_BYTES = 4 * 2**20
MAX_FIGURE = 1e19
"""Figures above this, in base units, are a mistake of units: ten million TFLOPS, or 10 EB/s."""

_FILE_KEYS = ("format", "sources", "profiler", "device")
_DEVICE_KEYS = (
    "name",
    "title",
    "vendor",
    "aliases",
    "source",
    "confidence",
    "kind",
    "date",
    "cores",
    "core_unit",
    "clock",
    "launch_latency",
    "pipes",
    "memories",
    "links",
    "notes",
)
_FIGURE_KEYS = ("value", "kind", "source", "confidence", "date", "sparse")
_MEMORY_KEYS = ("bandwidth", "size", "profiler")
_LINK_KEYS = ("bandwidth_per_direction",)
_CONFIDENCES = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class _Context:
    """Where in which file we are, and what a figure inherits."""

    path: str
    where: str
    sources: Mapping[str, str]
    profiler: Mapping[str, tuple[str, ...]]
    machine: str
    default: Source

    def at(self, part: str) -> _Context:
        where = f"{self.where}.{part}" if self.where else part
        return replace(self, where=where)

    def error(self, message: str) -> DataFileError:
        return DataFileError(f"{self.path}: {self.where}: {message}" if self.where else f"{self.path}: {message}")


def load_device_file(path: str | Path) -> list[Device]:
    """The devices of a file; raises ``DataFileError`` naming the file, the place and what is allowed there."""
    return parse_device_text(read_text_file(path, MAX_FILE_BYTES), str(path))


def read_text_file(path: str | Path, most_bytes: int) -> str:
    """The text of a UTF-8 file, with or without a byte order mark; raises ``DataFileError`` for anything else."""
    if str(path) == "-":
        raise DataFileError("-: standard input is not read here; name a file (./- where it is called that)")
    try:
        with open(path, "rb") as stream:
            data = stream.read(most_bytes + 1)
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # of a null byte in the name
        raise DataFileError(f"{str(path)!r}: cannot be read: {error}") from error
    if len(data) > most_bytes:
        raise DataFileError(f"{path}: larger than {most_bytes // 2**20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: not UTF-8 text") from error


def parse_device_text(text: str, path: str = "<device file>", origin: str | None = None) -> list[Device]:
    """The devices in the text of a device file; ``path`` is used in errors, ``origin`` marks the devices."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataFileError(f"{path}: not TOML: {error}") from error
    context = _Context(path, "", {}, {}, "", Source(SourceKind.DATASHEET))
    _only(document, _FILE_KEYS, context)
    if document.get("format") != FORMAT:
        raise context.error(f"format = {FORMAT} is needed at the top, found {document.get('format')!r}")
    sources = _table(document.get("sources", {}), context.at("sources"))
    for key, value in sources.items():
        _text(value, context.at(f"sources.{key}"))
    named = _table(document.get("profiler", {}), context.at("profiler"))
    profiler = {key: _texts(value, context.at(f"profiler.{key}")) for key, value in named.items()}
    context = replace(context, sources=sources, profiler=profiler)
    entries = document.get("device", [])
    if not isinstance(entries, list):
        raise context.error("device must be an array of tables: [[device]]")
    return [_device(entry, context.at(f"device[{index}]"), origin) for index, entry in enumerate(entries)]


def _device(entry: Any, start: _Context, origin: str | None) -> Device:
    table = _table(entry, start)
    name = _text(table.get("name"), start.at("name"))
    if not name.strip() or "\n" in name:
        raise start.at("name").error(f"a name is one line of text, found {name!r}")
    bare = replace(start, where=name, machine=name, default=Source(SourceKind.DATASHEET, machine=name))
    _only(table, _DEVICE_KEYS, bare)
    context = replace(bare, default=_source(table, bare))
    clock = _figures(table.get("clock"), "Hz", context.at("clock"))
    return Device(
        name=name,
        title=_text(table.get("title", name), context.at("title")),
        vendor=_text(table.get("vendor", ""), context.at("vendor")),
        aliases=_texts(table.get("aliases", []), context.at("aliases")),
        pipes=tuple(_pipe(n, t, context.at(f"pipes.{n}")) for n, t in _tables(table, "pipes", context)),
        memories=tuple(_memory(n, t, context.at(f"memories.{n}")) for n, t in _tables(table, "memories", context)),
        links=tuple(_link(n, t, context.at(f"links.{n}")) for n, t in _tables(table, "links", context)),
        launch_latencies=_figures(table.get("launch_latency"), "s", context.at("launch_latency")),
        cores=_count(table.get("cores"), context.at("cores")),
        core_unit=_text(table.get("core_unit", ""), context.at("core_unit")),
        clock=clock[0] if clock else None,
        notes=_texts(table.get("notes", []), context.at("notes")),
        origin=origin if origin is not None else start.path,
    )


def _pipe(name: str, table: Mapping[str, Any], context: _Context) -> Pipe:
    peaks: list[Peak] = []
    for key, value in table.items():
        if key in ("unsupported", "profiler"):
            continue
        place = context.at(key)
        if key == "rate":
            peaks += [Peak("", "", rate) for rate in _figures(value, "B/s", place)]
            continue
        dtype, _, accumulator = key.partition("/")
        dtype = _dtype(dtype, place)
        into = _dtype(accumulator, place) if accumulator else ""
        peaks += [Peak(dtype, into, rate) for rate in _figures(value, rate_unit(dtype), place, dtype)]
    unsupported = tuple(_dtype(d, context) for d in _texts(table.get("unsupported", []), context.at("unsupported")))
    profiler = _profiler(name, table, context)
    return Pipe(name, context.machine, tuple(peaks), unsupported, profiler)


def _memory(name: str, table: Mapping[str, Any], context: _Context) -> Memory:
    _only(table, _MEMORY_KEYS, context)
    bandwidths = _figures(table.get("bandwidth"), "B/s", context.at("bandwidth"))
    sizes = _figures(table.get("size"), "B", context.at("size"))
    return Memory(name, context.machine, bandwidths, sizes, _profiler(name, table, context))


def _profiler(name: str, table: Mapping[str, Any], context: _Context) -> tuple[str, ...]:
    """What the profiler calls this part: its own names, or those that the file gives for parts of this name."""
    if "profiler" in table:
        return _texts(table["profiler"], context.at("profiler"))
    return context.profiler.get(name, ())


def _link(name: str, table: Mapping[str, Any], context: _Context) -> Link:
    _only(table, _LINK_KEYS, context)
    figures = _figures(table.get("bandwidth_per_direction"), "B/s", context.at("bandwidth_per_direction"))
    return Link(name, context.machine, figures)


def _figures(value: Any, unit: str, context: _Context, dtype: str = "") -> tuple[Quantity, ...]:
    """The quantities that ``value`` (absent, text, table or array of these) stands for."""
    if value is None:
        return ()
    entries = value if isinstance(value, list) else [value]
    return tuple(_one_figure(entry, unit, context, dtype) for entry in entries)


def _one_figure(entry: Any, unit: str, context: _Context, dtype: str) -> Quantity:
    sparse = False
    if isinstance(entry, str):
        text, source = entry, context.default
    else:
        if not isinstance(entry, dict):
            raise context.error(f"a figure is written with its unit, in quotes, or as a table; found {entry!r}")
        table = entry
        _only(table, _FIGURE_KEYS, context)
        text, source = _text(table.get("value"), context.at("value")), _source(table, context)
        sparse = table.get("sparse", False)
        if not isinstance(sparse, bool):
            raise context.error(f"sparse is true or false, not {sparse!r}")
    try:
        number = _read(text, unit)
    except (FuselineError, OverflowError) as error:
        raise context.error(str(error)) from error
    if not number <= MAX_FIGURE:
        raise context.error(f"{text!r} is absurd: check its unit")
    if sparse and unit not in ("FLOP/s", "OP/s"):
        raise context.error("sparse belongs to an arithmetic rate")
    if number <= 0:
        raise context.error(f"{text!r} must be positive; leave out a figure that is not known")
    return Quantity(number, unit, source, dtype, sparse)


def _read(text: str, unit: str) -> float:
    if unit == "s":
        return parse_time_s(text)
    if unit == "B":
        return float(parse_bytes(text))
    return parse_rate(text, unit)[0]


def _source(table: Mapping[str, Any], context: _Context) -> Source:
    """The source that ``table`` states, with what it leaves out taken from the context."""
    base = context.default
    kind = _text(table.get("kind", str(base.kind)), context.at("kind"))
    if kind not in list(SourceKind):
        raise context.error(f"unknown kind {kind!r}; use one of {', '.join(SourceKind)}")
    confidence = _text(table.get("confidence", base.confidence), context.at("confidence"))
    if confidence and confidence not in _CONFIDENCES:
        raise context.error(f"unknown confidence {confidence!r}; use one of {', '.join(_CONFIDENCES)}")
    document = base.document
    if "source" in table:
        given = table["source"]
        names = [given] if isinstance(given, str) else list(_texts(given, context.at("source")))
        document = "; ".join(context.sources.get(name, name) for name in names)
    date = _text(table.get("date", base.date), context.at("date"))
    return Source(SourceKind(kind), document, context.machine, confidence, date)


def _tables(table: Mapping[str, Any], key: str, context: _Context) -> list[tuple[str, Mapping[str, Any]]]:
    group = _table(table.get(key, {}), context.at(key))
    return [(_text(name, context.at(key)), _table(inner, context.at(f"{key}.{name}"))) for name, inner in group.items()]


def _table(value: Any, context: _Context) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise context.error(f"a table is needed, found {type(value).__name__}")
    return value


def _text(value: Any, context: _Context) -> str:
    if not isinstance(value, str):
        found = "nothing" if value is None else f"{type(value).__name__} {value!r}"
        raise context.error(f"a text is needed, found {found}; figures are written with their unit, in quotes")
    if printable(value, keep="\n\t") != value:
        raise context.error(f"a text must not hold control characters, found {value!r}")
    return value


def _texts(value: Any, context: _Context) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise context.error(f"an array of texts is needed, found {type(value).__name__}")
    return tuple(_text(entry, context) for entry in value)


def _count(value: Any, context: _Context) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise context.error(f"a positive whole number is needed, found {value!r}")
    return value


def _dtype(name: str, context: _Context) -> str:
    try:
        return canonical_dtype(name)
    except FuselineError as error:
        raise context.error(str(error)) from error


def _only(table: Mapping[str, Any], allowed: tuple[str, ...], context: _Context) -> None:
    for key in table:
        if key not in allowed:
            close = nearest(key, allowed)
            hint = f"did you mean {close[0]!r}?" if close else f"allowed: {', '.join(allowed)}"
            raise context.error(f"unknown key {key!r}; {hint}")
