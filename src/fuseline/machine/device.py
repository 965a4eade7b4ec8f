"""What a machine can do at most: pipes, memories and links, each figure with its source.

Figures are dense and for one device. A figure that nobody knows is absent, never guessed; a format that the hardware
lacks is listed as unsupported. Where a machine has several figures for one thing, the preferred one comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fuseline.errors import UnknownNameError, UnsupportedError, nearest
from fuseline.machine.dtypes import canonical_dtype
from fuseline.units import Quantity, Source, SourceKind

DEFAULT_LAUNCH_LATENCY_S = 4e-6
"""Time from one kernel launch to the next where a device gives no figure of its own: an assumption, shown as one."""


@lru_cache(maxsize=256)
def assumed_launch_latency(machine: str) -> Quantity:
    """The default launch latency as a quantity marked *assumed*."""
    source = Source(SourceKind.ASSUMED, "default of fuseline, not a figure of this device", machine, "low")
    return Quantity(DEFAULT_LAUNCH_LATENCY_S, "s", source)


def _choose(quantities: Iterable[Quantity], kind: SourceKind | str | None) -> Quantity | None:
    """The first quantity, or the first of ``kind``; a sparse one only where there is no dense one."""
    fitting = [quantity for quantity in quantities if kind is None or quantity.source.kind == kind]
    return next((quantity for quantity in fitting if not quantity.sparse), fitting[0] if fitting else None)


@dataclass(frozen=True, slots=True)
class Peak:
    """One peak rate of a pipe.

    ``dtype`` is empty for a pipe that moves bytes; ``accumulator`` is filled where it changes the rate.
    """

    dtype: str
    accumulator: str
    rate: Quantity

    @property
    def key(self) -> str:
        """``f16`` or ``f16/f32`` (format/accumulator), as device files spell it."""
        return f"{self.dtype}/{self.accumulator}" if self.accumulator else self.dtype


@dataclass(frozen=True, slots=True)
class Pipe:
    """A unit that works in parallel with the others: ``matrix``, ``vector``, ``sfu``, or a copy engine such as ``fix``.

    ``profiler_names`` are what the vendor's or upstream's profiler calls this pipe's utilisation.
    """

    name: str
    device: str
    peaks: tuple[Peak, ...] = ()
    unsupported: tuple[str, ...] = ()
    profiler_names: tuple[str, ...] = ()

    def find(self, dtype: str = "", accumulator: str = "", kind: SourceKind | str | None = None) -> Quantity | None:
        """The peak for ``dtype``, or ``None`` where it is unknown or unsupported.

        Without ``accumulator`` the figure printed without one is meant, else that of float32 accumulation. ``kind``
        asks for a datasheet, achievable, effective, … figure.
        """
        wanted = canonical_dtype(dtype) if dtype else ""
        mine = [peak for peak in self.peaks if peak.dtype == wanted]
        into = canonical_dtype(accumulator) if accumulator else ""
        for choice in (into,) if into not in ("", "f32") else ("", "f32"):
            found = _choose((peak.rate for peak in mine if peak.accumulator == choice), kind)
            if found is not None:
                return found
        return None

    def peak(self, dtype: str = "", accumulator: str = "", kind: SourceKind | str | None = None) -> Quantity:
        """Like ``find``; an unknown figure raises ``UnknownNameError``, an unsupported one ``UnsupportedError``."""
        found = self.find(dtype, accumulator, kind)
        if found is not None:
            return found
        known = ", ".join(dict.fromkeys(peak.key or "bytes" for peak in self.peaks)) or "none"
        if dtype and canonical_dtype(dtype) in self.unsupported:
            raise UnsupportedError(f"the {self.name} pipe of {self.device} does not do {dtype}; it has {known}")
        what = "/".join(part for part in (dtype, accumulator) if part) or "byte"
        which = f"{kind} " if kind else ""
        raise UnknownNameError(
            f"no {which}{what} figure is known for the {self.name} pipe of {self.device}; known: {known}"
        )

    def dtypes(self) -> tuple[str, ...]:
        """The formats that this pipe has a figure for."""
        return tuple(dict.fromkeys(peak.dtype for peak in self.peaks if peak.dtype))


@dataclass(frozen=True, slots=True)
class Memory:
    """A level of memory: ``hbm``, ``gddr``, ``l2``, …; bandwidths in B/s (read and write together), sizes in bytes."""

    name: str
    device: str
    bandwidths: tuple[Quantity, ...] = ()
    sizes: tuple[Quantity, ...] = ()
    profiler_names: tuple[str, ...] = ()

    def find_bandwidth(self, kind: SourceKind | str | None = None) -> Quantity | None:
        """The preferred bandwidth, or the one of ``kind``; ``None`` where it is unknown."""
        return _choose(self.bandwidths, kind)

    @property
    def bandwidth(self) -> Quantity:
        """The preferred bandwidth; raises ``UnknownNameError`` where none is known."""
        found = self.find_bandwidth()
        if found is None:
            raise UnknownNameError(f"the bandwidth of {self.name} of {self.device} is not known")
        return found

    @property
    def size(self) -> Quantity | None:
        """The preferred size, or ``None`` where it is unknown."""
        return _choose(self.sizes, None)


@dataclass(frozen=True, slots=True)
class Link:
    """A connection to other devices; bandwidths in B/s for one direction."""

    name: str
    device: str
    bandwidths_per_direction: tuple[Quantity, ...] = ()

    @property
    def bandwidth_per_direction(self) -> Quantity | None:
        """The preferred figure, or ``None`` where it is unknown."""
        return _choose(self.bandwidths_per_direction, None)


@dataclass(frozen=True, slots=True)
class Device:
    """A machine. ``memories`` are listed from the largest; the first is the main memory."""

    name: str
    title: str
    vendor: str = ""
    aliases: tuple[str, ...] = ()
    pipes: tuple[Pipe, ...] = ()
    memories: tuple[Memory, ...] = ()
    links: tuple[Link, ...] = ()
    launch_latencies: tuple[Quantity, ...] = ()
    cores: int | None = None
    core_unit: str = ""
    clock: Quantity | None = None
    notes: tuple[str, ...] = ()
    origin: str = ""

    @property
    def launch_latency(self) -> Quantity:
        """Seconds that a launch costs at least; the assumed default where the device gives none."""
        return _choose(self.launch_latencies, None) or assumed_launch_latency(self.name)

    @property
    def main_memory(self) -> Memory:
        """The first memory: the one that holds the tensors."""
        if not self.memories:
            raise UnknownNameError(f"no memory is known for {self.name}")
        return self.memories[0]

    def pipe(self, name: str) -> Pipe:
        """The pipe ``name``; raises ``UnknownNameError`` listing those that exist."""
        found = self.find_pipe(name)
        if found is None:
            raise self._missing("pipe", name, [pipe.name for pipe in self.pipes])
        return found

    def find_pipe(self, name: str) -> Pipe | None:
        """The pipe ``name`` or ``None``."""
        return next((pipe for pipe in self.pipes if pipe.name == name), None)

    def memory(self, name: str) -> Memory:
        """The memory ``name``; ``main`` and ``memory`` mean the main one. Raises ``UnknownNameError``."""
        found = self.find_memory(name)
        if found is None:
            raise self._missing("memory", name, [memory.name for memory in self.memories])
        return found

    def find_memory(self, name: str) -> Memory | None:
        """The memory ``name`` or ``None``."""
        if name in ("main", "memory") and self.memories:
            return self.memories[0]
        return next((memory for memory in self.memories if memory.name == name), None)

    def link(self, name: str) -> Link:
        """The link ``name``; raises ``UnknownNameError`` listing those that exist."""
        found = next((link for link in self.links if link.name == name), None)
        if found is None:
            raise self._missing("link", name, [link.name for link in self.links])
        return found

    def _missing(self, what: str, name: str, known: list[str]) -> UnknownNameError:
        close = nearest(name, known)
        hint = f"; did you mean {close[0]}?" if close else ""
        return UnknownNameError(f"{self.name} has no {what} {name!r} (known: {', '.join(known) or 'none'}){hint}")

    def to_dict(self) -> dict[str, Any]:
        """Every figure with its source, for JSON; values in SI base units, the unit in the key where it is fixed."""
        return {
            "name": self.name,
            "title": self.title,
            "vendor": self.vendor,
            "aliases": list(self.aliases),
            "pipes": [_pipe_dict(pipe) for pipe in self.pipes],
            "memories": [
                {
                    "name": memory.name,
                    "bandwidths_bytes_per_s": [_figure(quantity) for quantity in memory.bandwidths],
                    "sizes_bytes": [_figure(quantity) for quantity in memory.sizes],
                }
                for memory in self.memories
            ],
            "links": [
                {
                    "name": link.name,
                    "bandwidths_bytes_per_s_per_direction": [_figure(q) for q in link.bandwidths_per_direction],
                }
                for link in self.links
            ],
            "launch_latency_s": _figure(self.launch_latency),
            "cores": self.cores,
            "core_unit": self.core_unit,
            "clock_hz": None if self.clock is None else _figure(self.clock),
            "notes": list(self.notes),
            "origin": self.origin,
        }


def _figure(quantity: Quantity) -> dict[str, Any]:
    return {"value": quantity.value, "source": quantity.source.to_dict()}


def _pipe_dict(pipe: Pipe) -> dict[str, Any]:
    peaks = [
        {"dtype": peak.dtype or None, "accumulator": peak.accumulator or None} | peak.rate.to_dict()
        for peak in pipe.peaks
    ]
    return {
        "name": pipe.name,
        "peaks": peaks,
        "unsupported": list(pipe.unsupported),
        "profiler_names": list(pipe.profiler_names),
    }
