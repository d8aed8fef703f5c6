# ruff: noqa: E501 - lists of scraps
"""The filter language: whatever is written, either a checked expression comes out or one sentence."""

import contextlib
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.bounding import Dialect, Parameters, predicate
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.tables import ArrowTable
from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect
from setwise.analytics.engines.spark.dialect import SparkDialect
from setwise.analytics.filter.parser import parse_filter
from setwise.errors import InvalidFilter, UnknownColumn
from tests.analytics.engines.truth import truth
from tests.sizes import examples

TABLE = pa.table(
    {
        "row": pa.array(range(8), pa.int64()),
        "t": pa.array(["", "a", "A", "\\", "'", "%", "\U0001f600", None], pa.string()),
        "n": pa.array([-2, -1, 0, 1, 2, 2**63 - 1, -(2**63), None], pa.int64()),
        "x": pa.array([float("nan"), 0.0, -0.0, 1.5, -1.5, float("inf"), 1e-3, None], pa.float64()),
        "b": pa.array([True, False, None, True, False, None, True, False], pa.bool_()),
    }
)
with DuckDBEngine(ArrowTable(TABLE)) as opened:
    SCHEMA = opened.describe()
del opened
ROWS = TABLE.to_pylist()


HELD: dict[str, DuckDBEngine] = {}
"""The engine of the tests below, not handed to them: Hypothesis would hold it beyond the end of the process."""


@pytest.fixture(scope="module", autouse=True)
def held():
    with DuckDBEngine(ArrowTable(TABLE)) as HELD["engine"]:
        yield
    HELD.clear()


SCRAPS = st.sampled_from(
    ["t", "n", "x", "b", '"t"', '"', "'", "''", "'a'", "1", "-1", "1.5", "1e400", "true", "null", "and", "or", "not", "in",
     "between", "is", "like", "(", ")", ",", "=", "<>", "<", ";", "--", "/*", "*/", "\\", "$1", ":p1", "%(p1)s", "%s", "?",
     "select", "union", "::", "date", "timestamp", "\x00", "\n", "\u200b", "é", "`", "[", "{", "0x1", "1_000", "\ud800", "row"]
)  # fmt: skip
GARBAGE = st.one_of(
    st.text(max_size=60), st.lists(SCRAPS, max_size=25).map(" ".join), st.lists(SCRAPS, max_size=25).map("".join)
)


@settings(max_examples=examples(600), deadline=None)
@given(GARBAGE)
def test_garbage_gives_a_filter_or_one_sentence(text: str):
    with contextlib.suppress(InvalidFilter, UnknownColumn):
        assert parse_filter(text, SCHEMA).columns()


TEXTS = st.one_of(
    st.sampled_from(["", "a", "A", "\\", "'", "%", "_", "' OR 1=1 --", '"', "$p1", ":p1", "%s", "%(p1)s"]),
    st.text("a'\\%_é\U0001f600\"", max_size=4),
)
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


LEAVES = st.one_of(
    st.builds(lambda sign, value: f"t {sign} {quoted(value)}", SIGNS, TEXTS),
    st.builds(lambda sign, value: f"{quoted(value)} {sign} t", SIGNS, TEXTS),
    st.builds(lambda sign, value: f"n {sign} {value}", SIGNS, st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    st.builds(
        lambda sign, value: f"x {sign} {value!r}",
        SIGNS,
        st.floats(allow_nan=False, allow_infinity=False) | st.just(0.0),
    ),
    st.builds(
        lambda sign, value: f"b {sign} {value}", st.sampled_from(["=", "<>"]), st.sampled_from(["true", "false"])
    ),
    st.builds(
        lambda column, negation: f"{column} is {negation} null", st.sampled_from("tnxb"), st.sampled_from(["", "not"])
    ),
    st.builds(lambda values: f"t in ({', '.join(map(quoted, values))})", st.lists(TEXTS, min_size=1, max_size=4)),
    st.builds(lambda a, b: f"n not between {a} and {b}", st.integers(-3, 3), st.integers(-3, 3)),
    st.builds(lambda pattern: f"t like {quoted(pattern)}", TEXTS),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds(lambda a, b: f"({a}) AND ({b})", parts, parts),
        st.builds(lambda a, b: f"{a} or {b}", parts, parts),
        st.builds(lambda a: f"NOT ({a})", parts),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(EXPRESSIONS)
def test_an_engine_keeps_the_rows_that_python_keeps(text: str):
    where = parse_filter(text, SCHEMA)
    found = HELD["engine"].histogram(Aggregation(user="row", item="row", where=where))
    assert sorted(found.labels) == [row["row"] for row in ROWS if truth(where.expression, row) is True]


@settings(max_examples=examples(200), deadline=None)
@given(EXPRESSIONS)
@pytest.mark.parametrize(
    "dialect", [DuckDBDialect(), PostgresqlDialect(), SparkDialect()], ids=["duckdb", "postgresql", "spark"]
)
def test_nothing_that_was_written_reaches_the_statement(dialect: Dialect, text: str):
    parameters = Parameters(dialect)
    written = predicate(parse_filter(text, SCHEMA).expression, dialect, parameters)
    for name in parameters.values:
        written = written.replace(dialect.placeholder(name), "VALUE", 1)
    words = re.sub(
        r"CAST\((VALUE|[\"`][tnxb][\"`]) AS \w+\)|( \+ 0D)|COLLATE \"(binary|C)\"|COLLATE\(`t`, 'UTF8_BINARY'\)|ESCAPE E?'\\+'|VALUE",
        "",
        written,
    )
    assert re.fullmatch(
        r"([\"`][tnxb][\"`]|NULLIF|, 'NaN'|AND|OR|NOT|IN|IS|NULL|R?LIKE|CASE|WHEN|isnan|THEN|ELSE|END|[<>=(), ])*",
        words,
    ), written


def test_only_allowed_columns_may_be_named():
    assert parse_filter("t = 'a'", SCHEMA, allowed=["t"]).columns() == (SCHEMA.column("t"),)
    for text in ("n = 1", "secret = 1"):
        with pytest.raises(InvalidFilter, match=r"may not be used in a filter here; allowed: 't'"):
            parse_filter(text, SCHEMA, allowed=["t"])


def test_limits_on_length_depth_and_constants():
    with pytest.raises(InvalidFilter, match="at most 10000 characters"):
        parse_filter("t = '" + "a" * 10_000 + "'", SCHEMA)
    for deep in ("(" * 41 + "n = 1" + ")" * 41, "NOT " * 41 + "n = 1"):
        with pytest.raises(InvalidFilter, match="nests more than 40 levels"):
            parse_filter(deep, SCHEMA)
    with pytest.raises(InvalidFilter, match="more than 1000 constants"):
        parse_filter(f"n in ({','.join(['1'] * 1001)})", SCHEMA)


def test_a_filter_of_another_table_is_refused():
    other = DuckDBEngine(ArrowTable(pa.table({"row": [1], "n": ["text"]})))
    where = parse_filter("n = 1", SCHEMA)
    with other, pytest.raises(InvalidFilter, match="parsed for another table"):
        other.histogram(Aggregation(user="row", where=where))
