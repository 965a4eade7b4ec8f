"""Small sentences of the commands: what was asked is what is answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fuseline as fl
from fuseline.errors import DataFileError, OutputFileError, ShapeError, UnitError
from fuseline.files import require_place
from fuseline.plan.arena.instance_csv import is_instance_text, parse_csv
from fuseline.report.arena_document import arena_document
from fuseline.report.roofline_document import classification_document
from fuseline.report.terminal import plain_text
from fuseline.units import parse_bytes, parse_count


def test_fractions_are_refused_by_what_they_are_of() -> None:
    with pytest.raises(UnitError, match=r"'100\.5' is not a whole number$"):
        parse_count("100.5")
    with pytest.raises(UnitError, match=r"'100\.5' is not a whole number of bytes$"):
        parse_bytes("100.5")
    with pytest.raises(UnitError, match=r"'100\.5' is not a whole number$"):
        fl.explain("x + 1", shape="100.5")


def test_a_rate_is_refused_as_it_was_written() -> None:
    with pytest.raises(UnitError, match=r"must be a positive number, not -3\.0$"):
        fl.classify(tflops=-3.0)


def test_sizes_that_do_not_exist_are_not_called_none() -> None:
    with pytest.raises(ShapeError, match="no array is declared with a named size"):
        fl.plan_program("x + 1", 4, sizes={"D": 4})


def test_one_byte_is_one() -> None:
    assert "1 bytes" not in fl.plan_program("x: i8[1]; out = x + 1").bound_derivation
    for size in (1, 2):
        text = plain_text(arena_document(fl.plan_buffers([(0, 3, size)]), "en"), 200)
        assert f"{size} byte{'s' * (size > 1)} long" in text or f"{size} byte{'s' * (size > 1)})" in text


def test_a_file_of_a_header_alone_has_no_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("name,device,dtype,m,n,k,latency_us\n")
    told = plain_text(classification_document(fl.classify(csv=path), "en"), 200)
    assert "only a header, no rows" in told and "1 row could" not in told


def test_a_dash_is_no_file() -> None:
    with pytest.raises(OutputFileError, match="name one"):
        require_place("-")
    with pytest.raises(DataFileError, match="standard input is not read here"):
        fl.classify(csv="-")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_buffers_are_read_with_the_separators_of_rows(separator: str) -> None:
    text = separator.join(("id", "lower", "upper", "size")) + "\n" + separator.join(("a", "0", "3", "4")) + "\n"
    assert is_instance_text(text) and parse_csv(text).buffers == (fl.Buffer("a", 0, 3, 4),)


def test_remarks_carry_their_code_and_numbers_in_every_json() -> None:
    found = fl.classify(m=4096, latency_us=1.1176)
    (row,) = found.to_dict()["rows"]
    assert json.loads(json.dumps(row["notes"])) == row["notes"]
    impossible = next(note for note in row["notes"] if note["code"] == "impossible-ratio")
    assert impossible["values"]["pipe"] == "matrix" and impossible["values"]["ratio"] > 900
    told = found.to_dict(lambda note: note.code.upper())["rows"][0]["notes"]
    assert [(note["code"], note["values"]) for note in told] == [(n["code"], n["values"]) for n in row["notes"]]
    assert told[0]["text"] == told[0]["code"].upper()


def test_a_ratio_over_another_machine_is_titled_by_both() -> None:
    found = fl.classify(tflops=500, gbps=300, device="h100", measured_on="h200", dtype="fp8", allow_mixed=True)
    assert classification_document(found, "en").title == "measured on h200, over the peaks of h100-sxm"
