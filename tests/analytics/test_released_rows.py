"""Statements of tutorials and BI tools whose outer part computes with released rows: dates, windows, subqueries."""

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.sql.parser import parse_sql
from setwise.errors import InvalidParameter

TABLE = """
    SELECT r AS reader, ['novel', 'comic'][1 + r % 2] AS book, CASE WHEN r % 4 = 0 THEN NULL ELSE 'club' END AS club,
           TIMESTAMP '2026-07-03 10:30:00' + INTERVAL (r % 3) MONTH AS at, 1 + r % 5 AS days
    FROM range(3000) t(r)
"""
"""Every reader has one loan; a quarter of the readers are in no club."""


@pytest.fixture(scope="module")
def loans():
    table = duckdb.sql(TABLE).to_arrow_table()
    with setwise.open(pa.table(table), user="reader", name="loans") as session:
        yield session


def answer(session, text):
    """Return the rows, with numbers in place of numbers with intervals, at an epsilon that leaves hardly any noise."""
    rows = session.sql(text, epsilon=100).rows
    return [{name: cell["value"] if isinstance(cell, dict) else cell for name, cell in row.items()} for row in rows]


MONTH_LATER = {f"2026-{month}-01 00:00:00" for month in ("08", "09", "10")}

MONTHS = "SELECT DATE_TRUNC('month', at) AS m, COUNT(DISTINCT reader) AS n FROM loans GROUP BY 1"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (MONTHS, {"2026-07-01", "2026-08-01", "2026-09-01"}),
        (f"SELECT m, n FROM ({MONTHS}) t WHERE m >= '2026-08-01'", {"2026-08-01", "2026-09-01"}),
        (f"{MONTHS} HAVING DATE_TRUNC('month', at) > DATE '2026-08-01'", {"2026-09-01"}),
        (f"WITH t AS ({MONTHS}) SELECT m + INTERVAL 1 MONTH AS m, n FROM t", MONTH_LATER),
        (f"SELECT CAST(m AS DATE) AS m, n FROM ({MONTHS}) t", {"2026-07-01", "2026-08-01", "2026-09-01"}),
        (f"SELECT EXTRACT(MONTH FROM m) AS m, n FROM ({MONTHS}) t", {7, 8, 9}),
        (MONTHS.replace("month", "quarter"), {"2026-07-01"}),
        (MONTHS.replace("month", "year"), {"2026-01-01"}),
        (f"{MONTHS.replace('month', 'hour')} ORDER BY 1", {f"2026-{m}-03 10:00:00" for m in ("07", "08", "09")}),
    ],
)  # fmt: skip
def test_periods_are_dates(loans, text, keys):
    assert {row["m"] for row in answer(loans, text)} == keys


def test_a_named_window_is_that_window(loans):
    text = (
        "SELECT DATE_TRUNC('month', at) AS m, COUNT(DISTINCT reader) AS n, LAG(COUNT(DISTINCT reader)) OVER w AS before"
        " FROM loans GROUP BY 1 WINDOW w AS (ORDER BY DATE_TRUNC('month', at)) ORDER BY m"
    )
    named = answer(loans, text)
    assert [row["before"] for row in named] == [None, *(row["n"] for row in named[:-1])]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT book, 100.0 * COUNT(DISTINCT reader) / (SELECT COUNT(DISTINCT reader) FROM loans) AS share "
        "FROM loans GROUP BY book",
        "SELECT book, 50.0 AS share FROM loans GROUP BY book "
        "HAVING COUNT(DISTINCT reader) > (SELECT AVG(days) FROM loans)",
    ],
)
def test_a_subquery_beside_aggregates_is_released_with_them(loans, text):
    assert len(parse_sql(text, user="reader").cores) == 2
    assert [row["share"] for row in answer(loans, text)] == pytest.approx([50, 50], abs=1)


def test_a_subquery_beside_aggregates_shows_no_rows_of_single_users():
    with pytest.raises(InvalidParameter, match="must be aggregated itself"):
        parse_sql("SELECT book, (SELECT days FROM loans) AS d, COUNT(*) FROM loans GROUP BY book", user="reader")


def test_order_by_names_a_result_column_of_a_join(loans):
    text = (
        "WITH months AS (SELECT DISTINCT reader, DATE_TRUNC(at, MONTH) AS month FROM loans) "
        "SELECT now.month, COUNT(DISTINCT before.reader) AS n FROM months AS now "
        "JOIN months AS before ON now.reader = before.reader AND before.month <= now.month GROUP BY 1 ORDER BY month"
    )
    assert [row["month"] for row in answer(loans, text)] == ["2026-07-01", "2026-08-01", "2026-09-01"]


