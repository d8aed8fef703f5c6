"""Rows that are numbered as they stand, or grouped first: the histogram is the same, and the choice right."""

from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.duckdb import query
from setwise.analytics.engines.postgresql.engine import PostgresqlEngine
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.measure import Measure
from tests.analytics.engines.backends import Backend, DuckDBBackend
from tests.analytics.engines.conftest import open_backend
from tests.analytics.engines.reference import as_dict
from tests.servers.postgresql import PostgresqlServer
from tests.sizes import some


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Return a backend; lake tables are not read twice to choose between two forms."""
    return open_backend(request.param, request, tmp_path)


def events(rows: int, users: int, items: int) -> pa.Table:
    generator = np.random.default_rng(3)
    item = pa.array(generator.integers(items, size=rows).astype(str), mask=generator.random(rows) < 0.1)
    return pa.table({"u": generator.integers(users, size=rows), "i": item, "x": generator.integers(9, size=rows)})


@pytest.fixture
def probed(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """An engine that looks at all users before it chooses, as small tables need."""
    if backend.name == "spark":
        from setwise.analytics.engines.spark import engine

        monkeypatch.setattr(engine, "PROBED_SHARE", 1)
        monkeypatch.setattr(engine, "MIN_BY_NUMBER_VERSION", (99, 0))  # later versions have one form
    return backend


@pytest.mark.parametrize("items", [4, 5000])
def test_both_forms_keep_the_same(probed: Backend, monkeypatch: pytest.MonkeyPatch, items: int):
    table = events(5_000, 200, items)
    with probed.engine(table, lambda: 12345) as engine:
        where = parse_filter("x > 1 AND i <> '3'", engine.describe())
        domain = tuple(str(label) for label in range(0, items, 2))
        for asked in (
            Aggregation(user="u", item="i", contributions=3),
            Aggregation(user="u", item="i", contributions=2, per_item=3),
            Aggregation(user="u", item="i", contributions=2, per_item=2, null_item="0", domain=domain, where=where),
        ):
            found = []
            for threshold in (0.0, 1e9):
                monkeypatch.setattr(bounding, "MOST_ROWS_PER_PAIR", threshold)
                histogram = engine.histogram(asked)
                top = engine.top(asked, 5)
                assert top.labels == histogram.ranked(5).labels
                found.append(as_dict(histogram.labels, histogram.counts))
            assert found[0] == found[1]
            assert found[0]


def test_sparks_aggregate_keeps_the_items_that_its_windows_keep(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    backend = open_backend("spark", request, tmp_path)
    from setwise.analytics.engines.spark import engine as spark_engine

    statements: list[str] = []
    fetch = spark_engine.SparkEngineQuery._fetch

    def seen(self, statement, numbers):
        statements.append(statement)
        return fetch(self, statement, numbers)

    monkeypatch.setattr(spark_engine.SparkEngineQuery, "_fetch", seen)
    measures = (Measure(column="x", averaged=True, most=8), Measure(most=3))

    def ask(engine: Engine) -> list[object]:
        found: list[object] = []
        every = (
            Aggregation(user="u", item=("i", "x"), contributions=3, per_item=2),
            Aggregation(user="u", item="i", contributions=3),
            Aggregation(user="u", item="x", contributions=3),
            Aggregation(user="u", item="i", contributions=3, value="x"),
        )
        for asked in some(every, 4):
            histogram = engine.histogram(asked)
            found.append(as_dict(histogram.labels, histogram.counts))
        statistics = engine.statistics(Aggregation(user="u", item="i", contributions=3, measures=measures))
        found += [as_dict(statistics.users.labels, statistics.users.counts), statistics.totals]
        with engine.group_weights(Aggregation(user="u", item="i", contributions=3)) as reader:
            weights = reader.read([]).weights
            found.append(as_dict(weights.labels, weights.counts))
        return found

    with backend.engine(events(3_000, 100, 50), lambda: 12345) as engine:
        by_aggregate, of_aggregate = ask(engine), list(statements)
        statements.clear()
        monkeypatch.setattr(spark_engine, "MIN_BY_NUMBER_VERSION", (99, 0))
        assert ask(engine) == by_aggregate
    assert sum("min_by(" in statement for statement in of_aggregate) == len(of_aggregate) - 1  # weights read a view
    assert not any("OVER" in statement for statement in of_aggregate[:-1])
    assert not any("min_by(" in statement for statement in statements)


def test_spark_sorts_rows_where_an_aggregate_would_hold_many():
    from setwise.analytics.engines.spark.dialect import MOST_SMALLEST_ROWS, SparkDialect

    for number, has_min_by_number in ((MOST_SMALLEST_ROWS + 1, True), (1, False)):
        assert SparkDialect(has_min_by_number).smallest_rows(["g0"], "h", number) is None
    assert SparkDialect(True).smallest_rows(["g0"], "h", MOST_SMALLEST_ROWS) == "explode(min_by(g0, h, 1000)) AS g0"
    assert SparkDialect(True).smallest_rows(["g0", "n"], "h", 2) == "inline(min_by(struct(g0, n), h, 2))"


@pytest.mark.parametrize("threshold", [0.0, 1e9])
def test_a_user_whose_number_is_written_in_several_ways_counts_once(
    postgresql_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch, threshold: float
):
    monkeypatch.setattr(bounding, "MOST_ROWS_PER_PAIR", threshold)
    url = postgresql_server.schema()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (u numeric, i text)")
        connection.execute(
            "INSERT INTO visits VALUES (7, 'a'), (7.0, 'a'), (7.00, 'a'), ('NaN', 'a'), ('Infinity', 'b')"
        )
        connection.execute("ANALYZE visits")
    with PostgresqlEngine(url, "visits") as engine:
        found = engine.histogram(Aggregation(user="u", item="i", contributions=3))
    assert as_dict(found.labels, found.counts) == {"a": 2, "b": 1}


@pytest.mark.parametrize(("items", "numbered"), [(4, False), (5000, True)])
def test_rows_are_numbered_where_they_rarely_repeat(
    probed: Backend, monkeypatch: pytest.MonkeyPatch, items: int, numbered: bool
):
    chosen = []
    judge = bounding.rows_rarely_repeat
    monkeypatch.setattr(bounding, "rows_rarely_repeat", lambda *seen: chosen.append(judge(*seen)) or chosen[-1])
    with probed.engine(events(5_000, 200, items)) as engine:
        engine.histogram(Aggregation(user="u", item="i", contributions=3))
        engine.histogram(Aggregation(user="u", item="i"))
        engine.histogram(Aggregation(user="u", item="i", value="x", contributions=3))
    assert chosen == ([] if probed.name == "clickhouse" else [numbered])  # which has one form


@pytest.mark.parametrize(("items", "numbered"), [(4, [False, False]), (25, [True, False]), (5000, [True, True])])
def test_rows_that_are_added_up_are_numbered_where_they_repeat_even_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, items: int, numbered: list[bool]
):
    chosen = []
    judge = bounding.rows_rarely_repeat
    monkeypatch.setattr(bounding, "rows_rarely_repeat", lambda *seen: chosen.append(judge(*seen)) or chosen[-1])
    with DuckDBBackend(tmp_path).engine(events(5_000, 200, items)) as engine:
        engine.histogram(Aggregation(user="u", item="i", contributions=3))
        engine.statistics(Aggregation(user="u", item="i", contributions=3, measures=(Measure(column="x", most=9),)))
        engine.statistics(Aggregation(user="u", item="i", measures=(Measure(column="x", most=9),)))
    assert chosen == numbered


def test_a_small_table_is_grouped_without_a_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(bounding, "rows_rarely_repeat", lambda *_: pytest.fail("was looked at"))
    with DuckDBBackend(tmp_path).engine(events(5_000, 200, 5000)) as engine:
        for unprobed in (5_000, 4_999):
            monkeypatch.setattr(query, "UNPROBED_ROWS", unprobed)
            if unprobed == 5_000:
                engine.histogram(Aggregation(user="u", item="i", contributions=3))
            else:
                with pytest.raises(pytest.fail.Exception, match="was looked at"):
                    engine.histogram(Aggregation(user="u", item="i", contributions=3))
