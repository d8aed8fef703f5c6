# ruff: noqa: E501 - filters and sentences stand on one line each
"""Filters mean the same on every engine and in plain Python, down to nulls, NaN and the order of text."""

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.filter.parser import ALLOWED, parse_filter
from setwise.errors import InvalidFilter, UnknownColumn
from tests.analytics.engines.backends import Backend
from tests.analytics.engines.truth import truth
from tests.sizes import some

ROWS = 12
NAN = float("nan")
TABLE = pa.table(
    {
        "row": pa.array(range(ROWS), pa.int64()),
        "text": pa.array(
            ["", "a", "A", "b", "é", "z", "\U0001f600", "\ufffd", "a%b", "a\\b", "a'b", None], pa.string()
        ),
        "whole": pa.array([-(2**63), 2**63 - 1, 0, -1, 1, 2, 3, 4, 5, 6, 7, None], pa.int64()),
        "small": pa.array([-(2**31), 2**31 - 1, 0, -1, 1, 2, 3, 4, 5, 6, 7, None], pa.int32()),
        "real": pa.array(
            [NAN, float("inf"), -float("inf"), 0.0, -0.0, 0.1, 1e308, -1.5, 2.5, 5e-324, 7, None], pa.float64()
        ),
        "single": pa.array([NAN, 0.1, 0.5, 0.0, -0.0, 1, 2, 3, 4, 5, 6, None], pa.float32()),
        "money": pa.array(
            [Decimal(n).scaleb(-2) for n in (-(10**9) + 1, 10**9 - 1, *range(-4, 5))] + [None], pa.decimal128(9, 2)
        ),
        "flag": pa.array([True, False] * 5 + [None, True], pa.bool_()),
        "date": pa.array(
            [date(1, 1, 1), date(9999, 12, 31), *(date(2024, 2, day) for day in range(21, 30)), None], pa.date32()
        ),
        "moment": pa.array(
            [datetime(1900, 1, 1), datetime(2200, 1, 1), *(datetime(2024, 1, 1, 0, 0, 0, n) for n in range(9)), None],
            pa.timestamp("us"),
        ),
        "instant": pa.array(
            [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(11)] + [None], pa.timestamp("us", "UTC")
        ),
    }
)
FILTERS = [
    "text = 'a'", "text <> 'a'", "text != 'a'", "text < 'a'", "text >= 'Z'", "'b' > text", "text > 'z'", "text < '\ufffe'",
    "text = ''", "text = 'a''b'", "text = 'a\\b'", "text LIKE 'a%'", "text LIKE '_'", "text LIKE '%\\%'", "text LIKE ''",
    "text NOT LIKE '%a%'", "text like 'a\\_'", "text LIKE 'a%b'", "text LIKE '%%'",
    "whole = 9223372036854775807", "whole > -9223372036854775808", "whole <= -1", "3 <= whole", "small > 2147483648",
    "small between 1 and 3", "small NOT BETWEEN -1 AND 6", "small BETWEEN 3 AND 1", "whole in (1, -1, 9223372036854775807)",
    "real = 0", "real < 0.1", "real >= 1e308", "real > 1e308", "real <> 2.5", "NOT real < 1", "real in (0, -0.0, 7)",
    "single = 0.1", "single > 0.1", "single <= 0.5", "real not in (0.1)", "real = -0.0", "real <= 4e-324",
    "money = 0.01", "money < 9999999.99", "money >= -9999999.99", "money in (-0.04, 0.030)", "money <> 0", "money > -.02",
    "flag = true", "flag <> TRUE", "flag = false", "flag in (true, false)", "NOT flag = true",
    "date = date '2024-02-29'", "date < '2024-02-25'", "date >= DATE '9999-12-31'", "date in ('2024-02-22', '0001-01-01')",
    "moment > timestamp '2024-01-01 00:00:00.000003'", "moment <= '2024-01-01'", "moment < '0001-01-01'", "moment <> '9999-12-31 23:59:59.999999'",
    "instant >= '2024-01-01 03:00:00Z'", "moment <= '2024-01-01T00:00:00.000003Z'", "instant < '2024-01-01T05:00+02:00'", "instant = '2024-01-01 04:00:00'",
    "text IS NULL", "whole is not null", "real IS NOT NULL", "flag IS NULL", "money is null or date is null",
    "text = 'a' AND flag = true OR whole > 5", "text = 'a' AND (flag = false OR whole > 5)", "NOT (text = 'a' OR flag = true)",
    "NOT (text = 'a' AND flag = true)", "NOT NOT text = 'a'", "text = 'q' OR text IS NULL", "NOT (text < 'b' OR whole < 3)",
    "text in ('a', 'b', 'nothing')", "text NOT IN ('a', 'é')", '"text" = \'a\'', "(((whole = 1)))",
    "whole in (" + ",".join(map(str, range(1000))) + ")", "real in (" + ",".join(map(str, range(1000))) + ")",
    " OR ".join(f"whole = {n}" for n in range(400)), "NOT " * 38 + "whole = 1",
]  # fmt: skip


def rows_where(engine, text: str) -> list[int]:
    where = parse_filter(text, engine.describe())
    found = engine.histogram(Aggregation(user="row", item="row", where=where))
    return sorted(int(label) for label in found.labels)


