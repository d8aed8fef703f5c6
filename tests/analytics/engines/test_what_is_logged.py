"""The salt and the rows stay out of what engines write down and out of errors."""

import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.errors import EngineFailed, SetwiseError
from tests.analytics.engines.backends import PostgresqlBackend

TABLE = pa.table({"u": ["Kjell Vidar"] * 3 + ["b"], "i": ["x", "y", "z", "x"]})
BOUNDED = Aggregation(user="u", item="i", contributions=1)


def test_sparks_plans_do_not_hold_the_salt(spark_session, tmp_path, monkeypatch):
    from setwise.analytics.engines.spark.engine import SparkEngine
    from setwise.analytics.engines.spark.tables import SparkTable

    salt = 1234567890123456789
    frame = spark_session.createDataFrame(TABLE)
    engine = SparkEngine(SparkTable(frame=frame), salts=lambda: salt)
    plans: list[str] = []
    run = spark_session.sql

    def seen(statement, args=None):
        answer = run(statement, args=args)
        plans.extend([statement, answer._jdf.queryExecution().toString()])
        return answer

    monkeypatch.setattr(type(spark_session), "sql", lambda _, statement, args=None: seen(statement, args))
    assert len(engine.histogram(BOUNDED))
    assert any("xxhash64" in plan for plan in plans)
    assert not any(str(salt) in plan for plan in plans)


def test_postgresql_draws_the_salt_itself(postgresql_url, monkeypatch):
    import psycopg

    statements: list[str] = []
    execute = psycopg.Connection.execute

    def seen(self, query, params=None, **options):
        statements.append(f"{query} {params}")
        return execute(self, query, params, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", seen)
    backend = PostgresqlBackend(postgresql_url)
    with backend.engine(TABLE) as engine:
        assert len(engine.histogram(BOUNDED))
    asked = [statement for statement in statements if "salt" in statement]
    assert len(asked) == 1
    assert "gen_random_uuid()" in asked[0]
    assert asked[0].endswith(" {}")


def test_errors_of_a_server_that_goes_away_are_fixed_sentences(postgresql_url):
    import psycopg

    backend = PostgresqlBackend(postgresql_url)
    name = backend.store(TABLE)
    with backend.reopened(name) as engine:
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute(f'DROP TABLE "{name}"')
        with pytest.raises(SetwiseError) as raised:  # the definition is looked up again before every question
            engine.histogram(BOUNDED)
        assert str(raised.value) == f"the PostgreSQL database has no table {name!r} that this login may see"
        assert raised.value.__context__ is None
    with pytest.raises(EngineFailed) as refused:
        PostgresqlBackend("postgresql://someone:hidden@127.0.0.1:1/nothing").reopened("events")
    assert str(refused.value) == "the PostgreSQL server cannot be reached or refuses the login"
    assert refused.value.__context__ is None


def test_a_missing_table_is_named(postgresql_url):
    with pytest.raises(SetwiseError, match="has no table 'nothing here' that this login may see"):
        PostgresqlBackend(postgresql_url).reopened("nothing here")


def test_sparks_missing_sources_are_named(spark_session, tmp_path):
    from setwise.analytics.engines.connect import open_engine

    for missing in ("no_such_table", str(tmp_path / "missing.parquet")):
        with pytest.raises(SetwiseError) as raised:
            open_engine(missing, "spark")
        assert str(raised.value) == f"Spark finds no table or files {missing!r} that it can read"
        assert raised.value.__context__ is None
