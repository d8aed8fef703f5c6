"""Row expressions mean the same on every engine and in plain Python, and no row makes one fail."""

import math
from calendar import monthrange
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest
from sqlglot import exp

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.tables import ArrowTable, DuckDBDerivedTable
from setwise.analytics.engines.postgresql.engine import PostgresqlEngine
from setwise.analytics.engines.row_sql import compile_expression
from setwise.analytics.rows.derivation import (
    AddColumns,
    Derivation,
    GroupByUser,
    KeepRows,
    NamedExpression,
    UserAggregate,
    UserFunction,
)
from setwise.analytics.rows.expression import ColumnValue
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.sql.row_values import RowReader
from setwise.analytics.sql.syntax import parse
from setwise.errors import InvalidParameter
from tests.analytics.engines.test_filters import TABLE

NOTHING = "nothing"
NO_NUMBER = -999_999
READER = RowReader(date(2024, 3, 1))


def expression(text):
    tree, _, _ = parse(f"SELECT {text} FROM t")
    (node,) = tree.expressions
    return READER.read(node.this if isinstance(node, exp.Alias) else node)


def derived(backend, table, derivation):
    """An engine on a table that is derived where the table lives."""
    match backend.name:
        case "delta" | "iceberg":
            return DuckDBEngine(DuckDBDerivedTable(backend.store(table), derivation))
        case "duckdb":
            return DuckDBEngine(DuckDBDerivedTable(ArrowTable(table), derivation))
        case "postgresql":
            return PostgresqlEngine(backend.url, backend.store(table), derivation=derivation)
        case "clickhouse":
            from setwise.analytics.engines.clickhouse.engine import ClickHouseEngine

            return ClickHouseEngine(backend.url, backend.store(table), derivation=derivation)
        case _:
            from setwise.analytics.engines.spark.engine import SparkEngine
            from setwise.analytics.engines.spark.tables import derived_table

            plain = backend.engine(table)._table
            return SparkEngine(derived_table(backend.session, plain, derivation))


def number(value):
    """A number as expressions compute with it."""
    if value is None or math.isnan(value) or abs(value) >= 1e150:
        return None
    return float(value)


def whole(value):
    return None if value is None or abs(value) >= 2**53 else int(value)


def small(value):
    """An integer as arithmetic takes it."""
    return None if value is None or abs(value) >= 2**53 else value


def rounded(value):
    return None if value is None else whole(math.copysign(math.floor(abs(value) + 0.5), value))


def both(first, second, compute):
    return None if first is None or second is None else compute(first, second)


def ascii_lower(text):
    return None if text is None else "".join(c.lower() if "A" <= c <= "Z" else c for c in text)


def divided(first, second):
    return None if second == 0 else number(first / second)


NUMBERS = {
    "whole + 1": lambda r: whole(both(small(r["whole"]), 1, lambda a, b: a + b)),
    "small * 2 - 1": lambda r: whole(both(small(r["small"]), 2, lambda a, b: a * b - 1)),
    "small % 3": lambda r: None if r["small"] is None else int(math.fmod(r["small"], 3)),
    "MOD(small, 0)": lambda r: None,
    "CAST(real / small AS INT64)": lambda r: rounded(both(number(r["real"]), small(r["small"]), divided)),
    "CAST(real * real * 1000 AS INT64)": lambda r: rounded(
        both(both(number(r["real"]), number(r["real"]), lambda a, b: number(a * b)), 1000, lambda a, b: number(a * b))
    ),
    "CAST(real - 0.5 AS INT64)": lambda r: rounded(both(number(r["real"]), 0.5, lambda a, b: number(a - b))),
    "ABS(small)": lambda r: None if r["small"] is None else abs(r["small"]),
    "FLOOR(real)": lambda r: None if number(r["real"]) is None else whole(math.floor(number(r["real"]))),
    "CEIL(money)": lambda r: None if r["money"] is None else math.ceil(r["money"]),
    "LEAST(small, 3, whole)": lambda r: None if None in (r["small"], r["whole"]) else min(r["small"], 3, r["whole"]),
    "GREATEST(small, 3)": lambda r: None if r["small"] is None else max(r["small"], 3),
    "COALESCE(small, -5)": lambda r: -5 if r["small"] is None else r["small"],
    "NULLIF(small, 3)": lambda r: None if r["small"] == 3 else r["small"],
    "LENGTH(text)": lambda r: None if r["text"] is None else len(r["text"]),
    "CASE WHEN text = 'a' THEN 1 WHEN small > 4 THEN 2 ELSE 0 END": lambda r: (
        1 if r["text"] == "a" else 2 if r["small"] is not None and r["small"] > 4 else 0
    ),
    "IF(flag, 1, NULL)": lambda r: 1 if r["flag"] else None,
    "EXTRACT(YEAR FROM date)": lambda r: None if r["date"] is None else r["date"].year,
    "EXTRACT(DOW FROM date)": lambda r: None if r["date"] is None else r["date"].isoweekday() % 7,
    "EXTRACT(DAYOFWEEK FROM moment)": lambda r: None if r["moment"] is None else r["moment"].isoweekday() % 7 + 1,
    "EXTRACT(HOUR FROM instant)": lambda r: None if r["instant"] is None else r["instant"].hour,
    "MONTH(moment)": lambda r: None if r["moment"] is None else r["moment"].month,
}