def test_every_engine_keeps_the_rows_that_python_keeps(backend: Backend):
    told = TABLE.to_pylist()
    with backend.engine(TABLE) as engine:
        # The same statements reach all engines; what they mean is the engine's, and ClickHouse takes long to say it.
        for text in some(FILTERS, 3) if backend.name == "clickhouse" else FILTERS:
            expression = parse_filter(text, engine.describe()).expression
            wanted = [row["row"] for row in told if truth(expression, row) is True]
            assert rows_where(engine, text) == wanted, text


def test_no_pattern_takes_long_on_a_row(backend: Backend):
    """How long a question takes would tell whether some row passes the rest of its filter."""
    texts = ["the patient was seen on monday and reported pain in the left knee after running", "a" * 3000, None]
    with backend.engine(pa.table({"row": [0, 1, 2], "text": texts})) as engine:
        began = monotonic()
        assert rows_where(engine, f"text LIKE '{'%_' * 30}%~'") == []
        assert rows_where(engine, f"text LIKE '{'%e' * 6}%~' OR text LIKE '{'%a' * 30}%b'") == []
        assert rows_where(engine, f"text LIKE '{'%e_' * 4}%g' OR text LIKE '{'_a' * 499}%'") == [0, 1]
        with pytest.raises(InvalidFilter, match="at most 1000 characters long"):
            rows_where(engine, f"text LIKE '{'_a' * 501}'")
        assert monotonic() - began < 60


@pytest.mark.parametrize("name", ["duckdb", "spark"])
def test_what_shares_a_row_group_does_not_decide_whether_a_row_is_kept(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
):
    """Statistics of Parquet leave NaN out, and dictionaries tell -0.0 from 0.0: a group may be passed over for them."""
    if name == "spark":
        request.getfixturevalue("spark_session")
    pairs = list(combinations(range(ROWS), 2))
    pq.write_table(TABLE.take([row for pair in pairs for row in pair]), tmp_path / "t.parquet", row_group_size=2)
    floats = [text for text in FILTERS if "real" in text or "single" in text]
    chosen = FILTERS if name == "duckdb" else some(floats, 4)
    with open_engine(tmp_path / "t.parquet", name) as engine:
        for text in chosen:
            where = parse_filter(text, engine.describe())
            found = engine.histogram(Aggregation(user="row", item="row", per_item=ROWS, where=where))
            assert set(found.counts.tolist()) <= {ROWS - 1}, text
            assert sorted(found.labels) == [row["row"] for row in TABLE.to_pylist() if truth(where.expression, row)], (
                text
            )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("text = 1", "column 'text' holds text values and must be compared with text such as 'a', not with '1' at character 8; "
                     "if it is of a file, give its type, as in types = {\"text\": \"integer\"}"),
        ("whole = 'a'", "column 'whole' holds integer values and must be compared with a whole number of at most 64 bits, "
                        "not with 'a' at character 9"),
        ("whole = 1.5", "column 'whole' holds integer values and must be compared with a whole number of at most 64 bits, "
                        "not with '1.5' at character 9"),
        ("money = 0.001", "column 'money' holds decimal values and must be compared with a number of at most 9 digits with 2 of "
                          "them after the point, not with '0.001' at character 9"),
        ("text = 'a' OR 1 = 1", "a comparison needs a column and a constant, but two constants stand at character 15"),
        ("text = 'a'; DROP TABLE t", f"the filter cannot be read from character 11, ';': {ALLOWED}"),
        ("text = 'a' --", f"the filter cannot be read from character 12, '-': {ALLOWED}"),
        ("text = (SELECT 'a')", "the filter has '(' at character 8 where a constant was expected"),
        ("lower(text) = 'a'", f"the filter calls 'lower' at character 1, and functions are not allowed: {ALLOWED}"),
        ("text = lower('A')", f"the filter calls 'lower' at character 8, and functions are not allowed: {ALLOWED}"),
        ("text = 'a", "the filter cannot be read from character 8, \"'\": the quote is not closed"),
        ("text = text", "the filter has 'text' at character 8 where a constant was expected"),
        ("", "the filter has its end where a constant was expected"),
        ("text =", "the filter has its end where a constant was expected"),
        ("flag > false", "column 'flag' is true or false and can be compared with = or <> only"),
        ("real LIKE 'a'", "LIKE compares a column of text with text, but column 'real' holds float values or no text stands at "
                          "character 11"),
        ("date = '2024-02-30'", "column 'date' holds date values and must be compared with a date such as '2024-12-31', "
                                "not with '2024-02-30' at character 8"),
        ("nothing = 1", "the table has no column 'nothing'; it has 'row', 'text', 'whole', 'small', 'real', 'single', 'money', "
                        "'flag', 'date', 'moment', 'instant'"),
    ],
)  # fmt: skip
def test_bad_filters_give_the_same_sentence(backend: Backend, text: str, sentence: str):
    with backend.engine(TABLE) as engine, pytest.raises((InvalidFilter, UnknownColumn)) as raised:
        rows_where(engine, text)
    assert str(raised.value) == sentence
