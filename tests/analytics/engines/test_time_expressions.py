"""Functions of dates and times give what DuckDB itself computes, and no date or time makes them fail."""

import random
from datetime import date, datetime, timedelta

import duckdb
import psycopg
import pytest

from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect
from setwise.analytics.engines.row_sql import compile_expression
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter
from tests.analytics.engines.test_row_expressions import expression
from tests.sizes import FULL

COLUMNS = {"d": Kind.DATE, "e": Kind.DATE, "t": Kind.TIMESTAMP, "u": Kind.TIMESTAMP, "z": Kind.INSTANT}
PAIRS = 5000 if FULL else 500
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
DIFFERENCES = tuple(unit for unit in UNITS if unit != "week")  # DuckDB divides the days by 7, and counts no Mondays

# Each expression as an analyst writes it, which DuckDB computes under the same text.
SAME = [
    *(
        f"DATE_DIFF('{unit}', {start}, {end})"
        for unit in DIFFERENCES
        for start, end in (("t", "u"), ("d", "u"), ("u", "e"))
    ),
    *(f"CAST(DATE_TRUNC('{unit}', {x}) AS DATE)" for unit in UNITS for x in ("t", "d", "d + INTERVAL '5 days'")),
    *(
        f"CAST({x} {sign} INTERVAL '{n} {unit}s' AS DATE)"
        for unit in UNITS
        for n in (1, 25, 1300)
        for x, sign in (("t", "+"), ("t", "-"), ("d", "+"), ("d", "-"))
    ),
    *(
        f"EXTRACT({part} FROM t)"
        for part in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "ISODOW", "HOUR", "MINUTE", "SECOND")
    ),
    "ROUND(EXTRACT(EPOCH FROM t), 3)",
    "ROUND(EXTRACT(EPOCH FROM (u - t)), 3)",
    "d - e",
    "d + 40",
    "d - 40",
    "STRFTIME(t, '%Y-%m-%d %H:%M:%S')",
    "STRFTIME(t, '%a %A %b %B %d %j %y %I %p %%')",
    "MONTHNAME(d)",
    "DAYNAME(t)",
    "LAST_DAY(t)",
    "CAST(d AS VARCHAR)",
    "DATE_TRUNC('month', t) < d",
    "t + INTERVAL '36 hours' >= u",
    "CASE WHEN d < e THEN d ELSE e END = LEAST(d, e)",
    "DATE_DIFF('day', LEAST(t, u), GREATEST(t, u))",
    "DATE_DIFF('day', COALESCE(NULLIF(d, e), e), t)",
]
OTHERS = {
    "DATE_DIFF(u, t, DAY)": "DATE_DIFF('day', t, u)",
    "DATE_DIFF('week', t, u)": "TRUNC((CAST(u AS DATE) - CAST(t AS DATE)) / 7)",
    "DATEDIFF('week', t, u)": "DATE_DIFF('day', DATE_TRUNC('week', t), DATE_TRUNC('week', u)) / 7",
    "DATE_DIFF(e, d, WEEK(MONDAY))": "DATE_DIFF('day', DATE_TRUNC('week', d), DATE_TRUNC('week', e)) / 7",
    "DATE_DIFF(e, d, WEEK)": "DATE_DIFF('day', DATE_TRUNC('week', d + 1), DATE_TRUNC('week', e + 1)) / 7",
    "DATEDIFF(e, d)": "e - d",
    "DATEDIFF(month, d, e)": "DATE_DIFF('month', d, e)",
    "TIMESTAMP_DIFF(u, t, HOUR)": "DATE_SUB('hour', t, u)",
    "TIMESTAMPDIFF(DAY, t, u)": "DATE_SUB('day', t, u)",
    "DATEADD(month, -3, d)": "CAST(d - INTERVAL 3 MONTH AS DATE)",
    "ADD_MONTHS(d, 13)": "CAST(d + INTERVAL 13 MONTH AS DATE)",
    "DATE_ADD(d, INTERVAL 3 WEEK)": "d + 21",
    "TIMESTAMP_SUB(t, INTERVAL 5 HOUR) < u": "t - INTERVAL 5 HOUR < u",
    "TO_CHAR(t, 'YYYY-MM-DD HH24:MI:SS')": "STRFTIME(t, '%Y-%m-%d %H:%M:%S')",
    "TO_CHAR(d, 'FMMonth DD, \"the\" DDD')": "STRFTIME(d, '%B %d, the %j')",
    "TO_CHAR(d, 'MON dy')": "UPPER(STRFTIME(d, '%b')) || ' ' || LOWER(STRFTIME(d, '%a'))",
    "TO_CHAR(DATE_TRUNC('quarter', t), 'YYYY-Q')": "YEAR(t) || '-' || QUARTER(t)",
    "DATE_FORMAT(t, '%Y-%m-%d %T')": "STRFTIME(t, '%Y-%m-%d %H:%M:%S')",
    "DATE_FORMAT(t, 'yyyy-MM')": "STRFTIME(t, '%Y-%m')",
    "FORMAT_DATE('%F', d)": "STRFTIME(d, '%Y-%m-%d')",
    "DATE_TRUNC(t, MONTH)": "CAST(DATE_TRUNC('month', t) AS DATE)",
    "DATE_TRUNC(DATE(t), YEAR)": "CAST(DATE_TRUNC('year', t) AS DATE)",
    "DATEPART(year, t)": "YEAR(t)",
}


