"""Every test that asks for `backend` runs once per engine."""

from pathlib import Path

import pytest

from setwise.analytics.engines.duckdb import query
from tests.analytics.engines.backends import Backend, ClickHouseBackend, DuckDBBackend, PostgresqlBackend, SparkBackend


@pytest.fixture(autouse=True)
def small_tables_are_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables take either form, as large ones do."""
    monkeypatch.setattr(query, "UNPROBED_ROWS", 0)


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    match request.param:
        case "duckdb":
            return DuckDBBackend(tmp_path)
        case "postgresql":
            return PostgresqlBackend(request.getfixturevalue("postgresql_server").schema())
        case "clickhouse":
            return ClickHouseBackend(request.getfixturevalue("clickhouse_server"))
        case _:
            return SparkBackend(request.getfixturevalue("spark_session"), tmp_path)
