"""Every test that asks for `backend` runs once per engine."""

from pathlib import Path

import pytest

from setwise.analytics.engines.duckdb import query
from tests.analytics.engines.backends import (
    Backend,
    ClickHouseBackend,
    DuckDBBackend,
    LakeBackend,
    PostgresqlBackend,
    SparkBackend,
)


@pytest.fixture(autouse=True)
def small_tables_are_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables take either form, as large ones do."""
    monkeypatch.setattr(query, "UNPROBED_ROWS", 0)


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark", "delta", "iceberg"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Return an engine's backend, or one whose tables are lake tables that DuckDB reads.

    Modules about preparing and about how often rows repeat have a fixture of their own, without lake tables.
    """
    return open_backend(request.param, request, tmp_path)


def open_backend(name: str, request: pytest.FixtureRequest, folder: Path) -> Backend:
    """Return the backend of that name; its server is started when it is first asked for."""
    match name:
        case "duckdb":
            return DuckDBBackend(folder)
        case "delta" | "iceberg":
            pytest.importorskip("deltalake" if name == "delta" else "pyiceberg")
            return LakeBackend(folder, name)
        case "postgresql":
            return PostgresqlBackend(request.getfixturevalue("postgresql_server").schema())
        case "clickhouse":
            return ClickHouseBackend(request.getfixturevalue("clickhouse_server"))
        case _:
            return SparkBackend(request.getfixturevalue("spark_session"), folder)
