"""Rows that are made when they are asked for."""

from collections.abc import Sequence

import fuseline as fl
from fuseline.api.rows import Rows


def test_rows_behave_like_the_tuple_of_them() -> None:
    made = Rows(5, lambda i: i * i)
    whole = (0, 1, 4, 9, 16)
    assert isinstance(made, Sequence)
    assert (len(made), tuple(made), made[1:-1], made[-1], made[::2]) == (5, whole, whole[1:-1], 16, whole[::2])
    assert made == whole and made == Rows(5, whole.__getitem__) and hash(made) == hash(whole)
    assert made != whole[:4] and made != Rows(5, lambda i: i) and 16 in made and not Rows(0, whole.__getitem__)


def test_a_large_program_makes_no_row_until_one_is_read() -> None:
    asked: list[int] = []

    def row(number: int) -> int:
        asked.append(number)
        return number

    rows = Rows(1_000_000, row)
    assert asked == [] and rows[999_999] == 999_999 and rows[:2] == (0, 1)
    assert asked == [999_999, 0, 1]


def test_the_tables_of_an_explanation_agree_with_its_json() -> None:
    e = fl.explain("h = x + b; y = h*tanh(h); out = y + r", shape=(8, 16), dtype="f32")
    found = e.to_dict()
    assert [i.to_dict() for i in e.dataflow.instructions] == found["instructions"]
    assert [p.to_dict() for p in e.memory.assignment] == found["memory"]["assignment"]
    assert [v.name for v in e.memory.arena] == found["memory"]["arena"]["order"]
    assert e.memory.overwriting == sum(p.in_place for p in e.memory.assignment)