TEXTS = {
    "LOWER(text)": lambda r: ascii_lower(r["text"]),
    "UPPER(TRIM(text))": lambda r: (
        None if r["text"] is None else "".join(c.upper() if "a" <= c <= "z" else c for c in r["text"].strip(" "))
    ),
    "SUBSTR(text, 2, 2)": lambda r: None if r["text"] is None else r["text"][1:3],
    "LEFT(text, 1)": lambda r: None if r["text"] is None else r["text"][:1],
    "COALESCE(text, 'it''s')": lambda r: "it's" if r["text"] is None else r["text"],
    "CASE small WHEN 1 THEN 'one' WHEN 2 THEN 'two' END": lambda r: {1: "one", 2: "two"}.get(r["small"]),
    "small < whole": lambda r: None if None in (r["small"], r["whole"]) else str(r["small"] < r["whole"]).lower(),
    "real > 1": lambda r: None if number(r["real"]) is None else str(number(r["real"]) > 1).lower(),
    "text ILIKE 'A%'": lambda r: None if r["text"] is None else str(ascii_lower(r["text"]).startswith("a")).lower(),
    "text || '_%b' LIKE '%\\_\\%_'": lambda r: None if r["text"] is None else "true",
    "text || '\\z' LIKE '%\\_z'": lambda r: None if r["text"] is None else str(r["text"].endswith("_z")).lower(),
    "text || '\\x' LIKE '%\\%' ESCAPE '!'": lambda r: None if r["text"] is None else "true",
    "text || '\\x' LIKE '%\\_' ESCAPE '!'": lambda r: None if r["text"] is None else "true",
    "text || '.x' LIKE '%\\\\\\\\%' OR text || '%x' LIKE '%\\%x'": lambda r: None if r["text"] is None else "true",
    "NOT (text IN ('a', 'b')) AND flag": lambda r: (
        "false"
        if r["flag"] is False or r["text"] in ("a", "b")
        else None
        if r["text"] is None or r["flag"] is None
        else "true"
    ),
    "small IS NULL OR whole IS NULL": lambda r: str(r["small"] is None or r["whole"] is None).lower(),
    "date >= DATE_SUB(CURRENT_DATE(), INTERVAL 8 DAY)": lambda r: (
        None if r["date"] is None else str(r["date"] >= date(2024, 2, 22)).lower()
    ),
    "DATE_TRUNC('month', moment)": lambda r: None if r["moment"] is None else str(r["moment"].date().replace(day=1)),
    "DATE_TRUNC(instant, WEEK)": lambda r: None if r["instant"] is None else "2023-12-31",
    "DATE_TRUNC('week', instant)": lambda r: None if r["instant"] is None else "2024-01-01",
    "DATE(moment)": lambda r: None if r["moment"] is None else str(r["moment"].date()),
    "text || '-' || text": lambda r: None if r["text"] is None else f"{r['text']}-{r['text']}",
    "CONCAT('x', row)": lambda r: None if r["row"] is None else f"x{r['row']}",
    "LEAST(text, 'b')": lambda r: None if r["text"] is None else min(r["text"], "b"),
}


