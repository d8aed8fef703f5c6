"""Windows over the rows of one user and joins of a user's rows: every engine gives what Python gives.

Removing a user removes exactly the rows of that user from each of them.
"""

import math
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.derived_tables import DerivedTable
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.rows.derivation import (
    AddWindows,
    Derivation,
    GroupByUser,
    JoinedValue,
    JoinUserRows,
    KeepRows,
    KeyPair,
    NamedExpression,
    SortKey,
    UserAggregate,
    UserFunction,
    UserWindow,
    WindowFunction,
)
from setwise.analytics.rows.expression import ColumnValue, columns_of
from setwise.analytics.schema import Column, Kind, Schema
from tests.analytics.engines.test_row_expressions import derived, expression

NO_NUMBER = -(10**6)
START = datetime(2026, 1, 1)
TABLE = pa.table(
    {
        "user": pa.array(["a"] * 6 + ["b"] * 4 + ["B"] + [None] * 2, pa.string()),
        "n": pa.array([3, 1, None, 3, 1, 3, 5, 5, 5, None, 7, 1, 2], pa.int64()),
        "x": pa.array(
            [0.5, float("nan"), 2.0, -1.5, None, 0.5, 1.0, float("nan"), 1.0, 4.0, float("inf"), 9.0, 9.0],
            pa.float64(),
        ),
        "t": pa.array(["é", "z", "Z", None, "a", "B", "q", "p", "q", "Q", "y", "y", "y"], pa.string()),
        "at": pa.array([START + timedelta(hours=5 * n % 7) for n in range(13)], pa.timestamp("us", tz="UTC")),
    }
)
COLUMNS = ("n", "t", "x")
"""The columns that decide the order of rows that are equal in ORDER BY, in alphabetical order."""

ORDER = (SortKey(ColumnValue("n"), descending=True, nulls_first=False),)
BY_TEXT = (SortKey(ColumnValue("t")), SortKey(ColumnValue("n")))
X100 = expression("CAST(x * 100 AS INT64)")
WINDOWS = (
    UserWindow("number", WindowFunction.ROW_NUMBER, order=ORDER),
    UserWindow("by_text", WindowFunction.ROW_NUMBER, order=BY_TEXT),
    UserWindow("rank", WindowFunction.RANK, order=ORDER),
    UserWindow("dense", WindowFunction.DENSE_RANK, order=ORDER),
    UserWindow("before", WindowFunction.LAG, ColumnValue("n"), order=BY_TEXT),
    UserWindow("after", WindowFunction.LEAD, X100, order=BY_TEXT, offset=2),
    UserWindow("first", WindowFunction.FIRST_VALUE, ColumnValue("n"), order=BY_TEXT),
    UserWindow("rows", WindowFunction.COUNT),
    UserWindow("alike", WindowFunction.COUNT, keys=(ColumnValue("n"),)),
    UserWindow("values", WindowFunction.COUNT, ColumnValue("x")),
    UserWindow("total", WindowFunction.SUM, ColumnValue("n")),
    UserWindow("running", WindowFunction.SUM, ColumnValue("n"), order=ORDER),
    UserWindow("moving", WindowFunction.SUM, ColumnValue("n"), order=BY_TEXT, preceding=1),
    UserWindow("largest", WindowFunction.MAX, ColumnValue("n")),
    UserWindow("least", WindowFunction.MIN, X100, keys=(ColumnValue("n"),)),
)
NAMES = tuple(window.name for window in WINDOWS)


def number_of(value):
    """Return a number as engines compute with it: NaN and infinity are null."""
    return None if value is None or not math.isfinite(value) else value


def sort_key(value, *, descending=False, nulls_first=True):
    """Return a key for `sorted` that orders a value as the engines order it; text is ordered by code point."""
    if value is None:
        return (0 if nulls_first else 2, 0)
    return (1, [-ord(c) for c in value] if descending else value) if isinstance(value, str) else (
        1, -value if descending else value)  # fmt: skip


def read(row, part):
    """Return the value of a column or of CAST(x * 100 AS INT64) in a row."""
    if part == X100:
        value = number_of(row["x"])
        return None if value is None else round(value * 100)
    (name,) = columns_of(part)
    return number_of(row[name]) if name == "x" else row[name]


