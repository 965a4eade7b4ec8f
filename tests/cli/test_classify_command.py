"""``fuseline classify`` and ``fuseline device`` as whole commands: statuses, JSON, one clear line for each mistake."""

import json

import pytest

from fuseline.cli.main import run


def answer(capsys, *arguments):
    status = run(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_without_arguments_it_shows_the_six_shapes(capsys):
    status, out, _ = answer(capsys, "classify", "--lang", "en")
    assert status == 0
    assert "The six shapes of the course" in out and "What next" in out


def test_json_has_the_promised_keys(capsys):
    status, out, _ = answer(capsys, "classify", "--json", "--lang", "en")
    rows = json.loads(out)["rows"]
    assert status == 0 and len(rows) == 6
    assert [row["bound"] for row in rows] == ["compute", "compute", "balanced", "neither", "balanced", "memory"]
    assert rows[3]["source_says"] == "fix"
    assert {"convention", "bytes_per_s", "bound"} <= rows[0]["audit"][0].keys()
    assert "Look at a third pipe" in rows[3]["notes"][0]["text"] and rows[3]["notes"][0]["code"] == "missing-pipes"


def test_a_shape_takes_sizes_as_people_write_them(capsys):
    status, out, _ = answer(capsys, "classify", "--m", "2^7", "--n", "7168", "--k", "16Ki", "--dtype", "fp8", "--json")
    assert status == 0
    assert json.loads(out)["rows"][0]["sizes"] == {"m": 128, "n": 7168, "k": 16384, "batch": 1}
    sizes = [f"--size={size}" for size in ("batch=64", "kv-len=8192", "heads=64", "kv_heads=8")]
    decode = ("--op", "attention-decode", *sizes, "--dtype", "bf16", "--device", "h100", "--json")
    status, out, _ = answer(capsys, "classify", *decode)
    assert status == 0 and json.loads(out)["rows"][0]["bound"] == "memory"


def test_a_formula_is_a_shape(capsys):
    arguments = ("--formula", "x*y + z", "--shape", "4096x14336", "--dtype", "bf16", "--device", "h100-sxm", "--json")
    status, out, _ = answer(capsys, "classify", *arguments)
    assert status == 0
    assert json.loads(out)["rows"][0]["shape"]["bytes"]["inputs+output"] == 4 * 4096 * 14336 * 2


def test_a_formula_takes_its_named_sizes(capsys):
    arguments = ("--formula", "x: f32[T, D]; x*x", "--size", "T=16", "--size", "D=2^3", "--json")
    status, out, _ = answer(capsys, "classify", *arguments)
    row = json.loads(out)["rows"][0]
    assert status == 0 and row["sizes"] == {"T": 16, "D": 8} and row["shape"]["flop"] == 128


def test_reading_options_alone_still_show_the_six_shapes(capsys):
    arguments = ("--rule", "nsight", "--peaks", "datasheet", "--device", "ascend-950dt", "--allow-mixed")
    status, out, _ = answer(capsys, "classify", *arguments, "--lang", "en")
    assert status == 0 and "The six shapes of the course" in out


def test_a_bad_row_is_named_the_rest_is_done_and_the_status_is_2(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("name,device,dtype,tflops,gbps\ngood,950dt,fp8,861,186\nwrong,950dt,fp8,-1,186\n")
    status, out, _ = answer(capsys, "classify", "--csv", str(path), "--lang", "en")
    assert status == 2
    assert "good" in out and "compute-bound" in out
    assert "line 3 (wrong)" in out and "positive" in out
    status, out, _ = answer(capsys, "classify", "--csv", str(path), "--json")
    data = json.loads(out)
    assert status == 2 and len(data["rows"]) == 1 and data["errors"][0]["name"] == "wrong"


def test_a_chart_is_written_beside_the_answer(capsys, tmp_path):
    path = tmp_path / "chart.svg"
    status, _, _ = answer(capsys, "classify", "--table", "course", "--chart", str(path), "--chart-kind", "ratios")
    assert status == 0 and "HC prenorm" in path.read_text()


STRANGE = ("\u202eabc</script><script>alert(1)</script>", "\ufffe & <b>", "\u200b", "na\u00efve")


def test_a_mask_is_a_size_of_every_attention(capsys):
    flop = {}
    for causal in ("true", "false", ""):
        asked = ("--size", f"causal={causal}") if causal else ()
        sizes = ("--size", "batch=1", "--size", "q_len=4096", "--size", "heads=32")
        status, out, _ = answer(
            capsys, "classify", "--op", "attention-prefill", *sizes, *asked, "--device", "h100", "--json"
        )
        flop[causal] = json.loads(out)["rows"][0]["shape"]["flop"]
        assert status == 0 and json.loads(out)["rows"][0]["sizes"]["causal"] is (causal != "false")
    assert flop["true"] == flop[""] and 1.99 < flop["false"] / flop["true"] < 2
    status, _, err = answer(
        capsys, "classify", "--op", "mla-prefill", *sizes, "--size", "causal=no", "--device", "h100"
    )
    assert status == 2 and "causal is true or false" in err


@pytest.mark.parametrize("kind", ["roofline", "ratios"])
@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_any_name_that_can_be_read_can_be_drawn_and_stays_text(capsys, tmp_path, ending, kind):
    path, chart = tmp_path / "rows.csv", tmp_path / f"chart.{ending}"
    rows = "".join(f"{name},950dt,fp8,861,186\n" for name in STRANGE)
    path.write_text("name,device,dtype,tflops,gbps\n" + rows, encoding="utf-8")
    arguments = ("classify", "--csv", str(path), "--chart", str(chart), "--chart-kind", kind)
    status, shown, _ = answer(capsys, *arguments)
    assert status == 0
    drawn = chart.read_bytes()
    for raw in ("\u202e", "\ufffe", "\u200b"):
        assert raw not in shown
        assert ending == "png" or raw.encode() not in drawn
    assert b"<script>alert" not in drawn
    assert sorted(p.name for p in tmp_path.iterdir()) == [chart.name, "rows.csv"]


def test_a_chart_that_cannot_be_written_is_refused_before_the_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("fuseline.api.roofline.classify", lambda **_: pytest.fail("the work began"))
    for arguments in ((str(tmp_path / "no" / "x.svg"),), ("x.pdf",), ("x.svg", "--chart-kind", "pie")):
        status, _, err = answer(capsys, "classify", "--m", "4", "--chart", *arguments)
        assert status == 2 and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--device", "h101"), "nearest: h100-sxm"),
        (("--m", "0"), "at least 1"),
        (("--m", "-4"), "negative"),
        (("--m", "many"), "cannot read"),
        (("--tflops", "0"), "positive"),
        (("--gbps", "1e30"), "absurd"),
        (("--tflops", "5", "--dtype", "fp9"), "unknown dtype"),
        (("--tflops", "5", "--dtype", "fp8", "--device", "a100"), "does not do fp8"),
        (("--tflops", "861", "--gbps", "5", "--device", "h100", "--measured-on", "h200"), "measured on h200"),
        (("--latency-us", "5"), "needs a shape"),
        (("--pipe", "fix"), "NAME=VALUE"),
        (("--pipe", "fix=5 parsecs"), "unknown unit"),
        (("--size", "=5"), "NAME=VALUE"),
        (("--size", "q=5", "--m", "4"), "has no size 'q'"),
        (("--op", "gem", "--m", "4"), "did you mean gemm"),
        (("--rule", "guess"), "book, nsight"),
        (("--saturated", "2"), "thresholds"),
        (("--table", "mine"), "unknown table"),
        (("--csv", "no-such-file.csv"), "cannot be read"),
        (("--device-file", "no-such-file.toml", "--m", "4"), "cannot be read"),
        (("--chart", "x.pdf"), ".svg, .png, .html"),
        (("--formula", "x +", "--shape", "4"), "line 1"),
        (("--lang", "fr"), "unknown language"),
        (("--op", "foo"), "unknown operation 'foo'"),
        (("--op", "gemm"), "gemm needs m"),
        (("--op", "norm"), "norm needs rows"),
        (("--dtype", "nonsense"), "nonsense"),
        (("--dtype", "fp8"), "gemm needs m"),
        (("--waves", "0.5"), "without measured rates waves"),
        (("--measured-on", "b200"), "without measured rates measured_on"),
        (("--m", "4", "--waves", "2"), "without measured rates waves"),
        (("--tflops", "5", "--waves", "2"), "waves decide nothing under the book rule"),
        (("--tflops", "5", "--rule", "nsight", "--saturated", "0.9"), "thresholds belong to the book rule"),
        (("--shape", "4x4"), "only beside --formula"),
        (("--also-device", "h100"), "only beside --chart"),
        (("--also-device", "h101", "--chart", "x.svg"), "nearest: h100-sxm"),
        (("--chart-kind", "ratios"), "only beside --chart"),
        (("--table", "course", "--dtype", "fp8"), "leave out dtype"),
        (("--table", "course", "--measured-on", "h100"), "leave out measured_on"),
        (("--csv", "rows.csv", "--op", "norm"), "leave out operation"),
        (("--formula", "x*y", "--shape", "4", "--op", "norm"), "leave out the operation"),
        (("--formula", "x*y", "--shape", "4", "--m", "4"), "no array has a size called m"),
        (("--formula", "x: f32[T]; x + 1"), "give the named size T"),
        (("--m", "4", "--size", "m=5"), "the size m is given twice"),
        (("--size", "q=5", "--size", "q=6"), "--size q is given twice"),
        (("--pipe", "fix=5TB/s", "--pipe", "fix=6TB/s"), "--pipe fix is given twice"),
    ],
)
def test_a_mistake_is_one_clear_message_and_status_2(capsys, arguments, complaint):
    status, _, err = answer(capsys, "classify", *arguments)
    assert status == 2
    assert err.startswith("fuseline: ") and complaint in err and "Traceback" not in err


