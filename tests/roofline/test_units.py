"""Sizes, rates and times are read strictly and printed as people write them."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuseline as fl
from fuseline.errors import UnitError
from fuseline.units import (
    Quantity,
    Source,
    SourceKind,
    format_bytes,
    format_number,
    format_percent,
    format_quantity,
    format_rate,
    format_si,
    format_time,
    parse_bytes,
    parse_count,
    parse_rate,
    parse_shape,
    parse_time_s,
    shifted,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096),
        ("1_000_000", 10**6),
        ("1e6", 10**6),
        ("2^24", 2**24),
        ("2**24", 2**24),
        ("2^62", 2**62),
        ("0^5", 0),
        ("1^999", 1),
        ("16M", 16 * 10**6),
        ("64Ki", 65536),
        ("1.5k", 1500),
        ("0", 0),
        (7, 7),
    ],
)
def test_counts_are_read_exactly(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "1.5",
        "1e30",
        "2^64",
        "2^2^2",
        "10^99",
        "1e999999999",
        "1 2",
        "4Q",
        "nan",
        "inf",
        "9" * 200,
        "1.0001k",
    ],
)
def test_what_is_not_a_count_is_refused(text):
    with pytest.raises(UnitError):
        parse_count(text)


def test_shapes_are_read_with_every_usual_separator():
    assert parse_shape("4096x14336") == (4096, 14336)
    assert parse_shape("2^12 × 64") == (4096, 64)
    assert parse_shape("(3, 4,)") == (3, 4)
    assert parse_shape("5") == (5,)
    assert parse_shape(5) == (5,)
    assert parse_shape([2, 3]) == (2, 3)
    assert parse_shape("()") == ()
    assert parse_shape("0x4") == (0, 4)
    for bad in ("", "4xx4", "ax4", "4x-1", "4.5x2"):
        with pytest.raises(UnitError):
            parse_shape(bad)


def test_decimal_and_binary_sizes_differ():
    assert parse_bytes("469.8 MB") == 469_800_000
    assert parse_bytes("1.5GiB") == 3 * 2**29
    assert parse_bytes("512") == parse_bytes("512 B") == parse_bytes(512) == 512
    for bad in ("12 GQ", "1 GB/s", "-3 MB", "0.5", "half", "1.0000001 kB"):
        with pytest.raises(UnitError):
            parse_bytes(bad)


def test_a_time_needs_its_unit():
    assert parse_time_s("140.2 µs") == parse_time_s("140.2us") == parse_time_s("140.2 μs") == 140.2e-6
    assert parse_time_s("2 ms") == 0.002
    assert parse_time_s("5 min") == 300
    for bad in ("5", "5 parsecs", "-1 s", "us", "1e999 s"):
        with pytest.raises(UnitError):
            parse_time_s(bad)


def test_rates_carry_their_kind():
    assert parse_rate("3.35 TB/s") == (pytest.approx(3.35e12), "B/s")
    assert parse_rate("989.4 TFLOPS") == (pytest.approx(989.4e12), "FLOP/s")
    assert parse_rate("1979 TOPS", "OP/s") == (1.979e15, "OP/s")
    assert parse_rate("800 GiB/s")[0] == 800 * 2**30
    assert parse_rate("1830 MHz") == (1.83e9, "Hz")
    for text, unit in (("1 TB/s", "FLOP/s"), ("1 TB", None), ("7", None), ("1 furlong/s", None), ("-1 GB/s", None)):
        with pytest.raises(UnitError):
            parse_rate(text, unit)


def test_printing_uses_four_digits_and_the_nearest_prefix():
    assert format_bytes(469_762_048) == "469.8 MB"
    assert format_bytes(3_288_334_336) == "3.288 GB"
    assert format_bytes(512) == "512 B"
    assert format_bytes(1.2 * 2**30, binary=True) == "1.2 GiB"
    assert format_bytes(999_960_000) == "1 GB"
    assert format_time(140.228e-6) == "140.2 µs"
    assert format_time(4e-6) == "4 µs"
    assert format_time(0) == "0 s"
    assert format_time(0.99999) == "1 s"
    assert format_rate(989.4e12, "FLOP/s") == "989.4 TFLOPS"
    assert format_rate(3.35e12) == "3.35 TB/s"
    assert format_si(16_777_216) == "16.78 M"
    assert format_quantity(295.34, "FLOP/B") == "295.3 FLOP/B"
    assert format_percent(0.9953) == "99.5 %"


@given(st.floats(min_value=1e-4, max_value=1e14, allow_nan=False))
def test_a_printed_number_is_within_half_a_unit_of_its_fourth_digit(value):
    printed = Decimal(format_number(value))
    exact = Decimal(value)
    assert abs(printed - exact) <= abs(exact) * Decimal("0.00051")


@given(st.decimals(min_value="0.001", max_value="9999", places=3), st.sampled_from("kMGTP"))
def test_a_rate_is_the_number_that_was_written(number, prefix):
    """Rounded once: what is nearest to the decimal number, not a product of roundings."""
    exact = Fraction(number) * 1000 ** ("kMGTP".index(prefix) + 1)
    assert parse_rate(f"{number} {prefix}FLOPS") == (float(exact), "FLOP/s")
    assert parse_rate(f"{number}e-2 {prefix}B/s") == (float(exact / 100), "B/s")
    assert parse_time_s(f"{number} us") == float(Fraction(number) / 10**6)
    assert shifted(float(number), 12) == float(Fraction(number) * 10**12)
    assert shifted(float(number), -6) == float(Fraction(number) / 10**6)


def test_shifting_keeps_what_is_no_number():
    assert math.isnan(shifted(math.nan, 12)) and shifted(-math.inf, 9) == -math.inf
    assert shifted(1e300, 12) == math.inf and shifted(1e-7, 9) == 100.0 and shifted(3, 0) == 3.0


def test_rates_of_a_command_are_those_that_were_written():
    found = fl.classify(tflops=66.9, gbps=4.35, pipes={"fix": "66.9 TB/s"}, latency_us=54.8).rows[0].to_dict()
    assert sorted(found["achieved"].values()) == [4350000000.0, 66900000000000.0, 66900000000000.0]
    assert found["latency_s"] == 5.48e-05


@given(st.integers(min_value=0, max_value=2**62))
def test_a_printed_size_reads_back_to_four_digits(size):
    assert math.isclose(parse_bytes(format_bytes(size)), size, rel_tol=0.00051)


def test_a_quantity_has_a_known_unit_and_a_finite_value():
    assert str(Quantity(3.35e12, "B/s")) == "3.35 TB/s"
    source = Source(SourceKind.DATASHEET, "a vendor page", "h100-sxm", "high")
    found = Quantity(1.0, "FLOP/s", source, dtype="bf16").to_dict()
    assert found["source"] == {
        "kind": "datasheet",
        "document": "a vendor page",
        "machine": "h100-sxm",
        "confidence": "high",
    }
    for value, unit in ((1.0, "furlong"), (math.nan, "s"), (math.inf, "B/s")):
        with pytest.raises(UnitError):
            Quantity(value, unit)


def test_the_largest_count_is_the_largest_of_64_bits():
    largest = 2**63 - 1
    assert parse_count(largest) == parse_count(str(largest)) == parse_bytes(str(largest)) == largest
    assert parse_bytes("8589934591 GiB") == 8589934591 * 2**30
    for beyond in (str(2**63), "8589934592 GiB", "2^63"):
        with pytest.raises(UnitError, match="beyond"):
            parse_bytes(beyond) if "GiB" in beyond else parse_count(beyond)
    assert parse_count("0^0") == parse_count("1^0") == parse_count("2^0") == 1


def test_small_negative_amounts_and_unknown_prefixes_are_refused():
    for text in ("-0.5 B/s", "-1e-9 Hz", "1 qB/s", "1 mB/s", "1 FLFLOPS"):
        with pytest.raises(UnitError):
            parse_rate(text)
    with pytest.raises(UnitError):
        parse_time_s("-0.5 s")


def test_numbers_of_more_than_15_digits_and_those_that_are_none_are_printed():
    assert (format_number(999_900_000_000_000), format_number(1e15)) == ("999900000000000", "1.000e+15")
    assert (format_number(1e-5), format_number(9.99e-6)) == ("0.00001", "9.990e-06")
    for value, text in ((math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan")):
        assert (format_number(value), format_time(value), format_bytes(value)) == (text, f"{text} s", f"{text} B")


def test_a_sparse_peak_says_so_in_json():
    assert Quantity(1.0, "FLOP/s", sparse=True).to_dict()["sparse"] is True
    assert "sparse" not in Quantity(1.0, "FLOP/s").to_dict()
