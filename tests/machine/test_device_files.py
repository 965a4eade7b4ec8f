"""Device files are read strictly: every mistake names the file, the place and what is allowed."""

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuseline.errors import DataFileError, UnknownNameError
from fuseline.machine import database, device, load_device_file, parse_device_text
from fuseline.machine.host import host_file, load_host, save_host

GOOD = """
format = 1
[sources]
sheet = "ACME datasheet, page 3"
[[device]]
name = "acme-1"
title = "ACME One"
aliases = ["acme one 16GB"]
source = "sheet"
confidence = "medium"
cores = 4
launch_latency = { value = "2.5 us", kind = "measured" }
[device.pipes.matrix]
"f16/f32" = "10 TFLOPS"
i8 = ["40 TOPS", { value = "30 TOPS", kind = "achievable" }]
unsupported = ["fp4"]
[device.memories.hbm]
bandwidth = "1 TB/s"
size = "16 GB"
[device.links.bus]
bandwidth_per_direction = "25 GB/s"
"""


def test_a_user_file_adds_a_machine_like_any_other(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    acme = device("ACME one 16gb", device_files=[path])
    assert acme.name == "acme-1"
    assert acme.pipe("matrix").peak("f16").value == 10e12
    assert acme.pipe("matrix").peak("i8", kind="achievable").value == 30e12
    assert acme.memory("hbm").bandwidth.source.document == "ACME datasheet, page 3"
    assert acme.launch_latency.value == 2.5e-6
    assert acme.link("bus").bandwidth_per_direction.value == 25e9


def test_the_configuration_folder_is_read_and_a_given_file_wins(tmp_path, monkeypatch):
    folder = tmp_path / "config" / "fuseline"
    folder.mkdir(parents=True)
    (folder / "devices.toml").write_text(GOOD)
    assert device("acme-1").cores == 4
    other = tmp_path / "other.toml"
    other.write_text(GOOD.replace("cores = 4", "cores = 8"))
    assert device("acme-1", [other]).cores == 8
    assert device("h100-sxm").name == "h100-sxm"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("format = 1", "format = 2", "format = 1 is needed"),
        ("format = 1", "", "format = 1 is needed"),
        ("cores = 4", "coers = 4", "did you mean 'cores'"),
        ("cores = 4", "cores = -4", "positive whole number"),
        ("cores = 4", 'cores = "4"', "positive whole number"),
        ('bandwidth = "1 TB/s"', 'bandwidth = "1 TB"', "hbm.bandwidth: unknown unit"),
        ('bandwidth = "1 TB/s"', 'bandwidth = "1 TFLOPS"', "where B/s is needed"),
        ('bandwidth = "1 TB/s"', "bandwidth = 1e12", "written with its unit"),
        ('bandwidth = "1 TB/s"', 'bandwidth = "0 TB/s"', "must be positive"),
        ('size = "16 GB"', 'capacity = "16 GB"', "unknown key 'capacity'"),
        ('"f16/f32" = "10 TFLOPS"', 'f61 = "10 TFLOPS"', "unknown dtype"),
        ('"f16/f32" = "10 TFLOPS"', 'f16 = "10 TOPS"', "where FLOP/s is needed"),
        ('i8 = ["40 TOPS"', 'i8 = ["40 TFLOPS"', "where OP/s is needed"),
        ('kind = "measured"', 'kind = "guessed"', "unknown kind 'guessed'"),
        ('confidence = "medium"', 'confidence = "sure"', "unknown confidence"),
        ('name = "acme-1"', "", "name: a text is needed, found nothing"),
        ("[device.memories.hbm]", "[device.memory.hbm]", "unknown key 'memory'"),
        ("[[device]]", "[device]", "array of tables"),
        ("format = 1", "format = 1\n[", "not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(old, new, complaint):
    assert old in GOOD
    with pytest.raises(DataFileError, match=r"mine\.toml") as caught:
        parse_device_text(GOOD.replace(old, new, 1), "mine.toml")
    assert complaint in str(caught.value)


def test_a_missing_or_unreadable_file_is_an_error_not_a_crash(tmp_path):
    with pytest.raises(DataFileError, match="cannot be read"):
        load_device_file(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataFileError, match="not UTF-8"):
        load_device_file(binary)
    twice = tmp_path / "twice.toml"
    twice.write_text(GOOD + GOOD.split('page 3"', 1)[1])
    with pytest.raises(DataFileError, match="used twice"):
        database([twice])


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_device_file_or_a_clear_error(text):
    try:
        parse_device_text(text, "mine.toml")
    except DataFileError as error:
        assert str(error).startswith("mine.toml")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 30), st.text(max_size=4))
def test_any_damage_to_a_good_file_is_read_or_refused(start, length, patch):
    try:
        parse_device_text(GOOD[:start] + patch + GOOD[start + length :], "mine.toml")
    except DataFileError as error:
        assert str(error).startswith("mine.toml")


def test_a_measured_host_is_a_machine_and_its_file_is_private():
    assert load_host() is None
    path = save_host(GOOD.replace("acme-1", "host"))
    assert path == host_file()
    assert os.stat(path.parent).st_mode & 0o777 == 0o700
    assert device("host").cores == 4
    path.chmod(0o666)
    assert load_host() is None
    path.chmod(0o600)
    path.write_text("not a device file")
    assert load_host() is None
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    umask = os.umask(0)
    try:
        save_host(GOOD.replace("acme-1", "host"))
    finally:
        os.umask(umask)
    assert device("host").cores == 4
    assert path.with_name("elsewhere").read_text() == "not a device file"