def schema(dialect):
    return Schema(tuple(Column(name=name, kind=kind, native=dialect.types[kind][0]) for name, kind in COLUMNS.items()))


def compiled(text, dialect):
    return compile_expression(expression(text), schema(dialect), dialect).sql


def test_functions_of_dates_give_what_duckdb_computes(pairs):
    for ours, theirs in [*((text, text) for text in SAME), *OTHERS.items()]:
        sql = compiled(ours, DuckDBDialect())
        both = f"SELECT d, e, t, u, {sql} AS ours, {theirs} AS theirs FROM pairs WHERE ours IS DISTINCT FROM theirs"
        assert pairs.execute(f"{both} LIMIT 3").fetchall() == [], ours


@pytest.fixture
def pairs():
    choose = random.Random(7)

    def moment():
        return datetime(1600, 1, 1) + timedelta(
            days=choose.choice([154_000, 154_400, choose.randrange(200_000)]) + choose.randrange(70),
            microseconds=choose.choice([0, 1, choose.randrange(86_400_000_000)]),
        )

    connection = duckdb.connect()
    connection.execute("CREATE TABLE pairs (d DATE, e DATE, t TIMESTAMP, u TIMESTAMP)")
    rows = [(moment().date(), moment().date(), moment(), moment()) for _ in range(PAIRS)]
    rows.append((date(2024, 2, 29), date(2023, 1, 31), datetime(2024, 12, 31, 23, 59, 59), datetime(2025, 1, 1)))
    connection.executemany("INSERT INTO pairs VALUES (?, ?, ?, ?)", rows)
    yield connection
    connection.close()


HOSTILE = (
    "'infinity'", "'-infinity'", "'4000-01-01 (BC)'", "'0001-01-01'", "'9999-12-31'", "'290000-12-31'", "NULL"
)  # fmt: skip
TOTAL = [*SAME, *OTHERS, "d - INTERVAL '9999 years'", "DATE_DIFF('second', z, t)", "EXTRACT(HOUR FROM z)"]


def test_no_date_makes_duckdb_fail():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE hostile (d DATE, e DATE, t TIMESTAMP, u TIMESTAMP, z TIMESTAMPTZ)")
        for first in HOSTILE:
            for second in HOSTILE:
                connection.execute(f"INSERT INTO hostile VALUES ({first}, {second}, {first}, {second}, {first})")
        check_all(connection, DuckDBDialect())


def test_no_date_makes_postgresql_fail(postgresql_server):
    with psycopg.connect(postgresql_server.schema(), autocommit=True) as connection:
        connection.execute("CREATE TABLE hostile (d date, e date, t timestamp, u timestamp, z timestamptz)")
        dates = [each.replace("(BC)", "BC") for each in HOSTILE]
        for first in dates:
            for second in dates:
                connection.execute(f"INSERT INTO hostile VALUES ({first}, {second}, {first}, {second}, {first})")
        check_all(connection, PostgresqlDialect())


def check_all(connection, dialect):
    for text in TOTAL:
        found = connection.execute(f"SELECT CAST({compiled(text, dialect)} AS TEXT) FROM hostile").fetchall()
        assert len(found) == len(HOSTILE) ** 2, text
        assert not any("BC" in (value or "") or "inf" in (value or "") for (value,) in found), (text, found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TO_CHAR(d, 'J')", "J in TO_CHAR is not supported in SQL here: write YYYY"),
        ("STRFTIME(d, '%G')", "%G in STRFTIME is not supported in SQL here: write %Y"),
        ("TO_CHAR(d, '--')", "names no part of a date"),
        ("TO_CHAR(d, e)", "takes a date or time and a format"),
        ("DATE_DIFF(d, e)", "takes a unit and two dates"),
        ("DATE_DIFF('fortnight', d, e)", "takes a unit and two dates"),
        ("d + INTERVAL '20000 years'", "at most 10,000 years"),
        ("d + INTERVAL '1.5 days'", "whole numbers and units"),
        ("t - u", r"write DATE_DIFF\('minute', x, y\)"),
        ("t + INTERVAL '1 hour'", "TO_CHAR"),
        ("CAST(t AS TEXT)", "TO_CHAR"),
        ("EXTRACT(HOUR FROM DATE_TRUNC('month', t))", "which have no hour"),
        ("DATE_TRUNC('month', 5)", "takes a column of dates or times"),
        ("CAST(LOWER('a') AS DATE)", "takes a column of dates or times"),
    ],
)
def test_refusals_say_what_to_write(text, says):
    with pytest.raises(InvalidParameter, match=says):
        compiled(text, DuckDBDialect())
