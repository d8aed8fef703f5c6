"""GROUP BY gives rows without a key a group of their own, whose key is NULL, for every type of column."""

import datetime as dt

import pyarrow as pa
import pytest

from setwise.analytics.session import Session
from setwise.mechanisms.randomness import SystemRandomness
from tests.analytics.engines.test_row_expressions import derived

ROWS = 900
CYCLE = 3
USERS = ROWS // CYCLE
"""Each user has one row of each key, so that every group has this many rows."""

DAYS = (dt.date(2024, 1, 1), dt.date(2024, 2, 3), None)
TIMES = (dt.datetime(2024, 1, 1, 3), dt.datetime(2024, 2, 3, 4), None)


def column(values, kind=None):
    return pa.array([values[row % CYCLE] for row in range(ROWS)], kind)


@pytest.fixture
def session(backend):
    table = pa.table(
        {
            "u": [row // CYCLE for row in range(ROWS)],
            "word": column(("a", "b", None)),
            "whole": column((1, 2, None), pa.int64()),
            "small": column((1, 2, None), pa.int32()),
            "yes": column((True, False, None)),
            "day": column(DAYS),
            "at": column(TIMES, pa.timestamp("us")),
            "number": column((1.5, 20.5, None)),
        }
    )
    with backend.engine(table) as engine:
        yield Session(
            engine,
            user="u",
            name="t",
            randomness=SystemRandomness(),
            open_joined=lambda _name, _joins, derivation: derived(backend, table, derivation),
        )


KEYS = {
    "word": ("a", "b", None),
    "whole": (1, 2, None),
    "small": (1, 2, None),
    "yes": ("true", "false", None),
    "day": ("2024-01-01", "2024-02-03", None),
    "DATE_TRUNC('month', at)": ("2024-01-01", "2024-02-01", None),
    "DATE_TRUNC('hour', at)": ("2024-01-01 03:00:00", "2024-02-03 04:00:00", None),
    "EXTRACT(MONTH FROM day)": (1, 2, None),
    "FLOOR(number / 10) * 10": (0, 20, None),
    "UPPER(word)": ("A", "B", None),
    "whole % 3": (1, 2, None),
    "CASE WHEN whole = 1 THEN 'one' WHEN whole = 2 THEN 'two' END": ("one", "two", None),
}


def counts(session, keys, after=""):
    columns = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
    places = ", ".join(str(place + 1) for place in range(len(keys)))
    statement = f"SELECT {columns}, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM t GROUP BY {places}"
    found = session.sql(statement + after, epsilon=40, delta=1e-3, contributions=3)
    assert not found.problem
    assert not [note for note in found.notes if "null" in note]
    return {tuple(row[f"k{place}"] for place in range(len(keys))): row["n"]["value"] for row in found}


def test_rows_without_a_key_are_a_group(session):
    """Noise moves a count of 300 by 10 or more with a chance far below one in a million at epsilon 40."""
    for key, labels in KEYS.items():
        found = counts(session, [key])
        assert set(found) == {(label,) for label in labels}, key
        assert all(abs(count - USERS) < 10 for count in found.values()), key


def test_keys_of_several_columns_may_be_null_one_by_one(session):
    """The text and the number are null in different rows; a key with a label for null stays as it is."""
    second = "CASE WHEN word = 'b' OR word IS NULL THEN 7 END"
    assert set(counts(session, ["word", second])) == {("a", None), ("b", 7), (None, 7)}
    assert set(counts(session, ["COALESCE(word, 'none')", "whole"])) == {("a", 1), ("b", 2), ("none", None)}


def test_what_is_computed_from_released_rows_sees_null(session):
    assert set(counts(session, ["word"], " HAVING word IS NULL")) == {(None,)}
    assert set(counts(session, ["whole"], " HAVING whole IS NOT NULL")) == {(1,), (2,)}
    assert list(counts(session, ["whole"], " ORDER BY k0 DESC NULLS FIRST")) == [(None,), (2,), (1,)]
    assert list(counts(session, ["DATE_TRUNC('month', at)"], " ORDER BY 1 NULLS FIRST LIMIT 1")) == [(None,)]
