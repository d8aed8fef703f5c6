"""Months in a column of text are listed in the order of the calendar, and other names by their counts."""

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.present.order import month_numbers

SHORT = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@pytest.mark.parametrize(
    ("column", "months"),
    [
        ("at", [f"{year}-{month}" for year in (2025, 2026) for month in range(1, 13)]),
        ("at", SHORT),
        ("at", ["january", "february", "march", "december"]),
        ("at", [str(month) for month in range(1, 13)]),
        ("birth_month", ["2", "9", "10", "11"]),
    ],
)
def test_months_are_listed_as_in_the_calendar(column: str, months: list[str]):
    labels = [month for place, month in enumerate(months) for _ in range(40 + 5 * ((place * 7) % 11))]
    table = pa.table({"who": range(len(labels)), column: labels})
    with setwise.open(table, user="who") as session:
        answer = session.histogram(item=column, contributions=1, epsilon=50.0, delta=1e-6)
    assert list(answer.labels) == months


@pytest.mark.parametrize(
    ("keys", "is_sorted"),
    [
        (range(1, 13), True),
        ([0, 6, 12, 23], True),
        ([1, 2, 3, 4, 5], True),
        ([2019, 2020, 2026], True),
        ([3, 17, 802], False),
        ([12, 2026], False),
    ],
)
def test_small_integers_and_years_stand_in_their_own_order(keys: list[int], is_sorted: bool):
    """The months of a column of integers came in the order of their counts: 3, 1, 7, 4."""
    labels = [key for place, key in enumerate(keys) for _ in range(40 + 30 * ((place * 7) % 11))]
    table = pa.table({"who": range(len(labels)), "key": labels})
    with setwise.open(table, user="who", name="rows") as session:
        answer = session.histogram(item="key", contributions=1, epsilon=50.0, delta=1e-6)
        rows = session.sql("SELECT key, COUNT(DISTINCT who) AS n FROM rows GROUP BY key", epsilon=50, delta=1e-6).rows
    by_count = [item.label for item in sorted(answer.items, key=lambda item: -item.count)]
    assert list(answer.labels) == [row["key"] for row in rows] == (list(keys) if is_sorted else by_count)
    assert list(keys) != by_count


@pytest.mark.parametrize(
    "labels", [["9", "10"], ["Jan", "Peter"], ["2026-1", "other"], ["May"], [3, 2], [], ["2026-01-05", "2026-01-06"]]
)
def test_other_labels_are_not_taken_for_months(labels: list[object]):
    assert month_numbers("at", labels) == {}


def test_labels_for_null_come_last():
    assert month_numbers("at", [None, "Feb", "Jan"]) == {"Feb": 2.0, "Jan": 1.0}


def test_answers_without_groups_stay_as_they_are():
    """Sorting of months once failed on an answer whose only item is no group, after the charge."""
    table = pa.table({"who": range(100), "minutes": [5] * 100})
    with setwise.open(table, user="who") as session:
        assert len(session.count(epsilon=1.0)) == 1
        assert len(session.sum(value="minutes", clip=9, epsilon=1.0)) == 1
        assert len(session.histogram(item="minutes", contributions=1, epsilon=0.01, delta=1e-6)) == 0
        assert len(session.sql("SELECT COUNT(*) AS n, SUM(minutes) AS total FROM source", epsilon=1.0).rows) == 1
