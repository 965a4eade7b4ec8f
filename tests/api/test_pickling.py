"""What the public functions answer can be sent to another process, before and after it has been read."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import fuseline as fl

PROGRAM = "x: f32[N]; h = x + b; y = exp(h)*h; z = y + h; w = sum(z, 0); v = 0.1*x"

READ_ELSEWHERE = """
import json, pickle, sys
e = pickle.loads(sys.stdin.buffer.read())
d = e.dataflow
sys.stdout.buffer.write(json.dumps([str(e), e.to_dict(), d.text, d.widest_level, repr(e)]).encode())
"""


@pytest.mark.parametrize("was_read", [False, True])
@pytest.mark.parametrize("text", ["x + 1", PROGRAM])
def test_a_pickled_explanation_says_the_same_in_another_process(text: str, was_read: bool) -> None:
    explained = fl.explain(text, shape=(4,), sizes={"N": 4} if text is PROGRAM else None)
    if was_read:
        assert str(explained) and explained.to_dict() and explained.dataflow.widest_level
    sent = pickle.dumps(explained)
    read = subprocess.run([sys.executable, "-c", READ_ELSEWHERE], input=sent, capture_output=True, check=True)
    d = explained.dataflow
    here = [str(explained), explained.to_dict(), d.text, d.widest_level, repr(explained)]
    assert json.loads(read.stdout) == json.loads(json.dumps(here))


def test_tables_are_rows_after_pickling_too() -> None:
    explained = fl.explain(PROGRAM, shape=(4,), sizes={"N": 4})
    again = pickle.loads(pickle.dumps(explained))  # noqa: S301 - our own bytes
    for table in ("assignment", "best_order", "arena"):
        rows, copied = getattr(explained.memory, table), getattr(again.memory, table)
        assert len(rows) and copied == rows and copied[-1] == rows[-1] and type(copied[0]) is type(rows[0])
        assert copied[1:3] == rows[1:3]
    rows, copied = explained.dataflow.instructions, again.dataflow.instructions
    assert copied == rows and pickle.loads(pickle.dumps(rows)) == rows  # noqa: S301 - our own bytes


def test_what_other_functions_answer_is_pickled_too() -> None:
    kernel = fl.compile(PROGRAM.replace("x: f32[N]; ", ""))
    x = np.ones(3, np.float32)
    kernel(x, x)
    answers = [
        fl.graph("x + 1"),
        fl.plan_program("h = x + 1; y = exp(h)*h", shape=(4,)),
        fl.plan_buffers([(0, 2, 4), (1, 3, 8)]),
        fl.classify(operation="gemm", m=8, n=8, k=8, dtype="bf16", device="h100-sxm"),
        fl.device("h100-sxm"),
        fl.explain("x + 1").traffic,
        kernel(x, x),
    ]
    for answer in answers:
        str(answer), getattr(answer, "to_dict", dict)()
        again = pickle.loads(pickle.dumps(answer))  # noqa: S301 - our own bytes
        assert type(again) is type(answer) and str(again) == str(answer)
    assert pickle.loads(pickle.dumps(kernel)).graph == kernel.graph  # noqa: S301 - our own bytes
