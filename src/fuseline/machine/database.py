"""All known machines: the packaged files, the user's own, and this host once it was measured.

A name resolves exactly (case, spaces, dashes, underscores and vendor words aside) or not at all: an unknown machine is
refused with the nearest names, and two different machines never share a name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from fuseline.errors import DataFileError, TypeRuleError, UnknownNameError, nearest
from fuseline.machine.device import Device
from fuseline.machine.files import load_device_file, parse_device_text

PACKAGED_ORIGIN = "packaged"
HOST_NAME = "host"

_VENDOR_WORDS = ("nvidia", "amd", "instinct", "geforce", "huawei", "google", "intel", "aws", "cloud")


def normalized(name: str) -> str:
    """``name`` as it is compared: lower case, without separators, brackets and vendor words."""
    words = [word for word in re.split(r"[\s_\-()/,]+", name.lower()) if word]
    kept = [word for word in words if word not in _VENDOR_WORDS]
    return "".join(kept or words)


@dataclass(frozen=True, slots=True)
class Database:
    """Devices in order, later files over earlier ones where they use the same name."""

    devices: tuple[Device, ...]

    def names(self) -> list[str]:
        """The canonical names, sorted."""
        return sorted(device.name for device in self.devices)

    def find(self, name: str) -> Device | None:
        """The device called ``name`` (canonical name, alias, or either spelt differently), or ``None``."""
        wanted = normalized(name)
        exact = [device for device in self.devices if device.name == name]
        if exact:
            return exact[-1]
        for device in reversed(self.devices):
            if wanted and any(normalized(known) == wanted for known in (device.name, device.title, *device.aliases)):
                return device
        return None

    def get(self, name: str) -> Device:
        """Like ``find``; an unknown name raises ``UnknownNameError`` with the nearest ones."""
        found = self.find(name)
        if found is not None:
            return found
        if normalized(name) == HOST_NAME:
            raise UnknownNameError("this host has not been measured yet; run `fuseline device probe` first")
        raise UnknownNameError(f"unknown device {name!r:.80}; {self._advice(name[:80])}")

    def _advice(self, name: str) -> str:
        spellings = {known: device.name for device in self.devices for known in (device.name, *device.aliases)}
        close = nearest(name, spellings)
        shortened = normalized(name)
        close += [known for known in spellings if shortened and normalized(known).startswith(shortened)]
        if not close:
            close = [spellings[k] for k in nearest(shortened, spellings)]
        names = list(dict.fromkeys(spellings.get(known, known) for known in close))[:5]
        if names:
            return f"nearest: {', '.join(names)}"
        return "`fuseline device list` shows the known ones, and a device file adds others"

    def extended(self, devices: Iterable[Device]) -> Database:
        """This database with ``devices`` put over it."""
        added = tuple(devices)
        replaced = {device.name for device in added}
        kept = {normalized(n): d for d in self.devices if d.name not in replaced for n in (d.name, d.title, *d.aliases)}
        for device in added:
            for name in (device.name, device.title, *device.aliases):
                other = kept.get(normalized(name))
                if other is not None:
                    raise DataFileError(
                        f"{device.origin}: {device.name}: the name {name!r} already belongs to {other.name} "
                        f"({other.origin}); to replace that machine call yours {other.name!r}, else take another name"
                    )
        return Database(tuple(d for d in self.devices if d.name not in replaced) + added)


@cache
def packaged_database() -> Database:
    """The machines that come with the package."""
    folder = resources.files("fuseline.machine") / "data"
    devices: list[Device] = []
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".toml"):
            devices += parse_device_text(entry.read_text(encoding="utf-8"), entry.name, PACKAGED_ORIGIN)
    return Database(tuple(devices))


def user_device_file() -> Path:
    """Where the user's own devices are read from: ``~/.config/fuseline/devices.toml`` (or ``XDG_CONFIG_HOME``)."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "fuseline" / "devices.toml"


def database(device_files: Iterable[str | Path] = ()) -> Database:
    """The packaged machines, this host where it was measured, the user's file where it exists, and ``device_files``."""
    from fuseline.machine.host import load_host

    found = packaged_database()
    host = load_host()
    if host is not None:
        found = found.extended([host])
    user = user_device_file()
    if user.is_file():
        found = found.extended(_checked(load_device_file(user), str(user)))
    for path in device_files:
        found = found.extended(_checked(load_device_file(path), str(path)))
    return found


def _checked(devices: list[Device], path: str) -> list[Device]:
    """``devices`` of one file, refused where two of them share a name, however it is spelt."""
    owners: dict[str, Device] = {}
    for device in devices:
        for name in (device.name, device.title, *device.aliases):
            other = owners.setdefault(normalized(name), device)
            if other is not device:
                between = "" if other.name == device.name else f", by {other.name} and {device.name}"
                raise DataFileError(f"{path}: the name {name!r} is used twice{between}")
    return devices


def device(name: str, device_files: Iterable[str | Path] = ()) -> Device:
    """The machine ``name``: ``h100-sxm``, ``NVIDIA H200``, ``a100-80gb``, ``host``, …

    Raises ``UnknownNameError`` with the nearest names, ``DataFileError`` for a device file that breaks its format.
    """
    if not isinstance(name, str):
        raise TypeRuleError(f"a device is called by its name, as in 'h100-sxm', not by {type(name).__name__}")
    packaged = packaged_database().find(name) if not device_files and not user_device_file().is_file() else None
    return packaged if packaged is not None else database(device_files).get(name)


def devices(device_files: Iterable[str | Path] = ()) -> tuple[Device, ...]:
    """All known machines, sorted by vendor and name."""
    return tuple(sorted(database(device_files).devices, key=lambda d: (d.vendor, d.name)))
