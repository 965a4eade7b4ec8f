"""The object cache: whatever happens to it, programs get right answers, and only this user's code is run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuseline.runtime import cache, fingerprint
from fuseline.runtime.cache import ObjectCache

KEY = cache.key("a kernel")


@pytest.fixture
def objects(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def entry_file(objects: ObjectCache, key: str = KEY) -> Path:
    assert objects.directory is not None
    return objects.directory / f"{key}.flc"


def test_what_was_stored_is_found_again_also_by_another_object(objects: ObjectCache) -> None:
    assert objects.get(KEY) is None
    assert objects.put(KEY, b"code")
    assert objects.get(KEY) == b"code" == ObjectCache(objects.directory).get(KEY)
    assert objects.get(cache.key("another")) is None


def test_directory_and_entries_are_private_from_the_start(objects: ObjectCache) -> None:
    objects.put(KEY, b"code")
    assert objects.directory is not None
    assert os.stat(objects.directory).st_mode & 0o777 == 0o700
    assert os.stat(entry_file(objects)).st_mode & 0o777 == 0o600


def test_a_directory_open_to_others_is_closed_before_use(objects: ObjectCache) -> None:
    assert objects.directory is not None
    objects.directory.mkdir(mode=0o777)
    os.chmod(objects.directory, 0o777)
    objects.put(KEY, b"code")
    assert os.stat(objects.directory).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "renamed", "foreign text"])
def test_a_damaged_entry_is_a_miss_and_can_be_replaced(objects: ObjectCache, damage: str) -> None:
    objects.put(KEY, b"code" * 100)
    file = entry_file(objects)
    data = bytearray(file.read_bytes())
    if damage == "renamed":  # a whole entry, of another key
        objects.put(cache.key("other"), b"other code")
        os.replace(entry_file(objects, cache.key("other")), file)
    else:
        data[50] ^= 1
        file.write_bytes({"cut": data[:40], "flipped": data, "emptied": b"", "foreign text": b"hello"}[damage])
    assert objects.get(KEY) is None
    assert "damaged" in objects.last_problem
    assert objects.put(KEY, b"code") and objects.get(KEY) == b"code"


def test_a_link_or_a_file_that_others_may_write_is_not_believed(objects: ObjectCache, tmp_path: Path) -> None:
    objects.put(KEY, b"code")
    file = entry_file(objects)
    os.chmod(file, 0o666)
    assert objects.get(KEY) is None
    os.chmod(file, 0o600)
    assert objects.get(KEY) == b"code"
    os.replace(file, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", file)
    assert objects.get(KEY) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this machine")
def test_an_entry_of_absurd_length_is_a_miss_that_takes_no_memory(objects: ObjectCache) -> None:
    objects.put(KEY, b"code" * 100)
    os.truncate(entry_file(objects), 1 << 40)
    assert objects.get(KEY) is None
    assert "larger" in objects.last_problem
    assert objects.put(KEY, b"code") and objects.get(KEY) == b"code"


def test_a_pipe_in_place_of_an_entry_is_a_miss_and_nobody_waits(objects: ObjectCache) -> None:
    objects.put(KEY, b"code")
    entry_file(objects).unlink()
    os.mkfifo(entry_file(objects), 0o600)
    assert objects.get(KEY) is None
    assert objects.put(KEY, b"code") and objects.get(KEY) == b"code"


def test_a_link_in_place_of_the_directory_is_not_followed(objects: ObjectCache, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    assert objects.directory is not None
    os.symlink(tmp_path / "elsewhere", objects.directory)
    assert not objects.put(KEY, b"code") and objects.get(KEY) is None and objects.last_problem
    assert os.stat(tmp_path / "elsewhere").st_mode & 0o777 == 0o755


def test_a_foreign_directory_is_refused(objects: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.put(KEY, b"code")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert objects.get(KEY) is None
    assert not objects.put(KEY, b"planted")
    assert "belongs to user" in objects.last_problem


def test_a_place_where_no_directory_can_be_is_a_miss(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for directory in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/fuseline-cache")):
        objects = ObjectCache(directory)
        assert objects.get(KEY) is None
        assert not objects.put(KEY, b"code")
        assert objects.last_problem
        assert objects.size_bytes() == objects.clear() == 0


@pytest.mark.parametrize("step", ["write", "replace"])
def test_a_full_disk_leaves_no_litter_and_no_error(
    objects: ObjectCache, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*args: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    objects.put(cache.key("first"), b"code")
    if step == "replace":
        monkeypatch.setattr(os, "replace", full)
    else:
        monkeypatch.setattr(cache, "memoryview", full, raising=False)
    assert not objects.put(KEY, b"code")
    assert "No space left" in objects.last_problem
    assert objects.directory is not None
    assert [p.suffix for p in objects.directory.iterdir()] == [".flc"]


def test_the_size_is_bounded_and_the_entries_used_longest_ago_go_first(tmp_path: Path) -> None:
    objects = ObjectCache(tmp_path / "objects", limit_bytes=50_000)
    keys = [cache.key(str(i)) for i in range(40)]
    for age, key in enumerate(keys):
        objects.put(key, bytes(1000))
        os.utime(entry_file(objects, key), (age, age))
    objects.get(keys[3])  # used now
    for i in range(30):  # a sweep comes with every 64th write
        objects.put(cache.key(f"more {i}"), bytes(1000))
    assert objects.size_bytes() <= 50_000 + 64 * 1032
    assert objects.get(keys[0]) is None
    assert objects.get(keys[3]) is not None


def test_files_left_by_killed_writers_are_removed_in_time(objects: ObjectCache) -> None:
    objects.put(KEY, b"code")
    assert objects.directory is not None
    old, young = objects.directory / "dead.tmp", objects.directory / "alive.tmp"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    ObjectCache(objects.directory).put(cache.key("other"), b"code")
    assert young.exists() and not old.exists()


def test_no_directory_means_no_cache_and_clear_empties_one(objects: ObjectCache) -> None:
    off = ObjectCache(None)
    assert not off.put(KEY, b"code") and off.get(KEY) is None and off.clear() == 0
    objects.put(KEY, b"code")
    assert objects.clear() == 1 and objects.get(KEY) is None


def test_what_is_written_on_trial_is_gone_afterwards(objects: ObjectCache) -> None:
    directory, keys = objects.directory, [cache.key(name) for name in "abc"]
    assert directory is not None
    with objects.on_trial():
        assert objects.put(keys[0], b"1") and objects.get(keys[0]) == b"1"
    assert not directory.exists()
    assert objects.put(keys[1], b"2")
    with pytest.raises(ValueError, match="on the way"), objects.on_trial():
        assert objects.put(keys[2], b"3")
        raise ValueError("on the way")
    assert [objects.get(key) for key in keys] == [None, b"2", None]
    assert objects.put(keys[2], b"3") and objects.get(keys[2]) == b"3"


def test_keys_tell_lists_of_parts_apart() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc") != cache.key("abc")
    assert cache.key("a", b"b") == cache.key(b"a", "b")


def test_the_fingerprint_is_that_of_what_the_files_hold(tmp_path: Path, objects: ObjectCache) -> None:
    package, compiler = tmp_path / "package", tmp_path / "compiler"
    source = package / "mathlib" / "coefficients.py"
    for file in (source, package / "cli" / "main.py", compiler / "_version.py", compiler / "binding" / "library.so"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1.25")

    def now() -> str:
        found = fingerprint.fingerprint(package, [compiler], objects)
        assert found == fingerprint.fingerprint(package, [compiler], ObjectCache(None))
        return found

    first, times = now(), os.stat(source)
    os.utime(source, ns=(0, 0))
    assert now() == first  # nothing but a time has changed
    (package / "cli" / "main.py").write_text("2")
    assert now() == first  # what makes no code does not count
    source.write_text("1.75")  # as long as before, and as old
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = now()
    (compiler / "_version.py").write_text("9.99")
    assert len({first, second, now()}) == 3


def test_every_file_that_makes_code_is_in_the_fingerprint() -> None:
    package = Path(cache.__file__).parent.parent
    names = fingerprint._files(package, (".py", ".ll", ".lark"))
    for name in ("codegen/legalize.py", "mathlib/coefficients.py", "runtime/native/call.ll", "ops.py", "_version.py"):
        assert name in names


# ── whole processes ──────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAM = """
import sys
import numpy as np
from fuseline.api.kernel import compile
x = np.linspace(-3, 3, 1001, dtype=np.float32)
for i in map(int, sys.argv[1:]):
    k = compile(f"out = x * {i} + {i}.5 - x")
    assert np.array_equal(k(x), x * np.float32(i) + np.float32(i + 0.5) - x), i
