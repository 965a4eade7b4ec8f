"""Machines by the names that rows use: each looked up once, with why a name is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fuseline import machine
from fuseline.errors import UnknownNameError
from fuseline.machine import Device


@dataclass(slots=True)
class Lookup:
    """The machines found so far and the names that are none; ``device_files`` are searched beside the known ones."""

    device_files: tuple[str | Path, ...] = ()
    known: dict[str, Device] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Device | None:
        """The machine ``name``, or ``None`` where there is none; ``failed`` then says why."""
        if not name or name in self.failed:
            return None
        if name not in self.known:
            try:
                self.known[name] = machine.device(name, self.device_files)
            except UnknownNameError as error:
                self.failed[name] = str(error)
                return None
        return self.known[name]