def test_machines_are_listed_shown_and_compared(capsys):
    status, out, _ = answer(capsys, "device", "list", "--lang", "en")
    assert status == 0 and "ascend-950dt" in out and "device probe" in out
    status, out, _ = answer(capsys, "device", "show", "ascend-950dt", "--lang", "en")
    assert status == 0 and "model constant" in out and "heuristics.hpp" in out
    status, out, _ = answer(capsys, "device", "compare", "h100", "h200", "--json")
    data = json.loads(out)
    assert status == 0 and data["devices"] == ["h100-sxm", "h200"]
    bandwidth = next(row for row in data["rows"] if row["figure"] == "memory")
    assert [value["value"] for value in bandwidth["values"]] == [3.35e12, 4.8e12]
    status, out, _ = answer(capsys, "device", "show", "h100", "--json")
    assert status == 0 and json.loads(out)["launch_latency_s"]["value"] == 4e-6
    status, _, err = answer(capsys, "device", "show", "h101")
    assert status == 2 and "nearest" in err


def test_a_device_file_gives_a_machine_to_every_command(capsys, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'format = 1\n[[device]]\nname = "mine"\nsource = "me"\n[device.pipes.matrix]\nfp8 = "100 TFLOPS"\n'
        '[device.memories.hbm]\nbandwidth = "1 TB/s"\n'
    )
    status, out, _ = answer(
        capsys, "classify", "--tflops", "90", "--gbps", "100", "--device", "mine", "--device-file", str(path), "--json"
    )
    assert status == 0 and json.loads(out)["rows"][0]["bound"] == "compute"
    status, out, _ = answer(capsys, "device", "show", "mine", "--device-file", str(path))
    assert status == 0 and "100 TFLOPS" in out


