"""Machines: pipes, memories, links and launch latency, each figure with its source; and the database of them."""

from __future__ import annotations

from fuseline.machine.database import Database, database, device, devices, user_device_file
from fuseline.machine.device import DEFAULT_LAUNCH_LATENCY_S, Device, Link, Memory, Peak, Pipe
from fuseline.machine.dtypes import bytes_per_element, canonical_dtype, rate_unit
from fuseline.machine.files import load_device_file, parse_device_text

__all__ = [
    "DEFAULT_LAUNCH_LATENCY_S",
    "Database",
    "Device",
    "Link",
    "Memory",
    "Peak",
    "Pipe",
    "bytes_per_element",
    "canonical_dtype",
    "database",
    "device",
    "devices",
    "load_device_file",
    "parse_device_text",
    "rate_unit",
    "user_device_file",
]
