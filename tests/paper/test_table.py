"""Tables survive their files."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.errors import InvalidParameter
from setwise.paper.figure import Table

WORDS = st.text(st.characters(categories=["L"]), min_size=1).filter(
    lambda word: word.lower() not in {"nan", "inf", "infinity"}
)


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), WORDS), min_size=1, max_size=5))
def test_what_is_read_is_what_was_written(rows):
    table = Table.of({"number": [row[0] for row in rows], "word": [row[1] for row in rows]})
    assert Table.read(table.text()) == table
    assert Table.read(table.text()).text() == table.text()
    for kept, (number, _) in zip(table.numbers("number"), rows, strict=True):
        assert kept == pytest.approx(number, rel=1e-11)


def test_an_empty_cell_is_nan():
    table = Table.read(Table.of({"x": [1.0, 2.0], "y": [math.nan, 3.0]}).text())
    assert math.isnan(table.numbers("y")[0])
    assert table.at({"x": 2.0}, "y") == 3.0


def test_columns_have_one_length():
    with pytest.raises(InvalidParameter):
        Table.of({"x": [1.0], "y": [1.0, 2.0]})


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(InvalidParameter, match="'z'"):
        Table.of({"x": [1.0]}).cells("z")


def test_at_needs_one_row():
    table = Table.of({"x": [1.0, 1.0], "y": [2.0, 3.0]})
    with pytest.raises(ValueError, match="too many values"):
        table.at({"x": 1.0}, "y")
