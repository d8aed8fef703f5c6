"""Answers with periods of a column with a time zone say that the periods are those of UTC; other answers do not."""

import datetime as dt

import pyarrow as pa
import pytest

import setwise

ZONE = dt.timezone(dt.timedelta(hours=2))
USERS = 400


@pytest.fixture(scope="module")
def session():
    """Return a session on events at half past midnight on the 1st of a month in a zone that is ahead of UTC."""
    times = [dt.datetime(2026, 1 + user % 4, 1, 0, 30) for user in range(USERS)]
    table = {
        "who": [f"u{user}" for user in range(USERS)],
        "day": pa.array([time.date() for time in times]),
        "at": pa.array([time.replace(tzinfo=ZONE) for time in times], pa.timestamp("us", tz="+02:00")),
        "local": pa.array(times, pa.timestamp("us")),
    }
    with setwise.open(pa.table(table), user="who", name="t") as opened:
        yield opened


@pytest.mark.parametrize("bounds", [{}, {"contributions": 1}])
@pytest.mark.parametrize("column", ["at", "local", "day"])
def test_periods_in_utc_are_named_where_a_column_has_a_time_zone(session, column, bounds):
    by_month = f"DATE_TRUNC('month', {column}) AS m"
    answer = session.sql(
        f"SELECT {by_month}, COUNT(DISTINCT who) AS n FROM t GROUP BY m", epsilon=90, delta=1e-3, **bounds
    )
    first = str(answer.rows[0]["m"])
    assert first.startswith("2025-12" if column == "at" else "2026-01")
    summary, details = answer.answer.summary, answer.answer.left_out
    assert summary.count("Periods of at are those of UTC.") == (column == "at")
    assert details.count("Periods of at are those of UTC.") == (column == "at")


def test_the_sentence_is_said_of_months_of_a_histogram_and_not_of_other_groups(session):
    words = {"contributions": 1, "epsilon": 90, "delta": 1e-3}
    assert "Periods of at are those of UTC." in session.histogram(item="month of at", **words).summary
    assert "UTC" not in session.count(epsilon=90).summary
    mean = session.sql("SELECT AVG(EXTRACT(hour FROM at)) AS h FROM t", epsilon=90)
    assert "UTC" not in mean.answer.summary
