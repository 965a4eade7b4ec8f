"""The CSV form of an instance: what is read is what was written, and every bad line is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuseline.errors import LimitError, OutputFileError, PlanError
from fuseline.plan.arena.instance_csv import MAX_FILE_BYTES, format_csv, parse_csv, read_csv, write_csv
from fuseline.plan.arena.types import Buffer, Gap, Instance, Placement

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


def test_the_published_example_is_read_and_written_with_offsets() -> None:
    instance = parse_csv(EXAMPLE)
    assert instance.buffers[3] == Buffer("b4", 9, 21, 4)
    assert format_csv(instance) == EXAMPLE
    with_offsets = format_csv(instance, Placement((8, 8, 4, 4, 0), 12))
    assert with_offsets.splitlines()[:2] == ["id,lower,upper,size,offset", "b1,0,3,4,8"]
    assert [b.offset for b in parse_csv(with_offsets).buffers] == [8, 8, 4, 4, 0]


@st.composite
def buffers(draw: st.DrawFn) -> Instance:
    rows = []
    for i in range(draw(st.integers(0, 6))):
        lower = draw(st.integers(-9, 9))
        upper = lower + draw(st.integers(1, 9))
        size = draw(st.integers(0, 99))
        alignment = draw(st.sampled_from((1, 1, 4)))
        gaps = ()
        if draw(st.booleans()) and upper - lower > 2:
            gaps = (Gap(lower + 1, upper - 1, draw(st.sampled_from((None, (0, size))))),)
        offset = draw(st.sampled_from((None, 0, 8)))
        hint = draw(st.sampled_from((None, 3)))
        rows.append(Buffer(f"a, {i}", lower, upper, size, alignment, offset, hint, gaps))
    return Instance(tuple(rows))


@settings(max_examples=100, deadline=None)
@given(buffers())
def test_every_instance_survives_writing_and_reading(instance: Instance) -> None:
    assert parse_csv(format_csv(instance)).buffers == instance.buffers


def test_an_end_column_is_inclusive_for_lifetimes_and_gaps() -> None:
    instance = parse_csv("buffer_id,start,end,size,gaps\nx,0,9,8,3-5 7-7@0:2\n")
    assert instance.buffers == (Buffer("x", 0, 10, 8, gaps=(Gap(3, 6), Gap(7, 8, (0, 2)))),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("id,lower,size\n", "no column upper"),
        ("id,lower,upper,size,size\n", "twice"),
        ("id,lower,upper,size,colour\n", "unknown column 'colour'"),
        ("id,lower,upper,size\na,0,1\n", "line 2: 3 fields"),
        ("id,lower,upper,size\na,0,1,1\nb,0,x,1\n", "line 3: 'x' in column upper"),
        ("id,lower,upper,size\na,0,1,1.5\n", "line 2: '1.5' in column size"),
        ("id,lower,upper,size\na,0,1,-4\n", "line 2: buffer 'a': its size is negative"),
        ("id,lower,upper,size\na,3,3,4\n", "line 2: buffer 'a': its lifetime .* is empty"),
        ("id,lower,upper,size\na,5,3,4\n", "line 2: buffer 'a': its lifetime .* is inverted"),
        ("id,lower,upper,size\na,0,1,4\n\na,1,2,4\n", "line 4: buffer id 'a' was already used on line 2"),
        ("id,lower,upper,size,alignment\na,0,1,4,0\n", "alignment is 0"),
        ("id,lower,upper,size,gaps\na,0,9,4,3~5\n", "'3~5' is not a gap"),
        ("id,lower,upper,size\na,0,1," + "9" * 5000 + "\n", "not a whole number"),
        ('id,lower,upper,size\n"a,0,1,4\n', "1 fields"),
        ("id,lower,upper,size\na,0,1,4\na\0b,0,1,4\n", r"line 3: buffer 'a\\x00b': its id has a control character"),
        ("id,lower,upper,size\n\x1b[31mred,0,1,4\n", r"buffer '\\x1b\[31mred': its id has a control character"),
        ('id,lower,upper,size\n"a\nb",0,1,4\n', r"buffer 'a\\nb': its id has a control character"),
        (f"id,lower,upper,size\n{'n' * 5000},0,1,-4\n", "line 2: buffer 'n{59}…': its size"),
    ],
)
def test_a_bad_line_is_named_with_its_fault(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_csv(text)


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    with open(path, "wb") as file:
        file.truncate(200 * 10**6)
    assert path.stat().st_size > MAX_FILE_BYTES
    with pytest.raises(LimitError, match=r"huge\.csv: 191 MiB exceed the limit of 64 MiB"):
        read_csv(path)


def test_binary_and_missing_files_get_a_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"id,\xff\xfe")
    with pytest.raises(PlanError, match="not a text file"):
        read_csv(path)
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        read_csv(tmp_path / "missing.csv")
    with pytest.raises(PlanError, match="cannot be read"):
        read_csv(tmp_path)


def test_a_file_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "endless.csv"
    path.symlink_to("/dev/zero")
    with pytest.raises(LimitError, match="exceed the limit of 64 MiB"):
        read_csv(path)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("old")

    def refuse(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OutputFileError, match="No space left"):
        write_csv(path, parse_csv(EXAMPLE))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.csv"]
