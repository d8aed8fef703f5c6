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


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return open_backend(request.param, request, tmp_path)


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark", "delta", "iceberg"])
def backend_or_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Return a backend, or one whose tables are lake tables, which can be read but not prepared."""
    return open_backend(request.param, request, tmp_path)


def open_backend(name: str, request: pytest.FixtureRequest, folder: Path) -> Backend:
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
