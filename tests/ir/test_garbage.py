"""Collections are put off while a graph is built, and come back however the building ends."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from fuseline.errors import FormulaError
from fuseline.frontends.formula import parse_formula
from fuseline.frontends.trace import trace
from fuseline.ir.garbage import collection_paused


def test_collections_are_paused_inside_and_come_back_outside() -> None:
    assert gc.isenabled()
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_come_back_after_an_error() -> None:
    with pytest.raises(FormulaError):
        parse_formula("x +")
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: x * (1 // 0))
    assert gc.isenabled()


def test_collections_that_were_off_stay_off() -> None:
    gc.disable()
    try:
        parse_formula("x + 1")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_that_build_at_once_leave_collections_on() -> None:
    def work() -> None:
        for _ in range(300):
            parse_formula("x + 1")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert gc.isenabled()


def test_a_child_forked_while_a_graph_is_built_collects() -> None:
    with collection_paused():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert gc.isenabled()