def windowed(rows, window):  # noqa: PLR0912 - one branch for each function
    """Return the value of a window function in each row of one user."""

    def ordered(row):
        keys = [
            sort_key(read(row, key.expression), descending=key.descending, nulls_first=key.nulls_first)
            for key in window.order
        ]
        return keys, [sort_key(read(row, ColumnValue(name))) for name in COLUMNS]

    values = {}
    divisions = {}
    for place, row in enumerate(rows):
        divisions.setdefault(tuple(read(row, key) for key in window.keys), []).append(place)
    for division in divisions.values():
        places = sorted(division, key=lambda place: ordered(rows[place]))
        keys = [ordered(rows[place])[0] for place in places]
        cells = [None if window.argument is None else read(rows[place], window.argument) for place in places]
        for at, place in enumerate(places):
            covered = [other for other, key in enumerate(keys) if key <= keys[at]]
            if window.preceding is not None:
                covered = list(range(max(0, at - window.preceding), at + 1))
            inside = [cells[other] for other in covered if cells[other] is not None]
            match window.function:
                case WindowFunction.ROW_NUMBER:
                    value = at + 1
                case WindowFunction.RANK:
                    value = keys.index(keys[at]) + 1
                case WindowFunction.DENSE_RANK:
                    value = len({str(key) for key in keys if key <= keys[at]})
                case WindowFunction.LAG:
                    value = cells[at - window.offset] if at >= window.offset else None
                case WindowFunction.LEAD:
                    value = cells[at + window.offset] if at + window.offset < len(cells) else None
                case WindowFunction.FIRST_VALUE:
                    value = cells[0]
                case WindowFunction.COUNT:
                    value = len(covered) if window.argument is None else len(inside)
                case WindowFunction.SUM:
                    value = sum(inside) if inside else None
                case WindowFunction.MAX:
                    value = max(inside, default=None)
                case _:
                    value = min(inside, default=None)
            values[place] = value
    return [values[place] for place in range(len(rows))]


def users_of(table):
    rows = {}
    for row in table.to_pylist():
        if row["user"] is not None:
            rows.setdefault(row["user"], []).append(row)
    return rows


def histogram(backend, table, derivation, names):
    """Return how many users have each combination of the columns `names`, each user counted once per combination."""
    with derived(backend, table, derivation) as engine:
        found = engine.histogram(Aggregation(user="user", item=names, null_item=NO_NUMBER))
    return dict(zip(found.labels, found.counts.tolist(), strict=True))


def counted(rows_of_users):
    """Return how many users have each tuple among their rows; null is `NO_NUMBER`."""
    found = {}
    for rows in rows_of_users:
        for row in {tuple(NO_NUMBER if cell is None else cell for cell in row) for row in rows}:
            found[row] = found.get(row, 0) + 1
    return found


def without(table, user):
    return table.filter(pa.array([each != user for each in table["user"].to_pylist()]))


def test_window_functions_over_one_users_rows_are_those_of_python(backend):
    derivation = Derivation((AddWindows("user", WINDOWS, COLUMNS),))
    for table in (TABLE, TABLE.take(list(range(len(TABLE)))[::-1]), *(without(TABLE, user) for user in "abB")):
        rows_of_users = [
            list(zip(*(windowed(rows, window) for window in WINDOWS), strict=True)) for rows in users_of(table).values()
        ]
        expected, found = counted(rows_of_users), histogram(backend, table, derivation, NAMES)
        for place, name in enumerate(NAMES):  # a column by itself, so that a failure names it
            assert sorted({row[place] for row in found}) == sorted({row[place] for row in expected}), name
        assert found == expected


def per_user_rows():
    """Return a derivation with the number of rows, latest time and largest n of each user and parity of n."""
    parity = NamedExpression("parity", expression("n % 2"))
    aggregates = (
        UserAggregate("rows", UserFunction.COUNT),
        UserAggregate("latest", UserFunction.MAX, ColumnValue("at")),
        UserAggregate("most", UserFunction.MAX, ColumnValue("n")),
    )
    return Derivation((KeepRows(expression("n <> 1")), GroupByUser("user", (parity,), aggregates)))


