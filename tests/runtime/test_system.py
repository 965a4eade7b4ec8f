"""What this machine has, as its system says: processors and memory of control groups, caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuseline.runtime import control_groups, host, system_files, threads


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    path = tmp_path / "cgroup"
    path.write_text("0::/user.slice/job\n5:cpu,cpuacct:/batch\n6:memory:/batch\n")
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_smallest_quota_of_the_groups_around_a_process_holds(tmp_path: Path, membership: Path) -> None:
    assert threads.affinity() >= 1
    assert control_groups.processors(tmp_path, membership) is None
    write(tmp_path / "user.slice" / "job" / "cpu.max", "max 100000\n")
    assert control_groups.processors(tmp_path, membership) is None
    write(tmp_path / "user.slice" / "cpu.max", "250000 100000\n")
    assert control_groups.processors(tmp_path, membership) == 3
    write(tmp_path / "cpu" / "batch" / "cpu.cfs_quota_us", "-1\n")
    write(tmp_path / "cpu" / "batch" / "cpu.cfs_period_us", "100000\n")
    assert control_groups.processors(tmp_path, membership) == 3
    write(tmp_path / "cpu" / "batch" / "cpu.cfs_quota_us", "50000\n")
    assert control_groups.processors(tmp_path, membership) == 1


def test_the_smallest_memory_of_the_groups_around_a_process_holds(tmp_path: Path, membership: Path) -> None:
    assert control_groups.memory_bytes(tmp_path, membership) is None
    write(tmp_path / "memory.max", "max\n")
    assert control_groups.memory_bytes(tmp_path, membership) is None
    write(tmp_path / "user.slice" / "memory.max", "3000000\n")
    write(tmp_path / "user.slice" / "job" / "memory.max", "max\n")
    assert control_groups.memory_bytes(tmp_path, membership) == 3_000_000
    write(tmp_path / "memory" / "batch" / "memory.limit_in_bytes", "9223372036854771712\n")
    assert control_groups.memory_bytes(tmp_path, membership) == 3_000_000
    write(tmp_path / "memory" / "batch" / "memory.limit_in_bytes", "2000000\n")
    assert control_groups.memory_bytes(tmp_path, membership) == 2_000_000


def test_memory_is_the_groups_where_it_is_less_than_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, wanted in ((None, False), (1 << 62, False), (5 << 20, True)):
        monkeypatch.setattr(control_groups, "memory_bytes", lambda limit=limit: limit)
        assert (host.physical_memory_bytes() == limit) is wanted
        assert host.physical_memory_bytes() > 1 << 20


def test_caches_of_instructions_and_damaged_files_do_not_count(tmp_path: Path) -> None:
    rows = [("Data", "1", "32K"), ("Instruction", "1", "64K"), ("Unified", "3", "32M"), ("Unified", "2", "512K")]
    rows += [("Unified", "4", "?"), ("Unified", "x", "1M")]
    for number, row in enumerate(rows):
        for name, text in zip(("type", "level", "size"), row, strict=True):
            write(tmp_path / f"index{number}" / name, f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert list(system_files.data_caches(tmp_path).items()) == [(1, 32 << 10), (2, 512 << 10), (3, 32 << 20)]
    assert system_files.data_caches(tmp_path / "none") == {}


@pytest.mark.parametrize("listed, expected", [("0", 1), ("0,64", 2), ("0-3,8-11", 8), ("", 1), ("0-", 1), ("x", 1)])
def test_processors_that_share_a_cache_are_counted(listed: str, expected: int, tmp_path: Path) -> None:
    for number, (kind, level, processors) in enumerate((("Instruction", "2", "0-99"), ("Unified", "2", listed))):
        for name, text in zip(("type", "level", "shared_cpu_list"), (kind, level, processors), strict=True):
            write(tmp_path / f"index{number}" / name, f"{text}\n")
    assert system_files.sharers(2, tmp_path) == expected
    assert system_files.sharers(3, tmp_path) == 1
