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
