"""The statements of docs/sql-statements.csv: each is answered as the list says, or refused by the name it gives."""

import csv
import datetime as dt
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.query import Count, Mean, Quantile, Query
from setwise.analytics.sql.parser import parse_sql
from setwise.errors import InvalidParameter

with (Path(__file__).parents[2] / "docs/sql-statements.csv").open(encoding="utf-8", newline="") as lines:
    ROWS = list(csv.reader(lines))[1:]
ANSWERED, REFUSED = (
    [(text, note) for outcome, text, note in ROWS if outcome == kind] for kind in ("answered", "refused")
)
READERS = 2000


def library():
    """Return a session on the table of loans, with the public table of books beside it."""
    noon = dt.datetime(2026, 1, 1, 12)
    loans = pa.table(
        {
            "reader": [n % READERS for n in range(3 * READERS)],
            "book": [f"{'AB'[n % 2]}{n % 3}" for n in range(3 * READERS)],
            "days": [n % 30 for n in range(3 * READERS)],
            "at": [noon + dt.timedelta(days=n % 90) for n in range(3 * READERS)],
        }
    )
    books = pa.table({"book": ["A0", "A1", "A2", "B0", "B1", "B2"], "genre": ["novel", "poems"] * 3})
    return setwise.open(loans, user="reader", name="loans", public={"books": books})


@pytest.fixture(scope="module")
def session():
    with library() as opened:
        yield opened


@pytest.mark.parametrize(("text", "meaning"), ANSWERED)
def test_answered(session, text, meaning):
    spent = {} if "OPTIONS" in text else {"epsilon": 5.0, "delta": 1e-3}
    bounded = {"contributions": 3} if "GROUP BY" in text and "OPTIONS" not in text else {}
    if text.startswith("EXPLAIN"):
        assert session.explain(text, **spent).uses
        return
    found = session.sql(text, **spent, **bounded)
    assert len(found) > 0
    statement = parse_sql(text, user="reader")
    bins = re.findall(r"`((?:\w+ by |\w+ of )\S+)`", meaning)
    assert all(each in statement.query.groups for each in bins)


@pytest.mark.parametrize(("text", "named"), REFUSED)
def test_refused(session, text, named):
    spent = {} if "OPTIONS" in text else {"epsilon": 5.0, "delta": 1e-3}
    before = session.spent
    with pytest.raises(InvalidParameter) as refused:
        session.sql(text, **spent)
    assert named.lower() in str(refused.value).lower()
    assert "\n" not in str(refused.value)
    assert session.spent == before


def test_the_page_has_them_all():
    assert (len(ANSWERED), len(REFUSED)) == (63, 15)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (
            "SELECT DATE_TRUNC(at, QUARTER) q, month_, AVG(days, contribution_bounds_per_group => (0, 9)) FROM l "
            "GROUP BY q, month_",
            Query(item=("at by quarter", "month_"), statistics=(Mean(column="days", low=0, high=9),)),
        ),
        (
            "SELECT EXTRACT(ISOWEEK FROM at), COUNT(days, contribution_bounds_per_group => (0, 2)) FROM l GROUP BY 1",
            Query(item="week of at", statistics=(Count(most=2, column="days"),)),
        ),
        (
            "SELECT `x by 10` AS a, 10 * FLOOR((x) / 10) AS b, COUNT(DISTINCT who) FROM l GROUP BY a, b",
            Query(item=('"x by 10"', "x by 10"), statistics=(Count(most=1),)),
        ),
        (
            "SELECT APPROX_QUANTILES(x, 3, contribution_bounds_per_row => (0, 1)) FROM l",
            Query(statistics=tuple(Quantile(column="x", low=0, high=1, at=at) for at in (1 / 3, 2 / 3))),
        ),
    ],
)
def test_bins_and_counts_are_those_of_the_words(text, query):
    found = parse_sql(text, user="who").query
    if "APPROX" in text:
        assert [float(each.at) for each in found.statistics] == pytest.approx([1 / 3, 2 / 3])
    else:
        assert found == query


def test_reading_takes_a_few_milliseconds():
    for text, _ in ANSWERED:
        parse_sql(text, user="reader")
    began = time.process_time()
    for text, _ in ANSWERED:
        parse_sql(text, user="reader")
    assert (time.process_time() - began) / len(ANSWERED) < 0.02


def test_the_tests_that_the_promises_name_exist():
    root = Path(__file__).parents[2]
    assert "<!-- site: promises analytics -->" in (root / "docs/sql.md").read_text(encoding="utf-8")
    with (Path(__file__).parent / "promises.csv").open(encoding="utf-8", newline="") as lines:
        named = [name for row in csv.DictReader(lines) for name in re.findall(r"`([^`]+)`", row["held by"])]
    for name in named:
        path, _, test = name.partition("::")
        assert f"def {test}" in (root / path).read_text(encoding="utf-8"), name
    assert len(named) >= 9