def moved(value, months=0, **time):
    """A date or time some months and then some days or hours later, or null if there is no such time."""
    if value is None:
        return None
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    try:
        later = value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))
        return later + timedelta(**time)
    except (ValueError, OverflowError):
        return None


def said(value, pattern):
    return None if value is None else f"{value:{pattern}}"


def iso(value):
    """A date as text, with four digits for the year on every platform."""
    return None if value is None else value.isoformat()[:10]


def months(value):
    return value.year * 12 + value.month - 1


def between(row, first, second, count):
    start, end = row[first], row[second]
    if start is None or end is None:
        return None
    plain = [
        datetime.combine(each, datetime.min.time()) if type(each) is date else each.replace(tzinfo=None)
        for each in (start, end)
    ]
    return count(*plain)


def starts(seconds):
    return lambda a, b: (
        (b - datetime.min) // timedelta(seconds=seconds) - (a - datetime.min) // timedelta(seconds=seconds)
    )


def truncated(a, b):
    """The quotient of two integers, rounded towards 0."""
    return abs(a) // b if a >= 0 else -(abs(a) // b)


def whole_months(a, b):
    count = months(b) - months(a)
    early, late = ((each.day, each.time()) for each in (a, b))
    return count - 1 if count > 0 and late < early else count + 1 if count < 0 and late > early else count