def test_contradicting_options_and_unknown_peaks_are_refused(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("name,device,dtype,tflops,gbps\ngood,950dt,fp8,861,186\n")
    for arguments in (
        ("--csv", str(path), "--m", "4"),
        ("--table", "course", "--tflops", "5"),
        ("--m=4", "--peaks=foo"),
    ):
        status, out, err = answer(capsys, "classify", *arguments)
        assert status not in (0, None) and not out and err.count("\n") == 1


def test_a_time_goes_with_any_operation_and_formula(capsys):
    softmax = ("--op", "softmax", "--size", "rows=4096", "--size", "columns=8192", "--dtype", "bf16")
    formula = ("--formula", "x*y + z", "--shape", "4096x14336", "--dtype", "bf16")
    for arguments in (softmax, formula):
        status, out, _ = answer(capsys, "classify", *arguments, "--device", "h100", "--latency-us", "200", "--json")
        assert status == 0 and {"vector", "hbm"} == json.loads(out)["rows"][0]["ratios"].keys()


def test_text_of_a_file_cannot_command_the_terminal(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("name,device,dtype,tflops,gbps\n\x1b[2Jevil,950dt,fp8,300,186\n\x1b[31mbad,950dt,fp8,-1,186\n")
    _, out, _ = answer(capsys, "classify", "--csv", str(path), "--lang", "en")
    assert "\x1b" not in out and "evil" in out and "bad" in out


@pytest.mark.parametrize("columns", ["100", "120"])
@pytest.mark.parametrize("table", ["ascend", "deepgemm"])
def test_verdicts_and_machines_are_never_cut(capsys, monkeypatch, columns, table):
    monkeypatch.setenv("COLUMNS", columns)
    arguments = ("classify", "--table", table, "--lang", "en")
    _, out, _ = answer(capsys, *arguments)
    assert "…" not in out
    bounds = [row["bound"] or "undetermined" for row in json.loads(answer(capsys, *arguments, "--json")[1])["rows"]]
    rows = out[: out.index("\n• Peaks")]
    assert rows.count("undetermined") == bounds.count("undetermined")
    assert rows.count("neither") == bounds.count("neither")
    if table == "deepgemm":
        assert rows.count("h800") == 50 + rows.count("(h800)")


def test_a_comparison_needs_two_machines_and_forms_no_ratio_of_assumptions(capsys):
    for names in (("h100",), ("h100", "h100-sxm")):
        status, _, err = answer(capsys, "device", "compare", *names)
        assert status not in (0, None) and "two or more" in err
    _, out, _ = answer(capsys, "device", "compare", "h100", "h200", "--lang", "en")
    launch = next(line for line in out.splitlines() if line.startswith("launch"))
    assert launch.count("(assumed)") == 2 and "x)" not in launch


def test_each_rule_explains_its_own_verdict(capsys):
    rates = ("--tflops", "600", "--gbps", "1500", "--lang", "en")
    _, out, _ = answer(capsys, "classify", *rates, "--rule", "nsight")
    assert "compute-bound" in out and "by this rule" in out and "nearly idle" not in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--m", "x"), "--m: "),
        (("--n", "1.5", "--m", "3"), "--n: "),
        (("--op=norm", "--size=rows=-1"), "--size rows: "),
    ],
)
def test_an_unreadable_size_is_named_by_its_option(capsys, arguments, named):
    status, out, err = answer(capsys, "classify", *arguments)
    assert status == 2 and not out and err.startswith(f"fuseline: {named}")


def test_a_pipe_that_the_machine_lacks_is_named_and_the_status_is_2(capsys):
    status, out, _ = answer(capsys, "classify", "--tflops=861", "--gbps=186", "--pipe=warp=6TB/s", "--lang=en")
    assert status == 2 and "compute-bound" in out and "\n• measured: ascend-950dt has no pipe 'warp'" in out