print("right")
"""


def start(directory: Path | str, *numbers: int, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, numbers)],
        env={**os.environ, "FUSELINE_CACHE_DIR": str(directory), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()


def test_eight_processes_filling_one_empty_cache_some_killed_all_others_right(tmp_path: Path) -> None:
    order = random.Random(5)
    processes = [start(tmp_path, 1, 2) for _ in range(8)]
    stored = ObjectCache(tmp_path / "objects")
    while not stored.size_bytes() and processes[0].poll() is None:  # until the first has begun to write
        time.sleep(0.001)
    victims = order.sample(range(8), 3)
    for i in victims:
        time.sleep(order.uniform(0, 0.02))
        processes[i].send_signal(signal.SIGKILL)
    for i, process in enumerate(processes):
        if i in victims:
            process.communicate(timeout=120)
        else:
            assert answer(process) == "right"
    assert answer(start(tmp_path, 1, 2)) == "right"
    assert stored.size_bytes() > 0


def test_a_read_only_cache_directory_still_gives_answers(tmp_path: Path) -> None:
    assert answer(start(tmp_path, 1)) == "right"
    os.chmod(tmp_path / "objects", 0o500)
    try:
        assert answer(start(tmp_path, 1, 2)) == "right"
    finally:
        os.chmod(tmp_path / "objects", 0o700)


def test_a_process_that_cannot_write_a_whole_file_still_gives_answers(tmp_path: Path) -> None:
    # Writing fails in the middle of a file, as on a full disk.
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n" + PROGRAM
    environment = {**os.environ, "FUSELINE_CACHE_DIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", limited, "1"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "right", done.stderr
    assert list((tmp_path / "objects").iterdir()) == []


def test_every_entry_damaged_still_gives_answers(tmp_path: Path) -> None:
    assert answer(start(tmp_path, 1)) == "right"
    for file in (tmp_path / "objects").iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 255
        file.write_bytes(data)
    assert answer(start(tmp_path, 1)) == "right"


def test_the_cache_can_be_turned_off(tmp_path: Path) -> None:
    assert answer(start(tmp_path, 1, FUSELINE_CACHE="off")) == "right"
    assert not (tmp_path / "objects").exists()


def test_a_warm_process_loads_nothing_that_compiles(tmp_path: Path) -> None:
    assert answer(start(tmp_path, 1, 2)) == "right"
    check = PROGRAM + (
        "\nfor name in ('llvmlite', 'importlib.resources', 'fuseline.codegen.llvm.body', 'fuseline.runtime.staged',\n"
        "             'fuseline.runtime.jit', 'fuseline.mathlib.functions'):\n"
        "    assert name not in sys.modules, name"
    )
    done = subprocess.run(
        [sys.executable, "-c", check, "1", "2"],
        env={**os.environ, "FUSELINE_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_bound_holds_after_every_write(tmp_path: Path) -> None:
    objects = ObjectCache(tmp_path / "objects", limit_bytes=1000)
    for number in range(50):
        assert objects.put(cache.key(str(number)), bytes(200))
        assert objects.size_bytes() <= 1000
    assert not objects.put(cache.key("large"), bytes(1000)) and "larger than the bound" in objects.last_problem
    assert not ObjectCache(tmp_path / "none", limit_bytes=0).put(KEY, b"code")
    assert not (tmp_path / "none").exists()


def test_what_fits_the_bound_exactly_stays(tmp_path: Path) -> None:
    size = 200 + 32  # the content and its digest
    objects = ObjectCache(tmp_path / "objects", limit_bytes=3 * size)
    keys = [cache.key(str(number)) for number in range(3)]
    for key in keys:
        assert objects.put(key, bytes(200))
    assert ObjectCache(tmp_path / "objects", limit_bytes=3 * size).put(keys[0], bytes(200))  # a first write sweeps
    assert [objects.get(key) for key in keys] == [bytes(200)] * 3
    assert objects.put(cache.key("whole"), bytes(3 * size - 32)) and objects.size_bytes() == 3 * size


def test_reading_counting_and_clearing_make_no_directory(tmp_path: Path) -> None:
    objects = ObjectCache(tmp_path / "objects")
    assert (objects.get(KEY), objects.size_bytes(), objects.clear()) == (None, 0, 0)
    assert not (tmp_path / "objects").exists()
