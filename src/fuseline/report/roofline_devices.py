"""Machines as documents: the list, every figure of one with its source, and several side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuseline.machine import Device, Memory, Pipe
from fuseline.machine.database import HOST_NAME, PACKAGED_ORIGIN
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.document import Cells, Column, Document, Remarks, Section, Table
from fuseline.report.roofline_notes import kind_text
from fuseline.report.wrapping import unbroken
from fuseline.units import Quantity, SourceKind, format_bytes, format_number, format_quantity


def devices_document(devices: Sequence[Device], lang: str | None = None) -> Document:
    """One line a machine: matrix and vector peaks, memory, ridge point."""
    language = resolve_language(lang)
    own = any(device.origin != PACKAGED_ORIGIN for device in devices)
    files = text(f"device.list_files{'_more' if own else ''}", language)
    columns = tuple(
        Column(
            text(f"device.column.{name}", language),
            numeric=name not in ("name", "vendor"),
            folding=name == "name",
            spare=int(name in ("vendor", "fp8")),
        )
        for name in ("name", "vendor", "matrix", "fp8", "vector", "memory", "size", "ridge")
    )
    hints = [text("device.list_hint", language)]
    if all(device.name != HOST_NAME for device in devices):
        hints.insert(0, text("device.host_missing", language))
    table = Table(columns, tuple(Cells(_summary(device, language)) for device in devices))
    title = text("device.list_title", language, count=len(devices), files=files)
    return Document(title, (Section("", (table, Remarks(tuple(hints)))),), language)


def _summary(device: Device, lang: str) -> tuple[str, ...]:
    """The cells of a machine in the list."""
    memory = device.memories[0] if device.memories else None
    bandwidth = memory.find_bandwidth() if memory else None
    matrix = _peak(device, "matrix", "bf16")
    ridge = matrix.value / bandwidth.value if matrix and bandwidth else None
    size = memory.size if memory else None
    unknown = text("device.unknown", lang)
    return (
        device.name,
        device.vendor,
        str(matrix or unknown),
        str(_peak(device, "matrix", "fp8") or unknown),
        str(_peak(device, "vector", "f32") or unknown),
        str(bandwidth or unknown),
        format_bytes(size.value) if size else unknown,
        unknown if ridge is None else format_number(ridge),
    )


def _peak(device: Device, pipe: str, dtype: str) -> Quantity | None:
    """The dense peak, which is what the list shows."""
    part = device.find_pipe(pipe)
    found = part.find(dtype) if part else None
    return None if found is None or found.sparse else found


def device_document(device: Device, lang: str | None = None, *further: str) -> Document:
    """Every figure of a machine with its kind, confidence and the number of its source below; ``further`` remarks."""
    language = resolve_language(lang)
    facts = []
    if device.cores:
        unit = device.core_unit.removesuffix("s") if device.cores == 1 else device.core_unit
        facts.append(text("device.cores", language, count=device.cores, unit=unit))
    if device.clock:
        facts.append(text("device.clock", language, value=str(device.clock)))
    if device.aliases:
        facts.append(text("device.aliases", language, names=", ".join(device.aliases)))
    origin = text("device.packaged", language) if device.origin == PACKAGED_ORIGIN else device.origin
    facts.append(text("device.origin", language, origin=origin))
    columns = tuple(
        Column(text(f"device.column.{name}", language), numeric=name == "value", folding=name in ("part", "figure"))
        for name in ("part", "figure", "value", "kind", "confidence", "source")
    )
    documents: dict[str, int] = {}
    rows = []
    for part, figure, quantity in _figures(device, language):
        if quantity is None:
            rows.append(Cells((part, figure, text("device.unknown", language), "", "", "")))
            continue
        number = documents.setdefault(_document(quantity, language), len(documents) + 1)
        kind = kind_text(quantity.source.kind, language)
        kind = text("device.sparse", language, kind=kind) if quantity.sparse else kind
        value = _size(quantity) if quantity.unit == "B" else format_quantity(quantity.value, quantity.unit)
        confidence = quantity.source.confidence
        level = text(f"device.confidence.{confidence}", language) if confidence else ""
        rows.append(Cells((part, figure, value, kind, level, f"[{number}]")))
    sources = Remarks(tuple(f"[{number}] {document}" for document, number in documents.items()))
    sections = [
        Section("", (Remarks(("; ".join(facts),)), Table(columns, tuple(rows)))),
        Section(text("device.sources", language), (sources,)),
    ]
    if device.notes:
        sections.append(Section(text("device.notes", language), (Remarks(device.notes),)))
    if further:
        sections.append(Section("", (Remarks(further),)))
    return Document(f"{device.title} ({device.name})", tuple(sections), language)


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


def comparison_document(devices: Sequence[Device], lang: str | None = None) -> Document:
    """Machines side by side, each figure with its ratio to the first machine's."""
    language = resolve_language(lang)
    columns = [Column(text("device.column.figure", language), folding=True)]
    columns += [Column(device.name, numeric=True, folding=True) for device in devices]
    rows = []
    for name, values in comparison(devices, language):
        cells = [_compared(value, values[0] if index else None, language) for index, value in enumerate(values)]
        rows.append(Cells((name, *cells)))
    table = Table(tuple(columns), tuple(rows))
    return Document(text("device.compare_title", language), (Section("", (table,)),), language)


def _compared(value: Quantity | None, first: Quantity | None, lang: str) -> str:
    """A figure with its ratio to the first machine's, where there is one that somebody knows."""
    if value is None:
        return text("device.unknown", lang)
    shown = unbroken(_size(value) if value.unit == "B" else str(value))
    if value.source.kind == SourceKind.ASSUMED:
        return f"{shown} ({kind_text(value.source.kind, lang)})"
    if value.sparse:
        return text("device.sparse_value", lang, value=shown)
    if first is None or first.sparse or first.source.kind == SourceKind.ASSUMED:
        return shown
    return text("device.ratio", lang, value=shown, ratio=format_number(value.value / first.value, 3))