def test_the_example_files_are_read_as_they_stand():
    from pathlib import Path

    from fuseline.roofline.row_files import read_rows

    examples = Path(__file__).parents[2] / "examples"
    x1 = device("acme x1", [examples / "devices.toml"])
    assert x1.pipe("matrix").peak("bf16", kind="achievable").value == 172e12
    assert x1.pipe("dma").peak().value == 2e12 and x1.pipe("matrix").profiler_names == ("acme_mx_busy",)
    rows, errors = read_rows(examples / "kernels.csv")
    assert len(rows) == 4 and not errors


@pytest.mark.parametrize("figure", ['"1e300 TFLOPS"', '"1e12 TFLOPS"'])
def test_an_absurd_figure_is_refused_with_file_and_place(figure):
    text = f'format = 1\n[[device]]\nname = "x1"\n[device.pipes.matrix]\nbf16 = {figure}\n'
    with pytest.raises(DataFileError, match=r"mine\.toml: x1\.pipes\.matrix\.bf16"):
        parse_device_text(text, "mine.toml")


def test_a_user_name_cannot_take_over_a_packaged_machine(tmp_path):
    path = tmp_path / "mine.toml"
    body = '[device.memories.hbm]\nbandwidth = "1 TB/s"\n'
    path.write_text(f'format = 1\n[[device]]\nname = "x1"\naliases = ["H100"]\n{body}')
    with pytest.raises(DataFileError, match=r"x1: the name 'H100' already belongs to h100-sxm \(packaged\)"):
        database([path])
    path.write_text(f'format = 1\n[[device]]\nname = "h100-sxm"\naliases = ["h100"]\n{body}')
    assert database([path]).get("h100").main_memory.bandwidth.value == 1e12


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        ('name = "x1"', "'x1' is used twice"),
        ('name = "X-1"', "'X-1' is used twice, by x1 and X-1"),
        ('name = "x2"\naliases = ["nvidia x1"]', "'nvidia x1' is used twice, by x1 and x2"),
        ('name = ""', "one line of text"),
        ('name = " "', "one line of text"),
        ('name = "x\\u001b[31m"', "control characters"),
        ('name = "x2"\ntitle = "x\\u001b[31m"', "x2.title: a text must not hold control characters"),
        ('name = "x2"\n[device.pipes."a\\u0007"]', "x2.pipes: a text must not hold control characters"),
    ],
)
def test_a_name_is_one_machines_and_can_be_typed(tmp_path, second, complaint):
    path = tmp_path / "d.toml"
    path.write_text(f'format = 1\n[[device]]\nname = "x1"\n[[device]]\n{second}\n')
    with pytest.raises(DataFileError, match=re.escape(complaint)):
        device("x1", [path])


def test_a_device_file_may_start_with_a_byte_order_mark_and_end_lines_as_windows_does(tmp_path):
    path = tmp_path / "d.toml"
    text = 'format = 1\n[[device]]\nname = "x1"\n[device.memories.hbm]\nbandwidth = "1 TB/s"\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert device("x1", [path]).main_memory.bandwidth.value == 1e12


MINE = """
format = 1
[[device]]
name = "h100-sxm"
[device.memories.hbm]
bandwidth = "GIVEN TB/s"
"""


def test_a_machine_of_the_user_replaces_the_packaged_one_of_its_name(tmp_path, monkeypatch):
    def bandwidth(*files):
        return device("h100-sxm", files).memory("hbm").bandwidth.value

    given = tmp_path / "mine.toml"
    given.write_text(MINE.replace("GIVEN", "1"))
    assert bandwidth() == 3.35e12
    assert bandwidth(given) == 1e12
    folder = tmp_path / "config" / "fuseline"
    folder.mkdir(parents=True)
    (folder / "devices.toml").write_text(MINE.replace("GIVEN", "2"))
    assert (bandwidth(), bandwidth(given)) == (2e12, 1e12)
    with pytest.raises(UnknownNameError):
        device("h100-sxm").pipe("matrix")


def test_what_stands_after_unsupported_formats_and_profiler_names_is_read():
    text = GOOD.replace('"f16/f32"', 'unsupported = ["fp4"]\nprofiler = ["tensor"]\n"f16/f32"').replace(
        'unsupported = ["fp4"]\n[device.memories', "[device.memories"
    )
    (acme,) = parse_device_text(text)
    matrix = acme.pipe("matrix")
    assert (matrix.peak("f16").value, matrix.peak("i8").value) == (10e12, 40e12)
    assert matrix.profiler_names == ("tensor",) and matrix.unsupported == ("fp4",)
    assert matrix.dtypes() == ("f16", "i8")
    assert acme.memory("hbm").profiler_names == ()
    shared = GOOD.replace("[[device]]", '[profiler]\nhbm = ["dram"]\nmatrix = ["xmx"]\n[[device]]')
    (acme,) = parse_device_text(shared.replace('size = "16 GB"', 'size = "16 GB"\nprofiler = ["fbpa"]'))
    assert (acme.pipe("matrix").profiler_names, acme.memory("hbm").profiler_names) == (("xmx",), ("fbpa",))


def test_only_arithmetic_can_be_sparse():
    sparse = '{ value = "1 TB/s", sparse = true }'
    with pytest.raises(DataFileError, match="sparse belongs to an arithmetic rate"):
        parse_device_text(GOOD.replace('bandwidth = "1 TB/s"', f"bandwidth = {sparse}"))
    (acme,) = parse_device_text(GOOD.replace('"10 TFLOPS"', '{ value = "20 TFLOPS", sparse = true }'))
    assert acme.pipe("matrix").peak("f16").sparse


def test_a_machine_without_memory_says_so():
    (acme,) = parse_device_text(GOOD[: GOOD.index("[device.memories.hbm]")])
    with pytest.raises(UnknownNameError, match="no memory is known for acme-1"):
        _ = acme.main_memory
