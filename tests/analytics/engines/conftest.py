"""Every test that asks for `backend` runs once per engine."""

from pathlib import Path

import pytest

from tests.analytics.engines.backends import Backend, DuckDBBackend, PostgresqlBackend, SparkBackend


@pytest.fixture(params=["duckdb", "postgresql", "spark"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    match request.param:
        case "duckdb":
            return DuckDBBackend(tmp_path)
        case "postgresql":
            return PostgresqlBackend(request.getfixturevalue("postgresql_server").schema())
        case _:
            return SparkBackend(request.getfixturevalue("spark_session"), tmp_path)
