"""Files that are written: whole or untouched, in the place that the name means, with the mode they had."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from fuseline.errors import OutputFileError
from fuseline.files import require_place, write_atomically


def test_a_new_file_has_the_mode_that_the_shell_would_give_it(tmp_path: Path) -> None:
    (tmp_path / "by_hand").write_bytes(b"")
    write_atomically(tmp_path / "new", b"content")
    assert (tmp_path / "new").read_bytes() == b"content"
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "by_hand").stat().st_mode


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o755])
def test_a_file_that_exists_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"before")
    path.chmod(mode)
    write_atomically(path, b"after")
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if exists:
        (folder / "target").write_bytes(b"before")
    (tmp_path / "link").symlink_to(folder / "target")
    write_atomically(tmp_path / "link", b"after")
    assert (tmp_path / "link").is_symlink()
    assert (folder / "target").read_bytes() == b"after"
    assert os.listdir(folder) == ["target"]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    content = b"0123456789" * 20_000  # more than a pipe holds
    write_atomically(pipe, content)
    reader.join(10)
    assert found == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_to_and_stays() -> None:
    write_atomically("/dev/null", b"content")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OutputFileError, match="/dev/full: cannot be written: No space left"):
        write_atomically("/dev/full", b"content")


def test_the_name_of_an_open_stream_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    with open(tmp_path / "open", "w+b") as stream:
        write_atomically(f"/dev/fd/{stream.fileno()}", b"content")
        assert os.fstat(stream.fileno()).st_ino == (tmp_path / "open").stat().st_ino
        assert stream.read() == b"content"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the name of a file is needed to write to, not ''"),
        ("a\0b", r"the name of a file is needed to write to, not 'a\\x00b'"),
        (".", "it is a folder; name a file in it"),
        ("missing/file", "missing/file: cannot be written: No such file"),
        ("file/below", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_what_cannot_be_written_is_known_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"before")
    (tmp_path / "loop").symlink_to("loop")
    for attempt in (require_place, lambda path: write_atomically(path, b"after")):
        with pytest.raises(OutputFileError, match=message):
            attempt(name)
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


def test_a_folder_or_a_file_that_may_not_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "protected").write_bytes(b"before")
    # Root may write everywhere, so what the system would say is said here.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(
        OutputFileError, match="protected: cannot be written: it is there already and may not be written to"
    ):
        write_atomically(tmp_path / "protected", b"after")
    with pytest.raises(OutputFileError, match=r"new: cannot be written: its folder .* may not be written to"):
        write_atomically(tmp_path / "new", b"after")
    assert (tmp_path / "protected").read_bytes() == b"before"