DATE_NUMBERS = {
    "EXTRACT(YEAR FROM DATE_TRUNC('quarter', date))": lambda r: None if r["date"] is None else r["date"].year,
    "EXTRACT(MINUTE FROM instant + INTERVAL '90 minutes')": lambda r: None if r["instant"] is None else 30,
    "EXTRACT(SECOND FROM moment - INTERVAL '1 second')": lambda r: None if r["moment"] is None else 59,
    "EXTRACT(DOY FROM date)": lambda r: None if r["date"] is None else r["date"].timetuple().tm_yday,
    "FLOOR(EXTRACT(EPOCH FROM moment) / 86400) * 86400": lambda r: (
        None if r["moment"] is None else (r["moment"] - datetime(1970, 1, 1)).days * 86400
    ),
    "CAST(EXTRACT(EPOCH FROM (moment - instant)) AS INT64)": lambda r: between(
        r, "instant", "moment", lambda a, b: rounded((b - a).total_seconds())
    ),
    "DATEDIFF('day', date, moment)": lambda r: between(r, "date", "moment", lambda a, b: b.toordinal() - a.toordinal()),
    "DATE_DIFF(date, moment, WEEK)": lambda r: between(
        r, "date", "moment", lambda a, b: a.toordinal() // 7 - b.toordinal() // 7
    ),
    "DATE_DIFF('week', date, instant)": lambda r: between(
        r, "date", "instant", lambda a, b: truncated(b.toordinal() - a.toordinal(), 7)
    ),
    "DATEDIFF('week', date, instant)": lambda r: between(
        r, "date", "instant", lambda a, b: (b.toordinal() - 1) // 7 - (a.toordinal() - 1) // 7
    ),
    "DATEDIFF(month, date, moment)": lambda r: between(r, "date", "moment", lambda a, b: months(b) - months(a)),
    "DATE_DIFF('quarter', moment, date)": lambda r: between(
        r, "moment", "date", lambda a, b: months(b) // 3 - months(a) // 3
    ),
    "DATE_DIFF('year', moment, date)": lambda r: between(r, "moment", "date", lambda a, b: b.year - a.year),
    "DATE_DIFF('hour', moment, instant)": lambda r: between(r, "moment", "instant", starts(3600)),
    "DATE_DIFF(moment, instant, MINUTE)": lambda r: between(r, "instant", "moment", starts(60)),
    "DATEDIFF('second', moment, date)": lambda r: between(r, "moment", "date", starts(1)),
    "DATEDIFF(moment, date)": lambda r: between(r, "date", "moment", lambda a, b: b.toordinal() - a.toordinal()),
    "TIMESTAMP_DIFF(moment, instant, HOUR)": lambda r: between(
        r, "instant", "moment", lambda a, b: truncated((b - a) // timedelta(microseconds=1), 3_600_000_000)
    ),
    "TIMESTAMPDIFF(MONTH, date, moment)": lambda r: between(r, "date", "moment", whole_months),
    "TIMESTAMPDIFF(YEAR, moment, instant)": lambda r: between(
        r, "moment", "instant", lambda a, b: truncated(whole_months(a, b), 12)
    ),
    "date - DATE(moment)": lambda r: between(r, "moment", "date", lambda a, b: b.toordinal() - a.toordinal()),
    "CASE WHEN DATE_TRUNC('month', moment) < date THEN 1 ELSE 0 END": lambda r: (
        0 if None in (r["moment"], r["date"]) else int(r["moment"].date().replace(day=1) < r["date"])
    ),
    "CASE WHEN COALESCE(moment, instant) >= '2024-01-01T00:00:00.000003Z' THEN 1 ELSE 0 END": lambda r: (
        0 if r["moment"] is None else int(r["moment"] >= datetime(2024, 1, 1, 0, 0, 0, 3))
    ),
}

DATE_TEXTS = {
    "CAST(DATE_TRUNC('quarter', date) AS TEXT)": lambda r: (
        None if r["date"] is None else iso(r["date"].replace(month=(r["date"].month - 1) // 3 * 3 + 1, day=1))
    ),
    "DATE_TRUNC('year', CAST(moment AS DATE))": lambda r: (
        None if r["moment"] is None else iso(r["moment"].replace(month=1, day=1))
    ),
    "DATE(DATE_TRUNC('hour', instant))": lambda r: iso(r["instant"]),
    "DATE_TRUNC(date, WEEK)": lambda r: (
        None if r["date"] in (None, date(1, 1, 1)) else iso(r["date"] - timedelta(days=r["date"].isoweekday() % 7))
    ),
    "date + INTERVAL '1 month'": lambda r: iso(moved(r["date"], 1)),
    "date - INTERVAL '11 months'": lambda r: iso(moved(r["date"], -11)),
    "DATE_ADD(date, INTERVAL 9998 YEAR)": lambda r: iso(moved(r["date"], 9998 * 12)),
    "DATE_SUB(date, INTERVAL 2 DAY)": lambda r: iso(moved(r["date"], days=-2)),
    "DATEADD(week, 1, date)": lambda r: iso(moved(r["date"], days=7)),
    "date + whole": lambda r: (
        None if None in (r["date"], r["whole"]) or abs(r["whole"]) > 10**6 else iso(moved(r["date"], days=r["whole"]))
    ),
    "date - whole": lambda r: (
        None if None in (r["date"], r["whole"]) or abs(r["whole"]) > 10**6 else iso(moved(r["date"], days=-r["whole"]))
    ),
    "DATE(instant - INTERVAL '5 hours')": lambda r: iso(moved(r["instant"], hours=-5)),
    "DATE_TRUNC('week', moment + INTERVAL '1 day') + INTERVAL '-1 day'": lambda r: (
        None if r["moment"] is None else iso(r["moment"].date() - timedelta(days=r["moment"].isoweekday() % 7))
    ),
    "LAST_DAY(date)": lambda r: (
        None
        if r["date"] is None
        else None
        if r["date"] == date(9999, 12, 31)
        else iso(moved(r["date"].replace(day=1), 1, days=-1))
    ),
    "CAST(flag AS TEXT)": lambda r: None if r["flag"] is None else str(r["flag"]).lower(),
    "CAST(whole AS VARCHAR)": lambda r: None if r["whole"] is None else str(r["whole"]),
    "text::TEXT": lambda r: r["text"],
    "TO_CHAR(date, 'YYYY-MM')": lambda r: None if r["date"] is None else iso(r["date"])[:7],
    "STRFTIME('%Y/%m', date)": lambda r: None if r["date"] is None else iso(r["date"])[:7].replace("-", "/"),
    "DATE_FORMAT(moment, '%M %e, %Y %H:%i:%s')": lambda r: said(r["moment"], "%B 1, %Y %H:%M:%S"),
    "DATE_FORMAT(moment, 'yyyy-MM-dd HH:mm')": lambda r: said(r["moment"], "%Y-%m-%d %H:%M"),
    "FORMAT_DATE('%a %d %b %y, %j', date)": lambda r: said(r["date"], "%a %d %b %y, %j"),
    "TO_CHAR(instant, 'FMDay, Mon DD HH12:MI AM MONTH dy')": lambda r: (
        None
        if r["instant"] is None
        else f"{r['instant']:%A, %b %d %I:%M %p} {r['instant']:%B}".rsplit(" ", 1)[0]
        + " JANUARY "
        + f"{r['instant']:%a}".lower()
    ),
    "MONTHNAME(date)": lambda r: said(r["date"], "%B"),
    "DAYNAME(moment)": lambda r: said(r["moment"], "%A"),
}


@pytest.mark.parametrize(
    ("cases", "missing"),
    [(NUMBERS, NO_NUMBER), (TEXTS, NOTHING), (DATE_NUMBERS, NO_NUMBER), (DATE_TEXTS, NOTHING)],
    ids=["numbers", "texts", "numbers of dates", "texts of dates"],
)
def test_expressions_give_what_python_gives(backend, cases, missing):
    names = [f"e{place}" for place in range(len(cases))]
    columns = tuple(NamedExpression(name, expression(text)) for name, text in zip(names, cases, strict=True))
    columns += (NamedExpression("label", expression("COALESCE(row, -1)" if missing == NO_NUMBER else "'row'")),)
    rows = TABLE.to_pylist()
    with derived(backend, TABLE, Derivation((AddColumns(columns),))) as engine:
        found = engine.histogram(Aggregation(user="row", item=(*names, "label"), null_item=missing))
    expected = {}
    for row in rows:
        label = tuple(missing if (value := compute(row)) is None else value for compute in cases.values())
        label += (row["row"] if missing == NO_NUMBER else "row",)
        expected[label] = expected.get(label, 0) + 1
    counted = dict(zip(found.labels, found.counts.tolist(), strict=True))
    for place, text in enumerate(cases):  # a column by itself, so that a failure names it
        of_column = [
            sorted(str(label[place]) for label, n in each.items() for _ in range(n)) for each in (expected, counted)
        ]
        assert of_column[0] == of_column[1], text
    assert counted == expected


USERS = pa.table(
    {
        "user": pa.array(["a", "a", "b", "B", "b", None, "c"], pa.string()),
        "x": pa.array([1.5, 2.25, float("nan"), -1e300, 3.0, 1.0, None], pa.float64()),
        "n": pa.array([1, 2**62, 2**62, 4, 2**62, 5, None], pa.int64()),
        "t": pa.array(["x", "y", "é", "x", None, "x", "x"], pa.string()),
    }
)
AGGREGATES = tuple(
    UserAggregate(name, function, None if column is None else ColumnValue(column))
    for name, function, column in (
        ("rows", UserFunction.COUNT, None),
        ("values_", UserFunction.COUNT, "x"),
        ("kinds", UserFunction.COUNT_DISTINCT, "t"),
        ("total", UserFunction.SUM, "n"),
        ("largest", UserFunction.MAX, "n"),
    )
)


def per_user(backend, table):
    steps = (
        GroupByUser("user", (), (*AGGREGATES, UserAggregate("s", UserFunction.SUM, ColumnValue("x")),
                                 UserAggregate("m", UserFunction.AVG, ColumnValue("x")))),
        AddColumns((NamedExpression("s100", expression("CAST(s * 100 AS INT64)")),
                    NamedExpression("m100", expression("CAST(m * 100 AS INT64)")))),
    )  # fmt: skip
    with derived(backend, table, Derivation(steps)) as engine:
        names = [each.name for each in AGGREGATES] + ["s100", "m100"]
        found = engine.histogram(Aggregation(user="user", item=tuple(names), null_item=NO_NUMBER))
    return sorted(label for label, count in zip(found.labels, found.counts, strict=True) for _ in range(int(count)))


def test_per_user_rows_are_those_of_each_user_and_leave_with_the_user(backend):
    no = NO_NUMBER
    expected = {
        "a": (2, 2, 2, no, 2**62, 375, 188),
        "b": (2, 1, 1, no, 2**62, 300, 300),
        "B": (1, 0, 1, 4, 4, no, no),
        "c": (1, 0, 1, no, no, no, no),
    }
    assert per_user(backend, USERS) == sorted(expected.values())
    for gone in expected:
        kept = USERS.filter(pa.array([user != gone for user in USERS["user"].to_pylist()]))
        assert per_user(backend, kept) == sorted(label for user, label in expected.items() if user != gone)


def test_filtered_rows_leave_with_the_user(backend):
    steps = Derivation((KeepRows(expression("n < 10 OR x > 2")),))

    def users(table):
        with derived(backend, table, steps) as engine:
            found = engine.histogram(Aggregation(user="user", item="user"))
        return dict(zip(found.labels, found.counts.tolist(), strict=True))

    assert users(USERS) == {"a": 1, "b": 1, "B": 1}
    for gone in "abB":
        kept = USERS.filter(pa.array([user != gone for user in USERS["user"].to_pylist()]))
        assert users(kept) == {user: 1 for user in "abB" if user != gone}


SCHEMA = Schema(
    (
        Column(name="text", kind=Kind.TEXT, native="VARCHAR"),
        Column(name="n", kind=Kind.INTEGER, native="BIGINT"),
        Column(name="at", kind=Kind.DATE, native="DATE"),
    )
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("text + 1", "takes two numbers"),
        ("n % 2.5", "takes two integers"),
        ("text = n", "cannot be compared"),
        ("CASE WHEN n = 1 THEN 'a' ELSE 2 END", "of one kind"),
        ("EXTRACT(YEAR FROM n)", "not dates or times"),
        ("EXTRACT(HOUR FROM at)", "which have no hour"),
        ("LOWER(n)", "takes text"),
        ("at > 5", "which a number is not"),
        ("at > 'someday'", "must be compared with a date"),
        ("NOT n", "a condition must be true or false"),
        ("CAST(text AS INT64)", "a conversion to numbers takes a number here, not text"),
        ("SUBSTR(text, 0, 2)", "from 1"),
    ],
)
def test_kinds_are_checked_before_any_row_is_read(text, says):
    from setwise.errors import SetwiseError

    with pytest.raises(SetwiseError, match=says):
        compile_expression(expression(text), SCHEMA, DuckDBDialect())


def test_nothing_typed_stands_in_the_statement():
    poison = "pOiSoN'; DROP TABLE t --"
    sql = compile_expression(
        expression("CASE WHEN text = '" + poison.replace("'", "''") + "' THEN 1 END"), SCHEMA, DuckDBDialect()
    ).sql
    assert "poison" not in sql.lower()
    assert poison.encode().hex() in sql


def test_deep_expressions_are_refused():
    node = exp.column("n")
    for _ in range(50):
        node = exp.Anonymous(this="ABS", expressions=[node])
    with pytest.raises(InvalidParameter, match="levels deep"):
        READER.read(node)
    assert RowReader(date(2024, 3, 1)).read(exp.column("n")) == ColumnValue("n")


def test_refused_expressions_do_not_count_as_levels_of_later_ones():
    """A reader that had refused 40 expressions took every later one for too deep."""
    reader = RowReader(date(2024, 3, 1))
    for _ in range(50):
        with pytest.raises(InvalidParameter, match="not supported"):
            reader.read(exp.Anonymous(this="ABS", expressions=[exp.Anonymous(this="SQUARE")]))
    assert reader.read(exp.column("n")) == ColumnValue("n")


def test_dates_before_today_are_folded():
    day = date(2024, 3, 1)
    assert READER.read(parse("SELECT CURRENT_DATE - INTERVAL '1 month' FROM t")[0].expressions[0]).value == date(
        2024, 2, 1
    )
    shifted = READER.read(parse("SELECT DATE_ADD(CURRENT_DATE(), INTERVAL 2 WEEK) FROM t")[0].expressions[0]).value
    assert shifted == day + timedelta(days=14)


@pytest.mark.parametrize("function", ["ROUND({} / 3)", "SIGN({})", "LEAST({}, 7.5)", "GREATEST({}, 7.5)"])
def test_nested_functions_do_not_fill_the_memory(function):
    """Each of them writes its argument two or three times: 13 times ROUND once needed 2 GB before the charge."""
    text = "n"
    for _ in range(12):
        text = function.format(text)
    table = pa.table({"u": ["a"], "n": [1.5]})
    with (
        setwise.open(table, user="u", name="t") as session,
        pytest.raises(InvalidParameter, match="characters of SQL for the engine"),
    ):
        session.explain(f"SELECT COUNT(*) FROM t WHERE {text} > 1", epsilon=1.0)
