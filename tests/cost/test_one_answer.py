"""`explain` of a program and `classify` of the same formula: one answer to what bounds it, and to what is not known."""

from __future__ import annotations

import pytest

import fuseline as fl
from fuseline.api.roofline import formula_cost
from fuseline.machine import device, devices
from fuseline.report.explain_document import explain_document
from fuseline.report.terminal import plain_text

PROGRAMS = [
    "x: f32[N]; out = exp(x) + x",
    "x: i32[N]; out = x*x + 1",
    "x: f64[N]; y: f64[N]; out = x*y",
    "x: bf16[N]; x*2",
]


@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.parametrize("n", [64, 10**6, 10**9])
@pytest.mark.parametrize("machine", ["h100-sxm", "h200", "ascend-950dt", "mi300x", "l40s", "a100-80gb"])
def test_explain_and_classify_give_one_bound(text: str, n: int, machine: str) -> None:
    told = fl.explain(text, device=machine, sizes={"N": n}).to_dict()
    cost = formula_cost(text, sizes={"N": n})
    found = fl.classify(cost=cost, device=machine).shapes[0].to_dict()
    assert told["bound"] == found["bound"]
    if found["bound"] is None:
        assert told["launch_dominated"] is found["shape"]["launch_dominated"] is False


@pytest.mark.parametrize("name", [d.name for d in devices() if not d.memories])
def test_a_machine_of_unknown_memory_is_explained_without_times(name: str) -> None:
    e = fl.explain("out = tanh(x)*y + x", device=name)
    told = e.to_dict()
    assert told["bound"] is None and told["bandwidth_bytes_per_s"] is None and told["launch_dominated"] is False
    assert told["traffic"]["fused"]["bandwidth_time_s"] is None and told["traffic"]["fused"]["total_s"] is None
    known = fl.explain("out = tanh(x)*y + x").to_dict()
    assert told["memory"] == known["memory"] and told["instructions"] == known["instructions"]
    assert told["traffic"]["fused"]["bytes"] == known["traffic"]["fused"]["bytes"]
    for language, words in (("en", f"The memory bandwidth of {name} is not known"), ("zh", f"{name} 的内存带宽未知")):
        assert words in plain_text(explain_document(e, language), 400)


def test_some_machine_has_no_known_memory() -> None:
    assert not device("apple-m4-max-32").memories
