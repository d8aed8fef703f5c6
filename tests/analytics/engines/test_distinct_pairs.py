"""COUNT(DISTINCT a, b) on every engine: one value for each pair without nulls, and different values for other pairs."""

import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.sql.parser import parse_sql
from tests.analytics.engines.conftest import open_backend
from tests.analytics.engines.test_row_expressions import derived

TEXTS = ["a", "ab", "", " ", "A", "é", "1", None]
NUMBERS = [1, 11, -1, 0, 2**53 + 1, None]
ROWS = [(n, text, number) for n, (text, number) in enumerate((text, number) for text in TEXTS for number in NUMBERS)]


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark"])
def engine_backend(request, tmp_path):
    return open_backend(request.param, request, tmp_path)


def test_distinct_pairs_are_those_of_the_rows(engine_backend):
    """Every pair stands twice, in rows of two users."""
    rows = [*ROWS, *[(n + 1000, text, number) for n, text, number in ROWS]]
    kinds = (pa.int64(), pa.string(), pa.int64())
    columns = {name: [row[place] for row in rows] for place, name in enumerate(("u", "text", "number"))}
    table = pa.table({name: pa.array(cells, kind) for (name, cells), kind in zip(columns.items(), kinds, strict=True)})
    statement = parse_sql("SELECT COUNT(DISTINCT text, number) FROM t", user="u", columns=tuple(columns))
    (statistic,) = statement.cores[0].query.statistics
    assert statistic.kind == "distinct"
    with derived(engine_backend, table, statement.cores[0].source.derivation) as engine:
        found = engine.histogram(Aggregation(user="u", item=statistic.column))
    assert len(found.labels) == (len(TEXTS) - 1) * (len(NUMBERS) - 1)
    assert set(found.counts.tolist()) == {2}
