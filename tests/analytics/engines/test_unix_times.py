"""Seconds, milliseconds and microseconds since 1970 are calendar times on every engine, and no number makes it fail."""

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.rows.derivation import AddColumns, Derivation, NamedExpression
from setwise.errors import InvalidParameter
from tests.analytics.engines.test_row_expressions import derived, expression

DAY = 86_400
NUMBERS = [
    *(0, -1, 1, 1767225599, 1767225600, 1767225600 + 4 * DAY, -62135596800, -62135596801, 253402300799, 253402300800),
    *(1767225600123, -62135596800000, 253402300799999, 253402300800000, 1767225600123456, None, 2**63 - 1, -(2**63)),
]


def moment(number: int | None, per_second: int) -> datetime | None:
    try:
        return None if number is None else datetime(1970, 1, 1) + timedelta(microseconds=number * 10**6 // per_second)
    except OverflowError:
        return None


def week(time: datetime) -> str:
    return (time.date() - timedelta(days=time.weekday())).isoformat()


CASES = {
    "DATE_TRUNC('week', TO_TIMESTAMP(n))": (1, week),
    "CAST(FROM_UNIXTIME(n) AS DATE)": (1, lambda time: time.date().isoformat()),
    "TO_CHAR(TIMESTAMP_SECONDS(n), 'YYYY-MM-DD HH24:MI:SS')": (1, lambda time: time.isoformat(" ")),
    "DATE_TRUNC('week', TIMESTAMP_MILLIS(n))": (1_000, week),
    "DATE(EPOCH_MS(n))": (1_000, lambda time: time.date().isoformat()),
    "DATE_TRUNC('week', TO_TIMESTAMP(n / 1000))": (1_000, week),
    "DATE_TRUNC('week', TIMESTAMP_MICROS(n))": (1_000_000, week),
}


def test_unix_times_are_calendar_times(backend):
    table = pa.table({"row": range(len(NUMBERS)), "n": pa.array(NUMBERS, pa.int64())})
    names = [f"e{place}" for place in range(len(CASES))]
    columns = tuple(NamedExpression(name, expression(text)) for name, text in zip(names, CASES, strict=True))
    for name, (text, (per_second, say)) in zip(names, CASES.items(), strict=True):
        with derived(backend, table, Derivation((AddColumns(columns),))) as engine:
            found = engine.histogram(Aggregation(user="row", item=(name,), null_item="nothing"))
        times = [moment(number, per_second) for number in NUMBERS]
        labels = ["nothing" if time is None else say(time) for time in times]
        assert {_only(label): count for label, count in zip(found.labels, found.counts.tolist(), strict=True)} == {
            label: labels.count(label) for label in labels
        }, text


def _only(label):
    return label[0] if isinstance(label, tuple) else label


@pytest.mark.parametrize(
    ("column", "remedy"),
    [(pa.array(["1767225600"]), "--type n=integer"), (pa.array([1767225600.5]), "holds float values")],
)
def test_only_whole_numbers_are_times(column, remedy):
    from setwise.analytics.engines.duckdb.engine import DuckDBEngine
    from setwise.analytics.engines.duckdb.tables import ArrowTable, DuckDBDerivedTable

    steps = Derivation((AddColumns((NamedExpression("e", expression("DATE_TRUNC('week', TO_TIMESTAMP(n))")),)),))
    table = DuckDBDerivedTable(ArrowTable(pa.table({"row": [1], "n": column})), steps)
    with pytest.raises(InvalidParameter, match=remedy):
        DuckDBEngine(table)
