"""Machines on a terminal: the list, every figure of one with its source, and several side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from fuseline.machine import Device, Memory, Pipe
from fuseline.machine.database import HOST_NAME, PACKAGED_ORIGIN
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.roofline_notes import kind_text
from fuseline.units import Quantity, SourceKind, format_bytes, format_number, format_quantity

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 100
Justify = Literal["left", "right"]


def print_devices(devices: Sequence[Device], console: Console, lang: str | None = None) -> None:
    """One line a machine: matrix and vector peaks, memory, ridge point."""
    from rich.table import Table

    language = resolve_language(lang)
    own = any(device.origin != PACKAGED_ORIGIN for device in devices)
    files = text(f"device.list_files{'_more' if own else ''}", language)
    console.print(text("device.list_title", language, count=len(devices), files=files), style="bold")
    wide = console.width >= _WIDE
    columns = ["name", "vendor", "matrix", "fp8", "vector", "memory", "size", "ridge"]
    if not wide:
        columns = [column for column in columns if column not in ("vendor", "fp8")]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        justify: Justify = "left" if column in ("name", "vendor") else "right"
        table.add_column(text(f"device.column.{column}", language), justify=justify, no_wrap=column != "name")
    for device in devices:
        cells = _summary(device, language)
        table.add_row(*(cells[column] for column in columns))
    console.print(table)
    if all(device.name != HOST_NAME for device in devices):
        console.print(text("device.host_missing", language))
    console.print(text("device.list_hint", language))


def _summary(device: Device, lang: str) -> dict[str, str]:
    memory = device.memories[0] if device.memories else None
    bandwidth = memory.find_bandwidth() if memory else None
    matrix = _peak(device, "matrix", "bf16")
    ridge = matrix.value / bandwidth.value if matrix and bandwidth else None
    size = memory.size if memory else None
    unknown = text("device.unknown", lang)
    return {
        "name": device.name,
        "vendor": device.vendor,
        "matrix": str(matrix or unknown),
        "fp8": str(_peak(device, "matrix", "fp8") or unknown),
        "vector": str(_peak(device, "vector", "f32") or unknown),
        "memory": str(bandwidth or unknown),
        "size": format_bytes(size.value) if size else unknown,
        "ridge": unknown if ridge is None else format_number(ridge),
    }


def _peak(device: Device, pipe: str, dtype: str) -> Quantity | None:
    found = device.find_pipe(pipe)
    return found.find(dtype) if found else None


def print_device(device: Device, console: Console, lang: str | None = None) -> None:
    """Every figure of a machine with its kind, confidence and the number of its source below."""
    from rich.table import Table

    language = resolve_language(lang)
    console.print(f"{device.title} ({device.name})", style="bold")
    facts = []
    if device.cores:
        facts.append(text("device.cores", language, count=device.cores, unit=device.core_unit))
    if device.clock:
        facts.append(text("device.clock", language, value=str(device.clock)))
    if device.aliases:
        facts.append(text("device.aliases", language, names=", ".join(device.aliases)))
    origin = text("device.packaged", language) if device.origin == PACKAGED_ORIGIN else device.origin
    facts.append(text("device.origin", language, origin=origin))
    console.print("; ".join(facts))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("part", "figure", "value", "kind", "confidence", "source"):
        justify: Justify = "right" if column == "value" else "left"
        table.add_column(text(f"device.column.{column}", language), justify=justify)
    documents: dict[str, int] = {}
    for part, figure, quantity in _figures(device, language):
        if quantity is None:
            table.add_row(part, figure, "–", "", "", "")
            continue
        number = documents.setdefault(_document(quantity, language), len(documents) + 1)
        kind = kind_text(quantity.source.kind, language)
        value = _size(quantity) if quantity.unit == "B" else format_quantity(quantity.value, quantity.unit)
        confidence = quantity.source.confidence
        level = text(f"device.confidence.{confidence}", language) if confidence else ""
        table.add_row(part, figure, value, kind, level, f"[{number}]")
    console.print(table)
    console.print(text("device.sources", language), style="bold")
    for document, number in documents.items():
        console.print(f"[{number}] {document}")
    if device.notes:
        console.print(text("device.notes", language), style="bold")
        for note in device.notes:
            console.print(f"- {note}")


def _document(quantity: Quantity, lang: str) -> str:
    """The document of a figure; an assumed launch latency has none."""
    if quantity.source.kind == SourceKind.ASSUMED and quantity.unit == "s":
        return text("device.assumed_launch", lang)
    return quantity.source.document or "–"


def _size(quantity: Quantity) -> str:
    """Caches come in powers of two, memories in decimal units: each as its maker writes it."""
    return format_bytes(quantity.value, binary=quantity.value < 1e9)


def _figures(device: Device, lang: str) -> Iterable[tuple[str, str, Quantity | None]]:
    """Part, figure and quantity of everything that is known; ``None`` for a format that the hardware lacks."""
    for pipe in device.pipes:
        yield from _pipe_figures(pipe, lang)
    for memory in device.memories:
        yield from _memory_figures(memory, lang)
    for link in device.links:
        for quantity in link.bandwidths_per_direction:
            yield text("device.part.link", lang, name=link.name), text("device.figure.link", lang), quantity
    yield text("device.part.device", lang), text("device.figure.launch", lang), device.launch_latency


def _pipe_figures(pipe: Pipe, lang: str) -> Iterable[tuple[str, str, Quantity | None]]:
    part = text("device.part.pipe", lang, name=pipe.name)
    for peak in pipe.peaks:
        yield part, peak.key or text("device.figure.rate", lang), peak.rate
    if pipe.unsupported:
        yield part, f"{', '.join(pipe.unsupported)}: {text('device.figure.unsupported', lang)}", None


def _memory_figures(memory: Memory, lang: str) -> Iterable[tuple[str, str, Quantity | None]]:
    part = text("device.part.memory", lang, name=memory.name)
    for quantity in memory.bandwidths:
        yield part, text("device.figure.bandwidth", lang), quantity
    for quantity in memory.sizes:
        yield part, text("device.figure.size", lang), quantity


def comparison(devices: Sequence[Device], lang: str) -> list[tuple[str, list[Quantity | None]]]:
    """Rows of a comparison: a figure's name and its preferred value on each machine; nobody's rows are left out."""
    rows: dict[str, list[Quantity | None]] = {}
    for pipe in dict.fromkeys(pipe.name for device in devices for pipe in device.pipes):
        keys = [peak.key for d in devices for p in d.pipes if p.name == pipe for peak in p.peaks]
        for key in dict.fromkeys(keys):
            dtype, _, accumulator = key.partition("/")
            found = [d.find_pipe(pipe) for d in devices]
            rows[f"{pipe} {key}".strip()] = [p.find(dtype, accumulator) if p else None for p in found]
    mains = [d.memories[0] if d.memories else None for d in devices]
    rows[text("device.column.memory", lang)] = [m.find_bandwidth() if m else None for m in mains]
    rows[text("device.column.size", lang)] = [m.size if m else None for m in mains]
    for name in dict.fromkeys(m.name for d in devices for m in d.memories[1:]):
        levels = [d.find_memory(name) for d in devices]
        rows[f"{name} {text('device.figure.bandwidth', lang)}"] = [m.find_bandwidth() if m else None for m in levels]
        rows[f"{name} {text('device.figure.size', lang)}"] = [m.size if m else None for m in levels]
    rows[text("device.figure.launch", lang)] = [d.launch_latency for d in devices]
    return [(name, values) for name, values in rows.items() if any(values)]


def print_comparison(devices: Sequence[Device], console: Console, lang: str | None = None) -> None:
    """Machines side by side, each figure with its ratio to the first machine's."""
    from rich.table import Table

    language = resolve_language(lang)
    console.print(text("device.compare_title", language), style="bold")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(text("device.column.figure", language))
    for device in devices:
        table.add_column(device.name, justify="right")
    for name, values in comparison(devices, language):
        first = values[0]
        cells = []
        for index, value in enumerate(values):
            if value is None:
                cells.append(text("device.unknown", language))
                continue
            shown = _size(value) if value.unit == "B" else str(value)
            if value.source.kind == SourceKind.ASSUMED:
                cells.append(f"{shown} ({kind_text(value.source.kind, language)})")
            elif index == 0 or first is None or first.source.kind == SourceKind.ASSUMED:
                cells.append(shown)
            else:
                ratio = format_number(value.value / first.value, 3)
                cells.append(text("device.ratio", language, value=shown, ratio=ratio))
        table.add_row(name, *cells)
    console.print(table)