def test_rows_and_users_of_one_condition_stand_in_one_statement(loans):
    text = (
        "SELECT COUNTIF(book = 'comic') AS comics, COUNT(DISTINCT IF(book = 'comic', reader, NULL)) AS readers, "
        "COUNT(DISTINCT reader) AS everybody FROM loans"
    )
    (row,) = answer(loans, text)
    assert row == pytest.approx({"comics": 1500, "readers": 1500, "everybody": 3000}, abs=5)


def test_rows_with_a_null_key_are_a_group_unless_the_keys_are_public(loans):
    text = "SELECT club, COUNT(*) AS n FROM loans GROUP BY club"
    told = loans.sql(text, epsilon=5)
    assert {row["club"] for row in told} == {"club", None}
    assert not any("is null" in note for note in told.notes)
    public = loans.sql(text, epsilon=5, domain=["club"])
    assert {row["club"] for row in public} == {"club"}
    assert any("Rows in which club is null are in no group" in note for note in public.notes)
    for named in ("COALESCE(club, 'none')", "CASE WHEN club = 'club' THEN 'in' ELSE 'out' END"):
        counted = loans.sql(f"SELECT {named} AS c, COUNT(*) AS n FROM loans GROUP BY 1", epsilon=5)
        assert not any("is null" in note for note in counted.notes)


def test_a_proposal_keeps_distinct():
    text = "SELECT country, STRING_AGG(DISTINCT book), COUNT(DISTINCT book) AS n FROM loans GROUP BY country"
    with pytest.raises(InvalidParameter, match=r"write: .*COUNT\(DISTINCT book\)"):
        parse_sql(text, user="reader")


def test_a_pivot_is_refused_by_its_name_and_nothing_is_logged(caplog):
    text = "SELECT * FROM (SELECT book, days FROM loans) PIVOT (SUM(days) FOR book IN ('novel', 'comic')) AS p"
    with pytest.raises(InvalidParameter, match=r"PIVOT is not supported .* SUM\(CASE WHEN"):
        parse_sql(text, user="reader")
    assert not caplog.records


FORMATTED = {
    "TO_CHAR(m, 'YYYY-MM')": "STRFTIME(m, '%Y-%m')",
    "TO_CHAR(m, 'FMMonth DD, YY')": "STRFTIME(m, '%B %d, %y')",
    "TO_CHAR(m, 'DY HH24:MI:SS \"Q\"Q')": "UPPER(STRFTIME(m, '%a')) || STRFTIME(m, ' %H:%M:%S Q') || QUARTER(m)",
    "DATE_FORMAT(m, '%M %e, %Y')": "STRFTIME(m, '%B %-d, %Y')",
    "DATE_FORMAT(m, 'yyyy MMM d')": "STRFTIME(m, '%Y %b %-d')",
    "FORMAT_DATE('%A %j %V', m)": "STRFTIME(m, '%A %j %V')",
    "STRFTIME('%d/%m', m)": "STRFTIME(m, '%d/%m')",
    "MONTHNAME(m) || LAST_DAY(m)": "STRFTIME(m, '%B') || LAST_DAY(m)",
}
"""Texts of dates in the formats of several dialects, and DuckDB's own expression for the same text."""

MONTHS = "SELECT DATE_TRUNC('MONTH', at) AS m, COUNT(*) AS n FROM loans GROUP BY 1"


def test_dates_of_released_rows_are_written_in_the_formats_of_each_dialect(loans):
    texts = ", ".join(f"{text} AS x{place}" for place, text in enumerate(FORMATTED))
    found = loans.sql(f"SELECT m, {texts} FROM ({MONTHS}) AS t", epsilon=5)
    assert not found.problem
    assert len(found) == 3
    with duckdb.connect() as connection:
        for row in found:
            expected = ", ".join(FORMATTED.values())
            cells = connection.execute(f"SELECT {expected} FROM (SELECT DATE '{row['m']}' AS m)").fetchone()
            assert [row[f"x{place}"] for place in range(len(FORMATTED))] == list(map(str, cells))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TO_CHAR(m, 'J')", "J in TO_CHAR"),
        ("TO_CHAR(n, '999,999')", "names no part of a date"),
        ("DATE_FORMAT(m, '%U')", "%U in DATE_FORMAT"),
        ("FORMAT_DATE(m, n)", "takes a date or time and a format"),
    ],
)
def test_an_unknown_format_is_refused_by_name_with_a_statement_that_runs(loans, text, says):
    with pytest.raises(InvalidParameter, match=says) as refused:
        loans.sql(f"SELECT {text} AS x, n FROM ({MONTHS}) AS t", epsilon=5)
    corrected = str(refused.value).rpartition("; write: ")[2]
    assert "AS x, n FROM (" in corrected
    assert len(loans.sql(corrected, epsilon=5)) == 3
