"""Rows from CSV: columns by name, extra pipes, and every bad row named while the rest is done."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuseline.api.roofline import classify
from fuseline.errors import DataFileError, FuselineError
from fuseline.roofline.row_files import rows_from_text

HEADER = "name,device,dtype,m,n,k,latency_us,tflops,gbps"


def written(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_found_by_name_in_any_order(tmp_path):
    one = written(tmp_path, f"{HEADER}\na,ascend-950dt,fp8,4096,7168,16384,1117.6,861,186\n")
    first = classify(csv=one).rows[0]
    other = written(
        tmp_path, "gbps,k,name,n,tflops,m,latency_us,dtype,device\n186,16384,a,7168,861,4096,1117.6,fp8,950dt\n"
    )
    second = classify(csv=other).rows[0]
    assert first.bound == second.bound == "compute"
    assert [p.ratio.value for p in first.pipes] == [p.ratio.value for p in second.pipes]


def test_extra_pipes_are_columns_and_can_be_the_bound(tmp_path):
    path = written(
        tmp_path,
        "name,device,dtype,tflops,gbps,fix_gbps,l2_gbps,vector_tflops\na,ascend-950dt,fp8,681,283,6690,100,1\n",
    )
    found = classify(csv=path).rows[0]
    ratios = found.to_dict()["ratios"]
    assert set(ratios) == {"matrix", "hbm", "fix", "l2", "vector"}
    assert found.bound == "fix"
    assert ratios["fix"] == pytest.approx(6690e9 / (128 * 1.65e9 * 32))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("bad,ascend-950dt,fp8,,,,,0,5", "positive"),
        ("bad,ascend-950dt,fp8,,,,,-3,5", "positive"),
        ("bad,ascend-950dt,fp8,,,,,nan,5", "positive"),
        ("bad,ascend-950dt,fp8,,,,,5,186000000000", "absurd"),
        ("bad,ascend-950dt,fp8,,,,,x,5", "not a number"),
        ("bad,ascend-950dt,fp9,,,,,5,5", "unknown dtype"),
        ("bad,ascend-950dt,,,,,,5,5", "no dtype"),
        ("bad,ascend-951,fp8,,,,,5,5", "ascend-950dt"),
        ("bad,ascend-950dt,fp8,4096,7168,,12,,", "nothing to classify"),
        ("bad,ascend-950dt,fp8,-1,7168,1,12,,", "negative"),
        ("bad,ascend-950dt,fp8,0,7168,1,12,,", "at least 1"),
        ("bad,ascend-950dt,fp8,1.5,7168,1,12,,", "whole number"),
        ("bad,ascend-950dt,fp8,,,,-1,5,5", "latency_us"),
        ("bad,ascend-950dt,fp8,,,,,5,5,9,9", "cells where the header"),
    ],
)
def test_a_bad_row_is_named_and_the_rest_is_done(tmp_path, line, complaint):
    good = "good,ascend-950dt,fp8,,,,,861,186"
    found = classify(csv=written(tmp_path, f"{HEADER}\n{good}\n{line}\n{good}\n"))
    assert [row.bound for row in found.rows] == ["compute", "compute"]
    assert len(found.errors) == 1
    assert found.errors[0].name == "bad" and complaint in found.errors[0].message
    assert found.errors[0].line == 3


def test_a_file_without_usable_columns_is_refused_at_once(tmp_path):
    for text, complaint in (
        ("", "empty"),
        ("name,devise\n", "did you mean 'device'"),
        ("name,name\n", "twice"),
        ("_gbps\n1\n", "unknown column"),
    ):
        with pytest.raises(DataFileError, match=complaint):
            classify(csv=written(tmp_path, text))
    with pytest.raises(DataFileError, match="cannot be read"):
        classify(csv=tmp_path / "none.csv")
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(DataFileError, match="UTF-8"):
        classify(csv=binary)


def test_defaults_fill_device_and_dtype_and_another_machine_is_refused(tmp_path):
    path = written(tmp_path, "name,tflops,gbps\na,861,186\n")
    found = classify(csv=path, device="ascend-950dt", dtype="fp8").rows[0]
    assert found.bound == "compute"
    path = written(tmp_path, f"{HEADER}\na,ascend-950dt,fp8,,,,,861,186\n")
    refused = classify(csv=path, device="h100").rows[0]
    assert refused.to_dict()["ratios"] == {} and "ascend-950dt" in refused.pipes[0].refused
    mixed = classify(csv=path, device="h100", allow_mixed=True).rows[0]
    assert mixed.to_dict()["mixed"] == ["matrix", "hbm"]


def test_a_byte_order_mark_and_blank_lines_are_no_obstacle(tmp_path):
    path = written(tmp_path, f"\ufeff{HEADER}\n\n , ,\na,ascend-950dt,fp8,,,,,861,186\n\n")
    assert [row.row.name for row in classify(csv=path).rows] == ["a"]


@settings(max_examples=200)
@given(st.text(max_size=120))
def test_any_text_is_rows_errors_or_a_clear_refusal(text):
    try:
        rows, errors = rows_from_text(text, "rows.csv")
    except FuselineError as error:
        assert str(error).startswith("rows.csv")
    else:
        assert isinstance(rows, list) and all(error.message for error in errors)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["", "1", "-1", "0", "1e300", "nan", "fp8", "h100", "1e-9", "٣", "x" * 50]), max_size=9)
)
def test_any_cells_give_a_row_or_a_named_error(cells):
    rows, errors = rows_from_text(f"{HEADER}\n{','.join(cells)}\n", "rows.csv")
    assert len(rows) + len(errors) <= 1


def test_a_row_is_costed_as_the_operation_that_it_names(tmp_path):
    header = "name,operation,device,dtype,m,n,k,rows,columns,q_len,kv_len,heads,batch,latency_us,tflops,gbps"
    path = written(
        tmp_path,
        f"{header}\n"
        "s,softmax,h100,bf16,,,,4096,8192,,,,,100,,\n"
        "d,attention_decode,h100,bf16,,,,,,,8192,64,16,500,,\n"
        "g,gemm,h100,bf16,128,128,128,,,,,,,100,,\n"
        "x,softmax,h100,bf16,4096,8192,4,,,,,,,100,,\n"
        "y,frobnicate,h100,bf16,4096,8192,4,,,,,,,100,5,5\n",
    )
    found = classify(csv=path)
    softmax, decode, _ = (row.to_dict() for row in found.rows)
    assert softmax["achieved"] == {
        "vector": pytest.approx(5 * 4096 * 8192 / 100e-6),
        "hbm": pytest.approx(2 * 2 * 4096 * 8192 / 100e-6),
    }
    assert decode["achieved"]["matrix"] == pytest.approx(2 * 16 * 64 * 8192 * 2 * 128 / 500e-6)
    assert [(error.name, error.line) for error in found.errors] == [("x", 5), ("y", 6)]
    assert "softmax has no size 'm'" in found.errors[0].message and "frobnicate" in found.errors[1].message


@pytest.mark.parametrize(
    "bad", ['"bad,ascend-950dt,fp8,,,,,861,186', 'bad,"asc"end,fp8,,,,,861,186', '"b"ad",950dt,fp8,,,,,1,2']
)
def test_a_bad_quote_costs_its_own_line_only(tmp_path, bad):
    good = "good,ascend-950dt,fp8,,,,,861,186"
    quoted = '"also, good",ascend-950dt,fp8,,,,,861,186'
    found = classify(csv=written(tmp_path, f"{HEADER}\n{good}\n{bad}\n{quoted}\n" + f"{good}\n" * 30))
    assert [row.row.name for row in found.rows] == ["good", "also, good"] + ["good"] * 30
    assert [error.line for error in found.errors] == [3]


def test_a_bad_size_names_its_column_and_a_short_line_its_cells():
    text = f"{HEADER}\na,h100,bf16,-1,2,3,4,5,6\nb,h100,bf16,2,x,3,4,5,6\nc,h100\nd,h100,bf16,2,2,2,9\n"
    rows, errors = rows_from_text(text, "f.csv")
    assert [row.name for row in rows] == ["d"]  # later columns may be left off
    assert errors[0].message.startswith("m: ") and errors[1].message.startswith("n: ")
    assert errors[2].message == (
        "no dtype: give a dtype column, or --dtype for all rows; the line has 2 cells where the header has 9 columns"
    )


def test_a_quoted_cell_may_hold_a_line_break(tmp_path):
    found = classify(csv=written(tmp_path, f'{HEADER}\n"two\nlines",950dt,fp8,,,,,861,186\nbad,950dt,fp8,,,,,0,1\n'))
    assert found.rows[0].row.name == "two\nlines" and found.errors[0].line == 4


def test_a_row_that_cannot_be_judged_is_named(tmp_path):
    text = f"{HEADER},fix_gbps\nnone,,fp8,,,,,861,186,\nlacks,a100-80gb,fp8,,,,,100,186,\npipe,h100,fp8,,,,,100,186,5\n"
    found = classify(csv=written(tmp_path, text))
    assert [error.name for error in found.errors] == ["none", "lacks", "pipe"]
    assert "no device" in found.errors[0].message and "does not do fp8" in found.errors[1].message
    assert "no pipe 'fix'" in found.errors[2].message
    assert classify(csv=written(tmp_path, f"{HEADER}\n")).errors[0].message == "only a header, no rows"


def test_a_table_over_another_machine_has_no_verdicts():
    assert {row["bound"] for row in classify(table="ascend", device="h100").to_dict()["rows"]} == {None}


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolons_and_tabs_separate_cells_where_the_header_uses_them(tmp_path, separator):
    text = f"{HEADER}\na,ascend-950dt,fp8,4096,7168,16384,1117.6,861,186\n".replace(",", separator)
    found = classify(csv=written(tmp_path, text))
    assert [row.bound for row in found.rows] == ["compute"] and not found.errors


@pytest.mark.parametrize(
    ("cell", "value"), [("1117,6", None), ("1,117", None), ("1,117.6", 1117.6), ("1_117.6", 1117.6)]
)
def test_a_comma_is_never_taken_for_a_decimal_point_or_dropped_where_it_may_be_one(tmp_path, cell, value):
    text = f"{HEADER.replace(',', ';')}\na;ascend-950dt;fp8;4096;7168;16384;{cell};861;186\n"
    found = classify(csv=written(tmp_path, text))
    if value is None:
        assert not found.rows and "decimal point" in found.errors[0].message and found.errors[0].name == "a"
    else:
        assert found.rows[0].row.latency_s == pytest.approx(value * 1e-6)


def test_many_rows_of_one_machine_get_what_each_gets_alone(tmp_path):
    lines = [f"r{i},h100,bf16,{128 * i},4096,4096,{50 + i},{100 + 7 * i},{200 + 30 * i}" for i in range(1, 30)]
    together = classify(csv=written(tmp_path, "\n".join([HEADER, *lines]) + "\n")).rows
    for line, row in zip(lines, together, strict=True):
        alone = classify(csv=written(tmp_path, f"{HEADER}\n{line}\n")).rows[0]
        assert alone.to_dict() | {"source": ""} == row.to_dict() | {"source": ""}


def test_two_columns_for_one_rate_make_a_bad_row(tmp_path):
    path = written(tmp_path, "name,device,dtype,tflops,tops,gbps,hbm_gbps\na,h100,fp8,5,6,7,\nb,h100,fp8,5,,7,8\n")
    found = classify(csv=path)
    assert {error.name: "given twice" in error.message for error in found.errors} == {"a": True, "b": True}


def test_errors_come_in_the_order_of_lines_and_spellings_of_a_machine_are_one_group(tmp_path):
    path = written(
        tmp_path, "name,device,dtype,tflops,gbps\na,h10,fp8,1,2\nb,h100,fp8,-1,3\nc,h100,fp8,1,2\nd,H100,fp8,1,2\n"
    )
    found = classify(csv=path)
    assert [error.line for error in found.errors] == [2, 3]
    assert [(audit.group, audit.rows) for audit in found.tables[0].audits] == [("FP8, h100-sxm", 2)]


def test_every_cell_of_a_row_is_what_its_column_says_and_an_empty_one_is_nothing():
    text = (
        "name;device;dtype;operation;batch;q_len;heads;causal;latency_us;waves;source;says;says_text;note;group\n"
        "a;h200;fp8->bf16;attention-prefill;2;64;8;FALSE;12.5;0.5;a page;memory;it says so;of ours;mine\n"
        ";;;attention-prefill;2;64;8;true;12.5;;;;;;\n"
    )
    (first, second), errors = rows_from_text(text, "mine.csv", "h100", "bf16")
    assert not errors
    assert (first.name, first.device, first.dtype, first.operands) == ("a", "h200", "fp8", "fp8")
    assert (first.latency_s, first.waves, first.line, first.group) == (12.5e-6, 0.5, 2, "mine")
    assert (first.source, first.says, first.says_text) == ("a page", "memory", "it says so")
    assert [(note.code, note.values) for note in first.notes] == [("of-source", {"text": "of ours"})]
    assert first.sizes["causal"] is False and second.sizes["causal"] is True
    assert second.name == "attention-prefill batch=2 q_len=64 heads=8 causal=true"
    assert (second.device, second.dtype, second.waves, second.notes) == ("h100", "bf16", None, ())
    assert (second.source, second.says, second.group, second.line) == ("mine.csv, line 3", "", "", 3)
    assert (second.cost().flop, first.cost().flop) == (
        second.given_cost.flop,
        4 * 2 * 8 * 64 * 64 * 128 + 5 * 2 * 8 * 64 * 64,
    )


def test_words_that_are_no_truth_value_are_refused_and_a_short_row_is_named():
    header = "device,dtype,operation,batch,q_len,heads,causal,latency_us,name"
    text = f"{header}\nh200,bf16,attention-prefill,2,64,8,no,12,a\nh200\n"
    rows, errors = rows_from_text(text, "mine.csv")
    assert not rows
    assert "causal is true or false, not 'no'" in errors[0].message
    assert [(error.line, error.name) for error in errors] == [(2, "a"), (3, "")]