@pytest.mark.parametrize("keeps_all", [True, False])
def test_joined_rows_are_those_of_the_same_user(backend, keeps_all):
    columns = (JoinedValue("other rows", "rows"), JoinedValue("latest", "latest"), JoinedValue("most", "most"))
    keys = (KeyPair(expression("n % 2"), ColumnValue("parity")),)
    steps = (
        JoinUserRows("user", per_user_rows(), keys, columns, keeps_all),
        JoinUserRows("user", Derivation(), (), (JoinedValue("other n", "n"),)),
        KeepRows(expression("at >= latest OR latest IS NULL")),
    )
    names = ("n", "other rows", "most", "other n")
    for table in (TABLE, *(without(TABLE, user) for user in "abB")):
        expected = []
        for rows in users_of(table).values():
            joined = []
            for row in rows:
                others = [each for each in rows if each["n"] not in (None, 1) and row["n"] is not None
                          and each["n"] % 2 == row["n"] % 2]  # fmt: skip
                if not others and not keeps_all:
                    continue
                if others and row["at"] < max(each["at"] for each in others):
                    continue
                found = (len(others) or None, max((each["n"] for each in others), default=None))
                joined += [(row["n"], *found, each["n"]) for each in rows]
            expected.append(joined)
        assert histogram(backend, table, Derivation(steps), names) == counted(expected)


SCHEMA = Schema(
    (
        Column(name="user", kind=Kind.TEXT, native="VARCHAR"),
        Column(name="n", kind=Kind.INTEGER, native="BIGINT"),
        Column(name="t", kind=Kind.TEXT, native="VARCHAR"),
        Column(name="wide", kind=Kind.TEXT, native="VARCHAR"),
    )
)


def test_only_the_columns_that_are_used_are_read():
    windows = (UserWindow("r", WindowFunction.ROW_NUMBER, order=(SortKey(ColumnValue("n")),)),)
    counted_rows = Derivation((GroupByUser("user", (), (UserAggregate("m", UserFunction.MAX, ColumnValue("t")),)),))
    steps = (
        AddWindows("user", windows, ("n", "other")),
        JoinUserRows("user", counted_rows, (), (JoinedValue("m", "m"),)),
    )
    table = DerivedTable(Derivation(steps), SCHEMA, DuckDBDialect())
    assert table.needed_columns(("r", "m")) == ("user", "n", "t")
    assert "wide" not in table.statement("source", ("r", "m"))
    assert table.statement("source", ("r", "m")).count("FROM source)") == 1  # a stream can be read only once
    assert [column.name for column in table.schema] == ["user", "n", "r", "m"]


def test_keys_of_different_kinds_are_refused():
    step = JoinUserRows("user", Derivation(), (KeyPair(ColumnValue("n"), ColumnValue("t")),), ())
    from setwise.errors import InvalidParameter

    with pytest.raises(InvalidParameter, match="cannot be compared"):
        DerivedTable(Derivation((step,)), SCHEMA, DuckDBDialect()).schema  # noqa: B018 - a property that checks


def test_different_windows_and_joins_have_different_texts():
    window = WINDOWS[0]
    others = [
        UserWindow("number", WindowFunction.RANK, order=ORDER),
        UserWindow("number", WindowFunction.ROW_NUMBER, order=BY_TEXT),
        UserWindow("number", WindowFunction.ROW_NUMBER, keys=(ColumnValue("n"),), order=ORDER),
        UserWindow("number", WindowFunction.ROW_NUMBER, order=ORDER, preceding=3),
        UserWindow("number", WindowFunction.ROW_NUMBER, order=ORDER, offset=3),
    ]
    texts = {str(Derivation((AddWindows("user", (each,), COLUMNS),))) for each in [window, *others]}
    texts.add(str(Derivation((AddWindows("user", (window,), ()),))))
    join = JoinUserRows("user", Derivation(), (), (JoinedValue("m", "n"),))
    texts |= {str(Derivation((each,))) for each in (join, JoinUserRows("user", per_user_rows(), (), ()))}
    assert len(texts) == 9
