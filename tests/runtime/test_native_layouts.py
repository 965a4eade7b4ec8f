"""Records that Python makes and native code reads have one layout: what the `%name = type` lines say."""

from __future__ import annotations

import ctypes
import re
from importlib import resources
from typing import Any

import numpy as np
import pytest

import fuseline as fl
from fuseline.runtime import arrays, fastcall, job, loop, recycle, reserve, rowwise, threads

_BYTES = {"ptr": 8, "i64": 8, "i32": 4, "i8": 1}


class Layouts:
    """The named types of runtime/native/*.ll."""

    def __init__(self) -> None:
        folder = resources.files("fuseline.runtime.native")
        texts = [f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".ll")]
        plain = re.sub(r";[^\n]*", "", "\n".join(texts))
        self.bodies = dict(re.findall(r"^%(\w+) = type \{([^}]*)\}", plain, re.MULTILINE))

    def fields(self, name: str) -> list[str]:
        """The types of the fields, in order."""
        return [field.strip() for field in self.bodies[name].split(",")]

    def fixed(self, name: str) -> list[str]:
        """`fields` without an array of open length at the end."""
        return [field for field in self.fields(name) if not field.startswith("[0 x")]

    def size_and_alignment(self, kind: str) -> tuple[int, int]:
        """Bytes of a type."""
        if kind in _BYTES:
            return _BYTES[kind], _BYTES[kind]
        array = re.fullmatch(r"\[(\d+) x (.+)\]", kind)
        if array:
            size, alignment = self.size_and_alignment(array[2])
            return int(array[1]) * size, alignment
        offsets, alignment = self.offsets(kind.removeprefix("%"))
        return offsets[-1], alignment

    def offsets(self, name: str) -> tuple[list[int], int]:
        """Where each field begins and where the whole ends, in bytes, and its alignment."""
        end, largest, found = 0, 1, []
        for kind in self.fields(name):
            size, alignment = self.size_and_alignment(kind)
            end = -(-end // alignment) * alignment
            found.append(end)
            end, largest = end + size, max(largest, alignment)
        return [*found, -(-end // largest) * largest], largest

    def pointers(self, name: str) -> set[int]:
        """Positions of the fields that are pointers."""
        return {i for i, kind in enumerate(self.fixed(name)) if kind == "ptr"}


@pytest.fixture(scope="module")
def layouts() -> Layouts:
    return Layouts()


@pytest.fixture(scope="module")
def fast() -> Any:
    """What a kernel of two inputs and one output has made for its calls, prepared ones among them."""
    kernel = fl.compile("x*y + 1")
    x = np.ones((30, 50), np.float32)
    for _ in range(3):
        kernel(x, x)
    if kernel._fast is None:
        pytest.skip("another NumPy")
    return kernel._fast


def test_every_type_is_known_to_a_test_or_native_code_alone(layouts: Layouts) -> None:
    shared = {"kernel", "job", "entry", "caller", "array", "descr", "prepared", "table", "layout", "store", "block"}
    shared |= {"pool", "lane", "reserve"}
    assert set(layouts.bodies) == shared | {"kept", "lease", "carry"}


def test_a_kernels_record(layouts: Layouts) -> None:
    assert len(layouts.fixed("kernel")) == loop._HEADER_FIELDS
    assert layouts.pointers("kernel") == {loop._BODY, loop._COMPILER, loop._ARGUMENT}
    made = fl.compile("x*y").specialisation((np.dtype("f4"), np.dtype("f8"))).loop
    assert list(made._record)[loop._HEADER_FIELDS :] == [4, 8, 8]
    assert [made._record[i] for i in (loop._INPUTS, loop._OPERANDS)] == [2, 3]


def test_a_job_has_a_name_for_every_field(layouts: Layouts) -> None:
    assert len(layouts.fields("job")) == job._JOB_FIELDS
    assert layouts.offsets("job")[0][-1] == ctypes.sizeof(job.Job)
    names = ["_NEXT_JOB", "KERNEL", "_SHAPE", "OPERANDS", "_STRIDES", "_OUTER_STRIDES", "_ROW_STRIDES", "_RANGES"]
    assert layouts.pointers("job") == {getattr(job, name) for name in names}


def test_what_stands_before_a_kernels_calls(layouts: Layouts, fast: Any) -> None:
    assert len(fast._caller) == len(layouts.fixed("caller"))
    ((fields, dtypes, *_),) = fast._entries.values()
    assert len(fields) == len(layouts.fixed("entry")) + 2 * (len(dtypes) + 1)
    assert layouts.pointers("caller") >= {i for i, value in enumerate(fast._caller) if (value or 0) > 1 << 20}
    assert layouts.pointers("entry") >= {i for i, value in enumerate(fields[:11]) if (value or 0) > 1 << 32}


def test_prepared_calls(layouts: Layouts, fast: Any) -> None:
    assert len(layouts.fields("prepared")) == fastcall._RECORD_FIELDS
    assert len(fast._table) == len(layouts.fixed("table")) + fastcall._PREPARED_CALLS
    (record,) = [r for r in fast._records if r is not None]
    assert layouts.pointers("prepared") >= {i for i, value in enumerate(record._fields) if (value or 0) > 1 << 32}
    prepared = record._prepared
    most_axes = max(map(len, prepared.shapes))
    assert all(
        len(made) == len(layouts.fixed("layout")) + 2 * most_axes
        for made in fastcall._layouts(prepared, [False] * len(prepared.loop.inputs))
    )


def test_the_store_of_outputs(layouts: Layouts) -> None:
    fields = layouts.fields("store")
    assert fields.pop() == f"[{recycle._BLOCKS} x %block]" and len(fields) == recycle._HEADER_FIELDS
    assert layouts.offsets("store")[0][-1] == ctypes.sizeof(recycle._Fields)
    assert {recycle._IDLE, recycle._BOUND}.isdisjoint(layouts.pointers("store"))


def test_the_pool_and_its_lane(layouts: Layouts) -> None:
    offsets, _ = layouts.offsets("pool")
    first = threads._LOCKS
    assert offsets[:first] == [i * threads._LOCK_BYTES for i in range(first)]
    numbers = [(offset - threads._LOCKS * threads._LOCK_BYTES) // 8 for offset in offsets]
    positions = {
        "_PATIENCE": 5, "_THREADS": 6, "_PROCESS": 7, "_PROCESSOR": 8, "_PLACING": 9, "_TAKEN": 12, "_CLOCK": 13,
        "_LANE": 18,
    }  # fmt: skip
    assert {name: numbers[field] for name, field in positions.items()} == {
        name: getattr(threads, name) for name in positions
    }
    assert numbers[-1] == threads._NUMBERS and numbers[-1] - numbers[18] == threads._LANE_NUMBERS
    assert {9, 10, 11} == {i for i in layouts.pointers("pool") if i != 3}
    assert offsets[18] % 64 == 0 and layouts.offsets("lane")[0][4] == 128  # lines of their own


def test_memory_set_aside(layouts: Layouts) -> None:
    assert len(layouts.fields("reserve")) == reserve.RESERVE_FIELDS
    assert layouts.pointers("reserve") == {reserve._MEMORY}


@pytest.mark.parametrize(("name", "structure"), [("array", arrays._Array), ("descr", arrays._Descr)])
def test_what_is_read_of_numpys_objects(layouts: Layouts, name: str, structure: type[ctypes.Structure]) -> None:
    offsets, _ = layouts.offsets(name)
    assert offsets[:-1] == [getattr(structure, field[0]).offset for field in structure._fields_]
    assert offsets[-1] == ctypes.sizeof(structure)


def test_a_rows_memory_has_room_for_carries(layouts: Layouts) -> None:
    assert layouts.size_and_alignment("%carry")[0] == rowwise._CARRY_BYTES
